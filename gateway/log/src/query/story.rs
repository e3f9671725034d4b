//! The story of a call: the reasons for its decision, and its outcome.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use stockade_text::json::{Kind, Value};

use super::backward::Backward;
use super::filter::belongs;
use super::{Reader, Record, Unsigned, Wish, segments};
use crate::error::Error;
use crate::hash::{hex, sha256};
use crate::references::References;
use crate::{Places, clock, files, line};
use stockade_text::visible;

/// The decision that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one with this id, or to which the record with this id belongs.
    Id(String),
    /// The one with this number, or to which the record with this number belongs.
    Sequence(u64),
    /// The newest.
    Last,
}

impl Which {
    /// Reads `last`, a number or an id.
    pub fn read(text: &str) -> Which {
        match (text, text.parse()) {
            ("last", _) => Which::Last,
            (_, Ok(sequence)) => Which::Sequence(sequence),
            (_, Err(_)) => Which::Id(text.to_owned()),
        }
    }
}

/// A decision and all that belongs to it, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    pub decision: Record,
    /// Approvals, executions and results.
    pub later: Vec<Record>,
    /// Sequence numbers of those records that no signature covered when they were appended.
    unsigned: BTreeSet<u64>,
    /// Where the chain of what was read does not hold.
    pub broken: Option<String>,
}

/// Returns the story of one decision; none when there is no such decision.
pub fn why(places: &Places, which: &Which) -> Result<Option<Story>, Error> {
    let directory = &places.directory;
    let mut unsigned = Unsigned::new(directory);
    let found = match which {
        Which::Last => return last(directory, unsigned),
        Which::Sequence(sequence) => {
            let first = segments::of_sequence(directory, *sequence)?;
            find(directory, first, None, |number, _| number == *sequence)?
        }
        Which::Id(id) => with(directory, id)?,
    };
    let Some((record, reader)) = found else { return Ok(None) };
    let Some(id) = decision_of(&record) else { return Ok(None) };
    let found = if record.id == id { Some((record, reader)) } else { with(directory, &id)? };
    let Some((decision, mut reader)) = found else { return Ok(None) };
    let mut later = Vec::new();
    // The first of those that follow may say that the decision had no signature.
    let wish = |line: &[u8]| match line::glance(line) {
        Some(line) if line.kind != "gap" && !belongs(&line, &id) => Wish::Pass,
        Some(_) | None => Wish::Read,
    };
    let wanted = |segment| {
        References::read(&places.state, segment).is_none_or(|it| it.name_any([id.as_str()]))
    };
    while let Some(record) = reader.next_of(wish, wanted)? {
        unsigned.see(&record);
        if record.reference.as_ref() == Some(&id) {
            later.push(record);
        }
    }
    let broken = reader.broken;
    Story::of(decision, later, &unsigned, broken).map(Some)
}

/// Returns the id of the decision that `record` is, or belongs to.
fn decision_of(record: &Record) -> Option<String> {
    match record.kind.as_str() {
        "decision" => Some(record.id.clone()),
        _ => record.reference.clone(),
    }
}

/// Returns the newest decision and what belongs to it, read from the end of the log.
fn last(directory: &Path, mut unsigned: Unsigned) -> Result<Option<Story>, Error> {
    let mut reader = Backward::new(directory)?;
    let mut later = Vec::new();
    while let Some(record) = reader.next()? {
        unsigned.see(&record);
        if record.kind == "decision" {
            later.retain(|it: &Record| it.reference.as_ref() == Some(&record.id));
            later.reverse();
            return Story::of(record, later, &unsigned, reader.broken).map(Some);
        }
        later.push(record);
    }
    Ok(None)
}

/// How long after the time in its id a record may have been written, unless a clock was put back.
const SOON: Duration = Duration::from_secs(60);

/// Returns the record with this id, and a reader that stands behind it: at first around the time in the id (ULID: the
/// first 48 bits are milliseconds), and from the beginning if it is not there.
fn with(directory: &Path, id: &str) -> Result<Option<(Record, Reader)>, Error> {
    let is_it = |_: u64, own: &str| own == id;
    let likely = segments::first_since(directory, clock::ulid_time(id, Duration::ZERO).as_deref())?;
    match find(directory, likely, clock::ulid_time(id, SOON).as_deref(), is_it)? {
        Some(found) => Ok(Some(found)),
        None => find(directory, 0, None, is_it),
    }
}

/// Returns the first record whose number and id are what is wanted, and a reader that stands behind it. The search
/// begins with segment `first` and ends with the first line after `until`.
fn find(
    directory: &Path,
    first: u64,
    until: Option<&str>,
    is_it: impl Fn(u64, &str) -> bool,
) -> Result<Option<(Record, Reader)>, Error> {
    let mut reader = Reader::at(directory, first);
    let wish = |line: &[u8]| match line::glance(line) {
        Some(line) if is_it(line.sequence, line.id) => Wish::Read,
        Some(line) if until.is_some_and(|until| line.time > until) => Wish::End,
        Some(_) => Wish::Pass,
        None => Wish::Read,
    };
    while let Some(record) = reader.next_of(wish, |_| true)? {
        if is_it(record.sequence, &record.id) {
            return Ok(Some((record, reader)));
        }
    }
    Ok(None)
}

