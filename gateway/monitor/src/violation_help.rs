//! A refused act as people and programs read it: what was tried, which rule refused it, and the one line of
//! settings that would allow it.

mod outside;

use std::path::Path;

use serde_json::{Value, json};
use stockade_sandbox::{AT_TOP, OWN_LOOPBACK, Violation};

use crate::protocol::words::one_line;

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

/// What would allow an act.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Remedy {
    /// This change of the settings.
    Change {
        /// `add`, `remove` or `set`.
        change: &'static str,
        /// Dotted key.
        setting: String,
        /// What to put there, or to take away.
        value: Value,
        /// The lowest layer that may hold it.
        layer: String,
        /// What has to be done before it has an effect.
        first: Option<&'static str>,
    },
    /// Nothing, and why.
    Nothing(&'static str),
    /// No change of the settings, but another way.
    Instead(String),
}

/// What nobody is to make writable as a whole.
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
pub fn footer(first: &Violation, rest: &[&Violation], around: Around<'_>) -> String {
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

fn remedy(found: &Violation, around: Around<'_>) -> Remedy {
    match found.kind.as_str() {
        "write" => match rule(&found.rule) {
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
                Remedy::Nothing(
                    "no setting allows it: move its parts one by one, after `chmod u+rwx`",
                )
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
        },
        "unix-socket" => Remedy::Change {
            change: "add",
            setting: "sandbox.network.allowUnixSockets".to_owned(),
            value: json!([found.object]),
            layer: "user".to_owned(),
            first: None,
        },
        "limit" => limit(found),
        "network" if found.rule == "builtin: proxies of other commands" => Remedy::Nothing(
            "each command has a proxy of its own, where `HTTP_PROXY` says; its ports are nobody else's",
        ),
        "network" if found.rule == OWN_LOOPBACK => Remedy::Instead(format!(
            "a command has its own loopback interface, and only the proxy reaches servers of this machine: \
             sandbox.network.allowedDomains: [\"{}\"] (user settings), and a client that uses it (`curl --noproxy '' --proxy \"$HTTP_PROXY\"`)",
            found.object
        )),
        "network" => Remedy::Nothing(
            "only the proxy that `HTTP_PROXY` names leads out, to hosts of `sandbox.network.allowedDomains`; \
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

/// What a link would have to lead to: the directory around it, where that holds little enough.
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
            "the directory contains too many files: copy those that you need, or make the link outside of the sandbox",
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
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn around() -> Around<'static> {
        Around { home: Path::new("/h/me"), project: Path::new("/h/other/p") }
    }

    fn check(kind: &str, call: &str, object: &str, rule: &str, expected: Expect) {
        let found = Violation {
            kind: kind.to_owned(),
            call: call.to_owned(),
            object: object.to_owned(),
            rule: rule.to_owned(),
            program: "ssh".to_owned(),
            count: 1,
            ..Violation::default()
        };
        expected.assert_eq(&footer(&found, &[], around()));
        let viewed = view(&found, around());
        let is_told = viewed["remedy"].is_object() != viewed["why_not"].is_string();
        assert!(is_told, "{viewed}");
    }

    #[test]
    fn each_kind_names_what_would_allow_it() {
        check(
            "write",
            "open",
            "/etc/x/y",
            "builtin: outside of the writable directories",
            expect![[r#"
            stockade: refused open (write) /etc/x/y by builtin: outside of the writable directories; to allow: sandbox.filesystem.allowWrite: ["/etc/x"] (user settings)"#]],
        );
        check(
            "write",
            "rename",
            "/p/a b",
            "sandbox.filesystem.denyWrite /p/a (b) (/h/my settings.json:3, user)",
            expect![[r#"
            stockade: refused rename (write) /p/a b by sandbox.filesystem.denyWrite /p/a (b) (/h/my settings.json:3, user); to allow: remove ["/p/a (b)"] from sandbox.filesystem.denyWrite (user settings)"#]],
        );
        check(
            "write",
            "open",
            "/p/.mcp.json",
            "builtin: guarded name `.mcp.json`",
            expect![[r#"
            stockade: refused open (write) /p/.mcp.json by builtin: guarded name `.mcp.json`; no setting allows it: it is protected always, and only a call outside of the sandbox can"#]],
        );
        check(
            "write",
            "open",
            "/p/data.bin",
            "builtin: file with several names, and of more than 67108864 bytes",
            expect![[r#"
            stockade: refused open (write) /p/data.bin by builtin: file with several names, and of more than 67108864 bytes; its other names can be anywhere; to separate it: cp /p/data.bin /p/data.bin.own && mv /p/data.bin.own /p/data.bin"#]],
        );
        check(
            "write",
            "chmod",
            "/p/a $(b)",
            "builtin: file with several names, of which this one is gone",
            expect![[r#"
            stockade: refused chmod (write) /p/a $(b) by builtin: file with several names, of which this one is gone; its other names can be anywhere; to separate it, copy it and move the copy there"#]],
        );
        check(
            "write",
            "symlink",
            "/p/x",
            "builtin: symbolic link to /h/me/other/src/file",
            expect![[r#"
            stockade: refused symlink (write) /p/x by builtin: symbolic link to /h/me/other/src/file; to allow: sandbox.filesystem.allowRead: ["/h/me/other/src"] (user settings)"#]],
        );
        check(
            "write",
            "rename",
            "/p/x",
            "builtin: symbolic link to /h/me/file",
            expect![[r#"
            stockade: refused rename (write) /p/x by builtin: symbolic link to /h/me/file; the directory contains too many files: copy those that you need, or make the link outside of the sandbox"#]],
        );
        check(
            "write",
            "symlink",
            "/p/x",
            "builtin: symbolic link to /tmp/x",
            expect![[r#"
            stockade: refused symlink (write) /p/x by builtin: symbolic link to /tmp/x; no setting allows it: the path is different outside of the sandbox; make the link there"#]],
        );
        check(
            "write",
            "symlink",
            "/p/x",
            "builtin: symbolic link to /p/a, by `..` behind a name that a command can replace",
            expect![[r#"
            stockade: refused symlink (write) /p/x by builtin: symbolic link to /p/a, by `..` behind a name that a command can replace; no setting allows it: write the path without `..` after a name"#]],
        );
        check(
            "write",
            "rename",
            "/p/x",
            "builtin: directory with unknown links: more than 100000 entries",
            expect![[r#"
            stockade: refused rename (write) /p/x by builtin: directory with unknown links: more than 100000 entries; no setting allows it: move its parts one by one, after `chmod u+rwx`"#]],
        );
        check(
            "unix-socket",
            "connect",
            "/s",
            "builtin: sockets of others",
            expect![[r#"
            stockade: refused connect (unix-socket) /s by builtin: sockets of others; to allow: sandbox.network.allowUnixSockets: ["/s"] (user settings)"#]],
        );
        check(
            "network",
            "connect",
            "127.70.1.2:29128",
            "builtin: proxies of other commands",
            expect![[r#"
            stockade: refused connect (network) 127.70.1.2:29128 by builtin: proxies of other commands; each command has a proxy of its own, where `HTTP_PROXY` says; its ports are nobody else's"#]],
        );
        check(
            "network",
            "connect",
            "192.0.2.1:22",
            DIRECT,
            expect![
                "stockade: refused a connection of `ssh` past the proxy, to 192.0.2.1:22; only the proxy that `HTTP_PROXY` names leads out, to hosts of `sandbox.network.allowedDomains`; a program without proxy support needs a helper (`ProxyCommand` of ssh)"
            ],
        );
        check(
            "network",
            "connect",
            "192.0.2.1:53",
            DIRECT,
            expect![
                "stockade: refused a connection of `ssh` past the proxy, to 192.0.2.1:53, a look-up of a host's name; only the proxy that `HTTP_PROXY` names leads out, to hosts of `sandbox.network.allowedDomains`; a program without proxy support needs a helper (`ProxyCommand` of ssh)"
            ],
        );
        check(
            "limit",
            "memory",
            "2147483648 bytes",
            "builtin: sandbox.limits.memory",
            expect![[r#"
            stockade: reached the limit memory of 2147483648 bytes by builtin: sandbox.limits.memory; to allow: sandbox.limits.memory: "4096MiB" (user settings)"#]],
        );
        check(
            "limit",
            "fileSize",
            "1048576 bytes",
            "sandbox.limits.fileSize 1048576 (/p/.stockade/settings.json:2, project)",
            expect![[r#"
            stockade: reached the limit fileSize of 1048576 bytes by sandbox.limits.fileSize 1048576 (/p/.stockade/settings.json:2, project); to allow: sandbox.limits.fileSize: "2MiB" (project settings)"#]],
        );
        check(
            "limit",
            "processes",
            "2048 processes",
            "builtin: sandbox.limits.processes",
            expect![[r#"
            stockade: reached the limit processes of 2048 processes by builtin: sandbox.limits.processes; to allow: sandbox.limits.processes: 4096 (user settings)"#]],
        );
        check(
            "syscall",
            "bpf",
            "",
            "builtin: system calls",
            expect![[r#"
            stockade: refused bpf (syscall) by builtin: system calls; no setting allows this system call"#]],
        );
        check(
            "planted",
            "core.fsmonitor",
            "/p/n/.git/config",
            "builtin: git configuration, put aside as `config.refused`",
            expect![[r#"
            stockade: found core.fsmonitor in /p/n/.git/config, set by builtin: git configuration, put aside as `config.refused`; no setting allows it: it would run programs when somebody uses git there"#]],
        );
    }

    #[test]
    fn what_is_to_be_writable_is_small_and_what_is_not_there_is_made_first() {
        let rule = "builtin: outside of the writable directories";
        let told = |call: &str, object: &str| {
            let (kind, rule) = ("write".to_owned(), rule.to_owned());
            let (call, object) = (call.to_owned(), object.to_owned());
            text(&remedy(&Violation { kind, call, object, rule, ..Violation::default() }, around()))
        };
        let change = |first: &str, path: &str| {
            format!("to allow: {first}sandbox.filesystem.allowWrite: [\"{path}\"] (user settings)")
        };
        let (directory, file) = ("make that directory, then ", "make that file, then ");
        let too_much = "the directory contains too much to be writable: run the command outside of the sandbox";
        let all = [
            ("mkdir", "/h/me/.npm", change(directory, "/h/me/.npm")),
            ("mkdir", "/h/me/.npm/x", change(directory, "/h/me/.npm/x")),
            ("open", "/h/me/.npm/x", change("", "/h/me/.npm")),
            ("open", "/h/me/.viminfo", change(file, "/h/me/.viminfo")),
            ("open", "/h/x", change(file, "/h/x")),
            ("open", "/h/other/x", change(file, "/h/other/x")),
            ("open", "/x", change(file, "/x")),
            // What is there for a moment is no place to name.
            ("open", "/h/me/.gitconfig.lock", too_much.to_owned()),
            ("open", "/h/me/sedC5a3HP", too_much.to_owned()),
            ("open", "/h/me/.config.json.tmp", too_much.to_owned()),
            ("open", "/h/me/.foorc.new-4913aX", too_much.to_owned()),
            ("mkdir", "/h/me/tmp.X1b2C3d4", too_much.to_owned()),
            ("open", "/h/me/.npm/sedC5a3HP", change("", "/h/me/.npm")),
            ("mkdir", "/h/me/.npm/tmp.X1b2C3d4", change("", "/h/me/.npm")),
            ("open", "/h/me/.sedutil", change(file, "/h/me/.sedutil")),
            ("open", "/h/me/Makefile", change(file, "/h/me/Makefile")),
            ("open", "/etc/hostname", change("", "/etc/hostname")),
            ("unlink", "/h/me/.npm/x", change("", "/h/me/.npm")),
            ("unlink", "/h/me/x", too_much.to_owned()),
            ("rename", "/x", too_much.to_owned()),
            ("unlink", "/etc/hostname", too_much.to_owned()),
            ("open", "/sys/x/y", "no setting makes this directory writable".to_owned()),
        ];
        for (call, object, expected) in all {
            assert_eq!(told(call, object), expected, "{call} {object}");
        }
    }

    #[test]
    fn what_a_program_writes_moves_no_cursor_and_has_an_end() {
        let name = "a\u{1b}[2J\u{202e}".to_owned() + &"x".repeat(10_000);
        let found = Violation {
            kind: "write".to_owned(),
            object: name.clone(),
            program: name,
            ..Violation::default()
        };
        let line = footer(&found, &[&found; 3], around());
        assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}') && line.len() < 5_000);
        assert!(line.ends_with("(+3 more, see violations)"));
        assert!(view(&found, around())["program"].as_str().is_some_and(|text| text.len() < 5_000));
    }
}
