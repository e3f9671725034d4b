//! A session as a program of its own: `stockade agent` over the protocol of the SDKs. Front ends that serve several sessions
//! drive them so; what a session may do is decided behind its gateway, as for every other host.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde_json::{Value, json};
use stockade_sdk::{Incoming, identity, incoming, request};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot, watch};

/// Options of every session that is driven so.
const OPTIONS: [&str; 9] = [
    "agent",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--include-partial-messages",
];
/// Longest frame.
const LONGEST: u64 = 64 << 20;

/// Answers that are waited for, by the identity of the request.
type Waiting = HashMap<String, oneshot::Sender<Result<Value, String>>>;

/// A session that runs.
#[derive(Debug)]
pub(crate) struct Hosted {
    outgoing: Mutex<Option<mpsc::UnboundedSender<Value>>>,
    waiting: Mutex<Waiting>,
    over: watch::Receiver<bool>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hosted {
    /// Starts a session in a directory. Frames that are no answer come through `told`, and its end as null.
    pub(crate) fn start(
        cwd: &Path,
        options: &[OsString],
        told: impl Fn(Value) + Send + 'static,
    ) -> anyhow::Result<std::sync::Arc<Hosted>> {
        let beside = std::env::current_exe().context("its own path is unknown")?;
        let mut command = tokio::process::Command::new(beside.with_file_name("stockade"));
        command.args(OPTIONS).args(options).current_dir(cwd).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the session cannot be started")?;
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (outgoing, mut frames) = mpsc::unbounded_channel::<Value>();
        tokio::spawn(async move {
            while let (Some(stdin), Some(frame)) = (&mut stdin, frames.recv().await) {
                if stdin.write_all(format!("{frame}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let (ended, over) = watch::channel(false);
        let hosted = std::sync::Arc::new(Hosted {
            outgoing: Mutex::new(Some(outgoing)),
            waiting: Mutex::default(),
            over,
        });
        let reader = std::sync::Arc::downgrade(&hosted);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout.context("it says nothing")?);
            loop {
                let mut line = Vec::new();
                match (&mut lines).take(LONGEST).read_until(b'\n', &mut line).await {
                    Ok(count) if count > 0 && line.ends_with(b"\n") => {}
                    Ok(_) | Err(_) => break,
                }
                let text = String::from_utf8_lossy(&line);
                match (incoming(&text), reader.upgrade()) {
                    (Incoming::Response(id, answer), Some(hosted)) => hosted.answered(&id, answer),
                    (_, Some(_)) => told(serde_json::from_str(&text).unwrap_or_default()),
                    (_, None) => break,
                }
            }
            let _ = child.wait().await; // it is over, however it ended
            if let Some(hosted) = reader.upgrade() {
                locked(&hosted.waiting).clear();
            }
            told(Value::Null);
            let _ = ended.send(true); // nobody waits for it
            anyhow::Ok(())
        });
        Ok(hosted)
    }

    fn answered(&self, id: &str, answer: Result<Value, String>) {
        if let Some(waiting) = locked(&self.waiting).remove(id) {
            let _ = waiting.send(answer); // nobody waits any more
        }
    }

    /// Sends a frame. A session that is over takes none.
    pub(crate) fn send(&self, frame: Value) {
        if let Some(outgoing) = locked(&self.outgoing).as_ref() {
            let _ = outgoing.send(frame); // its end is told by itself
        }
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn request(&self, what: Value) -> Result<Value, String> {
        let (sender, receiver) = oneshot::channel();
        let id = identity();
        if *self.over.borrow() {
            return Err("the session is over".to_owned());
        }
        locked(&self.waiting).insert(id.clone(), sender);
        self.send(request(&id, what));
        receiver.await.unwrap_or_else(|_| Err("the session is over".to_owned()))
    }

    /// Sends a message of the user.
    pub(crate) fn prompt(&self, content: &Value) {
        self.send(json!({ "type": "user", "message": { "role": "user", "content": content },
            "parent_tool_use_id": null, "session_id": "default" }));
    }

    /// Ends the session when its work is done, and waits for that.
    pub(crate) async fn close(&self) {
        drop(locked(&self.outgoing).take());
        let mut over = self.over.clone();
        let _ = over.wait_for(|over| *over).await; // an error is an end as well
    }
}
