//! Where in the log telemetry is: kept in a file, so that a later process goes on there.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::calls::Open;
use crate::sessions::Known;

/// Longest file that is read.
const LONGEST: u64 = 64 << 20;

/// Place in the log up to which records were sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Position {
    /// The identity of the log.
    pub(crate) chain: Option<String>,
    /// Number of the first record that no collector has accepted.
    pub(crate) next: u64,
    /// Calls that are not over, by the identity of their decision.
    pub(crate) open: BTreeMap<String, Open>,
    /// Sessions, by user and identity.
    #[serde(default)]
    pub(crate) sessions: Known,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// Held while this process lives: two of them would each send all.
    _lock: File,
}

impl Store {
    /// Opens the file, of which this process is the only user, and reads it; none where it is not there yet.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<(Store, Option<Position>)> {
        let path = &folder.join("position.json");
        let shown = path.display();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make the directory of `{shown}`"))?;
        // Earlier versions had it beside the directory.
        let before = folder.with_extension("json");
        if !path.exists() && before.exists() {
            let moved = std::fs::rename(&before, path);
            moved.with_context(|| format!("cannot move `{}`", before.display()))?;
        }
        let mut options = OpenOptions::new();
        let lock = options.create(true).write(true).truncate(false).mode(0o600);
        let lock = lock.open(path.with_extension("lock"));
        let lock = lock.with_context(|| format!("cannot make the lock beside `{shown}`"))?;
        let is_alone = lock.try_lock().is_ok();
        ensure!(is_alone, "another `stockade telemetry` uses `{shown}`");
        let text = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot open `{shown}`")),
            Ok(file) => {
                let mut text = String::new();
                let read = file.take(LONGEST).read_to_string(&mut text);
                read.with_context(|| format!("cannot read `{shown}`"))?;
                Some(text)
            }
        };
        let position = text.map(|text| serde_json::from_str(&text)).transpose();
        let position =
            position.with_context(|| format!("`{shown}` holds no position; remove it"))?;
        Ok((Store { path: path.to_owned(), _lock: lock }, position))
    }

    /// Replaces the file.
    pub(crate) fn keep(&self, position: &Position) -> anyhow::Result<()> {
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let written = options.create(true).write(true).truncate(true).mode(0o600).open(&new);
        let written = written.and_then(|mut file| {
            file.write_all(serde_json::to_string(position)?.as_bytes())?;
            std::fs::rename(&new, &self.path)
        });
        written.with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_again_by_one_process_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state/telemetry");
        let path = state.join("position.json");
        let (store, none) = Store::open(&state).expect("it opens");
        assert_eq!(none, None);
        let busy = Store::open(&state).expect_err("it is in use");
        assert_eq!(
            busy.to_string(),
            format!("another `stockade telemetry` uses `{}`", path.display())
        );
        let position = Position { chain: Some("c".into()), next: 7, ..Position::default() };
        store.keep(&position).expect("it is written");
        drop(store);
        let (store, found) = Store::open(&state).expect("it opens");
        assert_eq!(found.as_ref(), Some(&position));
        drop(store);
        std::fs::rename(&path, state.with_extension("json")).expect("it is moved");
        assert_eq!(Store::open(&state).expect("it opens").1, Some(position));
        std::fs::write(&path, "{").expect("it is written");
        let broken = Store::open(&state).expect_err("not a position");
        assert_eq!(
            broken.to_string(),
            format!("`{}` holds no position; remove it", path.display())
        );
    }
}
