//! The program on the other side of the protocol: it answers questions, runs hooks and has servers of tools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crate::notes::shown;
use serde_json::{Value, json};
use stockade_door::{Asked, Host, Note, Pending, Reply};
use stockade_sdk::{Callback, Frames, Hooks, identity, request};
use tokio::sync::{mpsc, oneshot};

/// How long a server of the host may take.
const SERVER: Duration = Duration::from_secs(600);

/// The host.
pub(super) struct Program {
    outgoing: mpsc::UnboundedSender<Value>,
    frames: Frames,
    waiting: Mutex<HashMap<String, oneshot::Sender<Result<Value, String>>>>,
    hooks: RwLock<Hooks>,
    answers: bool,
    /// Hooks of the settings are told of.
    shows_hooks: bool,
    /// The host reads the state of the session.
    states: bool,
    questions: AtomicUsize,
    is_gone: AtomicBool,
    /// Something came up while no turn is running.
    woken: mpsc::UnboundedSender<()>,
}

/// Withdraws a request that nobody waits for any more.
struct Open<'a> {
    program: &'a Program,
    id: String,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.program.waiting().remove(&self.id).is_some() {
            self.program.send(json!({ "type": "control_cancel_request", "request_id": self.id }));
        }
    }
}

impl Program {
    pub(super) fn new(
        (outgoing, woken): (mpsc::UnboundedSender<Value>, mpsc::UnboundedSender<()>),
        frames: Frames,
        (answers, shows_hooks): (bool, bool),
    ) -> Program {
        let states = std::env::var("CLAUDE_CODE_SDK_READS_SESSION_STATE").is_ok_and(|it| it == "1");
        Program {
            outgoing,
            frames,
            waiting: Mutex::default(),
            hooks: RwLock::default(),
            answers,
            shows_hooks,
            states,
            questions: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            woken,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Result<Value, String>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a frame.
    pub(super) fn send(&self, frame: Value) {
        let _ = self.outgoing.send(frame); // the writer lives as long as this process
    }

    /// Tells the state of the session, where the host reads it.
    pub(super) fn state(&self, state: &str) {
        if self.states {
            self.send(self.frames.state(state));
        }
    }

    pub(super) fn set_hooks(&self, hooks: Hooks) {
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = hooks;
    }

    /// Takes the answer to a request.
    pub(super) fn answered(&self, id: &str, answer: Result<Value, String>) {
        if let Some(waiting) = self.waiting().remove(id) {
            let _ = waiting.send(answer); // nobody waits any more
        }
    }

    /// The host is gone: every request is answered with that.
    pub(super) fn gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        self.waiting().clear();
    }

    async fn request(&self, what: Value) -> Result<Value, String> {
        let gone = || "the host is gone".to_owned();
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(gone());
        }
        let (sender, receiver) = oneshot::channel();
        let open = Open { program: self, id: identity() };
        self.waiting().insert(open.id.clone(), sender);
        self.send(request(&open.id, what));
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn question(&self, asked: Asked) -> Reply {
        let mut what = json!({
            "subtype": "can_use_tool", "tool_name": asked.tool, "display_name": asked.tool, "input": asked.input,
            "tool_use_id": asked.call_id, "permission_suggestions": asked.suggestions, "decision_reason": asked.reason,
        });
        let description = asked.input.get("description").and_then(Value::as_str);
        for (key, value) in
            [("blocked_path", asked.blocked_path.as_deref()), ("description", description)]
        {
            if let (Some(fields), Some(value)) = (what.as_object_mut(), value) {
                fields.insert(key.into(), json!(value));
            }
        }
        let deny = |message: String| Reply::Deny { message, interrupt: false };
        let answer = match self.request(what).await {
            Ok(answer) => answer,
            Err(error) => {
                return deny(format!(
                    "The permission request failed, so the call was not run: {error}"
                ));
            }
        };
        let text = |key: &str| answer.get(key).and_then(Value::as_str);
        match text("behavior") {
            Some("allow") => Reply::Allow {
                input: answer.get("updatedInput").filter(|it| it.is_object()).cloned(),
                updates: answer
                    .get("updatedPermissions")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default(),
            },
            Some("deny") => Reply::Deny {
                message: text("message").unwrap_or("The host said no.").to_owned(),
                interrupt: answer.get("interrupt").and_then(Value::as_bool).unwrap_or_default(),
            },
            _ => deny("The host's answer was not understood, so the call was not run.".into()),
        }
    }

    async fn hook(
        &self,
        callback: Callback,
        input: Value,
        call_id: Option<&str>,
    ) -> Result<Value, String> {
        let what = json!({
            "subtype": "hook_callback", "callback_id": callback.id, "input": input, "tool_use_id": call_id,
        });
        let answer = match tokio::time::timeout(callback.timeout, self.request(what)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("the hook took longer than {} s", callback.timeout.as_secs())),
        };
        match answer {
            Err(_) if callback.may_fail => Ok(Value::Null),
            answer => answer,
        }
    }
}

impl Host for Program {
    fn can_be_asked(&self) -> bool {
        self.answers
    }

    fn ask(&self, asked: Asked) -> Pending<'_, Reply> {
        Box::pin(async move {
            if !self.answers {
                return Reply::Deny {
                    message: "Nobody can be asked in this session.".into(),
                    interrupt: false,
                };
            }
            if self.questions.fetch_add(1, Ordering::Relaxed) == 0 {
                self.state("requires_action");
            }
            let reply = self.question(asked).await;
            if self.questions.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.state("running");
            }
            reply
        })
    }

    fn hooks<'a>(
        &'a self,
        event: &'a str,
        subject: &'a str,
        input: Value,
        call_id: Option<&'a str>,
    ) -> Pending<'a, Vec<Result<Value, String>>> {
        let callbacks =
            self.hooks.read().unwrap_or_else(PoisonError::into_inner).of(event, subject);
        Box::pin(async move {
            let mut said = Vec::new();
            for callback in callbacks {
                said.push(self.hook(callback, input.clone(), call_id).await);
            }
            said
        })
    }

    fn mcp<'a>(&'a self, server: &'a str, message: Value) -> Pending<'a, Result<Value, String>> {
        Box::pin(async move {
            let what =
                json!({ "subtype": "mcp_message", "server_name": server, "message": message });
            let answer = tokio::time::timeout(SERVER, self.request(what)).await;
            let answer = answer
                .unwrap_or_else(|_| Err(format!("no answer within {} s", SERVER.as_secs())))?;
            answer
                .get("mcp_response")
                .cloned()
                .ok_or_else(|| "the answer has no `mcp_response`".into())
        })
    }

    fn note(&self, note: Note) {
        let wakes = matches!(note, Note::TaskEnded { .. } | Note::TaskEvent { .. });
        shown(&self.frames, note, self.shows_hooks).into_iter().for_each(|frame| self.send(frame));
        if wakes {
            let _ = self.woken.send(()); // a session that is over needs nothing
        }
    }
}
