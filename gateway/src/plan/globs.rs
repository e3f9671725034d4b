//! Expands the patterns of file lists: `*`, `?` and `[...]` within a name, `**` across directories.

use std::path::{Path, PathBuf};

use stockade_sandbox::{Pattern, Wild};

/// Most paths that one pattern may stand for.
const MAX_PATHS: usize = 4_096;
/// Most directories that are looked through for one pattern.
const MAX_DIRECTORIES: usize = 20_000;

/// Returns the existing paths that an absolute pattern stands for; a path without wildcard as it is.
pub(super) fn expand(pattern: &str) -> Result<Vec<PathBuf>, &'static str> {
    if !Pattern::is(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let segments: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut looked = 0;
    let mut paths = vec![PathBuf::from("/")];
    for segment in segments {
        let mut next = Vec::new();
        for path in &paths {
            match segment {
                "**" => descend(path, &mut next, &mut looked)?,
                plain if !Pattern::is(plain) => next.push(path.join(plain)),
                wild => matching(path, wild, &mut next, &mut looked)?,
            }
            if next.len() > MAX_DIRECTORIES {
                return Err("it stands for too many paths");
            }
        }
        paths = next;
    }
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths.sort();
    paths.dedup();
    if paths.len() > MAX_PATHS {
        return Err("it stands for too many paths");
    }
    Ok(paths)
}

fn matching(
    directory: &Path,
    wild: &str,
    next: &mut Vec<PathBuf>,
    looked: &mut usize,
) -> Result<(), &'static str> {
    let wild = Wild::parse(wild)?;
    for entry in entries(directory, looked)? {
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
    looked: &mut usize,
) -> Result<(), &'static str> {
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in entries(&directory, looked)? {
            if entry.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                waiting.push(entry);
            }
        }
        next.push(directory);
    }
    Ok(())
}

fn entries(directory: &Path, looked: &mut usize) -> Result<Vec<PathBuf>, &'static str> {
    *looked += 1;
    if *looked > MAX_DIRECTORIES {
        return Err("too many directories must be looked through");
    }
    // What cannot be listed here cannot be listed by the command either.
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
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
            let paths = expand(&format!("{}/{pattern}", root.display())).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            paths.iter().map(name).collect()
        };
        assert_eq!(found("**/.env"), ["a/.env", "a/b/.env"]);
        assert_eq!(found("*/.env*"), ["a/.env", "c/.env.local"]);
        assert_eq!(found("**/[xy].pem"), ["a/b/x.pem", "c/y.pem"]);
        assert_eq!(found("a/?/.env"), ["a/b/.env"]);
        assert_eq!(found("missing"), ["missing"]);
    }
}
