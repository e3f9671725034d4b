//! One file that waits for a look, as people and programs read it.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use stockade_spec::Entry as Written;

use crate::audit;
use crate::protocol::words;
use crate::review::journal::Told;
use crate::review::ledger::{Entry, Ledger};
use crate::review::{Found, Held, Writer, diff, table};
use stockade_base::place::Place;

/// Lines of a difference that are shown unless all are asked for.
const SOME_LINES: usize = 40;

/// One file.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) path: PathBuf,
    why: &'static str,
    before: Held,
    /// None where it was not kept.
    content_before: Option<Vec<u8>>,
    pub(super) now: Found,
    writers: Vec<Writer>,
    more_writers: u64,
    /// A command that changed it goes on.
    pub(super) goes_on: bool,
}

impl Shown {
    /// Returns `entry` if it waits for a look: if it is not what it was.
    pub(super) fn of(
        entry: &Entry,
        ledger: &Ledger,
        state: &Path,
        place: &Place,
        journals: &[Told],
    ) -> Option<Shown> {
        let (path, now) = (entry.path().to_path_buf(), Found::at(entry.path()));
        if now.held.is_same(&entry.before) {
            return None;
        }
        let roots = [&place.project].into_iter().chain(&place.additional);
        let mut inside = roots.filter_map(|root| path.strip_prefix(root).ok());
        let row = table::row(inside.next().unwrap_or(&path));
        let why = row.map_or("a file with such a name leads to it", |row| row.why);
        let concerns = |entry: &Written| matches!(entry, Written::Touched(it) if it.path == path);
        let goes_on = journals.iter().any(|told| told.is_live && told.entries.iter().any(concerns));
        Some(Shown {
            why,
            before: entry.before.clone(),
            content_before: ledger.content(state, &entry.before),
            now,
            writers: entry.writers.clone(),
            more_writers: entry.more_writers,
            goes_on,
            path,
        })
    }

    fn change(&self) -> &'static str {
        match (self.before == Held::Nothing, self.now.held == Held::Nothing) {
            (true, _) => "new",
            (false, true) => "removed",
            (false, false) => "changed",
        }
    }

    pub(super) fn text(&self, project: &Path, whole: bool) -> String {
        let name = self.path.strip_prefix(project).unwrap_or(&self.path);
        let name = words::one_line(&name.to_string_lossy());
        let mut text = format!("{name}: {}; {}\n", self.change(), self.why);
        for writer in &self.writers {
            text.push_str(&format!("  {}\n", told(writer)));
        }
        if self.more_writers > 0 {
            text.push_str(&format!("  and {} more\n", self.more_writers));
        }
        let lines = self.difference();
        let most = if whole { lines.len() } else { SOME_LINES };
        for line in lines.iter().take(most) {
            text.push_str(&format!("    {}\n", words::lines(line)));
        }
        if lines.len() > most {
            let more = lines.len() - most;
            text.push_str(&format!("    ({more} more lines: `stockade review --diff {name}`)\n"));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let writers: Vec<Value> = self.writers.iter().map(writer_json).collect();
        json!({
            "path": self.path.to_string_lossy(),
            "change": self.change(),
            "why": self.why,
            "writers": writers,
            "more_writers": self.more_writers,
            "goes_on": self.goes_on,
            "diff": self.difference().join("\n"),
        })
    }

    /// Returns the difference line by line.
    fn difference(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Held::Link { text, .. } = &self.before {
            lines.push(format!("-a link to {}", text.to_string_lossy()));
        }
        if let Held::Link { text, .. } = &self.now.held {
            lines.push(format!("+a link to {}", text.to_string_lossy()));
        }
        let side = |held: &Held, content: Option<&Vec<u8>>| match (held, content) {
            (Held::Nothing, _) | (Held::Link { .. }, None) => Ok(String::new()),
            (_, Some(content)) => match String::from_utf8(content.clone()) {
                Ok(text) if !text.contains('\0') => Ok(text),
                Ok(_) | Err(_) => Err(format!("{} binary bytes", content.len())),
            },
            (Held::Large { bytes, .. }, None) => Err(format!("{bytes} bytes, not kept")),
            (Held::Content { .. } | Held::Unknown, None) => {
                Err("content that cannot be shown".to_owned())
            }
        };
        let before = side(&self.before, self.content_before.as_ref());
        match (before, side(&self.now.held, self.now.content.as_ref())) {
            (Ok(before), Ok(after)) => {
                lines.extend(diff::lines(&before, &after).iter().map(ToString::to_string));
            }
            (before, after) => {
                let one = |side: Result<String, String>| {
                    side.map_or_else(|what| what, |text| format!("{} bytes of text", text.len()))
                };
                lines.push(format!("-{}", one(before)));
                lines.push(format!("+{}", one(after)));
            }
        }
        lines
    }
}

fn time(writer: &Writer) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(writer.at)).unwrap_or(UNIX_EPOCH);
    let text = audit::clock::at(at);
    text.split_once('.').map_or_else(|| text.clone(), |(second, _)| format!("{second}Z"))
}

fn told(writer: &Writer) -> String {
    let act = match &writer.act {
        Some(act) if act.starts_with("the tool ") => words::one_line(act),
        Some(act) => words::quoted(act),
        None => "a command that still runs, or that was killed".to_owned(),
    };
    let by = words::one_line(&writer.program);
    let decision = words::one_line(&writer.decision);
    format!("{} {act} ({} by {by}; decision {decision})", time(writer), writer.call)
}

fn writer_json(writer: &Writer) -> Value {
    json!({
        "at": time(writer),
        "command": writer.act,
        "decision_id": writer.decision,
        "call": writer.call,
        "program": writer.program,
        "project": writer.project.to_string_lossy(),
    })
}
