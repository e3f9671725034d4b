//! `stockade completions` and `stockade man`, from the same definition as the command line itself.

use crate::cli::exit::ExitCode;

use clap::CommandFactory as _;

use super::args::{Arguments, Completions, Man};
use super::failure;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

/// Prints the completions of a shell.
pub(crate) fn completions(options: &Completions) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "stockade", &mut text);
    print(&text)
}

/// Prints a manual page.
pub(crate) fn manual(options: &Man) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    command.build();
    let page = match &options.subcommand {
        None => command,
        Some(name) => match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                let message = format!("there is no subcommand {}", words::quoted(name));
                return Err(Failure::new(
                    Code::InvalidRequest,
                    message,
                    "`stockade --help` lists them",
                ));
            }
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|error| {
        Failure::new(Code::Internal, format!("the page cannot be made: {error}"), "")
    })?;
    print(&text)
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    let text = String::from_utf8_lossy(text);
    failure::print(text.trim_end()).map_err(failure::unwritable)?;
    Ok(ExitCode::SUCCESS)
}
