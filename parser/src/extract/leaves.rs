//! Tokens: what each adds to the word that is being built.

use std::rc::Rc;

use crate::characters::is_name_start;
use crate::event::{Event, Kind, Operation, flag};
use crate::extract::arithmetic::SOME_NUMBER;
use crate::extract::shell::only_used;
use crate::extract::weight;
use crate::extract::{Build, Text, Walk};
use crate::grammar::lex::quote::decode_ansi;
use crate::grammar::redirect::{operator_of, push_without_continuations, token_text};
use crate::search::contains;
use crate::word::build::{Building, Home, Piece};
use crate::{Count, Reason, Span, Word};

/// Value of a parameter.
pub(crate) enum Parameter {
    Exact(Vec<u8>),
    /// One word that begins so.
    Begins(Vec<u8>),
    Unknown(Count),
}

impl Walk<'_> {
    pub(crate) fn leaf(&mut self, text: &Text, event: Event, at: usize) {
        use Kind::*;
        match event.kind {
            Blank | Newline | Comment | Continuation | Keyword | Opener | Closer | HereTabs
            | HereEnd | Quote | Junk => {}
            Kind::PlainWord => self.plain_word(text, event, at),
            Kind::Literal | Kind::HereText => {
                let piece = if self.quoted() { Piece::Quoted } else { Piece::Plain };
                let bytes = token_text(&text.bytes, &event);
                self.push(piece, bytes);
                if piece == Piece::Plain && bytes == b"$" {
                    self.open_dollar();
                }
            }
            Kind::Escape => {
                let bytes = token_text(&text.bytes, &event);
                // A backslash at the very end stands for itself.
                let bytes =
                    if bytes.len() > 1 { bytes.get(1..).unwrap_or_default() } else { bytes };
                self.push(Piece::Quoted, bytes);
            }
            Kind::Single => {
                let bytes = token_text(&text.bytes, &event);
                let inner = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default();
                self.push(Piece::Quoted, inner);
            }
            Kind::Ansi => self.ansi_leaf(text, event),
            Kind::Parameter => self.parameter_leaf(text, event),
            Kind::Backquote => self.backquote(text, event),
            Kind::Name => self.name_leaf(text, event),
            Kind::ParameterOperator => self.parameter_operator(text, event),
            Kind::Number => {
                let mut digits = Vec::new();
                push_without_continuations(token_text(&text.bytes, &event), &mut digits);
                if let Some(Build::Redirect(redirect)) = self.builds.last_mut() {
                    redirect.descriptor =
                        String::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                }
            }
            Kind::VariableDescriptor => self.variable_descriptor(text, event),
            Kind::RedirectOperator => {
                if let Some(Build::Redirect(redirect)) = self.builds.last_mut() {
                    redirect.operator = operator_of(event.flags);
                }
            }
            Kind::Operator => self.operator(event),
            // Nodes: `open` and `close` take them.
            List | AndOr | Pipeline | Simple | PlainCommand | Word | Assignment | ArrayValue
            | Redirect | Double | Braced | Subscript | Substitution | BraceSubstitution
            | ProcessSubstitution | Arithmetic | Group | Subshell | If | Branch | Loop | For
            | Select | Case | CaseItem | Test | Function | Coproc | ExtendedPattern | HereBody
            | Close => {}
        }
    }

    /// `$'..'`.
    fn ansi_leaf(&mut self, text: &Text, event: Event) {
        let bytes = token_text(&text.bytes, &event);
        let start = bytes.iter().position(|byte| *byte == b'\'').map_or(0, |at| at + 1);
        let mut value = Vec::with_capacity(bytes.len());
        decode_ansi(
            bytes.get(start..bytes.len().saturating_sub(1)).unwrap_or_default(),
            &mut value,
        );
        // Outside of UTF-8 bash leaves `\u` of more than ASCII as an escape.
        let coded = [b"\\u".as_slice(), b"\\U"].iter().any(|code| contains(bytes, code));
        if coded && !value.is_ascii() {
            self.unknown(Reason::Version, Count::One);
        } else {
            self.push(Piece::Quoted, &value);
        }
    }

    /// The prefix or the operator of `${ }`.
    fn parameter_operator(&mut self, text: &Text, event: Event) {
        if let Some(Build::Braced(braced)) = self.builds.last_mut() {
            let mut operator = Vec::new();
            push_without_continuations(token_text(&text.bytes, &event), &mut operator);
            match operator.first() {
                Some(prefix @ (b'!' | b'#')) if braced.name.is_empty() => {
                    braced.prefix = *prefix;
                }
                Some(_) | None => braced.operator = operator,
            }
        }
    }

    fn operator(&mut self, event: Event) {
        let operation = match event.flags {
            flags if flags == Operation::And as u8 => Operation::And,
            flags if flags == Operation::Or as u8 => Operation::Or,
            flags if flags == Operation::Pipe as u8 || flags == Operation::PipeBoth as u8 => {
                Operation::Pipe
            }
            _ => Operation::Other,
        };
        match self.builds.pop() {
            Some(Build::AndOr(mut chain)) => {
                self.chain_operator(&mut chain, operation);
                self.builds.push(Build::AndOr(chain));
            }
            Some(Build::Pipeline { piped, negated, element, directory, scope }) => {
                if let Some(scope) = scope {
                    self.leave(*scope);
                }
                let element = element.saturating_add(1);
                let scope = piped.then(|| Box::new(self.enter_element(element)));
                self.builds.push(Build::Pipeline { piped, negated, element, directory, scope });
            }
            Some(other) => self.builds.push(other),
            None => {}
        }
    }

    /// Says whether text here stands in double quotes or the like.
    pub(crate) fn quoted(&self) -> bool {
        match self.builds.last() {
            Some(Build::Double | Build::HereBody { .. }) => true,
            Some(Build::Braced(braced)) => braced.quoted,
            Some(_) | None => false,
        }
    }

    /// The word that pieces go to now.
    pub(crate) fn building(&mut self) -> Option<&mut Building> {
        self.builds.iter_mut().rev().find_map(|build| match build {
            Build::Double => None,
            Build::Word(building)
            | Build::Assignment { building, .. }
            | Build::Arithmetic { building }
            | Build::Subscript { building }
            | Build::Extended { building }
            | Build::HereBody { building } => Some(Some(building)),
            Build::Braced(braced) => Some(Some(&mut braced.operand)),
            Build::Passing
            | Build::Simple(_)
            | Build::Array
            | Build::Redirect(_)
            | Build::Scope { .. }
            | Build::AndOr(_)
            | Build::Pipeline { .. }
            | Build::For { .. }
            | Build::Function { .. }
            | Build::Test { .. } => Some(None),
        })?
    }

    pub(crate) fn push(&mut self, piece: Piece, bytes: &[u8]) {
        if let Some(building) = self.building() {
            building.push(piece, bytes);
        }
    }

    /// Says whether the innermost text is arithmetic.
    pub(crate) fn in_arithmetic(&self) -> bool {
        self.builds.iter().rev().find(|build| !matches!(build, Build::Double)).is_some_and(
            |build| matches!(build, Build::Arithmetic { .. } | Build::Subscript { .. }),
        )
    }

    fn name_leaf(&mut self, text: &Text, event: Event) {
        let mut name = Vec::new();
        push_without_continuations(token_text(&text.bytes, &event), &mut name);
        if let Some(Build::For { .. }) = self.builds.last() {
            let span = text.map.span(Span { start: event.start, end: event.end });
            self.names_variable(&name, None, span);
            self.history_file(&name, None, None, span);
        }
        match self.builds.last_mut() {
            Some(Build::Assignment { name: wanted, .. } | Build::For { name: wanted, .. }) => {
                *wanted = name;
            }
            Some(Build::Braced(braced)) => braced.name = name,
            // `name[subscript]` without `=`.
            Some(Build::Word(building)) => building.push(Piece::Plain, &name),
            // Its descriptors and its process are put there.
            Some(_) if self.opened.last().is_some_and(|opened| opened.kind == Kind::Coproc) => {
                let span = text.map.span(Span { start: event.start, end: event.end });
                self.variable_changes(&name, None, span);
                self.names_variable(&name, None, span);
                self.history_file(&name, None, None, span);
            }
            Some(_) | None => {}
        }
    }

    fn parameter_leaf(&mut self, text: &Text, event: Event) {
        let mut bytes = Vec::with_capacity(12);
        push_without_continuations(token_text(&text.bytes, &event), &mut bytes);
        let name = bytes.get(1..).unwrap_or_default();
        let quoted = self.quoted();
        let piece = if quoted { Piece::Quoted } else { Piece::Split };
        if !quoted && let Some(building) = self.building() {
            building.bare_name = true;
        }
        if self.in_arithmetic() && self.is_integer(text, name) {
            self.push(Piece::Quoted, SOME_NUMBER);
            return;
        }
        match self.parameter(name, piece) {
            Parameter::Unknown(_) if name == b"HOME" && self.shell.home == Home::Plain => {
                self.push(Piece::Quoted, b"/");
                self.unknown(Reason::Parameter, Count::One);
            }
            Parameter::Exact(value) => self.push(piece, &value),
            Parameter::Begins(beginning) => self.begins(&beginning),
            Parameter::Unknown(count) if self.in_test() && self.is_integer(text, name) => {
                self.unknown(Reason::Arithmetic, count);
            }
            Parameter::Unknown(count) => self.unknown(Reason::Parameter, count),
        }
    }

    /// Says whether a word of `[` or `test` is read.
    fn in_test(&self) -> bool {
        self.builds.iter().rev().take(2).any(|build| {
            let Build::Simple(collecting) = build else { return false };
            let first = collecting.words.first().and_then(Word::exact);
            matches!(first, Some(b"[" | b"test"))
        })
    }

    /// A value of which only the beginning is known.
    pub(crate) fn begins(&mut self, beginning: &[u8]) {
        self.push(Piece::Quoted, beginning);
        self.unknown(Reason::Parameter, Count::One);
    }

    fn open_dollar(&mut self) {
        if let Some(building) = self.building() {
            building.open_dollar = true;
        }
    }

    pub(crate) fn unknown(&mut self, reason: Reason, count: Count) {
        if let Some(building) = self.building() {
            building.unknown(reason, count);
        }
    }

    /// The value of a parameter as far as the text tells, as a piece that is quoted or splits.
    pub(crate) fn parameter(&mut self, name: &[u8], piece: Piece) -> Parameter {
        let quoted = piece == Piece::Quoted;
        self.steps = self.steps.saturating_add(weight::USE);
        let many = matches!(name, b"@");
        let one = matches!(name, b"?" | b"#" | b"$") || (quoted && !many);
        let unknown = Parameter::Unknown(if one { Count::One } else { Count::Any });
        if let Some(value) = self.shell.exact(name) {
            return copied(value, &mut self.value_bytes).map_or(unknown, Parameter::Exact);
        }
        if quoted && let Some(beginning) = self.shell.beginning(name) {
            return copied(beginning, &mut self.value_bytes).map_or(unknown, Parameter::Begins);
        }
        if let Some(positional) = &self.shell.positional
            && let Some(index) =
                String::from_utf8(name.to_vec()).ok().and_then(|n| n.parse::<usize>().ok())
        {
            match positional.get(index) {
                Some(word) => {
                    if let Some(value) = word.exact() {
                        return copied(value, &mut self.value_bytes)
                            .map_or(unknown, Parameter::Exact);
                    }
                }
                None if index > 0 => return Parameter::Exact(Vec::new()),
                None => {}
            }
        }
        let no_operands = self.shell.positional.as_ref().is_some_and(|words| words.len() < 2);
        let empty = no_operands && (name == b"*" || (name == b"@" && !quoted));
        if empty || self.is_unset(name) { Parameter::Exact(Vec::new()) } else { unknown }
    }

    /// Says whether a variable is surely unset: it is not there at the start, and the text does not set it.
    pub(crate) fn is_unset(&mut self, name: &[u8]) -> bool {
        if let Some(positional) = &self.shell.positional
            && let Some(index) =
                std::str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok())
        {
            return index > 0 && index >= positional.len();
        }
        let plain = name.first().is_some_and(|byte| is_name_start(*byte));
        if !plain || !self.shell.may_be_unset(name) || self.start.present.contains(name) {
            return false;
        }
        if let Some(unset) = self.unset.get(name) {
            return *unset;
        }
        let Some(source) = self.runs.first().map(|run| Rc::clone(&run.text)) else { return false };
        let unset = self.may_search(&source) && only_used(&source.bytes, name);
        self.unset.insert(name.to_vec(), unset);
        unset
    }

    fn variable_descriptor(&mut self, text: &Text, event: Event) {
        let mut bytes = Vec::new();
        push_without_continuations(token_text(&text.bytes, &event), &mut bytes);
        let name = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default().to_vec();
        let span = text.map.span(Span { start: event.start, end: event.end });
        self.variable_changes(&name, None, span);
        self.names_variable(&name, None, span);
        self.history_file(&name, None, None, span);
        if let Some(Build::Redirect(redirect)) = self.builds.last_mut() {
            redirect.variable = true;
        }
    }

    fn backquote(&mut self, text: &Text, event: Event) {
        let quoted = event.flags & flag::QUOTED != 0;
        let unescaped = self.unescapes_quotes();
        self.begin_backquotes(text, event, unescaped);
        let count = if quoted || self.quoted() { Count::One } else { Count::Any };
        self.unknown(Reason::Substitution, count);
    }

    /// Says whether backquotes here lose the backslash in front of `"`: straight in double quotes, but not in those
    /// of the value of `"${x-..}"`, which bash takes apart another way (tried with bash 5.2.15).
    fn unescapes_quotes(&self) -> bool {
        let mut around = self.builds.iter().rev();
        let double = matches!(around.next(), Some(Build::Double));
        let value = around.next().is_some_and(|build| {
            let Build::Braced(braced) = build else { return false };
            let operator = braced.operator.strip_prefix(b":").unwrap_or(&braced.operator);
            braced.quoted && matches!(operator, b"-" | b"=" | b"?" | b"+")
        });
        double && !value
    }
}

/// Copies a value, within the bytes that values may take in one text.
fn copied(value: &[u8], left: &mut usize) -> Option<Vec<u8>> {
    *left = left.checked_sub(value.len())?;
    Some(value.to_vec())
}
