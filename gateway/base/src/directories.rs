//! Directories of one user alone, and the home directory.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use stockade_wire::errors::{Code, Failure};

use crate::quoted::quoted;

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

/// Returns the real path of `directory` if one can work in it.
pub fn directory(directory: &str, what: &str) -> Result<PathBuf, Failure> {
    let unusable = |reason: String| {
        let message = format!("the {what} `{}` cannot be used: {reason}", directory.escape_debug());
        Failure::new(Code::DirectoryUnusable, message, "name another directory")
    };
    if !Path::new(directory).is_absolute() {
        return Err(unusable("it is not an absolute path".into()));
    }
    let real = Path::new(directory).canonicalize().map_err(|error| {
        let message = format!("the {what} `{}` cannot be used: {error}", directory.escape_debug());
        Failure::new(Code::DirectoryUnusable, message, remade(directory, &error))
    })?;
    if !real.is_dir() {
        return Err(unusable("it is not a directory".into()));
    }
    let closed = |reason: String| {
        let message = format!("the {what} `{}` cannot be used: {reason}", directory.escape_debug());
        let help = format!("`chmod u+rwx {}` opens it again", quoted(&[directory.to_owned()]));
        Failure::new(Code::DirectoryUnusable, message, help)
    };
    access(&real, Access::READ_OK | Access::EXEC_OK).map_err(|error| closed(error.to_string()))?;
    // A command has no capabilities that lead past the mode.
    let found = real.metadata().map_err(|error| unusable(error.to_string()))?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o100 == 0 {
        return Err(closed("its owner cannot enter it".into()));
    }
    if real.to_str().is_none() {
        let message = format!("the {what} `{}` is not UTF-8", real.display());
        return Err(Failure::new(Code::NotUtf8, message, "name another directory"));
    }
    Ok(real)
}

/// Says what helps where `directory` cannot be used because of `error`.
pub fn remade(directory: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!(
                "`mkdir -p {}` makes it again; or specify another directory",
                quoted(&[directory.to_owned()])
            )
        }
        _ => "specify an existing directory that you can enter".to_owned(),
    }
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

    #[test]
    fn a_directory_that_is_a_file_is_named() {
        let failure = directory("/etc/passwd", "working directory").unwrap_err();
        assert_eq!(failure.code, Code::DirectoryUnusable);
        assert_eq!(
            failure.message,
            "the working directory `/etc/passwd` cannot be used: it is not a directory"
        );
    }
}
