//! The flat syntax tree: events in source order whose leaves tile the text.

/// Kind of an event: a leaf (a token), the opening of a node, or the closing of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    // Leaves.
    Blank,
    Newline,
    Comment,
    Continuation,
    Operator,
    Keyword,
    Number,
    VariableDescriptor,
    RedirectOperator,
    Literal,
    Escape,
    Single,
    Ansi,
    Quote,
    Name,
    Parameter,
    ParameterOperator,
    Backquote,
    Opener,
    Closer,
    HereText,
    HereTabs,
    HereEnd,
    /// A word of a command that is one literal.
    PlainWord,
    Junk,
    // Nodes.
    List,
    AndOr,
    Pipeline,
    Simple,
    /// A command that stands alone in its list: nothing but words that are plain, each a `PlainWord`.
    PlainCommand,
    Word,
    Assignment,
    ArrayValue,
    Redirect,
    Double,
    Braced,
    Subscript,
    Substitution,
    BraceSubstitution,
    ProcessSubstitution,
    Arithmetic,
    Group,
    Subshell,
    If,
    Branch,
    Loop,
    For,
    Select,
    Case,
    CaseItem,
    Test,
    Function,
    Coproc,
    ExtendedPattern,
    HereBody,
    // The end of a node.
    Close,
}

impl Kind {
    /// Says whether this is a token.
    pub(crate) fn is_leaf(self) -> bool {
        self <= Kind::Junk
    }
}

/// One event. `link` of an opening event is the index of its `Close`, and of a `Close` that of its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub kind: Kind,
    /// Meaning depends on the kind: an operator, a mode, a mark.
    pub flags: u8,
    pub start: u32,
    pub end: u32,
    pub link: u32,
}

/// Flags of events, by the kind that carries them.
pub(crate) mod flag {
    /// `AndOr`: followed by `&`.
    pub const BACKGROUND: u8 = 1;
    /// `Pipeline`: more than one command.
    pub const PIPED: u8 = 1;
    /// `Pipeline`: `!` stands in front.
    pub const NEGATED: u8 = 2;
    /// `Assignment`: an operand of a declaration builtin.
    pub const OPERAND: u8 = 1;
    /// `Assignment`, operator leaf: `+=`.
    pub const APPEND: u8 = 2;
    /// `Backquote`, `Double`, `Arithmetic`, `Braced`: inside double quotes.
    pub const QUOTED: u8 = 1;
    /// `Arithmetic`: the command `(( ))` or the head of `for (( ))`.
    pub const COMMAND: u8 = 2;
    /// `Word`: a pattern or subject, not an argument.
    pub const PATTERN: u8 = 1;
    /// `Arithmetic`: the offset and length of `${x:o:l}`.
    pub const OFFSET: u8 = 8;
    /// `Group`: only the wrapping of `(( ))` and its redirections.
    pub const ARITHMETIC_GROUP: u8 = 1;
    /// `HereBody`: the delimiter was quoted, the body is literal.
    pub const LITERAL: u8 = 1;
    /// `HereBody`: the text ended before the last line did.
    pub const CUT: u8 = 2;
    /// `Substitution`: opened by `$((` but not arithmetic.
    pub const DOUBLED: u8 = 4;
}

/// Control and list operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Semicolon = 0,
    Background,
    And,
    Or,
    Pipe,
    PipeBoth,
    Other,
}

/// A here-document: where its redirection and its body are among the events.
#[derive(Debug, Clone)]
pub(crate) struct HereDocument {
    /// Index of the `Redirect` event.
    pub redirect: u32,
    /// Index of the `HereBody` event, once read.
    pub body: Option<u32>,
    pub delimiter: Vec<u8>,
    pub quoted: bool,
    pub strip_tabs: bool,
}
