//! Journal entries that are written before a change is done, see [`crate::supervise::review`].

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::Refused;
use super::super::repository::links;
use super::super::resolve::{self, Named};
use super::super::review::{self, Review};
use super::Performer;
use stockade_kernel::syscalls;
use stockade_spec::Before;

impl Performer<'_> {
    fn review(&self) -> &Review {
        &self.supervisor.review
    }

    /// Returns the part of `path` below the writable region that it lies in.
    fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(self.supervisor.guard.region(path)?).ok()
    }

    fn lists(&self, path: &Path) -> bool {
        self.inside(path).is_some_and(|inside| self.review().lists(path, inside))
    }

    /// Says whether a link at `path` gives another name to watched files.
    fn gives_names(&self, path: &Path) -> bool {
        self.lists(path) || self.inside(path).is_some_and(|inside| self.review().is_above(inside))
    }

    fn write_down(
        &self,
        call: &str,
        path: &Path,
        before: impl FnOnce() -> Before,
    ) -> Result<(), Refused> {
        Ok(self.review().note(call, self.caller.thread(), path, before)?)
    }

    /// Remembers a link on the way to what the call is about.
    pub(super) fn pass(&self, link: &Named, text: &[u8]) -> io::Result<()> {
        let path = link.path()?;
        if self.lists(&path) {
            self.passed.borrow_mut().push((path, OsStr::from_bytes(text).to_os_string()));
        }
        Ok(())
    }

    /// Writes down that what exists is about to be written, by each name that leads there.
    pub(super) fn note_object(&self, call: &str, object: &OwnedFd) -> Result<(), Refused> {
        let path = resolve::real_path(object.as_fd())?;
        for (link, text) in self.passed.borrow().iter() {
            self.write_down(call, link, || review::led(text, review::content(object)))?;
        }
        if !self.lists(&path) {
            return Ok(());
        }
        self.write_down(call, &path, || review::content(object))
    }

    /// Writes down that a name is about to mean something else, or nothing.
    pub(in crate::supervise) fn note_name(&self, call: &str, named: &Named) -> Result<(), Refused> {
        for (link, text) in self.passed.borrow().iter() {
            let before = || review::before(&named.parent, named.name());
            self.write_down(call, link, || review::led(text, before()))?;
        }
        let path = named.path()?;
        if !self.lists(&path) {
            return Ok(());
        }
        self.write_down(call, &path, || review::before(&named.parent, named.name()))
    }

    /// The same for a name that gets a symbolic link.
    pub(super) fn note_link(&self, call: &str, named: &Named) -> Result<(), Refused> {
        let path = named.path()?;
        if !self.gives_names(&path) {
            return Ok(());
        }
        self.write_down(call, &path, || review::before(&named.parent, named.name()))
    }

    /// Writes down what gets another name by a move, and what that replaces, with all that lies beneath.
    pub(super) fn note_move(
        &self,
        from: &Named,
        to: &Named,
        exchanges: bool,
    ) -> Result<(), Refused> {
        self.note_moved(from, to)?;
        if exchanges { self.note_moved(to, from) } else { Ok(()) }
    }

    fn note_moved(&self, from: &Named, to: &Named) -> Result<(), Refused> {
        let (source, path) = (from.path()?, to.path()?);
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let object = syscalls::create_at(from.parent.as_fd(), from.name(), lookup, 0)?;
        let kind = resolve::metadata(&object)?.file_type();
        if kind.is_symlink() {
            self.note_link("rename", from)?;
            return self.note_link("rename", to);
        }
        if !kind.is_dir() {
            self.note_name("rename", from)?;
            self.note_name("rename", to)?;
        }
        let is_free = |path: &Path| {
            let inside = self.inside(path);
            inside.is_none_or(|inside| self.review().excepts(inside))
        };
        if !kind.is_dir() || is_free(&source) && is_free(&path) {
            return Ok(());
        }
        let base = resolve::own_path(from.parent.as_fd()).join(from.name());
        let there = resolve::own_path(to.parent.as_fd()).join(to.name());
        let Ok(beneath) = links::beneath(&from.parent, from.name()) else {
            // A directory that cannot be walked through is reported as a whole.
            self.write_down("rename", &source, || Before::Unknown)?;
            return self.write_down("rename", &path, || Before::Unknown);
        };
        for inside in beneath {
            for (root, at) in [(&source, &base), (&path, &there)] {
                self.note_beneath(&root.join(&inside), &at.join(&inside), &base.join(&inside))?;
            }
        }
        Ok(())
    }

    /// Writes down that the name `path`, which we reach as `at`, loses or gets what is `moved`.
    fn note_beneath(&self, path: &Path, at: &Path, moved: &Path) -> Result<(), Refused> {
        let is_link = || fs::symlink_metadata(moved).is_ok_and(|it| it.is_symlink());
        let counts = self.lists(path) || self.gives_names(path) && is_link();
        if !counts {
            return Ok(());
        }
        if fs::symlink_metadata(moved).is_ok_and(|it| it.is_dir()) {
            return Ok(());
        }
        let (above, name) = (at.parent().unwrap_or(at), at.file_name().unwrap_or_default());
        let parent = syscalls::open_path(above, libc::O_PATH, 0);
        self.write_down("rename", path, || match &parent {
            Ok(parent) => review::before(parent, Path::new(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Before::Nothing,
            Err(_) => Before::Unknown,
        })
    }

    /// Writes down the name of what was made, if its directory was moved meanwhile.
    pub(super) fn note_again(&self, call: &str, named: &Named, path: &Path) -> Result<(), Refused> {
        let now: PathBuf = named.path()?;
        if now == path || !self.lists(&now) {
            return Ok(());
        }
        self.write_down(call, &now, || Before::Unknown)
    }

    /// Writes down what lies beneath a directory that was moved, as far as that has become more meanwhile.
    pub(super) fn note_arrived(&self, to: &Named) -> Result<(), Refused> {
        let path = to.path()?;
        if self.inside(&path).is_none_or(|inside| self.review().excepts(inside)) {
            return Ok(());
        }
        for inside in links::beneath(&to.parent, to.name()).unwrap_or_default() {
            let named = path.join(&inside);
            let at = resolve::own_path(to.parent.as_fd()).join(to.name()).join(&inside);
            let is_dir = || fs::symlink_metadata(&at).is_ok_and(|it| it.is_dir());
            if self.lists(&named) && !is_dir() {
                self.write_down("rename", &named, || Before::Nothing)?;
            }
        }
        Ok(())
    }
}
