//! Confined processes: [`SandboxSpec`] says what one may reach, [`spawn`] starts it.
//!
//! Synchronous, reads no settings and no environment, and decides nothing. [`launch`] is the other half:
//! the executable started again as `stockade launch` confines itself step by step and becomes the command.
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod codec;
mod enforced;
mod git_text;
#[cfg(target_os = "linux")]
mod help;
mod host;
mod journal;
mod last_words;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod macos;
#[cfg(not(target_os = "linux"))]
mod other;
mod pattern;
mod peer;
#[cfg(target_os = "linux")]
mod probe;
mod run;
mod signals;
#[cfg(target_os = "linux")]
mod spawn;
mod spec;
#[cfg(target_os = "linux")]
mod steps;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
mod surroundings;
#[cfg(target_os = "linux")]
mod twin;
mod violation;

pub use enforced::{Enforced, Protection, State};
pub use git_text::{GitVariable, git_variables};
pub use host::{Host, Probe};
pub use journal::{Before, Entry, MOST_KEPT_BYTES, Touched, read_journal};
pub use last_words::LastWords;
#[cfg(target_os = "linux")]
pub use launch::Loopback;
pub use macos::seatbelt_profile;
#[cfg(not(target_os = "linux"))]
pub use other::{
    Branch, Child, Launcher, Listeners, Loopback, Nursery, Progress, Starting, Stopper, Twin,
    confine_proxy, confine_worker, launch, spawn,
};
pub use pattern::{Match, Pattern, Wild};
pub use peer::peer_process;
pub use run::{Ending, Error, Exit, Stdio};
#[cfg(target_os = "linux")]
pub use signals::begin;
pub use signals::{HeldSignals, close_inherited, end_now, ending_signals, let_end};
#[cfg(target_os = "linux")]
pub use spawn::{
    Child, Launcher, Listeners, Progress, Starting, Stopper, confine_proxy, confine_worker, launch,
    spawn,
};
pub use spec::{
    Access, Cache, Fallback, FileRule, Files, GitKeys, INIT_NAME, Limits, Mediation, Network,
    PROXY_PORTS, Program, SandboxSpec, Shown, Watched, Window,
};
#[cfg(target_os = "linux")]
pub use twin::{Branch, Nursery, Twin};
pub use violation::Violation;
pub use violation::{AT_TOP, OWN_LOOPBACK, UNSEEN_SOCKET};
