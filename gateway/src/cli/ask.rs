//! A question on the terminal. Only a person can answer it: it is read from `/dev/tty`, and what was
//! typed before it was shown is dropped.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, PipeReader, PipeWriter, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};

use crate::protocol::types::{Answer, Question};
use crate::protocol::words::{self, Typed};

/// How often an answer that is none is asked for again.
const TRIES: usize = 3;
/// Most bytes of a line that is not an answer; a terminal gives no longer ones (termios(3)).
const LONGEST_LINE: usize = 4096;

/// How long a terminal is waited for from which a question is taken back.
pub(crate) const WITHDRAWAL: Duration = Duration::from_millis(200);

/// The terminal of this process.
#[derive(Debug, Clone)]
pub(crate) struct Terminal(Arc<File>, Arc<Mutex<Option<String>>>);

impl Terminal {
    /// Opens the terminal, if there is one and a person reads what this process says: standard error
    /// that goes elsewhere means that a program is at the other end.
    pub(crate) fn open() -> Option<Terminal> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal(Arc::new(file), Arc::default()))
    }

    /// Puts `question` and reads the answer, unless it is `withdrawn`. Without a clear yes nothing runs.
    pub(crate) fn ask(&self, question: &Question, withdrawn: &Withdrawn) -> Answer {
        let read = |line: &str| words::answer(line, question);
        let hint = |line: &str| words::not_an_answer(line, question);
        let text = words::question(question);
        match self.read(&text, &words::prompt(question), Some(withdrawn), read, hint) {
            Some(Some(Typed::Answer(answer))) => answer,
            Some(Some(Typed::Mode(mode))) => {
                *self.chosen() = Some(mode);
                Answer::Withdrawn
            }
            Some(None) => Answer::Deny,
            None => Answer::Withdrawn,
        }
    }

    /// Takes the permission mode in which the person wants the call to be judged once more.
    pub(crate) fn take_mode(&self) -> Option<String> {
        self.chosen().take()
    }

    fn chosen(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `text` and returns whether the person answers `prompt` with a clear yes.
    pub(crate) fn confirm(&self, text: &str, prompt: &str) -> bool {
        let read = |line: &str| match line.trim() {
            "yes" | "y" => Some(true),
            "no" | "n" => Some(false),
            _ => None,
        };
        let hint = |line: &str| {
            format!("  invalid answer {}; type yes or no\n", words::quoted(line.trim()))
        };
        self.read(text, prompt, None, read, hint) == Some(Some(true))
    }

    /// Shows `text` and asks until `read` understands an answer, but not for ever. None when the person went
    /// away, or nobody waits for the answer any more.
    fn read<T>(
        &self,
        text: &str,
        prompt: &str,
        withdrawn: Option<&Withdrawn>,
        read: impl Fn(&str) -> Option<T>,
        hint: impl Fn(&str) -> String,
    ) -> Option<Option<T>> {
        let mut screen = self.0.as_ref();
        let plain = words::plain(|name| std::env::var_os(name));
        screen.write_all(plain.as_bytes()).ok()?;
        screen.write_all(text.as_bytes()).ok()?;
        // Keys that were typed or pasted before the question was shown do not answer it.
        tcflush(screen, QueueSelector::IFlush).ok()?;
        let answer = self.answer(prompt, withdrawn, read, hint);
        screen.write_all(words::PLAIN_END.as_bytes()).ok()?;
        answer
    }

    fn answer<T>(
        &self,
        prompt: &str,
        withdrawn: Option<&Withdrawn>,
        read: impl Fn(&str) -> Option<T>,
        hint: impl Fn(&str) -> String,
    ) -> Option<Option<T>> {
        let mut screen = self.0.as_ref();
        let mut typed = Vec::new();
        for _ in 0..TRIES {
            screen.write_all(prompt.as_bytes()).ok()?;
            let line = self.line(&mut typed, withdrawn)?;
            if let Some(answer) = read(&line) {
                return Some(Some(answer));
            }
            screen.write_all(hint(&line).as_bytes()).ok()?;
        }
        Some(None)
    }

    /// Reads a line, behind what was typed before. None at the end, and when nobody waits for it.
    fn line(&self, typed: &mut Vec<u8>, withdrawn: Option<&Withdrawn>) -> Option<String> {
        loop {
            let end = typed.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            if let Some(end) = end.or((typed.len() >= LONGEST_LINE).then_some(typed.len())) {
                let line: Vec<u8> = typed.drain(..end).collect();
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            let mut polled = vec![PollFd::new(self.0.as_ref(), PollFlags::IN)];
            polled.extend(withdrawn.map(|it| PollFd::new(&it.0, PollFlags::IN)));
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            }
            // Keys typed then belong to another process.
            if polled.get(1).is_some_and(|it| !it.revents().is_empty()) {
                return None;
            }
            let mut piece = [0; LONGEST_LINE];
            match rustix::io::read(self.0.as_ref(), &mut piece) {
                Ok(0) => return None,
                Ok(count) => typed.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Keeps a question standing; dropping it takes the question back.
#[derive(Debug)]
pub(crate) struct Withdrawal(#[allow(dead_code, reason = "its end is what is heard")] PipeWriter);

/// Tells that a question was taken back.
#[derive(Debug)]
pub(crate) struct Withdrawn(PipeReader);

impl Withdrawal {
    /// Makes both ends.
    pub(crate) fn new() -> std::io::Result<(Withdrawal, Withdrawn)> {
        std::io::pipe().map(|(reader, writer)| (Withdrawal(writer), Withdrawn(reader)))
    }
}
