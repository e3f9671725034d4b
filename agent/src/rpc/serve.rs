//! Clients and their requests.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use stockade_sdk::identity;
use stockade_session::{Found, Store};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Client;
use super::live::Live;
use super::socket;
use crate::flags::is_uuid;
use crate::hosted::Hosted;
use crate::session::store;

/// Longest message, and most sessions.
const LONGEST: u64 = 16 << 20;
const SESSIONS: usize = 1_000;
/// How often idle sessions are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long a client that ends may take to read its last answers.
const LAST: Duration = Duration::from_secs(10);
/// Codes of errors (JSON-RPC 2.0, section 5.1).
const NO_JSON: i64 = -32_700;
const NO_REQUEST: i64 = -32_600;
pub(super) const UNKNOWN_METHOD: i64 = -32_601;
pub(super) const INVALID: i64 = -32_602;
const FAILED: i64 = -32_603;

/// Options of `stockade rpc`.
#[derive(Debug, Args)]
pub(crate) struct Rpc {
    /// Listen on this socket instead of standard input, for several clients of one user
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    socket: Option<Option<PathBuf>>,
    /// Carry standard input and output to the server that listens on this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, conflicts_with_all = ["socket", "session_idle_timeout", "options"])]
    connect: Option<Option<PathBuf>>,
    /// Close sessions in which nothing happened for so many seconds
    #[arg(long, value_name = "SECONDS")]
    session_idle_timeout: Option<u64>,
    /// Options of every session, such as `--model NAME` or `--settings FILE`
    #[arg(value_name = "OPTION", allow_hyphen_values = true, trailing_var_arg = true)]
    options: Vec<OsString>,
}

/// A failure: code and message.
pub(super) type Failure = (i64, String);

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    options: Vec<OsString>,
    pub(super) store: Store,
    pub(super) sessions: Mutex<HashMap<String, Arc<Live>>>,
    clients: Mutex<Vec<Arc<Client>>>,
    pub(super) foreground: Mutex<Option<String>>,
    next: AtomicU64,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn failure(id: &Value, code: i64, words: &str) -> Value {
    json!({ "id": id, "error": { "code": code, "message": words } })
}

