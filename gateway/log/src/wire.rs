//! From a record as data to the members of its line, masked.

use serde_json::{Map, Value, json};
use stockade_parser::{CommandTree, Operator, Position, RedirectTarget, SimpleCommand, Span};
use stockade_policy::Verdict;

use super::cut;
use super::record::decision::{Decision, HookRun, Request, Runs};
use super::record::{Agreement, ApprovalAnswer, Body, Text};
use super::redact::Redactor;
use super::redact::mask::{Extras, mask};

/// A record that only lacks what its place in the chain gives it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) kind: &'static str,
    pub(super) reference: Option<String>,
    /// The members behind the common ones, without braces: `"host":{…},…,"redacted":[…]`.
    pub(super) members: Vec<u8>,
    pub(super) follow: Follow,
}

/// Effect of a record on the list of running commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// Nothing.
    None,
    /// A command may run from here on: a `result` must follow.
    Opens,
    /// The command named by `reference` is over.
    Closes,
}

/// Returns the masked members of `body`. `head` is what every decision begins with: host and gateway.
pub(super) fn prepare(
    body: &Body,
    head: &Map<String, Value>,
    redactor: &Redactor,
) -> Result<Prepared, String> {
    let mut extras = Extras::default();
    let mut members = match body {
        Body::Decision(decision) => {
            extras = redactor.spots(decision.tree.as_ref(), decision.request.command.as_deref());
            decision_members(decision, head, redactor)?
        }
        Body::Segment(it) => members_of(it)?,
        Body::PolicyLoad(it) => members_of(it)?,
        Body::Approval(it) => members_of(it)?,
        Body::Connection(it) => members_of(it)?,
        Body::Result(it) => members_of(it)?,
        Body::Grant(it) => members_of(it)?,
        Body::Hooks(it) => members_of(it.as_ref())?,
        Body::Session(it) => members_of(it.as_ref())?,
        Body::Gap(it) => members_of(it)?,
    };
    redactor.add_settings(&mut extras, settings_texts(body));
    let masks = mask(&mut members, &extras, redactor);
    let redacted = serde_json::to_value(masks).map_err(|error| error.to_string())?;
    members.insert("redacted".into(), redacted);
    let members = cut::fit(members, redactor)?;
    let text = serde_json::to_vec(&members).map_err(|error| error.to_string())?;
    let inner =
        text.strip_prefix(b"{").and_then(|text| text.strip_suffix(b"}")).unwrap_or_default();
    Ok(Prepared {
        kind: body.kind(),
        reference: body.reference().map(str::to_owned),
        members: inner.to_vec(),
        follow: follow(body),
    })
}

/// Returns the texts of settings in a record that may hold commands.
fn settings_texts(body: &Body) -> Vec<&[u8]> {
    fn handlers(hooks: &[HookRun]) -> impl Iterator<Item = &[u8]> {
        hooks.iter().map(|hook| hook.handler.bytes())
    }
    match body {
        Body::Decision(decision) => {
            let rules = decision.verdict.rules.iter().map(|rule| rule.text.as_bytes());
            rules.chain(handlers(&decision.hooks)).collect()
        }
        Body::PolicyLoad(load) => {
            let rules = load.rules.iter().map(|rule| rule.text.bytes());
            let hooks = load.hooks.iter().map(|hook| hook.handler.bytes());
            rules.chain(hooks).chain(load.warnings.iter().map(Text::bytes)).collect()
        }
        Body::Hooks(hooks) => handlers(&hooks.hooks).collect(),
        Body::Connection(_)
        | Body::Segment(_)
        | Body::Approval(_)
        | Body::Result(_)
        | Body::Grant(_)
        | Body::Session(_)
        | Body::Gap(_) => Vec::new(),
    }
}

fn follow(body: &Body) -> Follow {
    match body {
        Body::Decision(decision) => match decision.runs {
            Runs::Gateway => Follow::Opens,
            Runs::Caller | Runs::Nobody => Follow::None,
        },
        Body::Approval(approval) => match approval.answer {
            ApprovalAnswer::Allow => Follow::None,
            ApprovalAnswer::Deny | ApprovalAnswer::Withdrawn => Follow::Closes,
        },
        Body::Result(outcome) => match outcome.agreement {
            Agreement::AsDecided | Agreement::NotRun | Agreement::Unknown => Follow::Closes,
        },
        Body::Segment(_)
        | Body::PolicyLoad(_)
        | Body::Connection(_)
        | Body::Grant(_)
        | Body::Hooks(_)
        | Body::Session(_)
        | Body::Gap(_) => Follow::None,
    }
}

