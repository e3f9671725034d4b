//! Paths of Unix sockets that are longer than an address can hold.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest path in an address: `sun_path` has 108 bytes, with the one behind its end (unix(7)).
const LONGEST: usize = 107;

/// A path for an address, which holds as long as this value lives.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    /// The directory of a long path; the address names it by its number.
    _directory: Option<OwnedFd>,
}

impl Address {
    /// Returns `path` itself, or for a long one the same name below `/proc/self/fd`.
    pub fn of(path: &Path) -> io::Result<Address> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Address { path: path.to_owned(), _directory: None });
        };
        if path.as_os_str().len() <= LONGEST {
            return Ok(Address { path: path.to_owned(), _directory: None });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        Ok(Address { path, _directory: Some(directory) })
    }

    /// Returns the path to give to bind(2) or connect(2).
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Between the name of a socket and the number of the process that left it to another gateway.
const LEFT: &str = ".left-";

/// Returns where process `pid` listens on when it left `socket` to a gateway of a new executable: it is reached for its tasks.
pub fn left_by(socket: &Path, pid: u32) -> PathBuf {
    let mut name = socket.file_name().unwrap_or_default().to_owned();
    name.push(format!("{LEFT}{pid}"));
    socket.with_file_name(name)
}

/// Returns the sockets beside `socket` whose processes are gone.
pub fn left_by_none(socket: &Path) -> Vec<PathBuf> {
    let mut prefix = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
    prefix.push_str(LEFT);
    let entries = socket.parent().and_then(|directory| directory.read_dir().ok());
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pid = name.strip_prefix(&prefix).and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(is_stale).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use stockade_scratch::Folder;

    use super::*;

    #[test]
    fn what_a_process_left_is_stale_when_the_process_is_gone() {
        let folder = Folder::new();
        let socket = folder.path().join("gateway.sock");
        let own = left_by(&socket, std::process::id());
        let gone = left_by(&socket, u32::MAX);
        let others = ["gateway.sock", "gateway.sock.left-", "gateway.sock.left-1x", "other"];
        let others = others.map(|name| folder.path().join(name));
        others.iter().chain([&own, &gone]).for_each(|path| std::fs::write(path, "").unwrap());
        assert_eq!(left_by_none(&socket), [gone]);
    }

    #[test]
    fn a_long_path_is_listened_at_and_reached() {
        let folder = Folder::new();
        let deep = folder.path().join("a".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("s");
        assert!(UnixListener::bind(&path).is_err());
        let _listener = UnixListener::bind(Address::of(&path).unwrap().path()).unwrap();
        assert!(path.exists() && UnixStream::connect(&path).is_err());
        assert!(UnixStream::connect(Address::of(&path).unwrap().path()).is_ok());
        let short = Path::new("/run/s");
        assert_eq!(Address::of(short).unwrap().path(), short);
    }
}
