//! The state of a session: where it works, its permissions, the files that it has read, its list of things to do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stockade_files::Facts;
use stockade_wire::types::Context;

use crate::list::List;

/// The first state of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Identity of the session.
    pub id: String,
    /// Working directory, absolute.
    pub cwd: String,
    /// `--settings`: files or JSON texts.
    pub settings: Vec<String>,
    /// `--setting-sources`.
    pub setting_sources: Option<Vec<String>>,
    /// `--permission-mode`; none means that of the settings.
    pub mode: Option<String>,
    /// The mode `bypassPermissions` may be chosen.
    pub may_bypass: bool,
    /// `--allowedTools`.
    pub allowed: Vec<String>,
    /// `--disallowedTools`.
    pub disallowed: Vec<String>,
    /// `--add-dir`, absolute.
    pub directories: Vec<String>,
}

/// A call that was not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// Name of the tool.
    pub tool: String,
    /// Identity of the call.
    pub call_id: String,
    /// Its input.
    pub input: Value,
}

#[derive(Debug, Default)]
struct State {
    cwd: String,
    mode: Option<String>,
    rules: HashMap<String, Vec<String>>,
    directories: Vec<String>,
    /// By real path, and by the path that was named.
    known: HashMap<PathBuf, Facts>,
    todos: Value,
    list: List,
    /// The mode that the model was told last.
    told_mode: Option<String>,
    denials: Vec<Denial>,
    structured: Option<Value>,
    before_plan: Option<String>,
    /// Why nothing that changes something may run.
    hindrance: Option<String>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    setup: Setup,
    state: Mutex<State>,
}

impl Session {
    /// Begins a session.
    #[must_use]
    pub fn new(setup: Setup) -> Session {
        let state = State {
            cwd: setup.cwd.clone(),
            mode: setup.mode.clone(),
            directories: setup.directories.clone(),
            ..State::default()
        };
        Session { setup, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identity of the session.
    pub fn id(&self) -> &str {
        &self.setup.id
    }

    /// The directory in which the session began.
    pub fn home(&self) -> &str {
        &self.setup.cwd
    }

    /// The directory in which commands work now.
    pub fn cwd(&self) -> String {
        self.state().cwd.clone()
    }

    pub(crate) fn set_cwd(&self, cwd: &str) {
        cwd.clone_into(&mut self.state().cwd);
    }

    /// The permission mode.
    pub fn mode(&self) -> String {
        self.state().mode.clone().unwrap_or_else(|| "default".into())
    }

    /// Changes the mode.
    ///
    /// # Errors
    ///
    /// The mode does not exist, or needs a flag at the start.
    pub fn set_mode(&self, mode: &str) -> Result<(), String> {
        let known = ["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"];
        if !known.contains(&mode) {
            return Err(format!("invalid permission mode `{}`", mode.escape_debug()));
        }
        if mode == "bypassPermissions" && !self.setup.may_bypass {
            return Err("the mode `bypassPermissions` needs `--allow-dangerously-skip-permissions` at the start".into());
        }
        let mut state = self.state();
        if mode == "plan" && state.mode.as_deref() != Some(mode) {
            state.before_plan = state.mode.clone();
        }
        state.mode = Some(mode.to_owned());
        Ok(())
    }

    /// Leaves the mode `plan` for the one before, and returns that.
    pub(crate) fn leave_plan(&self) -> String {
        let mut state = self.state();
        let before = state.before_plan.take();
        // A mode of the settings is not known here, and stays theirs.
        let is_theirs = before.is_none() && self.setup.mode.is_none();
        let before = before.unwrap_or_else(|| "default".into());
        state.mode = (!is_theirs).then(|| before.clone());
        before
    }

    /// Adds rules of the kind `deny` or `ask` for the rest of the session. Other kinds would allow more, and are left out.
    pub fn restrict(&self, kind: &str, rules: Vec<String>) {
        if !matches!(kind, "deny" | "ask") {
            return;
        }
        let mut state = self.state();
        let kept = state.rules.entry(kind.to_owned()).or_default();
        for rule in rules {
            if !kept.contains(&rule) {
                kept.push(rule);
            }
        }
    }

    /// Makes a change of permissions, in the form of the SDK. What is to be written into settings files holds for this
    /// session alone: the agent has no right to write them. Returns a mode that it sets.
    pub(crate) fn update(&self, change: &Value) -> Result<Option<String>, String> {
        let text = |key: &str| change.get(key).and_then(Value::as_str).unwrap_or_default();
        let list =
            |key: &str| change.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        match text("type") {
            kind @ ("addRules" | "replaceRules" | "removeRules") => {
                let rules: Vec<String> = list("rules").iter().filter_map(rule).collect();
                let mut state = self.state();
                let kept = state.rules.entry(text("behavior").to_owned()).or_default();
                match kind {
                    "addRules" => kept.extend(rules),
                    "replaceRules" => *kept = rules,
                    _ => kept.retain(|it| !rules.contains(it)),
                }
                Ok(None)
            }
            "setMode" => self.set_mode(text("mode")).map(|()| Some(text("mode").to_owned())),
            kind @ ("addDirectories" | "removeDirectories") => {
                let named: Vec<String> = list("directories")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
                let mut state = self.state();
                state.directories.retain(|it| !named.contains(it));
                if kind == "addDirectories" {
                    state.directories.extend(named);
                }
                Ok(None)
            }
            other => Err(format!("there is no change of permissions `{}`", other.escape_debug())),
        }
    }

    /// Returns what decides about a call besides the call. The variables for commands are not the agent's to say: whoever
    /// starts it adds them on the way to the gateway.
    pub(crate) fn context(&self, interactive: bool) -> Context {
        let state = self.state();
        let mut settings = self.setup.settings.clone();
        if !state.rules.is_empty() {
            settings.push(json!({ "permissions": state.rules }).to_string());
        }
        Context {
            settings,
            setting_sources: self.setup.setting_sources.clone(),
            mode: state.mode.clone(),
            allowed_tools: self.setup.allowed.clone(),
            disallowed_tools: self.setup.disallowed.clone(),
            additional_directories: state.directories.clone(),
            session_directory: Some(self.setup.cwd.clone()),
            session: Some(self.setup.id.clone()),
            interactive,
            door: "agent".into(),
            agent: Some("stockade".into()),
            ..Context::default()
        }
    }

    /// Returns what is known of the file that a call names.
    pub(crate) fn known(&self, path: &str) -> Value {
        let state = self.state();
        let path = Path::new(&state.cwd).join(path);
        match state.known.get(&path) {
            Some(facts) => json!({ "known": { "digest": facts.digest, "ranges": facts.ranges } }),
            None => Value::Null,
        }
    }

    /// Remembers what a call has read or written. Says whether the file was another one before.
    pub(crate) fn learn(&self, path: &str, facts: Facts) -> bool {
        let mut state = self.state();
        let named = Path::new(&state.cwd).join(path);
        let before = state.known.get(&facts.path);
        let changed = before.is_some_and(|before| before.digest != facts.digest);
        let ranges = match before {
            Some(before) if !changed => [before.ranges.clone(), facts.ranges.clone()].concat(),
            Some(_) | None => facts.ranges.clone(),
        };
        let facts = Facts { ranges, ..facts };
        state.known.insert(facts.path.clone(), facts.clone());
        state.known.insert(named, facts);
        changed
    }

    /// Has nothing that changes something run for a reason, or again.
    pub fn set_hindrance(&self, reason: Option<String>) {
        self.state().hindrance = reason;
    }

    /// Returns why nothing that changes something may run.
    pub fn hindrance(&self) -> Option<String> {
        self.state().hindrance.clone()
    }

    /// The list of things to do.
    pub fn todos(&self) -> Value {
        self.state().todos.clone()
    }

    pub(crate) fn set_todos(&self, todos: Value) -> Value {
        std::mem::replace(&mut self.state().todos, todos)
    }

    /// The task list.
    pub fn task_list(&self) -> Value {
        serde_json::to_value(&self.state().list).unwrap_or_default()
    }

    /// Takes over both lists of things to do from the session that goes on. One that cannot be read is empty.
    pub fn restore(&self, todos: Value, list: &Value) {
        let mut state = self.state();
        state.todos = todos;
        state.list = List::deserialize(list).unwrap_or_default();
    }

    /// Does a call of a tool of the task list on a copy of the list, and returns that as well.
    pub(crate) fn list(&self, tool: &str, input: &Value) -> Result<(String, Value, List), String> {
        let mut list = self.state().list.clone();
        let (told, result) = list.call(tool, input)?;
        Ok((told, result, list))
    }

    /// Puts a list in the place of the task list.
    pub(crate) fn set_list(&self, list: List) {
        self.state().list = list;
    }

    /// Returns the mode if it is another than the model was told last.
    pub(crate) fn take_new_mode(&self) -> Option<String> {
        let mode = self.mode();
        let before = self.state().told_mode.replace(mode.clone());
        before.filter(|before| *before != mode).map(|_| mode)
    }

    /// The structured output that the model gave.
    pub fn structured(&self) -> Option<Value> {
        self.state().structured.clone()
    }

    pub(crate) fn set_structured(&self, output: Option<Value>) {
        self.state().structured = output;
    }

    /// Takes the calls that were refused since the last time.
    pub fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut self.state().denials)
    }

