//! `stockade completions` and `stockade man`, from the same definition as the command line itself.

use crate::cli::exit::ExitCode;

use clap::CommandFactory as _;

use super::args::{Arguments, Completions, Man, help};
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
    if options.list {
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names: Vec<&str> = names.filter(|name| *name != "help").collect();
        return print(names.join("\n").as_bytes());
    }
    let page = match &options.subcommand {
        None => command,
        Some(name) => match command.find_subcommand(name) {
            Some(found) => help::shortened(found.clone()),
            None => {
                let message = format!("unknown subcommand {}", words::quoted(name));
                return Err(Failure::new(
                    Code::InvalidRequest,
                    message,
                    "`stockade --help` lists all subcommands",
                ));
            }
        },
    };
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).manual("User Commands").render(&mut text);
    rendered.map_err(|error| {
        Failure::new(Code::Internal, format!("cannot render the page: {error}"), "")
    })?;
    text.extend_from_slice(include_bytes!("sections.man"));
    print(&text)
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    let text = String::from_utf8_lossy(text);
    failure::print(text.trim_end()).map_err(failure::unwritable)?;
    Ok(ExitCode::SUCCESS)
}
