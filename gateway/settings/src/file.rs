//! Reads one settings file so that nothing that stands in its place can hold the gateway up.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use stockade_wire::errors::{Code, Failure};

/// Largest settings file in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Mark that some editors put in front of UTF-8 text; it is not part of the settings.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Most drop-in files in a managed directory.
const MAX_DROP_INS: usize = 1_000;

/// Handling of a file that is itself a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Read what it points to: the person's own files.
    Follow,
    /// Refuse: a project must not choose what the gateway reads.
    Refuse,
}

/// Returns the content of a regular file, or none if nothing is there.
pub(super) fn read(path: &Path, links: Links) -> Result<Option<Vec<u8>>, Failure> {
    // Without O_NONBLOCK the open of a FIFO would wait for a writer.
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::NOENT) if !is_blocked(path) => return Ok(None),
        Err(rustix::io::Errno::NOTDIR) if links == Links::Follow && !is_blocked(path) => {
            return Ok(None);
        }
        Err(rustix::io::Errno::LOOP) if links == Links::Refuse => {
            return Err(unreadable(path, "it is a symbolic link"));
        }
        Err(rustix::io::Errno::LOOP) => {
            return Err(unreadable(path, "its symbolic links form a loop"));
        }
        Err(rustix::io::Errno::NOENT) => {
            return Err(unreadable(path, "a symbolic link there is broken"));
        }
        Err(rustix::io::Errno::NOTDIR) => {
            return Err(unreadable(path, "its folder is not a directory"));
        }
        Err(rustix::io::Errno::NXIO) => return Err(unreadable(path, "it is a socket")),
        Err(error) => return Err(unreadable(path, &io::Error::from(error).to_string())),
    };
    let found = file.metadata().map_err(|error| unreadable(path, &error.to_string()))?;
    if !found.is_file() {
        let kind = found.file_type();
        return Err(unreadable(
            path,
            match () {
                () if kind.is_dir() => "it is a directory",
                () if kind.is_fifo() => "it is a FIFO",
                () if kind.is_socket() => "it is a socket",
                () => "it is a device",
            },
        ));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| unreadable(path, &error.to_string()))?;
    if found.len().max(text.len() as u64) > MAX_BYTES {
        let message = format!(
            "the settings file `{}` is rejected: it is larger than {MAX_BYTES} bytes",
            path.display()
        );
        return Err(Failure::new(Code::SettingsRejected, message, "make it smaller"));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(Some(text))
}

/// Says whether something stands where the file or its folder would be: a link to nothing, or a folder that is
/// no directory. Somebody meant settings to be there.
fn is_blocked(path: &Path) -> bool {
    let dangling = |place: &Path| place.symlink_metadata().is_ok() && place.metadata().is_err();
    let folder = path.parent().unwrap_or(path);
    if is_missing(folder) {
        return false;
    }
    dangling(path) || dangling(folder) || folder.metadata().is_ok_and(|found| !found.is_dir())
}

/// Says whether nothing at all stands at `place`, not even a link that leads nowhere.
pub(super) fn is_missing(place: &Path) -> bool {
    place.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Refuses a folder of the project that is a symbolic link: a project must not choose what the gateway reads.
pub(super) fn check_folder(folder: &Path) -> Result<(), Failure> {
    match folder.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            Err(unreadable(folder, "a folder of settings in a project must not be a symbolic link"))
        }
        Ok(_) | Err(_) => Ok(()), // what else stands there shows when the file is opened
    }
}

/// Returns the drop-in files of `directory` in alphabetical order; hidden files and other endings do not count.
pub(super) fn drop_ins(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(directory, &error.to_string())),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(directory, &error.to_string()))?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.ends_with(b".json") && !name.starts_with(b".") {
            files.push(path);
        }
        if files.len() > MAX_DROP_INS {
            return Err(unreadable(directory, "it contains too many files"));
        }
    }
    files.sort();
    Ok(files)
}

/// Checks that `path` and every directory above belongs to `owner` and that nobody else can write it.
pub(super) fn check_owner(path: &Path, owner: u32) -> Result<(), Failure> {
    for place in path.ancestors() {
        let found =
            place.symlink_metadata().map_err(|error| unreadable(place, &error.to_string()))?;
        let reason = if found.uid() != owner && found.uid() != 0 {
            format!("it belongs to uid {}", found.uid())
        } else if found.is_symlink() {
            "it is a symbolic link".to_string()
        } else if found.mode() & 0o022 != 0 && !(found.is_dir() && found.mode() & 0o1000 != 0) {
            "other users can write it".to_string()
        } else {
            continue;
        };
        let message = format!(
            "managed settings in `{}` are rejected: `{}`: {reason}",
            path.display(),
            place.display()
        );
        let help =
            "the file and each directory above belong to root and are writable by root alone";
        return Err(Failure::new(Code::SettingsRejected, message, help));
    }
    Ok(())
}

fn unreadable(path: &Path, reason: &str) -> Failure {
    let message = format!("the settings file `{}` cannot be read: {reason}", path.display());
    let help = "correct or remove it; nothing runs until then";
    Failure::new(Code::SettingsUnreadable, message, help)
}
