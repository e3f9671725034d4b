//! View of a running command for a person: its output, and beneath it one line that says how long it has been running.
//! Without a terminal the output alone, byte for byte.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use stockade_wire::types::{Event, RunOutcome, Stream};
use stockade_wire::words;

/// Moves to the start of the line and clears it (ECMA-48, EL).
const CLEAR: &str = "\r\u{1b}[K";

/// The view of one command.
#[derive(Debug)]
pub(crate) struct View {
    started: Instant,
    /// There is a terminal to draw on.
    live: bool,
    /// The status line stands on the screen.
    drawn: bool,
    /// The output so far ends with a whole line.
    at_line_start: bool,
    lines: u64,
}

/// Writes lines for people to standard error. That nobody reads them changes nothing.
pub(crate) fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.write_all(b"\n"));
}

impl View {
    /// Returns the view of a command that starts now.
    pub(crate) fn new() -> View {
        let live = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        View { started: Instant::now(), live, drawn: false, at_line_start: true, lines: 0 }
    }

    /// Shows what happened, above the status line.
    pub(crate) fn show(&mut self, event: Event) {
        self.clear();
        match event {
            // This front end asks for neither.
            Event::Terminal | Event::Background(_) => {}
            Event::Notice(text) => tell(&format!("stockade: {}", words::one_line(&text))),
            Event::Output { stream, bytes } => {
                self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.at_line_start = bytes.last().is_none_or(|byte| *byte == b'\n');
                // A reader that went away misses the rest; the record holds what ran.
                let _ = match stream {
                    Stream::Stdout => {
                        let mut stdout = std::io::stdout().lock();
                        stdout.write_all(&bytes).and_then(|()| stdout.flush())
                    }
                    Stream::Stderr => std::io::stderr().lock().write_all(&bytes),
                };
            }
        }
        self.tick();
    }

    /// Draws the status line again, where output does not stand in its way.
    pub(crate) fn tick(&mut self) {
        if self.live && self.at_line_start {
            self.draw(&format!("{CLEAR}{}", self.status("running")));
            self.drawn = true;
        }
    }

    /// Takes the status line away and, on a terminal, says how it ended.
    pub(crate) fn end(&mut self, outcome: &RunOutcome) {
        self.clear();
        if let (true, RunOutcome::Ran(result)) = (self.live, outcome) {
            let how = match (&result.signal, result.exit_code) {
                (Some(signal), _) => format!("ended by {}", words::one_line(signal)),
                (None, Some(code)) => format!("exit {code}"),
                (None, None) => "runs on".to_owned(),
            };
            let gap = if self.at_line_start { "" } else { "\n" };
            self.draw(&format!("{gap}{} · record {}\n", self.status(&how), result.audit.sequence));
        }
    }

    fn status(&self, how: &str) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let plural = if self.lines == 1 { "" } else { "s" };
        format!("[{seconds:.1} s · {} line{plural} · {how}]", self.lines)
    }

    /// Takes the status line away.
    pub(crate) fn clear(&mut self) {
        if self.drawn {
            self.draw(CLEAR);
            self.drawn = false;
        }
    }

    fn draw(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()); // only a picture
    }
}
