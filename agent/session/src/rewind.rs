//! Changes of files, and how they are taken back.
//!
//! The file worker of the gateway keeps old contents in the session's folder, and lists each change there before it makes
//! it. The list is read here, never the agent's word.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::{Value, json};

use crate::change::Change;
use crate::error::Error;
use crate::state::State;

/// The list of changes, in the folder of a session.
pub(crate) const LIST: &str = "before/changes.jsonl";
/// The list of changes by commands, there.
pub const OF_COMMANDS: &str = "before/commands.jsonl";
/// Folder of the contents, there.
pub(crate) const CONTENTS: &str = "before/contents";
/// Longest line of the list.
const LONGEST: u64 = 64 << 10;

/// One file that is to be as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How it was before, and how it has to be now.
    pub change: Change,
    /// Somebody else changed it between two changes of the session.
    pub is_foreign: bool,
}

impl Step {
    /// Returns the step as an object.
    #[must_use]
    pub fn object(&self) -> Value {
        let Step { change: Change { path, before, mode, after }, is_foreign } = self;
        json!({ "path": path, "before": before, "mode": mode, "after": after, "foreign": is_foreign })
    }
}

/// Returns what has to be done so that files are as they were at a message of the user: one step for each file.
///
/// # Errors
///
/// The user said no such message.
pub fn steps(state: &State, uuid: &str) -> Result<Vec<Step>, Error> {
    let mark = state.marks.iter().find(|mark| mark.uuid == uuid);
    let mark = mark.ok_or_else(|| Error::NoMessage(uuid.escape_debug().to_string()))?;
    let mut found: BTreeMap<&str, Step> = BTreeMap::new();
    for change in state.changes.iter().skip(mark.changes) {
        match found.get_mut(change.path.as_str()) {
            Some(step) => {
                step.is_foreign |= step.change.after != change.before;
                step.change.after.clone_from(&change.after);
            }
            None => {
                let step = Step { change: change.clone(), is_foreign: false };
                found.insert(&change.path, step);
            }
        }
    }
    Ok(found
        .into_values()
        .filter(|it| it.is_foreign || it.change.before != it.change.after)
        .collect())
}

/// Returns the data of the events about changes that the list of a session's folder holds behind `seen` bytes. A line that
/// is cut stays for later.
#[must_use]
pub fn new_changes(folder: &Path, seen: u64) -> Vec<Value> {
    let Ok(mut file) = File::open(folder.join(LIST)) else { return Vec::new() };
    let is_longer = file.metadata().is_ok_and(|found| found.is_file() && found.len() > seen);
    if !is_longer || file.seek(SeekFrom::Start(seen)).is_err() {
        return Vec::new();
    }
    let (mut input, mut seen, mut found) = (BufReader::new(file), seen, Vec::new());
    loop {
        let mut line = Vec::new();
        match (&mut input).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(count) if line.ends_with(b"\n") => seen += u64::try_from(count).unwrap_or_default(),
            Ok(_) | Err(_) => return found,
        }
        if let Ok(Value::Object(mut data)) = serde_json::from_slice(&line) {
            data.insert("seen".into(), json!(seen));
            found.push(Value::Object(data));
        }
    }
}