impl Story {
    fn of(
        decision: Record,
        later: Vec<Record>,
        unsigned: &Unsigned,
        broken: Option<String>,
    ) -> Result<Story, Error> {
        let unsigned = unsigned.among(later.iter().chain([&decision]))?;
        Ok(Story { decision, later, unsigned, broken })
    }

    /// Returns the sequence numbers of the records without a signature.
    pub fn unsigned(&self) -> &BTreeSet<u64> {
        &self.unsigned
    }

    /// Returns the story for people, several lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let of = |keys: &[&str]| visible(self.decision.text(keys).unwrap_or("-"));
        writeln!(
            text,
            "{} `{}`",
            past(self.decision.text(&["verdict", "decision"])),
            self.subject()
        )?;
        writeln!(text, "  because {}", of(&["verdict", "reason"]))?;
        writeln!(
            text,
            "  record {} ({}) at {}, by {}",
            self.decision.sequence,
            self.decision.id,
            of(&["time"]),
            of(&["verdict", "by"])
        )?;
        let agent = self.decision.text(&["agent", "name"]).filter(|it| !it.is_empty());
        let agent = agent.map(|it| format!(" ({})", visible(it))).unwrap_or_default();
        writeln!(
            text,
            "  asked by uid {} through {}{agent}, in {}",
            self.decision.whole(&["caller", "uid"]).unwrap_or_default(),
            of(&["agent", "door"]),
            of(&["request", "cwd"])
        )?;
        self.parts(text)?;
        for rule in self.decision.list(&["rules"]) {
            self.rule(text, rule)?;
        }
        for hook in self.decision.list(&["hooks"]) {
            writeln!(text, "  hook {}", heard(hook))?;
        }
        if let Some(by) = self.decision.text(&["request", "rewritten_by"]) {
            writeln!(text, "  the input was changed by {}", visible(by))?;
        }
        self.sandbox(text)?;
        for record in &self.later {
            later(text, record)?;
        }
        for number in &self.unsigned {
            writeln!(text, "  warning: no signature covered record {number} when it was appended")?;
        }
        if let Some(broken) = &self.broken {
            writeln!(text, "  warning: the chain is broken: {}", visible(broken))?;
        }
        Ok(())
    }

    fn sandbox(&self, text: &mut String) -> std::fmt::Result {
        // The restrictions that were really enforced are known at the end.
        let result = self.later.iter().find(|record| record.kind == "result");
        let names = |key: &str| {
            let found = match result {
                Some(result) => result.list(&[key]),
                None => self.decision.list(&["sandbox", key]),
            };
            match found.iter().filter_map(Value::text).map(visible).collect::<Vec<_>>() {
                none if none.is_empty() => "-".to_owned(),
                some => some.join(", "),
            }
        };
        writeln!(
            text,
            "  sandbox: network {}, enforced: {}; missing: {}",
            visible(self.decision.text(&["sandbox", "network"]).unwrap_or("-")),
            names("enforced"),
            names("missing")
        )
    }

    fn subject(&self) -> String {
        let command = self.decision.text(&["request", "command"]);
        visible(command.or_else(|| self.decision.text(&["request", "tool"])).unwrap_or("-"))
    }

    fn parts(&self, text: &mut String) -> std::fmt::Result {
        let command = self.decision.text(&["request", "command"]).unwrap_or_default();
        for part in self.decision.list(&["parts"]) {
            let ends = part.get("span").and_then(Value::elements).unwrap_or_default();
            let mut ends = ends.iter().filter_map(|end| usize::try_from(end.whole()?).ok());
            let span = ends.next().unwrap_or(0)..ends.next().unwrap_or(0);
            let decision = part.get("decision").and_then(Value::text);
            writeln!(
                text,
                "  part `{}`: {}",
                visible(command.get(span).unwrap_or_default()),
                visible(decision.unwrap_or("-"))
            )?;
        }
        Ok(())
    }

    fn rule(&self, text: &mut String, rule: &Value) -> std::fmt::Result {
        let of = |key: &str| rule.get(key).and_then(Value::text);
        let shown = |key: &str| visible(of(key).unwrap_or("-"));
        let decided = match rule.get("decisive").and_then(Value::boolean) {
            Some(true) => " (decided)",
            Some(false) | None => "",
        };
        writeln!(
            text,
            "  {} rule `{}` in {}:{}{} {}{decided}",
            shown("effect"),
            shown("text"),
            shown("file"),
            rule.get("line").and_then(Value::whole).unwrap_or_default(),
            shown("pointer"),
            still(of("file"), of("file_sha256")),
        )
    }
}

