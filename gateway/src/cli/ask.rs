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
        let mut screen = self.0.as_ref();
        if screen.write_all(text(question).as_bytes()).is_err() {
            return Answer::Withdrawn;
        }
        // What was typed or pasted before the question stood there is no answer to it.
        if tcflush(screen, QueueSelector::IFlush).is_err() {
            return Answer::Withdrawn;
        }
        let mut lines = BufReader::new(screen);
        for _ in 0..TRIES {
            if screen.write_all(prompt(question).as_bytes()).is_err() {
                return Answer::Withdrawn;
            }
            let mut line = String::new();
            match lines.read_line(&mut line) {
                Ok(0) | Err(_) => return Answer::Withdrawn,
                Ok(_) => {}
            }
            if let Some(answer) = read(&line, question.always.is_some()) {
                return answer;
            }
        }
        Answer::Deny
    }
}

/// Returns the question as it is shown.
fn text(question: &Question) -> String {
    let mut lines = vec![words::verdict(&question.decision, &question.command, "")];
    if question.decision.commands.len() != 1 {
        lines.push(format!("  whole command: {}", words::quoted(&question.command)));
    }
    if let Some(always) = &question.always {
        let file = words::one_line(&always.file);
        lines.push(format!(
            "  always writes the allow rule {} to {file}",
            words::quoted(&always.rule)
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn prompt(question: &Question) -> &'static str {
    match question.always {
        Some(_) => "  run it? once, always, deny: ",
        None => "  run it? once, deny: ",
    }
}

/// Reads an answer; none when it is not clear.
fn read(line: &str, always: bool) -> Option<Answer> {
    match line.trim() {
        "once" | "o" | "yes" | "y" => Some(Answer::Once),
        "always" | "a" if always => Some(Answer::Always),
        "deny" | "d" | "no" | "n" => Some(Answer::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::types::{AlwaysOffer, DecisionView, PartView};

    #[test]
    fn the_question_names_the_rule_and_the_file_and_cannot_be_spoofed() {
        let part = PartView {
            text: "rm \u{202e}txt".into(),
            span: (0, 9),
            decision: "ask".into(),
            rule: None,
            reason: String::new(),
        };
        let question = Question {
            decision: DecisionView {
                decision: "ask".into(),
                reason: "no rule speaks of it".into(),
                commands: vec![part],
                ..DecisionView::default()
            },
            command: "rm \u{202e}txt".into(),
            always: Some(AlwaysOffer { rule: "Bash(rm:*)".into(), file: "/p/x\u{1b}[2J".into() }),
        };
        assert_eq!(
            text(&question),
            "stockade: needs a person: `rm \\u{202e}txt`\n  because no rule speaks of it\n  \
             always writes the allow rule `Bash(rm:*)` to /p/x\\u{1b}[2J\n"
        );
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!(read("once\n", true), Some(Answer::Once));
        assert_eq!(read("a\n", true), Some(Answer::Always));
        assert_eq!(read("a\n", false), None);
        assert_eq!(read("\n", true), None);
        assert_eq!(read("d\n", true), Some(Answer::Deny));
    }
}
