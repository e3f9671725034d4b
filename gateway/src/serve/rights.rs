//! The way from an agent that is started here to its gateway: whatever the agent says, its rights stay those that were
//! fixed when it began.
//!
//! Each request passes through [`Rights::narrow`]: session, settings, directories and variables are those of the
//! beginning. Where a host drives the agent, the rules, directories and modes that the host chose later are added, as far
//! as the beginning left them open.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use stockade_base::sockets::Address;

use crate::protocol::errors::{Code, Failure};
use crate::protocol::frames::{self, Frame, Id, RpcError};
use crate::protocol::tasks::{TaskAct, TaskRequest};
use crate::protocol::types::{Answer, CheckRequest, CommandRequest, Context, EventRequest};

/// Modes that allow no more than any other mode.
const NARROW: [&str; 2] = ["plan", "dontAsk"];
/// Lists of rules that a host may add to.
const RULES: [&str; 3] = ["allow", "ask", "deny"];

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
    /// A program drives the agent, and may choose rules, directories and modes.
    has_host: bool,
    /// True if that program answers questions.
    asks: bool,
    /// Variables that neither the agent nor a command gets.
    withheld: Vec<String>,
    /// Variables for commands.
    #[serde(skip)]
    environment: Vec<(String, String)>,
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
    /// Returns the context of the agent's beginning.
    pub(crate) fn context(&self) -> Context {
        Context {
            settings: self.settings.clone(),
            setting_sources: self.setting_sources.clone(),
            mode: self.mode.clone(),
            allowed_tools: self.allowed.clone(),
            disallowed_tools: self.disallowed.clone(),
            additional_directories: self.directories.clone(),
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
        self
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
            context.additional_directories.clone_from(&asked.additional_directories);
        }
        let of_host = asked.settings.iter().filter(|it| !self.settings.contains(it));
        for text in of_host {
            context.settings.push(self.rules(text)?);
        }
        Ok(context)
    }

    fn mode(&self, asked: Option<&str>) -> Result<Option<String>, Failure> {
        let Some(mode) = asked else { return Ok(self.mode.clone()) };
        let is_open = match mode {
            "bypassPermissions" => self.may_bypass,
            _ => self.has_host || self.mode.as_deref() == Some(mode) || NARROW.contains(&mode),
        };
        match is_open {
            true => Ok(Some(mode.to_owned())),
            false => Err(refused(&format!("the mode `{}`", mode.escape_debug()))),
        }
    }

    /// Returns the rules of a settings text of the host, and nothing else of it.
    fn rules(&self, text: &str) -> Result<String, Failure> {
        let value: Value =
            serde_json::from_str(text).map_err(|_| refused("settings that are not JSON"))?;
        let mut kept = Map::new();
        let lists = value.get("permissions").and_then(Value::as_object).into_iter().flatten();
        for (name, list) in lists {
            if !RULES.contains(&name.as_str()) || (name == "allow" && !self.has_host) {
                return Err(refused(&format!("the rules `{}`", name.escape_debug())));
            }
            kept.insert(name.clone(), list.clone());
        }
        Ok(serde_json::json!({ "permissions": kept }).to_string())
    }

    /// Returns the line for the gateway, or the answer to the agent.
    fn line(&self, line: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        let refuse = |id: Option<Id>, error: RpcError| {
            frames::encode(&Frame::Answer { id, result: Err(error) })
        };
        match frames::decode(line) {
            Ok(Frame::Request { id, method, params }) => {
                let params = match self.params(&method, params) {
                    Ok(params) => params,
                    Err(error) => return Err(refuse(Some(id), error)),
                };
                Ok(frames::encode(&Frame::Request { id, method, params }))
            }
            Ok(Frame::Answer { id, result }) => {
                Ok(frames::encode(&Frame::Answer { id, result: result.map(for_one_call) }))
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
fn for_one_call(answer: Value) -> Value {
    let kept = match serde_json::from_value::<Answer>(answer) {
        Ok(answer @ (Answer::Once | Answer::Deny | Answer::DenyWith(_) | Answer::Withdrawn)) => {
            answer
        }
        Ok(Answer::Session | Answer::For(_) | Answer::Always | Answer::AlwaysRule(_)) => {
            Answer::Deny
        }
        Err(_) => Answer::Withdrawn,
    };
    // Null is not an answer, which runs nothing.
    serde_json::to_value(kept).unwrap_or_default()
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
    let up = async move {
        let mut lines = BufReader::with_capacity(64 << 10, from_agent);
        // A line that is cut or too long ends the connection.
        while let Ok(Some(line)) = frames::next_line(&mut lines).await {
            let sent = match rights.line(&line) {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn rights(has_host: bool) -> Rights {
        Rights {
            session: "s".into(),
            cwd: "/p".into(),
            settings: vec!["{}".into()],
            mode: Some("default".into()),
            disallowed: vec!["Edit".into()],
            directories: vec!["/d".into()],
            has_host,
            environment: vec![("PATH".into(), "/bin".into())],
            ..Rights::default()
        }
    }

    /// Everything that an agent could ask for.
    fn greedy() -> Context {
        Context {
            settings: vec!["{}".into()],
            setting_sources: Some(Vec::new()),
            mode: Some("default".into()),
            allowed_tools: vec!["Bash".into()],
            import: vec!["claude-code".into()],
            additional_directories: vec!["/".into()],
            project: Some("/other".into()),
            session_directory: Some("/other".into()),
            profile: Some("x".into()),
            session: Some("other".into()),
            hook_session: Some("other".into()),
            hook_question: Some("1".into()),
            interactive: true,
            environment: vec![("PATH".into(), "/evil".into())],
            door: "run".into(),
            agent: Some("nobody".into()),
            disallowed_tools: vec!["Write".into()],
        }
    }

    #[test]
    fn i8_whatever_an_agent_says_its_rights_are_those_of_its_beginning() {
        let mut expected = rights(false).context();
        expected.disallowed_tools.push("Write".into());
        assert_eq!(rights(false).narrow(&greedy()), Ok(expected.clone()));
        expected.additional_directories = vec!["/".into()];
        assert_eq!(rights(true).narrow(&greedy()), Ok(expected));
    }

    #[test]
    fn an_agent_answers_no_question_closes_no_session_reads_no_records_and_opens_no_port() {
        let asked = |method: &str, params: Value| rights(true).params(method, params);
        for (method, params) in [
            ("approval", json!({ "act": "list" })),
            ("answered", json!({ "question_id": "a", "answer": "once" })),
            ("session", json!({ "act": "close", "session": "s" })),
            ("subscribe", json!({ "from": 0 })),
            ("task", json!({ "act": "open", "task_id": "x" })),
        ] {
            assert!(asked(method, params).is_err(), "{method}");
        }
        let tasks = asked("task", json!({ "act": "list", "session": "other" }));
        assert_eq!(tasks, Ok(json!({ "act": "list", "session": "s" })));
    }

    #[test]
    fn an_agent_gives_no_rule_that_outlives_a_call() {
        let passed = |answer: Value| {
            let frame = Frame::Answer { id: Some(Id::Number(1)), result: Ok(answer) };
            let line = frames::encode(&frame);
            let line = rights(true).line(line.strip_suffix(b"\n").unwrap_or(&line)).unwrap();
            serde_json::from_slice::<Value>(&line).unwrap()["result"].clone()
        };
        for kept in [json!("once"), json!("deny"), json!({ "deny_with": "no" }), json!("withdrawn")]
        {
            assert_eq!(passed(kept.clone()), kept);
        }
        for rule in [json!("session"), json!("always"), json!({ "always_rule": "Bash(:*)" })] {
            assert_eq!(passed(rule), json!("deny"));
        }
        for wrong in [json!(null), json!(true), json!({ "always": 1 })] {
            assert_eq!(passed(wrong), json!("withdrawn"));
        }
    }

    #[test]
    fn modes_do_not_widen_without_a_host() {
        let open = |rights: Rights, mode: &str| rights.mode(Some(mode)).is_ok();
        let modes = ["default", "plan", "dontAsk", "acceptEdits", "auto", "bypassPermissions"];
        let alone = modes.map(|mode| open(rights(false), mode));
        assert_eq!(alone, [true, true, true, false, false, false]);
        assert_eq!(
            modes.map(|mode| open(rights(true), mode)),
            [true, true, true, true, true, false]
        );
        assert!(open(Rights { may_bypass: true, ..rights(false) }, "bypassPermissions"));
    }

    #[test]
    fn a_host_adds_rules_and_nothing_else() {
        let text = json!({ "permissions": { "allow": ["Bash(make)"], "deny": ["Read(x)"] }, "sandbox": { "enabled": false } });
        let kept =
            json!({ "permissions": { "allow": ["Bash(make)"], "deny": ["Read(x)"] } }).to_string();
        assert_eq!(rights(true).rules(&text.to_string()), Ok(kept));
        assert!(rights(false).rules(&text.to_string()).is_err());
        assert!(rights(false).rules(r#"{"permissions":{"deny":["Bash"]}}"#).is_ok());
        assert!(
            rights(true).rules(r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#).is_err()
        );
        assert!(rights(true).rules("/a/file").is_err());
    }

    #[test]
    fn each_request_is_narrowed_and_no_other_method_passes() {
        let line = |method: &str, params: Value| {
            frames::encode(&Frame::Request { id: Id::Number(1), method: method.into(), params })
        };
        let passed = |method: &str, params: Value| {
            let line = line(method, params);
            let passed = rights(false).line(line.strip_suffix(b"\n").unwrap_or(&line)).ok()?;
            Some(serde_json::from_slice::<Value>(&passed).unwrap()["params"].clone())
        };
        let check = CheckRequest {
            context: greedy(),
            case: Some(Default::default()),
            ..Default::default()
        };
        let told = EventRequest { context: greedy(), ..Default::default() };
        for (method, params) in [("check", value(&check)), ("tell", value(&told))] {
            let passed = passed(method, params.unwrap()).unwrap();
            assert_eq!(passed["context"]["session"], "s", "{method}");
            assert_eq!(passed["case"], Value::Null);
        }
        assert_eq!(
            passed("task", json!({ "session": "other", "act": "list" })).unwrap()["session"],
            "s"
        );
        assert_eq!(passed("anything", json!({})), None);
    }
}
