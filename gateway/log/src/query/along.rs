//! Reading along: records in order from a place, so many at once, of all users or of one.
//!
//! A record is a user's own if it names that user, or belongs to a decision that does. What names nobody, such as settings
//! that were loaded, is for who may read the whole log.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stockade_text::json::Value;

use super::super::error::{Error, Scene};
use super::super::line::{self, Glance, Lines, Step};
use super::super::{clock, files};
use super::backward::Backward;
use super::segments;

/// Most records of one piece.
const MOST: usize = 64;
/// Bytes of records after which a piece ends.
const BYTES: usize = 512 << 10;
/// Bytes of the log after which a piece ends, whoever they are about.
const SCANNED: u64 = 4 << 20;
/// Decisions that one piece looks up.
const LOOKUPS: usize = 4;
/// Users of recent decisions.
const KNOWN: usize = 1 << 14;

/// From where on records are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// The end of the log.
    Now,
    /// The record of this number.
    Record(u64),
    /// The first record of this time or later, as records spell it.
    Time(String),
}

/// The beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPosition {
    segment: u64,
    offset: u64,
}

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// The place.
    pub place: LogPosition,
    /// The number of the record there, or of the next one that is written.
    pub next: u64,
}

/// Some records that follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Number, kind and stored line of each.
    pub records: Vec<(u64, String, String)>,
    /// Behind them.
    pub place: LogPosition,
    /// The log has no more for now.
    pub is_end: bool,
}

/// Owners of the records that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Every user.
    All,
    /// This user.
    Of(u32),
}

/// The users of decisions that were met.
#[derive(Debug, Default)]
pub struct Owners(HashMap<String, Option<u32>>);

impl Owners {
    fn note(&mut self, id: &str, owner: Option<u32>) {
        if self.0.len() >= KNOWN {
            self.0.clear();
        }
        self.0.insert(id.to_owned(), owner);
    }
}

/// Goes through lines, over segments.
struct Scan {
    directory: PathBuf,
    place: LogPosition,
    lines: Option<Lines<BufReader<File>>>,
}

impl Scan {
    fn new(directory: &Path, place: LogPosition) -> Scan {
        Scan { directory: directory.to_owned(), place, lines: None }
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.directory.join(files::segment_name(segment))
    }

    /// Returns the next line, and steps behind it; none at the end, where a line may still be written.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.lines.is_none() {
                let mut file = File::open(self.path(self.place.segment))?;
                file.seek(SeekFrom::Start(self.place.offset))?;
                self.lines = Some(Lines::new(BufReader::new(file), self.place.offset));
            }
            let Some(lines) = &mut self.lines else { return Ok(None) };
            match lines.next()? {
                Step::Line(line) => {
                    self.place.offset = lines.offset;
                    return Ok(Some(line));
                }
                Step::End | Step::Torn(_) | Step::Rubbish => {
                    self.lines = None;
                    let next = self.place.segment + 1;
                    if !self.path(next).exists() {
                        return Ok(None);
                    }
                    self.place = LogPosition { segment: next, offset: 0 };
                }
            }
        }
    }
}

/// Returns the place at which `start` is.
///
/// # Errors
///
/// The log cannot be read.
pub fn begin(directory: &Path, start: &Start) -> Result<Begun, Error> {
    let scene = Scene { directory: directory.to_owned() };
    let segment = match start {
        Start::Now => return end(directory),
        Start::Record(number) => segments::of_sequence(directory, *number)?,
        Start::Time(time) => segments::first_since(directory, Some(time))?,
    };
    let numbers = files::segments(directory).map_err(scene.read(directory))?;
    let segment = if segment == 0 { numbers.first().copied() } else { Some(segment) };
    let Some(segment) = segment else { return Ok(nothing()) };
    let mut scan = Scan::new(directory, LogPosition { segment, offset: 0 });
    let mut next = 0;
    loop {
        let before = scan.place;
        let Some(line) = scan.next().map_err(scene.read(directory))? else {
            return Ok(Begun { place: scan.place, next });
        };
        // A line that does not begin as all do is passed over, as later.
        let Some(glance) = line::glance(&line) else { continue };
        let is_there = match start {
            Start::Now => false,
            Start::Record(number) => glance.sequence >= *number,
            Start::Time(time) => glance.time >= time.as_str(),
        };
        if is_there {
            // Behind the end of a segment the line is the first of the next one.
            let place = match before.segment == scan.place.segment {
                true => before,
                false => LogPosition { segment: scan.place.segment, offset: 0 },
            };
            return Ok(Begun { place, next: glance.sequence });
        }
        next = glance.sequence + 1;
    }
}

