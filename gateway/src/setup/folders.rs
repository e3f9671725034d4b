//! The folders that set-up made, so that taking an agent out takes those away again in which nothing lies.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::{Surroundings, files};

/// Permission bits of the list.
const MODE: u32 = 0o600;

/// The list of them, which is kept beside the links to our shell.
pub(super) struct Folders {
    list: PathBuf,
    made: Vec<Made>,
}

/// A folder that set-up made: another one with its name is somebody else's.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    device: u64,
    inode: u64,
    /// When it was made, in nanoseconds since 1970, so that another one with its inode is told apart; 0 where the file system
    /// does not know.
    born: u128,
    path: PathBuf,
}

impl Folders {
    /// Reads the list. Of what is in no list nothing is taken away.
    pub(super) fn of(around: &Surroundings) -> Folders {
        let list = around.home.join(".local/share/stockade/folders");
        let text = files::read(&list).ok().flatten().unwrap_or_default();
        let made = text.lines().filter_map(Made::parse).filter(Made::is_there).collect();
        Folders { list, made }
    }

    /// Makes `folder`, and those above it that are not there.
    pub(super) fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|it| !it.exists()).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => self.made.extend(Made::at(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes away what set-up made above `path`, as far as nothing lies in it. What somebody else has put something
    /// into is theirs from then on; one of the files in `needed` is ours.
    pub(super) fn leave(&mut self, path: &Path, needed: &[PathBuf]) {
        for folder in path.ancestors().skip(1) {
            let is = |made: &Made| made.path == folder;
            if !self.made.iter().any(is) {
                continue;
            }
            let holds = |other: &Path| other.starts_with(folder) && other != folder;
            let made = self.made.iter().map(|made| &made.path);
            let mut held = std::iter::once(&self.list).chain(made).chain(needed);
            let mut is_needed = || held.any(|path| holds(path));
            if fs::remove_dir(folder).is_ok() || !is_needed() {
                self.made.retain(|made| !is(made));
            }
        }
    }

    /// Writes the list; when only folders are left that are there for its own sake, it goes with them.
    pub(super) fn keep(mut self) -> io::Result<()> {
        self.made.retain(Made::is_there);
        let folder = self.list.parent().unwrap_or(Path::new("/")).to_path_buf();
        if self.made.iter().all(|made| folder.starts_with(&made.path)) {
            if self.list.exists() {
                fs::remove_file(&self.list)?;
            }
            self.leave(&self.list.clone(), &[]);
            return Ok(());
        }
        self.make(&folder)?;
        let text: String = self.made.iter().filter_map(Made::line).collect();
        match files::read(&self.list) {
            Ok(Some(before)) if before == text => Ok(()),
            Ok(_) | Err(_) => files::write(&self.list, &text, MODE, None),
        }
    }
}

impl Made {
    fn at(path: &Path) -> Option<Made> {
        let found = path.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        let born = found.created().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_nanos());
        Some(Made { device: found.dev(), inode: found.ino(), born, path: path.to_path_buf() })
    }

    fn is_there(&self) -> bool {
        Made::at(&self.path).as_ref() == Some(self)
    }

    /// Returns its line; none for a name that is not a line, so that it stays.
    fn line(&self) -> Option<String> {
        let path = self.path.to_str().filter(|path| !path.contains(['\n', '\r']))?;
        Some(format!("{} {} {} {path}\n", self.device, self.inode, self.born))
    }

    fn parse(line: &str) -> Option<Made> {
        let mut parts = line.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (device, inode) = (number()?, number()?);
        let born = parts.next()?.parse().ok()?;
        Some(Made { device, inode, born, path: PathBuf::from(parts.next()?) })
    }
}