    pub(crate) fn deny(&self, denial: Denial) {
        self.state().denials.push(denial);
    }
}

/// Returns a rule of the SDK's form in the form of settings.
fn rule(rule: &Value) -> Option<String> {
    let tool = rule.get("toolName").and_then(Value::as_str)?;
    let content = rule.get("ruleContent").and_then(Value::as_str).filter(|it| !it.is_empty());
    Some(content.map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_permissions_hold_for_the_session() {
        let session = Session::new(Setup::default());
        let add = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings",
            "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }, { "toolName": "Read" }] });
        assert_eq!(session.update(&add), Ok(None));
        let settings = &session.context(false).settings;
        assert_eq!(settings, &[r#"{"permissions":{"allow":["Bash(make:*)","Read"]}}"#]);
        let mode = json!({ "type": "setMode", "mode": "acceptEdits" });
        assert_eq!(session.update(&mode), Ok(Some("acceptEdits".into())));
        assert!(
            session.update(&json!({ "type": "setMode", "mode": "bypassPermissions" })).is_err()
        );
        assert!(session.update(&json!({ "type": "x" })).is_err());
        assert_eq!(session.mode(), "acceptEdits");
    }

    #[test]
    fn ranges_of_one_version_add_up() {
        let session = Session::new(Setup { cwd: "/p".into(), ..Setup::default() });
        let facts = |digest: &str, range| Facts {
            path: "/p/a".into(),
            digest: digest.into(),
            ranges: vec![range],
        };
        assert_eq!(session.known("a"), Value::Null);
        session.learn("a", facts("1", (1, 2)));
        session.learn("/p/a", facts("1", (5, 6)));
        assert_eq!(session.known("a")["known"]["ranges"], json!([[1, 2], [5, 6]]));
        session.learn("a", facts("2", (3, 4)));
        assert_eq!(
            session.known("/p/a"),
            json!({ "known": { "digest": "2", "ranges": [[3, 4]] } })
        );
    }
}