/// Writes to a client what is said to it, until nothing more comes or it reads no more.
async fn write(
    client: Arc<Client>,
    mut lines: mpsc::UnboundedReceiver<Option<String>>,
    mut output: impl AsyncWrite + Unpin,
) {
    while let Some(Some(line)) = lines.recv().await {
        let done = output.write_all(line.as_bytes()).await;
        if done.is_err() || output.flush().await.is_err() {
            return;
        }
        client.written(line.len());
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    (FAILED, error.to_string())
}

/// Serves until standard input ends, or for ever on a socket.
pub(crate) fn run(options: Rpc) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(path) = options.connect {
        let done = runtime.block_on(socket::connect(path));
        runtime.shutdown_background();
        return done.map(|()| ExitCode::SUCCESS);
    }
    let path = options.socket.map(socket::path).transpose()?;
    let server = Arc::new(Server {
        options: options.options,
        store: store()?,
        sessions: Mutex::default(),
        clients: Mutex::default(),
        foreground: Mutex::default(),
        next: AtomicU64::new(1),
    });
    let idle = options.session_idle_timeout.map(Duration::from_secs);
    let done = runtime.block_on(async {
        let idling = Arc::clone(&server).close_idle(idle);
        tokio::select! {
            done = Arc::clone(&server).listen(path.as_deref()) => done,
            () = idling => Ok(()),
        }
    });
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

impl Server {
    async fn listen(self: Arc<Self>, socket: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = socket else {
            Arc::clone(&self).client(tokio::io::stdin(), tokio::io::stdout(), true).await;
            return Ok(());
        };
        let listener = socket::bind(path)?;
        loop {
            let stream = socket::accept(&listener).await?;
            let (input, output) = stream.into_split();
            tokio::spawn(Arc::clone(&self).client(input, output, false));
        }
    }

    async fn close_idle(self: Arc<Self>, after: Option<Duration>) {
        let Some(after) = after else { return std::future::pending().await };
        loop {
            tokio::time::sleep(LOOK).await;
            let is_idle = |live: &&Arc<Live>| !live.is_busy() && live.used().elapsed() >= after;
            let idle: Vec<Arc<Live>> =
                locked(&self.sessions).values().filter(is_idle).cloned().collect();
            for live in idle {
                self.close(&live.id).await;
            }
        }
    }

    /// Serves a client until it closes its side and its requests are answered; the only one ends the sessions, too.
    async fn client(
        self: Arc<Self>,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        is_only: bool,
    ) {
        let (out, lines) = mpsc::unbounded_channel();
        let client = Arc::new(Client::new(self.next.fetch_add(1, Ordering::Relaxed), out));
        locked(&self.clients).push(Arc::clone(&client));
        let mut writer = tokio::spawn(write(Arc::clone(&client), lines, output));
        let serves = async {
            let mut requests = self.read(&client, input).await;
            while requests.join_next().await.is_some() {}
            if is_only {
                let open: Vec<Arc<Live>> = locked(&self.sessions).values().cloned().collect();
                for live in open {
                    self.close(&live.id).await;
                }
            }
        };
        tokio::select! {
            () = serves => {
                client.end();
                let _ = tokio::time::timeout(LAST, &mut writer).await; // one that does not read misses it
            }
            () = client.dropped() => {}
            _ = &mut writer => {}
        }
        writer.abort();
        locked(&self.clients).retain(|it| it.number != client.number);
        if is_only {
            locked(&self.sessions).clear();
        }
    }

    /// Reads requests until there are no more, and returns those that are not answered yet.
    async fn read(
        self: &Arc<Self>,
        client: &Arc<Client>,
        input: impl AsyncRead + Unpin,
    ) -> JoinSet<()> {
        let mut requests = JoinSet::new();
        let mut input = BufReader::with_capacity(64 << 10, input);
        loop {
            let mut line = Vec::new();
            match (&mut input).take(LONGEST).read_until(b'\n', &mut line).await {
                Ok(count) if count > 0 && line.ends_with(b"\n") => {}
                Ok(count) if count as u64 >= LONGEST => {
                    let words =
                        format!("a message is longer than {LONGEST} bytes; the connection ends");
                    client.say(failure(&Value::Null, NO_REQUEST, &words));
                    return requests;
                }
                Ok(_) | Err(_) => return requests,
            }
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) => self.take(client, message, &mut requests),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(error) => client.say(failure(&Value::Null, NO_JSON, &error.to_string())),
            }
            while requests.try_join_next().is_some() {}
        }
    }

    fn take(self: &Arc<Self>, client: &Arc<Client>, message: Value, requests: &mut JoinSet<()>) {
        if !message.get("method").is_some_and(Value::is_string) {
            let id = message.get("id").cloned().unwrap_or_default();
            let words = "the message is no request: it has no `method`";
            client.say(failure(&id, NO_REQUEST, words));
            return;
        }
        let Some(id) = message.get("id").cloned() else { return };
        let (server, client) = (Arc::clone(self), Arc::clone(client));
        requests.spawn(async move {
            let params = message.get("params").cloned().unwrap_or_default();
            let method = match text(&message, "method") {
                short if short.starts_with("settings.") || short.starts_with("plan.") => {
                    format!("session.{short}")
                }
                method => method.to_owned(),
            };
            let answer = server.request(&client, &method, &params).await;
            client.say(match answer {
                Ok(result) => json!({ "id": id, "result": result }),
                Err((code, words)) => failure(&id, code, &words),
            });
        });
    }

    /// Tells everybody who listens to a session.
    pub(super) fn tell(&self, session: &str, message: &Value) {
        let clients = locked(&self.clients).clone();
        clients.iter().filter(|it| it.has(session)).for_each(|it| it.say(message.clone()));
    }

    async fn request(
        self: &Arc<Self>,
        client: &Client,
        method: &str,
        params: &Value,
    ) -> Result<Value, Failure> {
        match method {
            "session.settings.get" | "session.settings.list" | "session.settings.toggle" => {
                self.settings(method, params).await
            }
            "session.create" => {
                let id = Some(text(params, "id")).filter(|id| !id.is_empty());
                let id = id.map_or_else(identity, str::to_owned);
                if !is_uuid(&id) {
                    return Err((INVALID, "`id` is not a UUID".to_owned()));
                }
                if self.store.has(&id) {
                    return Err((
                        INVALID,
                        "a session of this identity exists; resume it".to_owned(),
                    ));
                }
                self.open(client, params, (&id, &["--session-id", &id])).await
            }
            "session.resume" => {
                let found = self.found(params)?;
                self.open(client, params, (&found.id, &["--resume", &found.id])).await
            }
            "session.fork" => self.fork(client, params).await,
            "session.send" => self.send(params),
            "session.answer" => self.answer(client, params),
            "session.subscribe" => {
                let live = self.live(params)?;
                let after = params.get("after").and_then(Value::as_u64);
                client.subscribe(&live.id);
                let (missed, has_gap) = live.since(after.unwrap_or_else(|| live.last()));
                missed.into_iter().chain(live.open_questions()).for_each(|it| client.say(it));
                Ok(json!({ "seq": live.last(), "gap": has_gap && after.is_some() }))
            }
            "session.abort" => self.control(params, json!({ "subtype": "interrupt" })).await,
            "session.setMode" => {
                let mode =
                    json!({ "subtype": "set_permission_mode", "mode": text(params, "mode") });
                self.control(params, mode).await
            }
            "session.setModel" => {
                let model = json!({ "subtype": "set_model", "model": text(params, "model") });
                self.control(params, model).await
            }
            "session.rewindFiles" => {
                let what = json!({ "subtype": "rewind_files", "user_message_id": text(params, "message") });
                self.control(params, what).await
            }
            "session.destroy" => {
                let live = self.live(params)?;
                self.close(&live.id).await;
                Ok(json!({}))
            }
            _ => self.stored(method, params).await,
        }
    }

    /// Opens a session that goes on from another one, whole or up to a message.
    async fn fork(self: &Arc<Self>, client: &Client, params: &Value) -> Result<Value, Failure> {
        let (found, id) = (self.found(params)?, identity());
        let mut options = vec!["--resume", &found.id, "--fork-session", "--session-id", &id];
        let at = text(params, "at");
        options.extend(
            Some(["--resume-session-at", at]).filter(|_| !at.is_empty()).into_iter().flatten(),
        );
        self.open(client, params, (&id, &options)).await
    }

    /// Gives a session a message of the user.
    fn send(&self, params: &Value) -> Result<Value, Failure> {
        let live = self.live(params)?;
        let content = match (params.get("content"), params.get("text")) {
            (Some(content @ Value::Array(_)), _) => content.clone(),
            (_, Some(words @ Value::String(_))) => words.clone(),
            _ => return Err((INVALID, "`text` or `content` is missing".to_owned())),
        };
        live.begin();
        live.hosted.prompt(&content);
        Ok(json!({}))
    }

    pub(super) fn live(&self, params: &Value) -> Result<Arc<Live>, Failure> {
        let id = text(params, "id");
        let missing = || (INVALID, format!("the session `{}` is not open", id.escape_debug()));
        locked(&self.sessions).get(id).cloned().ok_or_else(missing)
    }

    /// Returns the stored session with exactly this identity: nothing is taken up by name or beginning.
    pub(super) fn found(&self, params: &Value) -> Result<Found, Failure> {
        let id = text(params, "id");
        let found = self.store.find(id).map_err(|error| (INVALID, error.to_string()))?;
        match found.id == id {
            true => Ok(found),
            false => Err((INVALID, format!("the session `{}` does not exist", id.escape_debug()))),
        }
    }

    pub(super) async fn control(&self, params: &Value, what: Value) -> Result<Value, Failure> {
        let live = self.live(params)?;
        live.hosted.request(what).await.map_err(|error| (FAILED, error))
    }

    pub(super) async fn close(&self, id: &str) {
        let live = locked(&self.sessions).remove(id);
        if let Some(live) = live {
            live.hosted.close().await;
            self.tell(id, &json!({ "method": "session.closed", "params": { "session": id } }));
        }
    }

    async fn open(
        self: &Arc<Self>,
        client: &Client,
        params: &Value,
        (id, options): (&str, &[&str]),
    ) -> Result<Value, Failure> {
        let cwd = text(params, "cwd");
        if !Path::new(cwd).is_absolute() || !Path::new(cwd).is_dir() {
            return Err((INVALID, "`cwd` is not the absolute path of a directory".to_owned()));
        }
        if locked(&self.sessions).len() >= SESSIONS {
            return Err((FAILED, format!("{SESSIONS} sessions are open already")));
        }
        if locked(&self.sessions).contains_key(id) {
            return Err((INVALID, "the session is open; subscribe to it".to_owned()));
        }
        let mut all = self.options.clone();
        all.extend(options.iter().map(OsString::from));
        let (told, mut frames) = mpsc::unbounded_channel();
        let hosted = Hosted::start(Path::new(cwd), &all, move |frame| drop(told.send(frame)));
        let hosted = hosted.map_err(|error| failed(format!("{error:#}")))?;
        let live = Arc::new(Live::new(id, cwd, hosted));
        locked(&self.sessions).insert(id.to_owned(), Arc::clone(&live));
        let (server, reads) = (Arc::clone(self), Arc::clone(&live));
        tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                server.frame(&reads, frame);
            }
        });
        let begun = live.hosted.request(json!({ "subtype": "initialize", "hooks": null })).await;
        if let Err(error) = begun {
            locked(&self.sessions).remove(id);
            return Err((FAILED, error));
        }
        live.rest();
        client.subscribe(id);
        Ok(json!({ "id": id, "seq": live.last() }))
    }

    fn frame(&self, live: &Arc<Live>, frame: Value) {
        let id = text(&frame, "request_id");
        match text(&frame, "type") {
            "control_request"
                if text(frame.get("request").unwrap_or(&Value::Null), "subtype")
                    == "can_use_tool" =>
            {
                let request = frame.get("request").cloned().unwrap_or_default();
                let question = live.question(id, &request);
                self.tell(&live.id, &question);
            }
            "control_request" => {
                let response =
                    json!({ "subtype": "error", "request_id": id, "error": "it is not supported" });
                live.hosted.send(json!({ "type": "control_response", "response": response }));
            }
            "control_cancel_request" => {
                live.answered(id);
                self.withdraw(live, id);
            }
            _ if frame.is_null() => {
                locked(&self.sessions).remove(&live.id);
                let params = json!({ "session": live.id });
                self.tell(&live.id, &json!({ "method": "session.closed", "params": params }));
            }
            _ => self.tell(&live.id, &live.event(frame)),
        }
    }

    fn withdraw(&self, live: &Live, question: &str) {
        let params = json!({ "session": live.id, "question": question });
        self.tell(&live.id, &json!({ "method": "session.questionWithdrawn", "params": params }));
    }

    /// Takes an answer to a question. The first one counts.
    fn answer(&self, client: &Client, params: &Value) -> Result<Value, Failure> {
        let (live, id) = (self.live(params)?, text(params, "question"));
        if !client.has(&live.id) {
            let words = "only a client that subscribed to the session answers its questions";
            return Err((INVALID, words.to_owned()));
        }
        let behavior = text(params, "behavior");
        if !["allow", "deny"].contains(&behavior) {
            return Err((INVALID, "`behavior` is neither `allow` nor `deny`".to_owned()));
        }
        let Some(asked) = live.answered(id) else {
            return Err((INVALID, "the question is not open any more".to_owned()));
        };
        let input = params.get("updatedInput").or_else(|| asked.get("input"));
        let message = Some(text(params, "message")).filter(|it| !it.is_empty());
        let answer = match behavior {
            "allow" => json!({ "behavior": "allow", "updatedInput": input,
                "updatedPermissions": params.get("updatedPermissions").cloned().unwrap_or_else(|| json!([])) }),
            _ => {
                json!({ "behavior": "deny", "message": message.unwrap_or("The user rejected the call."),
                "interrupt": params.get("interrupt").and_then(Value::as_bool).unwrap_or_default() })
            }
        };
        let response = json!({ "subtype": "success", "request_id": id, "response": answer });
        live.hosted.send(json!({ "type": "control_response", "response": response }));
        self.withdraw(&live, id);
        Ok(json!({}))
    }
}
