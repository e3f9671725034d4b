//! The file of a session: one JSON object a line, in the form that the readers of the SDK packages know.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use serde_json::{Map, Value, json};
use stockade_door::{Host, Note, Session};
use stockade_model::{Block, Ledger, Message, Outcome, Role, Spent, Usage};
use stockade_sdk::{LEVEL, from_wire, identity, to_wire};

use super::record::{ASK, EVENT, FILES, MIRROR};
use crate::keeper::{Keeper, Refused};

/// Most bytes of lines in one frame for a mirror: the packages end a session over a frame of 1 MiB.
const FRAME: usize = 256 << 10;
/// Line that is too long for a frame with the details of its result, which the conversation does not need.
const LONG_LINE: usize = 768 << 10;
/// The result of a call that has none.
const UNFINISHED: &str =
    "The session ended before this call was finished. It may have run in part.";

/// The host that is told what was stored, where it keeps a copy.
struct Mirror(Arc<dyn Host>);

impl std::fmt::Debug for Mirror {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Mirror")
    }
}

/// Where a session is kept.
#[derive(Debug)]
pub(crate) struct Transcript {
    keeper: Option<Keeper>,
    mirror: Option<Mirror>,
    /// Lines that could not be written yet, the oldest first.
    pending: VecDeque<Value>,
    hinders: Arc<Session>,
    session: String,
    cwd: String,
    parent: Option<String>,
    /// Mode, and lists of things to do, as the log has them.
    told: (Value, Value, Value),
}

/// A session that was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) messages: Vec<Message>,
    last: Option<String>,
}

fn field<'a>(line: &'a Value, key: &str) -> &'a str {
    line.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Follows the parents from the newest message, so that what was left behind by a fork or a rewind does not count.
/// `until` names the last message. Each call has a result.
pub(crate) fn kept(lines: &[Value], until: Option<&str>) -> anyhow::Result<Kept> {
    let kept = kept_open(lines, until)?;
    Ok(Kept { messages: completed(kept.messages, false), ..kept })
}

/// Does the same, and leaves calls without a result at the end as they are: they are to be done.
pub(crate) fn kept_pending(lines: &[Value], until: Option<&str>) -> anyhow::Result<Kept> {
    let kept = kept_open(lines, until)?;
    Ok(Kept { messages: completed(kept.messages, true), ..kept })
}

fn kept_open(lines: &[Value], until: Option<&str>) -> anyhow::Result<Kept> {
    let is_message = |line: &&Value| {
        matches!(field(line, "type"), "user" | "assistant")
            && line.get("isSidechain") != Some(&json!(true))
    };
    let messages: Vec<&Value> = lines.iter().filter(is_message).collect();
    let mut named: HashMap<&str, &Value> = HashMap::with_capacity(messages.len());
    for line in &messages {
        // Of two lines with one name, the older one counts.
        named.entry(field(line, "uuid")).or_insert(line);
    }
    let mut next = match until {
        Some(until) => match named.get(until) {
            Some(found) => Some(*found),
            None => bail!("the session has no message `{until}`"),
        },
        None => messages.last().copied(),
    };
    let last = next.map(|line| field(line, "uuid").to_owned());
    let mut chain = Vec::new();
    while let Some(line) = next {
        chain.push(line);
        let parent = field(line, "parentUuid");
        // A loop in a damaged file ends here.
        next = named
            .get(parent)
            .copied()
            .filter(|_| !parent.is_empty() && chain.len() <= messages.len());
    }
    chain.reverse();
    let mut found: Vec<Message> = Vec::new();
    for line in chain {
        let role = if field(line, "type") == "user" { Role::User } else { Role::Assistant };
        let blocks =
            line.get("message").and_then(|it| it.get("content")).map(from_wire).unwrap_or_default();
        match found.last_mut().filter(|last| last.role == role) {
            Some(last) => last.blocks.extend(blocks),
            None => found.push(Message { role, blocks }),
        }
    }
    Ok(Kept { messages: found, last })
}

/// Says whether a message holds results of calls and nothing else.
fn are_results(message: &Message) -> bool {
    message.blocks.iter().all(|block| matches!(block, Block::Outcome(_)))
}

