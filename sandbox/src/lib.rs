//! Confined processes: [`SandboxSpec`] says what one may reach, [`spawn`] starts it.
//!
//! Synchronous, reads no settings and no environment, and decides nothing. [`launch`] is the other half:
//! the executable started again as `stockade launch` confines itself step by step and becomes the command.
#![deny(unsafe_code)]

mod enforced;
mod host;
#[cfg(target_os = "linux")]
mod linux;
mod spawn;
mod spec;

pub use enforced::{Enforced, Protection, State};
pub use host::{Host, Probe};
pub use spawn::{Child, Error, Exit, Stdio, Stopper, confine_worker, launch, spawn};
pub use spec::{
    Access, FileRule, Files, Limits, Mechanism, Mediation, Network, Program, SandboxSpec,
};
