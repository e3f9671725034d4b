//! `stockade acp -- AGENT`: between an editor and another agent. Questions of the agent are answered by the rules, those that no
//! rule answers go on to the editor, and the agent gets nothing of the editor's files and terminals.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use stockade_client::{Client, Options};
use stockade_wire::approvals::AnsweredRequest;
use stockade_wire::types::{Answer, CheckRequest, Context, DecisionView};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};

/// Longest message.
const LONGEST: u64 = 16 << 20;
/// Most messages of the editor that wait for an answer, and most sessions.
const MOST: usize = 10_000;
/// Codes of errors (JSON-RPC 2.0, section 5.1).
const UNKNOWN_METHOD: i64 = -32_601;
const INVALID: i64 = -32_602;
/// Kinds of answers that the editor may choose. A yes for good would be the agent's own, past the rules.
const KINDS: [&str; 3] = ["allow_once", "reject_once", "reject_always"];
/// Name of a call that does not say as a whole what it does: no rule about commands or files matches it.
const UNCLEAR: &str = "AgentCall";

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Something to check: the tool of the gate, and its input.
type Claim = (&'static str, Value);

/// Returns all that a call claims to do, and whether that is everything: its kind, command, paths and address fit together.
fn claims(call: &Value) -> (Vec<Claim>, bool) {
    let input = call.get("rawInput").cloned().unwrap_or_default();
    let kind = text(call, "kind");
    let command = input.get("command").map(|it| it.as_str().map(str::to_owned));
    let places = call.get("locations").and_then(Value::as_array).into_iter().flatten();
    let diffs = call.get("content").and_then(Value::as_array).into_iter().flatten();
    let named = places.chain(diffs.filter(|it| text(it, "type") == "diff"));
    let of_input = ["file_path", "filePath", "path", "abs_path", "notebook_path"];
    let paths: BTreeSet<String> = named
        .map(|it| text(it, "path"))
        .chain(of_input.iter().map(|key| text(&input, key)))
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    let tool = if matches!(kind, "read" | "search") { "Read" } else { "Edit" };
    let mut found: Vec<Claim> = Vec::new();
    if let Some(Some(command)) = &command {
        found.push(("Bash", json!({ "command": command })));
    }
    // A call that executes may name files that it does not change.
    let of_files = kind != "execute";
    found
        .extend(paths.iter().filter(|_| of_files).map(|path| (tool, json!({ "file_path": path }))));
    let url = text(&input, "url");
    if !url.is_empty() {
        found.push(("WebFetch", json!({ "url": url, "prompt": "" })));
    }
    let is_whole = input.is_object()
        && match kind {
            "execute" => matches!(command, Some(Some(_))) && url.is_empty(),
            "read" | "edit" => command.is_none() && url.is_empty() && !paths.is_empty(),
            "fetch" => command.is_none() && paths.is_empty() && !url.is_empty(),
            // Deletion, moves and kinds of later versions are for a person.
            _ => false,
        };
    (found, is_whole)
}

/// Says whether a hook put another input in the place of this one.
fn is_other(judged: &Value, input: &Value) -> bool {
    let differs = |key: &&str| judged.get(key) != input.get(key);
    judged.is_object() && ["command", "file_path", "url"].iter().any(differs)
}

/// The decision of the rules about a question.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Allow,
    Ask,
    Deny(String),
}

/// Returns the answer of the rules: the strictest of all claims. What is not claimed as a whole is never allowed.
fn judge(call: &Value, mut check: impl FnMut(&Claim) -> Option<(String, String)>) -> Said {
    let (mut claims, is_whole) = claims(call);
    let is_whole = is_whole && !claims.is_empty();
    let mut said = if is_whole { Said::Allow } else { Said::Ask };
    claims.extend((!is_whole).then(|| unclear(call)));
    for claim in &claims {
        match check(claim) {
            Some((decision, reason)) if decision == "deny" => return Said::Deny(reason),
            Some((decision, _)) if decision == "allow" => {}
            // The gate asks about a call that it cannot judge.
            Some(_) | None => said = Said::Ask,
        }
    }
    said
}

/// Returns the call as it is recorded if it does not say as a whole what it does.
fn unclear(call: &Value) -> Claim {
    let field = |key: &str| call.get(key).cloned().unwrap_or_default();
    let input =
        json!({ "kind": field("kind"), "title": field("title"), "input": field("rawInput") });
    (UNCLEAR, input)
}

