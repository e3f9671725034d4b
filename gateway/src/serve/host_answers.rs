//! Words of an agent's host, as the process between the two read them.
//!
//! Lines of the agent and of its host pass through [`Said`]. An answer to a question, a rule, a directory or a mode that
//! the agent brings to its gateway counts only if the host said so here. The process of the agent is not believed: a
//! request is the host's to see as it is remembered, and an identity that comes twice is remembered no more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// Words about calls that are kept.
const WORDS: usize = 128;
/// The tool whose yes ends the mode `plan`.
const LEAVES: &str = "ExitPlanMode";
/// Tools that run commands.
const SHELLS: [&str; 2] = ["Bash", "Monitor"];
/// Characters that some readers take for the end of a line.
const ENDS: [(char, &str); 4] = [
    ('\u{7f}', "\\u007f"),
    ('\u{85}', "\\u0085"),
    ('\u{2028}', "\\u2028"),
    ('\u{2029}', "\\u2029"),
];

/// The words of one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said(Arc<Mutex<State>>);

/// A question of the gateway about a call that an agent asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// The run it is about, of all connections.
    pub(crate) run: RunOf,
    /// Identity of the call, as the agent says.
    pub(crate) call: String,
    /// Name of the tool; none for one that runs commands.
    pub(crate) tool: Option<String>,
    /// Input as the agent sent it.
    pub(crate) sent: Value,
    /// Input as it would run.
    pub(crate) input: Value,
    /// A rule of the user wants it asked, whatever hooks say.
    pub(crate) by_rule: bool,
}

/// A run of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunOf {
    pub(crate) connection: u64,
    pub(crate) id: String,
}

#[derive(Debug, Default)]
struct State {
    /// Requests of the agent that the host has not answered.
    open: HashMap<String, Request>,
    used: HashSet<String>,
    about: VecDeque<Word>,
    mode: Option<String>,
    before_plan: Option<String>,
    modes: HashSet<String>,
    rules: Words,
    directories: Words,
    /// The host wants files restored.
    restores: bool,
    /// Settings of the host that only tighten.
    tightened: Vec<String>,
}

/// Values that the host gave: the current ones, and all earlier ones.
#[derive(Debug, Default)]
struct Words {
    now: Vec<String>,
    ever: HashSet<String>,
}

/// Parts of an answer of the host, which may contradict each other where several hooks gave it.
#[derive(Debug, Clone, Copy)]
struct Decided {
    allows: bool,
    refuses: bool,
}

/// Question to the host about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The question itself.
    Question,
    /// Its hooks of PermissionRequest.
    Requested,
    /// Its hooks of PreToolUse.
    Before,
    /// Hooks of other events.
    Other,
}

/// A request to the host about the call of a tool.
#[derive(Debug)]
struct Request {
    kind: Kind,
    call: String,
    tool: String,
    input: Value,
}

/// Answer of the host about one call. Hooks with the same input share one answer.
#[derive(Debug)]
struct Word {
    about: Request,
    answer: Decided,
    /// Inputs for which it holds.
    inputs: Vec<Value>,
    /// The one run for which it serves.
    run: Option<RunOf>,
}

impl Words {
    fn change(&mut self, kind: &str, words: Vec<String>) {
        if kind.starts_with("remove") {
            return self.now.retain(|it| !words.contains(it));
        }
        if kind.starts_with("replace") {
            self.now.clear();
        }
        self.ever.extend(words.iter().cloned());
        self.now.extend(words);
    }

