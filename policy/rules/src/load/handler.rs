//! One handler of a hook, read from its object.

use std::time::Duration;

use stockade_text::json::{Kind, Value};

use super::source::Source;
use super::texts;
use crate::decision::Decision;
use crate::layer::Origin;
use crate::rule::{self, Reading};
use crate::settings::hook::{CommandHook, Condition, Handler, Hook, HookEvent, HttpHook};
use crate::settings::merged::Rules;
use crate::settings::{Settings, unknown_key};
use crate::spelling::{close, instead};

/// Longest time limit of a handler, in seconds.
const LONGEST_TIMEOUT_SECONDS: f64 = 86_400.0;

/// Keys that every handler may have.
const COMMON_KEYS: [&str; 5] = ["type", "if", "timeout", "statusMessage", "once"];

/// Headers that belong to the request itself.
const OWN_HEADERS: [&str; 5] =
    ["host", "content-length", "transfer-encoding", "connection", "expect"];

/// Fault of a handler.
#[derive(Debug)]
pub(super) struct Complaint {
    /// The fault, without full stop.
    pub message: String,
    /// Advice, one line.
    pub help: String,
    /// True if the handler does what it would do without the fault.
    pub harmless: bool,
}

fn bad(message: impl Into<String>, help: impl Into<String>) -> Complaint {
    Complaint { message: message.into(), help: help.into(), harmless: false }
}

/// Reads a handler. What comes back with it leaves the handler at work, and never makes it run less often.
pub(super) fn read(
    value: &Value,
    event: HookEvent,
    source: &Source<'_>,
    origin: Origin,
) -> Result<(Hook, Vec<Complaint>), Complaint> {
    let mut complaints = Vec::new();
    let (handler, own) = match value.get("type").and_then(Value::text) {
        Some("command") => {
            (command(value)?, ["command", "args", "shell", "async", "asyncRewake"].as_slice())
        }
        Some("http") if event == HookEvent::SessionStart => {
            return Err(bad("`SessionStart` has no handlers of type `http`", "use a command"));
        }
        Some("http") => (http(value)?, ["url", "headers", "allowedEnvVars"].as_slice()),
        Some("mcp_tool" | "prompt" | "agent") => {
            let help = "use a handler of type `command` or `http`";
            return Err(bad("handlers of this type are not supported", help));
        }
        named => {
            let help = instead(named.unwrap_or_default(), &["command", "http"]);
            return Err(bad("the handler has no known `type`", help));
        }
    };
    complaints.extend(unknown_keys(value, own));
    let condition = read_condition(value, event, source, &origin, &mut complaints)?;
    let status = match value.get("statusMessage") {
        None => None,
        Some(text) => {
            if text.text().is_none() {
                let fault = bad("`statusMessage` must be a string", "put it in quotes");
                complaints.push(Complaint { harmless: true, ..fault });
            }
            text.text().map(str::to_owned)
        }
    };
    let runs_beside = truth(value, "async")? | truth(value, "asyncRewake")?;
    truth(value, "once")?;
    let timeout = value.get("timeout").map(seconds).transpose()?;
    let matcher = String::new();
    Ok((
        Hook {
            event,
            matcher,
            origin,
            handler,
            condition,
            timeout,
            runs_beside,
            status,
            above: None,
        },
        complaints,
    ))
}

/// Returns a complaint for each key that a handler does not have; `own` are those of its type.
fn unknown_keys(value: &Value, own: &[&str]) -> Vec<Complaint> {
    let keys = value.members().unwrap_or_default().iter().map(|member| member.key.as_str());
    let unknown = keys.filter(|key| !COMMON_KEYS.contains(key) && !own.contains(key));
    unknown
        .map(|key| Complaint {
            harmless: true,
            ..bad(
                unknown_key(key),
                match close(key, COMMON_KEYS.iter().chain(own).copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "remove it".to_owned(),
                },
            )
        })
        .collect()
}

