//! The decision is on disk before anybody is told what to start, and before the command starts; the result before the answer leaves: seen from outside.

use std::process::Command;

use stockade_tests::{Place, skip, stockade};

/// Steps that a trace of all processes shows, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    DecisionWritten,
    Synced,
    SpecSent,
    CommandStarted,
    ResultWritten,
    Answered,
}

/// An ordinary user's `strace` cannot read the memory of a process in another user namespace: it shows addresses there.
const UNREADABLE: &str = "execve(0x";

/// Says whether a shell starts in this line, or what only a run starts.
fn is_start(line: &str) -> bool {
    line.contains(UNREADABLE) || line.contains("execve(") && line.contains("bash\"")
}

/// Reads the steps from a trace; `mark` is in the command's arguments and in the answer.
fn steps(trace: &str, mark: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for line in trace.lines() {
        let synced = line.contains("fdatasync") || line.contains("fsync");
        let step = if line.contains(r#"\"kind\":\"decision\""#) {
            Step::DecisionWritten
        } else if line.contains(r#"\"kind\":\"result\""#) {
            Step::ResultWritten
        } else if synced && line.trim_end().ends_with("= 0") {
            Step::Synced
        } else if line.contains("--noprofile") && !line.contains("execve(") {
            // The spec leaves the gateway: a launcher may wait for it, but has nothing before.
            Step::SpecSent
        } else if is_start(line) && (line.contains(mark) || line.contains(UNREADABLE)) {
            Step::CommandStarted
        } else if line.contains("write(1,") && line.contains("exit_code") {
            Step::Answered
        } else {
            continue;
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    steps
}

#[test]
fn i1_each_record_is_durable_before_what_it_permits() {
    let name = "i1_each_record_is_durable_before_what_it_permits";
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(name, "strace is not installed");
    }
    let place = Place::new("order");
    let file = place.root.join("trace");
    let mark = "order-mark";
    let run = place.stockade(["run", "--no-daemon", "--json", "--", "echo order-mark"]);
    let mut traced = Command::new("strace");
    traced.args([
        "-f",
        "-s",
        "100000",
        "-e",
        "trace=write,pwrite64,writev,pwritev,sendto,sendmsg,fdatasync,fsync,execve",
        "-o",
    ]);
    traced.arg(&file).arg(stockade()).args(run.get_args());
    traced.env_clear().envs(run.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = traced.current_dir(place.project()).output().expect("strace starts");
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        return skip(name, &String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read(&file).expect("the trace");
    let steps = steps(&String::from_utf8_lossy(&trace), mark);
    // Other records and syncs may come first: what counts is the order from the decision on.
    let decision =
        steps.iter().position(|step| *step == Step::DecisionWritten).expect("a decision");
    let position = |wanted: Step, from: usize| {
        steps.iter().skip(from).position(|step| *step == wanted).map(|found| found + from)
    };
    let synced = position(Step::Synced, decision).unwrap_or(usize::MAX);
    let sent = position(Step::SpecSent, 0).unwrap_or_default();
    let started = position(Step::CommandStarted, 0).unwrap_or_default();
    let result = position(Step::ResultWritten, started).unwrap_or_default();
    let result_synced = position(Step::Synced, result).unwrap_or(usize::MAX);
    let answered = position(Step::Answered, 0).unwrap_or_default();
    assert!(
        decision < synced
            && synced < sent
            && sent < started
            && started < result
            && result < result_synced
            && result_synced < answered,
        "{steps:?}"
    );
}

#[test]
fn a_denied_command_starts_no_shell_and_is_recorded() {
    let name = "a_denied_command_starts_no_shell_and_is_recorded";
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(name, "strace is not installed");
    }
    let place = Place::new("order-denied");
    place.write("project/.stockade/settings.json", r#"{"permissions":{"deny":["Bash(echo:*)"]}}"#);
    let file = place.root.join("trace");
    let run = place.stockade(["run", "--no-daemon", "--", "true; echo denied-mark"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-s", "100000", "-e", "trace=write,pwrite64,writev,pwritev,execve", "-o"]);
    traced.arg(&file).arg(stockade()).args(run.get_args());
    traced.env_clear().envs(run.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = traced.current_dir(place.project()).output().expect("strace starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.contains("ptrace") {
        return skip(name, &stderr);
    }
    assert_eq!(output.status.code(), Some(120), "{stderr}");
    assert!(stderr.starts_with("stockade: denied `echo denied-mark`"), "{stderr}");
    let trace = std::fs::read(&file).expect("the trace");
    let trace = String::from_utf8_lossy(&trace);
    let shell = |line: &&str| is_start(line) && !line.contains("--version");
    let shells: Vec<&str> = trace.lines().filter(shell).collect();
    assert_eq!(shells, Vec::<&str>::new());
    assert!(trace.contains(r#"\"kind\":\"decision\""#), "the refusal has a record");
}
