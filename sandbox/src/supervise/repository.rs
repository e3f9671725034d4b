//! Git directories: what runs code when git is used there later, or leads it elsewhere.
//!
//! Names and places are those of `gitrepository-layout(5)`. A git directory is one by its name or by what
//! lies in it, so that one which a run puts together itself counts, too. What a run may do to those that
//! it made is more than what it may do to those that were there.

pub(super) mod links;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::time::SystemTime;

use super::configuration::Keys;
use super::found::Lines;
use super::guard::{Act, Guard};
use super::inspection::Places;
use super::resolve::{self, Named};
use super::{fold, inspection};
use links::Ways;
use stockade_kernel::syscalls;
use stockade_spec::Violation;
use stockade_spec::note::Kind;

/// Most objects that are remembered.
const MOST_MADE: usize = 100_000;

/// Most hooks that are looked at when a directory becomes a git directory.
const MOST_HOOKS: usize = 1_000;

/// Identity that tells an object from every other, also from one that got its inode later: device, inode, and when it
/// was made, where the file system knows.
pub(super) type Identity = (u64, u64, Option<SystemTime>);

/// Objects that this run made and that still exist: directories, sockets, `.git` files and configurations; and the
/// directories that are inspected at the end.
#[derive(Debug, Default)]
pub(super) struct Made {
    objects: RefCell<BTreeSet<Identity>>,
    /// Of these, the git directories, all of which are inspected.
    repositories: RefCell<BTreeSet<Identity>>,
    places: Places,
}

impl Made {
    /// `monitor` is told of every directory that is inspected at the end.
    pub(super) fn new(monitor: UnixStream, lines: Lines) -> Made {
        Made {
            objects: RefCell::default(),
            repositories: RefCell::default(),
            places: Places::new(monitor, lines),
        }
    }

    /// Remembers an object that was just made.
    pub(super) fn note(&self, object: &OwnedFd) -> io::Result<()> {
        let mut known = self.objects.borrow_mut();
        // One that is not remembered counts as one that was there: the stricter reading.
        if known.len() < MOST_MADE {
            known.insert(identity(&resolve::metadata(object)?));
        }
        Ok(())
    }

    /// Remembers a directory that is or becomes a git directory by what the run does.
    pub(super) fn note_repository(&self, directory: &OwnedFd) -> io::Result<()> {
        // In this order: what is not inspected gets no configuration either.
        self.places.add(Kind::Repository, directory)?;
        let identity = identity(&resolve::metadata(directory)?);
        self.objects.borrow_mut().insert(identity);
        self.repositories.borrow_mut().insert(identity);
        Ok(())
    }

    /// Remembers `parent`, in which the run is about to make a `.git` file.
    pub(super) fn note_file(&self, parent: &OwnedFd) -> io::Result<()> {
        self.places.add(Kind::File, parent)
    }

    /// Forgets an object that loses a name, if that was its last one: somebody else may get its inode.
    pub(super) fn forget(&self, object: &Metadata) {
        if object.is_dir() || object.nlink() <= 1 {
            let identity = identity(object);
            self.objects.borrow_mut().remove(&identity);
            self.repositories.borrow_mut().remove(&identity);
        }
    }

    /// Says whether this run made it.
    pub(super) fn holds(&self, object: &OwnedFd) -> io::Result<bool> {
        Ok(self.objects.borrow().contains(&identity(&resolve::metadata(object)?)))
    }

    /// Says whether it is a git directory that this run made, and will inspect: one that another run makes of a directory of ours
    /// is none.
    pub(super) fn holds_repository(&self, directory: &OwnedFd) -> io::Result<bool> {
        Ok(self.repositories.borrow().contains(&identity(&resolve::metadata(directory)?)))
    }

    /// Looks into every directory that was remembered for it, when nothing of the run is left. What would run
    /// programs is put aside, and reported.
    pub(super) fn inspect(&self, keys: &Keys, guard: &Guard) -> Vec<Violation> {
        self.places.inspect(keys, guard)
    }
}

/// Returns the refused key of what `from` names, if it is about to become the configuration at `path`.
pub(super) fn refused_configuration(
    keys: &Keys,
    guard: &Guard,
    from: &Named,
    parent: &OwnedFd,
    path: &Path,
) -> io::Result<Option<String>> {
    let above = path.parent().unwrap_or(path);
    if !is(path.file_name().unwrap_or_default(), "config") || !is_git(parent, above)? {
        return Ok(None);
    }
    match inspection::read(&from.parent, from.name()) {
        Ok(text) => Ok(text.and_then(|it| keys.refused(&it, above, guard))),
        Err(_) => Ok(Some("what cannot be read".to_owned())),
    }
}

