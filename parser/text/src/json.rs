//! The one reader of JSON text from people: program tables and settings files. Strict, with positions.
//!
//! RFC 8259, and stricter: a duplicate key, a lone surrogate, a byte order mark and nesting deeper than
//! [`MAX_DEPTH`] are errors. [`Dialect::Commented`] allows `//` and `/* */` comments, for our own tables.

pub mod stored;
pub mod view;

use std::collections::BTreeSet;

use crate::Span;

/// Deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// Texts that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// JSON as RFC 8259 has it.
    Strict,
    /// The same with comments where white space may stand.
    Commented,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Where it stands in the text.
    pub span: Span,
    /// Kind of the value.
    pub kind: Kind,
}

/// Kind of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is written.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// The elements in order.
    Array(Vec<Value>),
    /// The members in order; no key twice.
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key, unescaped.
    pub key: String,
    /// Where the key stands, with its quotes.
    pub key_span: Span,
    /// The value.
    pub value: Value,
}

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The byte at which it was seen.
    pub at: usize,
    /// Error message, without full stop.
    pub message: String,
}

impl Value {
    /// Returns the value of member `key`, if this is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members()?.iter().find(|member| member.key == key).map(|member| &member.value)
    }

    /// Returns the members, if this is an object.
    pub fn members(&self) -> Option<&[Member]> {
        let Kind::Object(members) = &self.kind else { return None };
        Some(members)
    }

    /// Returns the elements, if this is an array.
    pub fn elements(&self) -> Option<&[Value]> {
        let Kind::Array(elements) = &self.kind else { return None };
        Some(elements)
    }

    /// Returns the text, if this is a string.
    pub fn text(&self) -> Option<&str> {
        let Kind::String(text) = &self.kind else { return None };
        Some(text)
    }

    /// Returns the truth value, if this is one.
    pub fn boolean(&self) -> Option<bool> {
        let Kind::Bool(value) = &self.kind else { return None };
        Some(*value)
    }

    /// Returns the number, if this is one that is whole, not negative and below 2^64.
    pub fn whole(&self) -> Option<u64> {
        let Kind::Number(digits) = &self.kind else { return None };
        digits.parse().ok()
    }

    /// Returns what the value is, for messages.
    pub fn type_name(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a truth value",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a string",
            Kind::Array(_) => "a list",
            Kind::Object(_) => "an object",
        }
    }
}

/// Reads one value that fills the whole text.
pub fn read(text: &[u8], dialect: Dialect) -> Result<Value, Error> {
    read_all(text, dialect, &[])
}

/// Reads a commented text that is known to be right; of the outermost members named `passed` only the keys.
pub fn read_without(text: &[u8], passed: &[&str]) -> Result<Value, Error> {
    read_all(text, Dialect::Commented, passed)
}

fn read_all(text: &[u8], dialect: Dialect, passed: &[&str]) -> Result<Value, Error> {
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Error { at: error.valid_up_to(), message: "the text is not UTF-8".into() });
    }
    let mut reader = Reader { text, at: 0, dialect, passed };
    reader.blank()?;
    let value = reader.value(0)?;
    reader.blank()?;
    if reader.at < text.len() {
        return reader.fail("unexpected text after the value");
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// Keys of outermost members whose values are not read.
    passed: &'a [&'a str],
}

