//! Directories of one user alone, and the home directory.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use stockade_wire::errors::{Code, Failure};

/// Makes `path` and its missing parents, 0700, and checks that it is a directory of this user alone.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).or_else(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
    })?;
    let found = path.symlink_metadata()?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a directory"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() {
        return Err(io::Error::other("it is not writable"));
    }
    Ok(())
}

/// Returns the home directory: `HOME` if it is absolute, else that of the password database.
pub fn home(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    if let Some(home) = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) {
        return Ok(home);
    }
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    home_of(uid, &users).ok_or_else(|| {
        Failure::new(
            Code::StateUnusable,
            format!("HOME is not set and `/etc/passwd` has no home directory for uid {uid}"),
            "set HOME to an absolute path",
        )
    })
}

/// Returns the home directory of `uid` in a text of passwd(5) form.
pub fn home_of(uid: u32, users: &[u8]) -> Option<PathBuf> {
    let uid = uid.to_string();
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        if *fields.get(2)? != uid.as_bytes() {
            return None;
        }
        let home = std::str::from_utf8(fields.get(5)?).ok()?;
        Some(PathBuf::from(home)).filter(|home| home.is_absolute())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_home_the_password_database_counts() {
        let users = b"root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(home_of(1000, users), Some("/home/ada".into()));
        assert_eq!(home_of(10, users), None);
    }
}
