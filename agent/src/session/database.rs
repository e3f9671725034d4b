//! Statements of the `sql` tool, as the keeper has them done: each in a process of its own, without the key of the model, with
//! limits of time and memory.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use stockade_index::{Database, Index, ask};
use stockade_session::Store;

use super::start::Begun;
use super::{here, indexed, store};

/// Longest question and answer, in bytes.
const QUESTION: u64 = 1 << 20;
const ANSWER: u64 = 4 << 20;
/// How long the agent has for a question, and a process for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limits of a process: memory and files in bytes, processor time in seconds.
const LIMITS: [(Resource, u64); 4] = [
    (Resource::As, 1 << 30),
    (Resource::Fsize, 256 << 20),
    (Resource::Cpu, 20),
    (Resource::Core, 0),
];
/// The scratch database of a session.
const FILE: &str = "session.db";

/// The databases that a session may ask.
#[derive(Debug)]
pub(crate) struct Databases {
    store: Option<Store>,
    session: String,
    /// Directory whose sessions `store` shows: the root of the repository around the session's directory, or that itself.
    root: String,
    is_stored: bool,
}

impl Databases {
    pub(crate) fn of(begun: &Begun, is_stored: bool) -> Databases {
        let place = here(&begun.cwd);
        Databases {
            store: store().ok(),
            session: begun.setup.id.clone(),
            root: place.git_root.unwrap_or(place.cwd),
            is_stored,
        }
    }

    /// Answers the agent, one question after the other.
    pub(crate) fn serve(&self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            let _ = self.answer(stream); // the agent has gone
        }
    }

    fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = Vec::new();
        BufReader::new(stream.try_clone()?).take(QUESTION).read_until(b'\n', &mut line)?;
        let asked: Value = serde_json::from_slice(&line).unwrap_or_default();
        let told = self.asked(&asked).unwrap_or_else(|error| failed(&format!("{error:#}")));
        stream.write_all(format!("{told}\n").as_bytes())
    }

    fn asked(&self, asked: &Value) -> anyhow::Result<Value> {
        let store = self.store.as_ref().context("sessions have no place")?;
        let query = asked.get("query").and_then(Value::as_str).context("there is no query")?;
        let place = match asked.get("database").and_then(Value::as_str) {
            Some("session") if !self.is_stored => Value::Null,
            Some("session") => {
                let folder = store.folder(&self.session).filter(|it| it.is_dir());
                json!(folder.context("the session is not stored yet")?.join(FILE))
            }
            Some("store") => {
                indexed::read(store, |_| Ok(()))?;
                json!(Index::path(store))
            }
            Some(_) | None => anyhow::bail!("the database is `session` or `store`"),
        };
        let root = asked.get("database").filter(|it| *it == "store").map(|_| &self.root);
        in_a_process(&json!({ "query": query, "path": place, "root": root }))
    }
}

fn failed(error: &str) -> Value {
    json!({ "error": error })
}

/// Does a statement in a process of its own.
fn in_a_process(asked: &Value) -> anyhow::Result<Value> {
    let own = std::env::current_exe().context("its own path is unknown")?;
    let mut command = Command::new(own);
    command.arg("sql").env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("the statement cannot be started")?;
    let told = exchange(&mut child, asked);
    let _ = child.kill(); // it has ended, mostly
    let _ = child.wait();
    told
}

fn exchange(child: &mut Child, asked: &Value) -> anyhow::Result<Value> {
    let (mut stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("no pipes")?;
    stdin.write_all(format!("{asked}\n").as_bytes())?;
    drop(stdin);
    let (sender, answer) = mpsc::channel();
    std::thread::Builder::new().name("sql answer".into()).spawn(move || {
        let mut line = Vec::new();
        let read = stdout.take(ANSWER).read_to_end(&mut line);
        let _ = sender.send(read.map(|_| line)); // nobody waits any more
    })?;
    let line = answer.recv_timeout(PATIENCE).context("the statement took too long")??;
    serde_json::from_slice(&line).context("the statement needs too much memory, time or space")
}

/// Is the process of one statement.
pub(crate) fn serve() -> ExitCode {
    for (resource, most) in LIMITS {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        if setrlimit(resource, limit).is_err() {
            return ExitCode::FAILURE;
        }
    }
    let mut line = Vec::new();
    let told = match std::io::stdin().lock().take(2 * QUESTION).read_until(b'\n', &mut line) {
        Ok(_) => done(&line),
        Err(error) => failed(&error.to_string()),
    };
    let written = std::io::stdout().lock().write_all(told.to_string().as_bytes());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn done(line: &[u8]) -> Value {
    let asked: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = |key: &str| asked.get(key).and_then(Value::as_str);
    let path = text("path").map(PathBuf::from);
    let database = match (&path, text("root")) {
        (Some(index), Some(root)) => Database::Store { index, root },
        (path, _) => Database::Session(path.as_deref()),
    };
    match ask(database, text("query").unwrap_or_default()) {
        Ok(table) => table.object(),
        Err(error) => failed(&error),
    }
}
