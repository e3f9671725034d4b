//! Protected files that a command would write without naming them: what two versions of git differ in, and what an
//! archive holds.
//!
//! All that is read here may have been made by a command, so it is read with bounds of time and size and never believed to
//! widen anything: the answer only decides whether a person is asked before the run instead of a file being refused in it.

mod archive;
mod change;
mod objects;
mod pack;
mod revision;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stockade_policy::{Bringing, GitPlace};

use crate::repository;

/// How long all is looked for; what was not found by then is not known.
const LIMIT: Duration = Duration::from_millis(800);
/// Bytes of contents that are read at most, all together.
const MOST_BYTES: u64 = 256 << 20;
/// Paths that are told of one command.
const MOST_PATHS: usize = 200;

/// Time and bytes that are left.
#[derive(Debug)]
struct Budget {
    until: Instant,
    bytes: u64,
}

impl Budget {
    /// Takes `bytes` away; none where too much was read or it took too long.
    fn take(&mut self, bytes: u64) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        (Instant::now() < self.until).then_some(())
    }
}

/// Returns the protected paths that each of `sought` would write, as far as they are known, with the protected directories
/// that it would make for them; blocks on the file system.
pub fn look(sought: BTreeSet<Bringing>) -> BTreeMap<Bringing, Vec<PathBuf>> {
    let mut budget = Budget { until: Instant::now() + LIMIT, bytes: MOST_BYTES };
    let mut found = BTreeMap::new();
    for bringing in sought {
        let paths = match &bringing {
            Bringing::Git(place, change) => in_tree(place, change, &mut budget),
            Bringing::Unpacked(unpacked) => archive::entries(unpacked, &mut budget),
        };
        let mut paths = paths.unwrap_or_default();
        let above = paths.iter().flat_map(|path| path.ancestors().skip(1));
        let made = above.filter(|it| is_protected(it) && it.symlink_metadata().is_err());
        let made: Vec<PathBuf> = made.map(Path::to_owned).collect();
        paths.extend(made);
        paths.sort();
        paths.dedup();
        paths.truncate(MOST_PATHS);
        found.insert(bringing, paths);
    }
    found
}

/// Returns the protected paths of a working tree that a change of it writes.
fn in_tree(
    place: &GitPlace,
    change: &stockade_policy::TreeChange,
    budget: &mut Budget,
) -> Option<Vec<PathBuf>> {
    let GitPlace::Above(directory) = place else { return None };
    // Objects that the text makes first are in the same repository.
    let real = directory.ancestors().find_map(|it| it.canonicalize().ok())?;
    let found = repository::above(&real).ok()??;
    let paths = change::paths(&found, change, budget)?;
    let absolute = paths.iter().map(|path| found.tree.join(path_of(path)));
    Some(absolute.filter(|path| is_protected(path)).collect())
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Says whether the sandbox may keep a path unwritable for its name.
fn is_protected(path: &Path) -> bool {
    stockade_policy::protected_part(path).is_some()
}

#[cfg(test)]
mod tests;
