//! Effect of a person's answer, and the fate of a call that was given up before its command started.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::{Gateway, Peer};
use stockade_tests::{Place, stockade, until, write_program};

/// Asks for a command and returns the connection where its question or its outcome comes next.
fn ask_for(gateway: &Gateway, place: &Place, command: Value) -> Peer {
    let mut peer = gateway.greet();
    give(&mut peer, place, command);
    peer
}

/// Asks for a command on a connection.
fn give(peer: &mut Peer, place: &Place, command: Value) {
    let environment = json!([["HOME", place.home()], ["PATH", "/usr/bin:/bin"]]);
    let context = json!({"settings": [], "allowed_tools": [], "disallowed_tools": [], "import": [],
        "additional_directories": [], "environment": environment, "door": "run", "interactive": true});
    let request = json!({"command": command, "cwd": place.project(), "background": false,
        "pty": false, "unsandboxed": false, "stdin": false, "context": context});
    peer.request("run", request);
}

fn settings(place: &Place, text: &str) {
    place.write("home/.config/stockade/settings.json", text);
}

#[test]
fn a_yes_is_no_longer_one_when_settings_or_links_changed_since_the_question() {
    let place = Place::new("since");
    place.write("kept/secret", "the secret");
    let kept = format!("Read(/{}/**)", place.root.join("kept").display());
    let permissions = json!({"ask": ["Bash(cp:*)"], "deny": [kept]});
    let plain = json!({"permissions": permissions}).to_string();
    let excluded = json!({"excludedCommands": ["cp:*"]});
    let outside = json!({"permissions": permissions, "sandbox": excluded}).to_string();
    let denied = r#"{"permissions": {"deny": ["Bash(cp:*)"]}}"#;
    settings(&place, &plain);
    let gateway = Gateway::start(&place);
    let shown = place.project().join("shown");
    let copy = place.project().join("copy");
    type Meanwhile<'a> = &'a dyn Fn();
    let nothing: Meanwhile<'_> = &|| {};
    let link: Meanwhile<'_> = &|| {
        std::fs::remove_file(&shown).expect("it was there");
        symlink(place.root.join("kept/secret"), &shown).expect("a link");
    };
    let other: Meanwhile<'_> = &|| place.write("project/shown", "something else");
    for (before, meanwhile, outcome) in [
        (&plain, nothing, "ran"),
        (&outside, nothing, "ran"),
        (&plain, &|| settings(&place, denied), "denied"),
        (&plain, &|| settings(&place, "{"), "settings_rejected"),
        // Nobody was asked whether it may run unconfined, or confined.
        (&plain, &|| settings(&place, &outside), "needs_person"),
        (&outside, &|| settings(&place, &plain), "needs_person"),
        (&outside, link, "denied"),
        // The file that was shown holds something else now.
        (&plain, other, "needs_person"),
        (&outside, other, "needs_person"),
    ] {
        for file in [&shown, &copy] {
            let _ = std::fs::remove_file(file); // of the round before
        }
        place.write("project/shown", "what was shown");
        settings(&place, before);
        let mut peer = ask_for(&gateway, &place, json!({"shell": "cp shown copy"}));
        let question = peer.question();
        meanwhile();
        peer.answer(&question, "once");
        assert_eq!(peer.outcome(), outcome, "{before}");
        let copied = std::fs::read_to_string(&copy).ok();
        assert_eq!(copied.as_deref(), (outcome == "ran").then_some("what was shown"), "{before}");
    }
    assert_eq!(gateway.end(), Some(0));
    let verified = place.output(["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_yes_still_counts_when_settings_changed_elsewhere_and_the_record_names_those_that_count() {
    let place = Place::new("elsewhere");
    settings(&place, r#"{"permissions": {"ask": ["Bash(mkdir:*)", "Bash(touch:*)"]}}"#);
    let gateway = Gateway::start(&place);
    let mut first = ask_for(&gateway, &place, json!({"shell": "mkdir first"}));
    let question = first.question();
    settings(
        &place,
        r#"{"permissions": {"ask": ["Bash(mkdir:*)", "Bash(touch:*)"], "allow": ["Bash(ls:*)"]}}"#,
    );
    first.answer(&question, "once");
    assert_eq!(first.outcome(), "ran");
    assert!(place.project().join("first").is_dir());
    assert_eq!(gateway.end(), Some(0));
    let records = |kind: &str| {
        let output = place.output(["audit", "search", "--json", "--kind", kind]).stdout;
        let lines = String::from_utf8_lossy(&output).into_owned();
        lines.lines().map(|it| serde_json::from_str(it).expect("a record")).collect::<Vec<Value>>()
    };
    let (decisions, approvals) = (records("decision"), records("approval"));
    assert_eq!((decisions.len(), approvals.len()), (2, 2));
    assert_ne!(decisions[0]["policy"]["sha256"], decisions[1]["policy"]["sha256"]);
    // Each question and each yes names what would have run, and each of them names its own.
    let named = |record: &Value| record.as_str().is_some_and(|it| it.starts_with("hmac:"));
    assert!(named(&decisions[0]["sandbox"]["spec_hmac"]) && approvals[0]["spec_hmac"].is_null());
    assert!(named(&approvals[1]["spec_hmac"]), "{}", approvals[1]);
    assert_ne!(decisions[0]["sandbox"]["spec_hmac"], approvals[1]["spec_hmac"]);
    let agreements: Vec<Value> =
        records("result").iter().map(|it| it["agreement"].clone()).collect();
    assert_eq!(agreements, ["not_run", "as_decided"]);
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn the_record_of_a_decision_names_what_its_command_may_reach() {
    let place = Place::new("named-spec");
    settings(&place, r#"{"permissions": {"allow": ["Bash(true)"], "deny": ["Bash(false)"]}}"#);
    for (command, is_named) in [("true", true), ("false", false)] {
        place.output(["run", command]);
        let output = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "decision"]);
        let record: Value = serde_json::from_slice(&output.stdout).expect("a record");
        let digest = record["sandbox"]["spec_hmac"].as_str();
        assert_eq!(digest.is_some_and(|it| it.starts_with("hmac:")), is_named, "{record}");
    }
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn a_command_that_was_given_up_before_its_start_never_runs() {
    let place = Place::new("given-up");
    let hook = place.root.join("hook.sh");
    write_program(
        &hook,
        "#!/bin/sh\ntouch \"$HOME/thinks\"\nwhile ! [ -e \"$HOME/go\" ]; do sleep 0.02; done\n",
    );
    let asking = r#"{"permissions": {"ask": ["Bash(mkdir:*)"]}}"#;
    settings(&place, asking);
    let gateway = Gateway::start(&place);
    let made = place.project().join("made");
    let command = json!({"words": ["mkdir", "made"]});
    // With the question open, whatever is said then.
    for _ in 0..5 {
        let mut peer = ask_for(&gateway, &place, command.clone());
        let question = peer.question();
        peer.stop();
        peer.answer(&question, "once");
        assert_eq!(peer.outcome(), "needs_person");
        assert!(!made.exists());
    }
    // While a hook thinks.
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}]});
    settings(&place, &json!({"permissions": {"allow": ["Bash"]}, "hooks": hooks}).to_string());
    let (thinks, go) = (place.home().join("thinks"), place.home().join("go"));
    for goes_away in [false, true] {
        let mut peer = ask_for(&gateway, &place, command.clone());
        until("the hook thinks", || thinks.exists());
        peer.stop();
        if goes_away {
            drop(peer);
            place.write("home/go", "");
        } else {
            place.write("home/go", "");
            assert_eq!(peer.outcome(), "launch_failed");
        }
        // The gateway ends when the calls of those that went away are over.
        let _ = (std::fs::remove_file(&thinks), goes_away || std::fs::remove_file(&go).is_ok());
        assert!(!made.exists());
    }
    assert_eq!(gateway.end(), Some(0));
    assert!(!made.exists());
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_the_end_of_the_gateway() {
    let place = Place::new("deaf");
    let gateway = Gateway::start(&place);
    let mut deaf = ask_for(&gateway, &place, json!({"shell": "echo begun; sleep 600"}));
    assert_eq!(deaf.message().expect("an event")["params"]["event"]["output"]["stream"], "stdout");
    deaf.stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).expect("a limit");
    let bad = b"{}\n".repeat(10_000);
    // Each line gets an answer that nobody reads, until neither side has room.
    while deaf.stream.write_all(&bad).is_ok() {}
    assert_eq!(gateway.end(), Some(0));
    let tail = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "result"]);
    let record: Value = serde_json::from_slice(&tail.stdout).expect("one record");
    assert_eq!(record["interrupted"], true, "{record}");
    drop(deaf); // it lived until here
}

