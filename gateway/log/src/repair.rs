//! Making again what follows from the lines: tiles, the cache of the tree, seals, and a `checkpoint` or
//! `head` of which the other is still there. Nothing that was recorded is changed, and no loss is accepted:
//! lines that do not extend what was signed are refused as at every open.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Error, Scene};
use super::files::{self, Durability};
use super::hash::{Hash, sha256};
use super::journal::Journal;
use super::references;
use super::{GatewayMode, Places, Rotation, writer};

/// Folders below the log that are looked through; tiles of any number lie in fewer.
const FOLDERS: usize = 1 << 16;

/// Makes derived files again and returns the paths of those that were missing or different.
pub fn repair(places: &Places) -> Result<Vec<PathBuf>, Error> {
    let scene = Scene { directory: places.directory.clone() };
    let failed = scene.read(&places.directory);
    if files::segments(&places.directory).map_err(&failed)?.is_empty() {
        return Err(scene.damaged("it has no segment from which anything could be made again"));
    }
    let mut journal = writer::begin(places, GatewayMode::Embedded, Rotation::DEFAULT)?;
    let before = derived(places).map_err(&failed)?;
    let done = made_again(&mut journal);
    journal.unlock();
    done?;
    let after = derived(places).map_err(&failed)?;
    let changed = after.into_iter().filter(|(path, hash)| before.get(path) != Some(hash));
    Ok(changed.map(|(path, _)| path).collect())
}

/// Reads the whole log as an open without any cache does, which stores each tile and seal on the way.
fn made_again(journal: &mut Journal) -> Result<(), Error> {
    let (checkpoint, head) = (journal.path("checkpoint"), journal.places.state.join("head"));
    let scene = journal.scene.clone();
    let present = |path: &Path| files::read(path).map_err(scene.write("read", path));
    let copied = match (present(&checkpoint)?, present(&head)?) {
        (None, Some(note)) => {
            files::replace(&checkpoint, &note, Durability::Synced)
                .map_err(scene.write("write", &checkpoint))?;
            true
        }
        (Some(_), Some(_)) | (Some(_), None) | (None, None) => false,
    };
    let loaded = forget(&journal.places.state.join("edge"))
        .map_err(scene.write("remove", &journal.places.state.join("edge")))
        .and_then(|()| journal.load());
    let found = match loaded {
        Ok(found) => found,
        Err(error) => {
            if copied {
                // The log stays as it was found; a copy that stays behind says nothing untrue either.
                let _ = fs::remove_file(&checkpoint);
            }
            return Err(error);
        }
    };
    if found.is_empty() {
        if present(&head)?.is_none() {
            journal.cover_again()?;
        }
    } else {
        journal.append(&found)?;
    }
    journal.save_edge();
    let folder = journal.places.state.join("references");
    references::store_missing(&journal.places).map_err(scene.write("write", &folder))
}

fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the digest of each file that follows from the lines.
fn derived(places: &Places) -> io::Result<BTreeMap<PathBuf, Hash>> {
    let mut found = BTreeMap::new();
    let mut take = |path: PathBuf| -> io::Result<()> {
        if let Some(content) = files::read(&path)? {
            found.insert(path, sha256(&[&content]));
        }
        Ok(())
    };
    for name in ["head", "edge"] {
        take(places.state.join(name))?;
    }
    take(places.directory.join("checkpoint"))?;
    for number in files::segments(&places.directory)? {
        take(places.directory.join(files::seal_name(number)))?;
    }
    let mut folders = vec![places.directory.join("tile")];
    let mut seen = 0;
    while let (Some(folder), true) = (folders.pop(), seen < FOLDERS) {
        seen += 1;
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => take(entry.path())?,
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Log;
    use crate::tests::sample::{Scratch, decision, result};

    #[tokio::test]
    async fn what_follows_from_the_lines_is_made_again() {
        let scratch = Scratch::new("repair");
        let rotation = Rotation { bytes: 1 << 20, records: Some(100) };
        let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
        for _ in 0..140 {
            let receipt = log.record(decision("true")).await.unwrap();
            log.record(result(&receipt.id)).await.unwrap();
        }
        drop(log);
        let directory = &scratch.places.directory;
        assert_eq!(repair(&scratch.places), Ok(Vec::new()));
        let tile = directory.join("tile/0/000");
        let lost = [directory.join("00000001.seal"), directory.join("checkpoint"), tile.clone()];
        for path in &lost {
            fs::remove_file(path).unwrap();
        }
        assert!(Log::open(&scratch.places, GatewayMode::Embedded).is_err());
        assert_eq!(repair(&scratch.places), Ok(lost.to_vec()));
        fs::write(&tile, [0; 8192]).unwrap();
        assert_eq!(repair(&scratch.places), Ok(vec![tile]));
        fs::remove_file(scratch.places.state.join("head")).unwrap();
        assert_eq!(repair(&scratch.places), Ok(vec![scratch.places.state.join("head")]));
        assert_eq!(crate::tests::crash::check(&scratch).exit_code(), 0);
    }

    #[tokio::test]
    async fn a_loss_stays_a_loss_and_nothing_is_touched() {
        let scratch = Scratch::new("loss");
        let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
        log.record(decision("true")).await.unwrap();
        drop(log);
        let directory = &scratch.places.directory;
        let segment = directory.join("00000001.jsonl");
        let text = fs::read_to_string(&segment).unwrap();
        let first = text.lines().next().unwrap();
        fs::write(&segment, format!("{first}\n")).unwrap();
        fs::remove_file(directory.join("checkpoint")).unwrap();
        assert!(matches!(repair(&scratch.places), Err(Error::Damaged { .. })));
        assert!(!directory.join("checkpoint").exists());
        fs::remove_file(&segment).unwrap();
        assert!(matches!(repair(&scratch.places), Err(Error::Damaged { .. })));
        assert!(!segment.exists());
    }
}
