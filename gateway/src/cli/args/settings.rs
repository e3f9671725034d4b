//! The options of `stockade settings`.

use clap::{Args, Subcommand};

/// Shown below the help.
pub(crate) const EXAMPLE: &str = "Example:\n  stockade settings schema > ~/.config/stockade/schema.json\n\n\
    Then begin a settings file with \"$schema\": \"./schema.json\", and editors complete its keys.";

/// Describe all keys of settings files.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// The text to print.
    #[command(subcommand)]
    pub command: SettingsCommand,
}

/// The texts that can be printed.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum SettingsCommand {
    /// Print a JSON Schema of settings files.
    #[command(after_help = "Example:\n  stockade settings schema > schema.json")]
    Schema,
    /// Print all keys as a table in Markdown.
    #[command(after_help = "Example:\n  stockade settings page | less")]
    Page,
}