/// Reads `if`; without one that can be read the hook runs always.
fn read_condition(
    value: &Value,
    event: HookEvent,
    source: &Source<'_>,
    origin: &Origin,
    complaints: &mut Vec<Complaint>,
) -> Result<Option<Condition>, Complaint> {
    let Some(text) = value.get("if") else { return Ok(None) };
    if !event.is_about_a_tool() {
        let message = format!("a handler with `if` never runs at `{}`", event.name());
        return Err(bad(message, "remove the `if`"));
    }
    let read = text.text().and_then(|text| condition(text, source, origin));
    if read.is_none() {
        let help =
            "write one rule, such as `Bash(git push *)`; until then the hook runs without `if`";
        complaints.push(bad("invalid rule in `if`", help));
    }
    Ok(read)
}

fn truth(value: &Value, key: &str) -> Result<bool, Complaint> {
    match value.get(key) {
        None => Ok(false),
        Some(found) => found
            .boolean()
            .ok_or_else(|| bad(format!("`{key}` must be true or false"), "write one of them")),
    }
}

fn seconds(value: &Value) -> Result<Duration, Complaint> {
    let number = match &value.kind {
        Kind::Number(digits) => digits.parse::<f64>().ok(),
        Kind::Null | Kind::Bool(_) | Kind::String(_) | Kind::Array(_) | Kind::Object(_) => None,
    };
    number
        .filter(|seconds| *seconds > 0.0)
        .and_then(|it| Duration::try_from_secs_f64(it.min(LONGEST_TIMEOUT_SECONDS)).ok())
        .ok_or_else(|| {
            bad("`timeout` must be a number of seconds above 0", "write a number such as 30")
        })
}

fn command(value: &Value) -> Result<Handler, Complaint> {
    let text = value.get("command").and_then(Value::text).filter(|text| !text.trim().is_empty());
    let text =
        text.ok_or_else(|| bad("the handler has no `command`", "write the command to run"))?;
    let arguments = value.get("args").map(|list| words(list, "args")).transpose()?;
    let bash = match value.get("shell").map(Value::text) {
        None => false,
        Some(Some("bash")) => true,
        Some(_) => return Err(bad("`shell` must be `bash` or absent", "remove it")),
    };
    Ok(Handler::Command(CommandHook { command: text.to_owned(), arguments, bash }))
}

fn words(value: &Value, key: &str) -> Result<Vec<String>, Complaint> {
    let mut other = false;
    let list = texts(value, |_, _| other = true).filter(|_| !other);
    let list =
        list.ok_or_else(|| bad(format!("`{key}` must be a list of strings"), "write `[\"…\"]`"))?;
    Ok(list.into_iter().map(|(_, _, text)| text.to_owned()).collect())
}

fn http(value: &Value) -> Result<Handler, Complaint> {
    let url = value.get("url").and_then(Value::text).unwrap_or_default();
    if !["http://", "https://"]
        .iter()
        .any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
    {
        let help = "write an address that begins with `https://` or `http://`";
        return Err(bad("the handler has no valid `url`", help));
    }
    let mut headers = Vec::new();
    if let Some(object) = value.get("headers") {
        let members = object.members();
        let members = members.ok_or_else(|| bad("`headers` must be an object", "write `{ }`"))?;
        for member in members {
            let name = member.key.as_str();
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(is_token) {
                return Err(bad("`headers` has an invalid name", "check its spelling"));
            }
            if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                let message = format!("the header `{name}` is set by the request itself");
                return Err(bad(message, "remove it"));
            }
            let text = member.value.text().filter(|text| !text.contains(char::is_control));
            let text = text.ok_or_else(|| {
                bad("the value of a header must be a string on one line", "correct it")
            })?;
            headers.push((name.to_owned(), text.to_owned()));
        }
    }
    let variables = value.get("allowedEnvVars").map(|list| words(list, "allowedEnvVars"));
    let variables = variables.transpose()?.unwrap_or_default();
    Ok(Handler::Http(HttpHook { url: url.to_owned(), headers, variables }))
}

/// Returns what an `if` covers; none when its text is not a rule.
fn condition(text: &str, source: &Source<'_>, origin: &Origin) -> Option<Condition> {
    let reading = rule::read(text, Decision::Deny, origin.clone(), source.anchor());
    match reading {
        Reading::Good(rule) | Reading::Odd(rule, _) => {
            Some(Condition::new(text, Rules::new(Settings::default(), vec![rule])))
        }
        Reading::Void(_) | Reading::Malformed(..) => None,
    }
}
