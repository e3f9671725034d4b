//! Sockets of the service: handed over by systemd as standard input, or made here.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Returns the socket that came as standard input, or makes one of `mode` at `path`.
pub(crate) fn socket(path: &Path, mode: u32) -> Result<UnixListener, String> {
    let given = std::io::stdin();
    if rustix::net::sockopt::socket_acceptconn(given.as_fd()).unwrap_or(false) {
        let given = given.as_fd().try_clone_to_owned();
        return given.map(UnixListener::from).map_err(|error| error.to_string());
    }
    let failed = |error: io::Error| format!("cannot listen at `{}`: {error}", path.display());
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
        crate::is_roots_alone(folder)?;
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(format!("something other than a socket is at `{}`", path.display()));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => {
                return Err(format!("another process already listens at `{}`", path.display()));
            }
            // Nobody but root can put one there.
            Err(_) => std::fs::remove_file(path).map_err(failed)?,
        },
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}
