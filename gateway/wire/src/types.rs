//! Requests, answers and events, as they go over the socket.
//!
//! One JSON object a line, JSON-RPC 2.0. A front end sends `run` or `check`; while a command runs the
//! gateway sends `output` notifications and may send a `question` request, and the front end may send
//! `stdin`, `signal` and `stop` notifications. The caller's identity is never part of a request: the
//! gateway takes it from the kernel.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::errors::Failure;
use crate::parts::base64_bytes;
pub use crate::parts::{AuditReference, ConnectionAsked, Input, SandboxView, Window};
use crate::tasks::TaskView;

/// Version of the protocol; both sides must speak the same.
pub const VERSION: u32 = 1;

/// A time limit of a request that means the longest one that the settings allow.
pub const LONGEST_MS: u64 = u64::MAX;

/// Command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandText {
    /// Shell text, given to bash as it stands.
    Shell(String),
    /// The literal words of one simple command, run without a shell.
    Words(Vec<String>),
    /// A call of a file tool, which the gateway has its file worker do.
    Tool(ToolCall),
}

/// A call of a file tool. The gateway judges it as this tool and starts the worker itself: the front end chooses neither
/// the program nor what it is given beyond this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Name of the tool, one of [`FILE_TOOLS`].
    pub name: String,
    /// Input of the tool, an object.
    pub input: Value,
    /// Conditions of the front end under which the worker refuses the call, such as the digest that a file must have.
    #[serde(default)]
    pub conditions: Value,
}

/// The tools that the file worker does.
pub const FILE_TOOLS: [&str; 8] =
    ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS", "NotebookEdit"];

/// Action when the time limit of a command passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The settings decide; without them the command is stopped.
    #[default]
    Usual,
    /// The command is stopped.
    Stop,
    /// The command goes on as a background task, where a gateway stays to run it; else it is stopped.
    Background,
}

/// One command that a front end wants to run or have judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandRequest {
    /// Command to run.
    pub command: CommandText,
    /// Working directory, absolute.
    pub cwd: String,
    /// Time limit in milliseconds; none means the default, [`LONGEST_MS`] the longest of the settings.
    pub timeout_ms: Option<u64>,
    /// Run on after the answer, as a task.
    pub background: bool,
    /// Action when the time limit passes.
    #[serde(default)]
    pub at_limit: AtLimit,
    /// Both outputs go to one place: they keep their order, and all of it is told as standard output.
    #[serde(default)]
    pub one_stream: bool,
    /// Give the command a terminal of its own; what it reads and writes goes through that.
    pub pty: bool,
    /// The size of that terminal; none for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Purpose of the command, as the agent states it.
    pub description: Option<String>,
    /// Ask to run unconfined.
    pub unsandboxed: bool,
    /// The caller sends standard input; else it is empty.
    pub stdin: bool,
    /// Fill [`RunResult::cwd_after`].
    #[serde(default)]
    pub report_cwd: bool,
    /// The caller did not choose the directory for this call: one of a session goes on where the last one ended that its
    /// caller started in this directory.
    #[serde(default)]
    pub carry_cwd: bool,
    /// Identity of the call, as the front end has it; hooks are told it. None gives it one.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Context that decides besides the command.
    pub context: Context,
}

impl CommandRequest {
    /// Returns the call of a file tool that is to be done, if it is one.
    pub fn tool(&self) -> Option<&ToolCall> {
        match &self.command {
            CommandText::Tool(call) => Some(call),
            CommandText::Shell(_) | CommandText::Words(_) => None,
        }
    }

    /// Returns the name of the tool that rules and hooks know this call by.
    pub fn tool_name(&self) -> &str {
        self.tool().map_or("Bash", |call| call.name.as_str())
    }
}

