//! Where a segment begins, by number and by time: what tells which segments a question need not read.
//!
//! A segment is passed over by the times of the first records alone. A clock that was put back by more than a
//! segment lasts can so hide records from a search by time, and from nothing else.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use stockade_parser::json::Value;

use super::super::error::{Error, Scene};
use super::super::files;
use super::super::line::{self, Lines, Step};

/// The first record of a segment.
struct First {
    segment: u64,
    sequence: u64,
    time: String,
}

/// Returns the first record of each segment, as far as they can be read.
fn firsts(directory: &Path) -> Result<Vec<Option<First>>, Error> {
    let scene = Scene { directory: directory.to_owned() };
    let numbers = files::segments(directory).map_err(scene.read(directory))?;
    let first = |segment: u64| -> std::io::Result<Option<First>> {
        let file = File::open(directory.join(files::segment_name(segment)))?;
        let Step::Line(content) = Lines::new(BufReader::new(file), 0).next()? else {
            return Ok(None);
        };
        let Ok((head, value)) = line::read(&content) else { return Ok(None) };
        let time = value.get("time").and_then(Value::text).unwrap_or_default().to_owned();
        Ok(Some(First { segment, sequence: head.sequence, time }))
    };
    numbers.into_iter().map(|number| first(number).map_err(scene.read(directory))).collect()
}

/// Returns the last segment whose first record fits; 0, the beginning, when none does or one cannot be read.
fn last_that(directory: &Path, fits: impl Fn(&First) -> bool) -> Result<u64, Error> {
    let firsts = firsts(directory)?;
    if firsts.iter().any(Option::is_none) {
        return Ok(0);
    }
    let fitting = firsts.iter().flatten().filter(|first| fits(first));
    Ok(fitting.map(|first| first.segment).last().unwrap_or(0))
}

/// Returns the segment from which on there may be records of `since` or later.
pub(super) fn first_since(directory: &Path, since: Option<&str>) -> Result<u64, Error> {
    match since {
        Some(since) => last_that(directory, |first| first.time.as_str() <= since),
        None => Ok(0),
    }
}

/// Returns the last segment in which there may be records of `until` or earlier; none when all may.
pub(super) fn last_until(directory: &Path, until: Option<&str>) -> Result<Option<u64>, Error> {
    let Some(until) = until else { return Ok(None) };
    let found = last_that(directory, |first| first.time.as_str() <= until)?;
    Ok(Some(found).filter(|found| *found > 0))
}

/// Returns the segment that holds record `sequence`, if there is one.
pub(super) fn of_sequence(directory: &Path, sequence: u64) -> Result<u64, Error> {
    last_that(directory, |first| first.sequence <= sequence)
}
