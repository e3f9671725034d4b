//! The way from an agent that is started here to its gateway: whatever the agent says, its rights stay those that were
//! fixed when it began.
//!
//! Each request passes through [`Rights::narrow`]: session, settings, directories and variables are those of the
//! beginning. Where a host drives the agent, the rules, directories and modes that the host chose later are added, as far
//! as the beginning left them open, and the host's answers to questions count: those that [`Said`] heard, and no others.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use stockade_base::sockets::Address;
use stockade_settings::host::tightening;
use stockade_wire::progress::ProgressRequest;

use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Frame, Id, RpcError};
use crate::protocol::tasks::{TaskAct, TaskRequest};
use crate::protocol::types::{
    Answer, CheckRequest, CommandRequest, CommandText, Context, EventRequest, Question,
};
use crate::serve::host_answers::{Asked, RunOf, Said};

/// Modes that allow no more than any other mode.
const NARROW: [&str; 2] = ["plan", "dontAsk"];
/// Lists of rules that an agent may add to: they make nothing wider.
const RULES: [&str; 2] = ["ask", "deny"];
/// Most texts of settings of a host that count for one session.
const MOST_SETTINGS: usize = 256;
/// How messages of the gateway begin that are neither questions nor answers.
const NOTICE: &[u8] = br#"{"jsonrpc":"2.0","method":"#;
/// Counts the connections of agents.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// The requests that one agent may make, as its keeper found it out before the agent began.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Rights {
    session: String,
    cwd: String,
    settings: Vec<String>,
    setting_sources: Option<Vec<String>>,
    mode: Option<String>,
    may_bypass: bool,
    allowed: Vec<String>,
    disallowed: Vec<String>,
    directories: Vec<String>,
    /// Managed settings of the program that started the agent.
    #[serde(default)]
    managed: Vec<String>,
    /// Directories of plugins.
    #[serde(default)]
    plugins: Vec<String>,
    /// A program drives the agent, and may choose rules, directories and modes.
    has_host: bool,
    /// True if that program can be asked.
    asks: bool,
    /// Variables that neither the agent nor a command gets.
    withheld: Vec<String>,
    /// Variables for commands.
    #[serde(skip)]
    environment: Vec<(String, String)>,
    /// Words of the host since then.
    #[serde(skip)]
    said: Said,
}

/// A run that an agent asked for: its call, tool and input.
#[derive(Debug, Clone)]
struct Call {
    id: String,
    tool: Option<String>,
    input: Value,
}

/// State of one connection of an agent.
#[derive(Debug, Default)]
struct Open {
    number: u64,
    /// By the identity of the request, of which none serves twice.
    runs: HashMap<String, Call>,
    questions: HashMap<Id, Asked>,
}

impl Call {
    fn of(request: &CommandRequest) -> Call {
        let (tool, input) = match &request.command {
            CommandText::Shell(text) => {
                let out = request.unsandboxed;
                (None, json!({ "command": text, "dangerouslyDisableSandbox": out }))
            }
            CommandText::Words(words) => (None, json!({ "command": words })),
            CommandText::Tool(call) => (Some(call.name.clone()), call.input.clone()),
        };
        Call { id: request.call_id.clone().unwrap_or_default(), tool, input }
    }

    /// Returns what a question of the gateway is about.
    fn asked(&self, run: RunOf, question: &Question) -> Asked {
        if let Some(connection) = &question.connection {
            let input = json!({ "host": connection.host, "port": connection.port });
            let tool = Some("SandboxNetworkAccess".to_owned());
            let (call, sent) = (self.id.clone(), input.clone());
            return Asked { run, call, tool, sent, input, by_rule: false };
        }
        let view = &question.decision;
        let changed = Some(view.input.clone()).filter(Value::is_object);
        let mut input = changed.unwrap_or_else(|| self.input.clone());
        if let (None, Some(fields)) = (&self.tool, input.as_object_mut()) {
            // A hook may change the text; it does not take back that the command runs unconfined.
            let out = self.input.get("dangerouslyDisableSandbox").cloned();
            fields.extend(out.map(|out| ("dangerouslyDisableSandbox".to_owned(), out)));
        }
        let by_rule = view.rules.iter().any(|rule| rule.effect == "ask");
        let (call, tool, sent) = (self.id.clone(), self.tool.clone(), self.input.clone());
        Asked { run, call, tool, sent, input, by_rule }
    }
}

fn refused(message: &str) -> Failure {
    let help = "start the agent with the option that allows it";
    Failure::new(
        Code::InvalidRequest,
        format!("the agent has no right to do this: {message}"),
        help,
    )
}