/// Says whether a file of this name is remembered when a run makes it.
pub(super) fn is_remembered(name: &OsStr) -> bool {
    is(name, ".git") || is(name, "config") || is(name, "config.lock")
}

/// Says whether a directory of this name is a git directory, whatever it holds.
pub(super) fn is_git_name(name: &OsStr) -> bool {
    is(name, ".git")
}

/// Says whether git takes a directory for one of its own by this name, if it holds the rest.
pub(super) fn is_git_like(name: &OsStr) -> bool {
    is_git_name(name) || ends_with(name, b".git")
}

/// Says whether the object at `path` in `parent` is the lock of a configuration which somebody else is writing: git gives it the
/// name of the configuration when it is done, whatever it is then.
pub(super) fn is_lock_of_another(
    made: &Made,
    parent: &OwnedFd,
    path: &Path,
    object: &OwnedFd,
) -> io::Result<bool> {
    let above = path.parent().unwrap_or(path);
    Ok(is(path.file_name().unwrap_or_default(), "config.lock")
        && is_git(parent, above)?
        && !made.holds(object)?)
}

/// The rule that keeps such a lock.
pub(super) const LOCK: &str = "builtin: git configuration, which another is writing";

/// Returns what tells an object from every other.
pub(super) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino(), found.created().ok())
}

/// Says whether [`forbids`] has anything to say of `path`, by its names alone.
pub(super) fn concerns(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let known = [
        ".git",
        "hooks",
        "config",
        "config.lock",
        "config.worktree",
        "commondir",
        "alternates",
        "attributes",
        "git-rebase-todo",
        "strategy",
        "opts",
        "rebase-merge",
        "sequencer",
        "head",
        "objects",
        "refs",
    ];
    let above = path.parent().and_then(Path::file_name).unwrap_or_default();
    let names_remotes = [name, above].iter().any(|it| REMOTES.iter().any(|known| is(it, known)));
    known.iter().any(|known| is(name, known)) || is_hook(path) || is_own(name) || names_remotes
}

/// Directories of files that name remotes, as git did before it had a configuration (`gitrepository-layout(5)`).
const REMOTES: [&str; 2] = ["remotes", "branches"];

/// The rule that keeps names for ourselves.
pub(super) const OWN_NAME: &str = "builtin: name of a file that is looked into";

/// Says whether a name is one of those that a file has before it is put in its place.
pub(super) fn is_own(name: &OsStr) -> bool {
    let name = name.as_bytes().to_ascii_lowercase();
    name.windows(inspection::OWN.len()).any(|part| part == inspection::OWN.as_bytes())
}

/// Returns why `act` at `name` in `parent` is refused, if it is; `path` is its real path.
pub(super) fn forbids(
    made: &Made,
    act: Act,
    parent: &OwnedFd,
    path: &Path,
) -> io::Result<Option<&'static str>> {
    let name = path.file_name().unwrap_or_default();
    let above = path.parent().unwrap_or(path);
    let is_placed = act == Act::Place;
    if is_own(name) {
        return Ok(Some(OWN_NAME));
    }
    // Git makes it where there is none, and what is put there could replace that of somebody else.
    if is(name, "config.lock") && is_placed && is_git(parent, above)? {
        return Ok(Some(LOCK));
    }
    if is(name, ".git") && is_placed {
        return Ok(Some("builtin: git directory"));
    }
    if is_hook(path) && is_git(&up(parent)?, above.parent().unwrap_or(above))? {
        return Ok(Some("builtin: git hooks"));
    }
    if is(name, "hooks") && is_placed && is_git(parent, above)? {
        return Ok(Some("builtin: git hooks"));
    }
    // Wherever it lies: next to the files of a linked worktree nothing else tells that it is one.
    if is(name, "config.worktree") || is(name, "commondir") && is_git(parent, above)? {
        return Ok(Some("builtin: git directory"));
    }
    if is(name, "config") && is_git(parent, above)? && !made.holds_repository(parent)? {
        return Ok(Some("builtin: git configuration"));
    }
    if is(name, "alternates") && above.ends_with("objects/info") {
        let directory = up(&up(parent)?)?;
        let whole = above.ancestors().nth(2).unwrap_or(above);
        if is_git(&directory, whole)? && !made.holds_repository(&directory)? {
            return Ok(Some("builtin: git directory"));
        }
    }
    // Patterns that are no part of the project, and that no change to it shows.
    if is(name, "attributes") && above.file_name().is_some_and(|info| is(info, "info")) {
        let directory = up(parent)?;
        if is_git(&directory, above.parent().unwrap_or(above))?
            && !made.holds_repository(&directory)?
        {
            return Ok(Some("builtin: git attributes"));
        }
    }
    // Where a branch follows a remote that the configuration does not name, these do.
    let inside = above.file_name().unwrap_or_default();
    let is_named = |name: &OsStr| REMOTES.iter().any(|known| is(name, known));
    if is_named(inside) {
        let directory = up(parent)?;
        if is_git(&directory, above.parent().unwrap_or(above))?
            && !made.holds_repository(&directory)?
        {
            return Ok(Some("builtin: git remotes"));
        }
    }
    if is_placed && is_named(name) && is_git(parent, above)? && !made.holds_repository(parent)? {
        return Ok(Some("builtin: git remotes"));
    }
    remember(made, act, parent, path)
}

