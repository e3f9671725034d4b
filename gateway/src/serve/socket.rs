//! The Unix socket: who may connect, and what happens at the end.

use std::fs::Permissions;
use std::future::Future;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use stockade_base::sockets::{Address, left_by, left_by_none};
use stockade_system::handing::Handed;

use super::connection;
use crate::Gateway;
use crate::protocol::errors::{Code, Failure};

/// Most connections at once; further ones are closed.
const MOST_CONNECTIONS: usize = 256;

/// When a connection is taken again after one could not be.
const AGAIN: Duration = Duration::from_millis(50);

/// How often it is looked whether anybody uses the gateway.
const LOOK: Duration = Duration::from_secs(1);

/// A socket that listens, and its file.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, so that only this file is removed at the end.
    file: (u64, u64),
    /// The service manager holds it too, and listens on when this process ends.
    is_shared: bool,
}

/// Where connections come from.
enum Source {
    Listener(Listener),
    /// Another process takes them, for all users.
    Handed(mpsc::Receiver<Handed>),
}

impl Source {
    /// Waits for the next connection, and what stays open as long as it is served.
    async fn next(&mut self) -> std::io::Result<(UnixStream, Option<OwnedFd>)> {
        match self {
            Source::Listener(it) => it.listener.accept().await.map(|(stream, _)| (stream, None)),
            Source::Handed(handed) => match handed.recv().await {
                Some(Handed { stream, ticket }) => {
                    stream.set_nonblocking(true)?;
                    Ok((UnixStream::from_std(stream)?, Some(ticket)))
                }
                // The keeper is gone: the end is told in another way.
                None => std::future::pending().await,
            },
        }
    }

    /// Says whether the process at the other end may be served.
    fn serves(&self, stream: &UnixStream) -> bool {
        match self {
            Source::Listener(_) => is_ours(stream),
            // The socket is open to everybody, and a command that is confined has the same user.
            Source::Handed(_) => is_ours(stream) && stockade_client::is_beside(stream),
        }
    }

    fn remove(&self) {
        match self {
            Source::Listener(listener) => listener.remove(),
            Source::Handed(_) => {}
        }
    }

    /// Leaves its place to another gateway.
    fn step_aside(&mut self) {
        match self {
            Source::Listener(listener) => listener.step_aside(),
            Source::Handed(_) => {}
        }
    }
}

/// Serves the connections that `handed` brings until `end`, as [`Listener::serve`] does.
pub(crate) async fn serve_handed(
    handed: mpsc::Receiver<Handed>,
    gateway: Gateway,
    end: impl Future<Output = ()>,
    idle: Idle,
) {
    serve(Source::Handed(handed), gateway, end, idle).await;
}

impl Listener {
    /// Listens at `path`: a socket of mode 0600 in a directory of mode 0700, both of this user.
    ///
    /// A socket file on which nobody listens is replaced if it is ours.
    pub(crate) fn bind(path: &Path) -> Result<Listener, Failure> {
        let unusable = |reason: String| {
            Failure::new(
                Code::StateUnusable,
                format!("cannot listen at `{}`: {reason}", path.display()),
                "specify another path with `--socket PATH`",
            )
        };
        let directory = path.parent().ok_or_else(|| unusable("it has no directory".into()))?;
        private_directory(directory).map_err(unusable)?;
        remove_stale(path).map_err(unusable)?;
        let address = Address::of(path).map_err(|error| unusable(error.to_string()))?;
        let listener =
            UnixListener::bind(address.path()).map_err(|error| unusable(error.to_string()))?;
        // The directory keeps others away until the mode of the socket itself is set.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(|error| unusable(error.to_string()))?;
        // Those of gateways that left this place and were killed.
        for stale in left_by_none(path) {
            let _ = remove_stale(&stale); // one that is none of ours stays
        }
        let file = path.symlink_metadata().map_err(|error| unusable(error.to_string()))?;
        let file = (file.dev(), file.ino());
        Ok(Listener { listener, path: path.to_owned(), file, is_shared: false })
    }

    /// Returns the socket at `path` that the service manager handed over as standard input; none where it is anything else.
    /// The same holds for it as for one that [`Listener::bind`] makes.
    pub(crate) fn handed_over(path: &Path) -> Result<Option<Listener>, Failure> {
        let unusable = |reason: String| {
            let message = format!("cannot use the socket on standard input: {reason}");
            Failure::new(Code::StateUnusable, message, "listen at the usual path, with mode 0600")
        };
        let input = rustix::stdio::stdin();
        if !rustix::net::sockopt::socket_acceptconn(input).unwrap_or(false) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| unusable(error.to_string());
        let listener: std::os::unix::net::UnixListener =
            input.try_clone_to_owned().map_err(failed)?.into();
        let address = listener.local_addr().map_err(failed)?;
        if address.as_pathname() != Some(path) {
            return Err(unusable(format!("it is not the one at `{}`", path.display())));
        }
        private_directory(path.parent().unwrap_or(path)).map_err(unusable)?;
        let found = path.symlink_metadata().map_err(failed)?;
        let is_private = found.mode() & 0o077 == 0
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.file_type().is_socket();
        if !is_private {
            return Err(unusable(format!("`{}` is open to others", path.display())));
        }
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        let file = (found.dev(), found.ino());
        Ok(Some(Listener { listener, path: path.to_owned(), file, is_shared: true }))
    }