/// Context of a call: where rules come from and who can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Context {
    /// `--settings`: files or JSON texts, in order.
    pub settings: Vec<String>,
    /// `--setting-sources`: the layers among user, project and local that count; none means all.
    pub setting_sources: Option<Vec<String>>,
    /// `--permission-mode`.
    pub mode: Option<String>,
    /// `--allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// `--disallowed-tools`.
    pub disallowed_tools: Vec<String>,
    /// `--import`.
    pub import: Vec<String>,
    /// `--add-dir`, absolute.
    pub additional_directories: Vec<String>,
    /// Managed settings of the program that started the session, as JSON texts. What they tighten counts, and nothing else.
    #[serde(default)]
    pub managed: Vec<String>,
    /// Directories of plugins, absolute: their hooks count like those of `settings`.
    #[serde(default)]
    pub plugins: Vec<String>,
    /// `--project`, absolute; none means the repository root above the working directory.
    pub project: Option<String>,
    /// Where the session works, absolute, when the call chose a working directory of its own: project, settings and
    /// `./` of the call's own rules begin here. None means the working directory.
    #[serde(default)]
    pub session_directory: Option<String>,
    /// `--profile`.
    pub profile: Option<String>,
    /// The session this call belongs to; none makes each call its own.
    pub session: Option<String>,
    /// The session that an agent's hook named for this command, as the line says that the hook wrote. It counts where
    /// nothing else names one.
    #[serde(default)]
    pub hook_session: Option<String>,
    /// The number of the question that an agent's hook put to its person about this command, as the line says.
    #[serde(default)]
    pub hook_question: Option<String>,
    /// A person can be asked through this front end.
    pub interactive: bool,
    /// Variables of the caller, in order; the gateway builds the command's environment from them.
    pub environment: Vec<(String, String)>,
    /// The front end, such as `run`, `socket`, `hook`.
    pub door: String,
    /// The agent behind the front end, as it says.
    pub agent: Option<String>,
}

/// A call to be judged without being run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct CheckRequest {
    /// Name of the tool; `Bash` for commands.
    pub tool: String,
    /// Input of the tool; for `Bash` an object with `command`.
    pub input: Value,
    /// Working directory, absolute.
    pub cwd: String,
    /// Write a record of the decision.
    pub record: bool,
    /// Fill [`DecisionView::explanation`] and [`DecisionView::evidence`].
    #[serde(default)]
    pub explain: bool,
    /// Run matching hooks; without it a matching hook is only named.
    #[serde(default)]
    pub run_hooks: bool,
    /// The caller runs the call itself, unconfined: nothing is allowed because it would run confined.
    #[serde(default)]
    pub caller_runs: bool,
    /// The caller puts a question to a person of its own, and goes on only after a yes.
    #[serde(default)]
    pub caller_asks: bool,
    /// Identity of the call, as the front end has it; hooks are told it. None gives it one.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Inputs that stand in for those of this machine.
    #[serde(default)]
    pub case: Option<Case>,
    /// The front end has refused the call already, because it could not be read: with `record` it is recorded as
    /// failed, and this failure is the answer.
    #[serde(default)]
    pub refused: Option<Failure>,
    /// Context that decides besides the call.
    pub context: Context,
}

/// Inputs of a written case: each that is present stands in for what this machine has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Case {
    /// `layers`: a settings object for each of `user`, `project`, `local`, `flag`, `policy`. When it is
    /// present no settings file is read and the bare schema defaults lie below (sandbox off).
    pub layers: Option<Value>,
    /// `home`, absolute; need not exist.
    pub home: Option<String>,
    /// `hooks_inline`: recorded outcomes of hooks.
    pub hooks_inline: Option<Vec<Value>>,
    /// `trusted`: the folder is trusted.
    pub trusted: Option<bool>,
    /// `sandbox_available`: the machine can enforce what is required.
    pub sandbox_available: Option<bool>,
}

/// One part of a judged command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartView {
    /// Its text.
    pub text: String,
    /// Bytes of the command text, start and end.
    pub span: (u32, u32),
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// The rule that decided this part.
    pub rule: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    /// The rule as it is written.
    pub rule: String,
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// Its layer.
    pub source: String,
    /// Its file.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
}

