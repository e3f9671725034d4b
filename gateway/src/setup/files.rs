//! Reads and writes the files of agents: whole or not at all, with what they held before kept beside them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use super::Change;
use super::folders::Folders;
use crate::protocol::errors::{Code, Failure};

/// Largest file that is changed, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Returns what a file holds; none when it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let opened = match File::options().read(true).custom_flags(nonblocking()).open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match path.symlink_metadata() {
                Ok(_) => Err(unreadable(path, "it is a broken symbolic link")),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(unreadable(path, &error.to_string())),
    };
    match opened.metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(unreadable(path, "it is not a regular file")),
        Err(error) => return Err(unreadable(path, &error.to_string())),
    }
    let mut text = String::new();
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(path, &error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(unreadable(path, "it is too large"));
    }
    Ok(Some(text))
}

/// Opening a FIFO must not wait for its other end.
fn nonblocking() -> i32 {
    rustix::fs::OFlags::NONBLOCK.bits().cast_signed()
}

fn unreadable(path: &Path, reason: &str) -> Failure {
    let message = format!("`{}` cannot be read: {reason}; nothing was written", path.display());
    Failure::new(Code::InvalidRequest, message, "correct the file and try again")
}

/// Where what a file held before set-up is kept.
fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".before-stockade");
    path.with_file_name(name)
}

/// Returns what the file held before set-up, if that was kept.
pub(super) fn backup(path: &Path) -> Result<Option<String>, Failure> {
    // Beside the file itself, not beside a link to it.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    read(&backup_path(&path))
}

/// Makes a change.
pub(super) fn apply(change: &Change, folders: &mut Folders) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let message = format!("`{}` cannot be written: {error}", change.path.display());
        Failure::new(Code::InvalidRequest, message, "check the owner of the file and its directory")
    };
    // Another set-up, or the agent, may have been here since the change was shown.
    let now = read(&change.path)?;
    if now == change.after {
        return Ok(());
    }
    if now != change.before {
        return Err(unreadable(&change.path, "it changed meanwhile"));
    }
    // A link to the real file stays a link: people keep such files elsewhere.
    let path = fs::canonicalize(&change.path).unwrap_or_else(|_| change.path.clone());
    let held = path.metadata().ok();
    if held.as_ref().is_some_and(|held| held.permissions().mode() & 0o200 == 0) {
        return Err(unreadable(&change.path, "it cannot be written"));
    }
    let backup = backup_path(&path);
    let Some(after) = &change.after else {
        fs::remove_file(&path).map_err(failed)?;
        return forget(&backup).map_err(failed);
    };
    if let Some(folder) = path.parent() {
        folders.make(folder).map_err(failed)?;
    }
    let restored = read(&backup)?.as_ref() == Some(after);
    let keeps = !restored && (change.is_first || !backup.exists());
    if let Some(before) = change.before.as_ref().filter(|_| keeps) {
        let owner = held.as_ref().map(|held| (held.uid(), held.gid()));
        write(&backup, before, 0o600, owner).map_err(failed)?;
    }
    let mode = held.as_ref().map_or(change.mode, |held| held.permissions().mode() & 0o777);
    let owner = held.as_ref().map(|held| (held.uid(), held.gid()));
    write(&path, after, mode, owner).map_err(failed)?;
    if restored { forget(&backup).map_err(failed) } else { Ok(()) }
}

fn forget(backup: &Path) -> io::Result<()> {
    match fs::remove_file(backup) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file whole or not at all, for this owner and group if one is named.
pub(super) fn write(
    path: &Path,
    text: &str,
    mode: u32,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let new = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let opened = File::options().write(true).create_new(true).mode(0o600).open(&new);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        let made = file.metadata()?;
        if let Some((uid, gid)) = owner.filter(|owner| *owner != (made.uid(), made.gid())) {
            fchown(&file, Some(uid), Some(gid))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new); // the error that counts is the first
    }
    renamed
}
