//! The keeper's side of a session: the event log, which is the truth, and beside it the file that readers of the SDK
//! packages know, which is a projection.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use stockade_sdk::LEVEL;
use stockade_session::{
    Error, Here, Kind, Known, Lock, Log, OF_COMMANDS, State, Step, Store, Workspace, new_changes,
    steps,
};

use super::around::Around;
use super::before::{Before, here, lines, store};
use super::indexed::Indexer;
use super::projection::{Folder, Projection};
use crate::flags::Flags;

/// Member of a line that is an event and no message.
pub(crate) const EVENT: &str = "stockade_event";
/// Member of an answer: lines that were stored, for a host that keeps a copy.
pub(crate) const MIRROR: &str = "stockade_mirror";
/// Member of the line of a summary: the files that were in use.
pub(crate) const FILES: &str = "stockade_files";
/// Member of a line that is a question.
pub(crate) const ASK: &str = "stockade_ask";

/// The log of a session that is open, and the state after its last event.
#[derive(Debug)]
struct Open {
    _lock: Lock,
    log: Log,
    state: State,
}

impl Open {
    fn append(&mut self, kind: Kind, data: Value) -> Result<(), Error> {
        let event = self.log.append(kind, data)?;
        self.state.apply(&event);
        Ok(())
    }
}

/// A session that is written.
#[derive(Debug)]
pub(crate) struct Record {
    store: Store,
    id: String,
    workspace: Workspace,
    projection: Projection,
    /// Lines of the projection that a host with a copy has to be told; none without such a host.
    untold: Option<Vec<Value>>,
    /// The first events of the log, besides its start.
    first: Vec<(Kind, Value)>,
    open: Option<Open>,
    /// Part of the log that was read before.
    known: Known,
    /// The session of which this one is a copy, and its last message that counts.
    from: Option<(String, Option<String>)>,
    /// Bytes of the list of changed files that the log tells of.
    seen: u64,
    /// Where contents are kept around commands.
    around: Option<Around>,
    index: Indexer,
}

impl Record {
    /// Prepares the record of a session. One that goes on is opened at once; a new one with its first message.
    pub(crate) fn begin(
        (flags, cwd, id): (&Flags, &Path, &str),
        resumed: Option<(&str, &Before)>,
        (is_new, known): (bool, Known),
    ) -> anyhow::Result<Record> {
        Record::begin_in(store()?, (flags, cwd, id), resumed, (is_new, known))
    }

    fn begin_in(
        store: Store,
        (flags, cwd, id): (&Flags, &Path, &str),
        resumed: Option<(&str, &Before)>,
        (is_new, known): (bool, Known),
    ) -> anyhow::Result<Record> {
        if is_new && store.has(id) {
            return Err(Error::There(id.to_owned()).into());
        }
        let Here { cwd: directory, git_root, repository, branch } = here(cwd);
        let workspace = Workspace {
            id: id.to_owned(),
            cwd: directory,
            git_root,
            repository,
            branch,
            ..Workspace::default()
        };
        let (mut first, mut copied) = (Vec::new(), None);
        match resumed {
            Some((from, before)) if is_new && before.is_import => {
                first.push((Kind::Fork, json!({ "from": from })));
            }
            Some((from, _)) if is_new => {
                copied = Some((from.to_owned(), flags.resume_session_at.clone()));
            }
            Some((_, before)) if before.is_import => {
                first.extend(before.lines.iter().filter_map(message));
            }
            Some(_) | None => {}
        }
        if let Some(name) = &flags.name {
            first.push((Kind::Name, json!({ "name": name })));
        }
        let place = Folder::of(cwd).filter(|_| flags.session_mirror || is_projected());
        let projection = Projection::new(place.map(|folder| (folder, id.to_owned())));
        let mut record = Record {
            store,
            id: id.to_owned(),
            workspace,
            projection,
            untold: flags.session_mirror.then(Vec::new),
            first,
            open: None,
            known: Known::default(),
            from: copied,
            seen: 0,
            around: None,
            index: Indexer::default(),
        };
        if let Some((_, before)) = resumed.filter(|_| !is_new) {
            record.known = known;
            let rewinds = flags.resume_session_at.as_ref().filter(|_| !before.is_import);
            let log = record.log()?;
            if let Some(uuid) = rewinds {
                log.append(Kind::Rewind, json!({ "uuid": uuid }))?;
            }
        }
        Ok(record)
    }

