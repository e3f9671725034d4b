//! The journal of a run: which watched files it changed first, by which call, and what they held until then.
//!
//! An entry is written before the change is done. What cannot be written down is not done.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::part::{Name, Part, parts};
use super::{fold, resolve};
use stockade_kernel::frames;
use stockade_kernel::syscalls;
use stockade_spec::codec::Wire;
use stockade_spec::{Before, Entry, MOST_KEPT_BYTES, SandboxSpec, Touched};

/// Most paths that are listed.
const MOST_PATHS: usize = 2_000;

/// Most that is kept of all files together.
const MOST_BYTES: usize = 64 << 20;

/// Files that are watched in one run.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// Names of one part, in small letters.
    plain: HashSet<String>,
    /// Those with wildcards.
    wild: Vec<Part>,
    /// All others, each with whether what lies beneath counts.
    names: Vec<(Name, bool)>,
    /// Those that count in excepted directories, too, each with whether what lies beneath does.
    everywhere: Vec<(Name, bool)>,
    except: Vec<Part>,
    paths: Vec<PathBuf>,
    /// None where nothing is watched.
    journal: Option<File>,
    written: RefCell<Written>,
}

#[derive(Debug, Default)]
struct Written {
    paths: HashSet<PathBuf>,
    bytes: usize,
    more: u64,
}

impl Review {
    /// Begins `journal`, if there is one.
    pub(crate) fn begin(spec: &SandboxSpec, journal: Option<OwnedFd>) -> io::Result<Review> {
        let mut review = Review { journal: journal.map(File::from), ..Review::default() };
        if let Some(watched) = spec.files.watched.as_ref().filter(|_| review.journal.is_some()) {
            review.except = watched.except.iter().map(|name| Part::new(name)).collect();
            review.paths.clone_from(&watched.paths);
            let everywhere = watched.everywhere.iter();
            review.everywhere =
                everywhere.map(|(it, tree)| (Name::new(Path::new(it)), *tree)).collect();
            for (name, tree) in &watched.names {
                review.add(Name::new(Path::new(name)), *tree);
            }
        }
        if let Some(journal) = &review.journal {
            // As long as this process lives, more may come.
            journal.lock_shared()?;
        }
        review.write(&Entry::Began)?;
        Ok(review)
    }

    fn add(&mut self, name: Name, tree: bool) {
        match name.single().filter(|_| !tree) {
            Some(part) => match part.plain() {
                Some(plain) => drop(self.plain.insert(plain)),
                None => self.wild.push(part.clone()),
            },
            None => self.names.push((name, tree)),
        }
    }

    /// Says whether a file at `path` is watched; `inside` are the parts of its path below the writable region.
    pub(super) fn lists(&self, path: &Path, inside: &Path) -> bool {
        if self.journal.is_none() {
            return false;
        }
        let all = parts(inside);
        let folded = all.last().and_then(|name| fold::folded(name)).unwrap_or_default();
        let is_single =
            self.plain.contains(&folded) || self.wild.iter().any(|part| part.fits(&folded));
        let above = all.len().saturating_sub(1);
        is_single && !self.is_excepted(all.get(..above).unwrap_or_default())
            || self.paths.iter().any(|known| path.starts_with(known))
            || self.names.iter().any(|(name, tree)| {
                name.places(&all).any(|start| {
                    (*tree || start + name.len() == all.len())
                        && !self.is_excepted(all.get(..start).unwrap_or_default())
                })
            })
            || self.everywhere.iter().any(|(name, tree)| {
                name.places(&all).any(|start| *tree || start + name.len() == all.len())
            })
    }

    /// Says whether a directory at `path` would come to hold watched files by what lies beneath: it has the first parts of a
    /// name, or is one whose contents count.
    pub(super) fn is_above(&self, inside: &Path) -> bool {
        let inside = parts(inside);
        let begins = |names: &[(Name, bool)]| {
            names.iter().any(|(name, _)| name.begins_at_the_end_of(&inside))
        };
        !self.is_excepted(&inside) && begins(&self.names) || begins(&self.everywhere)
    }

