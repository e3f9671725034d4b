//! A question on the terminal. Only a person can answer it: it is read from `/dev/tty`, and what was
//! typed before it was shown does not count.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::sync::Arc;

use rustix::termios::{QueueSelector, tcflush};

use crate::protocol::types::{Answer, Question};
use crate::protocol::words;

/// How often an answer that is none is asked for again.
const TRIES: usize = 3;

/// The terminal of this process.
#[derive(Debug, Clone)]
pub(crate) struct Terminal(Arc<File>);

impl Terminal {
    /// Opens the terminal, if there is one and a person reads what this process says: standard error
    /// that goes elsewhere means that a program is at the other end.
    pub(crate) fn open() -> Option<Terminal> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal(Arc::new(file)))
    }

    /// Puts `question` and reads the answer. Without a clear yes nothing runs.
    pub(crate) fn ask(&self, question: &Question) -> Answer {
        let read = |line: &str| words::answer(line, question);
        match self.read(&words::question(question), words::prompt(question), read) {
            Some(answer) => answer.unwrap_or(Answer::Deny),
            None => Answer::Withdrawn,
        }
    }

    /// Shows `text` and returns whether the person answers `prompt` with a clear yes.
    pub(crate) fn confirm(&self, text: &str, prompt: &str) -> bool {
        let read = |line: &str| match line.trim() {
            "yes" | "y" => Some(true),
            "no" | "n" => Some(false),
            _ => None,
        };
        self.read(text, prompt, read) == Some(Some(true))
    }

    /// Shows `text` and asks until `read` understands an answer, but not for ever. None when the person went
    /// away.
    fn read<T>(
        &self,
        text: &str,
        prompt: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        let mut screen = self.0.as_ref();
        screen.write_all(words::PLAIN.as_bytes()).ok()?;
        screen.write_all(text.as_bytes()).ok()?;
        // What was typed or pasted before the question stood there is no answer to it.
        tcflush(screen, QueueSelector::IFlush).ok()?;
        let mut lines = BufReader::new(screen);
        for _ in 0..TRIES {
            screen.write_all(prompt.as_bytes()).ok()?;
            let mut line = String::new();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(answer) = read(&line) {
                return Some(Some(answer));
            }
        }
        Some(None)
    }
}
