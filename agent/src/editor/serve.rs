//! Requests of the editor; each session is a program of its own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use serde_json::{Value, json};
use stockade_sdk::identity;
use stockade_session::Store;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};

use super::{elicit, updates};
use crate::hosted::Hosted;
use crate::session::store;

/// The version of the protocol.
const VERSION: u64 = 1;
/// Longest message of the editor, and most sessions.
const LONGEST: u64 = 16 << 20;
const SESSIONS: usize = 1_000;
/// Codes of errors (JSON-RPC 2.0, section 5.1, and the protocol's own for what is not there).
const UNKNOWN_METHOD: i64 = -32_601;
const INVALID: i64 = -32_602;
const FAILED: i64 = -32_603;
const MISSING: i64 = -32_002;
/// Member of an answer of the editor that is an error.
const FAILS: &str = "stockade_error";
/// Permission modes, with the words that an editor shows.
const MODES: [(&str, &str, &str); 4] = [
    ("default", "Ask", "Edits, and what no rule covers, are asked"),
    ("acceptEdits", "Accept edits", "Edits in the working directories are allowed"),
    ("plan", "Plan", "Nothing is changed"),
    ("dontAsk", "Do not ask", "What would be asked is refused"),
];
/// Models that an editor may choose.
const MODELS: [(&str, &str); 4] =
    [("default", "Default"), ("sonnet", "Sonnet"), ("opus", "Opus"), ("haiku", "Haiku")];

/// Options of `stockade acp`.
#[derive(Debug, Args)]
pub(crate) struct Acp {
    /// Options of every session, such as `--model NAME` or `--settings FILE`
    #[arg(value_name = "OPTION", allow_hyphen_values = true, trailing_var_arg = true)]
    options: Vec<OsString>,
}

/// A failure: code and message.
type Failure = (i64, String);

/// A session that the editor has open.
#[derive(Debug)]
struct Live {
    hosted: Arc<Hosted>,
    /// The prompt that is answered now.
    prompt: Mutex<Option<oneshot::Sender<Result<Value, Failure>>>>,
    is_cancelled: AtomicBool,
    model: Mutex<String>,
    /// The permission mode with which it began.
    mode: Mutex<String>,
}

/// The server of one editor.
#[derive(Debug)]
struct Server {
    out: mpsc::UnboundedSender<Value>,
    options: Vec<OsString>,
    store: Store,
    sessions: Mutex<HashMap<String, Arc<Live>>>,
    /// Requests to the editor that wait for an answer.
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next: AtomicU64,
    /// The editor shows forms.
    has_forms: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Serves an editor until it closes standard input.
pub(crate) fn run(options: Acp) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (out, mut messages) = mpsc::unbounded_channel::<Value>();
    let writer = std::thread::spawn(move || {
        while let Some(message) = messages.blocking_recv() {
            crate::output::line(&message);
        }
    });
    let server = Arc::new(Server {
        out,
        options: options.options,
        store: store()?,
        sessions: Mutex::default(),
        asked: Mutex::default(),
        next: AtomicU64::new(1),
        has_forms: AtomicBool::new(false),
    });
    runtime.block_on(server.serve());
    // Sessions and threads that are left end with this process.
    runtime.shutdown_background();
    drop(writer);
    Ok(ExitCode::SUCCESS)
}

