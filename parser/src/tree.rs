//! The tree of commands that policy judges.

use crate::event::{Event, Kind};
use crate::grammar::{HowRead, Syntax};
use crate::marks::Request;
use crate::{Bytes, Operator, Reason, Shared, Span, Thin, Word, Words};
use stockade_programs::{EffectKind, Locality};

/// A parsed text that the witness has not confirmed yet.
#[derive(Debug, Clone)]
#[must_use = "a draft decides nothing until it is confirmed"]
pub struct Draft {
    tree: CommandTree,
    /// The text and each nested text, for the witness.
    requests: Vec<Request>,
    steps: u64,
}

/// Everything that a text could start, write or read, and every part that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct CommandTree {
    pub(crate) source: Vec<u8>,
    pub(crate) commands: Vec<SimpleCommand>,
    pub(crate) opaque: Vec<Opaque>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) writes: Vec<Target>,
    pub(crate) reads: Vec<Target>,
    pub(crate) nested: Vec<Bytes>,
    /// Names of defects of the witness that were mended, and how often.
    pub(crate) repairs: Vec<(&'static str, u32)>,
    /// How the source was read, to tell its tokens; none if it was not.
    pub(crate) reading: Option<HowRead>,
    pub(crate) unread: Vec<Unread>,
    pub(crate) assigned: Vec<Assigned>,
    pub(crate) forks: Vec<Span>,
}

/// Text in another language than the shell's that is not read: what it starts is not in the tree. That program is known
/// to start others when its text says so, such as an interpreter or an editor.
///
/// Unread text does not make the tree opaque: no promise covers what such a program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The index of the command in [`CommandTree::commands`].
    pub command: u32,
    /// Where the text stands.
    pub span: Span,
}

/// A variable that gets a value otherwise than by `name=value` before a command or alone: by a loop, arithmetic, an
/// expansion, a redirection, a builtin that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The variable, without subscript.
    pub name: Bytes,
    /// The index, in [`CommandTree::commands`], of the builtin that names it; none if it is not a command that assigns.
    pub command: Option<u32>,
    /// The value stands there, and what it makes other programs start is in the tree.
    pub read: bool,
    /// Where.
    pub span: Span,
}

/// One simple command: what bash would start, or a builtin, function call or bare assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The command word and its arguments, in order; empty for bare assignments and redirections.
    pub words: Words,
    /// Assignments in front of the command word.
    pub assignments: Thin<Assignment>,
    /// Redirections of this command.
    pub redirects: Thin<Redirect>,
    /// Where it stands.
    pub position: Position,
    /// Wrappers and evaluators through which it is reached, outermost first.
    pub via: Shared<Via>,
    /// Kind of command that the first word names.
    pub kind: CommandKind,
    /// The directory in which it runs.
    pub directory: Directory,
    /// Whether it runs on this machine.
    pub locality: Locality,
    /// Where its standard input comes from.
    pub stdin: Stdin,
    /// Effects of its options and operands, from the program tables.
    pub effects: Shared<Effect>,
    /// Its effects are known: a row of the tables covers it and knew every option.
    pub effects_known: bool,
    /// The command in the outer source (for a nested text, the word that holds it).
    pub span: Span,
}

/// `name=value`, `name+=value` or `name[subscript]=value`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// The variable, without subscript.
    pub name: Bytes,
    /// A subscript or an array value is present.
    pub array: bool,
    /// `+=`.
    pub append: bool,
    /// The value; for an array unknown.
    pub value: Word,
    /// Where it stands.
    pub span: Span,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The operator.
    pub operator: Operator,
    /// The descriptor in front: a number, or `{name}` (then `None`); without one, the operator's default.
    pub descriptor: Option<u32>,
    /// Target of the redirection.
    pub target: RedirectTarget,
    /// The whole redirection.
    pub span: Span,
}

/// Target of a redirection operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A file.
    File(Word),
    /// A descriptor number, or `-` (then `None`).
    Descriptor(Option<u32>),
    /// The body of a here-document, or the word of a here-string.
    Text(Word),
}

/// Where a simple command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// In a list of the text itself.
    Top,
    /// In a pipeline of several commands; the index counts from 0.
    Pipeline(u32),
    /// In `( )`.
    Subshell,
    /// In `$( )` or backquotes.
    Substitution,
    /// In `<( )` or `>( )`.
    ProcessSubstitution,
    /// In the body of a loop or a branch.
    Compound,
    /// In the body of a function.
    Function,
    /// Started by a wrapper or evaluator; see [`SimpleCommand::via`].
    Wrapped,
    /// The shell that a program starts for a text or a command: `watch TEXT`, `sudo -s COMMAND`. It is listed as `sh`,
    /// whether the program starts `/bin/sh`, the shell that `SHELL` names or that of the account.
    Shell,
}