#[test]
fn clients_that_take_all_descriptors_neither_keep_the_gateway_busy_nor_leave_a_trace() {
    let place = Place::new("descriptors");
    let plain = place.stockade(["serve"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh"]).arg(stockade()).arg("serve");
    command.current_dir(place.project()).env_clear();
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let gateway = Gateway::start_with(&place, command);
    let run = || ask_for(&gateway, &place, json!({"shell": "true"})).outcome();
    assert_eq!(run(), "ran");
    let proc = std::path::PathBuf::from(format!("/proc/{}", gateway.id()));
    let descriptors = || std::fs::read_dir(proc.join("fd")).expect("its descriptors").count();
    // Hundredths of a second (proc(5)): 14 and 15, counted from 1, of which two are in front of the bracket.
    let spent = || {
        let stat = std::fs::read_to_string(proc.join("stat")).expect("its state");
        let (_, rest) = stat.rsplit_once(')').expect("a name");
        let times = rest.split_whitespace().skip(11).take(2);
        times.map(|it| it.parse::<u64>().expect("a number")).sum::<u64>()
    };
    let mut early = gateway.greet();
    // The gateway closes a silent connection after 10 s and takes the next: there are enough for 30 s.
    let connect = |_| UnixStream::connect(&gateway.socket).expect("the gateway listens");
    let others: Vec<UnixStream> = (0..300).map(connect).collect();
    until("all descriptors are taken", || descriptors() >= 100);
    let (before, begun) = (spent(), Instant::now());
    while begun.elapsed() < Duration::from_secs(1) {
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert!(spent() - before < 30, "{} hundredths", spent() - before);
    // A command that could not run then is not in the way of the next one.
    give(&mut early, &place, json!({"shell": "true"}));
    assert_ne!(early.outcome(), "ran");
    drop(others);
    until("the descriptors come free", || descriptors() <= 50);
    assert_eq!(run(), "ran");
    assert_eq!(gateway.end(), Some(0));
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn lines_that_wait_for_a_client_that_reads_nothing_take_no_more_room_than_their_bytes() {
    let place = Place::new("wide");
    let gateway = Gateway::start(&place);
    // Read into values it would take a hundred times its bytes.
    let many = "{},".repeat(100_000);
    let wide =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[{many}{{}}]}}\n");
    // How many answers fit where nobody reads them is the kernel's affair.
    let deaf: Vec<Peer> = (200..340)
        .step_by(20)
        .map(|answers| {
            let mut peer = gateway.greet();
            peer.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a limit");
            let mut sent = peer.stream.write_all(&b"{}\n".repeat(answers));
            for _ in 0..40 {
                sent = sent.and_then(|()| peer.stream.write_all(wide.as_bytes()));
            }
            peer
        })
        .collect();
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).expect("it");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its size");
    let most: u64 = most.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(most < 200 << 10, "{most} KiB");
    assert_eq!(ask_for(&gateway, &place, json!({"shell": "true"})).outcome(), "ran");
    drop(deaf);
    assert_eq!(gateway.end(), Some(0));
}
