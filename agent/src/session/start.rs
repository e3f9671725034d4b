//! The first state of a session, from options, settings and environment.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;
use stockade_door::{Door, Gateway, Host, Session, Setup, Tool, server_tools, tools};
use stockade_sdk::{Frames, identity};

use super::conversation::Conversation;
use super::transcript::{Transcript, last, load};
use crate::flags::{Flags, rules};
use crate::models;
use crate::prompt::{Given, prompt};

/// The variable that tells where the gateway of this agent listens.
const GATEWAY: &str = "STOCKADE_GATEWAY";

/// A session that is about to begin.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) flags: Flags,
    pub(crate) settings: Value,
    pub(crate) session: Arc<Session>,
    pub(crate) cwd: PathBuf,
    /// What came with `initialize`.
    pub(crate) given: Given,
    /// Schema of the result.
    pub(crate) schema: Option<Value>,
    /// Servers of the host.
    pub(crate) servers: Vec<String>,
    /// Servers that cannot be used.
    pub(crate) failed: Vec<String>,
    resumed: Option<String>,
    is_new: bool,
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

impl Plan {
    /// Finds out what the session begins with.
    pub(crate) fn new(flags: Flags) -> anyhow::Result<Plan> {
        let cwd = std::env::current_dir().context("the working directory cannot be used")?;
        let whole = settings(&flags)?;
        let schema = match &flags.json_schema {
            Some(text) => Some(serde_json::from_str(text).context("`--json-schema` is not JSON")?),
            None => None,
        };
        let resumed = match (&flags.resume, flags.continue_last) {
            (Some(id), _) => Some(id.clone()),
            (None, true) => last(&cwd),
            (None, false) => None,
        };
        let is_new = flags.fork_session || resumed.is_none() || flags.session_id.is_some();
        let id = match (&flags.session_id, &resumed) {
            (Some(id), _) => id.clone(),
            (None, Some(id)) if !flags.fork_session => id.clone(),
            (None, _) => identity(),
        };
        let (servers, failed) = servers(&flags)?;
        let session = Arc::new(Session::new(setup(&flags, &whole, id, &cwd)?));
        Ok(Plan {
            flags,
            settings: whole,
            session,
            cwd,
            given: Given::default(),
            schema,
            servers,
            failed,
            resumed,
            is_new,
        })
    }

    /// Begins the session.
    pub(crate) async fn begin(self, host: Arc<dyn Host>) -> anyhow::Result<Conversation> {
        let asks = models::find(&self.flags, &self.settings)?;
        let place = std::env::var_os(GATEWAY)
            .context("there is no gateway; start the agent with `stockade agent`")?;
        let gateway = Gateway::connect(&PathBuf::from(place))
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
        let mode = self.session.mode();
        let told = prompt(&self.flags, &self.given, (&self.cwd, &asks.model, &mode))?;
        let keeps = !self.flags.no_session_persistence;
        let mut transcript = Transcript::new(&self.cwd, self.session.id(), keeps);
        let mut messages = Vec::new();
        if let Some(id) = &self.resumed {
            let kept = load(&self.cwd, id, self.flags.resume_session_at.as_deref())?;
            transcript.go_on(&kept, self.is_new);
            messages = kept.messages;
        }
        let frames = Frames::new(self.session.id());
        let door = Door::new(gateway, Arc::clone(&self.session), host, offered)
            .map_err(|error| anyhow::anyhow!(error))?;
        let servers = self.servers.iter().filter(|it| !failed.contains(it)).cloned().collect();
        let resumed = self.resumed.is_some();
        Ok(Conversation::new(
            (self.flags, asks, told),
            door,
            (messages, transcript),
            (frames, servers, failed),
            resumed,
        ))
    }
}

fn setup(
    flags: &Flags,
    settings: &Value,
    id: String,
    cwd: &std::path::Path,
) -> anyhow::Result<Setup> {
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
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let directories = flags.add_dir.iter().map(|it| cwd.join(it).to_string_lossy().into_owned());
    let asked = mode.as_deref() == Some("bypassPermissions");
    Ok(Setup {
        id,
        cwd: cwd.to_str().context("the working directory is not UTF-8")?.to_owned(),
        settings: flags.settings.clone(),
        setting_sources: flags.sources(),
        may_bypass: skips || flags.allow_dangerously_skip_permissions || asked,
        mode,
        allowed: rules(&flags.allowed_tools),
        disallowed: rules(&flags.disallowed_tools),
        directories: directories.collect(),
        environment: std::env::vars_os().filter_map(text).collect(),
    })
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
        tool.name == "StructuredOutput" || (named && !denied.contains(&tool.name))
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
