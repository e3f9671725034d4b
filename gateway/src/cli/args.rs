//! The command line as types; help, completions and manual pages come from here.

pub(crate) mod agents;
pub(crate) mod amend;
pub(crate) mod approvals;
mod filter;
mod generate;
pub(crate) mod install;
pub(crate) mod policy;
pub(crate) mod review;
mod serve;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
pub(crate) use filter::Conditions;
pub(crate) use generate::{Completions, Man};
pub(crate) use serve::Serve;

use crate::audit::query;
use crate::protocol::types::AtLimit;

/// The gate between an AI agent and a shell.
///
/// Reads each command as a tree, decides it against layered rules, runs it confined and records it.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, max_term_width = 100, after_help = EXAMPLE_TOP)]
pub(crate) struct Arguments {
    /// Options in front of the subcommand.
    #[command(flatten)]
    pub before: Common,
    /// What to do.
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

/// What to do. The options of a subcommand are made when it is the one that is called.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Decide a command, run it confined and record it.
    #[command(after_help = EXAMPLE_RUN)]
    Run(Run),
    /// Decide a command and say why, without running it.
    #[command(after_help = EXAMPLE_CHECK)]
    Check(Check),
    /// Show what a command could start, write and read.
    #[command(after_help = EXAMPLE_PARSE)]
    Parse(Parse),
    /// Read and check the log.
    #[command(after_help = EXAMPLE_AUDIT)]
    Audit(Box<Audit>),
    /// Show the rules, look for mistakes in them, test and compare them; trust the files of a project.
    #[command(after_help = policy::EXAMPLE)]
    Policy(Box<policy::Policy>),
    /// Allow a rule, a host or a path in this project, after a yes at the terminal.
    #[command(after_help = amend::EXAMPLE_ALLOW)]
    Allow(amend::Amend),
    /// Block a rule, a host or a path in this project.
    #[command(after_help = amend::EXAMPLE_BLOCK)]
    Block(amend::Amend),
    /// Show what commands and agents changed of the files that your own tools execute.
    #[command(after_help = review::EXAMPLE)]
    Review(review::Review),
    /// List, read, wait for and stop background tasks.
    #[command(after_help = tasks::EXAMPLE)]
    Tasks(Box<tasks::Tasks>),
    /// List and answer questions that wait because nobody could be asked at the call.
    #[command(after_help = approvals::EXAMPLE)]
    Approvals(Box<approvals::Approvals>),
    /// List and close the open sessions of a gateway.
    #[command(after_help = sessions::EXAMPLE)]
    Sessions(Box<sessions::Sessions>),
    /// Show what this machine can enforce, and what to do about what is missing.
    #[command(after_help = EXAMPLE_DOCTOR)]
    Doctor(Doctor),
    /// Be a gateway for others, on a Unix socket.
    #[command(after_help = EXAMPLE_SERVE)]
    Serve(Serve),
    /// Answer an agent's pre-tool hook: one frame on standard input, its answer on standard output.
    #[command(after_help = agents::EXAMPLE_HOOK)]
    Hook(agents::Hook),
    /// Put an agent behind the gate, or take it out again.
    #[command(after_help = agents::EXAMPLE_SETUP)]
    Setup(agents::Setup),
    /// Install the gateway as a service of this machine, or take it away again.
    #[command(after_help = install::EXAMPLE)]
    Install(install::Install),
    /// Be the shell of an agent: judge what it is given, and run it as `run` does.
    #[command(after_help = agents::EXAMPLE_SHELL)]
    Shell(agents::Shell),
    /// Be an agent that works in this project, with every command and file access behind the gate.
    #[command(after_help = EXAMPLE_AGENT)]
    Agent(Agent),
    /// Serve an editor: the Agent Client Protocol on standard input and output.
    #[command(after_help = agents::EXAMPLE_ACP)]
    Acp(Agent),
    /// Serve sessions to other programs: JSON-RPC on standard input and output, or on a socket.
    #[command(after_help = agents::EXAMPLE_RPC)]
    Rpc(Agent),
    /// Describe the keys of settings files.
    #[command(after_help = settings::EXAMPLE)]
    Settings(settings::Settings),
    /// Print the completions of a shell.
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
    person, 122 stockade itself could not, 124 timed out.";
const EXAMPLE_CHECK: &str = "Example:\n  stockade check --explain 'cat notes.txt | sort'\n\n\
    Exit status: 0 allow, 121 ask, 120 deny, 122 error; with --jsonl 0 when every line was answered.";
const EXAMPLE_PARSE: &str =
    "Example:\n  stockade parse 'find . -name \"*.rs\" | xargs wc -l > lines.txt'";
const EXAMPLE_AUDIT: &str = "Example:\n  stockade audit tail -n 5";
const EXAMPLE_DOCTOR: &str = "Example:\n  stockade doctor --agent claude\n\n\
    Exit status: 0 what is required holds, 122 it does not.";
const EXAMPLE_SERVE: &str = "Example:\n  stockade serve &";
const EXAMPLE_AGENT: &str = "Example:\n  stockade agent -p 'fix the failing test'";
const EXAMPLE_COMPLETIONS: &str = "Example:\n  stockade completions bash";
const EXAMPLE_MAN: &str = "Example:\n  stockade man run";

/// Options that stand before or after a subcommand.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Common {
    /// Read settings from this file, or take this JSON text as settings (repeatable).
    #[arg(long, value_name = "FILE|JSON")]
    pub settings: Vec<String>,
    /// Read only these of the layers user, project and local.
    #[arg(long, value_name = "LAYERS")]
    pub setting_sources: Option<String>,
    /// Decide in this permission mode.
    #[arg(long, value_name = "MODE", value_parser = MODES)]
    pub permission_mode: Option<String>,
    /// Allow what these rules match (repeatable; comma-separated).
    #[arg(long, value_name = "RULES")]
    pub allowed_tools: Vec<String>,
    /// Deny what these rules match (repeatable; comma-separated).
    #[arg(long, value_name = "RULES")]
    pub disallowed_tools: Vec<String>,
    /// Read the settings files of this product too.
    #[arg(long, value_name = "PRODUCT", value_parser = ["claude-code"])]
    pub import: Vec<String>,
    /// Let the tools work in this directory too (repeatable).
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Take this directory as the project [default: the repository root above the working directory].
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Work in this directory.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Start from a profile below all layers: read-only, project, network, none, or the path of a settings file.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Belong to this session [env: STOCKADE_SESSION].
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Keep the log in this directory.
    #[arg(long, value_name = "DIR")]
    pub audit_dir: Option<PathBuf>,
    /// Keep keys, output and state in this directory.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Use the gateway that listens on this socket.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Don't use a running gateway.
    #[arg(long)]
    pub no_daemon: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print no notices.
    #[arg(long)]
    pub quiet: bool,
}
const MODES: [&str; 7] =
    ["default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];

/// `stockade run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub common: Common,
    /// End the command after this time, such as 90s or 2m [default: 120s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Run it as the shell of an agent does: ask nobody at the terminal, take the longest time limit.
    #[arg(long, conflicts_with = "timeout")]
    pub for_agent: bool,
    /// The number of a question that the hook of the agent put about this very command.
    #[arg(long, value_name = "NUMBER", requires = "for_agent", hide = true)]
    pub asked: Option<String>,
    /// Give it a terminal of its own, and this one's keys.
    #[arg(long)]
    pub pty: bool,
    /// Run it as a background task: print the task's ID and return at once. Without `--timeout` it has no time limit.
    #[arg(long)]
    pub background: bool,
    /// Choose what happens when the time limit passes [default: the setting `limits.whenTimeIsUp`, else stop].
    #[arg(long, value_name = "ACTION", value_enum)]
    pub on_timeout: Option<OnTimeout>,
    /// Say what the command is for.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Ask to run it unconfined.
    #[arg(long)]
    pub unsandboxed: bool,
    /// The command: one shell text, or the words of one command.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What happens to a command when its time limit passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnTimeout {
    /// Stop it.
    Stop,
    /// Let it go on as a background task.
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

/// `stockade check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub common: Common,
    /// Explain each part, under the command.
    #[arg(long, conflicts_with = "jsonl")]
    pub explain: bool,
    /// Write a record of the decision.
    #[arg(long, conflicts_with = "jsonl")]
    pub record: bool,
    /// Run hooks that match.
    #[arg(long)]
    pub run_hooks: bool,
    /// Decide a call of this tool.
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with_all = ["command", "jsonl"])]
    pub tool: Option<String>,
    /// The tool's input, a JSON object; `-` reads it from standard input.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub input: Option<String>,
    /// Answer one case a line from standard input.
    #[arg(long, conflicts_with = "command")]
    pub jsonl: bool,
    /// The command: one shell text, or the words of one command.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present_any = ["tool", "jsonl"])]
    pub command: Vec<String>,
}