    /// Serves each connection until `end`; then every running command is ended and recorded.
    ///
    /// The gateway also ends where `idle` says so. When its executable is replaced, it leaves its place to a gateway of
    /// the new one, listens beside it for clients of its tasks, and ends when its connections and tasks have ended.
    pub(crate) async fn serve(self, gateway: Gateway, end: impl Future<Output = ()>, idle: Idle) {
        serve(Source::Listener(self), gateway, end, idle).await;
    }

    /// Listens on beside its place, where it is reached for its tasks; without a place there nobody reaches it any more.
    fn step_aside(&mut self) {
        if self.is_shared {
            return;
        }
        let aside = left_by(&self.path, std::process::id());
        if self.is_ours() && std::fs::rename(&self.path, &aside).is_ok() {
            self.path = aside;
        } else {
            self.remove();
        }
    }

    /// Says whether the socket file is still the one that was made.
    fn is_ours(&self) -> bool {
        let same = |file: std::fs::Metadata| (file.dev(), file.ino()) == self.file;
        self.path.symlink_metadata().is_ok_and(same)
    }

    /// Removes the socket file, if it is still the one that was made.
    fn remove(&self) {
        if self.is_ours() && !self.is_shared {
            let _ = std::fs::remove_file(&self.path); // a stale file is replaced by the next gateway
        }
    }
}

async fn serve(mut source: Source, gateway: Gateway, end: impl Future<Output = ()>, idle: Idle) {
    let gateway = Arc::new(gateway);
    let own = matches!(source, Source::Listener(_));
    let executable = own.then(|| Executable::of(gateway.executable()));
    let mut leaves = false;
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(end);
    let mut used = Instant::now();
    loop {
        if !connections.is_empty() || gateway.is_used() {
            used = Instant::now();
        }
        gateway.end_left_sessions(idle.session).await;
        if !leaves && executable.as_ref().is_some_and(Executable::is_replaced) {
            leaves = true;
            // Nobody would find them at this gateway any more, to revoke them.
            gateway.drop_grants().await;
            source.step_aside();
        }
        let is_left = leaves && connections.is_empty() && gateway.tasks().count() == 0;
        let is_idle = is_left || idle.gateway.is_some_and(|idle| used.elapsed() >= idle);
        tokio::select! {
            () = &mut end => break,
            () = std::future::ready(()), if is_idle => break,
            () = tokio::time::sleep(LOOK) => {}
            accepted = source.next() => match accepted {
                Ok((stream, ticket)) if connections.len() < MOST_CONNECTIONS && source.serves(&stream) => {
                    let serving = connection::serve(stream, Arc::clone(&gateway), ended.clone());
                    connections.spawn(async move {
                        serving.await;
                        drop(ticket);
                    });
                }
                // A stranger, or one too many: closing the connection is the answer.
                Ok(_) => {}
                // The peer went away: the next one may do better. Without a free descriptor it would not, at once.
                Err(_) => tokio::select! {
                    () = &mut end => break,
                    () = tokio::time::sleep(AGAIN) => {}
                },
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    source.remove();
    gateway.drop_grants().await;
    let _ = ending.send(true); // without a connection nobody waits for it
    while connections.join_next().await.is_some() {}
    gateway.tasks().end().await;
    gateway.end_sessions().await;
}

/// The file of an executable, as it was when this process began.
#[derive(Debug)]
struct Executable {
    path: PathBuf,
    /// Device and inode; none where it could not be looked at.
    file: Option<(u64, u64)>,
}

impl Executable {
    fn of(path: &Path) -> Executable {
        let file = path.metadata().ok().map(|file| (file.dev(), file.ino()));
        Executable { path: path.to_owned(), file }
    }

    /// Says whether another file has its name now. One that is gone for a moment is being replaced.
    fn is_replaced(&self) -> bool {
        let now = self.path.metadata().ok().map(|file| (file.dev(), file.ino()));
        self.file.is_some() && now.is_some() && now != self.file
    }
}

/// Times without use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    /// The gateway ends after so long without a connection, a session or a task.
    pub(crate) gateway: Option<Duration>,
    /// A session ends after so long without a call or a task, unless it lasts with a connection.
    pub(crate) session: Duration,
}

impl Idle {
    /// Nothing ends because it is not used.
    pub(crate) const NEVER: Idle = Idle { gateway: None, session: Duration::MAX };
}

/// Serves the one connection that `gateway` is there for, until the other side closes it.
pub(crate) async fn serve_one(
    stream: std::os::unix::net::UnixStream,
    gateway: Gateway,
) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let gateway = Arc::new(gateway);
    let (_running, ended) = watch::channel(false);
    connection::serve(stream, Arc::clone(&gateway), ended).await;
    if let Some(gateway) = Arc::into_inner(gateway) {
        gateway.close().await;
    }
    Ok(())
}

/// Says whether the process at the other end is of this user.
fn is_ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

/// Makes `directory` for its owner alone, or checks that it is so.
fn private_directory(directory: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(|error| format!("cannot make its directory: {error}"))?;
    let found = directory.metadata().map_err(|error| error.to_string())?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("its directory belongs to uid {}", found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!("its directory is open to others (mode {:o})", found.mode() & 0o777));
    }
    Ok(())
}

/// Removes a socket file that is ours and on which nobody listens.
fn remove_stale(path: &Path) -> Result<(), String> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !found.file_type().is_socket() {
        return Err("something other than a socket is there".into());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("a socket of uid {} is there", found.uid()));
    }
    let address = Address::of(path).map_err(|error| error.to_string())?;
    match std::os::unix::net::UnixStream::connect(address.path()) {
        Ok(_) => Err("a gateway already listens there".into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|error| format!("cannot remove the stale socket: {error}")),
        Err(error) => Err(format!("cannot connect to the socket that is there: {error}")),
    }
}
