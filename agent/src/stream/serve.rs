//! Requests and messages of the host, in the order in which they come; turns one after the other.

mod requests;
mod servers;
mod spent;

use std::collections::{BTreeSet, VecDeque};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use stockade_door::Door;
use stockade_model::Block;
use stockade_sdk::{Frames, Incoming, from_wire, incoming, response};
use stockade_turn::{Interrupt, Interrupter, interrupt};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::spent::Spent;
use super::host::Program;
use crate::flags::{Flags, is_uuid};
use crate::output::line;
use crate::session::{Conversation, Plan, Wish};

/// Longest line that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// Frames that wait for their turn.
#[derive(Debug, Default)]
struct Waiting {
    blocks: Vec<Block>,
    /// Identity that the host gave the message.
    uuid: Option<String>,
    /// The host composed it: no text of it is a command.
    is_verbatim: bool,
    /// Instead of a message: a request to restore files.
    rewind: Option<Restore>,
}

/// A request to restore files.
#[derive(Debug)]
struct Restore {
    /// Identity of the request.
    id: String,
    /// The message to which they go back.
    uuid: String,
    /// The host asks which files these are; nothing is changed.
    dry: bool,
}

/// A session under a host.
struct Served {
    host: Arc<Program>,
    /// Until the first message the session has not begun: `initialize` comes before.
    plan: Option<Plan>,
    session: Option<Conversation>,
    queue: VecDeque<Waiting>,
    model: Option<String>,
    /// Tokens for thinking that the host wants.
    thinking: Option<Option<u64>>,
    /// How the host wants thinking shown.
    display: Option<Option<String>>,
    /// The effort that the host wants; none is that of the options.
    effort: Option<String>,
    /// Settings of options.
    given: Value,
    /// The contents of the context window, and their sizes.
    filled: Value,
    spent: Spent,
    /// The model that was asked last.
    asked: String,
    failed: bool,
    state: Arc<stockade_door::Session>,
    /// Door of the session, available also while a turn runs.
    door: Option<Arc<Door>>,
    servers: Value,
    /// Servers that the host took away.
    removed: BTreeSet<String>,
}

/// Input that a session takes while it works: lines of the host, and signals.
struct Ears {
    inbox: mpsc::UnboundedReceiver<String>,
    terminate: Signal,
    ctrl_c: Signal,
    /// The host has not closed standard input.
    open: bool,
}

