//! Lines of a segment: where they begin and end, and what stands at their head.

use std::io::{self, BufRead};

use stockade_text::json;
use stockade_text::json::{Dialect, Value};

use super::cut::MAX_LINE;
use super::hash::{Hash, unhex};

/// The version of the format.
pub(super) const FORMAT: u64 = 1;

/// The next item in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A line without its line feed. Of one that is longer than a line may be, the beginning.
    Line(Vec<u8>),
    /// The end: nothing more, or zeros only.
    End,
    /// The end: bytes without a line feed.
    Torn(Vec<u8>),
    /// Zeros, and something else behind them.
    Rubbish,
}

/// Reads a segment line by line.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    /// The offset of what comes next.
    pub(super) offset: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads on from `offset`, at which `reader` stands.
    pub(super) fn new(reader: R, offset: u64) -> Lines<R> {
        Lines { reader, offset }
    }

    /// Returns the next step; after anything but a line there is no more.
    pub(super) fn next(&mut self) -> io::Result<Step> {
        let mut line = Vec::new();
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(if line.is_empty() { Step::End } else { Step::Torn(line) });
            }
            if line.is_empty() && chunk.first() == Some(&0) {
                return self.zeros();
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(chunk.len(), |end| end + 1);
            let content = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let room = (MAX_LINE + 1).saturating_sub(line.len()).min(content.len());
            line.extend_from_slice(content.get(..room).unwrap_or_default());
            self.reader.consume(taken);
            self.offset += taken as u64;
            if end.is_some() {
                return Ok(Step::Line(line));
            }
        }
    }

    fn zeros(&mut self) -> io::Result<Step> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(Step::End);
            }
            if chunk.iter().any(|byte| *byte != 0) {
                return Ok(Step::Rubbish);
            }
            let taken = chunk.len();
            self.reader.consume(taken);
        }
    }
}

/// Members at the head of every record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) version: u64,
    pub(super) kind: String,
    pub(super) chain: String,
    pub(super) sequence: u64,
    pub(super) previous: Hash,
    pub(super) id: String,
    pub(super) reference: Option<String>,
}

/// The beginning of a line, read without the rest: enough to say whether a question needs the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Glance<'a> {
    pub(super) kind: &'a str,
    pub(super) sequence: u64,
    pub(super) id: &'a str,
    pub(super) reference: Option<&'a str>,
    pub(super) time: &'a str,
}

/// Returns the beginning of a line that is written as the gateway writes it; none of any other.
pub(super) fn glance(line: &[u8]) -> Option<Glance<'_>> {
    let mut rest = line.strip_prefix(b"{\"v\":1,")?;
    let kind = member(&mut rest, b"\"kind\":\"", b'"')?;
    member(&mut rest, b"\"chain\":\"", b'"')?;
    let sequence = member(&mut rest, b"\"seq\":", b',')?.parse().ok()?;
    member(&mut rest, b"\"prev\":\"", b'"')?;
    let id = member(&mut rest, b"\"id\":\"", b'"')?;
    let reference = member(&mut rest, b"\"ref\":\"", b'"');
    let time = member(&mut rest, b"\"time\":\"", b'"')?;
    Some(Glance { kind, sequence, id, reference, time })
}

/// Takes the value between `key` and `end`, and the comma behind it, from `rest`.
fn member<'a>(rest: &mut &'a [u8], key: &[u8], end: u8) -> Option<&'a str> {
    let value = rest.strip_prefix(key)?;
    let length = value.iter().position(|byte| *byte == end)?;
    let (value, after) = value.split_at_checked(length)?;
    let after = after.get(1..)?;
    *rest = after.strip_prefix(b",").unwrap_or(after);
    std::str::from_utf8(value).ok().filter(|value| !value.contains('\\'))
}

/// Reads a line strictly, as one JSON object with the head of a record.
pub(super) fn read(line: &[u8]) -> Result<(Head, Value), String> {
    if line.len() > MAX_LINE {
        return Err("it is longer than the longest line".into());
    }
    if line.is_empty() {
        return Err("it is blank".into());
    }
    let value = json::read(line, Dialect::Strict).map_err(|error| error.message)?;
    let head = head(&value)?;
    Ok((head, value))
}

fn head(value: &Value) -> Result<Head, String> {
    let text = |key: &str| value.get(key).and_then(Value::text).map(str::to_owned);
    let number = |key: &str| value.get(key).and_then(Value::whole);
    let lacks = |key: &str| format!("`{key}` is missing or not of its type");
    Ok(Head {
        version: number("v").ok_or_else(|| lacks("v"))?,
        kind: text("kind").ok_or_else(|| lacks("kind"))?,
        chain: text("chain").ok_or_else(|| lacks("chain"))?,
        sequence: number("seq").ok_or_else(|| lacks("seq"))?,
        previous: text("prev").and_then(|text| unhex(&text)).ok_or_else(|| lacks("prev"))?,
        id: text("id").ok_or_else(|| lacks("id"))?,
        reference: text("ref"),
    })
}
