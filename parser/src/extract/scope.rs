//! Parts of a text whose effects on the shell end with them, or may not happen.

use crate::event::Operation;
use crate::extract::Walk;
use crate::extract::shell::{Mark, Point};
use crate::extract::weight;
use crate::{Position, Stdin};

/// Effect of the end of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Another process: all is undone.
    Process,
    /// May not have run, or run often: what changed is not known.
    Branch,
    /// The body of a function: did not run here.
    Body,
}

/// A scope that is open.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    ends: Ends,
    point: Point,
    positions: usize,
    stdins: usize,
}

/// An and-or chain that is open.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    start: Mark,
    /// Behind the first operator.
    later: Option<Mark>,
    /// The whole chain runs in background.
    pub process: Option<Box<Scope>>,
}

impl Chain {
    /// Says whether what is read now may not run, or runs in another process.
    pub(crate) fn is_unsure(&self) -> bool {
        self.later.is_some() || self.process.is_some()
    }
}

impl Walk<'_> {
    pub(crate) fn enter(
        &mut self,
        ends: Ends,
        position: Option<Position>,
        stdin: Option<Stdin>,
    ) -> Scope {
        let scope = Scope {
            ends,
            point: self.shell.point(),
            positions: self.positions.len(),
            stdins: self.stdins.len(),
        };
        self.steps = self.steps.saturating_add(weight::SCOPE);
        self.positions.extend(position);
        self.stdins.extend(stdin);
        scope
    }

    pub(crate) fn leave(&mut self, scope: Scope) {
        self.positions.truncate(scope.positions);
        self.stdins.truncate(scope.stdins);
        match scope.ends {
            Ends::Process => self.shell.undo(scope.point),
            Ends::Branch => self.blur(scope.point.mark),
            Ends::Body => self.shell.undo_body(scope.point),
        }
    }

    /// Records that changes since `mark` may or may not have happened; values are not followed at any price.
    fn blur(&mut self, mark: Mark) {
        let work = self.shell.blur(mark);
        self.steps = self.steps.saturating_add(work.saturating_mul(weight::BLUR));
        self.blurred = self.blurred.saturating_add(work);
        if self.blurred > self.source_length as u64 / 4 + 100_000 {
            self.shell.lose();
        }
    }

    /// Enters a scope that may run again after its end: nothing that it could change is known in it.
    pub(crate) fn enter_repeated(&mut self, position: Position) -> Scope {
        let scope = self.enter(Ends::Branch, Some(position), None);
        self.shell.forget();
        if self.shell.moves {
            self.shell.go(crate::Directory::Unknown);
        }
        scope
    }

    pub(crate) fn open_chain(&self) -> Chain {
        Chain { start: self.shell.mark(), later: None, process: None }
    }

    pub(crate) fn open_background_chain(&mut self) -> Chain {
        self.steps = self.steps.saturating_add(weight::PROCESS);
        let process = Some(Box::new(self.enter(Ends::Process, None, None)));
        Chain { process, ..self.open_chain() }
    }

    /// An operator of a chain: `||` means that what came before may have failed.
    pub(crate) fn chain_operator(&mut self, chain: &mut Chain, operation: Operation) {
        self.steps = self.steps.saturating_add(weight::CHAIN);
        match operation {
            Operation::Or => {
                if std::mem::take(&mut self.redirected) {
                    self.blur(chain.start);
                }
                if let Some(later) = chain.later {
                    self.blur(later);
                }
                self.shell.blur_directory(chain.start);
                chain.later = Some(self.shell.mark());
            }
            Operation::And if chain.later.is_none() => chain.later = Some(self.shell.mark()),
            Operation::And
            | Operation::Semicolon
            | Operation::Background
            | Operation::Pipe
            | Operation::PipeBoth
            | Operation::Other => {}
        }
    }

    /// Begins the text at `start`: in the list of the text itself a new line starts anew.
    pub(crate) fn begin_line(&mut self, bytes: &[u8], start: u32) {
        if self.given_up && self.runs.len() == 1 && self.builds.len() <= 1 {
            let before = bytes.get(..start as usize).unwrap_or_default();
            let blanks = before.iter().rev().take_while(|byte| b" \t".contains(byte)).count();
            let before = before.get(..before.len() - blanks).unwrap_or_default();
            self.given_up = !before.ends_with(b"\n") || before.ends_with(b"\\\n");
        }
    }

    pub(crate) fn close_chain(&mut self, chain: Chain) {
        self.end_chain(chain);
        // In the list of the text itself nothing is open that could be undone.
        if self.runs.len() == 1 && self.builds.len() <= 1 {
            self.shell.settle();
        }
    }

    fn end_chain(&mut self, chain: Chain) {
        if let Some(later) = chain.later {
            self.blur(later);
        }
        self.shell.blur_directory(chain.start);
        // Bash ends the line or the `eval` there, and goes on behind it.
        let ended = self.given_up && (self.runs.len() > 1 || self.lines);
        if std::mem::take(&mut self.redirected) || ended {
            self.blur(chain.start);
        }
        if let Some(process) = chain.process {
            self.leave(*process);
        }
    }
}