impl Rights {
    /// Returns the context of the agent's beginning, with what the host tightened since then.
    pub(crate) fn context(&self) -> Context {
        Context {
            settings: self.settings.clone(),
            setting_sources: self.setting_sources.clone(),
            mode: self.mode.clone(),
            allowed_tools: self.allowed.clone(),
            disallowed_tools: self.disallowed.clone(),
            additional_directories: self.directories.clone(),
            managed: [self.managed.clone(), self.said.tightened()].concat(),
            plugins: self.plugins.clone(),
            session_directory: Some(self.cwd.clone()),
            session: Some(self.session.clone()),
            interactive: self.asks,
            environment: self.environment.clone(),
            door: "agent".into(),
            agent: Some("stockade".into()),
            ..Context::default()
        }
    }

    /// Adds variables for commands, without those that are withheld.
    pub(crate) fn with(mut self, mut environment: Vec<(String, String)>) -> Rights {
        environment.retain(|(name, _)| !self.withheld.contains(name));
        self.environment = environment;
        self.said.begin(self.mode.as_deref());
        self
    }

    /// Has settings of the host count from the next call on. They have to tighten, all of them.
    ///
    /// # Errors
    ///
    /// One does not tighten, there are too many, or calls could not be decided with them, which `holds` finds out.
    pub(crate) fn tighten(
        &self,
        settings: &str,
        holds: impl FnOnce(&Context) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (kept, left_out) = tightening(settings)?;
        let refuse = |message: String| {
            let help = "begin another session with other settings";
            Failure::new(Code::SettingsRejected, message, help)
        };
        if !left_out.is_empty() {
            let keys = left_out.join("`, `");
            return Err(refuse(format!(
                "settings of a running session only tighten, and `{keys}` would not"
            )));
        }
        let mut context = self.context();
        if context.managed.contains(&kept) {
            return Ok(());
        }
        if context.managed.len() >= MOST_SETTINGS {
            return Err(refuse(format!("the session was tightened {MOST_SETTINGS} times already")));
        }
        context.managed.push(kept.clone());
        holds(&context)?;
        self.said.tighten(kept);
        Ok(())
    }

    /// Returns what remembers the words of the host; none where no host drives the agent.
    pub(crate) fn host(&self) -> Option<Said> {
        self.has_host.then(|| self.said.clone())
    }

