//! `stockade agent`: becomes the executable that lies beside this one.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::cli::exit::ExitCode;

use super::args::Agent;
use crate::protocol::errors::{Code, Failure};

/// Name of the executable beside this one.
const BESIDE: &str = "stockade-agent";

/// Replaces this process by `stockade-agent`; returns only when that is not possible.
pub(crate) fn start(options: &Agent) -> Result<ExitCode, Failure> {
    let failed = |reason: String| {
        let help = format!("install `{BESIDE}` into the directory of `stockade`");
        Failure::new(Code::InvalidRequest, format!("`{BESIDE}` cannot be started: {reason}"), help)
    };
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let beside = own.with_file_name(BESIDE);
    let error = Command::new(&beside).args(&options.arguments).exec();
    Err(failed(format!("{}: {error}", beside.display())))
}
