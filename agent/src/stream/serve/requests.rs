//! Requests of a host besides turns. A request for something that is not built is an error that says why; none of them
//! gives the session a right that it did not have.

use serde_json::{Value, json};
use stockade_sdk::Hooks;
use stockade_turn::Interrupter;

use super::{Served, servers};
use crate::agents::given;

/// Requests that are refused, and why.
const REFUSED: [(&str, &str); 9] = [
    (
        "update_settings",
        "the agent writes no settings files; change the file, or pass `settings` as an option",
    ),
    ("mcp_call", "a tool runs when the model calls it; call the server of the host directly"),
    ("mcp_read_resource", "resources of servers are not read; ask the server of the host directly"),
    ("read_file", "files are read for the model alone; read the file in the host"),
    ("rename_session", "pass `--name`, or use `stockade agent sessions rename`"),
    ("register_repo_root", "pass the directory as an option, `--add-dir DIR`"),
    ("seed_read_state", "a file is known once a tool has read it; have the model read it again"),
    ("reload_plugins", "plugins are read when a session begins; begin a new session"),
    (
        "set_mcp_permission_mode_override",
        "a server has no mode of its own; pass a rule such as `mcp__SERVER` as an option",
    ),
];

/// Members of `initialize` that could tighten the session or guard something, and that are not heard there.
const UNHEARD: [&str; 6] =
    ["settings", "managedSettings", "disallowedTools", "toolAliases", "plugins", "mcpServers"];

impl Served {
    /// Answers a request.
    pub(super) fn request(
        &mut self,
        subtype: &str,
        request: &Value,
        running: Option<&Interrupter>,
    ) -> Result<Value, String> {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        match subtype {
            "initialize" => self.initialize(request, running.is_some()),
            "interrupt" => Ok(self.interrupt(request, running)),
            "set_permission_mode" => {
                let mode = text("mode").unwrap_or_default();
                self.set_mode(mode)?;
                Ok(json!({ "mode": mode }))
            }
            "set_model" => {
                let model = text("model").unwrap_or("default").to_owned();
                self.model = Some(model.clone());
                Ok(json!({ "model": model }))
            }
            "mcp_status" => Ok(json!({ "mcpServers": self.servers() })),
            "mcp_set_servers" => self.set_servers(request.get("servers").unwrap_or(&Value::Null)),
            "mcp_toggle" | "mcp_reconnect" => {
                let name = text("serverName").unwrap_or_default();
                let wanted = request.get("enabled").and_then(Value::as_bool);
                match (subtype, wanted) {
                    ("mcp_reconnect", _) => self.server(name, None),
                    (_, Some(on)) => self.server(name, Some(on)),
                    (_, None) => Err("`enabled` is missing".into()),
                }
            }
            "set_max_thinking_tokens" => self.think(request),
            "get_settings" => Ok(self.settings()),
            "apply_flag_settings" => self.apply(request.get("settings").unwrap_or(&Value::Null)),
            "cancel_async_message" => {
                let (wanted, before) = (text("message_uuid"), self.queue.len());
                self.queue.retain(|it| it.uuid.is_none() || it.uuid.as_deref() != wanted);
                Ok(json!({ "cancelled": self.queue.len() < before }))
            }
            "get_binary_version" => Ok(json!({ "version": stockade_sdk::LEVEL })),
            "get_context_usage" => Ok(self.context()),
            "get_usage" => Ok(self.spent.shown()),
            "list_models" => Ok(json!({ "models": [model()] })),
            // There are neither skills nor further styles, and no command that a turn waits for can go to the background.
            "reload_skills" => Ok(json!({ "skills": [] })),
            "reload_output_styles" => Ok(json!({ "available_output_styles": ["default"] })),
            "background_tasks" => Ok(json!({ "backgrounded": false })),
            "set_has_subscribers" => Ok(json!({})),
            "stop_task" => {
                let door = self.door.as_ref().ok_or("no task is running")?;
                door.stop_task(text("task_id").unwrap_or_default())?;
                Ok(json!({}))
            }
            other => Err(refused(other)),
        }
    }

    fn set_mode(&self, mode: &str) -> Result<(), String> {
        self.state.set_mode(mode)?;
        let note = stockade_door::Note::Mode(mode.to_owned());
        stockade_door::Host::note(self.host.as_ref(), note);
        Ok(())
    }

    /// Ends the turn. Messages that wait stay, unless the host wants them gone: those that it can name are told.
    fn interrupt(&mut self, request: &Value, running: Option<&Interrupter>) -> Value {
        running.into_iter().for_each(Interrupter::interrupt);
        let named = |served: &Served| -> Vec<String> {
            served.queue.iter().filter_map(|it| it.uuid.clone()).collect()
        };
        if request.get("cancel_queued") == Some(&Value::Bool(true)) {
            let cancelled = named(self);
            self.queue.retain(|it| it.uuid.is_none());
            return json!({ "still_queued": [], "cancelled": cancelled });
        }
        json!({ "still_queued": named(self) })
    }

    fn think(&mut self, request: &Value) -> Result<Value, String> {
        let tokens = request.get("max_thinking_tokens").unwrap_or(&Value::Null);
        if !tokens.is_null() && !tokens.is_u64() {
            return Err("`max_thinking_tokens` is not a number".into());
        }
        let display = match request.get("thinking_display") {
            None => None,
            Some(Value::Null) => Some(None),
            Some(Value::String(how)) if crate::flags::DISPLAYS.contains(&how.as_str()) => {
                Some(Some(how.clone()))
            }
            Some(_) => return Err("`thinking_display` is invalid".into()),
        };
        self.display = display.or(self.display.take());
        self.thinking = Some(tokens.as_u64());
        Ok(json!({}))
    }

