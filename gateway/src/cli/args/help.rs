//! Help of a subcommand: its own options, and the global ones in one line.

use clap::{Args as _, Command, CommandFactory as _};

use super::{Arguments, Common};

/// Columns of the line that names the global options.
const WIDTH: usize = 96;

/// Returns the help that a command line asks for, with the codes of a terminal if it is `colored`.
pub(crate) fn text(words: &[String], colored: bool) -> String {
    let mut command = Arguments::command();
    command.build();
    let words = || words.iter().skip(1).take_while(|word| *word != "--");
    let deeper = |at, word: &String| Command::find_subcommand(at, word).unwrap_or(at);
    let mut page = words().fold(&command, deeper).clone();
    if page.get_name() != command.get_name() {
        page = shortened(page);
    }
    let help = match words().any(|word| word == "-h") {
        true => page.render_help(),
        false => page.render_long_help(),
    };
    if colored { help.ansi().to_string() } else { help.to_string() }
}

/// Returns a subcommand whose help names the global options in one line.
pub(crate) fn shortened(page: Command) -> Command {
    let common = Common::augment_args(Command::default());
    let is_common = |id: &str| common.get_arguments().any(|it| it.get_id() == id);
    let long = |it: &clap::Arg| it.get_long().map(|name| format!("--{name}"));
    let names: Vec<String> = common.get_arguments().filter_map(long).collect();
    let note = format!(
        "Global options (described by `stockade --help`):\n  {}",
        wrapped(&names, WIDTH).join("\n  ")
    );
    let after = match page.get_after_help() {
        Some(after) => format!("{after}\n\n{note}"),
        None => note,
    };
    let hidden = |argument: clap::Arg| match is_common(argument.get_id().as_str()) {
        true => argument.hide(true),
        false => argument,
    };
    page.mut_args(hidden).after_help(after)
}

/// Returns words in lines of at most `width` columns.
fn wrapped(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.clone()),
        }
    }
    lines
}
