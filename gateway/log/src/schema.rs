//! Members of each kind of record, and their types: a key that is not listed is an error.

use stockade_text::json::{Kind, Value};

use super::clock::{is_time, is_ulid};

/// A type of a member.
#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    /// A string, or `{"b64": …}`.
    Bytes,
    Whole,
    Signed,
    Bool,
    Hex(usize),
    Ulid,
    Time,
    Digest,
    /// `[start, end]`.
    Span,
    One(&'static [&'static str]),
    Null(&'static Type),
    List(&'static Type),
    Object(&'static [Field]),
    /// An object whose keys come from outside.
    Free,
}

/// A member: name, type, and whether it may be left out.
#[derive(Debug, Clone, Copy)]
struct Field(&'static str, Type, bool);

const M: bool = false;
const O: bool = true;
use Type::{
    Bool, Bytes, Digest, Free, Hex, List, Null, Object, One, Signed, Span, Text, Time, Ulid, Whole,
};

const COMMON: &[Field] = &[
    Field("v", Whole, M),
    Field("kind", Text, M),
    Field("chain", Hex(32), M),
    Field("seq", Whole, M),
    Field("prev", Hex(64), M),
    Field("id", Ulid, M),
];
const CLOCKS: &[Field] =
    &[Field("time", Time, M), Field("mono_us", Whole, M), Field("boot", Text, M)];
const REDACTED: &[Field] = &[
    Field(
        "redacted",
        List(&Object(&[Field("ptr", Text, M), Field("rule", Text, M), Field("tag", Hex(8), M)])),
        M,
    ),
    Field(
        "cut",
        List(&Object(&[
            Field("ptr", Text, M),
            Field("bytes", Whole, M),
            Field("digest", Digest, M),
        ])),
        O,
    ),
];
const RULING: Type = One(&["allow", "ask", "deny"]);
const LAYER: Type = One(&["builtin", "user", "project", "local", "flag", "policy"]);
const WHO: Type = Null(&Object(&[Field("uid", Whole, M), Field("name", Bytes, M)]));
const CALLER: Type = Object(&[
    Field("uid", Whole, M),
    Field("gid", Whole, M),
    Field("loginuid", Null(&Whole), M),
    Field("pid", Whole, M),
    Field("start", Whole, M),
    Field("exe", Null(&Bytes), M),
    Field("exe_sha256", Null(&Hex(64)), M),
    Field("tty", Null(&Bytes), M),
    Field("cgroup", Null(&Bytes), M),
    Field("parents", List(&Object(&[Field("pid", Whole, M), Field("exe", Null(&Bytes), M)])), M),
]);
const AGENT: Type = Object(&[
    Field("name", Bytes, M),
    Field("version", Null(&Bytes), M),
    Field("session", Null(&Bytes), M),
    Field("call_id", Null(&Bytes), M),
    Field("model", Null(&Bytes), M),
    Field("door", Bytes, M),
    Field("mode_asked", Null(&Bytes), M),
    Field("mode", Bytes, M),
    Field("trace", Text, O),
]);
const REQUEST: Type = Object(&[
    Field("tool", Text, M),
    Field("input", Free, M),
    Field("command", Null(&Bytes), M),
    Field("command_hmac", Null(&Digest), M),
    Field("received_hmac", Digest, O),
    Field("rewritten_by", Text, O),
    Field("cwd", Bytes, M),
    Field("project", Bytes, M),
    Field("home", Bytes, M),
    Field("shell", Bytes, O),
    Field("env_names", List(&Text), M),
    Field(
        "stdin",
        Object(&[
            Field("kind", One(&["none", "pipe", "file", "tty"]), M),
            Field("bytes", Null(&Whole), M),
            Field("digest", Null(&Digest), M),
        ]),
        M,
    ),
    Field("timeout_ms", Whole, M),
    Field("background", Bool, M),
    Field("pty", Bool, M),
    Field("unsandboxed_asked", Bool, M),
    Field("description", Text, O),
]);
const PARSED: Type = Object(&[
    Field("parser", Text, M),
    Field("complete", Bool, M),
    Field(
        "commands",
        List(&Object(&[
            Field("argv", List(&Null(&Bytes)), M),
            Field("assignments", List(&Text), M),
            Field(
                "redirects",
                List(&Object(&[
                    Field("op", Text, M),
                    Field("fd", Null(&Whole), M),
                    Field("target", Null(&Bytes), M),
                ])),
                M,
            ),
            Field("via", List(&Text), M),
            Field("position", Text, M),
            Field("span", Span, M),
        ])),
        M,
    ),
    Field("opaque", List(&Object(&[Field("kind", Text, M), Field("span", Span, M)])), M),
    Field("commands_unlisted", Whole, O),
]);
const RULES: Type = List(&Object(&[
    Field("text", Text, M),
    Field("effect", RULING, M),
    Field("layer", LAYER, M),
    Field("file", Bytes, M),
    Field("line", Whole, M),
    Field("pointer", Text, M),
    Field("file_sha256", Null(&Hex(64)), M),
    Field("part", Whole, M),
    Field("decisive", Bool, M),
]));
const HOOKS: Type = List(&Object(&[
    Field("event", Bytes, M),
    Field("handler", Bytes, M),
    Field("layer", LAYER, M),
    Field("file", Bytes, M),
    Field("pointer", Bytes, M),
    Field("exit", Null(&Signed), M),
    Field("ms", Whole, M),
    Field("decision", Null(&Bytes), M),
    Field("error", Null(&Bytes), M),
]));
const DECISION: &[Field] = &[
    Field(
        "host",
        Object(&[
            Field("id", Text, M),
            Field("name", Text, M),
            Field("os", Text, M),
            Field("kernel", Text, M),
        ]),
        M,
    ),
    Field(
        "gateway",
        Object(&[
            Field("version", Text, M),
            Field("exe_sha256", Hex(64), M),
            Field("mode", One(&["embedded", "daemon", "system"]), M),
            Field("pid", Whole, M),
        ]),
        M,
    ),
    Field("caller", CALLER, M),
    Field("agent", AGENT, M),
    Field("request", REQUEST, M),
    Field("parsed", PARSED, M),
    Field("facts", Object(&[Field("paths", Free, M), Field("paths_unlisted", Whole, O)]), M),
    Field(
        "verdict",
        Object(&[
            Field("decision", RULING, M),
            Field(
                "by",
                One(&["rule", "hook", "human", "mode", "builtin", "sandbox", "default", "error"]),
                M,
            ),
            Field("code", Text, M),
            Field("reason", Bytes, M),
            Field("eval_us", Whole, M),
        ]),
        M,
    ),
    Field(
        "parts",
        List(&Object(&[
            Field("span", Span, M),
            Field("decision", RULING, M),
            Field("rule", Null(&Whole), M),
        ])),
        M,
    ),
    Field("parts_unlisted", Whole, O),
    Field("rules", RULES, M),
    Field("hooks", HOOKS, M),
    Field(
        "policy",
        Object(&[Field("sha256", Hex(64), M), Field("ref", Ulid, M), Field("source", Text, M)]),
        M,
    ),
    Field("grant", Ulid, O),
    Field(
        "sandbox",
        Object(&[
            Field("wanted", Bool, M),
            Field("profile_sha256", Null(&Hex(64)), M),
            Field("landlock_abi", Null(&Whole), M),
            Field("network", Bytes, M),
            Field("enforced", List(&Text), M),
            Field("missing", List(&Text), M),
            Field("excluded_by", Null(&Bytes), M),
            Field("auto_allow", Bool, M),
            Field("spec_hmac", Digest, O),
        ]),
        M,
    ),
    Field("runs", One(&["gateway", "caller", "nobody"]), M),
];
const RESULT: &[Field] = &[
    Field("agreement", One(&["as_decided", "differently", "not_run", "unknown"]), M),
    Field("exit", Null(&Signed), M),
    Field("signal", Null(&Text), M),
    Field("timed_out", Bool, M),
    Field("interrupted", Bool, M),
    Field("oom", Bool, M),
    Field("started", Null(&Time), M),
    Field("ended", Null(&Time), M),
    Field("duration_us", Null(&Whole), M),
    Field(
        "usage",
        Null(&Object(&[
            Field("user_us", Whole, M),
            Field("system_us", Whole, M),
            Field("rss_kib", Whole, M),
        ])),
        M,
    ),
    Field(
        "streams",
        List(&Object(&[
            Field("name", Text, M),
            Field("bytes", Whole, M),
            Field("digest", Digest, M),
            Field("spill", Null(&Bytes), M),
            Field("cut", Bool, M),
        ])),
        M,
    ),
    Field("enforced", List(&Text), M),
    Field("missing", List(&Text), M),
    Field(
        "touched",
        Object(&[
            Field("complete", Bool, M),
            Field("written", List(&Bytes), M),
            Field("removed", List(&Bytes), M),
            Field("sockets", List(&Bytes), M),
            Field(
                "denials",
                List(&Object(&[Field("blocker", Bytes, M), Field("path_or_host", Bytes, M)])),
                M,
            ),
        ]),
        M,
    ),
    Field("execs", Whole, M),
    Field("execs_lost", Whole, M),
    Field("observed", One(&["gateway", "front_end", "nobody"]), M),
];
const EXEC: &[Field] = &[
    Field("pid", Whole, M),
    Field("ppid", Whole, M),
    Field("cwd", Bytes, M),
    Field("argv", List(&Bytes), M),
    Field("exe", Bytes, M),
    Field(
        "file",
        Object(&[
            Field("dev", Text, M),
            Field("inode", Text, M),
            Field("bytes", Whole, M),
            Field("sha256", Null(&Hex(64)), M),
        ]),
        M,
    ),
    Field("interpreter", Bytes, O),
    Field("seen_by", One(&["launcher", "notify", "audit"]), M),
    Field("verified", One(&["match", "mismatch", "unseen"]), M),
];
const APPROVAL: &[Field] = &[
    Field("answer", One(&["allow", "deny", "expired", "withdrawn"]), M),
    Field("who", WHO, M),
    Field("channel", Bytes, M),
    Field("waited_ms", Whole, M),
    Field("shown_hmac", Digest, M),
    Field("scope", One(&["once", "session", "limited", "always"]), M),
    Field("expires", Time, O),
    Field("question", Text, O),
    Field(
        "approvers",
        List(&Object(&[Field("uid", Whole, M), Field("name", Bytes, M), Field("for", Bytes, O)])),
        O,
    ),
    Field("break_glass", Bytes, O),
    Field("claimed", Bytes, O),
    Field("spec_hmac", Digest, O),
];
const CONNECTION: &[Field] = &[
    Field("action", One(&["opened", "closed", "refused"]), M),
    Field("number", Whole, M),
    Field("way", One(&["http", "connect", "socks", "forward"]), M),
    Field("to", Object(&[Field("host", Bytes, M), Field("port", Whole, M)]), M),
    Field("addresses", List(&Text), M),
    Field(
        "verdict",
        Object(&[
            Field("decision", RULING, M),
            Field("by", One(&["rule", "human", "builtin", "default", "error"]), M),
            Field("code", Text, M),
            Field("reason", Bytes, M),
        ]),
        M,
    ),
    Field("rules", RULES, M),
    Field("who", WHO, M),
    Field("count", Whole, M),
    Field("bytes", Null(&Object(&[Field("sent", Whole, M), Field("received", Whole, M)])), M),
    Field("duration_us", Null(&Whole), M),
];
const SEGMENT: &[Field] = &[
    Field("number", Whole, M),
    Field("format", Whole, M),
    Field("vkey", Text, M),
    Field("origin", Text, M),
    Field("first_seq", Whole, M),
    Field(
        "previous",
        Null(&Object(&[
            Field("name", Text, M),
            Field("bytes", Whole, M),
            Field("sha256", Hex(64), M),
        ])),
        M,
    ),
];
const POLICY_LOAD: &[Field] = &[
    Field("sha256", Hex(64), M),
    Field(
        "layers",
        List(&Object(&[
            Field("layer", LAYER, M),
            Field("file", Bytes, M),
            Field("sha256", Null(&Hex(64)), M),
        ])),
        M,
    ),
    Field(
        "rules",
        List(&Object(&[
            Field("text", Bytes, M),
            Field("effect", RULING, M),
            Field("layer", LAYER, M),
            Field("file", Bytes, M),
            Field("line", Whole, M),
        ])),
        M,
    ),
    Field(
        "hooks",
        List(&Object(&[
            Field("event", Bytes, M),
            Field("handler", Bytes, M),
            Field("layer", LAYER, M),
            Field("file", Bytes, M),
            Field("pointer", Bytes, M),
            Field("sha256", Null(&Hex(64)), M),
        ])),
        M,
    ),
    Field("sandbox", Free, M),
    Field("warnings", List(&Bytes), M),
];
const GRANT: &[Field] = &[
    Field("rule", Bytes, M),
    Field("layer", LAYER, M),
    Field("action", One(&["made", "used_up", "revoked"]), M),
    Field("who", WHO, M),
    Field("expires", Time, O),
];
const HOOK_RUNS: &[Field] = &[
    Field("event", Text, M),
    Field("agent", AGENT, M),
    Field("caller", CALLER, M),
    Field("hooks", HOOKS, M),
];
const SESSION: &[Field] = &[
    Field("action", One(&["start", "turn", "turn_end", "completed", "end"]), M),
    Field("agent", AGENT, M),
    Field("caller", CALLER, M),
    Field("source", Bytes, O),
    Field("outcome", Bytes, O),
    Field(
        "usage",
        List(&Object(&[
            Field("model", Bytes, M),
            Field("answers", Whole, M),
            Field("input", Whole, M),
            Field("cache_write", Whole, M),
            Field("cache_read", Whole, M),
            Field("output", Whole, M),
            Field("micro_dollars", Whole, M),
        ])),
        O,
    ),
];
const KEY: &[Field] =
    &[Field("use", One(&["sign", "redact"]), M), Field("new", Text, M), Field("reason", Bytes, M)];
const PRUNE: &[Field] = &[
    Field(
        "segments",
        List(&Object(&[
            Field("name", Text, M),
            Field("first_seq", Whole, M),
            Field("last_seq", Whole, M),
            Field("last_sha256", Hex(64), M),
            Field("sha256", Hex(64), M),
        ])),
        M,
    ),
    Field("reason", Bytes, M),
];
const GAP: &[Field] = &[
    Field(
        "reason",
        One(&[
            "above_checkpoint",
            "torn_tail",
            "refused",
            "clock",
            "execs_lost",
            "anchor",
            "abandoned_tail",
        ]),
        M,
    ),
    Field("from", Text, O),
    Field("to", Text, O),
    Field("count", Whole, O),
    Field("bytes", Whole, O),
    Field("sha256", Hex(64), O),
    Field("detail", Bytes, M),
];
const REPAIR: &[Field] = &[
    Field("who", WHO, M),
    Field("why", Bytes, M),
    Field("lost", Object(&[Field("first_seq", Whole, M), Field("last_seq", Whole, M)]), M),
    Field("old_checkpoint", Text, M),
];

/// Whether a kind carries `ref`.
fn own_fields(kind: &str) -> Option<(&'static [Field], Option<bool>)> {
    Some(match kind {
        "segment" => (SEGMENT, None),
        "policy_load" => (POLICY_LOAD, None),
        "decision" => (DECISION, Some(O)),
        "approval" => (APPROVAL, Some(M)),
        "exec" => (EXEC, Some(M)),
        "connection" => (CONNECTION, Some(M)),
        "result" => (RESULT, Some(M)),
        "grant" => (GRANT, None),
        "session" => (SESSION, None),
        "hooks" => (HOOK_RUNS, Some(O)),
        "key" => (KEY, None),
        "prune" => (PRUNE, None),
        "gap" => (GAP, None),
        "repair" => (REPAIR, None),
        _ => return None,
    })
}

/// Checks a record against the table: every member that must be there, no other, in order, each of its
/// type.
pub(super) fn check(kind: &str, record: &Value) -> Result<(), String> {
    let Some((own, reference)) = own_fields(kind) else {
        return Err(format!("kind `{kind}` is not known"));
    };
    let reference: &[Field] = match reference {
        None => &[],
        Some(M) => &[Field("ref", Ulid, M)],
        Some(O) => &[Field("ref", Ulid, O)],
    };
    let fields = COMMON.iter().chain(reference).chain(CLOCKS).chain(own).chain(REDACTED);
    object(record, fields, "")
}

fn object<'a>(
    value: &Value,
    fields: impl Iterator<Item = &'a Field>,
    path: &str,
) -> Result<(), String> {
    let members = value.members().ok_or_else(|| format!("`{path}` is not an object"))?;
    let mut members = members.iter().peekable();
    for Field(name, kind, optional) in fields {
        match members.next_if(|member| member.key == *name) {
            Some(member) => check_type(&member.value, kind, path, name)?,
            None if *optional => {}
            None => return Err(format!("`{path}/{name}` is missing or not in its place")),
        }
    }
    match members.next() {
        Some(member) => Err(format!("`{path}/{}` is not known here", member.key)),
        None => Ok(()),
    }
}

fn check_type(value: &Value, kind: &Type, path: &str, name: &str) -> Result<(), String> {
    let text = value.text();
    let fits = match kind {
        Text => text.is_some(),
        Bytes => text.is_some() || is_encoded(value),
        Whole => value.whole().is_some_and(|number| number < 1 << 53),
        Signed => matches!(&value.kind, Kind::Number(digits) if digits.parse::<i64>().is_ok()),
        Bool => value.boolean().is_some(),
        Hex(digits) => text.is_some_and(|text| is_hex(text, *digits)),
        Ulid => text.is_some_and(is_ulid),
        Time => text.is_some_and(is_time),
        Digest => text.is_some_and(is_digest),
        Span => value
            .elements()
            .is_some_and(|it| it.len() == 2 && it.iter().all(|end| end.whole().is_some())),
        One(names) => text.is_some_and(|text| names.contains(&text)),
        Null(_) if value.kind == Kind::Null => true,
        Null(inner) => return check_type(value, inner, path, name),
        List(inner) => {
            let elements =
                value.elements().ok_or_else(|| format!("`{path}/{name}` is not a list"))?;
            for (index, element) in elements.iter().enumerate() {
                check_type(element, inner, &format!("{path}/{name}"), &index.to_string())?;
            }
            true
        }
        Object(fields) => return object(value, fields.iter(), &format!("{path}/{name}")),
        Free => value.members().is_some(),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("`{path}/{name}` is {}, not what belongs there", value.type_name()))
    }
}

fn is_encoded(value: &Value) -> bool {
    value
        .members()
        .is_some_and(|it| matches!(it, [only] if only.key == "b64" && only.value.text().is_some()))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_digest(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("sha256:") {
        return is_hex(digits, 64);
    }
    let parts = text.strip_prefix("hmac:").and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(key, digits)| !key.is_empty() && is_hex(digits, 64))
}
