//! Options that all subcommands share.

use std::path::PathBuf;

use clap::Args;

use super::values::{Known, RULES};
use crate::cli::color::When;

/// Options before or after a subcommand.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Common {
    /// Add settings from a file or a JSON text (repeatable).
    #[arg(long, value_name = "FILE|JSON")]
    pub settings: Vec<String>,
    /// Read only these layers: user, project, local.
    #[arg(long, value_name = "LAYERS")]
    pub setting_sources: Option<String>,
    /// Use this permission mode.
    #[arg(long, value_name = "MODE", value_parser = MODES)]
    pub permission_mode: Option<String>,
    /// Add allow rules (repeatable).
    #[arg(long, value_name = "RULES", value_parser = Known(RULES), hide_possible_values = true)]
    pub allowed_tools: Vec<String>,
    /// Add deny rules (repeatable).
    #[arg(long, value_name = "RULES", value_parser = Known(RULES), hide_possible_values = true)]
    pub disallowed_tools: Vec<String>,
    /// Also read the settings files of this product.
    #[arg(long, value_name = "PRODUCT", value_parser = ["claude-code"])]
    pub import: Vec<String>,
    /// Add a working directory (repeatable).
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Set the project directory [default: the root of the repository].
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Change to this directory first.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Use a profile below all layers: read-only, project, network, none, or a settings file.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Join this session [env: STOCKADE_SESSION].
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Store the log in this directory.
    #[arg(long, value_name = "DIR")]
    pub audit_dir: Option<PathBuf>,
    /// Store keys, output and state in this directory.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Connect to the gateway on this socket.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Don't use a running gateway.
    #[arg(long)]
    pub no_daemon: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub json: bool,
    /// Color messages: auto, always or never [default: auto; NO_COLOR means never].
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    pub color: Option<When>,
    /// Suppress notices.
    #[arg(long)]
    pub quiet: bool,
}

const MODES: [&str; 7] =
    ["default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];

impl Common {
    /// Joins options that stood before the subcommand with those behind it: lists are put together, a
    /// single value given in both places is an error that names the option.
    pub(crate) fn join(self, after: Common) -> Result<Common, &'static str> {
        Ok(Common {
            settings: [self.settings, after.settings].concat(),
            setting_sources: one(self.setting_sources, after.setting_sources, "--setting-sources")?,
            permission_mode: one(self.permission_mode, after.permission_mode, "--permission-mode")?,
            allowed_tools: [self.allowed_tools, after.allowed_tools].concat(),
            disallowed_tools: [self.disallowed_tools, after.disallowed_tools].concat(),
            import: [self.import, after.import].concat(),
            add_dir: [self.add_dir, after.add_dir].concat(),
            project: one(self.project, after.project, "--project")?,
            cwd: one(self.cwd, after.cwd, "--cwd")?,
            profile: one(self.profile, after.profile, "--profile")?,
            session: one(self.session, after.session, "--session")?,
            audit_dir: one(self.audit_dir, after.audit_dir, "--audit-dir")?,
            state_dir: one(self.state_dir, after.state_dir, "--state-dir")?,
            socket: one(self.socket, after.socket, "--socket")?,
            no_daemon: self.no_daemon || after.no_daemon,
            json: self.json || after.json,
            color: one(self.color, after.color, "--color")?,
            quiet: self.quiet || after.quiet,
        })
    }
}

fn one<T>(
    before: Option<T>,
    after: Option<T>,
    name: &'static str,
) -> Result<Option<T>, &'static str> {
    match (before, after) {
        (Some(_), Some(_)) => Err(name),
        (before, after) => Ok(before.or(after)),
    }
}
