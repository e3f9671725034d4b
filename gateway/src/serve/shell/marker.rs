//! The file in which an agent looks up where its command ended.
//!
//! An agent's shell line writes it with the agent's rights, so it is written here with the same rights, after the
//! command, and only under a name of the agent's own form directly in the folder for temporary files.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Returns the path of a marker file, if `path` is one: `prefix`, letters and digits, `suffix` in one of `folders`.
pub(crate) fn path(path: &str, form: (&str, &str), folders: &[PathBuf]) -> Option<PathBuf> {
    let path = Path::new(path);
    let name = path.file_name()?.to_str()?;
    let middle = name.strip_prefix(form.0)?.strip_suffix(form.1)?;
    let folder = path.parent()?.canonicalize().ok()?;
    let plain = !middle.is_empty() && middle.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let known = folders.iter().any(|known| known.canonicalize().is_ok_and(|known| known == folder));
    (plain && known && path.is_absolute()).then(|| folder.join(name))
}

/// Writes `directory` into the marker file, which may be there only as a plain file of this user alone.
pub(crate) fn write(path: &Path, directory: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.write(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let mut file = options.open(path)?;
    let found = file.metadata()?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_file() || found.nlink() != 1 || !own {
        return Err(io::Error::other("it is no plain file of this user alone"));
    }
    file.set_len(0)?;
    file.write_all(format!("{directory}\n").as_bytes())
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
            path(&folder.path().join(name).to_string_lossy(), ("claude-", "-cwd"), &folders)
        };
        assert_eq!(
            at("claude-1f3a-cwd"),
            Some(folder.path().canonicalize().unwrap().join("claude-1f3a-cwd"))
        );
        for wrong in ["claude--cwd", "claude-a-b-cwd", "x", "../claude-1-cwd", "claude-1-cwd/x"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
        assert_eq!(path("/etc/claude-1-cwd", ("claude-", "-cwd"), &folders), None);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = Folder::new();
        let target = folder.write("target", "kept");
        let link = folder.path().join("claude-1-cwd");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(write(&link, "/p").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
        let plain = folder.path().join("claude-2-cwd");
        write(&plain, "/a/long/one").unwrap();
        write(&plain, "/p").unwrap();
        assert_eq!(std::fs::read_to_string(&plain).unwrap(), "/p\n");
    }
}
