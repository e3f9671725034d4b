//! Keeps the content of a file from before a call changed it, so that the change can be taken back.
//!
//! The gateway names a folder of the session, which neither the agent nor a command can write. Contents lie there under
//! their digest, and `changes.jsonl` has one line for each change, written before the file itself is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, refuse};
use crate::text::digest;

/// Most bytes of kept contents; beyond that the oldest go.
const MOST: u64 = 1 << 30;
/// Folder of the contents.
const CONTENTS: &str = "contents";
/// The list of changes, and the one of changes by commands, which the keeper of the session writes.
const CHANGES: &str = "changes.jsonl";
const OF_COMMANDS: &str = "commands.jsonl";

/// Where a call keeps what it changes.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Keep {
    folder: PathBuf,
    /// Identity of the call.
    #[serde(default)]
    call: Option<String>,
}

/// A file as it was: its bytes and its mode.
pub(crate) struct Before<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) mode: u32,
}

impl Keep {
    /// Keeps contents in a folder of a session.
    pub(crate) fn at(folder: PathBuf) -> Keep {
        Keep { folder, call: None }
    }

    /// Keeps what a file held, and notes that it will hold bytes with the digest `after`; none will be no file.
    pub(crate) fn change(
        &self,
        path: &Path,
        before: Option<&Before<'_>>,
        after: Option<&str>,
    ) -> Result<(), Error> {
        self.kept(path, before, after).map_err(|error| Error::System {
            action: "Keeping the content of",
            path: path.to_owned(),
            reason: format!("{error}. Nothing was changed. Make room in the state directory, or set `\"fileCheckpointingEnabled\": false`."),
        })
    }

    fn kept(
        &self,
        path: &Path,
        before: Option<&Before<'_>>,
        after: Option<&str>,
    ) -> io::Result<()> {
        let mut digest_before = None;
        if let Some(before) = before {
            let name = digest(before.bytes);
            self.content(&name, before.bytes)?;
            digest_before = Some(name);
        }
        // A path that is not UTF-8 could not be named when it is taken back.
        let path = path.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
        let line = json!({
            "call": self.call, "path": path, "before": digest_before,
            "mode": before.map(|before| before.mode & 0o7777), "after": after,
        });
        let list = self.folder.join(CHANGES);
        let mut list = OpenOptions::new().create(true).append(true).mode(0o600).open(list)?;
        list.write_all(format!("{line}\n").as_bytes())?;
        list.sync_data()
    }

    pub(crate) fn content(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(CONTENTS);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(name);
        if path.exists() {
            // The content is needed again, so it is no longer among the oldest.
            return OpenOptions::new().append(true).open(&path)?.set_modified(SystemTime::now());
        }
        let new = folder.join(format!("{name}.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        if let Err(error) = written.and_then(|()| fs::rename(&new, &path)) {
            let _ = fs::remove_file(&new); // the folder goes with the session
            return Err(error);
        }
        self.make_room(&folder, &path)
    }

    /// Removes the oldest contents beyond the limit, but never the one that was just kept.
    fn make_room(&self, folder: &Path, newest: &Path) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.flatten();
        let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let found = entry.metadata().ok()?;
                Some((found.modified().ok()?, found.len(), entry.path()))
            })
            .collect();
        let mut bytes: u64 = all.iter().map(|(_, length, _)| length).sum();
        if bytes <= MOST {
            return Ok(());
        }
        all.sort();
        for (_, length, path) in all.iter().filter(|(_, _, path)| path != newest) {
            if bytes <= MOST {
                break;
            }
            fs::remove_file(path)?;
            bytes = bytes.saturating_sub(*length);
        }
        Ok(())
    }

    /// Says whether a change is listed before which a file held this content with this mode; without a digest, before which
    /// there was none.
    pub(crate) fn knows(&self, path: &Path, before: Option<&str>, mode: Option<u32>) -> bool {
        let is_it = |line: &str| {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return false };
            let text = |key: &str| line.get(key).and_then(serde_json::Value::as_str);
            let was = line.get("mode").and_then(serde_json::Value::as_u64);
            text("path") == path.to_str()
                && text("before") == before
                && (before.is_none() || was == mode.map(u64::from))
        };
        let lists = [CHANGES, OF_COMMANDS].map(|name| fs::read_to_string(self.folder.join(name)));
        lists.iter().flatten().any(|list| list.lines().any(is_it))
    }

    /// Returns a kept content.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let is_name = name.len() == 64 && name.bytes().all(|it| it.is_ascii_hexdigit());
        let bytes = fs::read(self.folder.join(CONTENTS).join(if is_name { name } else { "-" }));
        match bytes {
            Ok(bytes) if digest(&bytes) == name => Ok(bytes),
            Ok(_) | Err(_) => refuse("the content from before is not kept any more"),
        }
    }
}