/// A wrapper or evaluator on the way to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// The name of the row in the program tables.
    pub program: String,
    /// The index, in [`CommandTree::commands`], of the command that starts it.
    pub command: u32,
    /// Rules look through this wrapper when they match (the row says `strip`).
    pub strip: bool,
}

/// Kind of command that its first word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// A program.
    External,
    /// A builtin of bash.
    Builtin,
    /// A function that the text defines; it is listed as the command it shadows as well.
    Function,
    /// No command word: assignments and redirections only.
    AssignmentOnly,
}

/// The directory in which a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// The one in which the text starts.
    Start,
    /// This one, absolute or relative to the start, after a `cd` whose operand is exact.
    Known(Shared<u8>),
    /// Only the running shell knows.
    Unknown,
}

/// Where standard input of a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stdin {
    /// From the shell.
    Inherited,
    /// From the command before it in a pipeline.
    Pipe,
    /// From a file.
    File,
    /// From a here-document or here-string.
    Text,
}

/// Something that a program does because of an option or operand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Effect {
    /// Kind of the effect.
    pub kind: EffectKind,
    /// The word that causes it: an index into [`SimpleCommand::words`].
    pub word: u32,
    /// Object of the effect.
    pub object: Object,
}

/// Object of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Object {
    /// The text does not tell.
    Unknown,
    /// The word that causes it, whole.
    Cause,
    /// This.
    Other(Box<Word>),
    /// A program text in the word names it, such as `getline < "file"` of awk; none if it is computed.
    Named(Option<Box<Word>>),
}

impl Effect {
    /// Returns what the effect is done to, where the text tells; `words` are those of the command.
    pub fn object<'a>(&'a self, words: &'a [Word]) -> Option<&'a Word> {
        match &self.object {
            Object::Unknown => None,
            Object::Cause => words.get(self.word as usize),
            Object::Other(word) => Some(word),
            Object::Named(word) => word.as_deref(),
        }
    }
}

/// A part that is not understood. A rule about particular commands never allows a tree that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub span: Span,
    /// Exact cause, for people: the variable, option or construct.
    pub detail: String,
    /// How to write it so that it is understood, if there is more to say than [`Reason::instead`] does.
    pub help: String,
}

impl Opaque {
    /// Returns how to write it so that it is understood.
    pub fn instead(&self) -> &str {
        if self.help.is_empty() { self.reason.instead() } else { &self.help }
    }
}

/// Something worth knowing that does not forbid anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Text of the notice, in a few words.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A file that a redirection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The file.
    pub word: Word,
    /// The index of the command in [`CommandTree::commands`]; none for a compound command.
    pub command: Option<u32>,
    /// The operator.
    pub operator: Operator,
    /// The redirection.
    pub span: Span,
}

/// A piece of the source; the tokens of a tree are the whole source, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Kind of the token.
    pub kind: TokenKind,
    /// Where it stands.
    pub span: Span,
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Blanks, line feeds, continuations, and what ends a here-document.
    Trivia,
    /// A comment.
    Comment,
    /// An operator, bracket or reserved word.
    Operator,
    /// A part of a word.
    Text,
    /// Text that was skipped: behind an error or a limit.
    Unread,
}

impl Directory {
    /// Returns the parts of a path in this directory, as seen from where the text begins, without `.` and `..`, and whether
    /// they begin at the root, or could: enough `..` lead there from anywhere.
    pub(crate) fn parts_of<'a>(&'a self, name: &'a [u8]) -> (Vec<&'a [u8]>, bool) {
        let base: &[u8] = match self {
            Directory::Known(base) if !name.starts_with(b"/") => base,
            Directory::Known(_) | Directory::Start | Directory::Unknown => b"",
        };
        let mut absolute = base.starts_with(b"/") || (base.is_empty() && name.starts_with(b"/"));
        let mut parts = Vec::<&[u8]>::new();
        for part in base.split(|byte| *byte == b'/').chain(name.split(|byte| *byte == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => absolute |= parts.pop().is_none(),
                part => parts.push(part),
            }
        }
        (parts, absolute)
    }
}

impl Token {
    /// Returns the leaves of a syntax tree as tokens.
    pub(crate) fn of(syntax: &Syntax) -> Vec<Token> {
        let token = |event: &Event| {
            let kind = TokenKind::of(event.kind)?;
            Some(Token { kind, span: Span { start: event.start, end: event.end } })
        };
        syntax.events.iter().filter_map(token).collect()
    }
}