/// Serves a host until it closes standard input and everything is done.
pub(crate) async fn serve(flags: Flags) -> anyhow::Result<ExitCode> {
    let answers = flags.permission_prompt_tool.as_deref() == Some("stdio");
    let shows_hooks = flags.include_hook_events;
    let plan = Plan::new(flags)?;
    let (outgoing, mut lines) = mpsc::unbounded_channel::<Value>();
    let writer = tokio::task::spawn_blocking(move || {
        // The end is told by an empty frame: background commands may hold the other side for longer.
        while let Some(frame) = lines.blocking_recv().filter(|frame| !frame.is_null()) {
            line(&frame);
        }
    });
    let (woken, mut wakes) = mpsc::unbounded_channel();
    let frames = Frames::new(plan.session.id());
    let host = Arc::new(Program::new((outgoing, woken), frames, (answers, shows_hooks)));
    let inbox = read();
    let state = Arc::clone(&plan.session);
    let given = plan.settings().clone();
    let mut served = Served {
        host: Arc::clone(&host),
        plan: Some(plan),
        session: None,
        queue: VecDeque::new(),
        model: None,
        thinking: None,
        display: None,
        effort: None,
        given,
        filled: Value::Null,
        spent: Spent::default(),
        asked: String::new(),
        failed: false,
        state,
        door: None,
        servers: json!([]),
        removed: BTreeSet::new(),
    };
    let terminate = signal(SignalKind::terminate())?;
    let ctrl_c = signal(SignalKind::interrupt())?;
    let mut ears = Ears { inbox, terminate, ctrl_c, open: true };
    loop {
        let message = served.queue.pop_front();
        let goes_on = if message.is_some() || wakes.try_recv().is_ok() {
            served.work(message, &mut ears).await
        } else {
            ears.open && served.wait(&mut ears, &mut wakes).await
        };
        if !goes_on {
            break;
        }
    }
    let failed = served.failed;
    if let Some(session) = &served.session {
        session.end().await;
    }
    drop(served);
    host.send(Value::Null);
    let _ = writer.await; // one that broke off has nothing more to write
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads lines of standard input. One that is too long ends it.
fn read() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut input = BufReader::with_capacity(64 << 10, tokio::io::stdin());
        loop {
            let mut bytes = Vec::new();
            match (&mut input).take(LONGEST).read_until(b'\n', &mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) if !bytes.ends_with(b"\n") && bytes.len() as u64 >= LONGEST => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            if !text.is_empty() && sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Served {
    /// Does what waited, or goes on after something in the background told to. Says whether the session goes on.
    async fn work(&mut self, message: Option<Waiting>, ears: &mut Ears) -> bool {
        self.host.state("running");
        if let Some(plan) = self.plan.take()
            && !self.begin(plan, ears).await
        {
            return false;
        }
        let (stop, given) = interrupt();
        let Some(mut session) = self.session.take() else { return false };
        if let Some(model) = self.model.take()
            && let Err(reason) = session.switch_model(&model).await
        {
            let note = stockade_door::Note::Said(reason);
            stockade_door::Host::note(self.host.as_ref(), note);
        }
        if let Some(tokens) = self.thinking.take() {
            session.think(tokens);
        }
        if let Some(display) = self.display.take() {
            session.show_thinking(display);
        }
        session.wish(self.effort.as_deref());
        session.removed.clone_from(&self.removed);
        session.model().clone_into(&mut self.asked);
        match message {
            Some(Waiting { rewind: Some(Restore { id, uuid, dry: true }), .. }) => {
                let answer = match session.would_rewind(&uuid) {
                    Ok(files) => json!({ "canRewind": true, "filesChanged": files }),
                    Err(error) => json!({ "canRewind": false, "error": error }),
                };
                self.host.send(response(&id, Ok(answer)));
            }
            Some(Waiting { rewind: Some(Restore { id, uuid, dry: false }), .. }) => {
                let wish = Wish { uuid, conversation: false, files: true, forced: false };
                let answer = session.rewind(&wish).await.map(|done| {
                    json!({ "canRewind": true, "filesChanged": done.files, "rewound": done.text })
                });
                self.host.send(response(&id, answer));
            }
            Some(Waiting { blocks, uuid, is_verbatim, .. }) => {
                (session.uuid, session.is_verbatim) = (uuid, is_verbatim);
                self.turn((&mut session, Some(blocks)), (&stop, &given), ears).await;
            }
            None => self.turn((&mut session, None), (&stop, &given), ears).await,
        }
        self.filled = session.filled();
        self.session = Some(session);
        if self.queue.is_empty() {
            self.host.state("idle");
        }
        true
    }

    /// Begins the session; servers of the host answer meanwhile. Says whether it could.
    async fn begin(&mut self, plan: Plan, ears: &mut Ears) -> bool {
        let host = Arc::clone(&self.host) as Arc<dyn stockade_door::Host>;
        let mut beginning = std::pin::pin!(plan.begin(host));
        let begun = loop {
            tokio::select! {
                begun = &mut beginning => break begun,
                incoming = ears.inbox.recv(), if ears.open => self.heard(incoming, ears, None),
            }
        };
        match begun {
            Ok(session) => {
                self.begun(session);
                true
            }
            Err(error) => {
                eprintln!("stockade: {error:#}");
                self.fail(&format!("{error:#}"));
                false
            }
        }
    }

    /// Runs a turn to its end; requests of the host and signals are heard meanwhile.
    async fn turn(
        &mut self,
        (session, message): (&mut Conversation, Option<Vec<Block>>),
        (stop, given): (&Interrupter, &Interrupt),
        ears: &mut Ears,
    ) {
        let sender = Arc::clone(&self.host);
        let mut spent = self.spent.clone();
        let mut emit = |frame: Value| {
            spent.take(&frame);
            sender.send(frame);
        };
        let mut running = Box::pin(session.turn(message, given, &mut emit));
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                incoming = ears.inbox.recv(), if ears.open => self.heard(incoming, ears, Some(stop)),
                _ = ears.terminate.recv() => {
                    ears.open = false;
                    self.host.gone();
                    stop.interrupt();
                    self.queue.clear();
                }
                _ = ears.ctrl_c.recv() => stop.interrupt(),
            }
        };
        drop(running);
        (self.spent, self.failed) = (spent, ended.is_error);
    }

    /// Waits until something is to be done. Says whether the session goes on.
    async fn wait(&mut self, ears: &mut Ears, wakes: &mut mpsc::UnboundedReceiver<()>) -> bool {
        tokio::select! {
            incoming = ears.inbox.recv() => self.heard(incoming, ears, None),
            _ = wakes.recv() => self.queue.push_back(Waiting::default()),
            _ = ears.terminate.recv() => return false,
            _ = ears.ctrl_c.recv() => return false,
        }
        true
    }

    /// Takes a line of the host, or the end of its lines.
    fn heard(&mut self, incoming: Option<String>, ears: &mut Ears, running: Option<&Interrupter>) {
        match incoming {
            Some(text) => self.take(&text, running),
            None => {
                ears.open = false;
                self.host.gone();
            }
        }
    }

    fn begun(&mut self, session: Conversation) {
        self.door = Some(Arc::clone(&session.door));
        session.model().clone_into(&mut self.asked);
        self.servers = session.servers();
        self.session = Some(session);
    }

    /// Tells of a session that cannot begin.
    fn fail(&mut self, error: &str) {
        self.failed = true;
        let frame = json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true, "duration_ms": 0, "duration_api_ms": 0,
            "num_turns": 0, "total_cost_usd": 0.0, "usage": {}, "modelUsage": {}, "permission_denials": [],
            "errors": [error], "session_id": self.state.id(),
            "uuid": stockade_sdk::identity(),
        });
        self.host.send(frame);
        self.host.state("idle");
    }

    fn take(&mut self, text: &str, running: Option<&Interrupter>) {
        match incoming(text) {
            Incoming::User(frame) => {
                let content = frame
                    .get("message")
                    .and_then(|it| it.get("content"))
                    .cloned()
                    .unwrap_or_default();
                let uuid = frame.get("uuid").and_then(Value::as_str).filter(|it| is_uuid(it));
                let (blocks, uuid) = (from_wire(&content), uuid.map(str::to_owned));
                let is_verbatim = frame.get("client_composed") == Some(&Value::Bool(true));
                self.queue.push_back(Waiting { blocks, uuid, is_verbatim, rewind: None });
            }
            Incoming::Request(id, subtype, request) if subtype == "rewind_files" => {
                let message = request.get("user_message_id").and_then(Value::as_str);
                let uuid = message.unwrap_or_default().to_owned();
                let dry = request.get("dry_run") == Some(&Value::Bool(true));
                let rewind = Some(Restore { id, uuid, dry });
                self.queue.push_back(Waiting { rewind, ..Waiting::default() });
            }
            Incoming::Request(id, subtype, request) => {
                let answer = self.request(&subtype, &request, running);
                self.host.send(response(&id, answer));
            }
            Incoming::Response(id, answer) => self.host.answered(&id, answer),
            // Requests of the host are answered at once.
            Incoming::Cancel(_) => {}
            Incoming::Unknown(what) => {
                eprintln!("stockade: a line of the host was left out: {what}")
            }
        }
    }
}
