//! The rows of one session, derived from its log.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use stockade_session::{Event, Found, Kind, Store, each};

use crate::error::Error;
use crate::refs;

/// Most characters that are kept of one text.
const LONGEST: usize = 100_000;
/// Most bytes of the texts of one session; behind that the first characters of each count.
const MOST_TEXT: usize = 64 << 20;
const SHORT: usize = 200;
/// Largest file of a session that is indexed, in bytes, and most of them.
const LARGEST: u64 = 1 << 20;
const MOST_FILES: usize = 1_000;
/// Deepest folder below `files/` that is looked into.
const DEEPEST: usize = 8;
/// The folder of a session with files of its own.
const FILES: &str = "files";
/// Members of a tool's input that name a file.
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];
/// Beginnings of blocks that are no words of the user.
const ASIDES: [&str; 2] = ["<reminder>", "<hook>"];
/// Sections of a summary, each with the column that holds it; text outside of them is history.
const SECTIONS: [(&str, usize); 5] =
    [("goal", 0), ("state", 2), ("errors", 3), ("files", 4), ("next steps", 5)];

/// One turn: words of the user and the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Words of the user.
    pub user: String,
    /// Texts of the model.
    pub assistant: String,
    /// When the user said it.
    pub at: String,
}

/// One compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// First line.
    pub title: String,
    /// Overview, history, work done, technical details, important files, next steps.
    pub sections: [String; 6],
}

/// A text that is found by its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Kind of its source: `user`, `assistant`, `checkpoint`, `name` or `file`.
    pub source_type: &'static str,
    /// Number or path of its source.
    pub source_id: String,
    /// The text.
    pub content: String,
}

/// The rows of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Identity.
    pub id: String,
    /// Directory.
    pub cwd: String,
    /// Address of the repository.
    pub repository: Option<String>,
    /// Branch.
    pub branch: Option<String>,
    /// Name, or the first words.
    pub summary: String,
    /// Time of the first event.
    pub created_at: String,
    /// Time of the last message.
    pub updated_at: String,
    /// Turns in order; those that were left behind by a rewind stay.
    pub turns: Vec<Turn>,
    /// Compactions in order.
    pub checkpoints: Vec<Checkpoint>,
    /// Path, tool, turn and time of each file that a tool named first.
    pub files: Vec<(String, String, usize, String)>,
    /// Kind, value, turn and time of each commit, pull request and issue.
    pub refs: Vec<(&'static str, String, usize, String)>,
    /// Texts that are found by their words.
    pub texts: Vec<Text>,
}

/// Rows that are being made of events, one after the other: a long log is never in memory as a whole.
#[derive(Debug, Default)]
struct Making {
    rows: Rows,
    name: Option<String>,
    seen: Seen,
}

impl Making {
    fn of(id: &str) -> Making {
        Making { rows: Rows { id: id.to_owned(), ..Rows::default() }, ..Making::default() }
    }

    fn take(&mut self, event: &Event) {
        let rows = &mut self.rows;
        if rows.created_at.is_empty() {
            rows.created_at.clone_from(&event.at);
        }
        let text = |key: &str| event.data.get(key).and_then(Value::as_str);
        match &event.kind {
            Kind::Start => rows.cwd = text("cwd").unwrap_or_default().to_owned(),
            Kind::HandOff => {
                let to = text("to").map(str::to_owned);
                rows.cwd = to.unwrap_or(std::mem::take(&mut rows.cwd));
            }
            Kind::Name => {
                self.name = text("name").filter(|it| !it.is_empty()).map(str::to_owned);
            }
            Kind::User | Kind::Assistant | Kind::Compaction => rows.message(event, &mut self.seen),
            Kind::Mode
            | Kind::Model
            | Kind::Todos
            | Kind::Usage
            | Kind::Fork
            | Kind::TakenOut
            | Kind::Changed
            | Kind::Rewind
            | Kind::Other(_) => {}
        }
    }

