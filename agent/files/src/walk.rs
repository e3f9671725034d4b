//! The files below a directory that searches show: those that version control ignores are left out.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{Match, WalkBuilder, WalkState};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::regular;

/// Most files that are kept.
const MOST: usize = 200_000;

/// A file with the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) changed: SystemTime,
}

/// Returns a walk below `root`, hidden files included, without `except` and the files below it.
///
/// The walk reads no ignore file itself: a command may have put a pipe or a link there (see [`Ignored`]).
pub(crate) fn builder(root: &Path, except: Option<PathBuf>) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).follow_links(false).parents(false).require_git(false);
    builder.ignore(false).git_ignore(false).git_exclude(false);
    let ignored = Ignored::above(root);
    builder.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.file_name() != ".git"
            && except.as_ref().is_none_or(|except| !entry.path().starts_with(except))
            && ignored.admits(entry.path(), is_folder)
    });
    builder
}

/// Ignore files of each directory, the later ones first in rank.
const IGNORE_FILES: [&str; 3] = [".git/info/exclude", ".gitignore", ".ignore"];
/// Longest ignore file that is read, in bytes; a longer one ignores nothing.
const LONGEST: u64 = 1 << 20;

/// Patterns of ignored files (gitignore(5)) by directory. Only regular files are read, and none by way of a link.
struct Ignored(Mutex<HashMap<PathBuf, Arc<Gitignore>>>);

impl Ignored {
    /// Reads the ignore files of a directory and of those above it.
    fn above(root: &Path) -> Ignored {
        let folders = root.ancestors().map(|it| (it.to_owned(), Arc::new(patterns(it))));
        Ignored(Mutex::new(folders.collect()))
    }

    /// Says whether a path is not ignored, and reads the ignore files of a directory that is not. A walk comes to a directory
    /// before it comes to what is in it.
    fn admits(&self, path: &Path, is_folder: bool) -> bool {
        let of = |folder: &Path| self.0.lock().ok()?.get(folder).cloned();
        let matched = path.ancestors().skip(1).filter_map(of).find_map(|patterns| {
            match patterns.matched(path, is_folder) {
                Match::None => None,
                Match::Ignore(_) => Some(false),
                Match::Whitelist(_) => Some(true),
            }
        });
        let admits = matched.unwrap_or(true);
        if admits && is_folder {
            let found = Arc::new(patterns(path));
            if let Ok(mut all) = self.0.lock() {
                all.insert(path.to_owned(), found);
            }
        }
        admits
    }
}

/// Returns the patterns of the ignore files in a directory.
fn patterns(folder: &Path) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(folder) = openat(CWD, folder, how, Mode::empty()) {
        for text in IGNORE_FILES.iter().filter_map(|name| regular_text(&folder, name)) {
            for line in text.lines() {
                // A line that is not a pattern ignores nothing.
                let _ = builder.add_line(None, line);
            }
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns the text of a regular file below `folder` to which no link leads.
fn regular_text(folder: &OwnedFd, name: &str) -> Option<String> {
    let file = regular::open(folder, Path::new(name)).ok().flatten()?;
    file.metadata().ok().filter(|it| it.len() <= LONGEST)?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the files for which a function has a result, in no order. `make` makes that function for each thread.
pub(crate) fn collect<T: Send, F: FnMut(&Path) -> Option<T> + Send>(
    builder: &WalkBuilder,
    make: impl Fn() -> F,
) -> Vec<T> {
    let found = Mutex::new(Vec::new());
    let kept = &found;
    builder.build_parallel().run(|| {
        let mut wanted = make();
        Box::new(move |entry| {
            // A directory that cannot be read has nothing to show.
            let Ok(entry) = entry else { return WalkState::Continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return WalkState::Continue;
            }
            if let Some(it) = wanted(entry.path()) {
                let Ok(mut found) = kept.lock() else { return WalkState::Quit };
                found.push(it);
                if found.len() >= MOST {
                    return WalkState::Quit;
                }
            }
            WalkState::Continue
        })
    });
    found.into_inner().unwrap_or_default()
}

/// Returns a file with the time of its last change.
pub(crate) fn entry(path: &Path) -> Entry {
    let changed = path.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    Entry { path: path.to_owned(), changed }
}

/// Sorts by the time of the last change, newest first; equal times by name.
pub(crate) fn newest_first(entries: &mut [Entry]) {
    entries.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| a.path.cmp(&b.path)));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::call::tests::Folder;

    fn found(root: &Path) -> Vec<String> {
        let files = collect(builder(root, None).git_global(false), || {
            |path: &Path| Some(path.strip_prefix(root).unwrap().display().to_string())
        });
        let mut files: Vec<String> =
            files.into_iter().filter(|it| !it.contains("ignore")).collect();
        files.sort();
        files
    }

    #[test]
    fn the_nearest_pattern_counts_and_patterns_above_the_root_do_too() {
        let folder = Folder::new();
        for name in ["p/a.log", "p/a.txt", "p/d/a.log", "p/d/keep.log", "p/out/x", "p/secret.txt"] {
            folder.write(name, "");
        }
        folder.write("p/.gitignore", "*.log\n/out/\n");
        folder.write("p/.ignore", "secret.txt\n");
        folder.write("p/d/.gitignore", "!keep.log\n");
        assert_eq!(found(&folder.path().join("p")), ["a.txt", "d/keep.log"]);
        assert_eq!(found(&folder.path().join("p/d")), ["keep.log"]);
    }

    #[test]
    fn a_link_in_the_place_of_an_ignore_file_is_not_read() {
        let folder = Folder::new();
        folder.write("secret", "a.txt\n");
        folder.write("p/a.txt", "");
        symlink(folder.path().join("secret"), folder.path().join("p/.gitignore")).unwrap();
        assert_eq!(found(&folder.path().join("p")), ["a.txt"]);
    }
}
