//! The first state of a session, from options, settings and environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_door::{Door, Gateway, Host, Note, Session, Setup, Tool, server_tools, tools};
use stockade_model::{Endpoint, Message};
use stockade_sdk::{Frames, identity};

use super::before::{Before, before};
use super::conversation::Conversation;
use super::record::Record;
use super::transcript::{Transcript, kept, kept_pending};
use crate::agents::{self, Definition, Definitions};
use crate::flags::{Flags, rules};
use crate::keeper::{self, Keeper};
use crate::models::{self, Known};
use crate::plugins;
use crate::prompt::{Given, Texts, prompt};

/// The tool that gives the result its form.
const OUTPUT: &str = "StructuredOutput";

/// A session that is about to begin.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) flags: Flags,
    pub(crate) session: Arc<Session>,
    pub(crate) cwd: PathBuf,
    /// Values that came with `initialize`.
    pub(crate) given: Given,
    /// Schema of the result.
    pub(crate) schema: Option<Value>,
    /// Servers of the host.
    pub(crate) servers: Vec<String>,
    /// Servers that cannot be used.
    pub(crate) failed: Vec<String>,
    begun: Begun,
}

/// Reads `--settings`: the members of all of them, later ones win.
fn settings(flags: &Flags) -> anyhow::Result<Value> {
    let mut all = serde_json::Map::new();
    for text in &flags.settings {
        let text = match text.trim_start().starts_with('{') {
            true => text.clone(),
            false => std::fs::read_to_string(text)
                .with_context(|| format!("the settings `{text}` cannot be read"))?,
        };
        match serde_json::from_str(&text).context("the settings are not JSON")? {
            Value::Object(fields) => all.extend(fields),
            _ => bail!("the settings are not a JSON object"),
        }
    }
    Ok(Value::Object(all))
}

/// All that a session begins with, found out where files and variables can be read: the agent itself may read neither.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) cwd: PathBuf,
    pub(crate) settings: Value,
    schema: Option<Value>,
    servers: Vec<String>,
    failed: Vec<String>,
    agents: Definitions,
    /// Plugins by name and directory.
    pub(crate) plugins: Vec<(String, PathBuf)>,
    pub(crate) setup: Setup,
    resumed: Option<String>,
    is_new: bool,
    texts: Texts,
    endpoint: Option<Known>,
    /// The session that goes on.
    before: Before,
    /// Why the session cannot begin, as far as its host is to be told.
    hindrance: Option<String>,
}