    /// Opens the log, and begins it if it is empty.
    fn log(&mut self) -> anyhow::Result<&mut Open> {
        if self.open.is_none() {
            let known = std::mem::take(&mut self.known);
            let (lock, log, state) = self.store.open_known(&self.id, known)?;
            self.seen = state.seen;
            let is_empty = state.events == 0;
            let mut open = Open { _lock: lock, log, state };
            if is_empty {
                self.fill(&mut open)?;
            } else if self.projection.is_missing() {
                self.project_all(&open.state);
            }
            self.open = Some(open);
            self.note()?;
        }
        self.open.as_mut().context("the session is not open")
    }

    /// Begins an empty log: with the events of the session of which it is a copy, and with what is to stand first.
    fn fill(&mut self, open: &mut Open) -> anyhow::Result<()> {
        let start = json!({ "session": self.id, "cwd": self.workspace.cwd });
        open.append(Kind::Start, start)?;
        if let Some((from, until)) = self.from.take() {
            let from = self.store.find(&from)?;
            let state = self.store.fork((&from, until.as_deref()), (&self.id, &mut open.log))?;
            self.seen = state.seen;
            self.project_all(&state);
            open.state = self.store.state(&self.store.find(&self.id)?)?.0;
        }
        for (kind, data) in std::mem::take(&mut self.first) {
            open.append(kind, data)?;
        }
        Ok(())
    }

    /// Returns the state after the last event.
    fn state(&self) -> anyhow::Result<&State> {
        Ok(&self.open.as_ref().context("the session is not open")?.state)
    }

    /// Writes `workspace.yaml`: the name is that of a person, or the first words.
    fn note(&mut self) -> anyhow::Result<()> {
        let folder = self.store.folder(&self.id).context("the session has no folder")?;
        let state = self.state()?;
        let words = Some(state.first_words()).filter(|it| !it.is_empty());
        let (name, created) = (state.name.clone(), state.times.as_ref().map(|it| it.0.clone()));
        self.workspace.user_named = name.is_some();
        self.workspace.name = name.or(words);
        self.workspace.created_at = created.unwrap_or_default();
        self.workspace.write(&folder)?;
        self.index.put(&self.store, &self.id);
        Ok(())
    }

    /// Returns what keeps the index up to date.
    pub(crate) fn index(&self) -> Indexer {
        self.index.clone()
    }

    /// Keeps contents around commands from now on.
    pub(crate) fn cover_commands(&mut self) {
        let root = self.workspace.git_root.as_ref().unwrap_or(&self.workspace.cwd);
        self.around = Some(Around::new(PathBuf::from(root)));
    }

    /// Looks at the project before commands run and after they ran. The agent waits for it: it runs nothing that is not stored.
    fn look_around(&mut self, line: &Value) {
        let Some(mut around) = self.around.take() else { return };
        let Some(folder) = self.store.folder(&self.id) else { return };
        let changes = match around.look(line, (&folder, self.store.root())) {
            Ok(changes) => changes,
            Err(reason) => {
                eprintln!(
                    "stockade: changes of commands cannot be taken back in this session: {reason}"
                );
                return;
            }
        };
        self.around = Some(around);
        if let Err(error) = list(&folder, &changes) {
            eprintln!("stockade: changes of a command cannot be taken back: {error}");
        }
        for data in changes {
            if let Err(error) = self.log().and_then(|log| Ok(log.append(Kind::Changed, data)?)) {
                eprintln!("stockade: a change of a command cannot be taken back: {error:#}");
            }
        }
    }

    /// Records what file tools changed since the last time. The list is the file worker's, so that no agent can say otherwise.
    fn changes(&mut self) -> anyhow::Result<()> {
        let folder = self.store.folder(&self.id).context("the session has no folder")?;
        for data in new_changes(&folder, self.seen) {
            self.seen = data.get("seen").and_then(Value::as_u64).unwrap_or(self.seen);
            self.around.iter_mut().for_each(|around| around.note(&data));
            self.log()?.append(Kind::Changed, data)?;
        }
        Ok(())
    }