impl Server {
    async fn serve(self: Arc<Self>) {
        let mut input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
        loop {
            let mut line = Vec::new();
            match (&mut input).take(LONGEST).read_until(b'\n', &mut line).await {
                Ok(count) if count > 0 && line.ends_with(b"\n") => {}
                Ok(_) | Err(_) => break,
            }
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) => self.take(message),
                Err(error) if !line.trim_ascii().is_empty() => {
                    let error = json!({ "code": -32_700, "message": error.to_string() });
                    self.say(json!({ "id": null, "error": error }));
                }
                Err(_) => {}
            }
        }
        let sessions: Vec<Arc<Live>> = locked(&self.sessions).drain().map(|it| it.1).collect();
        for live in sessions {
            live.hosted.close().await;
        }
    }

    fn say(&self, mut message: Value) {
        if let Some(fields) = message.as_object_mut() {
            fields.insert("jsonrpc".into(), json!("2.0"));
        }
        let _ = self.out.send(message); // the writer lives as long as this process
    }

    fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.say(json!({ "method": "session/update", "params": params }));
    }

    fn take(self: &Arc<Self>, message: Value) {
        let method = text(&message, "method").to_owned();
        let params = message.get("params").cloned().unwrap_or_default();
        match (message.get("id").cloned(), method.is_empty()) {
            (Some(id), false) => {
                let server = Arc::clone(self);
                tokio::spawn(async move {
                    let answer = server.request(&method, &params).await;
                    server.say(match answer {
                        Ok(result) => json!({ "id": id, "result": result }),
                        Err((code, message)) => {
                            json!({ "id": id, "error": { "code": code, "message": message } })
                        }
                    });
                });
            }
            (Some(id), true) => {
                let waiting = id.as_u64().and_then(|id| locked(&self.asked).remove(&id));
                if let Some(waiting) = waiting {
                    let failed = || json!({ FAILS: message.get("error") });
                    let _ = waiting.send(message.get("result").cloned().unwrap_or_else(failed)); // it was withdrawn
                }
            }
            (None, _) if method == "session/cancel" => self.cancel(&params),
            (None, _) => {}
        }
    }

    fn cancel(&self, params: &Value) {
        let live = locked(&self.sessions).get(text(params, "sessionId")).cloned();
        if let Some(live) = live.filter(|live| locked(&live.prompt).is_some()) {
            live.is_cancelled.store(true, Ordering::Relaxed);
            tokio::spawn(
                async move { live.hosted.request(json!({ "subtype": "interrupt" })).await },
            );
        }
    }

    async fn request(self: &Arc<Self>, method: &str, params: &Value) -> Result<Value, Failure> {
        match method {
            "initialize" => {
                let forms = params.pointer("/clientCapabilities/elicitation/form");
                self.has_forms.store(forms.is_some_and(Value::is_object), Ordering::Relaxed);
                Ok(initialized())
            }
            "session/new" => {
                let id = identity();
                let live = self.open(params, (&id, &["--session-id", &id])).await?;
                let more = self.begun(&live);
                Ok(json!({ "sessionId": id, "modes": more.0, "configOptions": more.1 }))
            }
            "session/fork" => {
                let (from, id) = (self.stored(text(params, "sessionId"))?, identity());
                let options = ["--resume", &from, "--fork-session", "--session-id", &id];
                let live = self.open(params, (&id, &options)).await?;
                let more = self.begun(&live);
                Ok(json!({ "sessionId": id, "modes": more.0, "configOptions": more.1 }))
            }
            "session/load" | "session/resume" => {
                let id = self.stored(text(params, "sessionId"))?;
                let live = self.open(params, (&id, &["--resume", &id])).await?;
                if method == "session/load" {
                    self.replay(&id)?;
                }
                let more = self.begun(&live);
                Ok(json!({ "modes": more.0, "configOptions": more.1 }))
            }
            "session/list" => Ok(self.list(params)),
            "session/close" | "session/delete" => self.close(method, params).await,
            "session/set_mode" => {
                let mode =
                    json!({ "subtype": "set_permission_mode", "mode": text(params, "modeId") });
                let done = self.live(params)?.hosted.request(mode).await;
                done.map(|_| json!({})).map_err(|error| (INVALID, error))
            }
            "session/set_config_option" => {
                let live = self.live(params)?;
                let value = text(params, "value");
                if text(params, "configId") != "model" || !MODELS.iter().any(|it| it.0 == value) {
                    return Err((INVALID, "there is no such option or value".to_owned()));
                }
                let done =
                    live.hosted.request(json!({ "subtype": "set_model", "model": value })).await;
                done.map_err(|error| (FAILED, error))?;
                value.clone_into(&mut locked(&live.model));
                Ok(json!({ "configOptions": self.begun(&live).1 }))
            }
            "session/prompt" => self.prompt(params).await,
            other => {
                Err((UNKNOWN_METHOD, format!("there is no method `{}`", other.escape_debug())))
            }
        }
    }

    /// Closes a session, and deletes it if the method says so.
    async fn close(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = text(params, "sessionId");
        let live = locked(&self.sessions).remove(id);
        let was_open = live.is_some();
        if let Some(live) = live {
            live.hosted.close().await;
        }
        if method == "session/delete" {
            let found = self.store.find(&self.stored(id)?);
            let deleted = found.and_then(|found| self.store.delete(&found));
            deleted.map_err(|error| (FAILED, error.to_string()))?;
        } else if !was_open {
            return Err((MISSING, format!("the session `{}` is not open", id.escape_debug())));
        }
        Ok(json!({}))
    }

    fn live(&self, params: &Value) -> Result<Arc<Live>, Failure> {
        let id = text(params, "sessionId");
        let missing = || (MISSING, format!("the session `{}` is not open", id.escape_debug()));
        locked(&self.sessions).get(id).cloned().ok_or_else(missing)
    }

    /// Returns the identity of a session that is stored: it is never one by name or beginning.
    fn stored(&self, id: &str) -> Result<String, Failure> {
        let found = self.store.find(id).map_err(|error| (MISSING, error.to_string()))?;
        match found.id == id {
            true => Ok(found.id),
            false => Err((MISSING, format!("the session `{}` does not exist", id.escape_debug()))),
        }
    }

    /// Starts the program of a session.
    async fn open(
        self: &Arc<Self>,
        params: &Value,
        (id, how): (&str, &[&str]),
    ) -> Result<Arc<Live>, Failure> {
        let cwd = PathBuf::from(text(params, "cwd"));
        if !cwd.is_absolute() || !cwd.is_dir() {
            return Err((INVALID, "`cwd` is not the absolute path of a directory".to_owned()));
        }
        if locked(&self.sessions).len() >= SESSIONS {
            return Err((FAILED, format!("{SESSIONS} sessions are open already")));
        }
        if locked(&self.sessions).contains_key(id) {
            return Err((INVALID, "the session is open already".to_owned()));
        }
        let servers = params.get("mcpServers").and_then(Value::as_array).map_or(0, Vec::len);
        if servers > 0 {
            eprintln!(
                "stockade: {servers} MCP servers of the editor are left out: they are not supported yet"
            );
        }
        let mut options = self.options.clone();
        options.extend(how.iter().map(OsString::from));
        let more = params.get("additionalDirectories").and_then(Value::as_array);
        for directory in more.into_iter().flatten().filter_map(Value::as_str) {
            options.extend([OsString::from("--add-dir"), OsString::from(directory)]);
        }
        let live =
            self.start(&cwd, &options, id).map_err(|error| (FAILED, format!("{error:#}")))?;
        let begun = live.hosted.request(json!({ "subtype": "initialize", "hooks": null })).await;
        match begun {
            Ok(begun) => {
                text(&begun, "current_permission_mode").clone_into(&mut locked(&live.mode))
            }
            Err(error) => {
                locked(&self.sessions).remove(id);
                return Err((FAILED, error));
            }
        }
        Ok(live)
    }

    fn start(
        self: &Arc<Self>,
        cwd: &Path,
        options: &[OsString],
        id: &str,
    ) -> anyhow::Result<Arc<Live>> {
        let (told, mut frames) = mpsc::unbounded_channel();
        let hosted = Hosted::start(cwd, options, move |frame| drop(told.send(frame)))?;
        let live = Arc::new(Live {
            hosted,
            prompt: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            model: Mutex::new("default".to_owned()),
            mode: Mutex::default(),
        });
        locked(&self.sessions).insert(id.to_owned(), Arc::clone(&live));
        let (server, shared, id) = (Arc::clone(self), Arc::clone(&live), id.to_owned());
        tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                server.frame(&id, &shared, frame);
            }
        });
        Ok(live)
    }

    fn frame(self: &Arc<Self>, id: &str, live: &Arc<Live>, frame: Value) {
        let request = frame.get("request").cloned().unwrap_or_default();
        match (text(&frame, "type"), text(&request, "subtype")) {
            ("control_request", "can_use_tool") => {
                let (server, live, id) = (Arc::clone(self), Arc::clone(live), id.to_owned());
                tokio::spawn(async move {
                    let answer = server.ask(&id, &request).await;
                    let response = json!({ "subtype": "success", "response": answer,
                        "request_id": frame.get("request_id") });
                    live.hosted.send(json!({ "type": "control_response", "response": response }));
                });
            }
            ("control_request", other) => {
                let response = json!({ "subtype": "error", "request_id": frame.get("request_id"),
                    "error": format!("`{other}` is not supported") });
                live.hosted.send(json!({ "type": "control_response", "response": response }));
            }
            ("result", _) => {
                let is_cancelled = live.is_cancelled.swap(false, Ordering::Relaxed);
                let stop = updates::stop(&frame, is_cancelled);
                let answer = stop.map(|stop| json!({ "stopReason": stop }));
                if let Some(prompt) = locked(&live.prompt).take() {
                    let _ = prompt.send(answer.map_err(|error| (FAILED, error))); // nobody waits any more
                }
            }
            _ if frame.is_null() => {
                locked(&self.sessions).remove(id);
                drop(locked(&live.prompt).take());
            }
            _ => updates::of_frame(&frame).into_iter().for_each(|update| self.update(id, update)),
        }
    }

    /// Sends a request to the editor, and waits for its answer.
    async fn ask_editor(&self, method: &str, params: Value) -> Value {
        let (sender, receiver) = oneshot::channel();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.asked).insert(id, sender);
        self.say(json!({ "id": id, "method": method, "params": params }));
        receiver.await.unwrap_or_default()
    }

    /// Puts a question to the editor. Whatever is no clear yes is a no.
    async fn ask(&self, session: &str, request: &Value) -> Value {
        let input = request.get("input").cloned().unwrap_or_default();
        let (tool, call) = (text(request, "tool_name"), text(request, "tool_use_id"));
        let has_form = tool == elicit::TOOL && self.has_forms.load(Ordering::Relaxed);
        if let Some(form) = has_form.then(|| elicit::form(session, call, &input)).flatten() {
            let answer = self.ask_editor("elicitation/create", form).await;
            return elicit::decided(&input, &answer);
        }
        let suggestions = request.get("permission_suggestions").cloned().unwrap_or_default();
        let has_more = suggestions.as_array().is_some_and(|it| !it.is_empty());
        let mut call = updates::call(call, tool, &input);
        if let Some(call) = call.as_object_mut() {
            let reason = json!({ "type": "text", "text": text(request, "decision_reason") });
            call.insert("content".into(), json!([{ "type": "content", "content": reason }]));
            call.insert("status".into(), json!("pending"));
        }
        let option = |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
        let mut options = vec![option("allow_once", "Allow once")];
        options.extend(has_more.then(|| option("allow_always", "Allow for this session")));
        options.push(option("reject_once", "Reject"));
        let params = json!({ "sessionId": session, "toolCall": call, "options": options });
        let answer = self.ask_editor("session/request_permission", params).await;
        let outcome = answer.get("outcome").cloned().unwrap_or_default();
        let chosen =
            Some(text(&outcome, "optionId")).filter(|_| text(&outcome, "outcome") == "selected");
        match chosen {
            Some("allow_once") => json!({ "behavior": "allow", "updatedInput": input }),
            Some("allow_always") if has_more => {
                json!({ "behavior": "allow", "updatedInput": input, "updatedPermissions": suggestions })
            }
            Some(_) => json!({ "behavior": "deny", "message": "The user rejected the call." }),
            // An editor that cannot ask has not cancelled anything.
            None if answer.get(FAILS).is_some() => {
                json!({ "behavior": "deny", "message": "The editor could not ask the user." })
            }
            None => {
                json!({ "behavior": "deny", "message": "The question was cancelled.", "interrupt": true })
            }
        }
    }

    async fn prompt(&self, params: &Value) -> Result<Value, Failure> {
        let live = self.live(params)?;
        let blocks = params.get("prompt").cloned().unwrap_or_default();
        let content = updates::prompt(&blocks).map_err(|error| (INVALID, error))?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut prompt = locked(&live.prompt);
            if prompt.is_some() {
                return Err((INVALID, "the session answers another prompt".to_owned()));
            }
            *prompt = Some(sender);
        }
        live.is_cancelled.store(false, Ordering::Relaxed);
        live.hosted.prompt(&content);
        receiver.await.unwrap_or_else(|_| Err((FAILED, "the session is over".to_owned())))
    }

    fn list(&self, params: &Value) -> Value {
        let cwd = text(params, "cwd");
        let all = self.store.list().into_iter();
        let sessions = all.filter(|found| cwd.is_empty() || found.workspace.cwd == cwd).map(|found| {
            json!({ "sessionId": found.id, "cwd": found.workspace.cwd, "title": found.workspace.name,
                "updatedAt": found.workspace.updated_at })
        });
        json!({ "sessions": sessions.collect::<Vec<_>>() })
    }

    /// Shows what was said so far.
    fn replay(&self, id: &str) -> Result<(), Failure> {
        let failed = |error: stockade_session::Error| (FAILED, error.to_string());
        let found = self.store.find(id).map_err(failed)?;
        let (state, _) = self.store.state(&found).map_err(failed)?;
        for said in &state.messages {
            let updates = updates::of_message(&said.content, said.by_model, &Value::Null);
            updates.into_iter().for_each(|update| self.update(id, update));
        }
        Ok(())
    }

    /// Returns modes and options of a session.
    fn begun(&self, live: &Live) -> (Value, Value) {
        let modes = MODES
            .iter()
            .map(|(id, name, words)| json!({ "id": id, "name": name, "description": words }));
        let models = MODELS.iter().map(|(id, name)| json!({ "value": id, "name": name }));
        let model = json!({ "id": "model", "name": "Model", "category": "model", "type": "select",
            "currentValue": *locked(&live.model), "options": models.collect::<Vec<_>>() });
        (
            json!({ "currentModeId": *locked(&live.mode), "availableModes": modes.collect::<Vec<_>>() }),
            json!([model]),
        )
    }
}

fn initialized() -> Value {
    json!({
        "protocolVersion": VERSION, "authMethods": [],
        "agentInfo": { "name": "stockade", "title": "stockade", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}, "additionalDirectories": {} },
        },
    })
}
