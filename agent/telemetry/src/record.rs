//! Attributes of a record: names, numbers and times, and texts only where they are included.

use serde_json::{Value, json};

/// Names and values beside a span, a point or a log record.
pub(crate) type Attributes = Vec<(String, Value)>;

/// Longest word of a front end that is sent, in characters.
const LONGEST_WORD: usize = 128;
/// Longest text that is sent, in characters.
const LONGEST_TEXT: usize = 4096;

/// Texts of records, which are sent only where this names them. They are masked, as they are in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Command lines, reasons and rules.
    Commands,
    /// The working directory and the project.
    Paths,
    /// Hosts of connections.
    Hosts,
}

/// A record, as the gateway tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a>(pub(crate) &'a Value);

impl<'a> Record<'a> {
    fn at(self, keys: &[&str]) -> Option<&'a Value> {
        keys.iter().try_fold(self.0, |value, key| value.get(key))
    }

    pub(crate) fn text(self, keys: &[&str]) -> Option<&'a str> {
        self.at(keys)?.as_str()
    }

    pub(crate) fn whole(self, keys: &[&str]) -> Option<u64> {
        self.at(keys)?.as_u64()
    }

    pub(crate) fn is(self, keys: &[&str]) -> bool {
        self.at(keys).and_then(Value::as_bool) == Some(true)
    }

    pub(crate) fn list(self, keys: &[&str]) -> &'a [Value] {
        self.at(keys).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a point in time as nanoseconds since 1970.
    pub(crate) fn time(self, keys: &[&str]) -> Option<u64> {
        let time: jiff::Timestamp = self.text(keys)?.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok()
    }

    pub(crate) fn kind(self) -> &'a str {
        self.text(&["kind"]).unwrap_or_default()
    }

    /// The identity of the record.
    pub(crate) fn id(self) -> &'a str {
        self.text(&["id"]).unwrap_or_default()
    }

    /// The identity of the decision to which it belongs.
    pub(crate) fn reference(self) -> Option<&'a str> {
        self.text(&["ref"])
    }

    pub(crate) fn seq(self) -> u64 {
        self.whole(&["seq"]).unwrap_or_default()
    }

    /// Returns how a command ended, in a word.
    pub(crate) fn outcome(self) -> &'static str {
        if self.text(&["agreement"]) == Some("not_run") {
            return "not_run";
        }
        let exit = self.at(&["exit"]).and_then(Value::as_i64);
        match (self.is(&["timed_out"]), self.is(&["oom"]), self.is(&["interrupted"])) {
            (true, ..) => "timed_out",
            (_, true, _) => "out_of_memory",
            (.., true) => "interrupted",
            _ if self.text(&["signal"]).is_some() => "signal",
            _ if exit == Some(0) => "success",
            _ if exit.is_some() => "failure",
            _ => "unknown",
        }
    }

    /// Returns how many bytes a stream had.
    pub(crate) fn bytes_of(self, name: &str) -> u64 {
        let streams = self.list(&["streams"]).iter().map(Record);
        let found = streams.filter(|it| it.text(&["name"]) == Some(name));
        found.filter_map(|it| it.whole(&["bytes"])).sum()
    }

    /// Returns the attributes of a record of any kind.
    pub(crate) fn attributes(self, include: &[Include]) -> Attributes {
        let mut all = Putting { record: self, include, all: Attributes::new() };
        match self.kind() {
            "decision" => all.decision(),
            "approval" => all.approval(),
            "connection" => all.connection(),
            "result" => all.result(),
            "grant" => {
                all.words(&[
                    ("stockade.grant.action", &["action"]),
                    ("stockade.layer", &["layer"]),
                ]);
                all.included(Include::Commands, "stockade.rule", &["rule"]);
            }
            "policy_load" => {
                all.words(&[("stockade.policy.sha256", &["sha256"])]);
                all.put("stockade.policy.rules", json!(self.list(&["rules"]).len()));
                all.put("stockade.policy.files", json!(self.list(&["layers"]).len()));
            }
            "hooks" => {
                all.words(&[
                    ("stockade.hook.event", &["event"]),
                    ("session.id", &["agent", "session"]),
                ]);
                all.put("stockade.hook.count", json!(self.list(&["hooks"]).len()));
            }
            "session" => all.words(&[
                ("stockade.session.action", &["action"]),
                ("stockade.session.source", &["source"]),
                ("stockade.turn.outcome", &["outcome"]),
                ("stockade.agent", &["agent", "name"]),
                ("stockade.door", &["agent", "door"]),
                ("session.id", &["agent", "session"]),
            ]),
            "gap" => {
                all.words(&[("stockade.gap.reason", &["reason"])]);
                all.wholes(&[("stockade.gap.count", &["count"])]);
            }
            _ => {}
        }
        all.all
    }
}

/// Text of at most so many characters, in one line.
fn cut(text: &str, most: usize) -> String {
    let plain = text.chars().map(|it| if it.is_control() && it != '\n' { '\u{fffd}' } else { it });
    plain.take(most).collect()
}

