//! Network, sockets and other processes.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use stockade_sandbox::{Network, Protection};

use crate::place::{Place, as_root_and_user, run};

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
        // Pid 1 is ours: it can be neither ended nor traced nor looked into.
        place.works(
            "! cat /proc/1/environ 2>/dev/null && ! ls /proc/1/fd 2>/dev/null && kill -9 1; kill -9 1; \
             ! perl -e 'syscall(101, 0x4206, 1, 0, 0) == 0 or exit 1'",
        );
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
