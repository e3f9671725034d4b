//! `stockade hook AGENT`: one pre-tool frame on standard input, that agent's answer on standard output.
//!
//! Several agents run the command when their hook crashes, is late or prints nonsense. So this process is only a
//! supervisor: the real handler is a child, its answer is passed on when it is complete and well formed, and
//! everything else becomes the agent's explicit refusal. Where a gateway runs, the handler only carries frames to it and
//! back; then it is this process, which keeps the refusal ready for every end that a process can notice.

use std::io::Write as _;
use std::panic::UnwindSafe;
use std::time::{Duration, Instant};

use stockade_kernel::{Branch, LastWords};

pub(crate) mod answer;
pub(crate) mod frame;
pub(crate) mod handle;
mod hook_messages;
mod table;
mod tools;

#[cfg(test)]
mod strange;
#[cfg(test)]
mod tests;

use answer::{HookOutput, blocked};
pub(crate) use table::{TEXT as TABLE, marks};

/// Most bytes of a handler's answer.
const ANSWER_LIMIT_BYTES: usize = 32 << 20;

/// Message about a handler that broke.
const FAILED: &str = "the hook's handler failed";

/// An agent whose hook form is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Copilot CLI.
    Copilot,
    /// OpenCode, through the plugin that set-up writes.
    #[value(name = "opencode")]
    OpenCode,
    /// Cline.
    Cline,
    /// Cursor.
    Cursor,
    /// Antigravity CLI, by its documentation.
    Antigravity,
    /// Agents of VS Code, by its documentation.
    #[value(name = "vscode")]
    VsCode,
    /// Factory Droid, by its documentation.
    Droid,
    /// Qwen Code, by its documentation.
    Qwen,
    /// Windsurf, by its documentation.
    Windsurf,
}

impl Agent {
    /// All agents.
    pub(crate) const ALL: [Agent; 12] = [
        Agent::Claude,
        Agent::Codex,
        Agent::Gemini,
        Agent::Copilot,
        Agent::OpenCode,
        Agent::Cline,
        Agent::Cursor,
        Agent::Antigravity,
        Agent::VsCode,
        Agent::Droid,
        Agent::Qwen,
        Agent::Windsurf,
    ];

    /// Returns the name on the command line and in `policies/agents.jsonc`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Copilot => "copilot",
            Agent::OpenCode => "opencode",
            Agent::Cline => "cline",
            Agent::Cursor => "cursor",
            Agent::Antigravity => "antigravity",
            Agent::VsCode => "vscode",
            Agent::Droid => "droid",
            Agent::Qwen => "qwen",
            Agent::Windsurf => "windsurf",
        }
    }
}

/// From here on this process refuses when a fault or a signal ends it, or `deadline` is over.
pub(crate) fn keep_words(agent: Agent, deadline: Duration) -> std::io::Result<()> {
    LastWords::keep(last_words(blocked(agent, FAILED)), last_words(late(agent, deadline)), deadline)
}

/// Runs `handler` in a copy of this process, prints its answer or a refusal, and returns the exit status.
pub(crate) fn supervise(
    agent: Agent,
    handler: impl FnOnce() -> u8 + UnwindSafe,
    deadline: Duration,
) -> u8 {
    // From here on the time is measured below, where a handler that is late is ended too.
    let without_limit = LastWords::without_limit();
    let handler = without_limit.and_then(|()| {
        Branch::fork(|| match LastWords::forget() {
            Ok(()) => handler(),
            Err(_) => u8::MAX,
        })
    });
    std::panic::set_hook(Box::new(move |_| {
        std::process::exit(i32::from(print(&blocked(agent, "the hook failed"))));
    }));
    let answer = handler
        .map_err(|error| format!("cannot start the hook's handler: {error}"))
        .and_then(|handler| watch(handler, deadline))
        .unwrap_or_else(|reason| blocked(agent, &reason));
    finally(agent, &answer)
}

/// Answers in this process with what `handler` returns, if anything; a panic is a refusal.
pub(crate) fn alone(
    agent: Agent,
    handler: impl FnOnce() -> Option<HookOutput> + UnwindSafe,
) -> Option<u8> {
    // A panic is told by the refusal alone.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = std::panic::catch_unwind(handler);
    std::panic::set_hook(usual);
    let answer = answer.unwrap_or_else(|_| Some(blocked(agent, FAILED)))?;
    Some(finally(agent, &answer))
}

/// Prints an answer that no signal cuts off any more.
fn finally(agent: Agent, answer: &HookOutput) -> u8 {
    match LastWords::in_time() {
        Ok(()) => print(answer),
        Err(error) => print(&blocked(agent, &format!("cannot keep the whole answer: {error}"))),
    }
}

/// Returns the words of `answer`, as [`print`] says them.
fn last_words(answer: HookOutput) -> LastWords {
    let unread = !answer.stdout.is_empty() && nobody_reads();
    let status = if unread { 2 } else { answer.status };
    let (stdout, stderr) = (answer.stdout.into_bytes(), answer.stderr.into_bytes());
    LastWords { stdout, stderr, status, unsaid: 2 }
}

fn late(agent: Agent, deadline: Duration) -> HookOutput {
    blocked(agent, &no_answer_within(deadline))
}

fn no_answer_within(deadline: Duration) -> String {
    format!("no answer within {} ms", deadline.as_millis())
}

/// Prints an answer and returns its exit status; an answer that cannot be printed is status 2, which blocks.
pub(crate) fn print(answer: &HookOutput) -> u8 {
    if !answer.stdout.is_empty() && nobody_reads() {
        return 2;
    }
    let mut stdout = std::io::stdout();
    let printed = stdout.write_all(answer.stdout.as_bytes()).and_then(|()| stdout.flush());
    let told = std::io::stderr().write_all(answer.stderr.as_bytes());
    if printed.is_err() || (told.is_err() && answer.stdout.is_empty()) { 2 } else { answer.status }
}

/// Says whether standard output is the null device, which is also what a closed one becomes when a program starts.
fn nobody_reads() -> bool {
    let (Ok(found), Ok(null)) =
        (rustix::fs::fstat(std::io::stdout()), rustix::fs::stat("/dev/null"))
    else {
        return true;
    };
    (found.st_mode, found.st_rdev) == (null.st_mode, null.st_rdev)
}

/// How long the end of a handler is waited for that has given a refusal.
const ENDING: Duration = Duration::from_millis(200);

/// Returns the handler's answer if it came whole, in form, in time and with status 0. A refusal waits for no end: where
/// the disk hangs, the handler has none before the deadline.
fn watch(mut handler: Branch, deadline: Duration) -> Result<HookOutput, String> {
    let now = Instant::now();
    let until = now.checked_add(deadline).ok_or("the deadline is too far away")?;
    let unread = |error| format!("the handler's answer cannot be read: {error}");
    let written = handler.written(until, ANSWER_LIMIT_BYTES).map_err(unread)?;
    let written = written.ok_or_else(|| no_answer_within(deadline))?;
    let answer = serde_json::from_slice::<HookOutput>(&written)
        .map_err(|error| format!("no answer from the hook's handler: {error}"));
    let soon = Instant::now() + ENDING;
    let mut ended = handler.ended(soon.min(until)).map_err(unread)?;
    if ended.is_none() {
        if answer.as_ref().is_ok_and(HookOutput::refuses) {
            return answer;
        }
        ended = handler.ended(until).map_err(unread)?;
    }
    match ended {
        None => Err(no_answer_within(deadline)),
        Some(false) => Err(FAILED.to_owned()),
        Some(true) => answer,
    }
}