/// Gives each call a result; those at the end only if they are not `pending`.
fn completed(messages: Vec<Message>, pending: bool) -> Vec<Message> {
    let mut whole: Vec<Message> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let last = messages.len().saturating_sub(1);
    for (place, mut message) in messages.into_iter().enumerate() {
        if pending && place == last && message.role == Role::User && are_results(&message) {
            whole.push(message);
            return whole;
        }
        if message.role == Role::User {
            let has = |id: &String| {
                message.blocks.iter().any(|it| matches!(it, Block::Outcome(it) if it.id == *id))
            };
            let missing: Vec<Block> =
                open.iter().filter(|id| !has(id)).map(|id| unfinished(id)).collect();
            message.blocks.splice(0..0, missing);
            open.clear();
        } else if !open.is_empty() {
            whole.push(Message {
                role: Role::User,
                blocks: open.iter().map(|id| unfinished(id)).collect(),
            });
        }
        if message.role == Role::Assistant {
            let calls = message.blocks.iter().filter_map(|it| match it {
                Block::Call { id, .. } => Some(id.clone()),
                Block::Text(_) | Block::Image(_) | Block::Thinking(_) | Block::Outcome(_) => None,
            });
            open = calls.collect();
        }
        whole.push(message);
    }
    if !open.is_empty() && !pending {
        whole.push(Message {
            role: Role::User,
            blocks: open.iter().map(|id| unfinished(id)).collect(),
        });
    }
    whole
}

fn unfinished(id: &str) -> Block {
    let content = vec![Block::Text(UNFINISHED.into())];
    Block::Outcome(Outcome { id: id.to_owned(), content, is_error: true })
}

impl Transcript {
    /// Returns the file of a session behind its keeper; none keeps nothing.
    pub(crate) fn new(cwd: &Path, session: &Arc<Session>, keeper: Option<Keeper>) -> Transcript {
        let (hinders, session, pending) = (Arc::clone(session), session.id(), VecDeque::new());
        let cwd = cwd.to_string_lossy().into_owned();
        let told = <(Value, Value, Value)>::default();
        Transcript {
            keeper,
            mirror: None,
            pending,
            hinders,
            session: session.to_owned(),
            cwd,
            parent: None,
            told,
        }
    }

    /// Tells the host which lines were stored, where the keeper says so.
    pub(crate) fn with_mirror(self, host: Arc<dyn Host>) -> Transcript {
        Transcript { mirror: Some(Mirror(host)), ..self }
    }

    /// Goes on behind what was kept. For a new identity, the messages so far are written under it first.
    pub(crate) fn go_on(&mut self, kept: &Kept, is_new: bool) {
        if is_new {
            for message in &kept.messages {
                self.add(message.role, &message.blocks, None);
            }
        } else {
            self.parent.clone_from(&kept.last);
        }
    }

    /// Appends a message, and returns its identity.
    pub(crate) fn add(&mut self, role: Role, blocks: &[Block], result: Option<&Value>) -> String {
        self.add_as(identity(), (role, blocks), result)
    }

    /// Appends a message with this identity.
    pub(crate) fn add_as(
        &mut self,
        uuid: String,
        (role, blocks): (Role, &[Block]),
        result: Option<&Value>,
    ) -> String {
        let content: Value = match blocks {
            [Block::Text(text)] if role == Role::User => json!(text),
            blocks => blocks.iter().map(to_wire).collect(),
        };
        let mut line = self.line(role, content);
        if let Some(fields) = line.as_object_mut() {
            fields.insert("uuid".into(), json!(uuid));
        }
        if let (Some(fields), Some(result)) = (line.as_object_mut(), result) {
            fields.insert("toolUseResult".into(), result.clone());
        }
        if let Some(message) = line
            .get_mut("message")
            .and_then(Value::as_object_mut)
            .filter(|_| role == Role::Assistant)
        {
            message.insert("id".into(), json!(format!("msg_{}", identity().replace('-', ""))));
            message.insert("type".into(), json!("message"));
        }
        self.said(&line)
    }

    fn line(&self, role: Role, content: Value) -> Value {
        let kind = if role == Role::User { "user" } else { "assistant" };
        json!({
            "parentUuid": self.parent, "isSidechain": false, "userType": "external", "cwd": self.cwd,
            "sessionId": self.session, "version": LEVEL, "gitBranch": "", "type": kind,
            "message": { "role": kind, "content": content }, "uuid": identity(), "timestamp": now(),
        })
    }

    fn said(&mut self, line: &Value) -> String {
        self.write(line);
        let uuid = field(line, "uuid").to_owned();
        self.parent = Some(uuid.clone());
        uuid
    }

    /// Records what changed of the session besides its messages.
    pub(crate) fn changes(&mut self, session: &Session) {
        let now = (json!(session.mode()), session.todos(), session.task_list());
        if now.0 != self.told.0 {
            self.event("mode.changed", json!({ "mode": now.0 }));
        }
        if (&now.1, &now.2) != (&self.told.1, &self.told.2) {
            self.event("todo.changed", json!({ "todos": now.1, "list": now.2 }));
        }
        self.told = now;
    }

    /// Puts a message in the place of all before; `files` were in use.
    pub(crate) fn summed_up(&mut self, text: &str, files: &[Value]) {
        self.parent = None;
        let line = self.line(Role::User, json!(text));
        let summary = json!({ "isCompactSummary": true, FILES: files });
        let whole = [line, summary].into_iter().filter_map(|it| it.as_object().cloned()).flatten();
        self.said(&whole.collect());
    }

