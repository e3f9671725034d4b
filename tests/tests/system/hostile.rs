//! A listener that is killed or taken over: it changes nothing, and no user is taken for another.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::machine::{Machine, done, told};
use super::{POLICY, kill, until};

/// Attacks that need a connection of a user, and whether the keeper hears the listener afterwards.
const WITH_A_CLIENT: [(&str, bool); 9] = [
    ("none", true),
    ("twice", true),
    ("other-user", false),
    ("other-process", false),
    ("ticket", false),
    ("half", false),
    ("long", false),
    ("kind", false),
    ("many-descriptors", false),
];

/// Attacks without one.
const ALONE: [(&str, bool); 8] = [
    ("pair", false),
    ("own", true),
    ("listening", false),
    ("named-pair", true),
    ("file", false),
    ("folder", false),
    ("without", false),
    ("flood", false),
];

/// Ends the listener for good, so that another program can take its place.
fn end_listener(machine: &Machine) {
    machine.root_does("kill $(cat /run/stockade/listener.loop); rm /run/stockade/listener.loop");
    machine.processes("system-listener").into_iter().for_each(kill);
    until("the listener is gone", || machine.processes("system-listener").is_empty());
}

/// Starts a hostile one; it listens when this returns.
fn hostile(machine: &Machine, words: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let script = include_str!("hostile.py");
    let words = [&["python3", "-c", script], words].concat();
    let mut child = machine.root(&words).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    assert_eq!(line(&mut said), "ready");
    (child, said)
}

fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    line.trim().to_owned()
}

/// The uids for whom something was decided, and the text of each.
fn decided(machine: &Machine) -> Vec<(u64, String)> {
    let records = machine.records();
    let decisions = records.iter().filter(|it| it["kind"] == "decision");
    let uid = |it: &Value| it.pointer("/caller/uid").and_then(Value::as_u64).unwrap_or_default();
    let text = |it: &Value| it["request"]["command"].as_str().unwrap_or_default().to_owned();
    decisions.map(|it| (uid(it), text(it))).collect()
}

