//! Tasks that listen: their ports, and the way to them from the host, for as long as they run.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, is_root};

/// A server for one port that answers each connection with a word and goes on.
const SERVER: &str = "python3 -c \"
import socket, sys
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('127.0.0.1', int(sys.argv[1]))); server.listen(); print('ready', flush=True)
while True:
    peer, _ = server.accept(); peer.sendall(b'hello ' + peer.recv(100)); peer.close()
\"";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a server as a task of a session, waits until it is ready, and returns its ID.
fn serve(place: &Place, session: &str, port: u16) -> String {
    let line = format!("{SERVER} {port}");
    let arguments = ["run", "--quiet", "--background", "--session", session, "--", &line];
    let started = place.output(arguments);
    assert!(started.status.success(), "{}", text(&started.stderr));
    let id = text(&started.stdout).trim().to_owned();
    let end = Instant::now() + Duration::from_secs(60);
    while !text(&place.output(["tasks", "output", &id, "--offset", "0"]).stdout).contains("ready") {
        assert!(Instant::now() < end, "the server never listens");
        std::thread::yield_now();
    }
    id
}

fn ports(place: &Place, id: &str) -> Value {
    let shown = place.output(["tasks", "show", id, "--json"]);
    let object: Value = serde_json::from_slice(&shown.stdout).expect("an object");
    object["task"].get("ports").cloned().unwrap_or(json!([]))
}

fn ask(address: &str, word: &str) -> std::io::Result<String> {
    let mut peer = TcpStream::connect(address)?;
    peer.write_all(word.as_bytes())?;
    let mut answer = String::new();
    peer.read_to_string(&mut answer)?;
    Ok(answer)
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        stockade_tests::skip("task_ports", "python3 is not installed");
    }
    has
}

#[test]
fn a_task_shows_its_port_and_a_forward_leads_there_until_it_ends() {
    if !has_python() {
        return;
    }
    let place = Place::new("tp-open");
    let _gateway = Gateway::start(&place);
    let id = serve(&place, "a", 48_123);
    assert_eq!(ports(&place, &id), json!([48_123]));
    let listed = text(&place.output(["tasks", "list"]).stdout);
    assert!(
        listed.lines().any(|line| line.starts_with(&id) && line.contains(" 48123 ")),
        "{listed}"
    );
    // Nothing of the host leads there by itself.
    assert!(ask("127.0.0.1:48123", "x").is_err());
    let opened = place.output(["tasks", "open", &id]);
    assert_eq!(
        text(&opened.stderr),
        "stockade: forwards to port 48123 of the task until the task ends\n"
    );
    let address = text(&opened.stdout).trim().to_owned();
    assert_eq!(ask(&address, "one").expect("an answer"), "hello one");
    assert_eq!(ask(&address, "two").expect("an answer"), "hello two");
    assert_each_is_recorded(&place, &id);
    assert!(place.output(["tasks", "stop", &id]).status.success());
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < end, "the forward outlives its task");
        std::thread::yield_now();
    }
    assert_eq!(ports(&place, &id), json!([]));
}

/// Two connections through a forward have a record each before they are made, and one when they are over.
#[test]
fn an_ordinary_user_opens_the_port_of_a_task() {
    if !has_python() || !is_root() {
        stockade_tests::skip("an_ordinary_user_opens_the_port_of_a_task", "needs root");
        return;
    }
    let place = Place::new("tp-user");
    let as_user = |arguments: &[&str]| place.stockade_as(65_534, arguments);
    let _gateway = Gateway::start_with(&place, as_user(&["serve"]));
    let line = format!("{SERVER} 48123");
    let output = |arguments: &[&str]| as_user(arguments).output().expect("it starts");
    let started = output(&["run", "--quiet", "--background", "--", &line]);
    let id = text(&started.stdout).trim().to_owned();
    let end = Instant::now() + Duration::from_secs(60);
    while !text(&output(&["tasks", "output", &id, "--offset", "0"]).stdout).contains("ready") {
        assert!(Instant::now() < end, "the server never listens: {}", text(&started.stderr));
        std::thread::yield_now();
    }
    let opened = output(&["tasks", "open", &id]);
    assert_eq!(opened.status.code(), Some(0), "{}", text(&opened.stderr));
    let address = text(&opened.stdout).trim().to_owned();
    assert_eq!(ask(&address, "you").expect("an answer"), "hello you");
    assert_eq!(output(&["tasks", "stop", &id]).status.code(), Some(0));
}

fn assert_each_is_recorded(place: &Place, id: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let found = loop {
        let output = place.output(["audit", "tail", "--json", "-n", "9", "--kind", "connection"]);
        let lines = text(&output.stdout);
        let found: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
        if found.len() == 4 {
            break found;
        }
        assert!(Instant::now() < end && found.len() < 4, "{lines}");
        std::thread::yield_now();
    };
    for record in &found {
        assert_eq!((&record["ref"], &record["way"]), (&json!(id), &json!("forward")), "{record}");
        assert_eq!(record["to"]["port"], 48_123, "{record}");
    }
    let carried: Vec<&Value> =
        found.iter().filter(|it| it["action"] == "closed").map(|it| &it["bytes"]).collect();
    assert_eq!(carried, [&json!({"sent": 3, "received": 9}); 2]);
}

