//! The command line as types; help, completions and manual pages come from here.

pub(crate) mod agents;
pub(crate) mod amend;
pub(crate) mod approvals;
mod common;
pub(crate) mod events;
mod filter;
mod generate;
pub(crate) mod grants;
pub(crate) mod help;
pub(crate) mod install;
pub(crate) mod policy;
pub(crate) mod review;
mod serve;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
pub(crate) use common::Common;
pub(crate) use filter::Conditions;
pub(crate) use generate::{Completions, Man};
pub(crate) use serve::Serve;
use values::{Known, TOOLS};

use crate::audit::query;
use crate::protocol::types::AtLimit;

/// The gate between an AI agent and a shell.
///
/// Reads each command as a tree, decides it by your rules, runs it in a sandbox and records it.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, max_term_width = 100, after_help = EXAMPLE_TOP)]
pub(crate) struct Arguments {
    /// Global options.
    #[command(flatten)]
    pub before: Common,
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The same without options in front of the subcommand, which are as many again and rarely there.
#[derive(Debug, Parser)]
#[command(name = "stockade", version)]
struct Plain {
    #[command(subcommand)]
    command: Command,
}

/// Subcommands. The options of a subcommand are made when it is the one that is called.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Decide a command, run it in the sandbox and record it.
    #[command(after_help = EXAMPLE_RUN)]
    Run(Run),
    /// Decide a command and explain the decision, without running it.
    #[command(after_help = EXAMPLE_CHECK)]
    Check(Check),
    /// List the programs that a command could start and the files it could read and write.
    #[command(after_help = EXAMPLE_PARSE)]
    Parse(Parse),
    /// Read and verify the audit log.
    #[command(after_help = EXAMPLE_AUDIT)]
    Audit(Box<Audit>),
    /// Show, check, test and compare rules, and trust the settings files of a project.
    #[command(after_help = policy::EXAMPLE)]
    Policy(Box<policy::Policy>),
    /// Allow a rule, a host or a path in this project. Asks at the terminal.
    #[command(after_help = amend::EXAMPLE_ALLOW)]
    Allow(amend::Amend),
    /// Block a rule, a host or a path in this project.
    #[command(after_help = amend::EXAMPLE_BLOCK)]
    Block(amend::Amend),
    /// Run a command and propose the settings that it needs.
    #[command(after_help = amend::EXAMPLE_LEARN)]
    Learn(amend::Learn),
    /// List changed files that your own tools execute.
    #[command(after_help = review::EXAMPLE)]
    Review(review::Review),
    /// List, read, wait for and stop background tasks.
    #[command(after_help = tasks::EXAMPLE)]
    Tasks(Box<tasks::Tasks>),
    /// List and answer open questions.
    #[command(after_help = approvals::EXAMPLE)]
    Approvals(Box<approvals::Approvals>),
    /// List and revoke rules that were allowed for a while.
    #[command(after_help = grants::EXAMPLE)]
    Grants(Box<grants::Grants>),
    /// List and close sessions.
    #[command(after_help = sessions::EXAMPLE)]
    Sessions(Box<sessions::Sessions>),
    /// Print records of the log as the running gateway tells them.
    #[command(after_help = events::EXAMPLE)]
    Events(Box<events::Events>),
    /// Check which protections this machine can enforce, and how to get the missing ones.
    #[command(after_help = EXAMPLE_DOCTOR)]
    Doctor(Doctor),
    /// Run a gateway on a Unix socket.
    #[command(after_help = EXAMPLE_SERVE)]
    Serve(Serve),
    /// Print why an agent's hook refused a command.
    #[command(hide = true)]
    Refuse(Refuse),
    /// Answer an agent's hook: reads one frame from standard input, writes the answer to standard output.
    #[command(after_help = agents::EXAMPLE_HOOK)]
    Hook(agents::Hook),
    /// Connect an agent to the gate, or disconnect it.
    #[command(after_help = agents::EXAMPLE_SETUP)]
    Setup(agents::Setup),
    /// Install the gateway as a system service, or remove it.
    #[command(after_help = install::EXAMPLE)]
    Install(install::Install),
    /// Act as an agent's shell: decide each command and run it as `stockade run` does.
    #[command(after_help = agents::EXAMPLE_SHELL)]
    Shell(agents::Shell),
    /// Keep aliases and functions of your shell for commands: reads what bash prints from standard input.
    #[command(after_help = snapshot::EXAMPLE)]
    Snapshot(snapshot::Snapshot),
    /// Start stockade's own agent in this project.
    #[command(after_help = EXAMPLE_AGENT)]
    Agent(Agent),
    /// Serve an editor: the Agent Client Protocol on standard input and output; `acp -- AGENT` stands before another agent.
    #[command(after_help = agents::EXAMPLE_ACP)]
    Acp(Agent),
    /// Serve sessions to other programs: JSON-RPC on standard input and output, or on a socket.
    #[command(after_help = agents::EXAMPLE_RPC)]
    Rpc(Agent),
    /// Show tokens and cost of the agent's sessions by day, session, project or model.
    #[command(after_help = agents::EXAMPLE_USAGE)]
    Usage(Agent),
    /// Send records to a collector of OpenTelemetry, as traces, metrics and logs.
    #[command(after_help = agents::EXAMPLE_TELEMETRY)]
    Telemetry(Agent),
    /// Describe all keys of settings files.
    #[command(after_help = settings::EXAMPLE)]
    Settings(settings::Settings),
    /// Print shell completions.
    #[command(after_help = EXAMPLE_COMPLETIONS)]
    Completions(Completions),
    /// Print a manual page.
    #[command(after_help = EXAMPLE_MAN)]
    Man(Man),
}
const EXAMPLE_TOP: &str = "Example:\n  stockade check 'git status && rm -rf build'";
const EXAMPLE_RUN: &str = "Example:\n  stockade run 'echo hello'\n\n\
    One operand is shell text, several are the words of one command; `-` reads the text from\n\
    standard input. Exit status: the command's own (128+N for signal N), 120 denied, 121 needs a\n\
    person, 122 stockade failed, 124 timed out.";