fn has_python(machine: &Machine) -> bool {
    let found = machine.root(&["python3", "-c", ""]).output();
    let found = found.is_ok_and(|it| it.status.success());
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

#[test]
fn a_listener_that_was_taken_over_makes_no_user_another_and_ends_nothing() {
    let Some(machine) = Machine::new() else { return };
    if !has_python(&machine) {
        return;
    }
    machine.install(POLICY);
    // A command that ran before still runs afterwards.
    let mut command = machine.user("cay", &["stockade", "run", "--", "touch made; sleep 1000"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a command runs", || machine.root_does("ls /home/cay/project").contains("made"));
    let keeper = machine.processes("system-keeper");
    end_listener(&machine);
    for (attack, is_heard) in WITH_A_CLIENT {
        let (mut child, mut said) = hostile(&machine, &[attack]);
        let output = machine.run("ada", &format!("echo through-{attack}"));
        assert_eq!(line(&mut said), if is_heard { "heard" } else { "hung up" }, "{attack}");
        let ran = output.status.success();
        assert!(attack == "twice" || ran == is_heard, "{attack}: {}", told(&output));
        child.wait().unwrap();
    }
    for (attack, is_heard) in ALONE {
        let (mut child, mut said) = hostile(&machine, &[attack]);
        assert_eq!(line(&mut said), if is_heard { "heard" } else { "hung up" }, "{attack}");
        child.wait().unwrap();
    }
    // A service of a user that sends back what it is sent: his process would be taken for the client.
    let echo = "import os,socket as s; l=s.socket(s.AF_UNIX); l.bind('/tmp/echo-of-ada'); os.chmod('/tmp/echo-of-ada', 0o777); l.listen(); \
        print('ready', flush=True); c,_=l.accept(); [c.sendall(b) for b in iter(lambda: c.recv(4096), b'')]";
    machine.root_does("rm -f /tmp/echo-of-ada");
    let mut server = machine.user("ada", &["python3", "-c", echo]);
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = BufReader::new(server.stdout.take().unwrap());
    assert_eq!(line(&mut ready), "ready");
    let (mut child, mut said) = hostile(&machine, &["end-of-a-client", "/tmp/echo-of-ada"]);
    assert_eq!(line(&mut said), "hung up");
    child.wait().unwrap();
    let _ = server.kill();
    let _ = server.wait();
    machine.root_does("rm -f /tmp/echo-of-ada");
    // An answer of the listener's own is none.
    let call = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"session_id":"s","cwd":"/home/ada/project"}"#;
    let hook = format!("printf '%s' '{call}' | stockade hook claude");
    for words in [vec!["stockade", "run", "--", "echo through-answer"], vec!["sh", "-c", &hook]] {
        let (mut child, mut said) = hostile(&machine, &["answer"]);
        let text = told(&machine.user("ada", &words).output().unwrap());
        assert!(
            text.contains("another process answered in the place of this user's gateway"),
            "{text}"
        );
        assert!(!text.contains(r#""permissionDecision":"allow""#), "{text}");
        assert_eq!(line(&mut said), "heard");
        child.wait().unwrap();
    }
    // Two users at once: the words of one with the connection of the other.
    let (mut child, mut said) = hostile(&machine, &["two-connections"]);
    let mut ada = machine.user("ada", &["stockade", "run", "--", "echo through-ada"]);
    let mut ada = ada.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let bob = machine.run("bob", "echo through-bob");
    assert_eq!(line(&mut said), "hung up");
    assert!(!bob.status.success() && !ada.wait().unwrap().success());
    child.wait().unwrap();
    // Only what was passed on truly was judged, for the user whose connection it was.
    let mut found = decided(&machine);
    found.retain(|(uid, _)| *uid != 2003);
    found.dedup();
    let of_ada = |attack: &str| (2001, format!("echo through-{attack}"));
    found.retain(|it| *it != of_ada("twice"));
    assert_eq!(found, [of_ada("none")]);
    assert!(running.try_wait().unwrap().is_none(), "the command of another user ended");
    assert_eq!(machine.processes("system-keeper"), keeper, "the keeper is the same");
    // With its own listener the service goes on.
    machine.root_does("rm -f /run/stockade/listener.pid; /etc/init.d/stockade start");
    for user in ["ada", "bob", "cay"] {
        until("a command runs", || machine.run(user, "true").status.success());
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let verify = [
        "stockade",
        "audit",
        "verify",
        "/var/log/stockade",
        "--state-dir",
        "/var/lib/stockade/log",
    ];
    done(machine.root(&verify).output());
}

#[test]
fn a_client_that_names_its_end_harms_itself_alone() {
    let Some(machine) = Machine::new() else { return };
    if !has_python(&machine) {
        return;
    }
    machine.install(POLICY);
    done(Ok(machine.run("bob", "true")));
    let service = ["system-listener", "system-keeper"].map(|role| machine.processes(role));
    // Before it connects, and in the moment after.
    let names = "import socket as s\nfor turn in range(200):\n  c=s.socket(s.AF_UNIX)\n  \
        turn % 2 and c.bind('\\0of-ada-%d' % turn)\n  c.connect('/run/stockade/gateway.sock')\n  \
        turn % 2 or c.bind('\\0of-ada-%d' % turn)\n  c.settimeout(20)\n  turn % 2 and c.recv(1)\n  c.close()";
    done(machine.user("ada", &["python3", "-c", names]).output());
    done(Ok(machine.run("bob", "true")));
    done(Ok(machine.run("ada", "true")));
    assert_eq!(service, ["system-listener", "system-keeper"].map(|role| machine.processes(role)));
}

#[test]
fn nobody_but_the_listener_speaks_to_the_keeper() {
    let Some(machine) = Machine::new() else { return };
    if !has_python(&machine) {
        return;
    }
    machine.install(POLICY);
    let dial = "import socket as s; c=s.socket(s.AF_UNIX, s.SOCK_SEQPACKET); c.connect('/run/stockade/keeper.sock'); \
        c.settimeout(5); print('closed' if c.recv(1) == b'' else 'heard')";
    // Neither an ordinary user nor the recorder's reaches the socket; root does, and is not heard.
    for user in ["2001", "stockade-log"] {
        let id = done(machine.root(&["id", "-u", user]).output());
        let words = ["setpriv", "--reuid", id.trim(), "--clear-groups", "python3", "-c", dial];
        let output = machine.root(&words).output().unwrap();
        assert!(told(&output).contains("PermissionError"), "{}", told(&output));
    }
    assert_eq!(done(machine.root(&["python3", "-c", dial]).output()), "closed\n");
    done(Ok(machine.run("ada", "true")));
}

#[test]
fn a_user_with_too_many_connections_is_told_so_and_another_is_served() {
    let Some(machine) = Machine::new() else { return };
    if !has_python(&machine) {
        return;
    }
    machine.install(POLICY);
    let many = "import socket as s, sys\nheld = []\nfor _ in range(300):\n  c=s.socket(s.AF_UNIX); c.connect('/run/stockade/gateway.sock'); held.append(c)\n\
        held[-1].settimeout(30)\nprint(held[-1].recv(1000).decode(), flush=True)\nsys.stdin.read()";
    let mut command = machine.user("ada", &["python3", "-c", many]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let refused: Value = serde_json::from_str(&line(&mut said)).expect("a message");
    let sentence = "this user has 256 connections already";
    assert_eq!(refused["error"]["message"], sentence);
    let output = machine.run("ada", "true");
    assert_eq!(output.status.code(), Some(122));
    assert!(told(&output).contains(sentence), "{}", told(&output));
    done(Ok(machine.run("bob", "true")));
    drop(child.stdin.take());
    child.wait().unwrap();
    until("there is room again", || machine.run("ada", "true").status.success());
}

#[test]
fn users_who_come_and_go_without_a_pause_leave_the_listener_its_descriptors() {
    let Some(machine) = Machine::new() else { return };
    machine.root_does(&format!("printf '%s' '{POLICY}' > /etc/policy.json"));
    // Every process of the service has so many descriptors, and none may have more.
    let few = ["prlimit", "--nofile=64:64", "setpriv", "--bounding-set", "-sys_resource"];
    let install = ["stockade", "install", "--system", "--manager", "script"];
    let policy = ["--policy", "/etc/policy.json"];
    done(machine.root(&[&few[..], &install, &policy].concat()).output());
    done(Ok(machine.run("ada", "true")));
    let listener = machine.processes("system-listener");
    // More calls than there are descriptors, each at once after the one before.
    let calls = "for call in $(seq 100); do stockade run -- true || exit; done";
    done(machine.user("ada", &["sh", "-c", calls]).output());
    assert_eq!(machine.processes("system-listener"), listener);
}
