//! A question at the terminal, in the words of every front door. Read from `/dev/tty`, so that only a person
//! answers, and without what was typed before the question stood there.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::sync::Arc;

use rustix::termios::{QueueSelector, tcflush};
use stockade_wire::types::{Answer, Question};
use stockade_wire::words;

/// How often an answer that is none is asked for again.
const TRIES: usize = 3;

/// The terminal of this process.
#[derive(Debug, Clone)]
pub(crate) struct Terminal(Arc<File>);

impl Terminal {
    /// Opens the terminal, if there is one and a person reads what this process says.
    pub(crate) fn open() -> Option<Terminal> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal(Arc::new(file)))
    }

    /// Puts `question` and reads the answer. Without a clear yes nothing runs.
    pub(crate) fn ask(&self, question: &Question) -> Answer {
        self.read(question).unwrap_or(Answer::Withdrawn)
    }

    fn read(&self, question: &Question) -> std::io::Result<Answer> {
        let mut screen = self.0.as_ref();
        screen.write_all(words::plain(|name| std::env::var_os(name)).as_bytes())?;
        screen.write_all(words::question(question).as_bytes())?;
        tcflush(screen, QueueSelector::IFlush)?;
        let answer = self.answer(question);
        screen.write_all(words::PLAIN_END.as_bytes())?;
        answer
    }

    fn answer(&self, question: &Question) -> std::io::Result<Answer> {
        let mut screen = self.0.as_ref();
        let mut lines = BufReader::new(screen);
        for _ in 0..TRIES {
            screen.write_all(words::prompt(question).as_bytes())?;
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                return Ok(Answer::Withdrawn);
            }
            // The permission mode of a session is the session's own.
            if let Some(words::Typed::Answer(answer)) = words::answer(&line, question) {
                return Ok(answer);
            }
            screen.write_all(words::not_an_answer(&line, question).as_bytes())?;
        }
        Ok(Answer::Deny)
    }
}