/// The attributes of a record, as they are put together.
struct Putting<'a> {
    record: Record<'a>,
    include: &'a [Include],
    all: Attributes,
}

impl Putting<'_> {
    fn put(&mut self, name: &str, value: Value) {
        self.all.push((name.to_owned(), value));
    }

    fn words(&mut self, names: &[(&str, &[&str])]) {
        for (name, keys) in names {
            let word = self.record.text(keys).filter(|word| !word.is_empty());
            if let Some(word) = word {
                self.put(name, json!(cut(word, LONGEST_WORD)));
            }
        }
    }

    fn wholes(&mut self, names: &[(&str, &[&str])]) {
        for (name, keys) in names {
            if let Some(number) = self.record.at(keys).and_then(Value::as_i64) {
                self.put(name, json!(number));
            }
        }
    }

    fn flags(&mut self, names: &[(&str, &[&str])]) {
        for (name, keys) in names {
            if self.record.is(keys) {
                self.put(name, json!(true));
            }
        }
    }

    fn included(&mut self, include: Include, name: &str, keys: &[&str]) {
        let text = self.record.text(keys).filter(|_| self.include.contains(&include));
        if let Some(text) = text {
            self.put(name, json!(cut(text, LONGEST_TEXT)));
        }
    }

    fn decision(&mut self) {
        self.words(&[
            ("stockade.tool", &["request", "tool"]),
            ("stockade.decision", &["verdict", "decision"]),
            ("stockade.by", &["verdict", "by"]),
            ("stockade.code", &["verdict", "code"]),
            ("stockade.runs", &["runs"]),
            ("stockade.door", &["agent", "door"]),
            ("stockade.mode", &["agent", "mode"]),
            ("stockade.agent", &["agent", "name"]),
            ("stockade.call.id", &["agent", "call_id"]),
            ("session.id", &["agent", "session"]),
            ("host.id", &["host", "id"]),
        ]);
        self.wholes(&[("stockade.uid", &["caller", "uid"])]);
        self.flags(&[
            ("stockade.background", &["request", "background"]),
            ("stockade.unsandboxed", &["request", "unsandboxed_asked"]),
        ]);
        self.included(Include::Commands, "process.command_line", &["request", "command"]);
        self.included(Include::Commands, "stockade.reason", &["verdict", "reason"]);
        if self.include.contains(&Include::Commands) {
            let rules = self.record.list(&["rules"]).iter().map(Record);
            let decisive = rules.filter(|it| it.is(&["decisive"]));
            let rules: Vec<&str> = decisive.filter_map(|it| it.text(&["text"])).collect();
            if !rules.is_empty() {
                self.put("stockade.rule", json!(cut(&rules.join("\n"), LONGEST_TEXT)));
            }
        }
        self.included(Include::Paths, "process.working_directory", &["request", "cwd"]);
        self.included(Include::Paths, "stockade.project", &["request", "project"]);
    }

    fn approval(&mut self) {
        self.words(&[
            ("stockade.answer", &["answer"]),
            ("stockade.scope", &["scope"]),
            ("stockade.channel", &["channel"]),
        ]);
        self.wholes(&[("stockade.waited_ms", &["waited_ms"]), ("stockade.uid", &["who", "uid"])]);
        let approvers = self.record.list(&["approvers"]).len();
        if approvers > 0 {
            self.put("stockade.approvers", json!(approvers));
        }
        if self.record.at(&["break_glass"]).is_some() {
            self.put("stockade.break_glass", json!(true));
        }
    }

    fn connection(&mut self) {
        self.words(&[
            ("stockade.connection.action", &["action"]),
            ("stockade.connection.way", &["way"]),
            ("stockade.decision", &["verdict", "decision"]),
            ("stockade.by", &["verdict", "by"]),
            ("stockade.code", &["verdict", "code"]),
        ]);
        self.wholes(&[
            ("server.port", &["to", "port"]),
            ("stockade.connection.sent", &["bytes", "sent"]),
            ("stockade.connection.received", &["bytes", "received"]),
        ]);
        self.included(Include::Hosts, "server.address", &["to", "host"]);
    }

    fn result(&mut self) {
        self.put("stockade.outcome", json!(self.record.outcome()));
        self.words(&[
            ("stockade.agreement", &["agreement"]),
            ("stockade.observed", &["observed"]),
            ("stockade.signal", &["signal"]),
        ]);
        self.wholes(&[
            ("process.exit.code", &["exit"]),
            ("stockade.duration_us", &["duration_us"]),
        ]);
        for name in ["stdout", "stderr"] {
            let bytes = self.record.bytes_of(name);
            self.put(&format!("stockade.{name}.bytes"), json!(bytes));
        }
        let denials = self.record.list(&["touched", "denials"]).len();
        self.put("stockade.sandbox.refusals", json!(denials));
    }
}