const EXAMPLE_CHECK: &str = "Example:\n  stockade check --explain 'cat notes.txt | sort'\n\n\
    Exit status: 0 allowed, 120 denied, 121 needs a person, 122 stockade failed; with --jsonl 0 if every line was decided.";
const EXAMPLE_PARSE: &str =
    "Example:\n  stockade parse 'find . -name \"*.rs\" | xargs wc -l > lines.txt'";
const EXAMPLE_AUDIT: &str = "Example:\n  stockade audit tail -n 5";
const EXAMPLE_DOCTOR: &str = "Example:\n  stockade doctor --agent claude\n\n\
    Exit status: 0 all required protections are in force, 122 some are not.";
const EXAMPLE_SERVE: &str = "Example:\n  stockade serve &";
const EXAMPLE_AGENT: &str = "Example:\n  stockade agent -p 'fix the failing test'";
const EXAMPLE_COMPLETIONS: &str = "Example:\n  stockade completions bash";
const EXAMPLE_MAN: &str = "Example:\n  stockade man run";

/// When a command gets a terminal of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pty {
    /// Always.
    Always,
    /// If standard input and output are a terminal.
    Auto,
    /// Never.
    Never,
}

/// Print why an agent's hook refused a command. The hook puts this in the command's place; nothing runs.
#[derive(Debug, Args)]
pub(crate) struct Refuse {
    /// The reason.
    #[arg(value_name = "REASON")]
    pub reason: String,
}

/// Decide a command, run it in the sandbox and record it.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub common: Common,
    /// Stop the command after this time, such as 90s or 2m [default: 120s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Run it as an agent's shell does: ask nobody at the terminal, and use the longest time limit.
    #[arg(long, conflicts_with = "timeout")]
    pub for_agent: bool,
    /// The number of the question that the agent's hook asked about this command.
    #[arg(long, value_name = "NUMBER", requires = "for_agent", hide = true)]
    pub asked: Option<String>,
    /// Give the command its own terminal and your keys; `auto` if standard input and output are a terminal.
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, require_equals = true,
          default_value = "never", default_missing_value = "always", hide_default_value = true)]
    pub pty: Pty,
    /// Write standard error to standard output, in the order in which the command wrote.
    #[arg(long)]
    pub merge_output: bool,
    /// Run as a background task: print the task's ID and return. Without --timeout there is no time limit.
    #[arg(long)]
    pub background: bool,
    /// Choose what happens at the time limit [default: the setting `limits.whenTimeIsUp`, else stop].
    #[arg(long, value_name = "ACTION", value_enum)]
    pub on_timeout: Option<OnTimeout>,
    /// Record the purpose of the command.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Ask to run without the sandbox.
    #[arg(long)]
    pub unsandboxed: bool,
    /// A shell text, or the words of one command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Fate of a command whose time limit passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnTimeout {
    /// Stop it.
    Stop,
    /// Keep it running as a background task.
    Background,
}
impl OnTimeout {
    /// Returns the same as the gateway is told.
    pub(crate) fn at_limit(self) -> AtLimit {
        match self {
            OnTimeout::Stop => AtLimit::Stop,
            OnTimeout::Background => AtLimit::Background,
        }
    }
}