    /// Returns whether a word holds; none if it was never said.
    fn holds(&self, word: &str) -> Option<bool> {
        self.ever.contains(word).then(|| self.now.iter().any(|it| it == word))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a rule of the SDK's form in the form of settings.
fn rule(rule: &Value) -> Option<String> {
    let tool = rule.get("toolName").and_then(Value::as_str)?;
    let content = rule.get("ruleContent").and_then(Value::as_str).filter(|it| !it.is_empty());
    Some(content.map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")))
}

impl Said {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line of the host.
    pub(crate) fn of_host(&self, line: &[u8]) {
        let Ok(frame) = serde_json::from_slice::<Value>(line) else { return };
        let mut state = self.state();
        match text(&frame, "type") {
            "control_request" => state.request(frame.get("request").unwrap_or(&Value::Null)),
            "control_response" => state.answer(frame.get("response").unwrap_or(&Value::Null)),
            "user" => {
                let content = frame.pointer("/message/content").unwrap_or(&Value::Null);
                let content = content.pointer("/0/text").unwrap_or(content);
                state.restores |=
                    content.as_str().is_some_and(|it| it.trim_start().starts_with("/rewind"));
            }
            _ => {}
        }
    }

    /// Takes a line of the agent, and returns it as the host is to see it: written anew, so that nobody reads another
    /// request in it than is remembered. None if it is no frame.
    pub(crate) fn of_agent(&self, line: &[u8]) -> Option<String> {
        let frame = serde_json::from_slice::<Value>(line).ok().filter(Value::is_object)?;
        if text(&frame, "type") == "control_request" {
            self.state().wants(&frame);
        }
        let mut line = frame.to_string();
        for (end, escape) in ENDS {
            if line.contains(end) {
                line = line.replace(end, escape);
            }
        }
        Some(line)
    }

    /// Says whether the host agreed to what the gateway asks about; then the answer serves for this run alone.
    pub(crate) fn agrees(&self, asked: &Asked) -> bool {
        let mut state = self.state();
        if asked.sent.get("restore").is_some() {
            return state.restores;
        }
        state.about.iter_mut().any(|word| word.agrees(asked))
    }

    /// Takes settings of the host that only tighten: nothing takes them back.
    pub(crate) fn tighten(&self, settings: String) {
        self.state().tightened.push(settings);
    }

    /// Returns the settings that the host added since the session began.
    pub(crate) fn tightened(&self) -> Vec<String> {
        self.state().tightened.clone()
    }

    /// Returns the mode that the host set, if it did.
    pub(crate) fn mode(&self) -> Option<String> {
        self.state().mode.clone()
    }

    /// Says whether the host set this mode at any time.
    pub(crate) fn knows_mode(&self, mode: &str) -> bool {
        self.state().modes.contains(mode)
    }

    /// Takes the mode of the beginning, to which an agent goes back.
    pub(crate) fn begin(&self, mode: Option<&str>) {
        self.state().mode = mode.map(str::to_owned);
    }

    /// Returns whether an allow rule of the host holds; none if the host never gave it.
    pub(crate) fn rule(&self, rule: &str) -> Option<bool> {
        self.state().rules.holds(rule)
    }

    /// Returns whether a directory of the host counts; none if the host never added it.
    pub(crate) fn directory(&self, directory: &str) -> Option<bool> {
        self.state().directories.holds(directory)
    }
}

impl State {
    /// Takes a request of the agent.
    fn wants(&mut self, frame: &Value) {
        let id = text(frame, "request_id").to_owned();
        if !self.used.insert(id.clone()) {
            self.open.remove(&id);
            return;
        }
        let request = frame.get("request").unwrap_or(&Value::Null);
        let given = |value: &Value, key: &str| value.get(key).cloned().unwrap_or_default();
        let call = text(request, "tool_use_id").to_owned();
        let request = match text(request, "subtype") {
            "can_use_tool" => {
                let (tool, input) = (text(request, "tool_name").into(), given(request, "input"));
                Request { kind: Kind::Question, call, tool, input }
            }
            "hook_callback" => {
                let frame = given(request, "input");
                let kind = match text(&frame, "hook_event_name") {
                    "PermissionRequest" => Kind::Requested,
                    "PreToolUse" => Kind::Before,
                    _ => Kind::Other,
                };
                let tool = text(&frame, "tool_name").into();
                Request { kind, call, tool, input: given(&frame, "tool_input") }
            }
            _ => return,
        };
        self.open.insert(id, request);
    }

    /// Takes a request of the host.
    fn request(&mut self, request: &Value) {
        match text(request, "subtype") {
            "set_permission_mode" => self.set_mode(text(request, "mode")),
            // A host that only asks which files these would be lets nothing be restored.
            "rewind_files" => {
                self.restores |= request.get("dry_run").and_then(Value::as_bool) != Some(true);
            }
            _ => {}
        }
    }

    /// Takes an answer of the host.
    fn answer(&mut self, response: &Value) {
        let Some(request) = self.open.remove(text(response, "request_id")) else { return };
        let null = Value::Null;
        let answer = response.get("response").filter(|_| text(response, "subtype") == "success");
        let answer = answer.unwrap_or(&null);
        let specific = answer.get("hookSpecificOutput").unwrap_or(&null);
        match request.kind {
            Kind::Question => self.decided(request, answer),
            Kind::Requested => {
                let decision = specific.get("decision").unwrap_or(&null);
                match refuses(answer) {
                    true => self.word(request, Decided { allows: false, refuses: true }, &null),
                    false => self.decided(request, decision),
                }
            }
            Kind::Before => {
                let (older, decision) =
                    (text(answer, "decision"), text(specific, "permissionDecision"));
                let allows = decision == "allow"
                    || (decision.is_empty() && ["allow", "approve"].contains(&older));
                let refuses = refuses(answer) || decision == "deny";
                self.word(request, Decided { allows, refuses }, specific);
            }
            Kind::Other => {}
        }
    }

    /// Takes a yes or no to a question.
    fn decided(&mut self, request: Request, decision: &Value) {
        let allows = match text(decision, "behavior") {
            "allow" => true,
            "" if decision.is_null() => return,
            _ => false,
        };
        self.word(request, Decided { allows, refuses: !allows }, decision);
        let updates = decision.get("updatedPermissions").and_then(Value::as_array);
        updates.into_iter().flatten().filter(|_| allows).for_each(|change| self.change(change));
    }

    /// Remembers a word about a call, and the input that goes with it.
    fn word(&mut self, about: Request, answer: Decided, given: &Value) {
        if answer.allows && about.tool == LEAVES {
            self.leave_plan();
        }
        let changed = given.get("updatedInput").filter(|it| it.is_object()).cloned();
        // A question is about one input; hooks before a call are heard together.
        let input = match about.kind {
            Kind::Before => None,
            Kind::Question | Kind::Requested | Kind::Other => changed.clone(),
        };
        let inputs = match input {
            Some(input) => vec![input],
            None => std::iter::once(about.input.clone()).chain(changed).collect(),
        };
        let mut word = Word { about, answer, inputs, run: None };
        if word.about.kind != Kind::Question
            && let Some(at) = self.about.iter().position(|it| it.joins(&word))
            && let Some(before) = self.about.remove(at)
        {
            word.answer.allows |= before.answer.allows;
            word.answer.refuses |= before.answer.refuses;
            word.inputs.extend(before.inputs);
        }
        self.about.truncate(WORDS - 1);
        self.about.push_front(word);
    }

    /// Makes a change of permissions that the host wants.
    fn change(&mut self, change: &Value) {
        let list = |key: &str| change.get(key).and_then(Value::as_array).into_iter().flatten();
        match text(change, "type") {
            kind @ ("addRules" | "replaceRules" | "removeRules")
                if text(change, "behavior") == "allow" =>
            {
                self.rules.change(kind, list("rules").filter_map(rule).collect());
            }
            kind @ ("addDirectories" | "removeDirectories") => {
                let named = list("directories").filter_map(Value::as_str).map(str::to_owned);
                self.directories.change(kind, named.collect());
            }
            "setMode" => self.set_mode(text(change, "mode")),
            _ => {}
        }
    }

    fn set_mode(&mut self, mode: &str) {
        if mode == "plan" && self.mode.as_deref() != Some(mode) {
            self.before_plan = self.mode.clone();
        }
        self.modes.insert(mode.to_owned());
        self.mode = Some(mode.to_owned());
    }

    fn leave_plan(&mut self) {
        if self.mode.as_deref() == Some("plan") {
            let before = self.before_plan.take().unwrap_or_else(|| "default".into());
            self.modes.insert(before.clone());
            self.mode = Some(before);
        }
    }
}

/// Says whether a hook blocks, in the forms that hold for each event.
fn refuses(answer: &Value) -> bool {
    let stops = answer.get("continue").and_then(Value::as_bool) == Some(false);
    stops || ["deny", "block"].contains(&text(answer, "decision"))
}

impl Word {
    /// Says whether another hook of the same event said this about the same call.
    fn joins(&self, other: &Word) -> bool {
        let (one, two) = (&self.about, &other.about);
        self.run.is_none()
            && (one.kind, &one.call, &one.tool, &one.input)
                == (two.kind, &two.call, &two.tool, &two.input)
    }

    fn agrees(&mut self, asked: &Asked) -> bool {
        let is_tool = match &asked.tool {
            Some(tool) => *tool == self.about.tool,
            None => SHELLS.contains(&self.about.tool.as_str()),
        };
        let is_before = self.about.kind == Kind::Before;
        let is_it = self.about.call == asked.call
            && is_tool
            && self.run.as_ref().is_none_or(|it| *it == asked.run)
            && self.answer.allows
            && !self.answer.refuses
            && !(is_before && asked.by_rule);
        let now = if is_before { &asked.sent } else { &asked.input };
        let same = |input: &Value| match asked.tool {
            Some(_) => input == now,
            None => {
                let out = |it: &Value| it.get("dangerouslyDisableSandbox") == Some(&json!(true));
                input.get("command") == now.get("command") && (out(input) || !out(now))
            }
        };
        let agrees = is_it && self.inputs.iter().any(same);
        if agrees {
            self.run = Some(asked.run.clone());
        }
        agrees
    }
}

#[cfg(test)]
mod tests;
