//! The files below a directory that searches show: those that version control ignores are left out.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use ignore::{WalkBuilder, WalkState};

/// Most files that are kept.
const MOST: usize = 200_000;

/// A file with the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) changed: SystemTime,
}

/// Returns a walk below `root`, hidden files included.
pub(crate) fn builder(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).require_git(false).follow_links(false);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    builder
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