impl TokenKind {
    /// Returns the kind of token that a leaf is.
    fn of(kind: Kind) -> Option<TokenKind> {
        use Kind::*;
        Some(match kind {
            Blank | Newline | Continuation | HereTabs | HereEnd => TokenKind::Trivia,
            Comment => TokenKind::Comment,
            Operator | Keyword | RedirectOperator | Opener | Closer | ParameterOperator => {
                TokenKind::Operator
            }
            Number | VariableDescriptor | Literal | Escape | Single | Ansi | Quote | Name
            | Parameter | Backquote | HereText | PlainWord => TokenKind::Text,
            Junk => TokenKind::Unread,
            List | AndOr | Pipeline | Simple | PlainCommand | Word | Assignment | ArrayValue
            | Redirect | Double | Braced | Subscript | Substitution | BraceSubstitution
            | ProcessSubstitution | Arithmetic | Group | Subshell | If | Branch | Loop | For
            | Select | Case | CaseItem | Test | Function | Coproc | ExtendedPattern | HereBody
            | Close => return None,
        })
    }
}

impl Draft {
    /// Returns a draft with what is to be compared with the witness.
    pub(crate) fn new(tree: CommandTree, requests: Vec<Request>, steps: u64) -> Draft {
        Draft { tree, requests, steps }
    }

    /// Returns the work steps that reading took; see [`crate::Limits::steps_per_byte`].
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns a draft that says of the whole text only that it is not understood.
    pub fn opaque(source: &[u8], reason: Reason) -> Draft {
        let span = Span::new(0, source.len());
        let opaque = Opaque { reason, span, detail: String::new(), help: String::new() };
        let tree = CommandTree {
            source: source.to_vec(),
            commands: Vec::new(),
            opaque: vec![opaque],
            notices: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            nested: Vec::new(),
            unread: Vec::new(),
            assigned: Vec::new(),
            forks: Vec::new(),
            reading: None,
            repairs: Vec::new(),
        };
        Draft { tree, requests: Vec::new(), steps: 0 }
    }

    /// Returns the texts that the witness is to read: the source first, then each nested text.
    pub fn requests(&self) -> impl Iterator<Item = &[u8]> {
        self.requests.iter().map(|request| request.text.as_slice())
    }

    /// Takes the draft apart for the comparison.
    pub(crate) fn into_parts(self) -> (CommandTree, Vec<Request>) {
        (self.tree, self.requests)
    }
}

/// The words of a command as one line, with the places where words begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// Exact words without quotes, joined by single blanks; a word that is not exact is one NUL byte,
    /// which no word can hold.
    pub text: Vec<u8>,
    /// For each word, where it stands in `text`. A blank inside a word is not one between words.
    pub words: Vec<Span>,
}

impl SimpleCommand {
    /// Returns the command as it was typed.
    pub fn raw<'a>(&self, tree: &'a CommandTree) -> &'a [u8] {
        self.span.of(&tree.source)
    }

    /// Returns the words without quotes, assignments and redirections left out.
    pub fn canonical(&self) -> Canonical {
        let mut canonical =
            Canonical { text: Vec::new(), words: Vec::with_capacity(self.words.len()) };
        for (number, word) in self.words.iter().enumerate() {
            if number > 0 {
                canonical.text.push(b' ');
            }
            let start = canonical.text.len();
            canonical.text.extend_from_slice(word.exact().unwrap_or(b"\0"));
            canonical.words.push(Span::new(start, canonical.text.len()));
        }
        canonical
    }
}

impl CommandTree {
    /// The text.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Every simple command, outer and nested, in source order.
    pub fn commands(&self) -> &[SimpleCommand] {
        &self.commands
    }

    /// The parts that are not understood.
    pub fn opaque_spans(&self) -> &[Opaque] {
        &self.opaque
    }

    /// Things worth knowing.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Files that redirections open for writing.
    pub fn writes(&self) -> &[Target] {
        &self.writes
    }

    /// Files that redirections open for reading.
    pub fn reads(&self) -> &[Target] {
        &self.reads
    }

    /// Texts of other languages that can start programs and are not read.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// Variables that get values otherwise than by `name=value`.
    pub fn assigned(&self) -> &[Assigned] {
        &self.assigned
    }

    /// Calls by which functions start themselves again in the background or in a pipeline, directly or through others:
    /// each run starts more of them (a fork bomb).
    pub fn forks(&self) -> &[Span] {
        &self.forks
    }

    /// Decoded nested texts, for rules that look at raw text.
    pub fn nested_texts(&self) -> &[Bytes] {
        &self.nested
    }

    /// The tokens of the source, in order; together they are the source.
    ///
    /// They are not stored: the text is read again.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        let whole = Token { kind: TokenKind::Unread, span: Span::new(0, self.source.len()) };
        let read = self.reading.map(|reading| Token::of(&reading.read(&self.source)));
        read.unwrap_or_else(|| vec![whole]).into_iter()
    }

    /// Names of known defects of the second parser that were mended before the comparison, and how often.
    pub fn witness_repairs(&self) -> &[(&'static str, u32)] {
        &self.repairs
    }

    /// Says whether something in the text could start a program that is not listed.
    pub fn is_dynamic(&self) -> bool {
        !self.opaque.is_empty()
    }
}
