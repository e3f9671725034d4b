//! A refused act as people and programs read it: what was tried, which rule refused it, and the one line of
//! settings that would allow it.
//!
//! Looks at the refused paths and changes nothing. Decides nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod outside;

use std::path::Path;

use serde_json::{Value, json};
use stockade_spec::{AT_TOP, OWN_LOOPBACK, Violation};

use stockade_wire::words::one_line;

/// Most paths of one remedy.
const MOST_PATHS: usize = 20;

/// Longest text of a confined program that is told.
const LONGEST: usize = 4_096;

/// Of a connection that does not go through the proxy.
const DIRECT: &str = "builtin: nothing leaves but through the proxy";

/// Beginning of the rule that refuses a symbolic link, before where it leads.
const LINK: &str = "builtin: symbolic link to ";

/// How an address ends at which names of hosts are looked up.
pub const NAME_SERVICE: &str = ":53";

/// The change or advice that would allow an act.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Remedy {
    /// This change of the settings.
    Change {
        /// `add`, `remove` or `set`.
        change: &'static str,
        /// Dotted key.
        setting: String,
        /// Value to add, remove or set.
        value: Value,
        /// The lowest layer that may hold it.
        layer: String,
        /// Step that must be taken before the change has an effect.
        first: Option<&'static str>,
    },
    /// Nothing, and why.
    Nothing(&'static str),
    /// No change of the settings, but another way.
    Instead(String),
}

/// Directories that must not become writable as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Home directory.
    pub home: &'a Path,
    /// Root of the project.
    pub project: &'a Path,
}

impl Around<'_> {
    /// Says whether `directory` holds so little that a rule may name it.
    fn is_narrow(self, directory: &Path) -> bool {
        let depth = directory.components().count(); // the root is one
        depth > 2 && !self.home.starts_with(directory) && !self.project.starts_with(directory)
    }
}

/// Where a rule stands.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rule<'a> {
    /// Key of the settings.
    key: &'a str,
    pattern: &'a str,
    file: &'a str,
    line: Option<u32>,
    layer: &'a str,
}

/// Returns `found` as `violations` holds it.
pub fn view(found: &Violation, around: Around<'_>) -> Value {
    let rule = rule(&found.rule);
    let remedy = remedy(found, around);
    let (remedy, why_not) = match &remedy {
        Remedy::Change { change, setting, value, layer, first } => {
            let mut told = json!({
                "change": change, "setting": setting, "value": value, "layer": layer,
                "text": text(&remedy),
            });
            if let (Some(first), Value::Object(members)) = (first, &mut told) {
                members.insert("first".to_owned(), (*first).into());
            }
            (told, Value::Null)
        }
        Remedy::Nothing(why) => (Value::Null, (*why).into()),
        Remedy::Instead(how) => (Value::Null, how.as_str().into()),
    };
    json!({
        "kind": found.kind,
        "syscall": found.call,
        "path_or_host": shortened(&found.object),
        "errno": found.errno,
        "pid": found.pid,
        "program": shortened(&found.program),
        "rule": found.rule,
        "file": rule.as_ref().map(|rule| rule.file),
        "line": rule.as_ref().and_then(|rule| rule.line),
        "remedy": remedy,
        "why_not": why_not,
        "count": found.count,
        "source": found.source,
    })
}

/// Returns the line that tells of the first of `found`, and how many more there are.
pub fn notice(first: &Violation, rest: &[&Violation], around: Around<'_>) -> String {
    let object = match first.object.is_empty() {
        true => String::new(),
        false => format!(" {}", one_line(&shortened(&first.object))),
    };
    let act = match first.kind.as_str() {
        "limit" => format!("reached the limit {} of{object}", one_line(&first.call)),
        "planted" => format!("found {} in{object}, set", one_line(&first.call)),
        "process" => {
            format!("could not follow the command ({}){object}, told", one_line(&first.call))
        }
        _ => format!("refused {} ({}){object}", one_line(&first.call), one_line(&first.kind)),
    };
    let more = match rest.len() {
        0 => String::new(),
        count => format!(" (+{count} more, see violations)"),
    };
    let remedy = text(&with_others(remedy(first, around), first, rest));
    if first.rule == DIRECT {
        // The rule says what the remedy says.
        let program = one_line(&shortened(&first.program));
        // A name that is looked up is in no call that a layer sees.
        let of_a_name = match first.object.ends_with(NAME_SERVICE) {
            true => ", a look-up of a host's name",
            false => "",
        };
        return format!(
            "stockade: refused a connection of `{program}` past the proxy, to{object}{of_a_name}; {remedy}{more}"
        );
    }
    let rule = one_line(&shortened(&first.rule));
    format!("stockade: {act} by {rule}; {remedy}{more}")
}

