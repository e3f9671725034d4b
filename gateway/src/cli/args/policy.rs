//! The options of `stockade policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Common;

/// Example of `stockade policy`.
pub(crate) const EXAMPLE: &str = "Example:\n  stockade policy show";

/// Show, check, test and compare rules, and trust the settings files of a project.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// Subcommands for the rules.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show every rule, hook and setting in force here, with file and line.
    #[command(after_help = "Example:\n  stockade policy show\n\n\
        Exit status: 0 shown, 122 invalid settings.")]
    Show(Show),
    /// Find invalid keys, rules without effect, and rules that allow too much.
    #[command(after_help = "Example:\n  stockade policy lint\n\n\
        Exit status: 0 nothing found, 1 something found, 122 stockade failed.")]
    Lint(Lint),
    /// Decide written cases and show unexpected decisions.
    #[command(after_help = "Example:\n  stockade policy test .stockade/cases/git.jsonl\n\n\
        A case is a line such as {\"tool\": \"Bash\", \"input\": {\"command\": \"git push\"}, \"expect\": \"ask\"}.\n\
        Exit status: 0 all as expected, 1 at least one unexpected, 122 stockade failed.")]
    Test(Test),
    /// Show calls that two settings files decide differently.
    #[command(after_help = "Example:\n  stockade policy diff old.json new.json\n\n\
        Exit status: 0 no difference found, 1 differences, 122 stockade failed.")]
    Diff(Diff),
    /// Review the settings files of this project at the terminal, and trust them.
    ///
    /// Deny and ask rules of a project apply at once. Allow rules apply after a person has trusted exactly
    /// this content.
    #[command(after_help = "Example:\n  stockade policy trust\n\n\
        Exit status: 0 trusted, or nothing to trust; 120 not trusted; 121 no terminal.")]
    Trust(Trust),
}

impl PolicyCommand {
    /// Returns the options that all of these share.
    pub(crate) fn common(&self) -> &Common {
        match self {
            PolicyCommand::Show(options) => &options.common,
            PolicyCommand::Lint(options) => &options.common,
            PolicyCommand::Test(options) => &options.common,
            PolicyCommand::Diff(options) => &options.common,
            PolicyCommand::Trust(options) => &options.common,
        }
    }
}

/// Show every rule, hook and setting in force here, with file and line.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub common: Common,
}

/// Find invalid keys, rules without effect, and rules that allow too much.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    #[command(flatten)]
    pub common: Common,
}

/// Decide written cases and show unexpected decisions.
#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    pub common: Common,
    /// Run matching hooks.
    #[arg(long)]
    pub run_hooks: bool,
    /// Case files [default: .stockade/cases/*.jsonl of the project].
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Show calls that two settings files decide differently.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub common: Common,
    /// Old settings.
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// New settings.
    #[arg(value_name = "B")]
    pub after: PathBuf,
}

/// Review the settings files of this project at the terminal, and trust them.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    #[command(flatten)]
    pub common: Common,
}
