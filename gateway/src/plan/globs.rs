//! Expands the patterns of file lists: `*`, `?` and `[...]` within a name, `**` across directories.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stockade_sandbox::{Pattern, Wild};

/// Most paths that one pattern may stand for.
const MAX_PATHS: usize = 4_096;
/// Most directories that are looked through for one pattern.
const MAX_DIRECTORIES: usize = 20_000;

/// What counts of a directory that cannot be listed, although a command could reach what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// All of it, for what refuses.
    Whole,
    /// Nothing, for what permits.
    Nothing,
}

/// How far a pattern was looked for.
#[derive(Debug, Default)]
struct Search {
    looked: usize,
    unlisted: Vec<PathBuf>,
}

/// Returns the existing paths that an absolute pattern stands for; a path without wildcard as it is.
pub(super) fn expand(pattern: &str, unlisted: Unlisted) -> Result<Vec<PathBuf>, &'static str> {
    if !Pattern::is(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let segments: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut search = Search::default();
    let mut paths = vec![PathBuf::from("/")];
    for segment in segments {
        let mut next = Vec::new();
        for path in &paths {
            match segment {
                "**" => descend(path, &mut next, &mut search)?,
                plain if !Pattern::is(plain) => next.push(path.join(plain)),
                wild => match Wild::parse(wild)? {
                    wild if let Some(name) = wild.name() => next.push(path.join(name)),
                    wild => matching(path, &wild, &mut next, &mut search)?,
                },
            }
            if next.len() > MAX_DIRECTORIES {
                return Err("it stands for too many paths");
            }
        }
        paths = next;
    }
    paths.retain(|path| path.symlink_metadata().is_ok());
    match unlisted {
        Unlisted::Whole => paths.extend(search.unlisted),
        Unlisted::Nothing => {}
    }
    paths.sort();
    paths.dedup();
    if paths.len() > MAX_PATHS {
        return Err("it stands for too many paths");
    }
    Ok(paths)
}

fn matching(
    directory: &Path,
    wild: &Wild,
    next: &mut Vec<PathBuf>,
    search: &mut Search,
) -> Result<(), &'static str> {
    for entry in entries(directory, search)? {
        if entry.file_name().is_some_and(|name| wild.fits(&name.to_string_lossy())) {
            next.push(entry);
        }
    }
    Ok(())
}

/// Adds `directory` and every directory below; links are not followed.
fn descend(
    directory: &Path,
    next: &mut Vec<PathBuf>,
    search: &mut Search,
) -> Result<(), &'static str> {
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in entries(&directory, search)? {
            if entry.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                waiting.push(entry);
            }
        }
        next.push(directory);
    }
    Ok(())
}

fn entries(directory: &Path, search: &mut Search) -> Result<Vec<PathBuf>, &'static str> {
    search.looked += 1;
    if search.looked > MAX_DIRECTORIES {
        return Err("too many directories must be looked through");
    }
    let found = std::fs::read_dir(directory);
    if let Err(error) = &found
        && error.kind() == io::ErrorKind::PermissionDenied
        && can_be_entered(directory)
    {
        search.unlisted.push(directory.to_path_buf());
    }
    Ok(found.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect())
}

/// Says whether a command could reach what `directory` holds: by its name, or after it took the rights.
fn can_be_entered(directory: &Path) -> bool {
    let is_own = |uid| uid == rustix::process::geteuid().as_raw();
    directory.metadata().is_ok_and(|found| is_own(found.uid()))
        || rustix::fs::access(directory, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn patterns_stand_for_what_exists() {
        let folder = Folder::new();
        for name in ["a/.env", "a/b/.env", "a/b/x.pem", "c/.env.local", "c/y.pem"] {
            folder.write(name, "");
        }
        let found = |pattern: &str| -> Vec<String> {
            let root = folder.path();
            let pattern = format!("{}/{pattern}", root.display());
            let paths = expand(&pattern, Unlisted::Nothing).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            paths.iter().map(name).collect()
        };
        assert_eq!(found("**/.env"), ["a/.env", "a/b/.env"]);
        assert_eq!(found("*/.env*"), ["a/.env", "c/.env.local"]);
        assert_eq!(found("**/[xy].pem"), ["a/b/x.pem", "c/y.pem"]);
        assert_eq!(found("a/?/.env"), ["a/b/.env"]);
        assert_eq!(found("missing"), ["missing"]);
        assert_eq!(found("[a]/[b]/x.pem"), ["a/b/x.pem"]);
    }
}