    /// Returns the keys of managed settings that do not count, because they do not tighten.
    ///
    /// # Errors
    ///
    /// The settings of the program that started the agent cannot be enforced.
    pub(crate) fn left_out(&self) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for text in &self.managed {
            all.extend(tightening(text)?.1);
        }
        Ok(all)
    }

    /// Says whether settings came with the agent that were read for no call yet.
    pub(crate) fn brings_settings(&self) -> bool {
        !self.managed.is_empty() || !self.plugins.is_empty()
    }

    /// Returns the directory in which the agent began.
    pub(crate) fn directory(&self) -> &str {
        &self.cwd
    }

    /// Returns what is left of the context that the agent asks for.
    fn narrow(&self, asked: &Context) -> Result<Context, Failure> {
        let mut context = self.context();
        context.interactive &= asked.interactive;
        context.mode = self.mode(asked.mode.as_deref())?;
        context.disallowed_tools.extend(asked.disallowed_tools.iter().cloned());
        if self.has_host {
            context.additional_directories = self.directories(&asked.additional_directories)?;
        }
        let of_host = asked.settings.iter().filter(|it| !self.settings.contains(it));
        for text in of_host {
            context.settings.push(self.rules(text)?);
        }
        Ok(context)
    }

    /// Returns the mode of a request: that of the beginning, or the one that the host set last. An agent may be stricter.
    fn mode(&self, asked: Option<&str>) -> Result<Option<String>, Failure> {
        let now = if self.has_host { self.said.mode() } else { self.mode.clone() };
        let Some(mode) = asked else { return Ok(now) };
        if NARROW.contains(&mode) {
            return Ok(Some(mode.to_owned()));
        }
        let is_said = self.has_host && self.said.knows_mode(mode);
        let is_back = mode == "default" && now.as_deref() == Some("plan");
        let is_open = mode != "bypassPermissions" || self.may_bypass;
        match is_open && (is_said || is_back || self.mode.as_deref() == Some(mode)) {
            true => Ok(now.filter(|now| self.may_bypass || now != "bypassPermissions")),
            false => Err(refused(&format!("the mode `{}`", mode.escape_debug()))),
        }
    }

    /// Returns those of an agent's directories that count: those of the beginning, and those that the host added.
    fn directories(&self, asked: &[String]) -> Result<Vec<String>, Failure> {
        let mut kept = Vec::new();
        for directory in asked {
            match self.said.directory(directory) {
                _ if self.directories.contains(directory) => kept.push(directory.clone()),
                Some(true) => kept.push(directory.clone()),
                Some(false) => {}
                None => {
                    return Err(refused(&format!("the directory `{}`", directory.escape_debug())));
                }
            }
        }
        Ok(kept)
    }

    /// Returns the rules of a settings text of the host, and nothing else of it. An allow rule counts if the host gave it.
    fn rules(&self, text: &str) -> Result<String, Failure> {
        let value: Value =
            serde_json::from_str(text).map_err(|_| refused("settings that are not JSON"))?;
        let mut kept = Map::new();
        let lists = value.get("permissions").and_then(Value::as_object).into_iter().flatten();
        for (name, list) in lists {
            let list = match name.as_str() {
                "allow" => self.allowed(list)?,
                other if RULES.contains(&other) => list.clone(),
                other => return Err(refused(&format!("the rules `{}`", other.escape_debug()))),
            };
            kept.insert(name.clone(), list);
        }
        Ok(json!({ "permissions": kept }).to_string())
    }

    fn allowed(&self, list: &Value) -> Result<Value, Failure> {
        let mut kept = Vec::new();
        for rule in list.as_array().into_iter().flatten() {
            let text = rule.as_str().unwrap_or_default();
            match self.said.rule(text).filter(|_| self.has_host) {
                Some(true) => kept.push(rule.clone()),
                Some(false) => {}
                None => {
                    return Err(refused(&format!("the allow rule `{}`", text.escape_debug())));
                }
            }
        }
        Ok(kept.into())
    }

    /// Remembers what the gateway asks about, and which runs have ended. Its other lines are many, and pass unread.
    fn told(&self, line: &[u8], open: &Mutex<Open>) {
        if line.starts_with(NOTICE) {
            return;
        }
        let Ok(frame) = frames::decode(line) else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        match frame {
            Frame::Request { id, method, params } if method == "question" => {
                let run = params.get("run").cloned().unwrap_or_default();
                let question = params.get("question").cloned();
                let question = question.and_then(|it| typed::<Question>(it).ok());
                if let (Some(question), Some(call)) = (question, open.runs.get(&run.to_string())) {
                    let run = RunOf { connection: open.number, id: run.to_string() };
                    let asked = call.asked(run, &question);
                    open.questions.insert(id, asked);
                }
            }
            // One that goes on in the background still asks for hosts.
            Frame::Answer { id: Some(id), .. } => {
                if let Some(call) = open.runs.get_mut(&id.value().to_string()) {
                    call.input = Value::Null;
                }
            }
            Frame::Request { .. } | Frame::Notification { .. } | Frame::Answer { .. } => {}
        }
    }

    /// Returns an answer to a question as far as the agent may give it. A yes is one that the host gave.
    fn answer(&self, id: Option<&Id>, answer: Value, open: &Mutex<Open>) -> Value {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = id.and_then(|id| open.questions.remove(id));
        let answer = for_one_call(answer);
        let is_forged =
            answer == Answer::Once && !asked.is_some_and(|asked| self.said.agrees(&asked));
        let answer = if is_forged { Answer::Deny } else { answer };
        // Null is not an answer, which runs nothing.
        serde_json::to_value(answer).unwrap_or_default()
    }

    /// Returns the line for the gateway, or the answer to the agent.
    fn line(&self, line: &[u8], open: &Mutex<Open>) -> Result<Vec<u8>, Vec<u8>> {
        let refuse = |id: Option<Id>, error: RpcError| {
            frames::encode(&Frame::Answer { id, result: Err(error) })
        };
        match frames::decode(line) {
            Ok(Frame::Request { id, method, params }) => {
                let params = match self.params(&method, params) {
                    Ok(params) => params,
                    Err(error) => return Err(refuse(Some(id), error)),
                };
                if method == "run"
                    && let Ok(asked) = typed::<CommandRequest>(params.clone())
                {
                    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                    let run = id.value().to_string();
                    if open.runs.contains_key(&run) {
                        let failure = refused("an identity that another run had");
                        return Err(refuse(Some(id), RpcError::failure(&failure)));
                    }
                    open.runs.insert(run, Call::of(&asked));
                }
                Ok(frames::encode(&Frame::Request { id, method, params }))
            }
            Ok(Frame::Answer { id, result }) => {
                let result = result.map(|answer| self.answer(id.as_ref(), answer, open));
                Ok(frames::encode(&Frame::Answer { id, result }))
            }
            Ok(frame @ Frame::Notification { .. }) => Ok(frames::encode(&frame)),
            Err(error) => Err(refuse(None, error)),
        }
    }

    fn params(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let narrowed =
            |context: &Context| self.narrow(context).map_err(|failure| RpcError::failure(&failure));
        match method {
            "hello" => Ok(params),
            "check" => {
                let asked: CheckRequest = typed(params)?;
                let mut context = narrowed(&asked.context)?;
                // Nothing runs by a check: whether a person could be asked is the agent's to say.
                context.interactive = asked.context.interactive;
                value(&CheckRequest { context, case: None, ..asked })
            }
            "run" => {
                let asked: CommandRequest = typed(params)?;
                let context = narrowed(&asked.context)?;
                value(&CommandRequest { context, ..asked })
            }
            "tell" => {
                let asked: EventRequest = typed(params)?;
                let context = narrowed(&asked.context)?;
                value(&EventRequest { context, ..asked })
            }
            "progress" => {
                let asked: ProgressRequest = typed(params)?;
                let context = narrowed(&asked.context)?;
                value(&ProgressRequest { context, ..asked })
            }
            "task" => {
                let asked: TaskRequest = typed(params)?;
                if matches!(asked.act, TaskAct::Open { .. }) {
                    // A person opens ports of this machine.
                    return Err(RpcError::failure(&refused("a port of this machine")));
                }
                value(&TaskRequest { session: Some(self.session.clone()), ..asked })
            }
            other => Err(RpcError::new(
                frames::METHOD_NOT_FOUND,
                format!("an agent has no method `{}`", other.escape_debug()),
            )),
        }
    }
}