/// Returns the remedy of a name that is protected in the root with those of the others that a command met: one setting allows
/// all.
fn with_others(remedy: Remedy, first: &Violation, rest: &[&Violation]) -> Remedy {
    let is_at_top = |found: &&&Violation| found.rule.starts_with(AT_TOP);
    if !first.rule.starts_with(AT_TOP) || !matches!(remedy, Remedy::Change { .. }) {
        return remedy;
    }
    let others = rest.iter().filter(is_at_top).map(|found| found.object.as_str());
    let others = others.filter(|object| is_verbatim(object));
    let mut paths: Vec<&str> = Vec::new();
    for path in std::iter::once(first.object.as_str()).chain(others) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.truncate(MOST_PATHS);
    allow_with(json!(paths), None)
}

/// Returns a remedy as one line.
fn text(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Change { change: "remove", setting, value, layer, .. } => {
            format!("to allow: remove {value} from {setting} ({layer} settings)")
        }
        Remedy::Change { setting, value, layer, first: None, .. } => {
            format!("to allow: {setting}: {value} ({layer} settings)")
        }
        Remedy::Change { setting, value, layer, first: Some(first), .. } => {
            format!("to allow: {first}, then {setting}: {value} ({layer} settings)")
        }
        Remedy::Nothing(why) => (*why).to_owned(),
        Remedy::Instead(how) => how.clone(),
    }
}

/// Returns what would allow an act: never a rule that would allow more, because a name chosen by a command is a pattern.
fn remedy(found: &Violation, around: Around<'_>) -> Remedy {
    let remedy = for_names(found, around);
    if let Remedy::Change { change: "add", value, .. } = &remedy
        && !names(value).all(is_verbatim)
    {
        let why = "a rule would take its name as a pattern, and allow others as well; rename it";
        return Remedy::Nothing(why);
    }
    remedy
}

/// Returns the names that a remedy adds.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Says whether a rule that is spelled like a name is about that name alone.
pub fn is_verbatim(name: &str) -> bool {
    !name.contains(['*', '?', '[', ']', '\\', '{', '}', '!']) && !name.chars().any(char::is_control)
}

fn for_names(found: &Violation, around: Around<'_>) -> Remedy {
    match found.kind.as_str() {
        "write" => for_write(found, around),
        "unix-socket" => Remedy::Change {
            change: "add",
            setting: "sandbox.network.allowUnixSockets".to_owned(),
            value: json!([found.object]),
            layer: "user".to_owned(),
            first: None,
        },
        "limit" => limit(found),
        "network" if found.rule == "builtin: proxies of other commands" => {
            Remedy::Nothing("each command has its own proxy, at the address in `HTTP_PROXY`")
        }
        "network" if found.rule == OWN_LOOPBACK => Remedy::Instead(format!(
            "a command has its own loopback interface, and only the proxy reaches servers of this machine: \
             sandbox.network.allowedDomains: [\"{}\"] (user settings), and a client that uses it (`curl --noproxy '' --proxy \"$HTTP_PROXY\"`)",
            found.object
        )),
        "network" => Remedy::Nothing(
            "the proxy in `HTTP_PROXY` is the only way out, to hosts in `sandbox.network.allowedDomains`; \
             a program without proxy support needs a helper (`ProxyCommand` of ssh)",
        ),
        "syscall" => Remedy::Nothing("no setting allows this system call"),
        "process" => Remedy::Nothing(
            "check the command's changes in git directories before you use git there",
        ),
        "planted" if found.call == "mode" => {
            Remedy::Nothing("no setting lets a command change who may read or write it")
        }
        "planted" if found.rule.starts_with("builtin: instructions") => Remedy::Nothing(
            "no setting allows it: it would run a program when somebody continues; rename it back to continue",
        ),
        "planted" => Remedy::Nothing(
            "no setting allows it: it would run programs when somebody uses git there",
        ),
        _ => Remedy::Nothing("no known setting allows it"),
    }
}

