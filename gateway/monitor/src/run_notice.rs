//! The notice under a command that ran: what a layer refused, or that one without eyes may be why it failed.
//!
//! The output of the command is never read for that.

use std::collections::BTreeSet;
use std::path::Path;

use stockade_policy::SandboxState;
use stockade_programs::tables::{Table, view};
use stockade_spec::{Match, Pattern, Violation};

use crate::denied_reads;
use crate::judge::{Judged, Scene};
use crate::protocol::words::one_line;
use crate::run::Execution;
use crate::violation_help::{self, Around};

/// A shell returns this plus the signal's number for a child that a signal ended (`bash(1)`).
const SHELL_SIGNAL: i32 = 128;

/// The rule of a write outside of what is writable, where programs try several places.
const OUTSIDE: &str = "builtin: outside of the writable directories";

/// Most names of processes that are told.
const MOST_NAMES: usize = 3;

/// Returns no line, or up to five.
pub fn of(execution: &Execution, judged: &Judged, scene: &Scene) -> String {
    let open = match judged.facts.sandbox {
        SandboxState::Unavailable => open_parts(&execution.enforced),
        SandboxState::Enforced | SandboxState::Off => String::new(),
    };
    let met = met(execution, judged, scene);
    let lines = [met, open, withheld(execution), left(&execution.left), cut(execution)];
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the line about a rule that granted a command that failed nothing.
fn withheld(execution: &Execution) -> String {
    let failed = execution.exit.is_none_or(|exit| exit.code != Some(0));
    match execution.withheld.split_first().filter(|_| failed) {
        None => String::new(),
        Some((first, [])) => format!("stockade: {}", one_line(first)),
        Some((first, more)) => format!("stockade: {} ({} more)", one_line(first), more.len()),
    }
}

/// Returns the line about output that is not in its file.
fn cut(execution: &Execution) -> String {
    let cut = execution.output.cut.as_deref();
    cut.map_or_else(String::new, |cut| format!("stockade: the output was cut: {}", one_line(cut)))
}

/// Returns the line about processes that a command left running.
fn left(names: &[String]) -> String {
    let distinct: BTreeSet<String> =
        names.iter().map(|name| format!("`{}`", one_line(name))).collect();
    let shown: Vec<String> = distinct.iter().take(MOST_NAMES).cloned().collect();
    let more = if distinct.len() > MOST_NAMES { ", …" } else { "" };
    let count = match names.len() {
        0 => return String::new(),
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let help =
        "background processes stop when the command returns; use `--background` to keep them";
    let shown = shown.join(", ");
    format!(
        "stockade: stopped {count} that the command left in the background: {shown}{more}; {help}"
    )
}

/// Returns the line about what the command met, if there is one.
fn met(execution: &Execution, judged: &Judged, scene: &Scene) -> String {
    let failed = execution.exit.is_none_or(|exit| exit.code != Some(0));
    let ended = execution.timed_out || execution.interrupted;
    if let Some(broken) = &execution.network.broken {
        return format!("stockade: {broken}; no connection was made after that");
    }
    if let Some((first, rest)) = execution.network.refused.split_first().filter(|_| !ended) {
        return first.footer(rest.len() + execution.violations.len());
    }
    let counts = |found: &&Violation| failed || matters(found, judged);
    let mut told: Vec<&Violation> = execution.violations.iter().filter(counts).collect();
    told.sort_by_key(|found| rank(found, judged));
    if let Some((first, rest)) = told.split_first() {
        return violation_help::notice(first, rest, around(judged));
    }
    if !failed || ended || judged.facts.sandbox != SandboxState::Enforced {
        return String::new();
    }
    if let Some(note) = execution.enforced.notes.first() {
        return format!("stockade: {note}");
    }
    if is_foreign(execution) {
        return "stockade: killed by SIGSYS: the filter kills processes that use system calls of another architecture".into();
    }
    denied_reads::footer(judged, scene).unwrap_or_default()
}

/// Returns how likely a refusal is why a command failed, the likeliest least; those that are equal stay in the order of time.
/// A violation that waits for a person comes first.
fn rank(found: &Violation, judged: &Judged) -> u8 {
    let is_outside = found.rule == OUTSIDE;
    match found.kind.as_str() {
        "planted" | "process" => 0,
        "limit" => 1,
        _ if is_named(&found.object, judged) => 2,
        "network" | "unix-socket" => 3,
        "write" if is_tried(&found.object, judged) => 6,
        "write" if !is_outside => 4,
        "write" => 5,
        // Much goes on without them.
        _ => 7,
    }
}

/// Returns the directories that no remedy makes writable as a whole.
pub fn around(judged: &Judged) -> Around<'_> {
    Around { home: &judged.facts.home, project: &judged.facts.project }
}

/// Says whether a refusal is told under a command that ended with status 0, which a pipe or a list may make of any other.
/// Not what programs try and do without.
fn matters(found: &Violation, judged: &Judged) -> bool {
    match found.kind.as_str() {
        "write" => is_named(&found.object, judged) || !is_tried(&found.object, judged),
        // Programs that only want the name of this machine look that up as well. One command alone would have failed.
        "network" if found.object.ends_with(violation_help::NAME_SERVICE) => {
            judged.tree.as_ref().is_none_or(|tree| tree.commands().len() > 1)
        }
        "network" | "unix-socket" | "limit" | "planted" | "process" => true,
        // Calls that are refused are tried at the start of much that goes on without them.
        _ => false,
    }
}

/// Says whether the text of the command names the path.
fn is_named(path: &str, judged: &Judged) -> bool {
    let path = Path::new(path);
    let mut named = judged.facts.real_paths.iter();
    named.any(|(written, real)| written == path || real.iter().any(|it| it == path))
}

/// Says whether programs write there and go on without it.
fn is_tried(path: &str, judged: &Judged) -> bool {
    // A table that cannot be read, which a test rules out, hides nothing.
    let tried = view(Table::Tried).texts().unwrap_or_default();
    tried.iter().any(|pattern| {
        let pattern = match pattern.strip_prefix("~/") {
            Some(rest) => judged.facts.home.join(rest),
            None => Path::new(pattern).to_path_buf(),
        };
        let pattern = Pattern::parse(&pattern);
        pattern.is_ok_and(|pattern| pattern.matches(Path::new(path)) == Match::Whole)
    })
}

/// Says whether a process was ended for a call that no filter lets through.
fn is_foreign(execution: &Execution) -> bool {
    const SIGSYS: i32 = rustix::process::Signal::SYS.as_raw();
    let ended = execution.exit.unwrap_or_default();
    let by_shell = SHELL_SIGNAL.saturating_add(SIGSYS);
    ended.signal == Some(SIGSYS) || ended.code == Some(by_shell)
}

/// Names what a run on a machine that cannot confine it wholly was not kept from.
fn open_parts(enforced: &stockade_spec::Enforced) -> String {
    use stockade_spec::State;
    let open = enforced.states.iter().filter_map(|(protection, state)| match state {
        State::Partial(why) | State::Missing(why) | State::Off(why) => {
            Some(format!("{} ({why})", protection.name()))
        }
        State::Enforced(_) => None,
    });
    let open: Vec<String> = open.collect();
    format!("stockade: not enforced here: {}", open.join("; "))
}
