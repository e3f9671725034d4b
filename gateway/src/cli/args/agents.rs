//! Options of the subcommands through which agents come.

use std::time::Duration;

use clap::Args;

use super::{Common, duration};

/// Shown below the help.
pub(crate) const EXAMPLE_HOOK: &str = "Example, in the settings of Claude Code:\n  \
    {\"hooks\":{\"PreToolUse\":[{\"matcher\":\"*\",\"hooks\":[{\"type\":\"command\",\n  \
    \"command\":\"/usr/local/bin/stockade hook claude\"}]}]}}\n\n\
    Every failure of stockade itself is the agent's explicit refusal: exit status 2, or a cancel.";

/// Shown below the help.
pub(crate) const EXAMPLE_SETUP: &str = "Example:\n  stockade setup claude --dry-run\n\n\
    The old content of a file is kept in the same directory, under its name with .before-stockade.\n\
    `stockade setup --undo --all` disconnects every agent. Run it before you remove stockade.";

/// Shown below the help.
pub(crate) const EXAMPLE_SHELL: &str = "Example:\n  stockade shell -lc 'git status'\n\n\
    Takes the options of bash. Also when started under a name that ends in `sh`, such as a link\n\
    called `bash`: put it where an agent looks for its shell (`stockade setup` does). Without a\n\
    command on a terminal it becomes the real bash. Exit status as for `stockade run`.";

/// Shown below the help.
pub(crate) const EXAMPLE_ACP: &str = "Examples, as the command of an agent in an editor:\n  stockade acp --model opus\n  stockade acp -- gemini --acp";

/// Shown below the help.
pub(crate) const EXAMPLE_USAGE: &str = "Example:\n  stockade usage --by model --since 7d";
/// Shown below the help.
pub(crate) const EXAMPLE_TELEMETRY: &str =
    "Example:\n  OTEL_EXPORTER_OTLP_ENDPOINT=https://collector.example:4318 stockade telemetry";
/// Shown below the help.
pub(crate) const EXAMPLE_RPC: &str = "Example:\n  stockade rpc --session-idle-timeout 600";

/// Answer an agent's hook: reads one frame from standard input, writes the answer to standard output.
#[derive(Debug, Args)]
pub(crate) struct Hook {
    #[command(flatten)]
    pub common: Common,
    /// The agent that sends the frame.
    #[arg(value_name = "AGENT", value_enum)]
    pub agent: crate::serve::hook::Agent,
    /// Replace an allowed shell command by stockade run, if the agent accepts a new input.
    #[arg(long)]
    pub rewrite: bool,
    /// Refuse after this time. Keep it below the agent's own limit.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub deadline: Duration,
}

/// Connect an agent to the gate, or disconnect it.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    #[command(flatten)]
    pub common: Common,
    /// The agent.
    #[arg(value_name = "AGENT", value_enum, required_unless_present_any = ["all", "socket_unit"])]
    pub agent: Option<crate::serve::hook::Agent>,
    /// All installed agents; with --undo all known agents, in both scopes.
    #[arg(long, conflicts_with = "agent")]
    pub all: bool,
    /// Sessions that go through the gate [default: user].
    #[arg(long, value_enum)]
    pub scope: Option<crate::setup::Scope>,
    /// Write the agent's administrator file, which a project cannot override.
    #[arg(long, conflicts_with = "scope")]
    pub managed: bool,
    /// Write a user unit of systemd that starts your gateway with the first connection.
    #[arg(long, conflicts_with_all = ["agent", "all", "scope", "managed"])]
    pub socket_unit: bool,
    /// Print the changes without making them.
    #[arg(long)]
    pub dry_run: bool,
    /// Remove the hook and the shell again.
    #[arg(long)]
    pub undo: bool,
}

/// Act as an agent's shell: decide each command and run it as `stockade run` does.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Shell {
    /// Show this help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Arguments of bash: -c TEXT, a script, options, positional parameters.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}
