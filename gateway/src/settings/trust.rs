//! Which settings files of a project this person has trusted, by their content.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::places::{hex, private_directory};

/// Says whether exactly this content of `file` was trusted.
pub(crate) fn is_trusted(state: &Path, file: &Path, text: &[u8]) -> bool {
    let mark = fs::read_to_string(mark(state, file)).unwrap_or_default();
    mark.trim() == hex(&Sha256::digest(text))
}

/// Trusts this content of `file`; content that it held before is trusted no more.
pub(crate) fn trust(state: &Path, file: &Path, text: &[u8]) -> io::Result<()> {
    let mark = mark(state, file);
    private_directory(&state.join("trust"))?;
    let new = mark.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(opened, "{}", hex(&Sha256::digest(text)))?;
    opened.sync_all()?;
    fs::rename(&new, &mark)
}

fn mark(state: &Path, file: &Path) -> PathBuf {
    state.join("trust").join(hex(&Sha256::digest(file.as_os_str().as_encoded_bytes())))
}

/// Returns the git directory of the repository at `project`: its `.git`, or where a `.git` file points when
/// that place points back. A pointer alone is not believed: anyone who made the project can write one.
pub(crate) fn git_directory(project: &Path) -> Option<PathBuf> {
    let entry = project.join(".git");
    let found = entry.symlink_metadata().ok()?;
    if found.is_dir() {
        return Some(entry);
    }
    let text = small(&entry)?;
    let target = text.strip_prefix("gitdir: ")?.trim_end_matches('\n');
    let directory = project.join(target).canonicalize().ok().filter(|path| path.is_dir())?;
    // A linked worktree has the path of the `.git` file; a submodule has the path of its files.
    let back = small(&directory.join("gitdir")).map(|text| directory.join(text.trim_end()));
    let submodule = || {
        let config = small(&directory.join("config"))?;
        let value = config.lines().find_map(|line| line.trim().strip_prefix("worktree = "))?;
        Some(directory.join(value).join(".git"))
    };
    let back = back.or_else(submodule)?.canonicalize().ok()?;
    (Some(back) == entry.canonicalize().ok()).then_some(directory)
}

/// Returns the directory that all worktrees of the repository at `project` share.
pub(crate) fn common_directory(project: &Path) -> Option<PathBuf> {
    let directory = git_directory(project)?;
    match small(&directory.join("commondir")) {
        None => Some(directory),
        Some(common) => {
            let common = directory.join(common.trim_end()).canonicalize().ok()?;
            // The worktree lies in the repository that it names.
            directory.starts_with(common.join("worktrees")).then_some(common)
        }
    }
}

/// Returns the text of a small plain file.
fn small(file: &Path) -> Option<String> {
    let found = file.symlink_metadata().ok()?;
    (found.is_file() && found.len() <= 1 << 16).then(|| fs::read_to_string(file).ok())?
}
