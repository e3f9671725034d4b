//! Where a segment begins, by number and by time: what tells which segments a question need not read.
//!
//! A segment is passed over by the times of the first records alone. A clock that was put back by more than a
//! segment lasts can so hide records from a search by time, and from nothing else.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use stockade_text::json::Value;

use super::super::error::{Error, Scene};
use super::super::files;
use super::super::line::{self, Lines, Step};

/// The first record of a segment.
struct First {
    sequence: u64,
    time: String,
}

/// Returns the first record of `segment`; none when it cannot be read.
fn first_of(directory: &Path, segment: u64) -> io::Result<Option<First>> {
    let file = File::open(directory.join(files::segment_name(segment)))?;
    let Step::Line(content) = Lines::new(BufReader::new(file), 0).next()? else {
        return Ok(None);
    };
    let Ok((head, value)) = line::read(&content) else { return Ok(None) };
    let time = value.get("time").and_then(Value::text).unwrap_or_default().to_owned();
    Ok(Some(First { sequence: head.sequence, time }))
}

/// Returns the last segment whose first record fits, by halves: those that fit come first. 0, before all, when none
/// does; none when a first record that has to be known cannot be read.
fn last_that(directory: &Path, fits: impl Fn(&First) -> bool) -> Result<Option<u64>, Error> {
    let scene = Scene { directory: directory.to_owned() };
    let numbers = files::segments(directory).map_err(scene.read(directory))?;
    let (mut found, mut rest) = (0, numbers.as_slice());
    while let Some((middle, after)) = rest.get(rest.len() / 2..).and_then(<[u64]>::split_first) {
        let first = first_of(directory, *middle).map_err(scene.read(directory))?;
        let Some(first) = first else { return Ok(None) };
        if fits(&first) {
            (found, rest) = (*middle, after);
        } else {
            rest = rest.get(..rest.len() / 2).unwrap_or_default();
        }
    }
    Ok(Some(found))
}

/// Returns the segment from which on there may be records of `since` or later; 0 is the beginning.
pub(super) fn first_since(directory: &Path, since: Option<&str>) -> Result<u64, Error> {
    match since {
        Some(since) => Ok(last_that(directory, |it| it.time.as_str() <= since)?.unwrap_or(0)),
        None => Ok(0),
    }
}

/// Returns the last segment in which there may be records of `until` or earlier; none when all may.
pub(super) fn last_until(directory: &Path, until: Option<&str>) -> Result<Option<u64>, Error> {
    let Some(until) = until else { return Ok(None) };
    last_that(directory, |it| it.time.as_str() <= until)
}

/// Returns the segment that holds record `sequence`, if there is one.
pub(super) fn of_sequence(directory: &Path, sequence: u64) -> Result<u64, Error> {
    Ok(last_that(directory, |it| it.sequence <= sequence)?.unwrap_or(0))
}