#[test]
fn only_ports_of_the_task_itself_are_opened() {
    if !has_python() {
        return;
    }
    let place = Place::new("tp-other");
    let _gateway = Gateway::start(&place);
    let (server, other) = (serve(&place, "a", 48_124), serve(&place, "a", 48_125));
    let idle =
        place.output(["run", "--quiet", "--background", "--session", "a", "--", "sleep 1000"]);
    let idle = text(&idle.stdout).trim().to_owned();
    let refused = |arguments: &[&str]| {
        let output = place.output([&["tasks", "open"], arguments].concat());
        (output.status.code(), text(&output.stderr).lines().next().unwrap_or_default().to_owned())
    };
    // Both are in one network; still each task has its own port alone.
    assert_eq!(
        refused(&[&server, "--port", "48125"]),
        (Some(122), format!("stockade: task `{server}` does not listen on port 48125"))
    );
    assert_eq!(
        refused(&[&idle]),
        (Some(122), format!("stockade: task `{idle}` listens on no TCP port"))
    );
    assert_eq!(ports(&place, &other), json!([48_125]));
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = held.local_addr().expect("its address").port().to_string();
    let (status, told) = refused(&[&server, "--listen", &taken]);
    assert_eq!(status, Some(122));
    assert!(told.starts_with(&format!("stockade: cannot listen on 127.0.0.1:{taken}: ")), "{told}");
    assert!(place.output(["tasks", "stop", &idle]).status.success());
    let (status, told) = refused(&[&idle]);
    assert_eq!((status, told), (Some(122), format!("stockade: task `{idle}` has ended")));
}

#[test]
fn the_port_of_a_session_is_closed_to_another_session_and_to_the_forward_of_a_command() {
    if !has_python() {
        return;
    }
    let place = Place::new("tp-session");
    let _gateway = Gateway::start(&place);
    let id = serve(&place, "a", 48_126);
    let opened = place.output(["tasks", "open", &id]);
    let address = text(&opened.stdout).trim().to_owned();
    let port = address.rsplit_once(':').expect("an address").1.to_owned();
    let connect = |session: &str, port: &str| {
        let line = format!(
            "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('in')\""
        );
        let output = place.output(["run", "--quiet", "--session", session, "--", &line]);
        (output.status.success(), text(&output.stdout))
    };
    assert_eq!(connect("a", "48126"), (true, "in\n".to_owned()));
    assert_eq!(connect("b", "48126"), (false, String::new()));
    // The forward is the host's: a sandboxed command reaches it no more than any other port of the host.
    assert_eq!(connect("b", &port), (false, String::new()));
    assert_eq!(ask(&address, "host").expect("an answer"), "hello host");
}

#[test]
fn a_second_start_on_a_port_names_the_task_that_has_it() {
    if !has_python() {
        return;
    }
    let place = Place::new("tp-busy");
    let _gateway = Gateway::start(&place);
    let id = serve(&place, "a", 48_127);
    let again = |session: &str, limit: &str| {
        let line = "python3 -m http.server 48127 --bind 127.0.0.1 2>&1 || { echo port 48127 is taken; exit 9; }";
        text(&place.output(["run", "--session", session, "--timeout", limit, "--", line]).stderr)
    };
    let told = again("a", "60s");
    let note = format!("stockade: port 48127 is in use by task {id}: python3 -c");
    let end = format!("; to free it: stockade tasks stop {id}");
    assert!(told.lines().any(|line| line.starts_with(&note) && line.ends_with(&end)), "{told}");
    // A program that does not say which port it was had it from its command.
    let output = place.output(["run", "--session", "a", "--", "python3 -m http.server 48127"]);
    let told = text(&output.stderr);
    assert!(told.lines().any(|line| line.starts_with(&note) && line.ends_with(&end)), "{told}");
    // A task in the background says it as the reason of its end.
    let line = "python3 -m http.server 48127 --bind 127.0.0.1";
    let started = place.output(["run", "--quiet", "--background", "--session", "a", "--", line]);
    let second = text(&started.stdout).trim().to_owned();
    let waited = place.output(["tasks", "wait", &second, "--json"]);
    let ended: Value = serde_json::from_slice(&waited.stdout).expect("an answer");
    let reason = ended["task"]["reason"].as_str().unwrap_or_else(|| panic!("{ended}"));
    let note = note.strip_prefix("stockade: ").expect("a prefix");
    assert!(reason.starts_with(&format!("exit status 1; {note}")), "{reason}");
    assert!(reason.ends_with(&end), "{reason}");
    // In another session the port is free.
    assert!(!again("b", "2s").contains(&id));
}

#[test]
fn a_command_knows_its_session_and_its_task_and_a_trace_goes_on() {
    let place = Place::new("tp-names");
    let line = "echo $STOCKADE $STOCKADE_SESSION_ID ${AI_AGENT-none} $TRACEPARENT";
    let mut command = place.stockade(["run", "--session", "s 1", "--", line]);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let output = command.env("TRACEPARENT", trace).output().expect("it starts");
    assert_eq!(text(&output.stdout), format!("1 s 1 none {trace}\n"), "{}", text(&output.stderr));
    let _gateway = Gateway::start(&place);
    // The caller's own is that of another task.
    let mut start = place.stockade(["run", "--background", "--quiet", "--", "env"]);
    let started = start.env("STOCKADE_TASK_ID", "another").output().expect("it starts");
    let id = text(&started.stdout).trim().to_owned();
    assert!(place.output(["tasks", "wait", &id]).status.success());
    let told = text(&place.output(["tasks", "output", &id]).stdout);
    let own: Vec<&str> = told.lines().filter(|it| it.starts_with("STOCKADE_TASK_ID=")).collect();
    assert_eq!(own, [format!("STOCKADE_TASK_ID={id}")]);
}