    /// Asks the keeper about the session.
    pub(super) fn ask(&mut self, asked: Value) -> Result<Value, String> {
        let Some(keeper) = &mut self.keeper else {
            return Err("the session is not stored, so it cannot be rewound".to_owned());
        };
        keeper.ask(&json!({ ASK: asked })).map_err(|error| format!("{error:#}"))
    }

    /// Records that the session goes back, and takes up what is left of its conversation.
    pub(super) fn rewound(&mut self, data: Value) -> Result<Vec<Message>, String> {
        self.event("rewind", data);
        let answer = self.ask(json!({}))?;
        let lines = answer.get("lines").and_then(Value::as_array).cloned().unwrap_or_default();
        let kept = kept(&lines, None).map_err(|error| format!("{error:#}"))?;
        self.parent = kept.last;
        Ok(kept.messages)
    }

    /// Records which results are lines now.
    pub(crate) fn taken_out(&mut self, lines: &BTreeMap<String, String>) {
        self.event("compaction.micro", json!({ "results": lines }));
    }

    /// Records what a turn used, by model; nothing where it asked none.
    pub(crate) fn used(&mut self, used: &Ledger) {
        if used.aggregate().is_empty() {
            return;
        }
        let bucket = |spent: &BTreeMap<String, Spent>| -> Map<String, Value> {
            let model = |(name, it): (&String, &Spent)| {
                let Usage { input, cache_write, cache_read, output } = it.usage;
                let value = json!({
                    "answers": it.answers, "input": input, "cache_write": cache_write, "cache_read": cache_read,
                    "output": output, "dollars": it.dollars,
                });
                (name.clone(), value)
            };
            spent.iter().map(model).collect()
        };
        let (root, aggregate) = (bucket(used.root()), bucket(used.aggregate()));
        self.event(
            "usage",
            json!({ "dollars": used.dollars(), "root": root, "aggregate": aggregate }),
        );
    }

    fn event(&mut self, kind: &str, data: Value) {
        let event = json!({ "type": kind, "data": data });
        self.write(&json!({ EVENT: event }));
    }

    /// Writes a line behind those that wait. While a line cannot be written, as on a full disk, it waits with all behind it,
    /// and nothing that changes something runs; a session without its keeper goes on unkept.
    fn write(&mut self, line: &Value) {
        if self.keeper.is_none() {
            return;
        }
        self.pending.push_back(line.clone());
        self.retry();
    }

    /// Writes what waits, as far as that works now.
    fn retry(&mut self) {
        while let (Some(keeper), Some(line)) = (&mut self.keeper, self.pending.front()) {
            match keeper.ask(line) {
                Ok(answer) => {
                    self.pending.pop_front();
                    if let (Some(Mirror(host)), Some(stored)) = (&self.mirror, answer.get(MIRROR)) {
                        mirrored(stored).into_iter().for_each(|note| host.note(note));
                    }
                }
                Err(error) if error.downcast_ref::<Refused>().is_some() => {
                    let reason = format!("the session cannot be stored: {error}");
                    eprintln!("stockade: {reason}");
                    return self.hinders.set_hindrance(Some(reason));
                }
                Err(error) => {
                    eprintln!("stockade: the session is not kept: {error}");
                    self.keeper = None;
                }
            }
        }
        self.hinders.set_hindrance(None);
    }
}

/// Returns what the host is told of lines that were stored.
fn mirrored(stored: &Value) -> Vec<Note> {
    let path = field(stored, "filePath");
    let (mut all, mut entries, mut bytes) = (Vec::new(), Vec::new(), 0);
    for entry in stored.get("entries").and_then(Value::as_array).into_iter().flatten() {
        let (mut entry, mut length) = (entry.clone(), entry.to_string().len());
        if length > LONG_LINE
            && let Some(fields) = entry.as_object_mut()
        {
            fields.remove("toolUseResult");
            length = entry.to_string().len();
        }
        if bytes + length > FRAME && !entries.is_empty() {
            all.push(Note::Mirror { path: path.to_owned(), entries: std::mem::take(&mut entries) });
            bytes = 0;
        }
        bytes += length;
        entries.push(entry);
    }
    if !entries.is_empty() {
        all.push(Note::Mirror { path: path.to_owned(), entries });
    }
    all
}