/// Says whether a file still has the digest that was recorded.
fn still(file: Option<&str>, digest: Option<&str>) -> &'static str {
    let (Some(file), Some(digest)) = (file, digest) else {
        return "(no digest of the file was recorded)";
    };
    match files::read(Path::new(file)) {
        Ok(Some(content)) if hex(&sha256(&[&content])) == digest => "(the file is as it was)",
        Ok(Some(_)) => "(the file has changed since)",
        Ok(None) => "(the file is gone)",
        Err(_) => "(the file cannot be read)",
    }
}

fn past(decision: Option<&str>) -> &'static str {
    match decision {
        Some("allow") => "allowed",
        Some("ask") => "asked about",
        Some("deny") => "denied",
        Some(_) | None => "decided",
    }
}

/// Returns a hook that ran, with what it decided or how it failed.
fn heard(hook: &Value) -> String {
    let of = |key: &str| hook.get(key).and_then(Value::text).map(visible);
    let said = match (of("error"), of("decision")) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(decision)) => decision,
        (None, None) => "decided nothing".to_owned(),
    };
    let exit = match hook.get("exit").map(|exit| &exit.kind) {
        Some(Kind::Number(digits)) => format!("exit {digits}, "),
        Some(_) | None => String::new(),
    };
    format!(
        "{} `{}` of {} {}{} ({exit}{} ms): {said}",
        of("event").unwrap_or_default(),
        of("handler").unwrap_or_default(),
        of("layer").unwrap_or_default(),
        of("file").unwrap_or_default(),
        of("pointer").unwrap_or_default(),
        hook.get("ms").and_then(Value::whole).unwrap_or_default()
    )
}

/// Returns who answered: the persons who approved, or the user, and who it was by the word of another program.
fn whom(record: &Record) -> String {
    let name = |person: &Value| {
        let text = |key: &str| person.get(key).and_then(Value::text).map(visible);
        let name = text("name").unwrap_or_else(|| "-".to_owned());
        text("for").map_or_else(|| name.clone(), |other| format!("{name} for {other}"))
    };
    let approvers: Vec<String> = record.list(&["approvers"]).iter().map(name).collect();
    let mut whom = match approvers.is_empty() {
        true => visible(record.text(&["who", "name"]).unwrap_or("-")),
        false => approvers.join(" and "),
    };
    if let Some(reason) = record.text(&["break_glass"]) {
        whom.push_str(&format!(" (break-glass: {})", visible(reason)));
    }
    if let Some(claimed) = record.text(&["claimed"]) {
        whom.push_str(&format!(" (said to be {})", visible(claimed)));
    }
    whom
}

fn later(text: &mut String, record: &Record) -> std::fmt::Result {
    let of = |keys: &[&str]| visible(record.text(keys).unwrap_or("-"));
    match record.kind.as_str() {
        "approval" => writeln!(
            text,
            "  answered {} by {} through {}, record {}",
            of(&["answer"]),
            whom(record),
            of(&["channel"]),
            record.sequence
        ),
        "exec" => writeln!(text, "  executed {}, record {}", of(&["exe"]), record.sequence),
        "connection" => connection(text, record),
        "result" => writeln!(
            text,
            "  ended: {} ({}), record {}",
            visible(&record.ending().unwrap_or_default()),
            of(&["agreement"]),
            record.sequence
        ),
        "hooks" => {
            for hook in record.list(&["hooks"]) {
                writeln!(text, "  hook {}, record {}", heard(hook), record.sequence)?;
            }
            Ok(())
        }
        _ => writeln!(text, "  {}, record {}", visible(&record.kind), record.sequence),
    }
}

fn connection(text: &mut String, record: &Record) -> std::fmt::Result {
    let of = |keys: &[&str]| visible(record.text(keys).unwrap_or("-"));
    let addresses: Vec<String> =
        record.list(&["addresses"]).iter().filter_map(Value::text).map(visible).collect();
    write!(
        text,
        "  connection to {}:{} {}",
        of(&["to", "host"]),
        record.whole(&["to", "port"]).unwrap_or_default(),
        of(&["action"])
    )?;
    if !addresses.is_empty() {
        write!(text, " ({})", addresses.join(", "))?;
    }
    if let Some(rule) = record.list(&["rules"]).first() {
        let of = |key: &str| visible(rule.get(key).and_then(Value::text).unwrap_or("-"));
        let line = rule.get("line").and_then(Value::whole).unwrap_or_default();
        write!(text, " by `{}` in {}:{line}", of("text"), of("file"))?;
    }
    match record.text(&["verdict", "reason"]) {
        None | Some("") => {}
        Some(reason) => write!(text, ": {}", visible(reason))?,
    }
    if let (Some(sent), Some(received)) =
        (record.whole(&["bytes", "sent"]), record.whole(&["bytes", "received"]))
    {
        write!(text, ", {sent} bytes out, {received} bytes in")?;
    }
    writeln!(text, ", record {}", record.sequence)
}
