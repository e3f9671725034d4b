//! Reading records from the newest to the oldest, so that a question about the end of a long log reads the end.

use std::io;
use std::path::{Path, PathBuf};

use super::super::error::{Error, Scene};
use super::super::files;
use super::super::hash::{Hash, sha256};
use super::super::line;
use super::Record;
use super::reader::{self, Last, Reader, Wish};

/// Reads records backward, and watches the chain.
#[derive(Debug)]
pub(super) struct Backward {
    directory: PathBuf,
    /// Segments that were not begun, ascending.
    numbers: Vec<u64>,
    /// The segment at hand.
    segment: u64,
    /// Its whole lines that were not read yet.
    content: Vec<u8>,
    /// Number of the record read last, and the digest of the line before that it names.
    newer: Option<(u64, Hash)>,
    /// The time of the record read last.
    time: String,
    pub(super) broken: Option<String>,
}

impl Backward {
    pub(super) fn new(directory: &Path) -> Result<Backward, Error> {
        let scene = Scene { directory: directory.to_owned() };
        let numbers = files::segments(directory).map_err(scene.read(directory))?;
        Ok(Backward {
            directory: directory.to_owned(),
            numbers,
            segment: 0,
            content: Vec::new(),
            newer: None,
            time: String::new(),
            broken: None,
        })
    }

    /// Returns a reader that stands behind the last record. To be asked for first.
    pub(super) fn end(&mut self) -> Result<Reader, Error> {
        let has_lines = self.enter()?;
        let offset = self.content.len() as u64;
        let last = self.content.strip_suffix(b"\n").map(|lines| {
            let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            lines.get(start..).unwrap_or_default().to_vec()
        });
        let last = last.filter(|_| has_lines).and_then(|line| {
            let hash = sha256(&[&line]);
            reader::read(line).ok().map(|(record, _)| Last { sequence: record.sequence, hash })
        });
        Ok(Reader::behind(&self.directory, self.segment, offset, last))
    }

    /// Leaves out the segments after `last`.
    pub(super) fn skip_to(&mut self, last: Option<u64>) {
        let Some(last) = last.filter(|last| *last < self.segment) else { return };
        self.numbers.retain(|number| *number <= last);
        self.content.clear();
    }

    /// Returns the next older record.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        self.next_of(None, |_| Wish::Read, |_| true)
    }

    /// Returns the next older record whose line is wished for, and passes over whole segments that are not `wanted`.
    /// Segments that begin before `since` are the last to be read.
    pub(super) fn next_of(
        &mut self,
        since: Option<&str>,
        wish: impl Fn(&[u8]) -> Wish,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<Record>, Error> {
        loop {
            while self.content.is_empty() {
                let is_before = since.is_some_and(|since| self.time.as_str() < since);
                if is_before && !self.time.is_empty() {
                    return Ok(None);
                }
                while self.numbers.pop_if(|number| !wanted(*number)).is_some() {
                    self.newer = None;
                }
                if !self.enter()? {
                    return Ok(None);
                }
            }
            let (line, place) = self.cut();
            match wish(&line) {
                Wish::Read => {}
                Wish::Pass => {
                    self.newer = None;
                    if let Some(glance) = line::glance(&line) {
                        glance.time.clone_into(&mut self.time);
                    }
                    continue;
                }
                Wish::End => return Ok(None),
            }
            if let Some(record) = self.take(line, &place) {
                return Ok(Some(record));
            }
        }
    }

    /// Goes to the next older segment; says whether there is one.
    fn enter(&mut self) -> Result<bool, Error> {
        let Some(number) = self.numbers.pop() else { return Ok(false) };
        let path = self.directory.join(files::segment_name(number));
        let scene = Scene { directory: self.directory.clone() };
        self.content = whole_lines(&path).map_err(scene.read(&path))?;
        self.segment = number;
        Ok(true)
    }

    /// Cuts the last line off, and returns it with where it stands.
    fn cut(&mut self) -> (Vec<u8>, Position) {
        let lines = self.content.strip_suffix(b"\n").unwrap_or(&self.content);
        let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = lines.get(start..).unwrap_or_default().to_vec();
        self.content.truncate(start);
        (line, Position { segment: self.segment, start })
    }

    fn take(&mut self, line: Vec<u8>, place: &Position) -> Option<Record> {
        let place = format!("{} at byte {}", files::segment_name(place.segment), place.start);
        let hash = sha256(&[&line]);
        let (record, previous) = match reader::read(line) {
            Ok(read) => read,
            Err(reason) => {
                self.broken.get_or_insert(format!("{place}: not a record: {reason}"));
                self.newer = None;
                return None;
            }
        };
        let newer = self.newer.replace((record.sequence, previous));
        if newer.is_some_and(|(number, named)| number != record.sequence + 1 || named != hash) {
            self.broken.get_or_insert(format!("{place}: the next record does not follow it"));
        }
        self.time = record.text(&["time"]).unwrap_or_default().to_owned();
        Some(record)
    }
}

/// Where a line stands.
struct Position {
    segment: u64,
    start: usize,
}

/// Returns the whole lines at the beginning of a segment: no incomplete one, and no padding.
fn whole_lines(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = files::read(path)?.unwrap_or_default();
    let is_padded = content.last() == Some(&0);
    let padding = match is_padded {
        true => content.iter().position(|byte| *byte == 0).unwrap_or(0),
        false => content.len(),
    };
    content.truncate(padding);
    let end = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    content.truncate(end);
    Ok(content)
}