    fn done(self) -> Rows {
        let Making { mut rows, name, .. } = self;
        let first = rows.turns.first().map(|turn| first_words(&turn.user));
        rows.summary = name.clone().or(first).unwrap_or_default();
        rows.texts = rows.searched(name);
        rows
    }
}

impl Rows {
    /// Derives the rows of a session from its folder.
    ///
    /// # Errors
    ///
    /// Its log cannot be read.
    pub fn of(found: &Found) -> Result<Rows, Error> {
        let mut making = Making::of(&found.id);
        each(&Store::log(&found.folder), |event| making.take(&event))?;
        let mut rows = making.done();
        let workspace = &found.workspace;
        rows.repository.clone_from(&workspace.repository);
        rows.branch.clone_from(&workspace.branch);
        rows.texts.extend(own_files(&found.folder.join(FILES)));
        Ok(rows)
    }

    /// Derives the rows from events alone. Pure.
    #[must_use]
    pub fn of_events(id: &str, events: &[Event]) -> Rows {
        let mut making = Making::of(id);
        events.iter().for_each(|event| making.take(event));
        making.done()
    }

    fn message(&mut self, event: &Event, seen: &mut Seen) {
        use Kind::*;
        self.updated_at.clone_from(&event.at);
        let content = event.data.get("content").cloned().unwrap_or_default();
        let texts = texts(&content);
        match event.kind {
            Kind::Compaction => self.checkpoints.push(checkpoint(&texts)),
            Kind::User if !texts.is_empty() => {
                self.turns.push(Turn {
                    user: seen.cut(&texts),
                    at: event.at.clone(),
                    ..Turn::default()
                });
            }
            Kind::Assistant => {
                if self.turns.is_empty() {
                    self.turns.push(Turn { at: event.at.clone(), ..Turn::default() });
                }
                // One that is long enough takes no more: a turn may have very many answers.
                let takes = |turn: &&mut Turn| !texts.is_empty() && turn.assistant.len() < LONGEST;
                if let Some(turn) = self.turns.last_mut().filter(takes) {
                    if !turn.assistant.is_empty() {
                        turn.assistant.push('\n');
                    }
                    turn.assistant.push_str(&seen.cut(&texts));
                    turn.assistant = cut(&turn.assistant);
                }
            }
            User | Start | Mode | Model | Todos | Usage | Name | Fork | TakenOut | Changed
            | Rewind | HandOff | Other(_) => {}
        }
        let turn = self.turns.len().saturating_sub(1);
        if event.kind != Kind::Compaction {
            for (kind, value) in refs::of(&texts).into_iter().chain(refs::of(&results(&content))) {
                if seen.refs.insert((kind, value.clone())) {
                    self.refs.push((kind, value, turn, event.at.clone()));
                }
            }
        }
        for (path, tool) in files(&content) {
            if seen.files.insert((path.clone(), tool.clone())) {
                self.files.push((path, tool, turn, event.at.clone()));
            }
        }
    }

    /// Returns the texts of turns, compactions and the name.
    fn searched(&self, name: Option<String>) -> Vec<Text> {
        let text = |source_type, source_id: usize, content: &str| Text {
            source_type,
            source_id: source_id.to_string(),
            content: content.to_owned(),
        };
        let mut found: Vec<Text> = name.iter().map(|name| text("name", 0, name)).collect();
        for (at, turn) in self.turns.iter().enumerate() {
            found.push(text("user", at, &turn.user));
            found.push(text("assistant", at, &turn.assistant));
        }
        for (at, checkpoint) in self.checkpoints.iter().enumerate() {
            found.push(text("checkpoint", at, &cut(&checkpoint.sections.join("\n"))));
        }
        found.retain(|text| !text.content.trim().is_empty());
        found
    }
}