impl Begun {
    /// Reads files and variables; also returns the endpoint with its key.
    pub(crate) fn read(flags: &Flags) -> anyhow::Result<(Begun, Option<Endpoint>)> {
        let cwd = std::env::current_dir().context("the working directory cannot be used")?;
        root_counts(flags, &cwd)?;
        let settings = settings(flags)?;
        let schema = match &flags.json_schema {
            Some(text) => Some(serde_json::from_str(text).context("`--json-schema` is not JSON")?),
            None => None,
        };
        let (resumed, before, mut hindrance) = match before(flags, &cwd) {
            Ok(Some((id, before))) => (Some(id), before, None),
            Ok(None) => (None, Before::default(), None),
            // The host is told when it begins.
            Err(error) => {
                let id = flags.resumes().filter(|id| !id.is_empty()).map(str::to_owned);
                (id, Before::default(), Some(format!("{error:#}")))
            }
        };
        if let (Some(at), Some(turn)) = (&flags.resume_session_at, &flags.resume_drops_turn) {
            let reason = drops(&before.lines, at, turn).err();
            hindrance = hindrance
                .or(reason.map(|it| format!("Resume rejected by --resume-drops-turn: {it}")));
        }
        let is_new = flags.fork_session || resumed.is_none() || flags.session_id.is_some();
        let id = match (&flags.session_id, &resumed) {
            (Some(id), _) => id.clone(),
            (None, Some(id)) if !flags.fork_session => id.clone(),
            (None, _) => identity(),
        };
        let (servers, failed) = servers(flags)?;
        let (plugins, told) = plugins::read(flags, &cwd)?;
        told.iter().for_each(|line| eprintln!("stockade: {line}"));
        let agents = agents::read(flags, &cwd, &plugins)?;
        let mut setup = setup(flags, &settings, id, &cwd)?;
        setup.mode = setup.mode.or_else(|| before.mode.clone());
        let mut begun = Begun {
            cwd,
            settings,
            schema,
            servers,
            failed,
            agents,
            plugins,
            setup,
            resumed,
            is_new,
            texts: Texts::default(),
            endpoint: None,
            before,
            hindrance: None,
        };
        let endpoint = match begun.complete(flags) {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                hindrance = hindrance.or_else(|| Some(format!("{error:#}")));
                None
            }
        };
        begun.hindrance = hindrance;
        Ok((begun, endpoint))
    }

    fn complete(&mut self, flags: &Flags) -> anyhow::Result<Endpoint> {
        let (endpoint, known) = models::find(flags, &self.settings)?;
        self.endpoint = Some(known);
        self.texts = Texts::read(flags, &self.cwd)?;
        Ok(endpoint)
    }

    /// Opens the record of the session; none where nothing is kept. A session that cannot be opened does not begin.
    pub(crate) fn record(&mut self, flags: &Flags) -> Option<Record> {
        if flags.no_session_persistence || self.hindrance.is_some() {
            return None;
        }
        let known = std::mem::take(&mut self.before.known);
        let resumed = self.resumed.as_deref().map(|id| (id, &self.before));
        let how = (self.is_new, known);
        match Record::begin((flags, &self.cwd, &self.setup.id), resumed, how) {
            Ok(mut record) => {
                if super::retention::covers_commands(&self.settings) {
                    record.cover_commands();
                }
                Some(record)
            }
            Err(error) => {
                self.hindrance = Some(format!("{error:#}"));
                None
            }
        }
    }
}

impl Plan {
    /// Takes up what was found out for the session, from the directory that it was given.
    pub(crate) fn new(flags: Flags) -> anyhow::Result<Plan> {
        let text = std::fs::read_to_string(keeper::BEGUN)
            .context("there is no gateway; start the agent with `stockade agent`")?;
        let begun: Begun = serde_json::from_str(&text).context("the session cannot begin")?;
        Ok(Plan {
            flags,
            session: Arc::new(Session::new(begun.setup.clone())),
            cwd: begun.cwd.clone(),
            given: Given::default(),
            schema: begun.schema.clone(),
            servers: begun.servers.clone(),
            failed: begun.failed.clone(),
            begun,
        })
    }

    /// Settings of options.
    pub(crate) fn settings(&self) -> &Value {
        &self.begun.settings
    }

    /// Begins the session.
    pub(crate) async fn begin(mut self, host: Arc<dyn Host>) -> anyhow::Result<Conversation> {
        if let Some(hindrance) = self.begun.hindrance.take() {
            bail!(hindrance);
        }
        let agent = self.agent(host.as_ref())?;
        let Begun { settings, endpoint, texts, before, resumed, is_new, plugins, .. } = self.begun;
        let mut endpoint = endpoint.context("no model is set up")?;
        if let Some(model) = agent.model.as_ref().filter(|_| self.flags.model.is_none()) {
            endpoint = endpoint.asking(model);
        }
        let asks = endpoint.through(Path::new(keeper::MODEL))?;
        let gateway = Gateway::connect(Path::new(keeper::GATEWAY))
            .await
            .map_err(|failure| anyhow::anyhow!("{}", failure.message))?;
        let mut failed = self.failed.clone();
        let mut offered = visible(&self.flags, tools(host.can_be_asked(), self.schema.as_ref()));
        for server in &self.servers {
            match server_tools(host.as_ref(), server).await {
                Ok(more) => offered.extend(more),
                Err(_) => failed.push(server.clone()),
            }
        }
        offered.retain(|tool| tool.name == OUTPUT || agent.sees(&tool.name));
        let mode = self.session.mode();
        let told = prompt(&self.flags, (&self.given, &texts), (&self.cwd, &asks.model, &mode));
        let keeper = match self.flags.no_session_persistence {
            true => None,
            false => Some(Keeper::connect(Path::new(keeper::SESSION))?),
        };
        let mut transcript = Transcript::new(&self.cwd, &self.session, keeper);
        transcript = transcript.with_mirror(Arc::clone(&host));
        let (mut messages, mut files) = (Vec::new(), Vec::new());
        if resumed.is_some() {
            let copied = is_new && before.is_import;
            let state = (&self.flags, self.session.as_ref());
            (messages, files) = taken_up(state, before, (&mut transcript, copied))?;
        }
        let source = match (resumed.is_some(), is_new) {
            (false, _) => "startup",
            (true, false) => "resume",
            (true, true) => "fork",
        };
        let instructions = texts.files.clone();
        let frames = Frames::new(self.session.id());
        let door = Door::new(gateway, Arc::clone(&self.session), host, offered)
            .map_err(|error| anyhow::anyhow!(error))?
            .with_database(Path::new(keeper::SQL));
        let servers = self.servers.iter().filter(|it| !failed.contains(it)).cloned().collect();
        let mut conversation = Conversation::new(
            (self.flags, asks, told),
            door,
            (messages, transcript),
            (frames, servers, failed),
            (source, instructions, settings.get("autoCompactEnabled") != Some(&Value::Bool(false))),
        );
        (conversation.plugins, conversation.files) = (plugins, files);
        Ok(conversation)
    }

