//! Files that were used last, read anew after a compaction: what they held before is gone with the conversation.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stockade_model::{Block, Message};
use stockade_turn::Interrupt;

use super::conversation::Conversation;

/// Tokens of all files together, and the part of the window, in percent, above which they do not go either.
const TOKENS: u64 = 50_000;
const PART: u64 = 25;
/// Characters of a token, about.
const CHARACTERS: u64 = 4;
/// Most files that are read.
const MOST: usize = 20;

/// Tools that read or change a file, each with the member that names it.
const TOOLS: [(&str, &str); 5] = [
    ("Read", "file_path"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("Write", "file_path"),
    ("NotebookEdit", "notebook_path"),
];

/// Files that were read anew, and those that were left out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reread {
    /// Path and content.
    pub(super) files: Vec<(String, String)>,
    /// Path, and why.
    pub(super) left: Vec<(String, String)>,
}

/// Returns inputs of Read for the files that calls used with success, the last one first; those of an earlier compaction follow.
pub(super) fn used(messages: &[Message], earlier: &[Value]) -> Vec<Value> {
    let blocks = || messages.iter().flat_map(|message| &message.blocks);
    let done: BTreeSet<&str> = blocks()
        .filter_map(|block| match block {
            Block::Outcome(outcome) if !outcome.is_error => Some(outcome.id.as_str()),
            Block::Outcome(_)
            | Block::Text(_)
            | Block::Image(_)
            | Block::Thinking(_)
            | Block::Call { .. } => None,
        })
        .collect();
    let calls = blocks().filter_map(|block| match block {
        Block::Call { id, name, input: Ok(input) } if done.contains(id.as_str()) => {
            read_of(name, input)
        }
        Block::Call { .. }
        | Block::Text(_)
        | Block::Image(_)
        | Block::Thinking(_)
        | Block::Outcome(_) => None,
    });
    let calls: Vec<Value> = calls.collect();
    let mut seen = BTreeSet::new();
    let all = calls.into_iter().rev().chain(earlier.iter().cloned());
    all.filter(|input| seen.insert(path(input).to_owned())).collect()
}

/// Returns the input with which the file of a call is read anew: the same part of it.
fn read_of(name: &str, input: &Value) -> Option<Value> {
    let (_, key) = TOOLS.iter().find(|(tool, _)| *tool == name)?;
    let mut read = json!({ "file_path": input.get(*key)?.as_str()? });
    if let (true, Some(fields)) = (name == "Read", read.as_object_mut()) {
        for key in ["offset", "limit"] {
            fields.extend(input.get(key).map(|value| (key.to_owned(), value.clone())));
        }
    }
    Some(read)
}

fn path(input: &Value) -> &str {
    input.get("file_path").and_then(Value::as_str).unwrap_or_default()
}

impl Reread {
    /// Takes one more file, as far as there is room for it.
    fn take(&mut self, path: &str, read: Result<String, String>, room: &mut u64) {
        let left = match read {
            Ok(text) => match room.checked_sub(text.len() as u64) {
                Some(rest) => {
                    *room = rest;
                    return self.files.push((path.to_owned(), text));
                }
                None => "there is no room for it; read a part of it".to_owned(),
            },
            Err(reason) => reason.lines().next().unwrap_or_default().to_owned(),
        };
        self.left.push((path.to_owned(), left));
    }

    /// Returns the part of the message that stands for the conversation.
    pub(super) fn shown(&self) -> String {
        let files =
            self.files.iter().map(|(path, text)| format!("## {}\n{text}", path.escape_debug()));
        let left = self.left.iter().map(|(path, reason)| {
            format!("## {}\n(left out: {})", path.escape_debug(), reason.escape_debug())
        });
        files.chain(left).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns what a person is told; nothing where no file was read.
    pub(super) fn told(&self) -> Option<String> {
        let names = |all: &[(String, String)]| {
            all.iter().map(|it| it.0.escape_debug().to_string()).collect::<Vec<_>>().join(", ")
        };
        let read = (!self.files.is_empty()).then(|| format!("read anew: {}", names(&self.files)));
        let left = self.left.iter().map(|(path, reason)| {
            format!("left out: {}: {}", path.escape_debug(), reason.escape_debug())
        });
        let all: Vec<String> = read.into_iter().chain(left).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl Conversation {
    /// Reads files anew, the most recently used first, each through the door like any other Read: a rule that came meanwhile
    /// counts.
    pub(super) async fn read_anew(&mut self, interrupt: &Interrupt) -> Reread {
        self.files = used(&self.messages, &self.files);
        self.files.truncate(MOST);
        let window = self.asks.window.saturating_mul(PART) / 100;
        let (mut room, mut found) = (TOKENS.min(window) * CHARACTERS, Reread::default());
        for (number, input) in self.files.iter().enumerate() {
            let id = format!("anew_{number}");
            let read = tokio::select! {
                read = self.door.read(&id, input.clone()) => read,
                () = interrupt.given() => break,
            };
            found.take(path(input), read, &mut room);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_model::{Outcome, Role};

    #[test]
    fn files_of_calls_that_went_well_are_read_anew_the_last_one_first() {
        let mut messages = Vec::new();
        let mut call = |name: &str, input: Value, is_error: bool| {
            let id = messages.len().to_string();
            let outcome = Outcome { id: id.clone(), content: vec![], is_error };
            let call = Block::Call { id, name: name.into(), input: Ok(input) };
            messages.push(Message { role: Role::Assistant, blocks: vec![call] });
            messages.push(Message { role: Role::User, blocks: vec![Block::Outcome(outcome)] });
        };
        call("Read", json!({ "file_path": "a", "offset": 7, "limit": 2 }), false);
        call("Edit", json!({ "file_path": "b", "old_string": "x", "new_string": "y" }), false);
        call("Read", json!({ "file_path": "refused" }), true);
        call("Bash", json!({ "command": "cat c" }), false);
        call("NotebookEdit", json!({ "notebook_path": "n.ipynb" }), false);
        call("Read", json!({ "file_path": "b", "pages": "1" }), false);
        let earlier = [json!({ "file_path": "a" }), json!({ "file_path": "old" })];
        let expected = [
            json!({ "file_path": "b" }),
            json!({ "file_path": "n.ipynb" }),
            json!({ "file_path": "a", "offset": 7, "limit": 2 }),
            json!({ "file_path": "old" }),
        ];
        assert_eq!(used(&messages, &earlier), expected);
    }

    #[test]
    fn a_file_without_room_or_right_is_left_out_by_name_and_a_smaller_one_goes() {
        let (mut found, mut room) = (Reread::default(), 10);
        found.take("big", Ok("x".repeat(11)), &mut room);
        found.take("a\u{1b}", Ok("12345678".into()), &mut room);
        found.take("secret", Err("Permission denied.\nmore".into()), &mut room);
        found.take("c", Ok("123".into()), &mut room);
        let expected = "## a\\u{1b}\n12345678\n\n## big\n(left out: there is no room for it; read a part of it)\n\n\
            ## secret\n(left out: Permission denied.)\n\n## c\n(left out: there is no room for it; read a part of it)";
        assert_eq!((found.shown().as_str(), room), (expected, 2));
        let told = "read anew: a\\u{1b}; left out: big: there is no room for it; read a part of it; \
            left out: secret: Permission denied.; left out: c: there is no room for it; read a part of it";
        assert_eq!(found.told().as_deref(), Some(told));
        assert_eq!(Reread::default().told(), None);
    }
}
