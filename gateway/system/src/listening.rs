//! Sockets of the service: handed over by systemd as standard input, or made here.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// How a socket carries what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As a stream of bytes.
    Stream,
    /// As messages, each of which comes whole.
    Messages,
}

/// Connections that may wait.
const BACKLOG: i32 = 512;

fn unconnected(kind: Kind, flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let kind = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Messages => SocketType::SEQPACKET,
    };
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags | SocketFlags::CLOEXEC, None)
}

/// Returns the socket that came as standard input, or makes one of `mode` at `path` for `owner`.
pub(crate) fn socket(
    path: &Path,
    kind: Kind,
    mode: u32,
    owner: Option<[u32; 2]>,
) -> Result<UnixListener, String> {
    let failed = |error: io::Error| format!("cannot listen at `{}`: {error}", path.display());
    let given = std::io::stdin();
    if rustix::net::sockopt::socket_acceptconn(given.as_fd()).unwrap_or(false) {
        let given = UnixListener::from(given.as_fd().try_clone_to_owned().map_err(failed)?);
        let own = given.local_addr().map_err(failed)?;
        return match own.as_pathname() == Some(path) {
            true => Ok(given),
            false => Err(format!(
                "standard input is not the socket at `{}`; `sudo stockade install --system` writes the units anew",
                path.display()
            )),
        };
    }
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
        crate::is_roots_alone(folder)?;
    }
    make(path, kind, mode, owner).map(UnixListener::from)
}

fn make(path: &Path, kind: Kind, mode: u32, owner: Option<[u32; 2]>) -> Result<OwnedFd, String> {
    let failed = |error: io::Error| format!("cannot listen at `{}`: {error}", path.display());
    let plain = |error: Errno| failed(error.into());
    let address = SocketAddrUnix::new(path).map_err(plain)?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(format!("something other than a socket is at `{}`", path.display()));
        }
        Ok(_) => match rustix::net::connect(
            unconnected(kind, SocketFlags::NONBLOCK).map_err(plain)?,
            &address,
        ) {
            // Nobody but root can put one there.
            Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(failed)?,
            Ok(()) | Err(_) => {
                return Err(format!("another process already listens at `{}`", path.display()));
            }
        },
    }
    let socket = unconnected(kind, SocketFlags::empty()).map_err(plain)?;
    rustix::net::bind(&socket, &address).map_err(plain)?;
    // Nobody connects before it listens.
    if let Some([uid, gid]) = owner {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(failed)?;
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    rustix::net::listen(&socket, BACKLOG).map_err(plain)?;
    Ok(socket)
}
