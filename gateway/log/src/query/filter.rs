//! Filter for the records that a question is about.

use jiff::{SignedDuration, Timestamp};
use stockade_text::json::{Kind, Value};
use stockade_wire::times::Since;

use super::super::line::Glance;
use super::{Record, programs};

/// Conditions on records; all that are there must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    pub kind: Option<String>,
    pub verdict: Option<String>,
    pub by: Option<String>,
    pub code: Option<String>,
    /// The text of a rule that matched.
    pub rule: Option<String>,
    /// The layer of a rule that matched.
    pub layer: Option<String>,
    /// The file of a rule that matched, and its line.
    pub file: Option<(String, Option<u64>)>,
    pub uid: Option<u64>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub call: Option<String>,
    pub door: Option<String>,
    pub program: Option<String>,
    /// A part of the command.
    pub command: Option<String>,
    /// A path that was judged or touched.
    pub path: Option<String>,
    pub host: Option<String>,
    pub exit: Option<i64>,
    pub signal: Option<String>,
    /// Id of a decision: the decision itself and all that belongs to it.
    pub reference: Option<String>,
    /// Tag of a mask.
    pub tag: Option<String>,
    /// From [`when`].
    pub since: Option<String>,
    /// From [`when`].
    pub until: Option<String>,
}

/// Returns a point in time as records spell it: RFC 3339, `2h` ago (s, m, h, d), or `today` (UTC).
pub fn when(text: &str) -> Option<String> {
    let now = Timestamp::now();
    let time = match Since::of(text) {
        Since::Today => {
            let day = now.as_second().div_euclid(86_400).checked_mul(86_400)?;
            Timestamp::from_second(day).ok()?
        }
        Since::Ago(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok()?,
        Since::At(text) => text.parse().ok()?,
    };
    Some(format!("{time:.9}"))
}

impl Filter {
    /// Says whether the beginning of a line leaves it open that all conditions hold.
    pub(super) fn may_let(&self, line: &Glance<'_>) -> bool {
        self.since.as_deref().is_none_or(|since| line.time >= since)
            && self.until.as_deref().is_none_or(|until| line.time <= until)
            && self.kind.as_deref().is_none_or(|kind| line.kind == kind)
            && self.reference.as_deref().is_none_or(|id| belongs(line, id))
    }

    /// Says whether a line may tell how a record that is shown ended, or that it had no signature.
    pub(super) fn tells(&self, line: &Glance<'_>) -> bool {
        let is_about = self.reference.as_deref().is_none_or(|id| belongs(line, id));
        line.kind == "gap" || (line.kind == "result" && is_about)
    }

    /// Says whether all conditions hold for `record`.
    pub(super) fn lets(&self, record: &Record) -> bool {
        let is = |wanted: &Option<String>, keys: &[&str]| match wanted {
            Some(wanted) => record.text(keys) == Some(wanted.as_str()),
            None => true,
        };
        let time = record.text(&["time"]).unwrap_or_default();
        is(&self.kind, &["kind"])
            && is(&self.verdict, &["verdict", "decision"])
            && is(&self.by, &["verdict", "by"])
            && is(&self.code, &["verdict", "code"])
            && is(&self.agent, &["agent", "name"])
            && is(&self.session, &["agent", "session"])
            && is(&self.call, &["agent", "call_id"])
            && is(&self.door, &["agent", "door"])
            && is(&self.signal, &["signal"])
            && self.since.as_deref().is_none_or(|since| time >= since)
            && self.until.as_deref().is_none_or(|until| time <= until)
            && self.uid.is_none_or(|uid| record.whole(&["caller", "uid"]) == Some(uid))
            && self.exit.is_none_or(|exit| has_exit(record, exit))
            && self.lets_rules(record)
            && self.lets_text(record)
    }

    fn lets_rules(&self, record: &Record) -> bool {
        let text = |rule: &Value, key: &str, wanted: &str| {
            rule.get(key).and_then(Value::text) == Some(wanted)
        };
        let is_asked = self.rule.is_some() || self.layer.is_some() || self.file.is_some();
        !is_asked
            || record.list(&["rules"]).iter().any(|rule| {
                self.rule.as_ref().is_none_or(|wanted| text(rule, "text", wanted))
                    && self.layer.as_ref().is_none_or(|wanted| text(rule, "layer", wanted))
                    && self.file.as_ref().is_none_or(|(file, line)| {
                        text(rule, "file", file)
                            && line.is_none_or(|line| {
                                rule.get("line").and_then(Value::whole) == Some(line)
                            })
                    })
            })
    }

    fn lets_text(&self, record: &Record) -> bool {
        let command = record.text(&["request", "command"]);
        self.program.as_ref().is_none_or(|wanted| programs(record).any(|program| program == wanted))
            && self
                .command
                .as_ref()
                .is_none_or(|part| command.is_some_and(|text| text.contains(part)))
            && self.path.as_ref().is_none_or(|path| has_path(record, path))
            && self.host.as_ref().is_none_or(|host| {
                [&["host", "name"][..], &["host", "id"], &["to", "host"]]
                    .iter()
                    .any(|keys| record.text(keys) == Some(host))
            })
            && self
                .reference
                .as_ref()
                .is_none_or(|id| record.id == *id || record.reference.as_ref() == Some(id))
            && self.tag.as_ref().is_none_or(|tag| {
                record
                    .list(&["redacted"])
                    .iter()
                    .any(|mask| mask.get("tag").and_then(Value::text) == Some(tag))
            })
    }
}

/// Says whether a line is the record `id`, or belongs to it.
pub(super) fn belongs(line: &Glance<'_>, id: &str) -> bool {
    line.id == id || line.reference == Some(id)
}

fn has_exit(record: &Record, exit: i64) -> bool {
    match record.at(&["exit"]).map(|value| &value.kind) {
        Some(Kind::Number(digits)) => digits.parse() == Ok(exit),
        Some(_) | None => false,
    }
}

fn has_path(record: &Record, path: &str) -> bool {
    let is = |value: &Value| value.text() == Some(path);
    let judged = record.at(&["facts", "paths"]).and_then(Value::members).unwrap_or_default();
    judged.iter().any(|member| {
        member.key == path || member.value.elements().is_some_and(|it| it.iter().any(is))
    }) || ["written", "removed", "sockets"]
        .iter()
        .any(|key| record.list(&["touched", key]).iter().any(is))
}