/// Files and references that were named already.
#[derive(Debug, Default)]
struct Seen {
    files: BTreeSet<(String, String)>,
    refs: BTreeSet<(&'static str, String)>,
    /// Bytes of texts.
    bytes: usize,
}

impl Seen {
    /// Returns what is kept of a text.
    fn cut(&mut self, text: &str) -> String {
        let most = if self.bytes < MOST_TEXT { LONGEST } else { SHORT };
        let kept: String = text.chars().take(most).collect();
        self.bytes += kept.len();
        kept
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Returns the first words of a text, in one line.
fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|it| !it.is_control()).take(80).collect()
}

/// Returns the texts of a message, without results of calls and without asides of the agent.
fn texts(content: &Value) -> String {
    if let Value::String(text) = content {
        return text.clone();
    }
    let blocks = content.as_array().into_iter().flatten();
    let plain = blocks.filter(|block| block.get("tool_use_id").is_none());
    let texts = plain.filter_map(|block| block.get("text")?.as_str());
    let words = texts.filter(|text| !ASIDES.iter().any(|aside| text.starts_with(aside)));
    words.collect::<Vec<_>>().join("\n")
}

/// Returns the texts of results of calls.
fn results(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let mut found = Vec::new();
    for block in blocks.filter(|block| block.get("tool_use_id").is_some()) {
        match block.get("content") {
            Some(Value::String(text)) => found.push(text.clone()),
            Some(inner) => found.push(texts(inner)),
            None => {}
        }
    }
    found.join("\n")
}

/// Returns path and tool of each call that names a file.
fn files(content: &Value) -> Vec<(String, String)> {
    let blocks = content.as_array().into_iter().flatten();
    let of_block = |block: &Value| {
        let (name, input) = (block.get("name")?.as_str()?, block.get("input")?);
        let path = PATHS.iter().find_map(|key| input.get(*key)?.as_str())?;
        Some((cut(path), name.to_owned()))
    };
    let calls =
        blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_use"));
    calls.filter_map(of_block).collect()
}

/// Splits a summary into its sections, by its headings.
fn checkpoint(text: &str) -> Checkpoint {
    let mut found = Checkpoint { title: first_words(text), ..Checkpoint::default() };
    let mut into = 1;
    for line in text.lines() {
        let heading = line.trim().trim_start_matches('#').trim().trim_matches('*');
        let heading = heading.trim().trim_end_matches(':').to_lowercase();
        let is_heading = line.trim_start().starts_with(['#', '*']) || line.trim().ends_with(':');
        match SECTIONS.iter().find(|(name, _)| is_heading && heading == *name) {
            Some((_, column)) => into = *column,
            // Another section: decisions, rules of the user, or one that is not known.
            None if line.trim_start().starts_with('#') => into = 1,
            None => {}
        }
        if let Some(section) = found.sections.get_mut(into) {
            section.push_str(line);
            section.push('\n');
        }
    }
    found.sections.iter_mut().for_each(|section| *section = cut(section.trim()));
    found
}

/// Returns the texts of the session's own files, in the order of their names. Links are not followed.
fn own_files(root: &Path) -> Vec<Text> {
    let mut found = Vec::new();
    collect(root, "", 0, &mut found);
    found
}

fn collect(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<Text>) {
    // A folder that is a link holds files of somebody else.
    if depth > DEEPEST || !folder.symlink_metadata().is_ok_and(|it| it.is_dir()) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        let (path, shown) = (folder.join(&name), format!("{prefix}{name}"));
        let Ok(about) = path.symlink_metadata() else { continue };
        if about.is_dir() {
            collect(&path, &format!("{shown}/"), depth + 1, found);
        } else if about.is_file() && about.len() <= LARGEST && found.len() < MOST_FILES {
            let text = fs::read_to_string(&path).ok().filter(|text| !text.trim().is_empty());
            found.extend(text.map(|text| Text {
                source_type: "file",
                source_id: shown,
                content: cut(&text),
            }));
        }
    }
}