impl Reader<'_> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error { at: self.at, message: message.into() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blank(&mut self) -> Result<(), Error> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), Error> {
        let rest = self.rest();
        let length = match (self.dialect, rest.get(1)) {
            (Dialect::Strict, _) => return self.fail("comments are not allowed here"),
            (Dialect::Commented, Some(b'/')) => {
                rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            (Dialect::Commented, Some(b'*')) => {
                let inner = rest.get(2..).unwrap_or_default();
                match inner.windows(2).position(|pair| pair == b"*/") {
                    Some(end) => end + 4,
                    None => return self.fail("the comment is not closed"),
                }
            }
            (Dialect::Commented, _) => return self.fail("expected a value"),
        };
        self.at += length;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.keyword("true", Kind::Bool(true))?,
            Some(b'f') => self.keyword("false", Kind::Bool(false))?,
            Some(b'n') => self.keyword("null", Kind::Null)?,
            Some(_) => return self.fail("expected a value"),
            None => return self.fail("the text ends where a value is expected"),
        };
        Ok(Value { span: Span::new(start, self.at), kind })
    }

    fn keyword(&mut self, word: &str, kind: Kind) -> Result<Kind, Error> {
        if !self.rest().starts_with(word.as_bytes()) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(kind)
    }

    fn array(&mut self, depth: usize) -> Result<Kind, Error> {
        let mut elements = Vec::new();
        self.at += 1;
        self.blank()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Array(elements));
                }
                _ => return self.fail("expected `,` or `]`"),
            }
            self.blank()?;
            if self.peek() == Some(b']') {
                return self.fail("the comma before `]` is one too many");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Error> {
        let mut members = Vec::new();
        let mut seen = BTreeSet::new();
        self.at += 1;
        self.blank()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(members));
        }
        loop {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return self.fail("expected a key in double quotes");
            }
            let key = self.string()?;
            let key_span = Span::new(start, self.at);
            // A set only for large objects: the usual ones are small.
            if members.len() == 32 {
                seen.extend(members.iter().map(|member: &Member| member.key.clone()));
            }
            let twice = match members.len() {
                0..32 => members.iter().any(|member| member.key == key),
                _ => !seen.insert(key.clone()),
            };
            if twice {
                return Err(Error { at: start, message: format!("duplicate key `{key}`") });
            }
            self.blank()?;
            if self.peek() != Some(b':') {
                return self.fail("expected `:`");
            }
            self.at += 1;
            self.blank()?;
            let pass = depth == 0 && self.passed.contains(&key.as_str());
            let value = if pass { self.pass() } else { self.value(depth + 1)? };
            members.push(Member { key, key_span, value });
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Object(members));
                }
                _ => return self.fail("expected `,` or `}`"),
            }
            self.blank()?;
            if self.peek() == Some(b'}') {
                return self.fail("the comma before `}` is one too many");
            }
        }
    }

    /// Steps over a value of a text that is known to be right.
    fn pass(&mut self) -> Value {
        let (start, mut depth, mut quoted) = (self.at, 0_u32, false);
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' if quoted => self.at += 1,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b',' | b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        Value { span: Span::new(start, self.at), kind: Kind::Null }
    }

    fn number(&mut self) -> Result<Kind, Error> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if zero && whole > 1 {
            return self.fail("a number does not begin with 0");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        Ok(Kind::Number(String::from_utf8_lossy(digits).into_owned()))
    }

    fn digits(&mut self) -> Result<usize, Error> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return self.fail("expected a digit");
        }
        self.at += count;
        Ok(count)
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| is_plain(**byte)).count();
        let beginning = rest.get(..length).unwrap_or_default();
        // Most strings end here, and their memory is asked for once.
        let mut bytes = beginning.to_vec();
        self.at += length;
        loop {
            match self.peek() {
                None => return self.fail("the string is not closed"),
                Some(b'"') => {
                    self.at += 1;
                    break;
                }
                Some(b'\\') => {
                    let character = self.escape()?;
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(0..=0x1f) => {
                    return self.fail("a control character must be written as an escape");
                }
                Some(_) => {
                    let rest = self.rest();
                    let length = rest.iter().take_while(|byte| is_plain(**byte)).count();
                    bytes.extend_from_slice(rest.get(..length).unwrap_or_default());
                    self.at += length;
                }
            }
        }
        String::from_utf8(bytes).or_else(|_| self.fail("the string is not UTF-8"))
    }

    fn escape(&mut self) -> Result<char, Error> {
        let plain = match self.text.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.fail("this escape is not known"),
        };
        self.at += 2;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char, Error> {
        let first = self.unit()?;
        let point = if (0xd800..0xdc00).contains(&first) {
            let second = if self.rest().starts_with(b"\\u") { self.unit()? } else { 0 };
            if !(0xdc00..0xe000).contains(&second) {
                return self.fail("half of a surrogate pair");
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        match char::from_u32(point) {
            Some(character) => Ok(character),
            None => self.fail("half of a surrogate pair"),
        }
    }

    fn unit(&mut self) -> Result<u32, Error> {
        let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
        if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return self.fail("expected four hexadecimal digits");
        }
        let text = String::from_utf8_lossy(digits);
        let Ok(unit) = u32::from_str_radix(&text, 16) else {
            return self.fail("expected four hexadecimal digits");
        };
        self.at += 6;
        Ok(unit)
    }
}

/// Says whether `byte` stands in a string for itself.
fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Kind, (usize, &str)>) {
        let found = read(text.as_bytes(), Dialect::Strict).map(|value| value.kind);
        assert_eq!(
            found.map_err(|error| (error.at, error.message)),
            expected.map_err(|(at, m)| (at, m.into()))
        );
    }

    #[test]
    fn scalars_are_read() {
        check(" null ", Ok(Kind::Null));
        check("-1.5e+3", Ok(Kind::Number("-1.5e+3".into())));
        check(r#""a\n\u00e9\ud83d\ude00""#, Ok(Kind::String("a\né😀".into())));
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        check("", Err((0, "the text ends where a value is expected")));
        check("{} x", Err((3, "unexpected text after the value")));
        check("[1,]", Err((3, "the comma before `]` is one too many")));
        check("01", Err((2, "a number does not begin with 0")));
        check(r#"{"a":1,"a":2}"#, Err((7, "duplicate key `a`")));
        check(r#""\ud800""#, Err((7, "half of a surrogate pair")));
        check("// x\n1", Err((0, "comments are not allowed here")));
        check("\u{feff}1", Err((0, "expected a value")));
        check(&"[".repeat(100), Err((65, "nested too deeply")));
    }

    #[test]
    fn comments_stand_where_white_space_may() {
        let value = read(b"/* a */ [1, // b\n 2] // c", Dialect::Commented).unwrap();
        assert_eq!(value.elements().unwrap().len(), 2);
        assert_eq!(value.span, Span::new(8, 20));
    }
}
