//! A change of a file passes guards, and puts new content in the place of the old.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::answer::{Facts, Known};
use crate::error::{Error, refuse};
use crate::found::Found;
use crate::keep::{Before, Keep};
use crate::text::{Encoding, Text, digest};

/// Returns the form of a new file.
pub(crate) const NEW: Text =
    Text { text: String::new(), encoding: Encoding::Utf8 { mark: false }, crlf: false };

/// How a refusal ends that is about a file that changed since it was read.
pub const STALE: &str = "changed since it was read. Read it again.";

/// Refuses a file that the session has not read, or that changed since.
pub(crate) fn is_known(found: &Found, known: Option<&Known>) -> Result<(), Error> {
    let path = found.path.display();
    match known {
        None => refuse(format!("{path} has not been read in this session. Read it first.")),
        Some(known) if known.digest != digest(&found.bytes) => refuse(format!("{path} {STALE}")),
        Some(_) => Ok(()),
    }
}

/// Says whether lines `first` to `last` were read.
pub(crate) fn covers(known: Option<&Known>, first: u64, last: u64) -> bool {
    let mut ranges: Vec<(u64, u64)> = known.map(|known| known.ranges.clone()).unwrap_or_default();
    ranges.sort_unstable();
    let mut reached = first;
    for (from, to) in ranges {
        if from <= reached && to >= reached {
            reached = to.saturating_add(1);
        }
    }
    reached > last
}

/// Returns what a session knows of a file that it has just written.
pub(crate) fn all_known(path: PathBuf, bytes: &[u8]) -> Facts {
    Facts { path, digest: digest(bytes), ranges: vec![(1, u64::from(u32::MAX))] }
}

/// Puts `bytes` in the place of a file in one step, with its mode and owner; makes a new file, and its directories. The
/// content from before is kept where the gateway wants that. Returns the real path.
pub(crate) fn replace(
    path: &Path,
    (before, bytes): (Option<&Before<'_>>, &[u8]),
    keep: Option<&Keep>,
) -> Result<PathBuf, Error> {
    let failed = |error: std::io::Error| Error::of("Writing", path, &error);
    let old = path.metadata().ok();
    let real = match &old {
        Some(_) => path.canonicalize().map_err(failed)?,
        None => path.to_owned(),
    };
    let Some(folder) = real.parent() else { return refuse("the root directory is not a file") };
    if old.is_none() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if let Some(keep) = keep {
        keep.change(&real, before, Some(&digest(bytes)))?;
    }
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}.stockade", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        file.write_all(bytes)?;
        if let Some(old) = &old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                // Without the right to give a file away the new one belongs to the writer, as with every editor.
                let _ = chown(&beside, Some(old.uid()), Some(old.gid()));
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        file.sync_all()?;
        fs::rename(&beside, &real)
    })();
    match written {
        Ok(()) => {}
        // Only the file itself may be written, not its directory.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem && old.is_some() => {
            overwrite(&real, bytes).map_err(failed)?;
        }
        Err(error) => {
            let _ = fs::remove_file(&beside); // it may not have come to be
            return Err(failed(error));
        }
    }
    Ok(real.canonicalize().unwrap_or(real))
}

/// Writes `bytes` over the content of a file. What was there comes back if that fails, as on a full disk.
fn overwrite(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut before = Vec::new();
    file.read_to_end(&mut before)?;
    let mut put = |bytes: &[u8]| {
        file.rewind()?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    put(bytes).inspect_err(|_| drop(put(&before)))
}
