//! The file in which an agent looks up where its command ended.
//!
//! An agent's shell line writes it with the agent's rights, so it is written here with the same rights, after the
//! command, and only under a name of the agent's own form directly in the folder for temporary files.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Returns the path of a marker file, if `path` is one: `prefix`, letters and digits, `suffix` in one of `folders`.
pub(crate) fn path(
    path: &str,
    [prefix, suffix]: [&str; 2],
    folders: &[PathBuf],
) -> Option<PathBuf> {
    let path = Path::new(path);
    let name = path.file_name()?.to_str()?;
    let middle = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let folder = path.parent()?.canonicalize().ok()?;
    let plain = !middle.is_empty() && middle.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let known = folders.iter().any(|known| known.canonicalize().is_ok_and(|known| known == folder));
    (plain && known && path.is_absolute()).then(|| folder.join(name))
}

/// Writes `directory` into the marker file, which may be there only as a plain file of this user alone.
pub(crate) fn write(path: &Path, directory: &str) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = flags | OFlags::WRONLY | OFlags::CREATE;
    let opened = rustix::fs::openat(open(folder)?, name, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(opened);
    let found = file.metadata()?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_file() || found.nlink() != 1 || !own {
        return Err(io::Error::other("not a regular file that only this user can write"));
    }
    file.set_len(0)?;
    file.write_all(format!("{directory}\n").as_bytes())
}

/// Opens a folder whose path has no links: the command may have put one there meanwhile.
#[cfg(target_os = "linux")]
fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(rustix::fs::CWD, folder, flags, Mode::empty(), resolve)?)
}

/// The same where the kernel cannot be told.
#[cfg(not(target_os = "linux"))]
fn open(folder: &Path) -> io::Result<OwnedFd> {
    if folder.canonicalize()? != folder {
        return Err(io::Error::other("a link leads to its folder"));
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn only_the_form_of_the_agent_in_the_temporary_folder_is_a_marker() {
        let folder = Folder::new();
        let folders = [folder.path().to_path_buf()];
        let at = |name: &str| {
            path(&folder.path().join(name).to_string_lossy(), ["claude-", "-cwd"], &folders)
        };
        assert_eq!(
            at("claude-1f3a-cwd"),
            Some(folder.path().canonicalize().unwrap().join("claude-1f3a-cwd"))
        );
        for wrong in ["claude--cwd", "claude-a-b-cwd", "x", "../claude-1-cwd", "claude-1-cwd/x"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
        assert_eq!(path("/etc/claude-1-cwd", ["claude-", "-cwd"], &folders), None);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = Folder::new();
        let target = folder.write("target", "kept");
        let real = folder.path().canonicalize().unwrap();
        let link = real.join("claude-1-cwd");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(write(&link, "/p").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
        let plain = real.join("claude-2-cwd");
        write(&plain, "/a/long/one").unwrap();
        write(&plain, "/p").unwrap();
        assert_eq!(std::fs::read_to_string(&plain).unwrap(), "/p\n");
    }
}
