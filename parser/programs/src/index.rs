//! Where each row of a table stands, found by its layout without reading the rows. For the built-in tables
//! `build.rs` does that, with this file.
//!
//! `"sets": {`, `"defaults":` (one line) and `"rows": [` stand on lines indented by two blanks; a row begins on a line
//! with `    { "names": [`, and its names may go on in the next lines. Whatever else these lines hold is looked at when a row is read.

use std::borrow::Cow;

use super::TableError;

/// The text of a table and the places of its parts.
#[derive(Debug)]
pub(super) struct Table {
    text: Cow<'static, str>,
    places: Places,
}

/// The places of the parts of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub sets: ByteRange,
    pub defaults: ByteRange,
    pub rows: Cow<'static, [ByteRange]>,
    /// Each name and the number of its row, sorted by name.
    pub names: Cow<'static, [(ByteRange, u32)]>,
}

/// A range of bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub start: u32,
    pub end: u32,
}

impl ByteRange {
    fn new(start: usize, end: usize) -> ByteRange {
        // Tables are far below 4 GiB; a place that is cut off is not a row, which makes the table broken.
        let at = |place| u32::try_from(place).unwrap_or(u32::MAX);
        ByteRange { start: at(start), end: at(end) }
    }

    fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    fn bytes_of(self, text: &str) -> &[u8] {
        text.as_bytes().get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The part of the table that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Sets,
    Rows,
    End,
}

const ROW: &str = "    { \"names\": [";
const SETS: &str = "  \"sets\": ";
const DEFAULTS: &str = "  \"defaults\": ";

impl Table {
    /// Finds the parts of `text`.
    pub(super) fn new(text: Cow<'static, str>) -> Result<Table, TableError> {
        let places = Places::find(&text)?;
        Ok(Table { text, places })
    }

    /// Returns the table of `text` whose parts stand at `places`.
    #[cfg_attr(not(test), allow(dead_code, reason = "the build script only finds places"))]
    pub(super) fn with(text: &'static str, places: Places) -> Table {
        Table { text: Cow::Borrowed(text), places }
    }
}

impl Places {
    /// Finds the parts of `text`.
    pub(super) fn find(text: &str) -> Result<Places, TableError> {
        let empty = ByteRange::new(0, 0);
        let (mut sets, mut defaults) = (empty, empty);
        let (mut rows, mut names) = (Vec::<ByteRange>::new(), Vec::new());
        let (mut part, mut at) = (Part::Head, 0);
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let content = line.trim_end();
            let end = start + content.strip_suffix(',').unwrap_or(content).len();
            part = match (part, content) {
                (_, comment) if is_blank(comment) => part,
                (Part::Head, "{") => part,
                (Part::Head, "  \"rows\": [") => Part::Rows,
                (Part::Head, line) if line.starts_with(SETS) => {
                    sets = ByteRange::new(start + SETS.len(), end);
                    Part::Sets
                }
                (Part::Head, line) if line.starts_with(DEFAULTS) => {
                    defaults = ByteRange::new(start + DEFAULTS.len(), end);
                    part
                }
                (Part::Sets, line) => {
                    sets = ByteRange::new(sets.start as usize, end);
                    if line == "  }," { Part::Head } else { part }
                }
                (Part::Rows, line) if line.starts_with(ROW) => {
                    let row = text.get(start..).unwrap_or_default();
                    if !add_names(&mut names, row, start, rows.len()) {
                        let message = "a row begins with its names".to_owned();
                        return Err(TableError { line: line_of(text, start), message });
                    }
                    rows.push(ByteRange::new(start, end));
                    part
                }
                (Part::Rows, "  ]") => Part::End,
                (Part::Rows, _) if let Some(row) = rows.last_mut() => {
                    *row = ByteRange::new(row.start as usize, end);
                    part
                }
                (Part::End, "}") => part,
                (Part::Head | Part::Rows | Part::End, _) => {
                    let message = "this line does not follow the layout of a table".to_owned();
                    return Err(TableError { line: line_of(text, start), message });
                }
            };
        }
        if part != Part::End {
            let message = "the table has no end".to_owned();
            return Err(TableError { line: line_of(text, at), message });
        }
        sort_names(text, &mut names)?;
        Ok(Places { sets, defaults, rows: rows.into(), names: names.into() })
    }
}

/// Adds the names between the brackets at the beginning of row `number`, whose `text` begins at `start`; says whether
/// they are plain.
fn add_names(names: &mut Vec<(ByteRange, u32)>, text: &str, start: usize, number: usize) -> bool {
    let Ok(row) = u32::try_from(number) else { return false };
    let list = text.get(ROW.len()..).and_then(|rest| rest.split_once(']')).map(|(list, _)| list);
    let mut at = start + ROW.len();
    for item in list.unwrap_or_default().split(',') {
        let name = item.trim_start();
        let from = at + item.len() - name.len() + 1;
        at += item.len() + 1;
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        let Some(bare) = bare.filter(|bare| !bare.contains(['"', '\\'])) else {
            return false;
        };
        names.push((ByteRange::new(from, from + bare.len()), row));
    }
    true
}

fn sort_names(text: &str, names: &mut [(ByteRange, u32)]) -> Result<(), TableError> {
    names.sort_unstable_by(|(a, _), (b, _)| a.bytes_of(text).cmp(b.bytes_of(text)));
    let twice = names.windows(2).filter_map(|pair| match pair {
        [(a, _), (b, _)] if a.of(text) == b.of(text) => Some(b),
        _ => None,
    });
    match twice.min_by_key(|place| place.start) {
        None => Ok(()),
        Some(place) => {
            let message = format!("`{}` has two rows", place.of(text));
            Err(TableError { line: line_of(text, place.start as usize), message })
        }
    }
}

impl Table {
    /// Returns how many rows there are.
    pub(super) fn count(&self) -> usize {
        self.places.rows.len()
    }

    /// Returns the text of one row and its place.
    pub(super) fn row(&self, number: usize) -> (&str, usize) {
        self.part(self.places.rows.get(number).copied())
    }

    /// Returns the text of the option sets and its place.
    pub(super) fn sets(&self) -> (&str, usize) {
        self.part(Some(self.places.sets))
    }

    /// Returns the text of what all rows have, and its place.
    pub(super) fn defaults(&self) -> (&str, usize) {
        self.part(Some(self.places.defaults))
    }

    fn part(&self, place: Option<ByteRange>) -> (&str, usize) {
        match place.filter(|place| place.start < place.end) {
            Some(place) => (place.of(&self.text), place.start as usize),
            None => ("{}", 0),
        }
    }

    /// Returns the line, from 1, on which byte `at` stands.
    pub(super) fn line(&self, at: usize) -> u32 {
        line_of(&self.text, at)
    }

    /// Returns the names of all rows.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.names.iter().map(|(name, _)| name.of(&self.text))
    }

    /// Returns the number of the row that has this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let names = &self.places.names;
        let found = names
            .binary_search_by(|(candidate, _)| candidate.bytes_of(&self.text).cmp(name.as_bytes()));
        found.ok().and_then(|at| names.get(at)).map(|(_, row)| *row as usize)
    }
}

/// Says whether a line is empty or a comment.
fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with("//")
}

/// Returns the line, from 1, on which byte `at` stands.
fn line_of(text: &str, at: usize) -> u32 {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let count = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1)
}
