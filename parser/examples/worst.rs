//! Time, memory and work steps of each text that is built to cost much.
//!
//! `cargo run --release -p stockade-parser --example worst [-- PART OF A NAME [BYTES]]`: one process for each text, so that its memory is its own.
//! Prints milliseconds (of the second of two readings), MiB beyond the text, steps for each byte, commands, name.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures the parser from outside"
)]

#[path = "../tests/worst/cases.rs"]
#[allow(dead_code, reason = "the nests are for a test")]
mod cases;

use std::time::Instant;

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
    let before = peak();
    let started = Instant::now();
    let draft = parse(&text, &StartState::default(), Programs::builtin(), &Limits::default());
    let taken = started.elapsed();
    let grown = peak().saturating_sub(before);
    let steps = draft.steps() as f64 / text.len() as f64;
    let started = Instant::now();
    let tree = draft.confirm(&[]);
    let confirmed = started.elapsed();
    println!(
        "{:8.1} ms {:7.1} MiB {steps:6.1} steps {:7} commands {:6} opaque {:6.1} ms confirmed  {name}",
        taken.as_secs_f64() * 1e3,
        grown as f64 / 1024.0,
        tree.commands().len(),
        tree.opaque_spans().len(),
        confirmed.as_secs_f64() * 1e3,
    );
}

/// The most memory this process had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
