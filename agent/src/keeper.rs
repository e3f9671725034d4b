//! The agent reaches its keeper, the gateway and the model by names in its directory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// The file in the agent's directory with which a session begins.
pub(crate) const BEGUN: &str = "begun.json";
/// The socket of the gateway.
pub(crate) const GATEWAY: &str = "gateway.sock";
/// The socket of the relay to the endpoint.
pub(crate) const MODEL: &str = "model.sock";
/// The socket behind which the session's file is appended to.
pub(crate) const SESSION: &str = "session.sock";
/// The socket behind which statements of the `sql` tool are done.
pub(crate) const SQL: &str = "sql.sock";

/// The keeper's word that it cannot do something now.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The agent's side of the session's file.
#[derive(Debug)]
pub(crate) struct Keeper {
    lines: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Keeper {
    /// Connects to the keeper.
    pub(crate) fn connect(socket: &Path) -> anyhow::Result<Keeper> {
        let lines = UnixStream::connect(socket).context("the session's file cannot be reached")?;
        let answers = BufReader::new(lines.try_clone()?);
        Ok(Keeper { lines, answers })
    }

    /// Sends a line, and returns the answer; null for one that has none.
    pub(crate) fn ask(&mut self, line: &Value) -> anyhow::Result<Value> {
        self.lines.write_all(format!("{line}\n").as_bytes()).context("its keeper is gone")?;
        let mut told = String::new();
        self.answers.read_line(&mut told).context("its keeper is gone")?;
        match told.trim_end() {
            "" if told.ends_with('\n') => Ok(Value::Null),
            "" => bail!("its keeper is gone"),
            answer if answer.starts_with('{') => Ok(serde_json::from_str(answer)?),
            error => Err(Refused(error.to_owned()).into()),
        }
    }
}
