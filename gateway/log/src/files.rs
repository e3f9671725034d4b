//! The files of the log: folders that can be trusted, names that are replaced whole, and the lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::error::{Error, Scene};

/// Makes `directory` (0700) and its parents when absent, and checks that it is a real folder of this
/// user below folders that no one else can write.
pub(super) fn folder(scene: &Scene, directory: &Path) -> Result<(), Error> {
    let failed = scene.write("create", directory);
    match fs::symlink_metadata(directory) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(&failed)?;
            if let Some(parent) = directory.parent() {
                sync_folder(parent).map_err(&failed)?;
            }
        }
        Err(error) => return Err(failed(error)),
    }
    trusted(scene, directory)
}

/// Checks that `directory` is a real folder of this user below folders that no one else can write.
fn trusted(scene: &Scene, directory: &Path) -> Result<(), Error> {
    let failed = scene.write("use", directory);
    let found = fs::symlink_metadata(directory).map_err(&failed)?;
    if !found.is_dir() {
        return Err(failed(io::Error::from_raw_os_error(Errno::NOTDIR.raw_os_error())));
    }
    let uid = rustix::process::geteuid().as_raw();
    if found.uid() != uid {
        return Err(scene.damaged(format!(
            "`{}` belongs to uid {}, not to uid {uid}",
            directory.display(),
            found.uid()
        )));
    }
    if found.mode() & 0o022 != 0 {
        return Err(scene.damaged(format!("others can write `{}`", directory.display())));
    }
    let real = fs::canonicalize(directory).map_err(&failed)?;
    for above in real.ancestors().skip(1) {
        let mode = fs::metadata(above).map_err(&failed)?.mode();
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(scene.damaged(format!("others can write `{}` above it", above.display())));
        }
    }
    Ok(())
}

/// Makes the entries of `directory` durable.
pub(super) fn sync_folder(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    File::open(directory)?.sync_all()
}

/// The temporary name of `path`: `.NAME.tmp` beside it.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.tmp"))
}

/// Whether a replaced file must survive a loss of power at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// The file is synced before it gets its name, and the folder after.
    Synced,
    /// The file survives the death of this process; the next sync of the disk makes it durable.
    Cached,
}

/// Puts `content` at `path`, whole: a reader sees the old file or the new one. Mode 0600.
pub(super) fn replace(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let temporary = temporary(path);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| match durability {
        Durability::Synced => file.sync_all(),
        Durability::Cached => Ok(()),
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // The first error is the one to tell; a left-over temporary file is harmless.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    match (durability, path.parent()) {
        (Durability::Synced, Some(parent)) => sync_folder(parent),
        (Durability::Synced, None) | (Durability::Cached, _) => Ok(()),
    }
}

/// The same for a signed note, which is replaced with every group of records: two files take turns under
/// the name, so that no block is allocated and none has to be flushed, also on a full disk. After a loss
/// of power the name may have the note before.
pub(super) fn replace_note(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let other = temporary(path);
    let spare = OpenOptions::new().write(true).open(&other);
    let spare = spare.ok().filter(|file| {
        file.metadata().is_ok_and(|found| found.is_file() && found.len() == content.len() as u64)
    });
    match (spare, durability) {
        (Some(spare), Durability::Cached) => {
            spare.write_all_at(content, 0)?;
            exchange(&other, path)
        }
        (Some(_), Durability::Synced) | (None, Durability::Synced | Durability::Cached) => {
            match create_note(&other, content) {
                Ok(()) => exchange(&other, path),
                Err(error) if is_full(&error) => {
                    // The death of this process does not tear so short a write.
                    let file = OpenOptions::new().write(true).open(path)?;
                    file.write_all_at(content, 0)?;
                    file.set_len(content.len() as u64)
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Says whether an error is one of a disk that has no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT]
        .iter()
        .any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

fn create_note(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Lets two files change names; where there is only one, or no such call, gives it the name.
fn exchange(new: &Path, path: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(new, path),
        Err(error) => Err(error.into()),
    }
}

/// Temporary files that are kept, because they take turns with a note.
const TURNS: [&str; 2] = [".checkpoint.tmp", ".head.tmp"];

/// Returns the content of `path`; none when there is no such file.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Nothing is waited for where a pipe stands in its place.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let content = opened.and_then(|mut file| {
        let mut content = Vec::new();
        file.read_to_end(&mut content).map(|_| content)
    });
    match content {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes temporary files that a dead process left in `directory`.
pub(super) fn sweep(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") && !TURNS.contains(&&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The file name of segment `number`.
pub(super) fn segment_name(number: u64) -> String {
    format!("{number:08}.jsonl")
}

/// The file name of the seal of segment `number`.
pub(super) fn seal_name(number: u64) -> String {
    format!("{number:08}.seal")
}

/// Returns the number of a segment file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".jsonl")?.parse().ok()?;
    (segment_name(number) == name && number > 0).then_some(number)
}

/// Returns the numbers of the segments in `directory`, ascending.
pub(super) fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = segment_number(&name.to_string_lossy()) else { continue };
        // A pipe would be waited for, and a link leads elsewhere.
        if !entry.file_type()?.is_file() {
            return Err(io::Error::other(format!("`{}` is not a plain file", name.display())));
        }
        numbers.push(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FileType, Mode, mknodat};

    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
        let folder = Folder::new();
        let pipe = |name| {
            let path = folder.path().join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            path
        };
        assert_eq!(read(&pipe("head")).unwrap(), Some(Vec::new()));
        pipe("00000002.jsonl");
        let refused = segments(folder.path()).unwrap_err();
        assert_eq!(refused.to_string(), "`00000002.jsonl` is not a plain file");
    }
}