    /// Answers a question of the agent about its own session.
    fn answer(&mut self, asked: &Value) -> anyhow::Result<Value> {
        let state = self.state()?;
        let text = |key: &str| asked.get(key).and_then(Value::as_str);
        if let Some(uuid) = text("steps") {
            let steps: Vec<Value> = steps(state, uuid)?.iter().map(Step::object).collect();
            let is_there = state.messages.iter().any(|said| said.uuid == uuid);
            return Ok(json!({ "steps": steps, "is_there": is_there }));
        }
        let marks = state.marks.iter().map(|mark| {
            let changed = state.changes.len().saturating_sub(mark.changes);
            json!({ "uuid": mark.uuid, "words": mark.words, "changes": changed })
        });
        Ok(json!({ "marks": marks.collect::<Vec<_>>(), "lines": lines(state) }))
    }

    /// Takes a line of the agent: a message, an event of another kind, or a question, which has an answer.
    pub(crate) fn take(&mut self, line: &[u8]) -> anyhow::Result<Option<Value>> {
        let value: Value = serde_json::from_slice(line)?;
        if self.open.is_some() {
            self.changes()?;
        }
        if let Some(asked) = value.get(ASK) {
            return self.answer(asked).map(Some);
        }
        if let Some(event) = value.get(EVENT) {
            let kind: Kind =
                serde_json::from_value(event.get("type").cloned().unwrap_or_default())?;
            if !is_of_agent(&kind) {
                bail!("an agent has no such event");
            }
            let ends = kind == Kind::Usage;
            // A session without a message is none.
            if self.open.is_some() {
                let data = event.get("data").cloned().unwrap_or_default();
                self.log()?.append(kind, data)?;
            }
            if ends && self.open.is_some() {
                self.settle();
            }
            return Ok(None);
        }
        let (kind, data) = message(&value).context("the line is not a message")?;
        self.log()?.append(kind, data)?;
        self.projection.add(line);
        self.look_around(&value);
        let Some(untold) = &mut self.untold else { return Ok(None) };
        untold.push(value);
        let (path, entries) = (self.projection.path(), std::mem::take(untold));
        Ok(Some(json!({ MIRROR: { "filePath": path, "entries": entries } })))
    }

    /// Ends a turn. Its events are in the log already, so a failure is told: the agent would send them again for an error.
    fn settle(&mut self) {
        let synced = self.log().and_then(|open| Ok(open.log.sync()?));
        if let Err(error) = synced.and_then(|()| self.note()) {
            eprintln!("stockade: the turn is in the session's log, but {error:#}");
        }
    }

    /// Writes what a copy, or a session that went on without them, begins with for the packages' readers.
    fn project_all(&mut self, state: &State) {
        let mut all = Vec::new();
        for mut line in lines(state) {
            let more = json!({
                "isSidechain": false, "userType": "external", "cwd": self.workspace.cwd, "sessionId": self.id,
                "version": LEVEL, "gitBranch": "", "timestamp": stockade_session::now(),
            });
            if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
                line.extend(more.clone());
            }
            all.extend_from_slice(format!("{line}\n").as_bytes());
            self.untold.iter_mut().for_each(|untold| untold.push(line.clone()));
        }
        self.projection.add(&all);
    }
}

