//! Commands inside commands: what a program starts because of its words, from the program tables.

use crate::{Assignment, Effect, Locality, Programs, Reason, SimpleCommand, Stdin, Word};

/// What the tables say about one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// Commands and texts that it starts, in the order of its words.
    pub inner: Vec<Inner>,
    /// What its options and operands do.
    pub effects: Vec<Effect>,
    /// A row speaks of the program and knew every option and operand.
    pub effects_known: bool,
    /// Why it could start something that is not in `inner`.
    pub doubts: Vec<Doubt>,
}

/// A part of a command that could start something that is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Why.
    pub reason: Reason,
    /// The word that causes it, as index into the words; the whole command if none.
    pub word: Option<u32>,
    /// What exactly, for people.
    pub detail: String,
    /// How to write it so that it is understood; empty when there is no such way.
    pub help: String,
}

/// Something that a command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inner {
    /// A command, given as words.
    Command {
        /// Name of the row of the wrapper.
        program: String,
        /// The words of the inner command.
        words: Vec<Word>,
        /// Variables that the wrapper sets for it.
        assignments: Vec<Assignment>,
        /// Rules look through the wrapper.
        strip: bool,
        /// Where it runs.
        locality: Locality,
        /// The directory into which the wrapper changes first.
        directory: Option<Word>,
        /// Where its standard input comes from, if the wrapper decides that.
        stdin: Option<Stdin>,
    },
    /// Text that a shell evaluates.
    Text {
        /// Name of the row of the evaluator.
        program: String,
        /// Index of the word that holds the text, or of its first word.
        word: u32,
        /// The text.
        bytes: Vec<u8>,
        /// The language.
        dialect: Dialect,
        /// `$0` and on.
        positional: Vec<Word>,
        /// Rules look through the evaluator.
        strip: bool,
        /// Where it runs.
        locality: Locality,
        /// A new shell process, such as `bash -c`, not this shell, such as `eval`.
        child: bool,
    },
}

/// The language of a shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// bash.
    Bash,
    /// A POSIX shell that may be dash, busybox or bash.
    Sh,
}

/// Reads one command with the tables.
pub(crate) fn read(programs: &Programs, command: &SimpleCommand) -> Reading {
    let _ = (programs, command);
    Reading::default()
}
