//! Finds the files of a working tree that git writes when it goes from one version to another.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stockade_base::files::plain;
use stockade_policy::TreeChange;

use super::objects::{Kind, LONGEST, Name};
use super::revision::History;
use super::{Budget, is_protected, path_of};
use crate::git_index;
use crate::repository::Found;

/// The mode of a directory in a tree (`gitformat-pack(5)`, `git-ls-tree(1)`).
const DIRECTORY: &[u8] = b"40000";
/// Longest index that is read, in bytes.
const LONGEST_INDEX: u64 = 64 << 20;

/// The writes at a path: relative, as bytes.
type Written = BTreeSet<Vec<u8>>;

/// An entry of a tree: mode and object.
type Entry = (Vec<u8>, Name);

/// Returns the paths that a change writes, those of interest at least; none where that is not known.
pub(super) fn paths(found: &Found, change: &TreeChange, budget: &mut Budget) -> Option<Written> {
    let history = History::open(found)?;
    let mut trees = Trees { history, budget };
    match change {
        TreeChange::Switch(rev) => trees.between(b"HEAD", rev),
        TreeChange::Reset(rev) => {
            let mut paths = trees.between(b"HEAD", rev)?;
            paths.extend(trees.changed(Some(rev), &[])?);
            Some(paths)
        }
        TreeChange::Between(from, to) => trees.between(from, to),
        TreeChange::Merge(rev) => trees.merged(rev),
        TreeChange::Checkout(word) => match trees.history.commit(word, trees.budget) {
            Some(_) => trees.between(b"HEAD", word),
            None => trees.changed(None, &[found.tree.join(path_of(word))]),
        },
        TreeChange::Paths(rev, places) => trees.changed(rev.as_deref(), places),
    }
}

struct Trees<'a, 'b> {
    history: History<'a>,
    budget: &'b mut Budget,
}

impl Trees<'_, '_> {
    fn tree(&mut self, rev: &[u8]) -> Option<Name> {
        let commit = self.history.commit(rev, self.budget)?;
        Some(self.history.read(&commit, self.budget)?.tree)
    }

    fn between(&mut self, from: &[u8], to: &[u8]) -> Option<Written> {
        let (from, to) = (self.tree(from)?, self.tree(to)?);
        self.differing(Some(from), Some(to))
    }

    /// Returns what a merge of a commit takes from it: what it changed and what is not the same here already.
    fn merged(&mut self, rev: &[u8]) -> Option<Written> {
        let head = self.history.commit(b"HEAD", self.budget)?;
        let other = self.history.commit(rev, self.budget)?;
        let base = self.history.common(&head, &other, self.budget)?;
        let tree =
            |trees: &mut Self, name: &Name| Some(trees.history.read(name, trees.budget)?.tree);
        let (head, other, base) = (tree(self, &head)?, tree(self, &other)?, tree(self, &base)?);
        let theirs = self.differing(Some(base), Some(other.clone()))?;
        let here = self.differing(Some(head), Some(other))?;
        Some(theirs.intersection(&here).cloned().collect())
    }

    /// Returns the protected paths in which two trees differ.
    fn differing(&mut self, from: Option<Name>, to: Option<Name>) -> Option<Written> {
        let mut paths = Written::new();
        let mut rest = vec![(Vec::new(), from, to)];
        while let Some((above, from, to)) = rest.pop() {
            let (from, to) = (self.entries(from)?, self.entries(to)?);
            let names: BTreeSet<&Vec<u8>> = from.keys().chain(to.keys()).collect();
            for name in names {
                let (old, new) = (from.get(name), to.get(name));
                if old == new {
                    continue;
                }
                let path = joined(&above, name);
                let mut directory = |entry: Option<&Entry>| match entry {
                    Some((mode, object)) if mode == DIRECTORY => Some(object.clone()),
                    Some(_) => {
                        if is_protected(&Path::new("/").join(path_of(&path))) {
                            paths.insert(path.clone());
                        }
                        None
                    }
                    None => None,
                };
                let (old, new) = (directory(old), directory(new));
                // A directory that comes or goes as a whole.
                let is_whole = old.is_some() != new.is_some();
                if is_whole && is_protected(&Path::new("/").join(path_of(&path))) {
                    paths.insert(path.clone());
                }
                if old.is_some() || new.is_some() {
                    rest.push((path, old, new));
                }
            }
        }
        Some(paths)
    }

