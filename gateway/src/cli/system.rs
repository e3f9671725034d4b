//! The roles of the service of the machine. Its own programs start them; none has options of its own.

use std::ffi::OsString;

use stockade_system::{GATEWAY, KEEPER, LISTENER, RECORDER, TRIES, keeper, listener, recorder};

use super::exit::ExitCode;
use super::{doctor, failure, wait};
use crate::protocol::errors::{Code, Failure};
use crate::serve::machine::Beginning;

/// Says whether `word` is a role of the service.
pub(super) fn is_role(word: &str) -> bool {
    [GATEWAY, KEEPER, LISTENER, RECORDER, TRIES].contains(&word)
}

/// Plays `role`, and returns the status to end with.
pub(super) fn main(role: &str, arguments: &[OsString]) -> ExitCode {
    let broken = |reason: String| Failure::new(Code::Internal, reason, "");
    let played = match role {
        LISTENER => listener::main().map_err(broken),
        KEEPER => keeper::main().map_err(broken),
        RECORDER => recorder::main().map_err(broken),
        TRIES => doctor::system::as_user(arguments),
        _ => Beginning::of(arguments).and_then(|begun| wait(begun.serve())?),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure::fail(&failure)),
    }
}