/// Returns an answer to a question as far as an agent may give it: a rule that outlives the call is a person's to give, so
/// such a yes is a no.
fn for_one_call(answer: Value) -> Answer {
    match serde_json::from_value::<Answer>(answer) {
        Ok(answer @ (Answer::Once | Answer::Deny | Answer::DenyWith(_) | Answer::Withdrawn)) => {
            answer
        }
        Ok(Answer::Session | Answer::For(_) | Answer::Always | Answer::AlwaysRule(_)) => {
            Answer::Deny
        }
        Err(_) => Answer::Withdrawn,
    }
}

fn typed<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params)
        .map_err(|error| RpcError::new(frames::INVALID_PARAMS, error.to_string()))
}

fn value(request: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(request)
        .map_err(|error| RpcError::new(frames::INVALID_PARAMS, error.to_string()))
}

/// Carries each connection of an agent to the gateway at `gateway`, until the future is dropped.
pub(crate) async fn serve(listener: UnixListener, rights: Rights, gateway: PathBuf) {
    let rights = Arc::new(rights);
    let mut carried = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(carried.spawn(carry(stream, Arc::clone(&rights), gateway.clone()))),
                // Without a free descriptor the next try would fail at once.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            },
            Some(_) = carried.join_next(), if !carried.is_empty() => {}
        }
    }
}

/// Carries one connection until either side closes it. An agent that cannot reach the gateway finds its connection closed.
async fn carry(agent: UnixStream, rights: Arc<Rights>, gateway: PathBuf) {
    let Ok(address) = Address::of(&gateway) else { return };
    let Ok(gateway) = UnixStream::connect(address.path()).await else { return };
    let (from_agent, mut to_agent) = agent.into_split();
    let (from_gateway, mut to_gateway) = gateway.into_split();
    let (telling, mut told) = mpsc::channel::<Vec<u8>>(16);
    let refusals = telling.clone();
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let open = Arc::new(Mutex::new(Open { number, ..Open::default() }));
    let (heard, of_gateway) = (Arc::clone(&open), Arc::clone(&rights));
    let up = async move {
        let mut lines = BufReader::with_capacity(64 << 10, from_agent);
        // A line that is cut or too long ends the connection.
        while let Ok(Some(line)) = frames::next_line(&mut lines).await {
            let sent = match rights.line(&line, &open) {
                Ok(line) => to_gateway.write_all(&line).await.is_ok(),
                Err(refusal) => refusals.send(refusal).await.is_ok(),
            };
            if !sent {
                return;
            }
        }
    };
    let down = async move {
        let mut lines = BufReader::with_capacity(64 << 10, from_gateway);
        while let Ok(Some(mut line)) = frames::next_line(&mut lines).await {
            of_gateway.told(&line, &heard);
            line.push(b'\n');
            if telling.send(line).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some(line) = told.recv().await {
            if to_agent.write_all(&line).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
        () = write => {}
    }
}

#[cfg(test)]
mod tests;