/// A decision, as every front door shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct DecisionView {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// The rule that decided, as it is written.
    pub rule: Option<String>,
    /// Layer of the rule, or `builtin`, `mode`, `hook`, `sandbox`.
    pub source: String,
    /// File of the rule.
    pub file: Option<String>,
    /// Line of the rule, from 1.
    pub line: Option<u32>,
    /// Column of the rule, from 1.
    pub column: Option<u32>,
    /// Every rule that matched, the deciding one first.
    #[serde(default)]
    pub rules: Vec<RuleView>,
    /// Each part of the command; of very many the deciding one and the strictest others.
    pub commands: Vec<PartView>,
    /// How many further parts are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub commands_unlisted: u64,
    /// Why, in one sentence.
    pub reason: String,
    /// Stable code of the reason.
    pub code: String,
    /// Remedy, one sentence; may be empty.
    pub help: String,
    /// The rule that "always allow" would write.
    pub suggestion: Option<String>,
    /// The input that was judged (after hooks).
    pub input: Value,
    /// The whole explanation for people, several lines; empty unless asked for.
    pub explanation: String,
    /// The same for programs; null unless asked for.
    #[serde(default)]
    pub evidence: Value,
    /// Digest of the settings that were used.
    pub settings_sha256: String,
    /// Warnings about settings, and what hooks have to tell, one line each.
    pub warnings: Vec<String>,
    /// Hooks that ran, in the order of the settings.
    #[serde(default)]
    pub hooks: Vec<HookView>,
    /// Texts of hooks for the agent.
    #[serde(default)]
    pub context: Vec<String>,
    /// Texts of hooks for the person.
    #[serde(default)]
    pub messages: Vec<String>,
    /// A hook ends the agent's turn, for this reason, which may be empty.
    #[serde(default)]
    pub stop: Option<String>,
    /// The record of a question that the front end puts by itself; `AnsweredRequest` answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
}

/// A hook that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookView {
    /// At which event.
    pub event: String,
    /// Its command line or address.
    pub handler: String,
    /// Its layer.
    pub source: String,
    /// The file in which it is configured.
    pub file: String,
    /// The line there, from 1.
    pub line: u32,
    /// The column there, from 1.
    pub column: u32,
    /// Exit status, if it is a command that exited.
    pub exit: Option<i32>,
    /// How long it took.
    pub milliseconds: u64,
    /// `allow`, `ask`, `deny`, `defer` or `block`; none when it decided nothing.
    pub decision: Option<String>,
    /// Why, as it said; may be empty.
    pub reason: String,
    /// True if the hook gave the call a new input.
    pub changes_input: bool,
    /// How it failed.
    pub error: Option<String>,
}

/// Something that happened at a front end, at which hooks run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct EventRequest {
    /// Name of the event, such as `PostToolUse` or `SessionStart`.
    pub event: String,
    /// Name of the tool; at events that are not about one, the source or reason.
    pub subject: String,
    /// Input of the tool.
    #[serde(default)]
    pub input: Value,
    /// Further members of what hooks are given, such as `tool_response`.
    #[serde(default)]
    pub further: Value,
    /// Identity of the call.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// Context of the call.
    pub context: Context,
}

/// Answers of hooks at an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct EventView {
    /// Every hook that ran.
    pub hooks: Vec<HookView>,
    /// Texts of hooks for the agent.
    pub context: Vec<String>,
    /// Texts of hooks for the person.
    pub messages: Vec<String>,
    /// Why they find fault with what was done.
    pub blocks: Vec<String>,
    /// They end the agent's turn, for this reason, which may be empty.
    pub stop: Option<String>,
    /// A refused call may be tried again.
    pub retry: bool,
    /// All of it for whoever reads along, with the failures of hooks, one line each.
    pub notices: Vec<String>,
}

/// A question that a person must answer before the command may run, or reach a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The decision, with the parts that need an answer.
    pub decision: DecisionView,
    /// The command as text.
    pub command: String,
    /// The exact rule that "always" would write, and into which file; none when no rule may be saved. For a
    /// connection it is a host of `sandbox.network.allowedDomains`.
    pub always: Option<AlwaysOffer>,
    /// The connection that the running command asks for; none when the question is whether it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionAsked>,
    /// The session for which the offered rule can be kept; none where nothing outlives this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The permission mode of the call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

/// The rule that "always" would save, and its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlwaysOffer {
    /// The rule.
    pub rule: String,
    /// The file into which it goes.
    pub file: String,
    /// A wider rule that allows the call as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wider: Option<WiderRule>,
}