/// A log that has not begun.
fn nothing() -> Begun {
    Begun { place: LogPosition { segment: 1, offset: 0 }, next: 0 }
}

fn end(directory: &Path) -> Result<Begun, Error> {
    let reader = Backward::new(directory)?.end()?;
    Ok(match reader.stands() {
        Some(((segment, offset), last)) => {
            Begun { place: LogPosition { segment, offset }, next: last.map_or(0, |last| last + 1) }
        }
        None => nothing(),
    })
}

/// Returns what follows `place` and is `whose`. `known` tells the user of a decision that is remembered elsewhere.
///
/// # Errors
///
/// The log cannot be read, or no line begins at `place`.
pub fn read(
    directory: &Path,
    place: LogPosition,
    whose: Whose,
    owners: &mut Owners,
    known: impl Fn(&str) -> Option<u32>,
) -> Result<Piece, Error> {
    let scene = Scene { directory: directory.to_owned() };
    let failed = scene.read(directory);
    let mut piece = Piece { records: Vec::new(), place, is_end: false };
    if !is_beginning(directory, place).map_err(&failed)? {
        return Err(failed(io::Error::other("no record begins there")));
    }
    let mut scan = Scan::new(directory, place);
    let (mut bytes, mut scanned, mut lookups) = (0, 0, 0);
    while piece.records.len() < MOST && bytes < BYTES && scanned < SCANNED && lookups < LOOKUPS {
        let next = match scan.next() {
            // The log has not begun.
            Err(error) if error.kind() == io::ErrorKind::NotFound && place.offset == 0 => None,
            next => next.map_err(&failed)?,
        };
        let Some(line) = next else {
            piece.is_end = true;
            break;
        };
        scanned += line.len() as u64 + 1;
        let Some(glance) = line::glance(&line) else { continue };
        let is_due = match whose {
            Whose::All => true,
            Whose::Of(uid) => {
                let mut find = |id: &str| {
                    let found = known(id);
                    if found.is_none() {
                        lookups += 1;
                    }
                    found.or_else(|| owner(directory, id))
                };
                belongs_to(uid, &glance, &line, owners, &mut find)
            }
        };
        if is_due && let Ok(text) = std::str::from_utf8(&line) {
            bytes += line.len();
            piece.records.push((glance.sequence, glance.kind.to_owned(), text.to_owned()));
        }
    }
    piece.place = scan.place;
    Ok(piece)
}

/// Says whether a line begins at `place`: what one user wrote into a record is no record of its own.
fn is_beginning(directory: &Path, place: LogPosition) -> io::Result<bool> {
    let Some(before) = place.offset.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    let file = File::open(directory.join(files::segment_name(place.segment)))?;
    file.read_exact_at(&mut byte, before)?;
    Ok(byte == *b"\n")
}

/// Says whether a record is one of `uid`.
fn belongs_to(
    uid: u32,
    glance: &Glance<'_>,
    line: &[u8],
    owners: &mut Owners,
    find: &mut dyn FnMut(&str) -> Option<u32>,
) -> bool {
    let named = |keys: [&str; 2]| named(line, keys);
    match (glance.kind, glance.reference) {
        ("decision", _) => {
            let owner = named(["caller", "uid"]);
            owners.note(glance.id, owner);
            owner == Some(uid)
        }
        ("hooks" | "session", _) => named(["caller", "uid"]) == Some(uid),
        ("grant", _) => named(["who", "uid"]) == Some(uid),
        (_, Some(reference)) => {
            let owner = owners.0.get(reference).copied().unwrap_or_else(|| {
                let found = find(reference);
                owners.note(reference, found);
                found
            });
            owner == Some(uid)
        }
        (_, None) => false,
    }
}

/// Returns the user that a record names.
fn named(line: &[u8], [member, key]: [&str; 2]) -> Option<u32> {
    let (_, value) = line::read(line).ok()?;
    value.get(member)?.get(key).and_then(Value::whole)?.try_into().ok()
}

/// Finds the user of a decision in the segment in which its time says that it is, or in the one behind it.
fn owner(directory: &Path, id: &str) -> Option<u32> {
    let made = clock::ulid_time(id, Duration::ZERO);
    let segment = segments::first_since(directory, made.as_deref()).ok()?.max(1);
    let mut scan = Scan::new(directory, LogPosition { segment, offset: 0 });
    while let Some(line) = scan.next().ok()? {
        if scan.place.segment > segment + 1 {
            return None;
        }
        if line::glance(&line).is_some_and(|it| it.kind == "decision" && it.id == id) {
            return named(&line, ["caller", "uid"]);
        }
    }
    None
}
