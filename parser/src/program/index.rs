//! Where each row of a table stands, found by its layout without reading the rows.
//!
//! `"sets": {`, `"defaults":` (one line) and `"rows": [` stand on lines indented by two blanks; a row begins on a line
//! with `    { "names": [`. Whatever else these lines hold is looked at when a row is read.

use std::borrow::Cow;
use std::ops::Range;

use super::TableError;

/// The text of a table and the places of its parts.
#[derive(Debug)]
pub(super) struct Table {
    text: Cow<'static, str>,
    sets: Range<usize>,
    defaults: Range<usize>,
    rows: Vec<Range<usize>>,
    /// Each name and the number of its row, sorted by name.
    names: Vec<(Range<usize>, usize)>,
}

/// Which part of the table a line belongs to.
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
        let (sets, defaults, rows, names) = (0..0, 0..0, Vec::new(), Vec::new());
        let mut table = Table { text: Cow::Borrowed(""), sets, defaults, rows, names };
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
                    table.sets = start + SETS.len()..end;
                    Part::Sets
                }
                (Part::Head, line) if line.starts_with(DEFAULTS) => {
                    table.defaults = start + DEFAULTS.len()..end;
                    part
                }
                (Part::Sets, line) => {
                    table.sets.end = end;
                    if line == "  }," { Part::Head } else { part }
                }
                (Part::Rows, line) if line.starts_with(ROW) => {
                    if !table.add_names(line, start) {
                        let message = "a row begins with its names".to_owned();
                        return Err(TableError { line: line_of(&text, start), message });
                    }
                    table.rows.push(start..end);
                    part
                }
                (Part::Rows, "  ]") => Part::End,
                (Part::Rows, _) if let Some(row) = table.rows.last_mut() => {
                    row.end = end;
                    part
                }
                (Part::End, "}") => part,
                (Part::Head | Part::Rows | Part::End, _) => {
                    let message = "this line does not follow the layout of a table".to_owned();
                    return Err(TableError { line: line_of(&text, start), message });
                }
            };
        }
        if part != Part::End {
            let message = "the table has no end".to_owned();
            return Err(TableError { line: line_of(&text, at), message });
        }
        table.text = text;
        table.sort_names()?;
        Ok(table)
    }

    /// Adds the names between the brackets at the beginning of a row; says whether they are plain.
    fn add_names(&mut self, line: &str, start: usize) -> bool {
        let row = self.rows.len();
        let list =
            line.get(ROW.len()..).and_then(|rest| rest.split_once(']')).map(|(list, _)| list);
        let mut at = start + ROW.len();
        for item in list.unwrap_or_default().split(',') {
            let name = item.trim_start();
            let from = at + item.len() - name.len() + 1;
            at += item.len() + 1;
            let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
            let Some(bare) = bare.filter(|bare| !bare.contains(['"', '\\'])) else {
                return false;
            };
            self.names.push((from..from + bare.len(), row));
        }
        true
    }

    fn sort_names(&mut self) -> Result<(), TableError> {
        let text = &self.text;
        let name = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        let bytes = |range: &Range<usize>| text.as_bytes().get(range.clone()).unwrap_or_default();
        self.names.sort_unstable_by(|(a, _), (b, _)| bytes(a).cmp(bytes(b)));
        let pairs = self.names.windows(2);
        let twice = pairs.filter_map(|pair| match pair {
            [(a, _), (b, _)] if name(a) == name(b) => Some(b),
            _ => None,
        });
        match twice.min_by_key(|range| range.start) {
            None => Ok(()),
            Some(range) => {
                let message = format!("`{}` has two rows", name(range));
                Err(TableError { line: line_of(text, range.start), message })
            }
        }
    }

    /// Returns how many rows there are.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the text of one row and its place.
    pub(super) fn row(&self, number: usize) -> (&str, usize) {
        self.part(self.rows.get(number).unwrap_or(&(0..0)))
    }

    /// Returns the text of the option sets and its place.
    pub(super) fn sets(&self) -> (&str, usize) {
        self.part(&self.sets)
    }

    /// Returns the text of what all rows have, and its place.
    pub(super) fn defaults(&self) -> (&str, usize) {
        self.part(&self.defaults)
    }

    fn part(&self, range: &Range<usize>) -> (&str, usize) {
        if range.is_empty() {
            return ("{}", 0);
        }
        (self.text.get(range.clone()).unwrap_or_default(), range.start)
    }

    /// Returns the line, from 1, on which byte `at` stands.
    pub(super) fn line(&self, at: usize) -> u32 {
        line_of(&self.text, at)
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
