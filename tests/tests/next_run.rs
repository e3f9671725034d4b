//! Leftovers of one command, and the next command: it runs, and reaches nothing more.
#![cfg(target_os = "linux")]

#[path = "next_run/sequences.rs"]
mod sequences;
#[path = "next_run/stops.rs"]
mod stops;