/// Remembers what `act` at `path` in `parent` makes that has to be looked at in the end; returns why that is refused, if it
/// is.
fn remember(
    made: &Made,
    act: Act,
    parent: &OwnedFd,
    path: &Path,
) -> io::Result<Option<&'static str>> {
    let name = path.file_name().unwrap_or_default();
    let is_placed = act == Act::Place;
    if is(name, "commondir") {
        made.places.add(Kind::Pointer, parent)?;
    }
    let above = path.parent().unwrap_or(path);
    let inner = above.file_name().unwrap_or_default();
    if is(inner, "rebase-merge") && (is(name, "git-rebase-todo") || is(name, "strategy"))
        || is(inner, "sequencer") && is(name, "opts")
    {
        made.places.add(Kind::Work, &up(parent)?)?;
    }
    if is_placed && (is(name, "rebase-merge") || is(name, "sequencer")) {
        made.places.add(Kind::Work, parent)?;
    }
    if becomes_git(parent, name)? {
        if is_prepared(made, parent)? {
            return Ok(Some("builtin: git directory"));
        }
        made.note_repository(parent)?;
    }
    Ok(None)
}

/// Says whether there is anything in a directory for git that nobody looked at before it became a git directory: a configuration
/// of somebody else, hooks, what a stopped rebase left, and what leads elsewhere.
pub(super) fn is_prepared(made: &Made, directory: &OwnedFd) -> io::Result<bool> {
    let config = libc::O_PATH | libc::O_NOFOLLOW;
    let is_strange = match syscalls::create_at(directory.as_fd(), Path::new("config"), config, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => false,
        result => !made.holds(&result?)?,
    };
    let parts =
        ["commondir", "info/attributes", "objects/info/alternates", "rebase-merge", "sequencer"];
    for part in parts {
        if has(directory, part)? {
            return Ok(true);
        }
    }
    for remotes in REMOTES {
        if has_entries(directory, remotes)? {
            return Ok(true);
        }
    }
    Ok(is_strange || links::are_at(directory, Path::new("."), Ways::All) || has_hooks(directory)?)
}

/// Says whether anything lies in the directory `name`; what is no directory counts.
fn has_entries(directory: &OwnedFd, name: &str) -> io::Result<bool> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    match syscalls::create_at(directory.as_fd(), Path::new(name), flags, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(_) => Ok(true),
        Ok(opened) => Ok(!is_empty(&opened)?),
    }
}

/// Entries that make a git directory what it is: none loses its name by a move.
pub(super) const PARTS: [&str; 6] = ["config", "HEAD", "hooks", "info", "objects", "refs"];

/// Those whose name nothing gets by a move. Objects that come to the other names are judged where they are placed.
pub(super) const INFO: [&str; 1] = ["info"];

