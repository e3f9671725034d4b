//! Confined processes: [`SandboxSpec`](stockade_spec::SandboxSpec) says what one may reach, [`spawn`] starts it.
//!
//! Synchronous, reads no settings and no environment, and decides nothing. [`launch`] is the other half:
//! the executable started again as `stockade launch` confines itself step by step and becomes the command.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![warn(clippy::too_many_lines)]

#[cfg(target_os = "linux")]
pub mod attempts;
#[cfg(target_os = "linux")]
mod forked_worker;
#[cfg(target_os = "linux")]
mod kernel;
mod last_words;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod launcher_zygote;
#[cfg(not(target_os = "linux"))]
mod other;
mod peer;
mod signals;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod supervise;

#[cfg(target_os = "linux")]
pub use forked_worker::{Branch, ForkedWorker};
pub use last_words::LastWords;
#[cfg(target_os = "linux")]
pub use launch::Loopback;
#[cfg(target_os = "linux")]
pub use launcher_zygote::LauncherZygote;
#[cfg(not(target_os = "linux"))]
pub use other::{
    Branch, Child, ForkedWorker, Launcher, LauncherZygote, Listeners, Loopback, Progress, Starting,
    Stopper, confine_gateway, confine_keeper, confine_listener, confine_proxy, confine_recorder,
    confine_worker, launch, spawn,
};
pub use peer::{peer_groups, peer_process};
pub use signals::{HeldSignals, close_inherited, end_now, ending_signals, let_end};
#[cfg(target_os = "linux")]
pub use spawn::{
    Child, Launcher, Listeners, Progress, Starting, Stopper, confine_gateway, confine_keeper,
    confine_listener, confine_proxy, confine_recorder, confine_worker, launch, spawn,
};