/// Returns the time in the form of RFC 3339, in UTC.
fn now() -> String {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{}T{hours:02}:{minutes:02}:{:02}.{:03}Z",
        crate::prompt::today(),
        seconds % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_waits_in_order_and_hinders_meanwhile() {
        use std::io::{BufRead as _, Write as _};
        // An address has room for 107 bytes (unix(7)), and TMPDIR may be longer.
        let folder = std::path::PathBuf::from(format!("/tmp/stockade-full-{}", std::process::id()));
        // An earlier run that was killed may have had this number.
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let full = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut answers = stream.try_clone().unwrap();
            let mut kept = Vec::new();
            for (number, line) in std::io::BufReader::new(stream).lines().enumerate() {
                let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
                match number {
                    0 => {
                        writeln!(answers, "`x` cannot be written: No space left on device").unwrap()
                    }
                    _ => {
                        kept.push(line["message"]["content"].clone());
                        writeln!(answers).unwrap();
                    }
                }
            }
            kept
        });
        let session = Arc::new(Session::new(stockade_door::Setup::default()));
        let keeper = Keeper::connect(&socket).unwrap();
        let mut transcript = Transcript::new(Path::new("/"), &session, Some(keeper));
        transcript.add(Role::User, &[Block::Text("one".into())], None);
        assert!(session.hindrance().is_some_and(|it| it.contains("No space left")));
        transcript.add(Role::User, &[Block::Text("two".into())], None);
        assert_eq!(session.hindrance(), None);
        drop(transcript);
        assert_eq!(full.join().unwrap(), [json!("one"), json!("two")]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn stored_lines_are_told_in_order_in_frames_that_a_package_reads() {
        let line = |number: usize, length: usize| json!({ "uuid": number.to_string(), "message": "m".repeat(length), "toolUseResult": "r".repeat(length) });
        let lengths = [10, 100_000, 20_000, 100_000, 500_000, 10];
        let entries: Vec<Value> =
            lengths.iter().enumerate().map(|(at, it)| line(at, *it)).collect();
        let stored = json!({ "filePath": "/f", "entries": entries });
        let mut told = Vec::new();
        for note in mirrored(&stored) {
            let Note::Mirror { path, entries } = note else { panic!("another note") };
            assert_eq!(path, "/f");
            assert!(json!(entries).to_string().len() < 1 << 20);
            told.push(entries.iter().map(|it| field(it, "uuid").to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(told, [vec!["0", "1", "2"], vec!["3"], vec!["4"], vec!["5"]]);
    }

    #[test]
    fn a_session_is_read_along_its_parents_and_each_call_has_a_result() {
        let line = |kind: &str, uuid: &str, parent: Value, content: Value| json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "message": { "role": kind, "content": content } });
        let call = json!([{ "type": "tool_use", "id": "t", "name": "Read", "input": {} }]);
        let lines = [
            line("user", "1", Value::Null, json!("go")),
            line("assistant", "2", json!("1"), json!([{ "type": "text", "text": "left behind" }])),
            json!({ "type": "summary" }),
            line("assistant", "3", json!("1"), call),
        ];
        let found = kept(&lines, None).expect("a session").messages;
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], Message::user("go"));
        let Block::Outcome(outcome) = &found[2].blocks[0] else { panic!("no result") };
        assert!(outcome.is_error && outcome.id == "t");
        assert_eq!(kept(&lines, Some("1")).expect("a part").messages, [Message::user("go")]);
        assert!(kept(&lines, Some("9")).is_err());
    }

    #[test]
    fn a_branch_is_followed_to_its_root_and_names_that_come_twice_mean_the_older_line() {
        let line = |kind: &str, uuid: &str, parent: &str, text: &str| json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "message": { "role": kind, "content": text } });
        let lines = [
            line("user", "1", "", "root"),
            line("assistant", "2", "1", "left"),
            line("user", "3", "2", "left goes on"),
            line("assistant", "4", "1", "right"),
            line("assistant", "2", "4", "a name again"),
            line("user", "5", "4", "right goes on"),
            line("user", "", "", "without a name"),
            line("user", "6", "2", "newest"),
        ];
        let texts = |lines: &[Value], until: Option<&str>| -> Vec<String> {
            let text = |it: &Block| match it {
                Block::Text(text) => text.clone(),
                other => panic!("{other:?}"),
            };
            let found = kept(lines, until).expect("a session").messages;
            found.iter().flat_map(|it| it.blocks.iter().map(text)).collect()
        };
        assert_eq!(texts(&lines, None), ["root", "left", "newest"]);
        assert_eq!(texts(&lines, Some("3")), ["root", "left", "left goes on"]);
        assert_eq!(texts(&lines, Some("5")), ["root", "right", "right goes on"]);
        assert_eq!(kept(&lines, Some("5")).expect("a branch").last.as_deref(), Some("5"));
        // A message whose parent is gone begins the session.
        assert_eq!(texts(&[line("user", "7", "gone", "alone")], None), ["alone"]);
        // A loop ends.
        let around = [line("user", "8", "9", "a"), line("user", "9", "8", "b")];
        assert_eq!(texts(&around, None), ["b", "a", "b"]);
    }
}
