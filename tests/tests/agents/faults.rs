//! Hooks that die, hang or babble are the agent's explicit refusal.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stockade_tests::agents::HARM;
use stockade_tests::{Place, skip, write_program};

use super::{AGENTS, assert_blocked, frame, given, text};

#[test]
fn a_handler_that_dies_hangs_or_babbles_blocks() {
    let place = Place::new("faults");
    let path = place.root.join("harm.sh");
    write_program(&path, HARM);
    let hook = json!({"type": "command", "command": path});
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    for (agent, file, event) in AGENTS {
        let good = given(&place, agent, &[], frame(&place, file, event, "pwd").as_bytes());
        assert_eq!(good.status.code(), Some(0), "{agent}: {}", text(&good.stderr));
        for fault in ["killed", "garbage"] {
            let frame = frame(&place, file, event, &format!("echo {fault}"));
            assert_blocked(agent, &given(&place, agent, &["--rewrite"], frame.as_bytes()), fault);
        }
        let start = Instant::now();
        let late = frame(&place, file, event, "echo stopped");
        let late = given(&place, agent, &["--deadline", "1s"], late.as_bytes());
        assert_blocked(agent, &late, "stopped");
        assert!(start.elapsed() < Duration::from_secs(30), "{agent}: {:?}", start.elapsed());
    }
}

/// Signals by which others end a process that does nothing about them, as x86 and ARM number them (signal(7)): HUP, INT,
/// QUIT, USR1, USR2, ALRM, TERM, STKFLT, XFSZ, VTALRM, PROF, IO, PWR, and the first and last real-time one.
const ENDS: [&str; 15] =
    ["1", "2", "3", "10", "12", "14", "15", "16", "25", "26", "27", "29", "30", "34", "64"];

/// Returns those of them that a hook does not ignore already: who starts the tests may have them ignore some, as a shell
/// without job control does in the background, and what they start ignores them as well. Not so the alarm.
pub(super) fn ends(test: &str) -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a set");
    let ignored = u64::from_str_radix(set, 16).expect("digits");
    let is_ignored = |number: &str| {
        number != "14" && ignored >> (number.parse::<u32>().expect("a number") - 1) & 1 == 1
    };
    let (without, with): (Vec<&str>, Vec<&str>) = ENDS.into_iter().partition(|it| is_ignored(it));
    if !without.is_empty() {
        let why = format!("the tests were started with signals {} ignored", without.join(", "));
        skip(test, &why);
    }
    with
}

/// Waits until process `pid` does something about the last signal, and so about all (`SigCgt` in proc(5)).
fn wait_until_it_listens_to_signals(pid: u32) {
    let start = Instant::now();
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).expect("a set");
        u64::from_str_radix(set, 16).expect("digits") & 1 << 63 != 0
    };
    while !catches() {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes no notice of signals");
        std::thread::yield_now();
    }
}

#[test]
fn a_hook_that_is_told_to_end_blocks_without_a_gateway_too() {
    let place = Place::new("ended-hook");
    let signals = ends("faults::a_hook_that_is_told_to_end_blocks_without_a_gateway_too");
    for (agent, ..) in AGENTS {
        for signal in &signals {
            let mut command = place.stockade(["hook", agent]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("it starts");
            let input = child.stdin.take().expect("its input"); // and nothing comes
            wait_until_it_listens_to_signals(child.id());
            let sent = [format!("-{signal}"), child.id().to_string()];
            let sent = Command::new("kill").args(sent).status();
            assert!(sent.expect("kill starts").success());
            let output = child.wait_with_output().expect("it ends");
            drop(input);
            assert_blocked(agent, &output, signal);
        }
    }
}

#[test]
fn an_input_that_never_ends_blocks_in_time() {
    let place = Place::new("endless");
    for (agent, file, event) in AGENTS {
        let whole = frame(&place, file, event, "pwd");
        let mut command = place.stockade(["hook", agent, "--deadline", "1s"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("its input");
        // A whole frame, and then nothing: there could be more of it.
        stdin.write_all(whole.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_blocked(agent, &output, "an input that stays open");
        drop(stdin);
    }
}
