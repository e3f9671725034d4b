//! Looks through the upper directories of a project for files with secrets.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, chmod, fstat, openat};

use super::known;
use stockade_base::place::Place;

/// Result of the search in a project.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files that are asked for.
    pub(super) asked: Vec<PathBuf>,
    /// Files of which a copy may be shown.
    pub(super) copied: Vec<PathBuf>,
    /// Directories that cannot be listed: nobody knows what a command would find there.
    pub(super) unlisted: Vec<PathBuf>,
}

/// Looks in the project, the working directory, those between them, and the ones that are added.
pub(super) fn find(place: &Place) -> Found {
    let mut found = Found::default();
    let depth = known().asked.depth;
    let mut seen: Vec<&Path> = Vec::new();
    let project = Some(&place.project).filter(|_| !place.project_is_too_wide());
    for root in project.into_iter().chain(&place.roots).chain(&place.additional) {
        if !seen.iter().any(|it| it == root) {
            seen.push(root);
            walk(root, depth, &mut found);
        }
    }
    let below = |it: &&Path| it.starts_with(&place.project) || place.cwd == **it;
    for directory in place.cwd.ancestors().take_while(below) {
        if !seen.contains(&directory) {
            walk(directory, 0, &mut found);
        }
    }
    found.asked.sort();
    found.asked.dedup();
    found
}

/// Looks through a tree, the upper directories first: all of them down to `depth`, and deeper ones until many were listed.
fn walk(root: &Path, depth: usize, found: &mut Found) {
    let mut open = VecDeque::from([(root.to_path_buf(), 0)]);
    let mut listings = 0;
    while let Some((directory, level)) = open.pop_front() {
        listings += 1;
        let Some(listed) = list(&directory) else {
            // The owner of the directory can change its mode while the command runs.
            found.unlisted.push(directory);
            continue;
        };
        for (name, kind) in listed {
            let path = directory.join(&name);
            match kind {
                FileType::Directory
                    if goes_on(level, depth, listings)
                        && !known().asked.passed.contains(&name.as_str()) =>
                {
                    open.push_back((path, level + 1));
                }
                FileType::Directory => {}
                _ if known().asked.speaks_of(&name) => found.asked.push(path),
                _ if is_copied(&name) => found.copied.push(path),
                _ => {}
            }
        }
    }
}

/// Says whether the directories in one at `level` are looked through.
fn goes_on(level: usize, depth: usize, listings: usize) -> bool {
    level < depth || depth > 0 && listings < known().asked.most
}

/// Says whether a copy is shown of a file with this name, in whatever directory of the project.
fn is_copied(name: &str) -> bool {
    known().copied.iter().any(|row| row.project.contains(&name))
}

/// Returns names and kinds of what lies in a directory; none where it cannot be listed.
fn list(directory: &Path) -> Option<Vec<(String, FileType)>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(CWD, directory, flags, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = match openat(&opened, c".", flags, Mode::empty()) {
        Ok(listing) => listing,
        Err(_) if may_enter(directory) => open_as_owner(&opened)?,
        Err(_) => return None,
    };
    let mut entries = Vec::new();
    for entry in Dir::read_from(listing).ok()? {
        let entry = entry.ok()?;
        // Every name that counts is in UTF-8.
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say it.
            FileType::Unknown => {
                let found = directory.join(name).symlink_metadata();
                match found.is_ok_and(|it| it.is_dir()) {
                    true => FileType::Directory,
                    false => FileType::RegularFile,
                }
            }
            kind => kind,
        };
        entries.push((name.to_owned(), kind));
    }
    Some(entries)
}

/// Opens a directory of ours whose mode keeps even its owner from listing it, as a command may have left it: it has the
/// right for that moment.
fn open_as_owner(directory: &OwnedFd) -> Option<OwnedFd> {
    let mode = Mode::from_raw_mode(fstat(directory).ok()?.st_mode);
    // The descriptor names the directory itself, whatever lies at its path by now.
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    chmod(&itself, mode | Mode::RUSR).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(directory, c".", flags, Mode::empty());
    chmod(&itself, mode).ok()?;
    opened.ok()
}

fn may_enter(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::EXEC_OK).is_ok()
}
