//! The options of `stockade install`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Common;

/// Examples of `stockade install`.
pub(crate) const EXAMPLE: &str = "Examples:\n  sudo stockade install --system --policy managed-settings.json\n  \
    sudo stockade install --system --undo --keep-log\n  \
    sudo stockade install --apparmor\n\n\
    Without --policy, existing managed settings are kept; if there are none, new ones set `requireGateway`.";

/// Install the gateway as a system service, or remove it.
#[derive(Debug, Args)]
pub(crate) struct Install {
    #[command(flatten)]
    pub common: Common,
    /// Install for all users of this machine, as root.
    #[arg(long, required_unless_present = "apparmor")]
    pub system: bool,
    /// Install the AppArmor profile alone, with which Ubuntu lets this executable make namespaces.
    #[arg(long, conflicts_with_all = ["system", "policy", "keep_log", "manager"])]
    pub apparmor: bool,
    /// Managed settings of this machine.
    #[arg(long, value_name = "FILE", conflicts_with = "undo")]
    pub policy: Option<PathBuf>,
    /// Remove what was installed, including the log.
    #[arg(long)]
    pub undo: bool,
    /// Keep the log and its keys.
    #[arg(long, requires = "undo")]
    pub keep_log: bool,
    /// Print the changes without making them.
    #[arg(long)]
    pub dry_run: bool,
    /// Install below this directory, and start nothing.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The manager that starts the service [default: systemd where it runs, else a service script].
    #[arg(long, value_enum, value_name = "MANAGER")]
    pub manager: Option<Manager>,
}

/// The manager that starts the service.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Manager {
    /// Units of systemd.
    Systemd,
    /// A script in /etc/init.d.
    Script,
}
