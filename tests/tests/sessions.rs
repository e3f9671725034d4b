//! The network of a session: its commands see each other's servers, and nobody else does. Through a gateway that stays, as root
//! and as an ordinary user.
#![cfg(target_os = "linux")]

#[path = "sessions/agents.rs"]
mod agents;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, is_root};

/// A user without any rights of root.
const ORDINARY: u32 = 65534;

/// Serves at the port that it is given until its input ends; each connection gets one line.
const SERVER: &str = r#"
use IO::Socket::INET; use IO::Select;
my $server = IO::Socket::INET->new(Listen => 5, ReuseAddr => 1, LocalAddr => "127.0.0.1:$ARGV[0]") or die "$@";
$| = 1; print "ready\n";
my $select = IO::Select->new($server, \*STDIN);
while (1) {
    for my $from ($select->can_read) {
        exit if $from == \*STDIN;
        my $client = $server->accept or next;
        print $client "served\n"; close $client;
    }
}
"#;

/// Prints what an address says first, or why nobody is there.
const CLIENT: &str = r#"
use IO::Socket::INET;
my $server = IO::Socket::INET->new(PeerAddr => $ARGV[0]);
print $server ? scalar <$server> : "none: $!\n";
"#;

/// Asks the proxy at an address for a URL, and prints the first line of the answer.
const THROUGH: &str = r#"
use IO::Socket::INET;
my $proxy = IO::Socket::INET->new(PeerAddr => $ARGV[0]) or do { print "none: $!\n"; exit };
$ARGV[1] =~ m{//([^/]*)}; print $proxy "GET $ARGV[1] HTTP/1.1\r\nHost: $1\r\n\r\n";
print scalar <$proxy>;
"#;

/// Prints where its own proxy listens, and waits until its input ends.
const HOLD: &str = r#"
open my $table, '<', '/proc/net/tcp' or die $!;
for (<$table>) {
    next unless /^\s*\d+: ([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2}):71C8 \S+ 0A/;
    $| = 1; print join('.', map { hex } $4, $3, $2, $1), ":29128\n";
}
1 while <STDIN>;
"#;

struct Session {
    place: Place,
    /// None for the user of the test.
    uid: Option<u32>,
    /// Ends with the test; without it each call is its own.
    gateway: Option<Gateway>,
}

/// Does `test` as the user of the tests, and if that is root, as an ordinary one as well.
fn as_root_and_user(name: &str, test: fn(&Session)) {
    let ordinary = is_root().then_some(Some(ORDINARY));
    for uid in [None].into_iter().chain(ordinary) {
        let place = Place::new(name);
        let scripts =
            [("server", SERVER), ("client", CLIENT), ("through", THROUGH), ("hold", HOLD)];
        for (script, text) in scripts {
            place.write(&format!("project/{script}.pl"), text);
        }
        let gateway = Gateway::start_with(&place, command(&place, uid, &["serve"]));
        test(&Session { place, uid, gateway: Some(gateway) });
    }
}

fn command(place: &Place, uid: Option<u32>, arguments: &[&str]) -> Command {
    match uid {
        Some(uid) => place.stockade_as(uid, arguments),
        None => place.stockade(arguments),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Session {
    fn command(&self, options: &[&str], line: &str) -> Command {
        let arguments = [&["run"], options, &["--", line]].concat();
        command(&self.place, self.uid, &arguments)
    }

    fn output(&self, options: &[&str], line: &str) -> Output {
        self.command(options, line).output().expect("stockade")
    }

    /// Returns the output of `line`.
    fn said(&self, options: &[&str], line: &str) -> String {
        let output = self.output(options, line);
        text(&output.stdout) + &text(&output.stderr)
    }

    fn object(&self, options: &[&str], line: &str) -> Value {
        let output = self.output(&[options, &["--json"]].concat(), line);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Starts `line`, and waits until it says that it is ready.
    fn background(&self, options: &[&str], line: &str) -> Background {
        Background::of(self.command(options, line))
    }
}

/// A command that runs until it is told to end.
struct Background {
    child: Child,
    said: BufReader<ChildStdout>,
    first: String,
}

impl Background {
    /// Starts `command`, and waits until it says that it is ready.
    fn of(mut command: Command) -> Background {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut first = String::new();
        said.read_line(&mut first).expect("a line");
        Background { child, said, first: first.trim().to_owned() }
    }

    /// Ends its input and waits for it; returns what it said further.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("its output");
        self.child.wait().expect("its end");
        rest
    }
}

/// Returns a port at which nobody on the host listens, with the socket that keeps others from it.
fn free_port() -> (u16, TcpListener) {
    let flags = SocketFlags::CLOEXEC;
    let held = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    rustix::net::bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The socket has a port, and does not listen.
    let held = TcpListener::from(held);
    (held.local_addr().unwrap().port(), held)
}

const ONE: &[&str] = &["--session", "one"];
const TWO: &[&str] = &["--session", "two"];
const NOBODY: &str = "none: Connection refused\n";

#[test]
fn a_server_of_a_session_is_there_for_its_next_command_and_for_nobody_else() {
    as_root_and_user("session-server", |session| {
        let (port, _held) = free_port();
        let ask = format!("perl client.pl 127.0.0.1:{port}");
        // As a task that goes on while other commands come and go.
        let server = session.background(ONE, &format!("perl server.pl {port}"));
        assert_eq!(server.first, "ready");
        for _ in 0..6 {
            assert_eq!(session.said(ONE, &ask), "served\n");
        }
        assert_eq!(session.said(TWO, &ask), NOBODY, "another session");
        assert_eq!(session.said(&[], &ask), NOBODY, "no session");
        let state = session.place.root.join("other");
        let one_shot = [ONE, &["--no-daemon", "--state-dir", state.to_str().unwrap()]].concat();
        assert_eq!(session.said(&one_shot, &ask), NOBODY, "a gateway of its own");
        assert_eq!(session.said(ONE, &ask), "served\n");
        let outside = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        assert!(outside.is_err(), "the host reaches it");
        // The same port is free for everybody else.
        let other = session.background(TWO, &format!("perl server.pl {port}"));
        assert_eq!((&*other.first, &*session.said(TWO, &ask)), ("ready", "served\n"));
        assert_eq!((server.end(), other.end()), (String::new(), String::new()));
        assert_eq!(session.said(ONE, &ask), NOBODY, "it ended");
    });
}

#[test]
fn a_server_of_the_host_is_not_there_in_a_session() {
    as_root_and_user("session-host", |session| {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it is there on the host");
        server.accept().unwrap();
        let ask = format!("perl client.pl 127.0.0.1:{port}");
        for options in [ONE, ONE, TWO, &[]] {
            let said = session.said(options, &ask);
            // The command learns nothing; the person is told that a server of the host was meant.
            let told = format!("stockade: refused connect (network) 127.0.0.1:{port} by ");
            let rest = said.strip_prefix(NOBODY);
            assert!(rest.is_some_and(|rest| rest.starts_with(&told)), "{said}");
        }
        server.set_nonblocking(true).unwrap();
        assert!(server.accept().is_err(), "somebody came");
    });
}

/// Answers every request on the host's loopback, and returns the URL.
fn host_server() -> String {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://127.0.0.1:{}/a", server.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]); // whatever is asked
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    url
}

#[test]
fn a_command_cannot_use_the_proxy_of_another_one_of_its_session() {
    as_root_and_user("session-proxy", |session| {
        let url = host_server();
        let host = url.trim_start_matches("http://").trim_end_matches("/a");
        let allow = json!({"sandbox": {"network": {"allowedDomains": [host]}}});
        let off = json!({"sandbox": {"network": {"enabled": false}}});
        session.place.write("allow.json", &allow.to_string());
        session.place.write("off.json", &off.to_string());
        let [allow, off] = ["allow.json", "off.json"].map(|it| session.place.root.join(it));
        let [allow, off] = [&allow, &off].map(|it| it.to_str().unwrap());
        let allowed = [ONE, &["--settings", allow]].concat();
        let without = [ONE, &["--settings", off]].concat();
        let through = |proxy: &str| format!("perl through.pl {proxy} {url}");

        // A command that may reach the host may do so at both addresses of its own proxy.
        let holds = session.background(&allowed, "perl hold.pl");
        let other = &holds.first;
        assert!(other.starts_with("127.") && other.ends_with(":29128"), "{other}");
        assert_eq!(session.said(&allowed, &through("127.0.0.1:29128")), "HTTP/1.1 200 OK\r\n");
        let own =
            format!("perl hold.pl < /dev/null > at; perl through.pl $(grep -v {other} at) {url}");
        session.place.write("project/own.sh", &own);
        assert_eq!(session.said(&allowed, "bash own.sh"), "HTTP/1.1 200 OK\r\n");

        // A command that may not has a proxy of its own that says so, and does not reach the other one.
        let refused = session.object(ONE, &through("127.0.0.1:29128"));
        assert_eq!(refused["output"], "HTTP/1.1 403 Refused by stockade\r\n", "{refused}");
        assert_eq!(refused["violations"][0]["source"], "proxy");
        for options in [ONE, &without] {
            let refused = session.object(options, &through(other));
            assert_eq!(refused["output"], NOBODY, "{refused}");
            let [violation] = refused["violations"].as_array().unwrap().as_slice() else {
                panic!("{refused}")
            };
            let said =
                ["kind", "syscall", "path_or_host", "rule", "source"].map(|it| &violation[it]);
            let rule = "builtin: proxies of other commands";
            assert_eq!(
                said,
                ["network", "connect", other, rule, "supervisor"].map(Value::from).each_ref()
            );
        }
        assert_eq!(session.said(&without, &through("127.0.0.1:29128")), NOBODY);
        // Nor can it be another's proxy.
        let bind = session.object(ONE, "perl server.pl 29128");
        assert_eq!(bind["violations"][0]["rule"], "builtin: proxies of other commands", "{bind}");
        assert_eq!(bind["violations"][0]["syscall"], "bind");
        // The proxy goes on for the command that had it.
        assert_eq!(session.said(&allowed, &through("127.0.0.1:29128")), "HTTP/1.1 200 OK\r\n");
        assert_eq!(holds.end(), "");
    });
}

#[test]
fn abstract_names_are_those_of_one_command() {
    as_root_and_user("session-abstract", |session| {
        let listen = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un(\"\\0n\")) or die $!; \
                      listen(S, 5); $| = 1; print \"ready\\n\"; ";
        let connect = "use Socket; socket(C, AF_UNIX, SOCK_STREAM, 0); \
                       print connect(C, pack_sockaddr_un(\"\\0n\")) ? \"there\\n\" : \"none: $!\\n\";";
        session.place.write("project/listen.pl", &format!("{listen} 1 while <STDIN>;"));
        session.place.write("project/connect.pl", connect);
        session.place.write("project/both.pl", &format!("{listen} {connect}"));
        let server = session.background(ONE, "perl listen.pl");
        assert_eq!(server.first, "ready");
        assert_eq!(session.said(ONE, "perl connect.pl"), NOBODY);
        server.end();
        assert_eq!(session.said(ONE, "perl both.pl"), "ready\nthere\n", "its own");
    });
}

#[test]
fn a_session_that_ended_begins_without_its_servers() {
    as_root_and_user("session-end", |session| {
        let (port, _held) = free_port();
        let ask = format!("perl client.pl 127.0.0.1:{port}");
        let server = session.background(ONE, &format!("perl server.pl {port}"));
        assert_eq!(session.said(ONE, &ask), "served\n");
        let event = json!({"hook_event_name": "SessionEnd", "session_id": "one", "cwd": session.place.project(),
            "reason": "other"});
        let mut hook = command(&session.place, session.uid, &["hook", "claude"]);
        let mut hook = hook.stdin(Stdio::piped()).spawn().unwrap();
        hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
        assert_eq!(session.said(ONE, &ask), NOBODY);
        server.end();
    });
}
