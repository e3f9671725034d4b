//! Values that bash evaluates while it assigns them: arithmetic of integer variables, and the text of
//! arrays in the operands of `declare` and its kin (bash 5.2 manual, 4.2, tried with bash 5.2.15).

use crate::extract::Walk;
use crate::{Reason, Span, Word, WordClass};

/// Variables that are integers from the start: what is assigned to them is arithmetic.
const INTEGERS: &[&[u8]] = &[b"RANDOM", b"SRANDOM", b"SECONDS", b"HISTCMD", b"OPTIND", b"BASHPID"];

/// Attributes that the options of `declare` give.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub integer: bool,
    pub array: bool,
}

impl Attributes {
    /// Returns what the options among `operands` give; all of it where an option is not known.
    pub(crate) fn of(operands: &[Word]) -> Attributes {
        let mut found = Attributes::default();
        for word in operands.iter().filter(|word| word.may_start_with(b"-")) {
            let has = |letter: u8| word.exact().is_none_or(|text| text.contains(&letter));
            found.integer |= has(b'i');
            found.array |= has(b'a') || has(b'A');
        }
        found
    }
}

impl Walk<'_> {
    /// An integer variable of bash's own gets a value, or one that is not known.
    pub(crate) fn integer_assigned(&mut self, name: &[u8], value: Option<&Word>, span: Span) {
        if INTEGERS.contains(&name) && !value.and_then(Word::exact).is_some_and(is_number) {
            let detail = format!("`{}` evaluates its value", String::from_utf8_lossy(name));
            self.doubt(Reason::ArithName, span, detail, String::new());
        }
    }

    /// A name became an array.
    pub(crate) fn array_named(&mut self, name: &[u8]) {
        self.arrays.insert(name.to_vec());
    }

    /// An operand `NAME=VALUE` of a builtin that declares.
    pub(crate) fn declared(&mut self, name: &[u8], word: &Word, attributes: Attributes) {
        let known: &[u8] = match &word.class {
            WordClass::Exact(text) => text,
            WordClass::Unknown { prefix, .. } => prefix,
            WordClass::Pattern { .. } => return,
        };
        let Some(equals) = known.iter().position(|byte| *byte == b'=') else {
            if attributes.array {
                self.array_named(name);
            }
            return;
        };
        let value = known.get(equals + 1..).unwrap_or_default();
        let exact = word.exact().is_some();
        if attributes.integer && !(exact && is_number(value)) {
            let detail = "the value of an integer is evaluated".to_owned();
            self.doubt(Reason::ArithName, word.span, detail, String::new());
        }
        let base = name.split(|byte| *byte == b'[').next().unwrap_or_default();
        let array = attributes.array || self.arrays.contains(base);
        let evaluated = match value.first() {
            Some(b'(') => !(exact && value.iter().all(is_plain)),
            Some(_) => false,
            None => array && !exact,
        };
        if evaluated {
            let detail = "the text of an array is expanded when it is assigned".to_owned();
            self.doubt(Reason::EvaluatorText, word.span, detail, String::new());
        }
        if attributes.array {
            self.array_named(base);
        }
    }
}

/// Says whether arithmetic reads this as numbers alone.
fn is_number(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || b" +-*/%()".contains(byte))
}

/// Says whether this stands for itself in the text of an array.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" ()_./:,@%+-".contains(byte)
}