    /// Makes the session the agent that `--agent` names, and returns that; without the option, one that changes nothing.
    fn agent(&mut self, host: &dyn Host) -> anyhow::Result<Definition> {
        let name = self.flags.agent.as_deref();
        let chosen = agents::choose(name, (&self.given.agents, &self.begun.agents))
            .map_err(|error| anyhow::anyhow!(error))?;
        let Some(agent) = chosen else {
            let count = self.given.agents.len().max(self.begun.agents.len());
            if count > 0 {
                let line = "the agents that are defined are for `--agent` alone: sub-agents are not built yet";
                host.note(Note::Said(line.to_owned()));
            }
            return Ok(Definition::default());
        };
        if !agent.unheard.is_empty() {
            let unheard = agent.unheard.join("`, `");
            host.note(Note::Said(format!("the agent does without `{unheard}` of its definition")));
        }
        agent.apply(&mut self.flags);
        self.given.system = Some(agent.prompt.clone());
        if let Some(mode) = agent.mode.as_ref().filter(|_| self.flags.permission_mode.is_none()) {
            self.session.set_mode(mode).map_err(|error| anyhow::anyhow!(error))?;
        }
        Ok(agent)
    }
}

/// Takes up what a session held before. A copy of a log is made by the keeper.
fn taken_up(
    (flags, session): (&Flags, &Session),
    before: Before,
    (transcript, copied): (&mut Transcript, bool),
) -> anyhow::Result<(Vec<Message>, Vec<Value>)> {
    let until = flags.resume_session_at.as_deref();
    let kept = match flags.continue_pending {
        true => kept_pending(&before.lines, until)?,
        false => kept(&before.lines, until)?,
    };
    transcript.go_on(&kept, copied);
    session.restore(before.todos, &before.list);
    Ok((kept.messages, before.files))
}

/// Checks `--project-config-root`: settings of directories above the working directory tighten a session as they are; those
/// of other places would be passed over.
fn root_counts(flags: &Flags, cwd: &Path) -> anyhow::Result<()> {
    let Some(root) = &flags.project_config_root else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().ok();
    let (root, here) = (real(&cwd.join(root)), real(cwd));
    match (root, here) {
        (Some(root), Some(here)) if here.starts_with(&root) => Ok(()),
        _ => bail!("`--project-config-root` is neither the working directory nor above it"),
    }
}

