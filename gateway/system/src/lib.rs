//! The gateway as a service of the machine.
//!
//! Four kinds of process: the listener is a user of its own without rights, takes connections, reads nothing from them and passes
//! them on; the keeper is root with two capabilities, asks the kernel who made a connection and starts a gateway for each user;
//! that gateway has the rights of its user and none of its own; the recorder is a user of its own that alone has the log and its
//! keys. [`install`] puts them on a machine, [`tries`] shows as an ordinary user that they are out of reach.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]

pub mod accounts;
mod elsewhere;
pub mod handing;
pub mod identity;
pub mod install;
pub mod keeper;
pub mod listener;
mod listening;
mod message;
mod quota;
pub mod recorder;
pub mod tries;

use std::path::Path;

/// The role of the listener.
pub const LISTENER: &str = "system-listener";
/// The role of the keeper.
pub const KEEPER: &str = "system-keeper";
/// The role of the gateway of one user.
pub const GATEWAY: &str = "system-gateway";
/// The role of the recorder.
pub const RECORDER: &str = "system-recorder";
/// The role of who tries what an ordinary user can do.
pub const TRIES: &str = "system-tries";

/// Where the recorder listens for the keeper.
pub const RECORDER_SOCKET: &str = "/run/stockade/recorder.sock";
/// Where the keeper listens for the listener.
pub const KEEPER_SOCKET: &str = "/run/stockade/keeper.sock";
/// The user of the listener, and its group.
pub const LISTENER_USER: &str = "stockade";
/// The user of the recorder, and its group.
pub const LOG_USER: &str = "stockade-log";

/// Says whether root alone can change `path` and what it is reached through.
///
/// # Errors
///
/// Says which file or folder others can change, or what cannot be looked at.
pub fn is_roots_alone(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    let real = path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()))?;
    for part in real.ancestors() {
        let found = part.metadata().map_err(|error| format!("`{}`: {error}", part.display()))?;
        if found.uid() != 0 {
            return Err(format!("`{}` belongs to uid {}", part.display(), found.uid()));
        }
        if found.mode() & 0o022 != 0 {
            return Err(format!("others than root can write `{}`", part.display()));
        }
    }
    Ok(())
}
