//! Marks of the authority in one text, in the terms in which it is compared with the witness.

use crate::grammar::HowRead;
use crate::{Bytes, Span};

/// One thing seen in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Where.
    pub span: Span,
    /// Kind of the mark.
    pub kind: MarkKind,
}

/// The kinds of things that both parsers must see alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MarkKind {
    /// The first word of a simple command, besides its [`MarkKind::Word`]: where a command begins.
    Name,
    /// A command name or an argument.
    Word,
    /// An assignment in front of a command, alone, or as an operand of a declaration builtin.
    Assignment,
    /// A redirection: operator with descriptor and target word.
    Redirect,
    /// The body of a here-document.
    HereDocumentBody,
    /// `$( )` or backquotes, delimiters included.
    Substitution,
    /// `<( )` or `>( )`.
    ProcessSubstitution,
    /// `$(( ))`, `$[ ]`, `(( ))`.
    Arithmetic,
    /// A compound command or function definition.
    Compound,
    /// A comment.
    Comment,
}

/// One text for the witness, with what the authority saw in it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The text.
    pub text: Bytes,
    /// The span of the outer source that it comes from.
    pub origin: Span,
    /// How it was read; what was seen in it is told by reading it again, when it is compared.
    pub reading: HowRead,
}
