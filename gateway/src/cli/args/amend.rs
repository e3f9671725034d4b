//! The options of `stockade allow` and `stockade block`.

use clap::Args;

use super::Common;

/// Shown below the help.
pub(crate) const EXAMPLE_ALLOW: &str = "Examples:\n  stockade allow 'Bash(make:*)'\n  \
    stockade allow pypi.org\n  stockade allow ~/.cache/pip\n\n\
    Adds the entry to .stockade/settings.local.json, which git ignores.\n\
    Exit status: 0 written, 120 not confirmed, 121 there is no terminal, 122 could not.";

/// Shown below the help.
pub(crate) const EXAMPLE_BLOCK: &str = "Examples:\n  stockade block 'Bash(git push:*)'\n  \
    stockade block telemetry.example.com\n  stockade block ./secrets\n\n\
    Adds the entry to .stockade/settings.local.json, which git ignores.\n\
    Exit status: 0 written, 122 could not.";

/// `stockade allow` and `stockade block`.
#[derive(Debug, Args)]
pub(crate) struct Amend {
    #[command(flatten)]
    pub common: Common,
    /// A rule such as `Bash(make:*)`, a host such as `pypi.org`, or a path with a `/` in it.
    #[arg(value_name = "RULE|HOST|PATH")]
    pub subject: String,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}
