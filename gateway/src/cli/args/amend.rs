//! The options of `stockade allow` and `stockade block`.

use clap::Args;

use super::Common;
use super::values::{Known, RULES};

/// Shown below the help.
pub(crate) const EXAMPLE_ALLOW: &str = "Examples:\n  stockade allow 'Bash(make:*)'\n  \
    stockade allow pypi.org\n  stockade allow ~/.cache/pip\n  stockade allow --last\n\n\
    Adds the entry to .stockade/settings.local.json, which git ignores.\n\
    Exit status: 0 written, 120 not confirmed, 121 no terminal, 122 stockade failed.";

/// Shown below the help.
pub(crate) const EXAMPLE_BLOCK: &str = "Examples:\n  stockade block 'Bash(git push:*)'\n  \
    stockade block telemetry.example.com\n  stockade block ./secrets\n\n\
    Adds the entry to .stockade/settings.local.json, which git ignores.\n\
    Exit status: 0 written, 122 stockade failed.";

/// Allow or block a rule, a host or a path in this project.
#[derive(Debug, Args)]
pub(crate) struct Amend {
    #[command(flatten)]
    pub common: Common,
    /// A rule such as Bash(make:*), a host such as pypi.org, or a path with a /.
    #[arg(value_name = "RULE|HOST|PATH", required_unless_present = "last", conflicts_with = "last",
        value_parser = Known(RULES), hide_possible_values = true)]
    pub subject: Option<String>,
    /// Allow what the last refusal in this project needed.
    #[arg(long)]
    pub last: bool,
    /// Print the changes without making them.
    #[arg(long)]
    pub dry_run: bool,
}

/// Shown below the help.
pub(crate) const EXAMPLE_LEARN: &str = "Example:\n  stockade learn -- npm test\n\n\
    Runs the command in the sandbox, prints the settings that would allow what was refused, and asks at the\n\
    terminal whether to add them to .stockade/settings.local.json. Repeat until nothing is refused.\n\
    Exit status: that of the command; 120 not confirmed, 122 stockade failed.";

/// Run a command and propose the settings that it needs.
#[derive(Debug, Args)]
pub(crate) struct Learn {
    #[command(flatten)]
    pub common: Common,
    /// Print the settings without adding them.
    #[arg(long)]
    pub dry_run: bool,
    /// A shell text, or the words of one command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