/// Says whether the packages' own readers are to find the session: where an SDK started it.
fn is_projected() -> bool {
    ["CLAUDE_CONFIG_DIR", "CLAUDE_CODE_ENTRYPOINT"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Lists changes of commands beside those of file tools: the file worker restores nothing that is in neither list.
fn list(folder: &Path, changes: &[Value]) -> std::io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.create(true).append(true).mode(0o600).open(folder.join(OF_COMMANDS))?;
    let lines: String = changes.iter().map(|data| format!("{data}\n")).collect();
    file.write_all(lines.as_bytes())
}

/// Says whether an agent may record such an event. What files held, where a session comes from and its name are not its word.
fn is_of_agent(kind: &Kind) -> bool {
    match kind {
        Kind::Mode | Kind::Model | Kind::Todos | Kind::Usage | Kind::TakenOut | Kind::Rewind => {
            true
        }
        Kind::Start
        | Kind::User
        | Kind::Assistant
        | Kind::Name
        | Kind::Fork
        | Kind::Compaction
        | Kind::Changed
        | Kind::HandOff
        | Kind::Other(_) => false,
    }
}

/// Returns the event of a line of the projection, if it is a message of the conversation.
fn message(line: &Value) -> Option<(Kind, Value)> {
    let kind = match line.get("type")?.as_str()? {
        "user" => Kind::User,
        "assistant" => Kind::Assistant,
        _ => return None,
    };
    if line.get("isSidechain") == Some(&json!(true)) {
        return None;
    }
    let content = line.get("message")?.get("content")?;
    let kind = match line.get("isCompactSummary") == Some(&json!(true)) {
        true => Kind::Compaction,
        false => kind,
    };
    let mut data = json!({ "uuid": line.get("uuid")?, "content": content });
    if let (Some(files), Some(data)) = (line.get(FILES), data.as_object_mut()) {
        data.insert("files".into(), files.clone());
    }
    Some((kind, data))
}

#[cfg(test)]
mod tests {
    use super::super::before::before_in;
    use super::*;

    #[test]
    fn messages_alone_are_events() {
        let line = json!({ "type": "user", "uuid": "1", "message": { "content": "hi" } });
        let data = json!({ "uuid": "1", "content": "hi" });
        assert_eq!(message(&line), Some((Kind::User, data)));
        for line in [
            json!({ "type": "summary" }),
            json!({ "type": "user", "uuid": "1" }),
            json!({ "type": "user", "uuid": "1", "isSidechain": true, "message": { "content": "" } }),
        ] {
            assert_eq!(message(&line), None);
        }
    }

    #[test]
    fn a_message_is_in_the_log_once_where_its_projection_cannot_be_written() {
        let folder = std::env::temp_dir().join(format!("stockade-record-{}", std::process::id()));
        let store = Store::new(folder.join("sessions"));
        std::fs::create_dir_all(folder.join("sessions")).unwrap();
        let id = stockade_sdk::identity();
        let place = Folder::at(&folder);
        let link = place.path(&id).unwrap();
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(folder.join("target"), link).unwrap();
        let mut record = Record {
            store: store.clone(),
            workspace: Workspace { id: id.clone(), cwd: "/".into(), ..Workspace::default() },
            id: id.clone(),
            projection: Projection::new(Some((place, id.clone()))),
            untold: None,
            first: Vec::new(),
            open: None,
            known: Known::default(),
            from: None,
            seen: 0,
            around: None,
            index: Indexer::default(),
        };
        for uuid in ["1", "2"] {
            let line = json!({ "type": "user", "uuid": uuid, "message": { "content": format!("hi {uuid}") } });
            assert_eq!(record.take(format!("{line}\n").as_bytes()).unwrap(), None);
        }
        record.index.finish();
        drop(record);
        let (state, _) = store.state(&store.find(&id).unwrap()).unwrap();
        let said: Vec<_> = state.messages.iter().map(|it| it.uuid.as_str()).collect();
        assert_eq!(said, ["1", "2"]);
        assert!(!folder.join("target").exists(), "a link was followed");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_agent_has_no_say_about_changes_names_and_origins() {
        let folder = std::env::temp_dir().join(format!("stockade-forged-{}", std::process::id()));
        let store = Store::new(folder.clone());
        std::fs::create_dir_all(&folder).unwrap();
        let id = stockade_sdk::identity();
        let mut record = Record {
            store: store.clone(),
            workspace: Workspace { id: id.clone(), cwd: "/".into(), ..Workspace::default() },
            id: id.clone(),
            projection: Projection::new(None),
            untold: None,
            first: Vec::new(),
            open: None,
            known: Known::default(),
            from: None,
            seen: 0,
            around: None,
            index: Indexer::default(),
        };
        let line = json!({ "type": "user", "uuid": "1", "message": { "content": "hi" } });
        record.take(line.to_string().as_bytes()).unwrap();
        let mut event = |kind: &str| {
            let data = json!({ "path": "/etc/x", "name": "n", "from": "f", "uuid": "2", "content": "c", "mode": "plan" });
            record.take(json!({ EVENT: { "type": kind, "data": data } }).to_string().as_bytes())
        };
        for kind in [
            "file.changed",
            "session.name",
            "fork",
            "session.handoff",
            "session.start",
            "user.message",
            "assistant.message",
            "compaction.complete",
            "permission.answered",
        ] {
            let error = event(kind).unwrap_err().to_string();
            assert_eq!(error, "an agent has no such event", "{kind}");
        }
        assert!(event("mode.changed").is_ok());
        let (state, _) = store.state(&store.find(&id).unwrap()).unwrap();
        assert_eq!((state.changes.len(), state.name, state.messages.len()), (0, None, 1));
        assert_eq!((state.forked_from, state.mode.as_deref()), (None, Some("plan")));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn usage_is_in_the_log_once_where_the_turn_cannot_be_noted() {
        let folder = std::env::temp_dir().join(format!("stockade-settle-{}", std::process::id()));
        let store = Store::new(folder.clone());
        std::fs::create_dir_all(&folder).unwrap();
        let id = stockade_sdk::identity();
        let mut record = Record {
            store: store.clone(),
            workspace: Workspace { id: id.clone(), cwd: "/".into(), ..Workspace::default() },
            id: id.clone(),
            projection: Projection::new(None),
            untold: None,
            first: Vec::new(),
            open: None,
            known: Known::default(),
            from: None,
            seen: 0,
            around: None,
            index: Indexer::default(),
        };
        let line = json!({ "type": "user", "uuid": "1", "message": { "content": "hi" } });
        record.take(line.to_string().as_bytes()).unwrap();
        let found = store.find(&id).unwrap();
        let noted = found.folder.join("workspace.yaml");
        std::fs::remove_file(&noted).unwrap();
        std::fs::create_dir_all(noted.join("in the way")).unwrap();
        let line = json!({ EVENT: { "type": "usage", "data": { "dollars": 1.0 } } });
        assert_eq!(record.take(line.to_string().as_bytes()).unwrap(), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Bytes that this thread has read so far (proc_pid_io(5)); none where the system does not count them.
    fn bytes_read() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
    }

    /// Has a session of so many events go on. Returns the length of its log, the bytes that were read until it was open, and
    /// those that a turn read behind that.
    fn goes_on(events: usize) -> Option<(u64, u64, u64)> {
        let name = format!("stockade-once-{}-{events}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let store = Store::new(folder.join("stockade/agent/sessions"));
        let id = stockade_sdk::identity();
        let (lock, mut log, _) = store.open(&id).unwrap();
        let start = (Kind::Start, json!({ "session": id, "cwd": folder }));
        let said = (1..events).map(|it| {
            let kind = if it % 2 == 0 { Kind::Assistant } else { Kind::User };
            (kind, json!({ "uuid": it.to_string(), "content": format!("words {it}") }))
        });
        log.append_all(std::iter::once(start).chain(said).collect()).unwrap();
        drop((lock, log));
        let length = Store::log(&store.folder(&id).unwrap()).metadata().unwrap().len();
        let flags = Flags { resume: Some(id.clone()), ..Flags::default() };
        let begun = bytes_read()?;
        let (found, mut before) = before_in(&store, &flags, &folder).unwrap().unwrap();
        let known = std::mem::take(&mut before.known);
        let resumed = Some((found.as_str(), &before));
        let here = (&flags, folder.as_path(), id.as_str());
        let mut record = Record::begin_in(store, here, resumed, (false, known)).unwrap();
        let open = bytes_read()?;
        assert_eq!(record.state().unwrap().messages.len(), events - 1);
        for line in [
            json!({ "type": "user", "uuid": "last", "message": { "content": "hi" } }),
            json!({ EVENT: { "type": "usage", "data": { "dollars": 1.0 } } }),
            json!({ ASK: {} }),
        ] {
            record.take(line.to_string().as_bytes()).unwrap();
        }
        let turned = bytes_read()?;
        assert_eq!(record.state().unwrap().messages.len(), events);
        record.index.finish();
        record.index.finish();
        drop(record);
        std::fs::remove_dir_all(folder).unwrap();
        Some((length, open - begun, turned - open))
    }

    #[test]
    fn a_long_session_is_read_once_and_a_turn_reads_nothing_of_it() {
        for events in [1_000, 10_000] {
            let Some((length, opened, turned)) = goes_on(events) else {
                println!("skipped: the system does not count what a thread reads");
                return;
            };
            // Beside the log stand small files: lock, `workspace.yaml`, configuration of a repository.
            assert!(
                (length..length + (64 << 10)).contains(&opened),
                "{events}: {opened} of {length}"
            );
            assert!(turned < 64 << 10, "{events}: {turned}");
        }
    }
}
