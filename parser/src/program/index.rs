//! Where each row of a table stands, found without reading the rows.

use std::borrow::Cow;
use std::ops::Range;

use super::TableError;

/// The text of a table and the places of its parts.
#[derive(Debug)]
pub(super) struct Table {
    text: Cow<'static, str>,
    /// The value of the member `sets`, if there is one.
    sets: Option<Range<usize>>,
    /// The value of the member `defaults`, if there is one.
    defaults: Option<Range<usize>>,
    rows: Vec<Range<usize>>,
    /// Each name and the number of its row, sorted by name.
    names: Vec<(Range<usize>, usize)>,
}

impl Table {
    /// Finds the parts of `text`: an object with `sets`, `defaults` and `rows`, and `names` first in each row.
    pub(super) fn new(text: Cow<'static, str>) -> Result<Table, TableError> {
        let mut finder = Finder { text: text.as_bytes(), at: 0 };
        let (mut sets, mut defaults) = (None, None);
        let (mut rows, mut names) = (Vec::new(), Vec::new());
        finder.expect(b'{')?;
        loop {
            let key = finder.string()?;
            finder.expect(b':')?;
            match text.get(key) {
                Some("sets") => sets = Some(finder.value()?),
                Some("defaults") => defaults = Some(finder.value()?),
                Some("rows") => finder.rows(&mut rows, &mut names)?,
                _ => {
                    return Err(
                        finder.error("the members of a table are `sets`, `defaults` and `rows`")
                    );
                }
            }
            if !finder.more(b'}')? {
                break;
            }
        }
        finder.blank();
        if finder.peek().is_some() {
            return Err(finder.error("nothing may stand behind the table"));
        }
        names.sort_unstable_by_key(|(name, _): &(Range<usize>, usize)| text.get(name.clone()));
        let twice = names
            .windows(2)
            .find(|pair| matches!(pair, [a, b] if text.get(a.0.clone()) == text.get(b.0.clone())));
        if let Some([_, (name, _)]) = twice {
            let message = format!("`{}` has two rows", text.get(name.clone()).unwrap_or_default());
            return Err(TableError { line: line(&text, name.start), message });
        }
        Ok(Table { text, sets, defaults, rows, names })
    }

    /// Returns how many rows there are.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the text of one row and its place.
    pub(super) fn row(&self, number: usize) -> (&str, usize) {
        self.part(self.rows.get(number))
    }

    /// Returns the text of the option sets and its place.
    pub(super) fn sets(&self) -> (&str, usize) {
        self.part(self.sets.as_ref())
    }

    /// Returns the text of what all rows have, and its place.
    pub(super) fn defaults(&self) -> (&str, usize) {
        self.part(self.defaults.as_ref())
    }

    fn part(&self, range: Option<&Range<usize>>) -> (&str, usize) {
        let Some(range) = range else { return ("{}", 0) };
        (self.text.get(range.clone()).unwrap_or("{}"), range.start)
    }

    /// Returns the line, from 1, on which byte `at` stands.
    pub(super) fn line(&self, at: usize) -> u32 {
        line(&self.text, at)
    }

    /// Returns the names of all rows.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|(name, _)| self.text.get(name.clone()))
    }

    /// Returns the number of the row that has this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let found = self.names.binary_search_by(|(candidate, _)| {
            self.text.get(candidate.clone()).unwrap_or_default().cmp(name)
        });
        found.ok().and_then(|at| self.names.get(at)).map(|(_, row)| *row)
    }
}

/// Returns the line, from 1, on which byte `at` stands.
fn line(text: &str, at: usize) -> u32 {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let count = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1)
}

/// Skips over JSONC without building values. What it accepts too much is refused when a row is read.
struct Finder<'a> {
    text: &'a [u8],
    at: usize,
}

impl Finder<'_> {
    fn error(&self, message: &str) -> TableError {
        let before = self.text.get(..self.at).unwrap_or_default();
        let count = before.iter().filter(|byte| **byte == b'\n').count();
        let line = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
        TableError { line, message: message.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'/' if self.text.get(self.at + 1) == Some(&b'/') => self.comment(),
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn expect(&mut self, byte: u8) -> Result<(), TableError> {
        self.blank();
        if self.peek() != Some(byte) {
            return Err(self.error(&format!("`{}` is expected here", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over a comma, or over `end`; says whether it was a comma.
    fn more(&mut self, end: u8) -> Result<bool, TableError> {
        self.blank();
        let comma = self.peek() == Some(b',');
        if !comma && self.peek() != Some(end) {
            return Err(self.error(&format!("`,` or `{}` is expected here", char::from(end))));
        }
        self.at += 1;
        Ok(comma)
    }

    /// Returns the place of a string without its quotes.
    fn string(&mut self) -> Result<Range<usize>, TableError> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.error("the string is not closed")),
                Some(b'\\') => self.at += 2,
                Some(b'"') => break,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(start..self.at - 1)
    }

    /// Steps over an object or a list.
    fn value(&mut self) -> Result<Range<usize>, TableError> {
        self.blank();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return Err(self.error("the text ends inside a row")),
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'/') if self.text.get(self.at + 1) == Some(&b'/') => {
                    self.comment();
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(start..self.at);
            }
        }
    }

    fn rows(
        &mut self,
        rows: &mut Vec<Range<usize>>,
        names: &mut Vec<(Range<usize>, usize)>,
    ) -> Result<(), TableError> {
        self.expect(b'[')?;
        loop {
            self.blank();
            let start = self.at;
            self.expect(b'{')?;
            if self.string().map(|key| self.text.get(key))? != Some(b"names") {
                return Err(self.error("a row begins with the key `names`"));
            }
            self.expect(b':')?;
            self.expect(b'[')?;
            loop {
                names.push((self.string()?, rows.len()));
                if !self.more(b']')? {
                    break;
                }
            }
            self.at = start;
            rows.push(self.value()?);
            if !self.more(b']')? {
                return Ok(());
            }
        }
    }
}