/// Returns why the name of the entry at `path` in `parent`, if it is one of `parts`, stays as it is in a move: a git directory
/// that was there is not taken apart and put together again.
pub(super) fn stays(
    made: &Made,
    parent: &OwnedFd,
    path: &Path,
    parts: &[&str],
) -> io::Result<Option<&'static str>> {
    let name = path.file_name().unwrap_or_default();
    let above = path.parent().unwrap_or(path);
    if is_own(name) {
        return Ok(Some(OWN_NAME));
    }
    if !parts.iter().any(|part| is(name, part)) {
        return Ok(None);
    }
    let is_known = |directory: &OwnedFd, path: &Path| {
        Ok::<_, io::Error>(is_git(directory, path)? && !made.holds_repository(directory)?)
    };
    let is_part = is_known(parent, above)?
        || is(name, "info")
            && above.file_name().is_some_and(|it| is(it, "objects"))
            && is_known(&up(parent)?, above.parent().unwrap_or(above))?;
    Ok(is_part.then_some("builtin: git directory"))
}

/// Says whether nothing lies in a directory.
pub(super) fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    Ok(std::fs::read_dir(resolve::own_path(directory.as_fd()))?.next().is_none())
}

fn is(name: &OsStr, known: &str) -> bool {
    fold::reaches(name, OsStr::new(known))
}

fn ends_with(name: &OsStr, end: &[u8]) -> bool {
    let bytes = name.as_bytes();
    let start = bytes.len().checked_sub(end.len());
    start.and_then(|start| bytes.get(start..)).is_some_and(|last| last.eq_ignore_ascii_case(end))
}

/// Says whether `path` is an entry of a directory `hooks` and no sample.
fn is_hook(path: &Path) -> bool {
    let mut parts = path.components().rev().map(Component::as_os_str);
    let name = parts.next().unwrap_or_default();
    parts.next().is_some_and(|above| is(above, "hooks")) && !ends_with(name, b".sample")
}

/// Opens the directory above.
fn up(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    syscalls::create_at(directory.as_fd(), Path::new(".."), flags, 0)
}

fn has(directory: &OwnedFd, name: &str) -> io::Result<bool> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    match syscalls::create_at(directory.as_fd(), Path::new(name), flags, 0) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// Says whether it is a git directory, or the common one of several, by name or by what it holds.
pub(super) fn is_git(directory: &OwnedFd, path: &Path) -> io::Result<bool> {
    let name = path.file_name().unwrap_or_default();
    let named = ends_with(name, b".git") || is(name, ".git");
    Ok(named || holds_git(directory)?)
}

/// Says whether it is a git directory by what it holds.
pub(super) fn holds_git(directory: &OwnedFd) -> io::Result<bool> {
    Ok(has(directory, "objects")? && (has(directory, "HEAD")? || has(directory, "refs")?))
}

/// Says whether `directory` is one of `worktrees` in a git directory.
pub(super) fn is_worktree(directory: &OwnedFd) -> io::Result<bool> {
    let above = up(directory)?;
    let whole = up(&above)?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let found = syscalls::create_at(whole.as_fd(), Path::new("worktrees"), flags, 0)?;
    let same = identity(&resolve::metadata(&found)?) == identity(&resolve::metadata(&above)?);
    Ok(same && is_git(&whole, Path::new(""))?)
}

/// Says whether `name` makes a git directory of what was none.
fn becomes_git(directory: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let parts = ["objects", "HEAD", "refs"];
    if !parts.iter().any(|part| is(name, part)) {
        return Ok(false);
    }
    let mut now = [false; 3];
    for (part, there) in parts.iter().zip(&mut now) {
        *there = has(directory, part)?;
    }
    let is_one = |[objects, head, refs]: [bool; 3]| objects && (head || refs);
    let mut then = now;
    for (part, there) in parts.iter().zip(&mut then) {
        *there |= is(name, part);
    }
    Ok(is_one(then) && !is_one(now))
}

/// Says whether there is a hook that git would run; what cannot be looked at counts as one.
fn has_hooks(directory: &OwnedFd) -> io::Result<bool> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let opened = match syscalls::create_at(directory.as_fd(), Path::new("hooks"), flags, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
        Err(_) => return Ok(true),
        Ok(opened) => opened,
    };
    let path = resolve::own_path(opened.as_fd());
    let mut entries = std::fs::read_dir(path)?.take(MOST_HOOKS + 1).enumerate();
    Ok(entries.any(|(index, entry)| {
        index == MOST_HOOKS || entry.map_or(true, |it| !ends_with(&it.file_name(), b".sample"))
    }))
}