    /// Says whether nothing that begins beneath `inside` is watched by its name.
    pub(super) fn excepts(&self, inside: &Path) -> bool {
        self.journal.is_none() || self.everywhere.is_empty() && self.is_excepted(&parts(inside))
    }

    fn is_excepted(&self, inside: &[OsString]) -> bool {
        inside.iter().any(|part| self.except.iter().any(|except| except.is(part)))
    }

    /// Writes down that `path` is about to change, unless that is known already.
    pub(super) fn note(
        &self,
        call: &str,
        thread: u32,
        path: &Path,
        before: impl FnOnce() -> Before,
    ) -> io::Result<()> {
        let mut written = self.written.borrow_mut();
        if self.journal.is_none() || written.paths.contains(path) {
            return Ok(());
        }
        if written.paths.len() >= MOST_PATHS {
            if written.more == 0 {
                self.write(&Entry::More(0))?;
            }
            written.more = written.more.saturating_add(1);
            return Ok(());
        }
        let mut before = before();
        if let Before::Content(text) | Before::Led(_, Some(text)) = &before {
            let length = text.len();
            match written.bytes.saturating_add(length) {
                more if more > MOST_BYTES => before = Before::Large(length as u64),
                more => written.bytes = more,
            }
        }
        let program = std::fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let touched = Touched {
            path: path.to_path_buf(),
            call: call.to_owned(),
            program: String::from_utf8_lossy(&program).trim_end().to_owned(),
            at: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            before,
        };
        self.write(&Entry::Touched(touched))?;
        written.paths.insert(path.to_path_buf());
        Ok(())
    }

    /// Ends the journal.
    pub(super) fn end(&self) -> io::Result<()> {
        match self.written.borrow().more {
            0 => Ok(()),
            more => self.write(&Entry::More(more)),
        }
    }

    fn write(&self, entry: &Entry) -> io::Result<()> {
        match &self.journal {
            Some(journal) => frames::send(journal, &entry.to_bytes()),
            None => Ok(()),
        }
    }
}

/// Returns what `name` in `directory` holds.
pub(super) fn before(directory: &OwnedFd, name: &Path) -> Before {
    let lookup = libc::O_PATH | libc::O_NOFOLLOW;
    match syscalls::create_at(directory.as_fd(), name, lookup, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Before::Nothing,
        Err(_) => Before::Unknown,
        Ok(object) => match resolve::metadata(&object) {
            Ok(found) if found.is_symlink() => syscalls::read_link_at(directory.as_fd(), name)
                .map_or(Before::Unknown, |text| Before::Link(OsString::from_vec(text))),
            Ok(_) => content(&object),
            Err(_) => Before::Unknown,
        },
    }
}

/// Returns what a link with this text led to.
pub(super) fn led(text: &OsString, content: Before) -> Before {
    match content {
        Before::Content(content) => Before::Led(text.clone(), Some(content)),
        Before::Nothing => Before::Led(text.clone(), None),
        Before::Link(_) | Before::Led(..) | Before::Large(_) | Before::Unknown => content,
    }
}

/// Returns what a file holds.
pub(super) fn content(object: &OwnedFd) -> Before {
    let Ok(found) = resolve::metadata(object) else { return Before::Unknown };
    if !found.is_file() {
        return Before::Unknown;
    }
    let most = MOST_KEPT_BYTES as u64;
    // Whoever holds a lease on it is not waited for.
    let opened = syscalls::reopen(object.as_fd(), libc::O_RDONLY | libc::O_NONBLOCK);
    let mut text = Vec::new();
    let read = opened.and_then(|file| File::from(file).take(most + 1).read_to_end(&mut text));
    match read {
        Err(_) => Before::Unknown,
        Ok(length) if length as u64 > most => Before::Large(found.len()),
        Ok(_) => Before::Content(OsString::from_vec(text)),
    }
}