    /// Returns the settings that came with options. Those of files are the gateway's: the agent does not know them.
    fn settings(&self) -> Value {
        let settings = &self.given;
        let model = if self.asked.is_empty() { Value::Null } else { json!(self.asked) };
        json!({
            "effective": settings, "sources": [{ "source": "flagSettings", "settings": settings }],
            "applied": { "model": self.model.as_ref().map_or(model, |it| json!(it)), "effort": self.effort },
        })
    }

    /// Takes settings of the host into the session: all of them, or none. Rules that deny or ask are added; nothing that
    /// would allow more is taken.
    fn apply(&mut self, settings: &Value) -> Result<Value, String> {
        let fields = settings.as_object().ok_or("`settings` is not an object")?;
        let (mut rules, mut mode, mut model, mut effort) = (Vec::new(), None, None, None);
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("model", Value::Null) => model = Some("default".to_owned()),
                ("model", Value::String(name)) => model = Some(name.clone()),
                ("effortLevel", Value::Null) => effort = Some(None),
                ("effortLevel", Value::String(level))
                    if crate::flags::EFFORTS.contains(&level.as_str()) =>
                {
                    effort = Some(Some(level.clone()));
                }
                ("permissions", Value::Object(more)) => {
                    for (key, value) in more {
                        match (key.as_str(), value) {
                            ("deny" | "ask", value) => {
                                rules.push((
                                    key.clone(),
                                    texts(&format!("permissions.{key}"), value)?,
                                ));
                            }
                            ("defaultMode", Value::String(name)) => mode = Some(name.clone()),
                            _ => return Err(not_applied(&format!("permissions.{key}"))),
                        }
                    }
                }
                _ => return Err(not_applied(key)),
            }
        }
        mode.map_or(Ok(()), |mode| self.set_mode(&mode))?;
        rules.into_iter().for_each(|(kind, rules)| self.state.restrict(&kind, rules));
        self.model = model.or(self.model.take());
        self.effort = effort.unwrap_or(self.effort.take());
        Ok(json!({}))
    }

    /// Returns what fills the context window: what was found when the last turn ended. Before the first one it is not known.
    fn context(&self) -> Value {
        if self.filled.is_null() {
            return crate::session::filled(&[], (&self.asked, 0), None);
        }
        self.filled.clone()
    }

    fn initialize(&mut self, request: &Value, is_running: bool) -> Result<Value, String> {
        let is_given = |key: &&&str| match request.get(**key) {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if let Some(key) = UNHEARD.iter().find(is_given) {
            return Err(format!("`{key}` in `initialize` is not supported; pass it as an option"));
        }
        let hooks = Hooks::read(request.get("hooks").unwrap_or(&Value::Null))?;
        let policies = request.get("sdkMcpServerConfigs").unwrap_or(&Value::Null);
        let policies = servers::policies(policies)?;
        let text = |key: &str| match request.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Array(parts)) => {
                Some(parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n"))
            }
            _ => None,
        };
        if let Some(plan) = &mut self.plan {
            plan.given.agents = given(request.get("agents").unwrap_or(&Value::Null))?;
            plan.given.system = text("systemPrompt");
            plan.given.append = text("appendSystemPrompt");
            plan.given.exclude_dynamic =
                request.get("excludeDynamicSections").and_then(Value::as_bool).unwrap_or_default();
            if let Some(schema) = request.get("jsonSchema").filter(|it| it.is_object()) {
                plan.schema = Some(schema.clone());
            }
            let servers =
                request.get("sdkMcpServers").and_then(Value::as_array).into_iter().flatten();
            for name in servers.filter_map(Value::as_str).map(str::to_owned) {
                if !plan.servers.contains(&name) {
                    plan.servers.push(name);
                }
            }
        }
        self.host.set_hooks(hooks);
        policies.into_iter().for_each(|(kind, rules)| self.state.restrict(kind, rules));
        Ok(json!({
            "commands": [], "agents": [], "output_style": "default", "available_output_styles": ["default"],
            "models": [model()], "account": { "tokenSource": "none", "apiProvider": "firstParty" },
            "pid": std::process::id(), "claude_code_version": stockade_sdk::LEVEL,
            "stockade_version": env!("CARGO_PKG_VERSION"), "current_permission_mode": self.state.mode(),
            "hooks_applied": true, "hook_on_failure_supported": true,
            "session_state": if is_running { "running" } else { "idle" }, "capabilities": [],
        }))
    }
}

fn model() -> Value {
    json!({ "value": "default", "displayName": "Default", "description": "The model of the settings" })
}

fn refused(subtype: &str) -> String {
    match REFUSED.iter().find(|(name, _)| *name == subtype) {
        Some((name, why)) => format!("the request `{name}` is not supported: {why}"),
        None => format!("the request `{}` is not supported", subtype.escape_debug()),
    }
}

fn not_applied(key: &str) -> String {
    format!(
        "`{}` cannot be changed in a running session; pass `settings` as an option",
        key.escape_debug()
    )
}

/// Returns the texts of a list.
fn texts(key: &str, list: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}` is not a list of rules");
    let list = list.as_array().ok_or_else(wrong)?.iter();
    list.map(|it| it.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}