/// Returns the answer to a question, with the option of this kind. Without such an option there is none.
fn chosen(params: &Value, kind: &str) -> Option<Value> {
    let options = params.get("options").and_then(Value::as_array)?;
    let option = options.iter().find(|option| text(option, "kind") == kind)?;
    let id = option.get("optionId").filter(|it| it.is_string())?;
    Some(json!({ "outcome": { "outcome": "selected", "optionId": id } }))
}

/// A question that was passed on to the editor.
struct Put {
    /// Identity of the agent's request.
    id: Value,
    /// Options that the editor was shown, and the kind of each.
    offered: HashMap<String, String>,
    /// Questions of the gateway that the answer is recorded for.
    questions: Vec<String>,
    at: Instant,
}

/// The connection between both.
struct Between {
    gateway: Client,
    context: Context,
    /// Directories of the sessions.
    sessions: HashMap<String, String>,
    /// Requests of the editor: the method, and the directory that a new session gets.
    of_editor: HashMap<String, (String, String)>,
    /// Questions that were passed on, by their identity for the editor.
    of_agent: HashMap<u64, Put>,
    next: u64,
}

/// Where a message goes.
#[derive(Debug, PartialEq)]
enum To {
    Editor(Value),
    Agent(Value),
    Nobody,
}

fn refuse(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

impl Between {
    /// Takes a message of the editor.
    fn heard_editor(&mut self, mut message: Value) -> To {
        let method = text(&message, "method").to_owned();
        match (message.get("id").cloned(), method.is_empty()) {
            (Some(id), true) => {
                let put = id.as_u64().and_then(|id| self.of_agent.remove(&id));
                put.map_or(To::Nobody, |put| self.answered(&put, &message))
            }
            (Some(id), false) => {
                if self.of_editor.len() >= MOST || self.of_editor.contains_key(&id.to_string()) {
                    return To::Editor(refuse(&id, INVALID, "this id waits for an answer already"));
                }
                let params = message.get("params").cloned().unwrap_or_default();
                let cwd = text(&params, "cwd").to_owned();
                if matches!(method.as_str(), "session/load" | "session/resume") {
                    self.sessions.insert(text(&params, "sessionId").to_owned(), cwd.clone());
                }
                self.of_editor.insert(id.to_string(), (method.clone(), cwd));
                if method == "initialize"
                    && let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
                {
                    // The agent is told that there is none of this: the editor would do it unconfined.
                    let nothing = json!({ "readTextFile": false, "writeTextFile": false });
                    params.insert(
                        "clientCapabilities".into(),
                        json!({ "fs": nothing, "terminal": false }),
                    );
                }
                To::Agent(message)
            }
            (None, _) => To::Agent(message),
        }
    }

    /// Takes a message of the agent. What is not known goes nowhere.
    fn heard_agent(&mut self, message: Value) -> To {
        let method = text(&message, "method").to_owned();
        let params = message.get("params").cloned().unwrap_or_default();
        match (message.get("id").cloned(), method.as_str()) {
            (None, "session/update") => To::Editor(message),
            (None, _) => To::Nobody,
            (Some(id), "") => {
                let Some((method, cwd)) = self.of_editor.remove(&id.to_string()) else {
                    return To::Nobody;
                };
                let session = message.get("result").map(|it| text(it, "sessionId"));
                if let Some(session) =
                    session.filter(|it| method == "session/new" && !it.is_empty())
                {
                    self.sessions.entry(session.to_owned()).or_insert(cwd);
                }
                To::Editor(message)
            }
            (Some(id), "session/request_permission") => self.asked(&id, &params),
            (Some(id), other) => {
                let why = format!("`{}` is withheld by stockade", other.escape_debug());
                To::Agent(refuse(&id, UNKNOWN_METHOD, &why))
            }
        }
    }

    /// Records what the person at the editor said, and passes it on. A yes that cannot be recorded is none, and so is an
    /// answer that was not offered.
    fn answered(&mut self, put: &Put, message: &Value) -> To {
        let outcome = message.get("result").and_then(|it| it.get("outcome"));
        let outcome = outcome.filter(|it| text(it, "outcome") == "selected");
        let option = outcome.map(|it| text(it, "optionId")).unwrap_or_default();
        let kind = put.offered.get(option).map(String::as_str);
        let answer = match kind {
            Some("allow_once") => Answer::Once,
            Some(_) => Answer::Deny,
            None => Answer::Withdrawn,
        };
        let waited_ms = u64::try_from(put.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut is_recorded = true;
        for question in &put.questions {
            let request = AnsweredRequest {
                question_id: question.clone(),
                answer: answer.clone(),
                waited_ms,
            };
            if let Err(failure) = self.gateway.answered(&request) {
                eprintln!("stockade: {}", failure.message);
                is_recorded = false;
            }
        }
        let outcome = match kind {
            Some(_) if is_recorded || answer == Answer::Deny => {
                json!({ "outcome": "selected", "optionId": option })
            }
            Some(_) | None => json!({ "outcome": "cancelled" }),
        };
        To::Agent(json!({ "jsonrpc": "2.0", "id": put.id, "result": { "outcome": outcome } }))
    }

    /// Answers a question of the agent, or passes it on.
    fn asked(&mut self, id: &Value, params: &Value) -> To {
        let is_id = id.is_string() || id.is_number();
        let is_open = self.of_agent.values().any(|put| put.id == *id);
        if !is_id || is_open || self.of_agent.len() >= MOST {
            return To::Agent(refuse(id, INVALID, "this id waits for an answer already"));
        }
        let Some(cwd) = self.sessions.get(text(params, "sessionId")).cloned() else {
            return To::Agent(refuse(id, INVALID, "the session is not open"));
        };
        let call = params.get("toolCall").cloned().unwrap_or_default();
        let mut questions = Vec::new();
        let said = judge(&call, |claim| {
            let view = self.check(claim, &cwd, text(&call, "toolCallId"))?;
            questions.extend(view.question_id);
            // A hook that allows another input does not allow this one, which the agent has.
            let is_other = view.decision == "allow" && is_other(&view.input, &claim.1);
            (!is_other).then_some((view.decision, view.reason))
        });
        let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        match said {
            Said::Deny(reason) => {
                eprintln!("stockade: {}", reason.escape_debug());
                let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
                To::Agent(answer(chosen(params, "reject_once").unwrap_or(cancelled)))
            }
            Said::Allow if chosen(params, "allow_once").is_some() => {
                To::Agent(answer(chosen(params, "allow_once").unwrap_or_default()))
            }
            Said::Allow | Said::Ask => {
                let own = self.next;
                self.next += 1;
                let mut params = params.clone();
                let mut offered = HashMap::new();
                if let Some(options) = params.get_mut("options").and_then(Value::as_array_mut) {
                    options.retain(|option| KINDS.contains(&text(option, "kind")));
                    let named =
                        |it: &Value| (text(it, "optionId").to_owned(), text(it, "kind").to_owned());
                    offered.extend(options.iter().map(named));
                }
                let put = Put { id: id.clone(), offered, questions, at: Instant::now() };
                self.of_agent.insert(own, put);
                To::Editor(json!({ "jsonrpc": "2.0", "id": own,
                    "method": "session/request_permission", "params": params }))
            }
        }
    }

    /// Has the gateway judge and record a claim; nothing where it cannot.
    fn check(&mut self, (tool, input): &Claim, cwd: &str, call_id: &str) -> Option<DecisionView> {
        let request = CheckRequest {
            tool: (*tool).to_owned(),
            input: input.clone(),
            cwd: cwd.to_owned(),
            record: true,
            run_hooks: true,
            caller_runs: true,
            call_id: Some(call_id.to_owned()).filter(|it| !it.is_empty()),
            context: self.context.clone(),
            ..CheckRequest::default()
        };
        let view = self.gateway.check(&request);
        view.map_err(|failure| eprintln!("stockade: {}", failure.message)).ok()
    }
}

/// Reads the next message; none at the end.
async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> Option<Value> {
    loop {
        let mut line = Vec::new();
        match (&mut *input).take(LONGEST).read_until(b'\n', &mut line).await {
            Ok(count) if count > 0 && line.ends_with(b"\n") => {}
            Ok(_) | Err(_) => return None,
        }
        // Whoever reads it next reads what was judged: it is written anew.
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) if message.is_object() => return Some(message),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Stands between the editor and an agent until one of both ends.
pub(crate) fn run(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("no agent is named; write `stockade acp -- AGENT [ARGUMENTS]`");
    };
    let own = std::env::current_exe().context("its own path is unknown")?;
    let gateway = Client::connect(&Options {
        executable: Some(own.with_file_name("stockade")),
        ..Options::from_environment()
    });
    let gateway = gateway.map_err(|failure| anyhow::anyhow!("{}", failure.message))?;
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let context = Context {
        interactive: true,
        door: "acp".into(),
        environment: std::env::vars_os().filter_map(text).collect(),
        agent: Some(
            Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned(),
        ),
        ..Context::default()
    };
    let between = Between {
        gateway,
        context,
        sessions: HashMap::new(),
        of_editor: HashMap::new(),
        of_agent: HashMap::new(),
        next: 1,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(serve(between, program, arguments));
    runtime.shutdown_background();
    done
}

async fn serve(
    mut between: Between,
    program: &OsString,
    arguments: &[OsString],
) -> anyhow::Result<ExitCode> {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| {
        format!("`{}` cannot be started", program.to_string_lossy().escape_debug())
    })?;
    let (mut to_agent, from_agent) =
        child.stdin.take().zip(child.stdout.take()).context("the agent has no pipes")?;
    // A message that was read in part must not be lost when the other side speaks first.
    let (sender, mut messages) = tokio::sync::mpsc::channel::<(bool, Option<Value>)>(64);
    let of_agent = sender.clone();
    tokio::spawn(async move {
        let mut input = BufReader::new(from_agent);
        while let Some(message) = next(&mut input).await {
            if of_agent.send((true, Some(message))).await.is_err() {
                return;
            }
        }
        let _ = of_agent.send((true, None)).await; // it is over
    });
    tokio::spawn(async move {
        let mut input = BufReader::new(tokio::io::stdin());
        while let Some(message) = next(&mut input).await {
            if sender.send((false, Some(message))).await.is_err() {
                return;
            }
        }
        let _ = sender.send((false, None)).await; // it is over
    });
    while let Some((is_of_agent, Some(message))) = messages.recv().await {
        let to = match is_of_agent {
            true => between.heard_agent(message),
            false => between.heard_editor(message),
        };
        match to {
            To::Editor(message) => crate::output::line(&message),
            To::Agent(message) => {
                if to_agent.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
            To::Nobody => {}
        }
    }
    drop(to_agent);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(5), child.wait()).await;
    Ok(match ended {
        Ok(Ok(status)) if status.success() => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(call: Value, check: impl Fn(&Claim) -> &'static str) -> Said {
        judge(&call, |claim| Some((check(claim).to_owned(), "why".to_owned())))
    }

    #[test]
    fn only_a_call_that_says_everything_is_allowed() {
        let allow = |_: &Claim| "allow";
        for whole in [
            json!({ "kind": "execute", "rawInput": { "command": "make" } }),
            json!({ "kind": "edit", "rawInput": {}, "locations": [{ "path": "/p/a" }] }),
            json!({ "kind": "read", "rawInput": { "path": "/p/a" } }),
            json!({ "kind": "fetch", "rawInput": { "url": "https://h" } }),
        ] {
            assert_eq!(of(whole.clone(), allow), Said::Allow, "{whole}");
        }
        for lacks in [
            Value::Null,
            json!({ "kind": "execute", "title": "make" }),
            json!({ "kind": "execute", "rawInput": { "command": ["make"] } }),
            json!({ "kind": "execute", "rawInput": { "command": "make", "url": "https://h" } }),
            json!({ "kind": "read", "rawInput": { "command": "make" } }),
            json!({ "kind": "edit", "locations": [{ "path": "/p/a" }] }),
            json!({ "kind": "edit", "rawInput": {} }),
            json!({ "kind": "delete", "rawInput": { "path": "/p/a" } }),
            json!({ "rawInput": { "command": "make" } }),
        ] {
            assert_eq!(of(lacks.clone(), allow), Said::Ask, "{lacks}");
        }
    }

    #[test]
    fn the_strictest_claim_counts_whatever_the_kind_says() {
        let strict = |claim: &Claim| match claim.1.to_string().contains("secret") {
            true => "deny",
            false => "allow",
        };
        for denied in [
            json!({ "kind": "edit", "rawInput": { "path": "/p/a" }, "locations": [{ "path": "/secret" }] }),
            json!({ "kind": "edit", "rawInput": { "path": "/p/a" }, "content": [{ "type": "diff", "path": "/secret" }] }),
            json!({ "kind": "read", "rawInput": { "path": "/p/a", "command": "cat secret" } }),
            json!({ "kind": "think", "rawInput": { "command": "cat secret" } }),
        ] {
            assert_eq!(of(denied.clone(), strict), Said::Deny("why".into()), "{denied}");
        }
        let call = json!({ "kind": "execute", "rawInput": { "command": "make" } });
        assert_eq!(judge(&call, |_| None), Said::Ask, "no gateway");
    }
}
