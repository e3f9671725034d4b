//! Options of `stockade serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Common, duration};

/// Run a gateway on a Unix socket.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub common: Common,
    /// Serve the one client that is connected to standard input, and end with it.
    #[arg(long, hide = true, conflicts_with = "socket")]
    pub stdin: bool,
    /// Return when the gateway listens, and keep it running in the background.
    #[arg(long)]
    pub detach: bool,
    /// Exit after this time without a connection, a session or a task, such as 10m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub idle: Option<Duration>,
    /// Close a session after this time without a call or a task, such as 5m [default: 30m].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub session_idle: Option<Duration>,
}

impl Serve {
    /// Returns the arguments of the gateway that a detached start begins.
    pub(crate) fn socket_arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = Vec::new();
        let mut add =
            |name: &str, value: std::ffi::OsString| arguments.extend([name.into(), value]);
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let Common { socket, state_dir, audit_dir, .. } = &self.common;
        for (name, path) in
            [("--socket", socket), ("--state-dir", state_dir), ("--audit-dir", audit_dir)]
        {
            path.iter().for_each(|path| add(name, absolute(path).into()));
        }
        for (name, time) in [("--idle", self.idle), ("--session-idle", self.session_idle)] {
            time.iter().for_each(|time| add(name, format!("{}ms", time.as_millis()).into()));
        }
        arguments
    }
}
