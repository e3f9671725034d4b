//! Where the last command of a session ended, for the next one that its caller starts in the same directory.
//!
//! No command can reach the file: it is stored beside the temporary directories of sessions, and removed with them. The gateway
//! writes it, and checks its content against project and settings at each call.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use stockade_base::directories::private_directory;

use crate::temporary::Temporary;

/// Longest file that is read, in bytes: two paths (`PATH_MAX`).
const LONGEST: u64 = 2 * 4096;

/// Where a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The directory of the caller, as it named it.
    pub from: String,
    /// The directory in which the last command ended.
    pub to: String,
}

fn file(state: &Path, session: &str) -> PathBuf {
    let mut path = Temporary::of_session(state, session).into_os_string();
    path.push(".cwd");
    path.into()
}

/// Returns where a session goes on, if a command of it ended elsewhere than it began.
pub fn read(state: &Path, session: &str) -> Option<Carried> {
    let path = file(state, session);
    if path.symlink_metadata().ok().is_none_or(|it| !it.is_file() || it.len() > LONGEST) {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let (from, to) = text.split_once('\0')?;
    Some(Carried { from: from.to_owned(), to: to.to_owned() })
}

/// Keeps where a session goes on.
pub fn keep(state: &Path, session: &str, carried: &Carried) -> io::Result<()> {
    private_directory(&state.join("tmp"))?;
    let path = file(state, session);
    // Another call of the session may write its own at once.
    let new = path.with_extension(format!("{}.cwd", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(format!("{}\0{}", carried.from, carried.to).as_bytes())?;
    fs::rename(new, path)
}

/// Has a session go on where its caller is.
pub fn forget(state: &Path, session: &str) {
    let _ = fs::remove_file(file(state, session)); // most have none
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn each_session_has_its_own_until_it_is_forgotten() {
        let folder = Folder::new();
        let state = folder.path();
        let one = Carried { from: "/a b".into(), to: "/a b/c\nd".into() };
        assert_eq!(read(state, "s"), None);
        keep(state, "s", &one).unwrap();
        let two = Carried { to: "/a b/e".into(), ..one.clone() };
        keep(state, "t", &two).unwrap();
        assert_eq!((read(state, "s"), read(state, "t")), (Some(one), Some(two.clone())));
        forget(state, "s");
        assert_eq!((read(state, "s"), read(state, "t")), (None, Some(two)));
    }

    #[test]
    fn what_is_no_pair_of_paths_carries_nothing() {
        let folder = Folder::new();
        let one = Carried { from: "/a".into(), to: "/a/b".into() };
        keep(folder.path(), "s", &one).unwrap();
        let path = file(folder.path(), "s");
        for text in [String::new(), "/a".into(), format!("/a\0{}", "/b".repeat(4096))] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(folder.path(), "s"), None);
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.write("other", "/a\0/b"), &path).unwrap();
        assert_eq!(read(folder.path(), "s"), None);
    }
}
