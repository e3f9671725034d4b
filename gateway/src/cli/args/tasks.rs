//! The options of `stockade tasks`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Common, bytes, duration};

/// Examples of `stockade tasks`.
pub(crate) const EXAMPLE: &str = "Examples:\n  id=$(stockade run --background -- npm run dev)\n  \
    stockade tasks follow \"$id\"\n\n\
    A task is named by its ID, or by at least 4 characters from the start or the end of it.";

/// List, read, wait for and stop background tasks.
#[derive(Debug, Args)]
pub(crate) struct Tasks {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand [default: list].
    #[command(subcommand)]
    pub command: Option<TasksCommand>,
}

/// Subcommands for background tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks, oldest first.
    List(List),
    /// Show one task.
    Show(One),
    /// Print new output of a task.
    Output(Output),
    /// Wait until a task has ended, and exit with its status.
    #[command(
        after_help = "Exit status: that of the task's command, 128+N for signal N; 124 it still runs; 122 it was \
        stopped, is lost, or is unknown."
    )]
    Wait(Wait),
    /// Print output of a task until it ends.
    Follow(Follow),
    /// Attach to the terminal of a task. Ctrl-] detaches; the task keeps running.
    #[command(
        after_help = "Example:\n  id=$(stockade run --background --pty -- python3 -i)\n  stockade tasks attach \"$id\""
    )]
    Attach(One),
    /// Forward a port of this machine's loopback interface to a port on which a task listens, until the task ends.
    #[command(
        after_help = "Example:\n  id=$(stockade run --background -- python3 -m http.server 8000)\n  curl \"$(stockade tasks open \"$id\")\""
    )]
    Open(Open),
    /// Stop a task: TERM, then KILL after 2 seconds.
    Stop(One),
    /// Remove the output of tasks and commands that have ended.
    #[command(after_help = "Example:\n  stockade tasks prune --older-than 24h --dry-run")]
    Prune(Prune),
}

/// List tasks, oldest first.
#[derive(Debug, Args, Default)]
pub(crate) struct List {
    #[command(flatten)]
    pub common: Common,
    /// List running tasks only.
    #[arg(long)]
    pub running: bool,
}

/// A subcommand about one task.
#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    pub common: Common,
    /// The task.
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Print new output of a task.
#[derive(Debug, Args)]
pub(crate) struct Output {
    #[command(flatten)]
    pub common: Common,
    /// The task.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Start at this byte, and keep the position of the last reading.
    #[arg(long, value_name = "BYTE")]
    pub offset: Option<u64>,
    /// Print only lines that match this regular expression.
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<String>,
    /// Wait at most this long for the end of the task first, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,
}

/// The subcommand [default: list].
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub common: Common,
    /// The task.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Wait at most this long [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// Print output of a task until it ends.
#[derive(Debug, Args)]
pub(crate) struct Follow {
    #[command(flatten)]
    pub common: Common,
    /// The task.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Start at this byte.
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    pub offset: u64,
    /// Print only lines that match this regular expression.
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<String>,
    /// Print at most this many matching lines a minute, and count the others.
    #[arg(long, value_name = "N", requires = "filter")]
    pub per_minute: Option<u32>,
}

/// Forward a port of this machine's loopback interface to a port on which a task listens, until the task ends.
#[derive(Debug, Args)]
pub(crate) struct Open {
    #[command(flatten)]
    pub common: Common,
    /// The task.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Forward to this port of the task [default: the one on which it listens].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Listen on this port of the machine [default: a free one].
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
}

/// Remove the output of tasks and commands that have ended.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub common: Common,
    /// Remove what ended longer ago, such as 24h [default: 168h].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Of the rest, remove the oldest until at most this many bytes are left, such as 500M [default: 5G].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub keep: Option<u64>,
    /// Print what would be removed without removing it.
    #[arg(long)]
    pub dry_run: bool,
}

impl TasksCommand {
    /// Returns the common options behind the subcommand.
    pub(crate) fn common(&self) -> &Common {
        match self {
            TasksCommand::List(options) => &options.common,
            TasksCommand::Show(options)
            | TasksCommand::Stop(options)
            | TasksCommand::Attach(options) => &options.common,
            TasksCommand::Open(options) => &options.common,
            TasksCommand::Output(options) => &options.common,
            TasksCommand::Wait(options) => &options.common,
            TasksCommand::Follow(options) => &options.common,
            TasksCommand::Prune(options) => &options.common,
        }
    }
}
