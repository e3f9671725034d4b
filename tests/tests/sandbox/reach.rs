//! Network, sockets and other processes.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use stockade_spec::{Access, Network, Protection};

use crate::place::{Place, as_root_and_user, rule, run};

#[test]
fn a_server_of_the_host_cannot_be_reached() {
    as_root_and_user("reach::a_server_of_the_host_cannot_be_reached", || {
        let place = Place::new("network");
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        place.stops(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), || ());
        let mut spec = place.spec(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"));
        spec.network = Network::Host;
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        assert!(!ran.enforced.holds(Protection::Network));
    });
}

#[test]
fn the_private_loopback_works() {
    as_root_and_user("reach::the_private_loopback_works", || {
        let place = Place::new("loopback");
        place.works(
            "perl -MIO::Socket::INET -e '
                my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die $!;
                if (!fork) { my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\",
                    PeerPort => $s->sockport) or die $!; print $c \"hello\\n\"; exit }
                my $c = $s->accept; <$c> eq \"hello\\n\" or die'",
        );
    });
}

#[test]
fn sockets_of_the_host_cannot_be_reached() {
    as_root_and_user("reach::sockets_of_the_host_cannot_be_reached", || {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::SocketAddr;
        let place = Place::new("sockets");
        let name = format!("stockade-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();
        let path = std::path::Path::new("/tmp").join(&name);
        let _by_path = UnixListener::bind(&path).unwrap();
        let connect = |address: &str| {
            format!(
                "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 2; \
                 connect(S, pack_sockaddr_un({address})) or exit 1'"
            )
        };
        place.stops(&connect(&format!("\"\\0{name}\"")), || ());
        place.stops(&connect(&format!("\"{}\"", path.display())), || ());
        std::fs::remove_file(&path).unwrap();
        // Anywhere else on the disk too, by whatever name.
        let path = place.outside.join("socket");
        let _elsewhere = UnixListener::bind(&path).unwrap();
        std::os::unix::fs::symlink(&path, place.project.join("link")).unwrap();
        place.stops(&connect("\"../outside/socket\""), || ());
        place.stops(&connect("\"link\""), || ());
        let ran = run(&place.spec(&connect("\"link\""))).unwrap();
        let seen: Vec<_> = ran.violations.iter().map(|it| (&*it.kind, &*it.object)).collect();
        assert_eq!(seen, [("unix-socket", path.to_str().unwrap())]);
    });
}

#[test]
fn sockets_of_the_run_work() {
    as_root_and_user("reach::sockets_of_the_run_work", || {
        let place = Place::new("own-sockets");
        place.works(
            "perl -MIO::Socket::UNIX -e '
                for my $path (\"own.sock\", \"/tmp/own.sock\") {
                my $s = IO::Socket::UNIX->new(Listen => 1, Local => $path) or die $!;
                if (!fork) { my $c = IO::Socket::UNIX->new(Peer => $path) or die $!;
                    print $c \"hello\\n\"; exit }
                my $c = $s->accept; <$c> eq \"hello\\n\" or die }'",
        );
    });
}

/// Connects to the socket at `path`.
fn connect_to(path: &str) -> String {
    format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 2; \
         connect(S, pack_sockaddr_un(\"{path}\")) or exit 1'"
    )
}

#[test]
fn a_server_of_the_host_in_the_project_is_reached_only_when_it_is_named() {
    as_root_and_user(
        "reach::a_server_of_the_host_in_the_project_is_reached_only_when_it_is_named",
        || {
            let place = Place::new("inner-socket");
            let path = place.project.join("server");
            let _server = UnixListener::bind(&path).unwrap();
            let moved = format!("mv server s && {}; e=$?; mv s server; exit $e", connect_to("s"));
            let linked = format!("ln server l && {}; e=$?; rm l; exit $e", connect_to("l"));
            for script in [&connect_to("server"), &moved, &linked] {
                place.stops(script, || ());
            }
            let mut spec = place.spec(&connect_to("server"));
            let told = run(&spec).unwrap().violations;
            let told: Vec<_> = told.iter().map(|it| (&*it.kind, &*it.object)).collect();
            assert_eq!(told, [("unix-socket", path.to_str().unwrap())]);
            spec.files.sockets = vec![path];
            assert_eq!(run(&spec).unwrap().exit.code, Some(0));
        },
    );
}

#[test]
fn other_processes_can_be_neither_seen_nor_signalled_nor_traced() {
    as_root_and_user("reach::other_processes_can_be_neither_seen_nor_signalled_nor_traced", || {
        let place = Place::new("processes");
        let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = victim.id();
        for script in [
            format!("kill -0 {pid}"),
            format!("test -d /proc/{pid}"),
            format!("cat /proc/{pid}/environ"),
            format!("ls -l /proc/{pid}/cwd"),
            // PTRACE_SEIZE
            format!("perl -e 'syscall(101, 0x4206, {pid}, 0, 0) == 0 or exit 1'"),
        ] {
            place.stops(&script, || ());
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
    });
}

#[test]
fn shared_memory_of_the_host_is_not_there() {
    as_root_and_user("reach::shared_memory_of_the_host_is_not_there", || {
        let place = Place::new("ipc");
        let made = place.plain("ipcmk -M 4096 | sed 's/.*: //'");
        let id = made.text.trim().to_owned();
        place.stops(&format!("ipcs -m | awk '{{print $2}}' | grep -qx {id}"), || ());
        place.plain(&format!("ipcrm -m {id}"));
    });
}

#[test]
fn a_run_with_a_proxy_reaches_its_listeners_and_nothing_else() {
    as_root_and_user("reach::a_run_with_a_proxy_reaches_its_listeners_and_nothing_else", || {
        use std::io::{Read, Write};
        let place = Place::new("proxy");
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let outside = server.local_addr().unwrap().port();
        let mut spec = place.spec(&format!(
            "for port in 29128 29080; do exec 3<>/dev/tcp/127.0.0.1/$port || exit 2; head -c 5 <&3; \
             echo thanks >&3; exec 3>&-; done; exec 3<>/dev/tcp/127.0.0.1/{outside}"
        ));
        spec.network = Network::Proxy { http: 29128, socks: 29080 };
        let (mut child, enforced, mut output) = crate::place::start(&spec).unwrap();
        assert!(enforced.holds(Protection::Network) && enforced.holds(Protection::Loopback));
        let listeners = child.take_listeners().unwrap();
        assert!(child.take_listeners().is_none());
        for (listener, word) in [(listeners.http, "http\n"), (listeners.socks, "socks")] {
            let (mut stream, _) = TcpListener::from(listener).accept().unwrap();
            stream.write_all(word.as_bytes()).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert_eq!(said, "thanks\n");
        }
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        let (exit, _) = child.wait_with_violations().unwrap();
        assert!(text.starts_with("http\nsocks"), "{text}");
        assert_eq!(exit.code, Some(1), "{text}");
    });
}

#[test]
fn listeners_that_nobody_holds_refuse_at_once() {
    as_root_and_user("reach::listeners_that_nobody_holds_refuse_at_once", || {
        let place = Place::new("no-proxy");
        let mut spec = place.spec(
            "read line; exec 3<>/dev/tcp/127.0.0.1/29128 && exit 2; \
             perl -MIO::Socket::INET -e '
                IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:29128\") or die $!'",
        );
        spec.network = Network::Proxy { http: 29128, socks: 29080 };
        // Standard input is empty, so the command may be ahead of us: dropping first makes the order certain.
        let (reader, writer) = std::io::pipe().unwrap();
        let (input, go) = std::io::pipe().unwrap();
        let stdio = stockade_spec::Stdio {
            stdin: input.into(),
            stdout: writer.try_clone().unwrap().into(),
            stderr: writer.into(),
        };
        let (mut child, _) =
            stockade_sandbox::spawn(crate::place::launcher(), &spec, stdio).unwrap();
        drop(child.take_listeners());
        drop(go);
        let text = std::io::read_to_string(reader).unwrap();
        assert_eq!(child.wait().unwrap().code, Some(0), "{text}");
        assert!(text.contains("refused"), "{text}");
    });
}

#[test]
fn a_connection_past_the_proxy_is_refused_and_named() {
    as_root_and_user("reach::a_connection_past_the_proxy_is_refused_and_named", || {
        let place = Place::new("past-proxy");
        let connect = |kind: &str, address: &str, port: u16| {
            format!(
                "perl -MSocket -e 'socket(S, AF_INET, {kind}, 0) or exit 2; \
                 connect(S, pack_sockaddr_in({port}, inet_aton(\"{address}\"))) and exit 3; \
                 $! eq \"Network is unreachable\" or die $!'"
            )
        };
        let mut spec = place.spec(&format!(
            "{}; {}; {}",
            connect("SOCK_STREAM", "192.0.2.1", 443),
            connect("SOCK_STREAM", "192.0.2.1", 443),
            connect("SOCK_DGRAM", "192.0.2.53", 53),
        ));
        spec.network = Network::Proxy { http: 29128, socks: 29080 };
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        let seen: Vec<_> =
            ran.violations.iter().map(|it| (&*it.kind, &*it.object, it.count)).collect();
        assert_eq!(seen, [("network", "192.0.2.1:443", 2), ("network", "192.0.2.53:53", 1)]);
    });
}

#[test]
fn a_socket_that_is_named_can_be_reached_and_its_neighbour_cannot() {
    as_root_and_user(
        "reach::a_socket_that_is_named_can_be_reached_and_its_neighbour_cannot",
        || {
            let place = Place::new("named-socket");
            let folder = std::path::Path::new("/tmp").join(format!(
                "stockade-named-{}-{}",
                std::process::id(),
                crate::place::is_root()
            ));
            std::fs::create_dir_all(&folder).unwrap();
            let bound = |path: &std::path::Path| UnixListener::bind(path).unwrap();
            let (hidden, open) = (folder.join("hidden"), place.outside.join("open"));
            let neighbour = place.outside.join("neighbour");
            let _servers = [bound(&hidden), bound(&open), bound(&neighbour)];
            let connect = |path: &std::path::Path| {
                format!(
                    "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 2; \
                 connect(S, pack_sockaddr_un(\"{}\")) or exit 1'",
                    path.display()
                )
            };
            for (named, wanted, expected) in [
                (&hidden, &hidden, 0),
                (&open, &open, 0),
                (&open, &neighbour, 1),
                (&open, &hidden, 1),
            ] {
                let mut spec = place.spec(&connect(wanted));
                spec.files.sockets = vec![named.clone()];
                spec.files.rules.push(rule(named, Access::Read));
                let ran = run(&spec).unwrap();
                assert_eq!(ran.exit.code, Some(expected), "{} {}", wanted.display(), ran.text);
            }
            std::fs::remove_dir_all(&folder).unwrap();
        },
    );
}
