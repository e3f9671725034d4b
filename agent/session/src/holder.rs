//! A holder is the process that has a session open, as others are told of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::now;

/// Begin of the names of this program's own processes: whoever started them is the one that a person knows.
const OWN: &str = "stockade";
/// Most processes that are followed upwards.
const ANCESTORS: usize = 16;

/// The process that has a session open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process number; 0 for one that has not said it.
    pub pid: u32,
    /// Since when, as RFC 3339 has it.
    pub since: String,
    /// Name of its terminal, such as `pts/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Name of the program that started it, such as a shell or an editor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Holder {
    /// Returns this process.
    pub(crate) fn own() -> Holder {
        let own = Process::read("self");
        let mut above = own.as_ref().map(|it| it.parent);
        let mut program = None;
        for _ in 0..ANCESTORS {
            let Some(process) = above.and_then(|pid| Process::read(&pid.to_string())) else {
                break;
            };
            if !process.name.starts_with(OWN) {
                program = Some(process.name);
                break;
            }
            above = Some(process.parent);
        }
        let terminal = own.and_then(|it| it.terminal);
        Holder { pid: std::process::id(), since: now(), terminal, program }
    }
}

impl fmt::Display for Holder {
    /// The names come from a file and from other processes, so nothing of them draws on a terminal.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return write!(formatter, "another process");
        }
        write!(formatter, "process {}", self.pid)?;
        let started = self.program.as_ref().map(|it| format!("started by {}", it.escape_debug()));
        let on = self.terminal.as_ref().map(|it| format!("on {}", it.escape_debug()));
        let how: Vec<String> = started.into_iter().chain(on).collect();
        if !how.is_empty() {
            write!(formatter, " ({})", how.join(" "))?;
        }
        write!(formatter, " since {}", self.since.escape_debug())
    }
}

/// Name and parent of a process, as the kernel gives them (proc_pid_stat(5)).
struct Process {
    name: String,
    parent: u32,
    terminal: Option<String>,
}

impl Process {
    fn read(pid: &str) -> Option<Process> {
        Process::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the line. A name may hold parentheses and spaces, so the last parenthesis ends it.
    fn parse(line: &str) -> Option<Process> {
        let (head, rest) = line.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = rest.split_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let device: u64 = fields.nth(2)?.parse().ok()?;
        Some(Process { name: name.to_owned(), parent, terminal: terminal(device) })
    }
}

/// Returns the name of a terminal by its device number (the list of devices of the kernel's documentation).
fn terminal(device: u64) -> Option<String> {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    match major {
        136..=143 => Some(format!("pts/{}", (major - 136) * 256 + minor)),
        4 if minor < 64 => Some(format!("tty{minor}")),
        4 => Some(format!("ttyS{}", minor - 64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_with_its_program_and_terminal_and_draws_nothing() {
        let process = Process::parse("42 (a) b) S 7 42 42 34819 42 0 1").unwrap();
        let Process { name, parent, terminal: on } = process;
        assert_eq!((name.as_str(), parent, on.as_deref()), ("a) b", 7, Some("pts/3")));
        let found = [0, 1025, 1088, 34816 + (1 << 20), 35072].map(terminal);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found, [None, some("tty1"), some("ttyS0"), some("pts/256"), some("pts/256")]);
        let holder = Holder {
            pid: 7,
            since: "then".into(),
            terminal: some("pts/3"),
            program: some("ed\u{1b}[2J"),
        };
        assert_eq!(holder.to_string(), "process 7 (started by ed\\u{1b}[2J on pts/3) since then");
        let older: Holder = serde_json::from_str(r#"{"pid":7,"since":"then"}"#).unwrap();
        assert_eq!(older.to_string(), "process 7 since then");
        assert_eq!(Holder::default().to_string(), "another process");
    }
}
