//! The socket of the server: its user alone reaches it, and no confined command does.

use std::fs::DirBuilder;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncWriteExt as _, copy};
use tokio::net::{UnixListener, UnixStream};

use crate::session::store;

/// Name of the socket in the directory for sockets.
const NAME: &str = "rpc.sock";

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// Returns the path that was given, or the usual one of this user.
pub(super) fn path(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|it| it.is_absolute()) {
        return Ok(runtime.join("stockade").join(NAME));
    }
    let store = store()?;
    let state = store.root().ancestors().nth(2).context("the state directory is unknown")?;
    Ok(state.join("run").join(NAME))
}

/// Makes sure that nobody else can put another socket into the place of this one: the directory is the user's own, or one in
/// which only owners remove files.
fn checked(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder).with_context(|| shown(folder))?;
    }
    let found = folder.metadata().with_context(|| shown(folder))?;
    let own = rustix::process::geteuid().as_raw();
    let is_private = found.uid() == own && found.mode() & 0o022 == 0;
    let is_sticky = found.mode() & 0o1000 != 0 && [0, own].contains(&found.uid());
    match is_private || is_sticky {
        true => Ok(()),
        false => bail!("other users can write to {}; use a directory of your own", shown(folder)),
    }
}

/// Listens on a socket that only this user reaches. One that another server left behind is taken away, another file is not.
pub(super) fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    checked(folder.unwrap_or(Path::new(".")))?;
    if let Ok(found) = path.symlink_metadata() {
        if !found.file_type().is_socket() {
            bail!("{} is there already and is not a socket", shown(path));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            bail!("another server listens on {}", shown(path));
        }
        std::fs::remove_file(path).with_context(|| shown(path))?;
    }
    let listener = UnixListener::bind(path).with_context(|| shown(path))?;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, mode).with_context(|| shown(path))?;
    Ok(listener)
}

/// Returns the next connection of this user. A sandboxed command has the same user: its connection is closed.
pub(super) async fn accept(listener: &UnixListener) -> anyhow::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        if is_own(&stream) && stockade_client::is_beside(&stream) {
            return Ok(stream);
        }
    }
}

fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

/// Carries standard input and output to a server of this user, until that closes the connection.
pub(super) async fn connect(given: Option<PathBuf>) -> anyhow::Result<()> {
    let path = path(given)?;
    let reach = || {
        format!("no server of sessions listens on {}; start `stockade rpc --socket`", shown(&path))
    };
    let stream = UnixStream::connect(&path).await.with_context(reach)?;
    if !is_own(&stream) {
        bail!("the server on {} belongs to another user", shown(&path));
    }
    let (mut input, mut output) = stream.into_split();
    let sends = async {
        let sent = copy(&mut tokio::io::stdin(), &mut output).await;
        sent.and(output.shutdown().await)
    };
    let takes = async {
        let mut stdout = tokio::io::stdout();
        let taken = copy(&mut input, &mut stdout).await;
        taken.and(stdout.flush().await)
    };
    let (mut sends, mut takes) = (std::pin::pin!(sends), std::pin::pin!(takes));
    let done = tokio::select! {
        taken = &mut takes => taken,
        // A server that is gone says so by the end of its side.
        _ = &mut sends => takes.await,
    };
    done.context("the connection broke")
}