/// Returns what would allow a write.
fn for_write(found: &Violation, around: Around<'_>) -> Remedy {
    match rule(&found.rule) {
        Some(rule) => Remedy::Change {
            change: "remove",
            setting: rule.key.to_owned(),
            value: json!([rule.pattern]),
            layer: rule.layer.to_owned(),
            first: None,
        },
        None if found.rule.ends_with("outside of the writable directories") => {
            outside::remedy(found, around)
        }
        // A setting that names exactly this path opens it.
        None if found.rule.starts_with(AT_TOP) => allow_write(Path::new(&found.object), None),
        None if found.rule.starts_with("builtin: file with several names") => {
            own_copy(&found.object)
        }
        None if found.rule.starts_with("builtin: directory with unknown links") => {
            Remedy::Nothing("no setting allows it: move its parts one by one, after `chmod u+rwx`")
        }
        None if found.rule.starts_with("builtin: directory with too many files") => {
            Remedy::Nothing(
                "move the refused files into a directory below it, which is then refused as a whole",
            )
        }
        None if found.rule.starts_with(LINK) => link(&found.rule, around),
        None => Remedy::Nothing(
            "no setting allows it: it is protected always, and only a call outside of the sandbox can",
        ),
    }
}

fn allow_write(writable: &Path, first: Option<&'static str>) -> Remedy {
    allow_with(json!([writable]), first)
}

fn allow_with(paths: Value, first: Option<&'static str>) -> Remedy {
    Remedy::Change {
        change: "add",
        setting: "sandbox.filesystem.allowWrite".to_owned(),
        value: paths,
        layer: "user".to_owned(),
        first,
    }
}

/// Returns the rule for the target of a link: the directory around it, if that is narrow enough.
fn link(rule: &str, around: Around<'_>) -> Remedy {
    let target = Path::new(rule.strip_prefix(LINK).unwrap_or_default());
    let others = ["/tmp", "/var/tmp", "/run", "/dev", "/proc"];
    if rule.contains(", by `..` behind ") {
        return Remedy::Nothing("no setting allows it: write the path without `..` after a name");
    }
    if rule.contains(", which ") || others.iter().any(|other| target.starts_with(other)) {
        return Remedy::Nothing(
            "no setting allows it: the path is different outside of the sandbox; make the link there",
        );
    }
    let directory = match target.is_dir() {
        true => Some(target),
        false => target.parent(),
    };
    match directory.filter(|it| around.is_narrow(it)) {
        Some(directory) => Remedy::Change {
            change: "add",
            setting: "sandbox.filesystem.allowRead".to_owned(),
            value: json!([directory]),
            layer: "user".to_owned(),
            first: None,
        },
        None => Remedy::Nothing(
            "allowing its directory would allow too much: copy its target, or make the link outside of the sandbox",
        ),
    }
}

/// How a file that may have names elsewhere becomes one that has none.
fn own_copy(file: &str) -> Remedy {
    // A name that no shell reads as it stands is not one to copy.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(&byte);
    match file.bytes().all(is_plain) && file.len() < LONGEST {
        true => Remedy::Instead(format!(
            "its other names can be anywhere; to separate it: cp {file} {file}.own && mv {file}.own {file}"
        )),
        false => Remedy::Nothing(
            "its other names can be anywhere; to separate it, copy it and move the copy there",
        ),
    }
}

/// Twice the limit, in the form that settings take.
fn limit(found: &Violation) -> Remedy {
    let digits = found.object.split(' ').next().and_then(|text| text.parse::<u64>().ok());
    let Some(twice) = digits.and_then(|value| value.checked_mul(2)) else {
        return Remedy::Nothing("`sandbox.limits` of the user settings raises it");
    };
    let value = match found.object.ends_with(" bytes") {
        true => json!(format!("{}MiB", (twice >> 20).max(1))),
        false => json!(twice),
    };
    Remedy::Change {
        change: "set",
        setting: format!("sandbox.limits.{}", found.call),
        value,
        // Where a project has lowered it, that file has to say more.
        layer: rule(&found.rule).map_or("user", |rule| rule.layer).to_owned(),
        first: None,
    }
}

/// Reads `KEY PATTERN (FILE:LINE, LAYER)`; none for what is built in.
fn rule(text: &str) -> Option<Rule<'_>> {
    let (key, rest) = text.split_once(' ').filter(|(key, _)| !key.ends_with(':'))?;
    let (rest, layer) = rest.strip_suffix(')')?.rsplit_once(", ")?;
    let (pattern, place) = rest.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    Some(Rule { key, pattern, file, line: line.parse().ok(), layer })
}

/// Text of a confined program, cut where it is too long.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests;
