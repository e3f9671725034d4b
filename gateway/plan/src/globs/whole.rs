//! Directories that are refused as a whole, because nobody could look through them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::walk::WalkMatches;
use super::{Found, Unlisted};

/// Most paths that one pattern stands for, each of which is a mount. Of more, the directories that hold them count.
pub(super) const MOST: usize = 4_096;

/// Returns what a pattern stands for.
pub(super) fn settle(
    answer: WalkMatches,
    unlisted: Unlisted,
    is_needed: &dyn Fn(&Path) -> bool,
) -> Found {
    let WalkMatches { mut paths, closed, unseen } = answer;
    if unlisted == Unlisted::Nothing {
        paths.sort();
        paths.dedup();
        paths.truncate(MOST);
        return Found { paths, unseen: Vec::new() };
    }
    let could_be = |path: &PathBuf| !is_needed(path);
    let unseen = gather(unseen.into_iter().filter(could_be).collect(), is_needed);
    let each: BTreeSet<PathBuf> =
        paths.into_iter().chain(closed.into_iter().filter(could_be)).collect();
    let paths = gather(each.iter().cloned().collect(), is_needed);
    let added = paths.difference(&each).chain(&unseen);
    // Paths in a directory that is refused as a whole are refused with it. A link may lead to one that cannot be.
    let is_directory = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let whole: BTreeSet<&Path> = added.filter(is_directory).map(PathBuf::as_path).collect();
    let is_free = |path: &&PathBuf| !path.ancestors().skip(1).any(|above| whole.contains(above));
    let paths = paths.union(&unseen).filter(is_free).cloned().collect();
    Found { paths, unseen: unseen.iter().cloned().collect() }
}

/// Counts how many of these paths lie in each directory.
pub(crate) fn counts<'a>(paths: impl Iterator<Item = &'a Path>) -> BTreeMap<&'a Path, usize> {
    let mut held = BTreeMap::new();
    for above in paths.filter_map(Path::parent) {
        *held.entry(above).or_default() += 1;
    }
    held
}

/// Puts directories in the place of what they hold, those that hold most first, until no more than [`MOST`] paths are
/// left or only what cannot be refused would have to be.
pub(crate) fn gather(paths: Vec<PathBuf>, is_needed: &dyn Fn(&Path) -> bool) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> = paths.into_iter().collect();
    while all.len() > MOST {
        let held = counts(all.iter().map(PathBuf::as_path));
        let could_be = held.into_iter().filter(|(above, _)| !is_needed(above));
        let mut most: Vec<(usize, PathBuf)> =
            could_be.map(|(above, count)| (count, above.to_path_buf())).collect();
        most.sort_unstable_by(|one, other| other.cmp(one));
        let mut left = all.len();
        let mut whole = BTreeSet::new();
        for (count, above) in most {
            if left <= MOST {
                break;
            }
            left = left.saturating_sub(count - 1);
            whole.insert(above);
        }
        if whole.is_empty() {
            break;
        }
        all.retain(|path| path.parent().is_none_or(|above| !whole.contains(above)));
        all.append(&mut whole);
    }
    all
}