/// `stockade parse`.
#[derive(Debug, Args)]
pub(crate) struct Parse {
    #[command(flatten)]
    pub common: Common,
    /// Answer one text a line from standard input.
    #[arg(long, conflicts_with = "command")]
    pub jsonl: bool,
    /// The command: one shell text, or the words of one command.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present = "jsonl")]
    pub command: Vec<String>,
}

/// `stockade audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    pub common: Common,
    /// What to do with the log.
    #[command(subcommand)]
    pub command: AuditCommand,
}

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that nothing in the log was changed.
    #[command(after_help = "Example:\n  stockade audit verify\n\n\
        Exit status: 0 intact, 1 changed or damaged, 122 could not be checked.")]
    Verify(Verify),
    /// Show the newest records.
    #[command(after_help = "Example:\n  stockade audit tail -n 5 --follow\n\n\
        Exit status: 0 found, 1 nothing found, 122 could not.")]
    Tail(Tail),
    /// Show the records for which all conditions hold.
    #[command(after_help = "Example:\n  stockade audit search --verdict deny --since -2h\n\n\
        Exit status: 0 found, 1 nothing found, 122 could not.")]
    Search(Search),
    /// Tell why a call was decided as it was, and what came of it.
    #[command(after_help = "Example:\n  stockade audit why last\n\n\
        Exit status: 0 found, 1 nothing found, 122 could not.")]
    Why(Why),
    /// Count decisions by rule, program, user and more.
    #[command(after_help = "Example:\n  stockade audit report --by rule --since -24h\n\n\
        Exit status: 0 found, 1 nothing found, 122 could not.")]
    Report(Report),
    /// Print the newest signed note, to be kept elsewhere.
    #[command(after_help = "Example:\n  stockade audit checkpoint > note\n  \
        stockade audit verify --checkpoint note\n\n\
        Exit status: 0 printed, 1 there is no log yet, 122 could not.")]
    Checkpoint(Checkpoint),
    /// Make tiles, seals and caches again, which follow from the lines; accepts no loss.
    #[command(after_help = "Example:\n  stockade audit repair\n\n\
        Exit status: 0 the log is intact, 1 it is changed or damaged, 122 it cannot be continued.")]
    Repair(Repair),
}

