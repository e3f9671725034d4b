//! Decisions of earlier segments to which the records of a closed segment belong.
//!
//! A question about an old decision need not read the segments in between. `STATE/references/NNNNNNNN` lists those
//! ids, one a line, and has a line `gap` where the segment holds a `gap` record. It is a cache made from the
//! segment when that is sealed: without it the segment is read.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Places;
use super::files::{self, Durability};
use super::line;

/// The line that says that the segment holds a `gap`.
const GAP: &str = "gap";

fn path(state: &Path, segment: u64) -> PathBuf {
    state.join("references").join(format!("{segment:08}"))
}

/// Ids that a closed segment refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct References {
    ids: BTreeSet<String>,
}

impl References {
    /// Returns those of closed `segment`; none when they are not known.
    pub(super) fn read(state: &Path, segment: u64) -> Option<References> {
        let text = fs::read_to_string(path(state, segment)).ok()?;
        let ids = text.strip_suffix('\n')?.lines().map(str::to_owned).collect();
        Some(References { ids })
    }

    /// Says whether the segment may hold a record that belongs to one of `ids`, or a `gap`.
    pub(super) fn name_any<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> bool {
        self.ids.contains(GAP) || ids.into_iter().any(|id| self.ids.contains(id))
    }
}

/// Writes those of closed `segment`. Of a segment with a line that the gateway does not write so, none.
pub(super) fn store(places: &Places, segment: u64) -> io::Result<()> {
    let content = fs::read(places.directory.join(files::segment_name(segment)))?;
    let (mut own, mut named) = (HashSet::new(), BTreeSet::new());
    let text = content.strip_suffix(b"\n").unwrap_or(&content);
    for line in text.split(|byte| *byte == b'\n') {
        let Some(glance) = line::glance(line) else { return Ok(()) };
        own.insert(glance.id);
        named.extend(glance.reference);
        if glance.kind == GAP {
            named.insert(GAP);
        }
    }
    let path = path(&places.state, segment);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // The first line is empty, so that a file that lost its content is not one without ids.
    let named = named.into_iter().filter(|id| !own.contains(id));
    let text: String = std::iter::once("").chain(named).map(|id| format!("{id}\n")).collect();
    files::replace(&path, text.as_bytes(), Durability::Cached)
}

/// Writes those of all closed segments that have none.
pub(super) fn store_missing(places: &Places) -> io::Result<()> {
    let numbers = files::segments(&places.directory)?;
    let closed = numbers.split_last().map_or(&[][..], |(_, closed)| closed);
    for number in closed.iter().filter(|number| !path(&places.state, **number).exists()) {
        store(places, *number)?;
    }
    Ok(())
}
