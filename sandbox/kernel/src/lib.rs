//! Features of the kernel: namespaces, mounts, Landlock, filters, limits, and the system calls for them; and a process that gives
//! up its own rights.
//!
//! Reads no settings and decides nothing. Starts no program: whoever depends on this crate alone can confine itself, and cannot
//! run a command. Calls that the compiler cannot check stand in [`syscalls`] alone.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![warn(clippy::too_many_lines)]
#![allow(missing_docs, reason = "fields and constants whose names say what they are")]

#[cfg(target_os = "linux")]
pub mod aliases;
#[cfg(target_os = "linux")]
pub mod bpf;
mod confine;
#[cfg(target_os = "linux")]
mod copies;
#[cfg(target_os = "linux")]
pub mod egress;
#[cfg(target_os = "linux")]
mod file_calls;
#[cfg(target_os = "linux")]
pub mod foreign_owner;
#[cfg(target_os = "linux")]
pub mod forked_worker;
#[cfg(target_os = "linux")]
pub mod frames;
#[cfg(target_os = "linux")]
pub mod group;
#[cfg(target_os = "linux")]
pub mod landlock;
pub mod last_words;
#[cfg(target_os = "linux")]
pub mod layout;
#[cfg(target_os = "linux")]
pub mod mounts;
#[cfg(target_os = "linux")]
pub mod objects;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod overlay;
mod peer;
#[cfg(target_os = "linux")]
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod service;
pub mod signals;
#[cfg(target_os = "linux")]
pub mod sources;
#[cfg(target_os = "linux")]
pub mod syscalls;
#[cfg(target_os = "linux")]
pub mod worker;

pub use confine::{
    confine_gateway, confine_keeper, confine_listener, confine_proxy, confine_recorder,
    confine_worker,
};
#[cfg(target_os = "linux")]
pub use forked_worker::{Branch, ForkedWorker};
pub use last_words::LastWords;
#[cfg(not(target_os = "linux"))]
pub use other::{Branch, ForkedWorker};
pub use peer::{peer_groups, peer_process};
pub use signals::{close_inherited, end_now, ending_signals, let_end, let_through};