/// `stockade audit verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub common: Common,
    /// The log, if it is not the one in use.
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Trust the keys in this state directory, or this public key file.
    #[arg(long, value_name = "STATE|VKEYFILE")]
    pub trust: Option<PathBuf>,
    /// Compare with this checkpoint, kept elsewhere (repeatable).
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Vec<PathBuf>,
    /// Take notes as findings.
    #[arg(long)]
    pub strict: bool,
    /// Do not take a loss that a person accepted as a finding.
    #[arg(long)]
    pub accept_repairs: bool,
}

/// `stockade audit tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Who decided, such as rule or human.
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// How many records.
    #[arg(short = 'n', value_name = "N", default_value_t = 10)]
    pub count: usize,
    /// Go on with records that are written later.
    #[arg(long)]
    pub follow: bool,
}

/// `stockade audit search`.
#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Who decided, such as rule or human.
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Show the newest records first.
    #[arg(long)]
    pub reverse: bool,
    /// Show at most so many records.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
}

/// `stockade audit why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub common: Common,
    /// Identity or sequence number of a record, or `last`.
    #[arg(value_name = "ID|SEQ|last", default_value = "last")]
    pub which: String,
}

/// `stockade audit report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub conditions: Conditions,
    /// By what to count.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "verdict")]
    pub by: query::By,
}

/// `stockade audit checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    pub common: Common,
    /// The log, if it is not the one in use.
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Print the public key that checks the notes instead.
    #[arg(long)]
    pub vkey: bool,
}

/// `stockade audit repair`.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub common: Common,
    /// The log, if it is not the one in use.
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `stockade doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub common: Common,
    /// Say instead whether the gate is in force for this agent, and try its hook.
    #[arg(long, value_name = "AGENT", value_enum)]
    pub agent: Option<crate::serve::hook::Agent>,
    /// Say instead whether the service of this machine is out of reach, found by trying as an ordinary user.
    #[arg(long, conflicts_with = "agent")]
    pub system: bool,
    /// The user who tries, if root asks [default: who called sudo, else the first person of /etc/passwd].
    #[arg(long, value_name = "NAME", requires = "system")]
    pub user: Option<String>,
}

/// `stockade agent`.
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
        _ => return Err("write a number and one of ms, s, m, h, such as 90s".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number, such as 90s".to_string())?;
    match number.checked_mul(milliseconds) {
        Some(0) => Err("the time must be longer than nothing".into()),
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
        _ => return Err("write a number and one of K, M, G, such as 500M".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number, such as 500M".to_string())?;
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
            Command::Doctor(options) => &options.common,
            Command::Serve(options) => &options.common,
            Command::Hook(options) => &options.common,
            Command::Setup(options) => &options.common,
            Command::Install(options) => &options.common,
            Command::Review(options) => &options.common,
            Command::Allow(options) | Command::Block(options) => &options.common,
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
            | Command::Agent(_)
            | Command::Acp(_)
            | Command::Rpc(_)
            | Command::Shell(_)
            | Command::Completions(_)
            | Command::Man(_) => {
                return self.before.json;
            }
        };
        self.before.json || after.json
    }
}
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
