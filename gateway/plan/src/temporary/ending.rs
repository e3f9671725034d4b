//! How bash tells in which directory it ends: two files of one run, where no other run comes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::Temporary;

/// Longest path that the kernel takes, with its end (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;

/// A start file for bash, and the file into which it writes where it stands at last.
#[derive(Debug)]
pub struct Ending {
    start: PathBuf,
    told: PathBuf,
    /// `told`, opened when it was made: whatever comes to stand in its place is not read.
    opened: File,
    /// The directory of both, gone with this.
    _directory: Box<Temporary>,
}

impl Ending {
    /// Makes both files in a fresh directory.
    pub(super) fn make(state: &Path) -> io::Result<Ending> {
        let directory = Temporary::make(state, None)?;
        let path = directory.path().canonicalize()?;
        let (start, told) = (path.join("start"), path.join("cwd"));
        // Bash expands the value of `BASH_ENV` (bash manual, Bash Startup Files): what stands in the path must not run.
        if start.to_str().is_none_or(|path| path.contains(['$', '`', '\\', '"'])) {
            let message = "a state directory with `$`, backquotes, backslashes or double quotes in its path cannot be passed to bash";
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
        }
        let make =
            |path| File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let quoted = told.to_str().ok_or(io::ErrorKind::InvalidFilename)?.replace('\'', r"'\''");
        // Bash expands a trap when it runs, so the path stands in quotes twice.
        let trap = format!("builtin pwd -P 2>/dev/null >| '{quoted}'").replace('\'', r"'\''");
        let text = format!("unset BASH_ENV\ntrap '{trap}' EXIT\n");
        make(&start)?.write_all(text.as_bytes())?;
        let opened = make(&told)?;
        Ok(Ending { start, told, opened, _directory: Box::new(directory) })
    }

    /// Returns the start file, which bash reads.
    pub fn start(&self) -> &Path {
        &self.start
    }

    /// Returns the file that bash writes.
    pub fn told(&self) -> &Path {
        &self.told
    }

    /// Returns the directory that stands in it, if there is one.
    pub(super) fn cwd(&self) -> Option<String> {
        let mut text = String::new();
        let mut file = &self.opened;
        file.rewind().ok()?;
        file.take(LONGEST_PATH).read_to_string(&mut text).ok()?;
        let path = text.strip_suffix('\n')?;
        (path.starts_with('/') && Path::new(path).is_dir()).then(|| path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use stockade_scratch::Folder;

    fn bash(ending: &Ending, text: &str) -> Option<String> {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", text]).env("BASH_ENV", ending.start());
        assert!(bash.status().unwrap().success());
        ending.cwd()
    }

    #[test]
    fn bash_tells_where_it_ends_whatever_the_path() {
        let folder = Folder::new();
        let state = folder.path().join("it's a; (b) & *");
        std::fs::create_dir(&state).unwrap();
        let ending = Ending::make(&state).unwrap();
        assert_eq!(ending.cwd(), None);
        assert_eq!(bash(&ending, "cd /; set -C"), Some("/".to_owned()));
        let directory = ending.start().parent().unwrap().to_path_buf();
        drop(ending);
        assert!(!directory.exists());
    }

    #[test]
    fn a_path_that_bash_would_expand_is_refused() {
        let folder = Folder::new();
        for name in ["`a`", "$b", "c\\", "\"d\""] {
            let state = folder.path().join(name);
            std::fs::create_dir(&state).unwrap();
            let refused = Ending::make(&state).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidFilename, "{name}");
        }
    }

    #[test]
    fn what_is_put_in_the_place_of_its_file_is_not_read() {
        let folder = Folder::new();
        let ending = Ending::make(folder.path()).unwrap();
        let other = folder.write("other", "/usr\n");
        std::fs::remove_file(ending.told()).unwrap();
        std::os::unix::fs::symlink(other, ending.told()).unwrap();
        assert_eq!(ending.cwd(), None);
    }
}
