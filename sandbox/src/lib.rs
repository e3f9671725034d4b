//! Confined processes: [`SandboxSpec`](stockade_spec::SandboxSpec) says what one may reach, [`spawn`] starts it.
//!
//! Synchronous, reads no settings and no environment, and decides nothing. [`launch`] is the other half:
//! the executable started again as `stockade launch` confines itself step by step and becomes the command.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![warn(clippy::too_many_lines)]

#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod launcher_zygote;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod spawn;
mod starter;
#[cfg(target_os = "linux")]
mod supervise;

#[cfg(target_os = "linux")]
pub use launch::Loopback;
#[cfg(target_os = "linux")]
pub use launcher_zygote::LauncherZygote;
#[cfg(not(target_os = "linux"))]
pub use other::{
    Child, Launcher, LauncherZygote, Loopback, Progress, Starting, Stopper, launch, spawn,
};
#[cfg(target_os = "linux")]
pub use spawn::{Child, Launcher, Progress, Starting, Stopper, launch, spawn};
pub use starter::start;
