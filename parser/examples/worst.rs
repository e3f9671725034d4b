//! Time, memory and work steps of each text that is built to cost much.
//!
//! `cargo run --release -p stockade-parser --example worst [-- PART OF A NAME [BYTES]]`: one process for each text, so that its memory is its own.
//! Prints milliseconds of processor time for reading, MiB beyond the text, steps for each byte, commands, opaque
//! spans, milliseconds for confirming without a witness, name.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the parser from outside"
)]

#[path = "../tests/worst/cases.rs"]
#[allow(dead_code, reason = "the nests are for a test")]
mod cases;

use std::time::{Duration, Instant};

use stockade_parser::{Limits, Programs, StartState, parse};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let part = arguments.first().map_or("", String::as_str);
    let bytes = arguments.get(1).and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 20);
    if std::env::var_os("WORST_ONE").is_some() {
        return one(part, bytes);
    }
    let Ok(program) = std::env::current_exe() else { return };
    for (name, _) in cases::all(1 << 10).filter(|(name, _)| name.contains(part)) {
        let mut command = std::process::Command::new(&program);
        command.args([name.as_str(), &bytes.to_string()]).env("WORST_ONE", "1");
        if let Err(error) = command.status() {
            eprintln!("{name}: {error}");
        }
    }
}

fn one(wanted: &str, bytes: usize) {
    let Some((name, text)) = cases::all(bytes).find(|(name, _)| name == wanted) else { return };
    // The limit of 1 MiB is raised, to see how the cost grows.
    let usual = Limits::default();
    let times = bytes.div_ceil(usual.input_bytes).max(1);
    let limits = Limits {
        input_bytes: times * usual.input_bytes,
        work: times as u64 * usual.work,
        memory_bytes: times * usual.memory_bytes,
        ..usual
    };
    let read = || parse(&text, &StartState::default(), Programs::builtin(), &limits);
    // The peak of memory starts anew (proc(5), `clear_refs`).
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        eprintln!("the memory that making the text took is not left out: {error}");
    }
    let before = peak();
    let started = processor_time();
    let mut draft = read();
    let first = processor_time().saturating_sub(started);
    let grown = peak().saturating_sub(before);
    // Small texts are read often, for a clock that is good for microseconds.
    let times = u32::try_from((256 << 10) / bytes.max(1)).unwrap_or(0);
    let started = processor_time();
    for _ in 0..times {
        draft = read();
    }
    let later = processor_time().saturating_sub(started);
    let taken = later.checked_div(times).unwrap_or(first);
    let steps = draft.steps() as f64 / text.len() as f64;
    let started = Instant::now();
    let tree = draft.confirm(&[]);
    let confirmed = started.elapsed();
    println!(
        "{:9.3} ms {:7.1} MiB {steps:6.1} steps {:7} commands {:6} opaque {:6.1} ms confirmed  {name}",
        taken.as_secs_f64() * 1e3,
        grown as f64 / 1024.0,
        tree.commands().len(),
        tree.opaque_spans().len(),
        confirmed.as_secs_f64() * 1e3,
    );
}

/// The processor time of this thread (proc(5), `schedstat`): other programs hardly change it.
fn processor_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = times.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The most memory this process had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
