//! Redirections, and what follows a compound command.

use crate::characters::is_meta;
use crate::event::{Event, HereDocument, Kind};
use crate::grammar::lex::quote::decode_ansi;
use crate::grammar::{Frame, Parser, Step, Trouble, WordMode, index};
use crate::search::contains;
use crate::{Reason, Span};

/// A redirection operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>>`
    Append,
    /// `>|`
    Clobber,
    /// `<>`
    ReadWrite,
    /// `<&`
    DuplicateInput,
    /// `>&`
    DuplicateOutput,
    /// `&>`
    WriteBoth,
    /// `&>>`
    AppendBoth,
    /// `<<`
    HereDocument,
    /// `<<-`
    HereDocumentTabs,
    /// `<<<`
    HereString,
}

/// The operators by their text, longest first.
const OPERATORS: &[(&[u8], Operator)] = &[
    (b"&>>", Operator::AppendBoth),
    (b"&>", Operator::WriteBoth),
    (b"<<<", Operator::HereString),
    (b"<<-", Operator::HereDocumentTabs),
    (b"<<", Operator::HereDocument),
    (b"<&", Operator::DuplicateInput),
    (b"<>", Operator::ReadWrite),
    (b"<", Operator::Read),
    (b">>", Operator::Append),
    (b">&", Operator::DuplicateOutput),
    (b">|", Operator::Clobber),
    (b">", Operator::Write),
];

/// Returns the operator that a redirection token's flags stand for.
pub(crate) fn operator_of(flags: u8) -> Operator {
    OPERATORS.get(flags as usize).map_or(Operator::Write, |(_, operator)| *operator)
}