fn members_of(record: &impl serde::Serialize) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(record) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("a record is an object".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn plain(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn decision_members(
    decision: &Decision,
    head: &Map<String, Value>,
    redactor: &Redactor,
) -> Result<Map<String, Value>, String> {
    let mut members = head.clone();
    let mut put = |key: &str, value: Value| {
        members.insert(key.into(), value);
    };
    put("caller", plain(&decision.caller)?);
    put("agent", plain(&decision.agent)?);
    put("request", Value::Object(request(&decision.request, redactor)?));
    put("parsed", parsed(decision.tree.as_ref()));
    put("facts", facts(decision));
    let verdict = &decision.verdict;
    put(
        "verdict",
        json!({
            "decision": verdict.decision.name(),
            "by": verdict.by.name(),
            "code": verdict.code,
            "reason": verdict.reason,
            "eval_us": decision.eval_us,
        }),
    );
    put("parts", Value::Array(parts(verdict)));
    if verdict.unlisted > 0 {
        put("parts_unlisted", verdict.unlisted.into());
    }
    put("rules", Value::Array(rules(decision)));
    put("hooks", plain(&decision.hooks)?);
    put("policy", plain(&decision.policy)?);
    if let Some(grant) = &decision.grant {
        put("grant", Value::String(grant.clone()));
    }
    put("sandbox", plain(&decision.sandbox)?);
    put("runs", plain(&decision.runs)?);
    Ok(members)
}

fn request(request: &Request, redactor: &Redactor) -> Result<Map<String, Value>, String> {
    let command = request.command.as_deref();
    let mut members = Map::new();
    let mut put = |key: &str, value: Value| {
        members.insert(key.into(), value);
    };
    put("tool", Value::String(request.tool.clone()));
    put("input", input(request, redactor));
    put("command", command.map_or(Value::Null, |command| Text::from(command).stored()));
    put("command_hmac", command.map_or(Value::Null, |command| redactor.digest(command).into()));
    if let Some(rewritten) = &request.rewritten {
        put("received_hmac", redactor.digest(&rewritten.received).into());
        put("rewritten_by", rewritten.by.clone().into());
    }
    put("cwd", Text::from(request.cwd.as_path()).stored());
    put("project", Text::from(request.project.as_path()).stored());
    put("home", Text::from(request.home.as_path()).stored());
    if let Some(shell) = &request.shell {
        put("shell", Text::from(shell.as_path()).stored());
    }
    let mut names = request.env_names.clone();
    names.sort();
    put("env_names", names.into());
    put("stdin", plain(&request.stdin)?);
    put("timeout_ms", request.timeout_ms.into());
    put("background", request.background.into());
    put("pty", request.pty.into());
    put("unsandboxed_asked", request.unsandboxed_asked.into());
    if let Some(description) = &request.description {
        put("description", description.clone().into());
    }
    Ok(members)
}

/// Members of file tools whose content is counted and digested instead of stored.
const CONTENT_KEYS: [&str; 4] = ["content", "old_string", "new_string", "new_source"];

/// Returns the tool's input; contents of files only as size and digest.
fn input(request: &Request, redactor: &Redactor) -> Value {
    let Value::Object(members) = &request.input else { return Value::Object(Map::new()) };
    if request.command.is_some() {
        return Value::Object(members.clone());
    }
    without_content(&request.input, redactor, 0)
}

fn without_content(value: &Value, redactor: &Redactor, depth: usize) -> Value {
    match value {
        Value::Object(members) if depth < 16 => {
            let shorten = |(key, value): (&String, &Value)| {
                let value = match value {
                    Value::String(text) if CONTENT_KEYS.contains(&key.as_str()) => {
                        json!({ "bytes": text.len(), "digest": redactor.digest(text.as_bytes()) })
                    }
                    other => without_content(other, redactor, depth + 1),
                };
                (key.clone(), value)
            };
            Value::Object(members.iter().map(shorten).collect())
        }
        Value::Array(elements) if depth < 16 => {
            elements.iter().map(|element| without_content(element, redactor, depth + 1)).collect()
        }
        Value::Object(_) | Value::Array(_) => Value::Null,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn span(span: Span) -> Value {
    json!([span.start, span.end])
}

/// Most commands, paths, and spans that are not understood that a record lists; the text itself is whole.
const MOST_LISTED: usize = 1_000;

fn parsed(tree: Option<&CommandTree>) -> Value {
    let commands = tree.map(CommandTree::commands).unwrap_or_default();
    let opaque = tree.map(CommandTree::opaque_spans).unwrap_or_default();
    let unlisted = commands.len().saturating_sub(MOST_LISTED);
    let commands: Vec<Value> = commands.iter().take(MOST_LISTED).map(command).collect();
    let doubts: Vec<Value> = opaque
        .iter()
        .take(MOST_LISTED)
        .map(|it| json!({ "kind": it.reason.code(), "span": span(it.span) }))
        .collect();
    let mut parsed = json!({
        "parser": concat!("stockade-", env!("CARGO_PKG_VERSION")),
        "complete": opaque.is_empty(),
        "commands": commands,
        "opaque": doubts,
    });
    if let (1.., Some(members)) = (unlisted, parsed.as_object_mut()) {
        members.insert("commands_unlisted".into(), unlisted.into());
    }
    parsed
}

fn word(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| Text::from(bytes).stored())
}

fn command(command: &SimpleCommand) -> Value {
    let argv: Vec<Value> = command.words.iter().map(|it| word(it.exact())).collect();
    let names = command.assignments.iter().map(|it| String::from_utf8_lossy(&it.name).into_owned());
    let redirects: Vec<Value> = command
        .redirects
        .iter()
        .map(|redirect| {
            let target = match &redirect.target {
                RedirectTarget::File(target) | RedirectTarget::Text(target) => word(target.exact()),
                RedirectTarget::Descriptor(Some(number)) => Value::String(number.to_string()),
                RedirectTarget::Descriptor(None) => Value::String("-".into()),
            };
            json!({ "op": operator(redirect.operator), "fd": redirect.descriptor, "target": target })
        })
        .collect();
    let via: Vec<Value> = command.via.iter().map(|it| Value::String(it.program.clone())).collect();
    json!({
        "argv": argv,
        "assignments": names.collect::<Vec<_>>(),
        "redirects": redirects,
        "via": via,
        "position": position(command.position),
        "span": span(command.span),
    })
}

fn operator(operator: Operator) -> &'static str {
    match operator {
        Operator::Read => "<",
        Operator::Write => ">",
        Operator::Append => ">>",
        Operator::Clobber => ">|",
        Operator::ReadWrite => "<>",
        Operator::DuplicateInput => "<&",
        Operator::DuplicateOutput => ">&",
        Operator::WriteBoth => "&>",
        Operator::AppendBoth => "&>>",
        Operator::HereDocument => "<<",
        Operator::HereDocumentTabs => "<<-",
        Operator::HereString => "<<<",
    }
}

fn position(position: Position) -> &'static str {
    match position {
        Position::Top => "top",
        Position::Pipeline(_) => "pipeline",
        Position::Subshell => "subshell",
        Position::Substitution => "substitution",
        Position::ProcessSubstitution => "process_substitution",
        Position::Compound => "compound",
        Position::Function => "function",
        Position::Wrapped => "wrapped",
        Position::Shell => "shell",
    }
}

fn facts(decision: &Decision) -> Value {
    let member = |(path, names): (&std::path::PathBuf, &Vec<std::path::PathBuf>)| {
        let names = names.iter().map(|name| Text::from(name.as_path()).stored()).collect();
        (path.to_string_lossy().into_owned(), Value::Array(names))
    };
    let listed: Map<String, Value> = decision.paths.iter().take(MOST_LISTED).map(member).collect();
    match decision.paths.len().saturating_sub(MOST_LISTED) {
        0 => json!({ "paths": listed }),
        unlisted => json!({ "paths": listed, "paths_unlisted": unlisted }),
    }
}

fn parts(verdict: &Verdict) -> Vec<Value> {
    verdict
        .parts
        .iter()
        .map(|part| {
            json!({
                "span": span(part.span), "decision": part.decision.name(), "rule": part.rule,
            })
        })
        .collect()
}

fn rules(decision: &Decision) -> Vec<Value> {
    decision
        .verdict
        .rules
        .iter()
        .map(|rule| {
            json!({
                "text": rule.text,
                "effect": rule.effect.name(),
                "layer": rule.origin.layer.name(),
                "file": Text::from(rule.origin.file.as_path()).stored(),
                "line": rule.origin.line,
                "pointer": rule.origin.pointer,
                "file_sha256": decision.file_digests.get(&rule.origin.file),
                "part": rule.part,
                "decisive": rule.decisive,
            })
        })
        .collect()
}
