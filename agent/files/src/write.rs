//! Write: a whole file, and the guards that every change of a file passes.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use crate::call::{Answer, Facts, Known, absolute};
use crate::error::{Error, refuse};
use crate::keep::{Before, Keep};
use crate::patch;
use crate::read::{Found, load};
use crate::restore::{Restore, restore};
use crate::text::{Encoding, Text, digest};

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    file_path: String,
    #[serde(default)]
    content: String,
    /// Instead of a content: the file becomes again what it was.
    #[serde(default)]
    restore: Option<Restore>,
}

pub(crate) fn write(
    input: &Input,
    cwd: &Path,
    (known, keep): (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    if let Some(wanted) = &input.restore {
        return restore(&input.file_path, wanted, cwd, keep);
    }
    let path = absolute(cwd, &input.file_path)?;
    let found = present(&path)?;
    let (before, bytes, verb) = match &found {
        Some(found) => {
            let text = Text::decode(&found.bytes);
            is_known(found, known)?;
            let lines = text.as_ref().map_or(0, |text| text.text.lines().count() as u64);
            if lines > 0 && !covers(known, 1, lines) {
                return refuse(format!(
                    "Only a part of {} was read. Read it whole before it is replaced, or change a part with Edit.",
                    path.display()
                ));
            }
            let bytes = text.as_ref().and_then(|text| text.encode(&input.content));
            let bytes = bytes.unwrap_or_else(|| input.content.clone().into_bytes());
            (text.map(|text| text.text), bytes, "Replaced")
        }
        None => (None, input.content.clone().into_bytes(), "Created"),
    };
    let old = found.as_ref().map(Found::before);
    let real = replace(&path, (old.as_ref(), &bytes), keep)?;
    let kind = if verb == "Created" { "create" } else { "update" };
    let result = json!({
        "type": kind, "filePath": input.file_path, "content": input.content, "originalFile": before,
        "structuredPatch": before.as_deref().map(|before| patch::hunks(before, &input.content)).unwrap_or_default(),
    });
    let mut answer = Answer::text(format!("{verb} {}.", path.display()), result);
    answer.facts = Some(all_known(real, &bytes));
    Ok(answer)
}

/// Returns a file, or none where there is nothing.
pub(crate) fn present(path: &Path) -> Result<Option<Found>, Error> {
    match load(path) {
        Ok(found) => Ok(Some(found)),
        // A link to nothing would be replaced without anybody having seen it.
        Err(Error::Missing(_)) if path.symlink_metadata().is_ok() => {
            refuse(format!("{} is a symbolic link to nothing.", path.display()))
        }
        Err(Error::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

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

/// Returns the form of a new file.
pub(crate) const NEW: Text =
    Text { text: String::new(), encoding: Encoding::Utf8 { mark: false }, crlf: false };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, known, text};
    use serde_json::Value;

    #[test]
    fn a_new_file_is_made_with_its_directories() {
        let folder = Folder::new();
        let answer = folder.call("Write", json!({ "file_path": "a/b/c.txt", "content": "hi\n" }));
        assert_eq!(answer.error, None);
        assert_eq!(fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(), "hi\n");
        assert_eq!(answer.result["type"], "create");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_only_after_it_was_read_and_as_it_was_read() {
        let folder = Folder::new();
        let path = folder.write("a.sh", "old\r\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let input = json!({ "file_path": "a.sh", "content": "new\n" });
        let unread = folder.call("Write", input.clone());
        assert!(text(&unread).contains("has not been read"));
        let known_then = known(&folder.call("Read", json!({ "file_path": "a.sh" })));
        fs::write(&path, "other\r\n").unwrap();
        let changed = folder.call_knowing("Write", input.clone(), known_then);
        assert!(text(&changed).contains("changed since it was read"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "other\r\n");
        let now = known(&folder.call("Read", json!({ "file_path": "a.sh" })));
        let done = folder.call_knowing("Write", input, now);
        assert_eq!(done.error, None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\r\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o750);
    }

    #[test]
    fn a_part_is_not_enough_to_replace_the_whole() {
        let folder = Folder::new();
        folder.write("a.txt", "1\n2\n3\n");
        let part = folder.call("Read", json!({ "file_path": "a.txt", "limit": 2 }));
        let input = json!({ "file_path": "a.txt", "content": "" });
        let refused = folder.call_knowing("Write", input.clone(), known(&part));
        assert!(text(&refused).contains("Only a part"), "{}", text(&refused));
        let mut both = known(&part);
        both["ranges"] = json!([[3, 3], [1, 2]]);
        assert_eq!(folder.call_knowing("Write", input, both).error, None);
        assert_eq!(Value::Null, folder.call("LS", json!({"path": "."})).result["error"]);
    }

    #[test]
    fn a_link_keeps_leading_to_its_file() {
        let folder = Folder::new();
        let path = folder.write("real.txt", "old\n");
        std::os::unix::fs::symlink(&path, folder.path().join("link.txt")).unwrap();
        let read = folder.call("Read", json!({ "file_path": "link.txt" }));
        let input = json!({ "file_path": "link.txt", "content": "new\n" });
        assert_eq!(folder.call_knowing("Write", input, known(&read)).error, None);
        assert!(folder.path().join("link.txt").is_symlink());
        assert_eq!(fs::read_to_string(path).unwrap(), "new\n");
    }
}