/// Decide a command and explain the decision, without running it.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub common: Common,
    /// Explain each part.
    #[arg(long, conflicts_with = "jsonl")]
    pub explain: bool,
    /// Record the decision.
    #[arg(long, conflicts_with = "jsonl")]
    pub record: bool,
    /// Run matching hooks.
    #[arg(long)]
    pub run_hooks: bool,
    /// Decide a call of this tool instead of a command.
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ["command", "jsonl"],
        value_parser = Known(TOOLS), hide_possible_values = true)]
    pub tool: Option<String>,
    /// Input of the tool as a JSON object, or - for standard input.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub input: Option<String>,
    /// Read one case a line from standard input, and print one decision a line.
    #[arg(long, conflicts_with = "command")]
    pub jsonl: bool,
    /// A shell text, or the words of one command.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present_any = ["tool", "jsonl"])]
    pub command: Vec<String>,
}

/// List the programs that a command could start and the files it could read and write.
#[derive(Debug, Args)]
pub(crate) struct Parse {
    #[command(flatten)]
    pub common: Common,
    /// Read one text a line from standard input.
    #[arg(long, conflicts_with = "command")]
    pub jsonl: bool,
    /// A shell text, or the words of one command.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present = "jsonl")]
    pub command: Vec<String>,
}

/// Read and verify the audit log.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    pub common: Common,
    /// The subcommand.
    #[command(subcommand)]
    pub command: AuditCommand,
}

/// Subcommands for the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify that the log is unchanged.
    #[command(after_help = "Example:\n  stockade audit verify\n\n\
        Exit status: 0 intact, 1 changed or damaged, 122 could not be verified.")]
    Verify(Verify),
    /// Show the newest records.
    #[command(after_help = "Example:\n  stockade audit tail -n 5 --follow\n\n\
        Exit status: 0 found, 1 nothing found, 122 stockade failed.")]
    Tail(Tail),
    /// Show the records that meet all conditions.
    #[command(after_help = "Example:\n  stockade audit search --verdict deny --since 2h\n\n\
        Exit status: 0 found, 1 nothing found, 122 stockade failed.")]
    Search(Search),
    /// Explain the decision about a call, and show its result.
    #[command(after_help = "Example:\n  stockade audit why last\n\n\
        Exit status: 0 found, 1 nothing found, 122 stockade failed.")]
    Why(Why),
    /// Count decisions by rule, program, user and more.
    #[command(after_help = "Example:\n  stockade audit report --by rule --since -24h\n\n\
        Exit status: 0 found, 1 nothing found, 122 stockade failed.")]
    Report(Report),
    /// Print the newest signed checkpoint. Keep it on another machine.
    #[command(after_help = "Example:\n  stockade audit checkpoint > note\n  \
        stockade audit verify --checkpoint note\n\n\
        Exit status: 0 printed, 1 no log yet, 122 stockade failed.")]
    Checkpoint(Checkpoint),
    /// Rebuild tiles, seals and caches. Records are never changed.
    #[command(after_help = "Example:\n  stockade audit repair\n\n\
        Exit status: 0 intact, 1 changed or damaged, 122 the log cannot be continued.")]
    Repair(Repair),
}

/// Verify that the log is unchanged.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub common: Common,
    /// Directory of the log [default: the log in use].
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Trust the keys of this state directory, or this public key file.
    #[arg(long, value_name = "STATE|VKEYFILE")]
    pub trust: Option<PathBuf>,
    /// Compare with a checkpoint from another machine (repeatable).
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Vec<PathBuf>,
    /// Report notes as findings.
    #[arg(long)]
    pub strict: bool,
    /// Ignore losses that a person has accepted.
    #[arg(long)]
    pub accept_repairs: bool,
}

/// Show the newest records.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Decided by, such as rule or human.
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Number of records.
    #[arg(short = 'n', value_name = "N", default_value_t = 10)]
    pub count: usize,
    /// Keep printing new records.
    #[arg(long)]
    pub follow: bool,
}

/// Show the records that meet all conditions.
#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Decided by, such as rule or human.
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Newest records first.
    #[arg(long)]
    pub reverse: bool,
    /// Largest number of records.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
}

/// Explain the decision about a call, and show its result.
#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub common: Common,
    /// ID or sequence number of a record, or last.
    #[arg(value_name = "ID|SEQ|last", default_value = "last")]
    pub which: String,
}

/// Count decisions by rule, program, user and more.
#[derive(Debug, Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Group by this.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "verdict")]
    pub by: query::By,
}

