//! Hooks as processes: how they fail, and that nothing of them stays.

use std::process::Stdio;

use serde_json::json;
use stockade_tests::Place;

use super::{command, decision, hooks, judged, runs, saying, told, until, user};

#[test]
fn a_managed_hook_that_fails_blocks_and_another_does_not() {
    let place = Place::new("hook-failures");
    let rubbish = r#"echo '{"hookSpecificOutput":{"hookEventName":"Stop"}}'"#;
    for (name, handler, reason) in [
        ("status", command("exit 1"), "it ended with status 1"),
        ("words", command("echo broken >&2; exit 3"), "it ended with status 3: broken"),
        ("crash", command("kill -SEGV $$"), "it was ended by signal 11"),
        (
            "crash after a yes",
            command(&format!("{}; kill -9 $$", saying("allow"))),
            "it was ended by signal 9",
        ),
        ("no JSON", command("echo '{ nonsense'"), "its answer is not valid JSON: "),
        ("another event", command(rubbish), "`hookEventName` of its answer is not `PreToolUse`"),
        ("flood", command("exec head -c 3000000 /dev/zero"), "it wrote more than 1048576 bytes"),
        (
            "flood of errors",
            command("trap '' PIPE; while :; do echo noise >&2; done"),
            "it wrote more than 1048576 bytes",
        ),
        (
            "hangs",
            json!({"type": "command", "command": "sleep 1000", "timeout": 0.5}),
            "it did not end within 0.5 seconds",
        ),
        ("not found in a shell", command("/no/such/program"), "it ended with status 127: "),
        (
            "not found",
            json!({"type": "command", "command": "/no/such/program", "args": []}),
            "it cannot be started: No such file",
        ),
        (
            "no server",
            json!({"type": "http", "url": "http://127.0.0.1:1/"}),
            "`127.0.0.1:1` cannot be reached: ",
        ),
    ] {
        let settings = hooks("PreToolUse", json!([handler]));
        let managed = judged(&place, "policy", &settings, "ls");
        assert_eq!(decision(&managed), ("deny", "hook"), "{name}: {managed}");
        let said = managed["reason"].as_str().unwrap_or_default();
        let begins = "a hook refused: the managed hook in <policy>:1:";
        assert!(said.starts_with(begins), "{name}: {said}");
        assert!(said.contains(&format!(" failed: {reason}")), "{name}: {said}");
        let own = judged(&place, "user", &settings, "ls");
        assert_eq!(decision(&own), ("allow", "builtin"), "{name}: {own}");
        assert!(own["hooks"][0]["error"].as_str().unwrap_or_default().starts_with(reason), "{own}");
    }
}

/// Ways in which a hook may leave a process behind. Each writes the pid of that process.
const STAYERS: [(&str, &str); 5] = [
    ("a job in the background", "sleep 1000 & echo $! > PID"),
    ("a session of its own", "setsid sleep 1000 & echo $! > PID"),
    (
        "a daemon, forked twice",
        "setsid sh -c 'setsid sleep 1000 & echo $! > PID' &\nuntil [ -s PID ]; do :; done",
    ),
    (
        "a daemon without environment",
        "setsid env -i setsid sh -c 'echo $$ > PID; exec sleep 1000' > /dev/null 2>&1 < /dev/null &\nuntil [ -s PID ]; do :; done",
    ),
    (
        "one that ignores signals",
        "(trap '' HUP INT TERM; sleep 1000 & echo $! > PID; wait) &\nuntil [ -s PID ]; do :; done",
    ),
];

#[test]
fn nothing_that_a_hook_starts_outlives_it() {
    let place = Place::new("hook-left");
    for (name, text) in STAYERS {
        let pid = place.root.join(format!("{}.pid", name.replace([' ', ','], "-")));
        let text = text.replace("PID", &pid.display().to_string());
        // Without a keeper it stays.
        let alone = std::process::Command::new("sh").args(["-c", &text]).status().expect("sh");
        assert!(alone.success(), "{name}");
        let stays = std::fs::read_to_string(&pid).expect("its pid");
        assert!(runs(&stays), "{name}: it stays when nobody ends it");
        std::process::Command::new("kill").args(["-9", stays.trim()]).status().expect("kill");
        std::fs::remove_file(&pid).expect("the file");

        let ended = judged(&place, "policy", &hooks("PreToolUse", json!([command(&text)])), "ls");
        assert_eq!(decision(&ended), ("allow", "builtin"), "{name}: {ended}");
        let left = std::fs::read_to_string(&pid).expect("its pid");
        assert!(!runs(&left), "{name}: it is left behind");
        std::fs::remove_file(&pid).expect("the file");

        let text = format!("{text}\nsleep 1000");
        let handler = json!({"type": "command", "command": text, "timeout": 2});
        let hung = judged(&place, "policy", &hooks("PreToolUse", json!([handler])), "ls");
        assert_eq!(decision(&hung), ("deny", "hook"), "{name}: {hung}");
        let left = std::fs::read_to_string(&pid).expect("its pid");
        assert!(!runs(&left), "{name}: it is left behind when the hook hangs");
    }
}

#[test]
fn a_gateway_that_is_killed_leaves_no_hook() {
    let place = Place::new("hook-killed");
    let pid = place.root.join("pid");
    let text = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000'", pid.display());
    user(&place, &hooks("PreToolUse", json!([command(&text)])));
    let mut run = place.stockade(["run", "--no-daemon", "ls"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let read = || std::fs::read_to_string(&pid).unwrap_or_default();
    until("the hook starts", || read().ends_with('\n'));
    assert!(runs(&read()));
    run.kill().expect("it is ended");
    run.wait().expect("it is gone");
    until("the hook is gone", || !runs(&read()));
}

#[test]
fn a_hook_that_reads_nothing_leaves_no_notice() {
    let place = Place::new("hook-unread");
    // More than a pipe holds, so that it cannot be written before the hook is gone.
    let line = format!("echo {}", "x".repeat(100_000));
    user(&place, &hooks("PreToolUse", json!([command("true"), command("exec true")])));
    for _ in 0..5 {
        let output = place.output(["run", "--no-daemon", "--", &line]);
        assert_eq!((output.status.code(), told(&output)), (Some(0), String::new()));
    }
}
