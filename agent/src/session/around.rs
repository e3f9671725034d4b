//! Contents of a project's files around commands, so that what a command changed can be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_files::Snapshots;

/// The tool that runs commands.
const TOOL: &str = "Bash";

/// Looks at a project around commands.
#[derive(Debug)]
pub(super) struct Around {
    root: PathBuf,
    files: Option<Snapshots>,
    /// Calls that have no result yet.
    running: BTreeSet<String>,
    /// Digests that file tools gave to files since the last look.
    others: BTreeMap<String, Option<String>>,
}

/// Returns the blocks of a message of this type.
fn blocks<'a>(line: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let content = line.get("message").and_then(|it| it.get("content"));
    let all = content.and_then(Value::as_array).into_iter().flatten();
    all.filter(move |block| block.get("type").and_then(Value::as_str) == Some(kind))
}

fn text<'a>(block: &'a Value, key: &str) -> &'a str {
    block.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Around {
    pub(super) fn new(root: PathBuf) -> Around {
        Around { root, files: None, running: BTreeSet::new(), others: BTreeMap::new() }
    }

    /// Takes note of a change by a file tool: it is not the command's.
    pub(super) fn note(&mut self, data: &Value) {
        let after = data.get("after").and_then(Value::as_str).map(str::to_owned);
        self.others.insert(text(data, "path").to_owned(), after);
    }

    /// Takes a message: before commands run and after they ran it looks at the files, and returns the data of events about
    /// what the commands changed.
    pub(super) fn look(
        &mut self,
        line: &Value,
        (session, all): (&Path, &Path),
    ) -> Result<Vec<Value>, String> {
        let called = blocks(line, "tool_use").filter(|it| text(it, "name") == TOOL);
        let called: Vec<String> = called.map(|it| text(it, "id").to_owned()).collect();
        if !called.is_empty() {
            // Changes that others made meanwhile do not belong to the command.
            self.changed((session, all))?;
            self.others.clear();
            self.running.extend(called);
            return Ok(Vec::new());
        }
        let mut events = Vec::new();
        for result in blocks(line, "tool_result") {
            let call = text(result, "tool_use_id");
            if !self.running.remove(call) {
                continue;
            }
            for changed in self.changed((session, all))? {
                // A path that is not UTF-8 could not be named when it is taken back.
                let Some(path) = changed.path.to_str() else { continue };
                let before = match self.others.remove(path) {
                    Some(of_tool) if of_tool == changed.after => continue,
                    Some(of_tool) => of_tool,
                    None => changed.before,
                };
                events.push(json!({ "call": call, "path": path, "before": before,
                    "mode": changed.mode, "after": changed.after }));
            }
        }
        Ok(events)
    }

    fn changed(
        &mut self,
        (session, all): (&Path, &Path),
    ) -> Result<Vec<stockade_files::Changed>, String> {
        let folder = session.join("before");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("`{}` cannot be made: {error}", folder.display()))?;
        let new = || Snapshots::new(self.root.clone(), folder.clone(), all.to_owned());
        let files = self.files.get_or_insert_with(new);
        files.look().map_err(|error| format!("`{}`: {error}", self.root.display()))
    }
}