/// A rule that allows more than this call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiderRule {
    /// The rule.
    pub rule: String,
    /// How many other commands of the newest records it matches.
    pub others: u64,
    /// Some of them.
    pub examples: Vec<String>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Run this once.
    Once,
    /// Run it, and what the offered rule matches in this session.
    Session,
    /// Run it, and what the offered rule matches for a while.
    For(Lasting),
    /// Run it and write the offered rule.
    Always,
    /// Run it and write this rule, the wider one or the person's own.
    AlwaysRule(String),
    /// Do not run it.
    Deny,
    /// Do not run it, and tell the caller why.
    DenyWith(String),
    /// The person went away without an answer.
    Withdrawn,
}

/// How long a person's yes lasts beyond one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// So many minutes, at most [`Lasting::MOST_MINUTES`].
    Minutes(u32),
    /// So many calls, this one included, at most [`Lasting::MOST_USES`].
    Uses(u32),
}

impl Lasting {
    /// Most minutes: a day.
    pub const MOST_MINUTES: u32 = 24 * 60;
    /// Most calls.
    pub const MOST_USES: u32 = 1000;

    /// Says whether it is longer than one call and not too long.
    pub fn is_valid(self) -> bool {
        match self {
            Lasting::Minutes(count) => (1..=Lasting::MOST_MINUTES).contains(&count),
            Lasting::Uses(count) => (2..=Lasting::MOST_USES).contains(&count),
        }
    }
}

/// Output stream of a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Event while a command is decided and runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The command wrote these bytes.
    Output {
        /// The stream.
        stream: Stream,
        /// The bytes; base64 on the wire.
        #[serde(with = "base64_bytes")]
        bytes: Vec<u8>,
    },
    /// Something to tell the person, one line.
    Notice(String),
    /// The command runs and has a terminal of its own: what a person types is for that from now on.
    Terminal,
    /// The command is a background task from now on. Only the answer of this run follows.
    Background(Box<TaskView>),
}

/// Action of a front end on a running command. Never waits behind [`Input`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// A signal number, such as 2 for Ctrl-C.
    Signal(i32),
    /// End it: TERM, then KILL.
    Stop,
    /// Its terminal has another size.
    Resize(Window),
    /// Make it a background task, if a gateway stays to run it.
    Background,
}

/// How a request to run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The command ran.
    Ran(Box<RunResult>),
    /// The command runs on as a background task.
    Background(Box<TaskView>),
    /// The command was denied, by rule, hook, mode or person.
    Denied(Box<Refusal>),
    /// The command needs a person and none can be asked.
    NeedsPerson(Box<Refusal>),
    /// stockade itself failed.
    Failed(Failure),
}

/// A command that was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The decision.
    pub decision: DecisionView,
    /// The record of it.
    pub audit: Option<AuditReference>,
}

/// A command that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The decision that let it run.
    pub decision: DecisionView,
    /// Exit status, if it exited.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended it, such as `SIGKILL`.
    pub signal: Option<String>,
    /// Number of that signal.
    pub signal_number: Option<i32>,
    /// The time limit passed.
    pub timed_out: bool,
    /// The caller ended it.
    pub interrupted: bool,
    /// From start to end.
    pub duration_ms: u64,
    /// Both streams in the order read, shortened to the limit: the first and the last part.
    pub output: String,
    /// Bytes of both streams.
    pub output_bytes: u64,
    /// Lines of both streams.
    pub output_lines: u64,
    /// The file that holds the whole output, when it was shortened.
    pub spill_path: Option<String>,
    /// `output` is shortened.
    pub truncated: bool,
    /// The background task.
    pub task_id: Option<String>,
    /// Working directory after the command, when it is known.
    pub cwd_after: Option<String>,
    /// The directory is outside of where calls of the session work: the next one does not go on there.
    #[serde(default, skip_serializing_if = "is_no")]
    pub cwd_outside: bool,
    /// Protections that were enforced, and those that were not.
    pub sandbox: SandboxView,
    /// Acts that were refused.
    pub violations: Vec<Value>,
    /// Names of the processes that it left running: they were ended with it.
    #[serde(default)]
    pub left_running: Vec<String>,
    /// Lines for people under the output: refused acts, possible causes of the failure, and processes that were ended
    /// with the command. May be empty.
    pub footer: String,
    /// The record.
    pub audit: AuditReference,
}

fn is_no(value: &bool) -> bool {
    !*value
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
