//! Files of which a yes depends although the text does not name them: what a pattern in it stands for, what builders
//! execute, and all that lies where commands write if a name is known only when it runs.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use stockade_policy::{Executed, executed_by};
use stockade_spec::{Pattern, Wild};

use crate::judge::{Judged, Scene};
use crate::review;
use crate::temporary::Temporary;

/// Most entries that are looked at, and for how long. Beyond that a text is never the same as before.
const MOST: usize = 1_000_000;
const LIMIT: Duration = Duration::from_secs(2);

/// Directories in whose place a confined command sees the temporary directory of its session.
const OF_RUNS: [&str; 2] = ["/tmp", "/var/tmp"];

/// A look through directories.
struct Look<'a> {
    whole: &'a mut Sha256,
    left: usize,
    until: Instant,
}

/// Entries of a tree that count.
#[derive(Clone, Copy)]
enum Counts {
    All,
    /// Entries that tools execute because of their names.
    Executed,
}

/// Adds what a text depends on besides the paths in `named`; none where there is too much of it. Blocks on the file
/// system.
pub(super) fn add(
    whole: &mut Sha256,
    scene: &Scene,
    judged: &Judged,
    named: &BTreeSet<PathBuf>,
) -> Option<()> {
    let mut look = Look { whole, left: MOST, until: Instant::now() + LIMIT };
    let roots = roots(scene);
    // The builtins `[` and `[[` are no patterns.
    let is_builtin = |path: &Path| path.ends_with("[") || path.ends_with("[[");
    let is_pattern = |path: &Path| path.to_str().is_some_and(Pattern::is) && !is_builtin(path);
    for path in named.iter().filter(|path| is_pattern(path)) {
        look.pattern(path, &roots)?;
    }
    let is_own = |path: &PathBuf| OF_RUNS.iter().any(|it| path.starts_with(it));
    let executed = judged.tree.as_ref().map(executed_by);
    if executed == Some(Executed::Any) || named.iter().any(is_own) {
        // Entries that the text finds there may be links to the rest of the session's directory.
        let session = scene.session.as_deref();
        let own = session.map(|it| Temporary::of_session(&scene.state, it));
        own.map_or(Some(()), |own| look.tree(&own, Counts::All))?;
    }
    let counts = match executed {
        Some(Executed::Named) | None => return Some(()),
        Some(Executed::OfBuilders) => Counts::Executed,
        Some(Executed::Any) => Counts::All,
    };
    roots.iter().try_for_each(|root| look.tree(root, counts))
}

/// Returns the directories in which commands write, and the one of the call; none of them lies in another.
fn roots(scene: &Scene) -> Vec<PathBuf> {
    let mut all: BTreeSet<PathBuf> = scene.place.regions().into_iter().collect();
    all.insert(scene.place.cwd.clone());
    let is_outer = |root: &&PathBuf| !root.ancestors().skip(1).any(|above| all.contains(above));
    all.iter().filter(is_outer).cloned().collect()
}

impl Look<'_> {
    /// Adds what a path with wildcards stands for; of one that reaches over directories, those of `roots` alone.
    fn pattern(&mut self, path: &Path, roots: &[PathBuf]) -> Option<()> {
        let mut known = PathBuf::new();
        let mut parts = path.iter();
        let first = parts.by_ref().find(|part| {
            let is_plain = !part.to_str().is_some_and(Pattern::is);
            known.extend(is_plain.then_some(part));
            !is_plain
        })?;
        if parts.next().is_some() {
            let within = roots.iter().any(|root| known.starts_with(root)).then_some(&known);
            let below = roots.iter().filter(|root| root.starts_with(&known));
            return within.into_iter().chain(below).try_for_each(|it| self.tree(it, Counts::All));
        }
        // One that cannot be read as a pattern of names fits any.
        let wild = first.to_str().and_then(|text| Wild::parse(text).ok());
        let fits = |name: &str| wild.as_ref().is_none_or(|wild| wild.fits(name));
        for entry in self.list(&known)? {
            if entry.file_name().and_then(|name| name.to_str()).is_none_or(fits) {
                self.entry(&entry)?;
            }
        }
        Some(())
    }

    /// Adds a tree; symbolic links are not entered.
    fn tree(&mut self, root: &Path, counts: Counts) -> Option<()> {
        let mut open = vec![root.to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in self.list(&directory)? {
                let inside = entry.strip_prefix(root).unwrap_or(&entry);
                let found = match counts {
                    Counts::All => self.entry(&entry)?,
                    Counts::Executed if review::is_watched(inside) => self.entry(&entry)?,
                    Counts::Executed => entry.symlink_metadata().is_ok_and(|it| it.is_dir()),
                };
                open.extend(found.then_some(entry));
            }
        }
        Some(())
    }

    /// Returns the entries of a directory in their order; none at one that can be entered and not listed, or when there
    /// are too many.
    fn list(&mut self, directory: &Path) -> Option<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let enters = rustix::fs::access(directory, rustix::fs::Access::EXEC_OK).is_ok();
                return (!enters).then(Vec::new);
            }
            Err(_) => return Some(Vec::new()), // gone, or never there
        };
        let mut found = Vec::new();
        for entry in entries {
            self.left = self.left.checked_sub(1)?;
            found.push(entry.ok()?.path());
        }
        found.sort();
        (Instant::now() < self.until).then_some(found)
    }

    /// Adds an entry: which one it is and when it changed. Nobody can set the time of that. Says whether it is a directory.
    fn entry(&mut self, path: &Path) -> Option<bool> {
        self.whole.update(path.as_os_str().as_encoded_bytes());
        self.whole.update([0]);
        let own = path.symlink_metadata().ok()?;
        // Where a link leads is more than the link.
        let led = own.is_symlink().then(|| path.metadata().ok()).flatten();
        for found in std::iter::once(&own).chain(&led).filter(|found| !found.is_dir()) {
            for number in [found.dev(), found.ino(), found.size(), u64::from(found.mode())] {
                self.whole.update(number.to_le_bytes());
            }
            for number in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
                self.whole.update(number.to_le_bytes());
            }
        }
        Some(own.is_dir())
    }
}
