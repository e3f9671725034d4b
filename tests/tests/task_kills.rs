//! Processes of tasks are killed at any moment: nothing survives, nothing that was read is lost, and states stay true.

use std::process::Command;

use serde_json::Value;
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, found};

/// Rounds for each process that is killed.
const ROUNDS: u32 = 3;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Gateway,
    Monitor,
    Shell,
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status().expect("it starts");
    assert!(status.success(), "process {pid} was there");
}

/// Returns the processes whose command line holds `word`.
fn with(word: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        text(&line).contains(word).then_some(pid)
    })
    .collect()
}

fn shown(place: &Place, id: &str) -> Value {
    let output = place.output(["tasks", "show", id, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    object["task"].clone()
}

/// Runs a task that counts, kills `victim` after `lines` lines, and checks what is left.
fn round(victim: Victim, lines: u32) {
    let place = Place::new(&format!("tk-{victim:?}-{lines}").to_lowercase());
    let gateway = Gateway::start(&place);
    let mark = format!("mark{victim:?}{}x{lines}", std::process::id());
    let line = format!(
        "setsid sh -c 'trap \"\" TERM HUP; sleep 1000; : {mark}' & i=0; while :; do i=$((i+1)); echo {mark} $i; done"
    );
    let started = place.output(["run", "--quiet", "--background", "--", &line]);
    let id = text(&started.stdout).trim().to_owned();
    let wanted = format!("{mark} {lines}\n");
    let path = place.state().join("tasks").join(&id).join("output");
    let read = found("enough output", || {
        let found = std::fs::read(&path).unwrap_or_default();
        text(&found).contains(&wanted).then_some(found)
    });
    let about = std::fs::read(place.state().join("tasks").join(&id).join("task.json"));
    let about: Value = serde_json::from_slice(&about.expect("its file")).expect("an object");
    let monitor = about["monitor"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let monitor = monitor.expect("the monitor");
    match victim {
        Victim::Gateway => gateway.kill(),
        Victim::Monitor => kill(monitor),
        Victim::Shell => {
            let shells = with(&format!("while :; do i=$((i+1)); echo {mark}"));
            // The one that runs it, and no process that only carries the text: each has it as an argument of its own.
            shells.into_iter().filter(|pid| *pid != std::process::id()).for_each(|pid| {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            });
        }
    }
    found("no process is left", || with(&mark).is_empty().then_some(()));
    let task = found("an end", || Some(shown(&place, &id)).filter(|it| it["state"] != "running"));
    let state = task["state"].as_str().expect("a state");
    let expected = match victim {
        Victim::Gateway => "lost",
        Victim::Monitor | Victim::Shell => "failed",
    };
    assert_eq!(state, expected, "{task}");
    let kept = std::fs::read(&path).expect("the output");
    assert!(kept.starts_with(&read), "bytes that were read are lost");
    let verified = place.output(["audit", "verify"]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
}

#[test]
fn a_killed_gateway_leaves_no_process_and_lost_tasks() {
    (1..=ROUNDS).for_each(|n| round(Victim::Gateway, n * n * 40));
}

#[test]
fn a_killed_monitor_ends_its_task() {
    (1..=ROUNDS).for_each(|n| round(Victim::Monitor, n * n * 40));
}

#[test]
fn a_killed_shell_ends_its_task() {
    (1..=ROUNDS).for_each(|n| round(Victim::Shell, n * n * 40));
}