impl Parser<'_> {
    /// Says whether a redirection starts here, with its number or `{name}`.
    pub(crate) fn redirect_ahead(&self) -> bool {
        match self.peek() {
            Some(b'<' | b'>') => self.is_redirect_operator(self.pos),
            Some(b'&') => self.ahead(b"&>").is_some(),
            Some(b'0'..=b'9') => {
                self.number_end().is_some_and(|end| self.is_redirect_operator(end))
            }
            Some(b'{') => self.variable_end().is_some_and(|end| self.is_redirect_operator(end)),
            Some(_) | None => false,
        }
    }

    /// `<` or `>` that does not open a process substitution.
    fn is_redirect_operator(&self, at: usize) -> bool {
        match self.look(at) {
            Some((b'<' | b'>', after)) => self.look(after).is_none_or(|(byte, _)| byte != b'('),
            Some(_) | None => false,
        }
    }

    fn number_end(&self) -> Option<usize> {
        let mut at = self.pos;
        while let Some((byte, next)) = self.look(at) {
            if !byte.is_ascii_digit() {
                return Some(at);
            }
            at = next;
        }
        None
    }

    /// A number that is too large for a descriptor is a word for bash, and one of two digits is for dash.
    fn doubt_number(&mut self, end: usize) {
        let mut digits = Vec::new();
        push_without_continuations(self.source.get(self.pos..end).unwrap_or_default(), &mut digits);
        let value = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        if value.is_none() {
            let span = Span::new(self.pos, end);
            self.trouble(
                Reason::Syntax,
                span,
                "a number that is not a descriptor before a redirection",
            );
        }
        if digits.len() > 1 {
            self.bash_only(self.pos, end);
        }
    }

    /// A word right before a redirection, as in `{a[0]}>f`, may name an array element for its descriptor.
    pub(crate) fn doubt_element(&mut self, node: u32) {
        let start = self.start_of(node);
        let text = self.source.get(start..self.pos).unwrap_or_default();
        if text.first() == Some(&b'{')
            && text.contains(&b'[')
            && self.is_redirect_operator(self.pos)
        {
            self.trouble_with(Trouble {
                reason: Reason::Subscript,
                span: Span::new(start, self.pos),
                detail: "an array element as the name of a descriptor",
                help: "give the descriptor to a plain variable: `{name}>file`",
            });
        }
    }

    fn variable_end(&self) -> Option<usize> {
        let (_, after) = self.look(self.pos)?;
        let end = self.name_end(after)?;
        self.look(end).filter(|(byte, _)| *byte == b'}').map(|(_, after)| after)
    }

    pub(crate) fn start_redirect(&mut self) -> Step {
        self.take_continuations();
        let node = self.open(Kind::Redirect, 0);
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            let end = self.number_end().unwrap_or(self.pos);
            self.doubt_number(end);
            self.leaf(Kind::Number, end);
        } else if self.peek() == Some(b'{') {
            let end = self.variable_end().unwrap_or(self.pos);
            self.bash_only(self.pos, end);
            self.leaf(Kind::VariableDescriptor, end);
        }
        self.take_continuations();
        let found = OPERATORS
            .iter()
            .enumerate()
            .find_map(|(at, (text, operator))| Some((at, *operator, self.ahead(text)?)));
        let Some((at, operator, end)) = found else {
            return Err(self.error("a redirection is expected"));
        };
        let flags = u8::try_from(at).unwrap_or(u8::MAX);
        if matches!(operator, Operator::WriteBoth | Operator::AppendBoth | Operator::HereString) {
            self.bash_only(self.pos, end);
        }
        self.leaf_with(Kind::RedirectOperator, flags, end);
        self.take_target_blanks();
        self.stack.push(Frame::Redirect { node, here: flags });
        match self.peek() {
            Some(b'-')
                if matches!(operator, Operator::DuplicateInput | Operator::DuplicateOutput) =>
            {
                self.closing_target();
                Ok(())
            }
            None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'#') => {
                if self.peek() == Some(b'#')
                    && self.out.events.last().is_none_or(|e| e.kind != Kind::Blank)
                {
                    self.push_word(WordMode::Plain, 0);
                    return Ok(());
                }
                Err(self.error("a redirection without a target"))
            }
            Some(b'<' | b'>') if self.is_redirect_operator(self.pos) => {
                Err(self.error("a redirection without a target"))
            }
            Some(_) => {
                self.push_word(WordMode::Plain, 0);
                Ok(())
            }
        }
    }

    /// `-` behind `>&` and `<&` is a word of its own: what follows it at once is the next one (`read_token` of parse.y, bash 5.2).
    /// Other shells read on.
    fn closing_target(&mut self) {
        let word = self.open(Kind::Word, 0);
        self.leaf(Kind::Literal, self.pos + 1);
        self.close(word);
        let next = self.look(self.pos).filter(|(byte, _)| !is_meta(*byte));
        if let Some((_, end)) = next {
            let span = Span::new(self.pos, end);
            self.trouble(Reason::Syntax, span, "a word right after `>&-` or `<&-`");
        }
    }

    fn take_target_blanks(&mut self) {
        loop {
            self.take_continuations();
            let start = self.pos;
            let mut end = start;
            while matches!(self.byte(end), Some(b' ' | b'\t')) {
                end += 1;
            }
            self.leaf(Kind::Blank, end);
            if self.pos == start {
                return;
            }
        }
    }

    /// The target is read.
    pub(crate) fn step_redirect(&mut self, node: u32, here: u8) -> Step {
        self.close(node);
        let strip_tabs = match operator_of(here) {
            Operator::HereDocument => false,
            Operator::HereDocumentTabs => true,
            Operator::Read
            | Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::ReadWrite
            | Operator::DuplicateInput
            | Operator::DuplicateOutput
            | Operator::WriteBoth
            | Operator::AppendBoth
            | Operator::HereString => return Ok(()),
        };
        let (delimiter, quoted) = self.delimiter(node);
        self.pending.push(index(self.out.here_documents.len()));
        self.out.here_documents.push(HereDocument {
            redirect: node,
            body: None,
            delimiter,
            quoted,
            strip_tabs,
        });
        Ok(())
    }

    /// The delimiter after quote removal, and whether a part of it was quoted.
    fn delimiter(&mut self, node: u32) -> (Vec<u8>, bool) {
        use Kind::*;
        let mut delimiter = Vec::new();
        let mut quoted = false;
        let (mut strange, mut depends) = (None, None);
        let events = self.out.events.get(node as usize..).unwrap_or_default();
        let word = events.iter().skip_while(|event| event.kind != Kind::Word);
        for event in word {
            let text = token_text(self.source, event);
            match event.kind {
                Kind::Literal | Kind::Parameter => push_without_continuations(text, &mut delimiter),
                Kind::Escape => {
                    quoted = true;
                    delimiter.extend(text.get(1..).unwrap_or_default());
                }
                Kind::Single => {
                    quoted = true;
                    delimiter.extend(text.get(1..text.len().saturating_sub(1)).unwrap_or_default());
                }
                Kind::Ansi => {
                    quoted = true;
                    let start = text.iter().position(|byte| *byte == b'\'').map_or(0, |at| at + 1);
                    let inner = text.get(start..text.len().saturating_sub(1)).unwrap_or_default();
                    let before = delimiter.len();
                    decode_ansi(inner, &mut delimiter);
                    // Outside of UTF-8 bash leaves `\u` of more than ASCII as an escape.
                    let coded = contains(inner, b"\\u") || contains(inner, b"\\U");
                    let made = delimiter.get(before..).unwrap_or_default();
                    if coded && !made.is_ascii() {
                        depends = Some(Span { start: event.start, end: event.end });
                    }
                }
                Kind::Quote => quoted = true,
                Word | Double | Close | Continuation => {}
                Blank | Newline | Comment | Operator | Keyword | Number | VariableDescriptor
                | RedirectOperator | Name | ParameterOperator | Backquote | Opener | Closer
                | HereText | HereTabs | HereEnd | PlainWord | Junk | List | AndOr | Pipeline
                | Simple | PlainCommand | Assignment | ArrayValue | Redirect | Braced
                | Subscript | Substitution | BraceSubstitution | ProcessSubstitution
                | Arithmetic | Group | Subshell | If | Branch | Loop | For | Select | Case
                | CaseItem | Test | Function | Coproc | ExtendedPattern | HereBody => {
                    strange = Some(Span { start: event.start, end: event.end });
                }
            }
        }
        if let Some(span) = depends {
            let detail = "a code point beyond ASCII in the delimiter of a here-document";
            self.trouble(Reason::Version, span, detail);
        }
        if let Some(span) = strange {
            self.trouble(Reason::Syntax, span, "an expansion in the delimiter of a here-document");
        }
        (delimiter, quoted)
    }

    /// Behind a compound command: redirections, then its end.
    pub(crate) fn step_trailer(&mut self, node: u32) -> Step {
        self.take_blanks();
        if self.redirect_ahead() {
            self.stack.push(Frame::Trailer { node });
            return self.start_redirect();
        }
        self.close(node);
        Ok(())
    }
}

/// The bytes of a token.
pub(crate) fn token_text<'a>(source: &'a [u8], event: &Event) -> &'a [u8] {
    source.get(event.start as usize..event.end as usize).unwrap_or_default()
}

/// Appends `text` without the continuations that a token may hold.
pub(crate) fn push_without_continuations(text: &[u8], out: &mut Vec<u8>) {
    if !text.contains(&b'\\') {
        out.extend_from_slice(text);
        return;
    }
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\' && after.first() == Some(&b'\n') {
            rest = after.get(1..).unwrap_or_default();
        } else {
            out.push(byte);
            rest = after;
        }
    }
}
