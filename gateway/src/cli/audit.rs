//! `stockade audit`: reads and checks the log.

use std::path::PathBuf;
use std::process::ExitCode;

use super::args::{AuditCommand, Common, Verify};
use super::{context, failure};
use crate::audit::verify::{self, Repairs, Strictness, Trust};
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};

/// Does what `command` says to the log that `common` names.
pub(crate) fn audit(common: Common, command: AuditCommand) -> Result<ExitCode, Failure> {
    match command {
        AuditCommand::Verify(options) => verify(&join(common, &options.common)?, options),
    }
}

fn join(before: Common, after: &Common) -> Result<Common, Failure> {
    before.join(after.clone()).map_err(|option| {
        let message = format!("`{option}` stands both before and after the subcommand");
        Failure::new(Code::InvalidRequest, message, "give it once")
    })
}

/// Returns the places of the log that the options name, or of the one in use.
fn places(common: &Common, directory: Option<PathBuf>) -> Result<Places, Failure> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut options = context::options(common, &here);
    if let Some(directory) = directory {
        options.audit_directory = Some(here.join(directory));
    }
    Places::find(&options, |name| std::env::var_os(name))
}

fn verify(common: &Common, options: Verify) -> Result<ExitCode, Failure> {
    let places = places(common, options.directory)?;
    let trust = match options.trust {
        Some(path) if path.is_dir() => Trust::State(path),
        Some(path) => Trust::KeyFile(path),
        None => Trust::State(places.audit_state),
    };
    let strictness = if options.strict { Strictness::Strict } else { Strictness::Notes };
    let repairs = if options.accept_repairs { Repairs::Accepted } else { Repairs::Refused };
    let report = verify::verify(&verify::Options {
        directory: places.audit,
        trust,
        checkpoints: options.checkpoint,
        strictness,
        repairs,
    });
    let text = if common.json { report.json().to_string() } else { report.text() };
    failure::print(text.trim_end()).map_err(unwritable)?;
    match (report.exit_code(), &report.unchecked) {
        (failure::FAILED, Some(reason)) => Err(Failure::new(
            Code::AuditUnavailable,
            format!("the log could not be checked: {reason}"),
            "name the log with its directory, and its keys with `--trust`",
        )),
        (status, _) => Ok(ExitCode::from(status)),
    }
}

fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(Code::Internal, format!("standard output cannot be written: {error}"), "")
}