    fn entries(&mut self, tree: Option<Name>) -> Option<BTreeMap<Vec<u8>, Entry>> {
        let Some(name) = tree else { return Some(BTreeMap::new()) };
        let bytes = self.history.objects.of_kind(&name, Kind::Tree, self.budget)?;
        let (mut rest, mut found) = (bytes.as_slice(), BTreeMap::new());
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == 0)?;
            let (head, behind) = (rest.get(..end)?, rest.get(end + 1..)?);
            let blank = head.iter().position(|byte| *byte == b' ')?;
            let (object, behind) = behind.split_at_checked(self.history.objects.width)?;
            let (mode, name) = (head.get(..blank)?, head.get(blank + 1..)?);
            found.insert(name.to_vec(), (mode.to_vec(), object.to_vec()));
            rest = behind;
        }
        Some(found)
    }

    /// Returns the protected files of the root, below `places` where there are any, that differ from what a commit holds;
    /// or the index where there is no commit.
    fn changed(&mut self, rev: Option<&[u8]>, places: &[PathBuf]) -> Option<Written> {
        let files = match rev {
            Some(rev) => self.kept(rev)?,
            None => self.indexed()?,
        };
        let root = self.history.found.tree.clone();
        let mut paths = Written::new();
        for (path, object) in files {
            let file = root.join(path_of(&path));
            let is_named = places.is_empty() || places.iter().any(|place| file.starts_with(place));
            if is_named && self.differs(&file, &object)? {
                paths.insert(path);
            }
        }
        Some(paths)
    }

    /// Returns the files of a commit that are protected in its root.
    fn kept(&mut self, rev: &[u8]) -> Option<Vec<(Vec<u8>, Name)>> {
        let (mut found, mut rest) = (Vec::new(), vec![(Vec::new(), self.tree(rev)?)]);
        while let Some((above, tree)) = rest.pop() {
            for (name, (mode, object)) in self.entries(Some(tree))? {
                let path = joined(&above, &name);
                if mode != DIRECTORY {
                    let is_kept = is_protected(&Path::new("/").join(path_of(&path)));
                    found.extend(is_kept.then_some((path, object)));
                } else if may_hold(&path) {
                    rest.push((path, object));
                }
            }
        }
        Some(found)
    }

    fn indexed(&self) -> Option<Vec<(Vec<u8>, Name)>> {
        let git = &self.history.found.git;
        let bytes = plain(&git.join("index"), LONGEST_INDEX).ok()?;
        let shared = |name: &str| plain(&git.join(name), LONGEST_INDEX).ok();
        let is_kept = |path: &[u8]| is_protected(&Path::new("/").join(path_of(path)));
        git_index::objects(&bytes, self.history.objects.width, shared, is_kept)
    }

    /// Says whether a file holds something else than an object, or is not there.
    fn differs(&mut self, file: &Path, object: &[u8]) -> Option<bool> {
        let wanted = self.history.objects.of_kind(object, Kind::Blob, self.budget)?;
        let Ok(kind) = file.symlink_metadata() else { return Some(true) };
        let held = match kind.is_symlink() {
            true => std::fs::read_link(file).ok().map(|it| it.as_os_str().as_bytes().to_vec()),
            false => plain(file, LONGEST as u64).ok(),
        };
        Some(held.is_none_or(|held| held != wanted))
    }
}

fn joined(above: &[u8], name: &[u8]) -> Vec<u8> {
    if above.is_empty() { name.to_vec() } else { [above, b"/", name].concat() }
}

/// Says whether a protected file of the root may lie in a directory.
fn may_hold(directory: &[u8]) -> bool {
    let parts: Vec<String> = directory
        .split(|byte| *byte == b'/')
        .map(|part| String::from_utf8_lossy(part).to_ascii_lowercase())
        .collect();
    stockade_policy::protected_names().iter().any(|name| {
        let fits = |(part, wanted): (&String, &&str)| {
            wanted.contains('*') || wanted.eq_ignore_ascii_case(part)
        };
        !name.root
            && parts.iter().zip(&name.segments).all(fits)
            && (name.tree || parts.len() < name.segments.len())
    })
}