/// Says whether all messages behind `at` belong to the turn that the message `turn` began: nothing else is to be dropped.
fn drops(lines: &[Value], at: &str, turn: &str) -> Result<(), String> {
    let uuid = |line: &Value| line.get("uuid").and_then(Value::as_str).map(str::to_owned);
    let place = lines.iter().rposition(|line| uuid(line).as_deref() == Some(at));
    let behind = lines.get(place.ok_or("the session has no such message")? + 1..);
    let mut behind = behind.unwrap_or_default().iter();
    if behind.next().and_then(uuid).as_deref() != Some(turn) {
        return Err(format!(
            "the turn behind the message is not that of `{}`",
            turn.escape_debug()
        ));
    }
    let is_result = |block: &Value| {
        block.get("type").and_then(Value::as_str) == Some("tool_result")
            || block.get("text").and_then(Value::as_str).is_some_and(|it| it.starts_with("<hook>"))
    };
    let is_of_turn = |line: &Value| {
        let content = line.get("message").and_then(|it| it.get("content"));
        line.get("type").and_then(Value::as_str) == Some("assistant")
            || content.and_then(Value::as_array).is_some_and(|it| it.iter().all(is_result))
    };
    match behind.all(is_of_turn) {
        true => Ok(()),
        false => Err("more than that turn is behind the message".into()),
    }
}

fn setup(flags: &Flags, settings: &Value, id: String, cwd: &Path) -> anyhow::Result<Setup> {
    let of_settings =
        settings.get("permissions").and_then(|it| it.get("defaultMode")).and_then(Value::as_str);
    let skips = flags.dangerously_skip_permissions;
    let mode =
        flags.permission_mode.clone().or_else(|| skips.then(|| "bypassPermissions".to_owned()));
    if mode.is_none()
        && of_settings == Some("bypassPermissions")
        && !flags.allow_dangerously_skip_permissions
    {
        bail!("the mode `bypassPermissions` needs `--allow-dangerously-skip-permissions`");
    }
    let directories = flags.add_dir.iter().map(|it| cwd.join(it).to_string_lossy().into_owned());
    let asked = mode.as_deref() == Some("bypassPermissions");
    Ok(Setup {
        id,
        cwd: cwd.to_str().context("the working directory is not UTF-8")?.to_owned(),
        settings: flags.settings.iter().map(|it| source(it, cwd)).collect(),
        setting_sources: flags.sources(),
        may_bypass: skips || flags.allow_dangerously_skip_permissions || asked,
        mode,
        allowed: rules(&flags.allowed_tools),
        disallowed: rules(&flags.disallowed_tools),
        directories: directories.collect(),
    })
}

/// Returns a source of settings: JSON text, or the absolute path of a file.
fn source(source: &str, cwd: &Path) -> String {
    match source.trim_start().starts_with('{') {
        true => source.to_owned(),
        false => cwd.join(source).to_string_lossy().into_owned(),
    }
}

/// Returns the tools that the options leave: those of `--tools`, without those that a bare rule of `--disallowedTools`
/// names.
fn visible(flags: &Flags, all: Vec<Tool>) -> Vec<Tool> {
    let denied = rules(&flags.disallowed_tools);
    let wanted: Option<Vec<String>> = match flags.tools.as_deref() {
        None | Some("default") => None,
        Some(list) => Some(list.split([',', ' ']).map(str::to_owned).collect()),
    };
    let is_wanted = |tool: &Tool| {
        let named = wanted.as_ref().is_none_or(|it| it.contains(&tool.name));
        tool.name == OUTPUT || (named && !denied.contains(&tool.name))
    };
    all.into_iter().filter(is_wanted).collect()
}

/// Returns the servers of the host, and those of kinds that are not built yet.
fn servers(flags: &Flags) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for text in &flags.mcp_config {
        let text = match text.trim_start().starts_with('{') {
            true => text.clone(),
            false => std::fs::read_to_string(text)
                .with_context(|| format!("the servers `{text}` cannot be read"))?,
        };
        let config: Value = serde_json::from_str(&text).context("`--mcp-config` is not JSON")?;
        for (name, server) in
            config.get("mcpServers").and_then(Value::as_object).into_iter().flatten()
        {
            let is_own = server.get("type").and_then(Value::as_str) == Some("sdk");
            if is_own { own.push(name.clone()) } else { others.push(name.clone()) }
        }
    }
    Ok((own, others))
}