/// Print the newest signed checkpoint. Keep it on another machine.
#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    pub common: Common,
    /// Directory of the log [default: the log in use].
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Print the public key of the checkpoints instead.
    #[arg(long)]
    pub vkey: bool,
}

/// Rebuild tiles, seals and caches. Records are never changed.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub common: Common,
    /// Directory of the log [default: the log in use].
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Check which protections this machine can enforce, and how to get the missing ones.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub common: Common,
    /// Check whether the gate is in force for this agent, and try its hook.
    #[arg(long, value_name = "AGENT", value_enum)]
    pub agent: Option<crate::serve::hook::Agent>,
    /// Check the system service instead, by attacking it as an ordinary user.
    #[arg(long, conflicts_with = "agent")]
    pub system: bool,
    /// The ordinary user to try as, when run by root [default: the caller of sudo, else the first person in /etc/passwd].
    #[arg(long, value_name = "NAME", requires = "system")]
    pub user: Option<String>,
}

/// Start stockade's own agent in this project.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Agent {
    /// Arguments of `stockade-agent`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Reads a length of time: a whole number with `ms`, `s`, `m` or `h`; without a unit, seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("invalid time: use a number with ms, s, m or h, such as 90s".into()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "invalid time: use a number with ms, s, m or h, such as 90s".to_string())?;
    match number.checked_mul(milliseconds) {
        Some(0) => Err("invalid time: use more than 0".into()),
        Some(total) => Ok(Duration::from_millis(total)),
        None => Err("the number is too large".into()),
    }
}

/// Reads a size: a whole number of bytes, or with `K`, `M` or `G` of 1024, 1024² or 1024³ bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("invalid size: use a number with K, M or G, such as 500M".into()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "invalid size: use a number with K, M or G, such as 500M".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the number is too large".into())
}
impl Arguments {
    /// Reads a command line, whose first word is the name of the program. What is wrong with it, and help, are told of
    /// the whole definition.
    pub(crate) fn read(words: &[impl AsRef<OsStr>]) -> Result<Arguments, clap::Error> {
        let words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
        let stands_in_front = |word: &&OsStr| word.as_encoded_bytes().starts_with(b"-");
        if !words.get(1).is_some_and(stands_in_front)
            && let Ok(Plain { command }) = Plain::try_parse_from(&words)
        {
            return Ok(Arguments { before: Common::default(), command });
        }
        Arguments::try_parse_from(words)
    }

    /// Says whether the answer is to be one JSON object.
    pub(crate) fn is_json(&self) -> bool {
        let after = match &self.command {
            Command::Run(options) => &options.common,
            Command::Check(options) => &options.common,
            Command::Parse(options) => &options.common,
            Command::Events(options) => &options.common,
            Command::Doctor(options) => &options.common,
            Command::Serve(options) => &options.common,
            Command::Hook(options) => &options.common,
            Command::Setup(options) => &options.common,
            Command::Install(options) => &options.common,
            Command::Review(options) => &options.common,
            Command::Snapshot(options) => &options.common,
            Command::Allow(options) | Command::Block(options) => &options.common,
            Command::Learn(options) => &options.common,
            Command::Tasks(options) if options.common.json => &options.common,
            Command::Tasks(options) => match &options.command {
                Some(command) => command.common(),
                None => &options.common,
            },
            Command::Approvals(options) if options.common.json => &options.common,
            Command::Approvals(options) => match &options.command {
                Some(command) => command.common(),
                None => &options.common,
            },
            Command::Grants(options) if options.common.json => &options.common,
            Command::Grants(options) => match &options.command {
                Some(command) => command.common(),
                None => &options.common,
            },
            Command::Sessions(options) if options.common.json => &options.common,
            Command::Sessions(options) => match &options.command {
                Some(command) => command.common(),
                None => &options.common,
            },
            Command::Policy(options) if options.common.json => &options.common,
            Command::Policy(options) => options.command.common(),
            Command::Audit(options) => match &options.command {
                _ if options.common.json => &options.common,
                AuditCommand::Verify(options) => &options.common,
                AuditCommand::Tail(options) => &options.common,
                AuditCommand::Search(options) => &options.common,
                AuditCommand::Why(options) => &options.common,
                AuditCommand::Report(options) => &options.common,
                AuditCommand::Checkpoint(options) => &options.common,
                AuditCommand::Repair(options) => &options.common,
            },
            Command::Settings(_)
            | Command::Refuse(_)
            | Command::Agent(_)
            | Command::Acp(_)
            | Command::Rpc(_)
            | Command::Usage(_)
            | Command::Telemetry(_)
            | Command::Shell(_)
            | Command::Completions(_)
            | Command::Man(_) => {
                return self.before.json;
            }
        };
        self.before.json || after.json
    }
}
