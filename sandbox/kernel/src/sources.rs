//! The host's objects that a run is made of: opened, and copied as mounts that are attached nowhere.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use super::layout::{Mount, View};
use super::objects::{SAFE, beneath, failed, is_absent, open};
use super::syscalls::{self, ATTRIBUTE_READ_ONLY};
use stockade_spec::Access;
use stockade_spec::codec::Failure;
use stockade_spec::{FileRule, SandboxSpec};

/// The host's tree, and what masks are copies of, attached nowhere: so a run can leave the host before its spec is
/// there. The last one who closes it waits for the kernel's readers.
pub struct Left {
    pub host: OwnedFd,
    pub staging: OwnedFd,
}

/// Opens an absolute path of the host, following nothing.
pub(super) fn open_in(left: Option<&Left>, path: &Path) -> io::Result<OwnedFd> {
    let Some(Left { host, .. }) = left else { return open(path) };
    match path.strip_prefix("/") {
        Ok(relative) if relative.as_os_str().is_empty() => host.try_clone(),
        Ok(relative) => beneath(host.as_fd(), relative),
        Err(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Opens a file of the gateway for writing at its end, in a host that was `left` or where this process is.
fn own(left: Option<&Left>, path: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_NOFOLLOW;
    match left {
        None => syscalls::open_path(path, flags, syscalls::NO_LINKS),
        Some(Left { host, .. }) => {
            let relative = path.strip_prefix("/").unwrap_or(path);
            syscalls::open_at(host.as_fd(), relative, flags, syscalls::NO_LINKS)
        }
    }
}

/// Files of the gateway for one run.
#[derive(Debug, Default)]
pub struct OwnFiles {
    /// Journal of the first changes of watched files.
    pub journal: Option<OwnedFd>,
    /// Lock files of an act and of the whole run.
    pub turns: Option<(OwnedFd, OwnedFd)>,
}

/// Opens the files of the gateway that `spec` names.
pub fn own_files(left: Option<&Left>, spec: &SandboxSpec) -> io::Result<OwnFiles> {
    let (watched, turns) = (spec.files.watched.as_ref(), spec.files.turns.as_ref());
    let journal = watched.map(|it| own(left, &it.journal)).transpose()?;
    let turns = turns.map(|(act, run)| Ok::<_, io::Error>((own(left, act)?, own(left, run)?)));
    Ok(OwnFiles { journal, turns: turns.transpose()? })
}

/// Mounts that were made for regions of other owners.
#[derive(Debug, Default)]
pub struct Foreign {
    /// Detached mounts by path: each region, and what is mounted over parts of it.
    pub trees: BTreeMap<PathBuf, OwnedFd>,
    /// Objects in those regions that rules name, for looking at.
    pub opened: BTreeMap<PathBuf, OwnedFd>,
    /// Mounts that could not be made, for people.
    pub notes: Vec<String>,
}

/// The host's objects that rules name, opened before anything is covered.
pub struct Sources {
    pub opened: BTreeMap<PathBuf, OwnedFd>,
    pub rules: Vec<FileRule>,
    pub(super) absent: Vec<FileRule>,
}

impl Sources {
    /// Opens them, in a host that was `left` or where this process is.
    pub fn open(
        spec: &SandboxSpec,
        foreign: &Foreign,
        left: Option<&Left>,
    ) -> Result<Sources, Failure> {
        raise_limit();
        let mut sources =
            Sources { opened: BTreeMap::new(), rules: Vec::new(), absent: Vec::new() };
        for rule in &spec.files.rules {
            if !rule.path.is_absolute()
                || rule.path.components().any(|part| part == Component::ParentDir)
            {
                let reason = format!("`{}` is not an absolute real path", rule.path.display());
                return Err(Failure::Spec { reason });
            }
            // The supervisor's: what is a link cannot be covered.
            if rule.access == Access::Kept {
                continue;
            }
            match open_in(left, &rule.path) {
                Ok(fd) => sources.add(rule, fd)?,
                // The monitor, with more rights, could come there.
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                    match foreign.opened.get(&rule.path) {
                        Some(object) => {
                            let copy = failed("open", &rule.path, object.try_clone())?;
                            sources.add(rule, copy)?;
                        }
                        // Neither we nor the command, which has the same ids, can come there.
                        None => sources.absent.push(rule.clone()),
                    }
                }
                Err(error) if is_absent(&error) => sources.absent.push(rule.clone()),
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    return Err(exchanged(&rule.path));
                }
                Err(error) => return failed("open", &rule.path, Err(error)),
            }
        }
        Ok(sources)
    }

    fn add(&mut self, rule: &FileRule, fd: OwnedFd) -> Result<(), Failure> {
        let kind = failed("look at", &rule.path, syscalls::kind(fd.as_fd()))?;
        if kind == libc::S_IFLNK {
            return Err(exchanged(&rule.path));
        }
        self.opened.insert(rule.path.clone(), fd);
        self.rules.push(rule.clone());
        Ok(())
    }

    /// Copies the mount of each path that is shown, while the host's tree is still as it was.
    pub(super) fn clone_trees(
        &self,
        mounts: &[Mount],
        mut foreign: Foreign,
        left: Option<&Left>,
    ) -> Result<BTreeMap<PathBuf, Tree>, Failure> {
        let mut trees = BTreeMap::new();
        for Mount { path, view } in mounts {
            let attributes = match view {
                View::Private => continue,
                View::ReadOnly | View::Masked { .. } => SAFE | ATTRIBUTE_READ_ONLY,
                View::Writable | View::Pinned => SAFE,
            };
            let mapped = foreign.trees.remove(path);
            let opened;
            let source = match mapped.as_ref().or_else(|| self.opened.get(path)) {
                Some(source) => source,
                None => {
                    opened = failed("open", path, open_in(left, path))?;
                    &opened
                }
            };
            let kind = failed("look at", path, Kind::of(source))?;
            let mount = match mapped.is_some() || matches!(view, View::Masked { .. }) {
                true => mapped,
                false => Some(failed("clone", path, syscalls::clone_tree(source.as_fd()))?),
            };
            if let Some(tree) = &mount {
                failed("restrict", path, syscalls::set_tree_attributes(tree.as_fd(), attributes))?;
            }
            trees.insert(path.clone(), Tree { mount, kind });
        }
        Ok(trees)
    }
}

/// Lets this process open as many files as it may: each rule takes one. The command gets a limit of its own.
fn raise_limit() {
    if let Ok((soft, hard)) = syscalls::limit(libc::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = syscalls::set_limit(libc::RLIMIT_NOFILE, hard, hard); // then fewer rules can be opened, and that is told
    }
}

/// The failure of a rule whose path is not a real one any more.
pub(super) fn exchanged(path: &Path) -> Failure {
    let path = path.display();
    let reason =
        format!("`{path}` became a symbolic link, or goes over one, after it was looked at");
    Failure::Spec { reason }
}

/// A mount that is not attached yet; `None` for one that hides.
pub(super) struct Tree {
    pub(super) mount: Option<OwnedFd>,
    pub(super) kind: Kind,
}

/// Kind of an object that a mount can cover: a directory, or anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

impl Kind {
    pub(super) fn of(object: &OwnedFd) -> io::Result<Kind> {
        let is_directory = syscalls::kind(object.as_fd())? == libc::S_IFDIR;
        Ok(if is_directory { Kind::Directory } else { Kind::File })
    }
}

#[cfg(test)]
mod tests;
