//! Back to a message of the user: the conversation, the files, or both.

use serde_json::{Value, json};
use stockade_model::Block;

use super::conversation::Conversation;

/// A wish to go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Identity of a message of the user.
    pub(crate) uuid: String,
    pub(crate) conversation: bool,
    pub(crate) files: bool,
    /// Files that somebody else changed go back as well.
    pub(crate) forced: bool,
}

/// Result of a rewind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewound {
    /// Message for the person.
    pub(crate) text: String,
    /// Files that are as they were.
    pub(crate) files: Vec<String>,
}

/// The command `/rewind`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Shows the messages to which the session can go back.
    List,
    Go(Wish),
    /// Words that are no such command.
    Wrong,
}

/// Returns the command, if a message is one.
pub(super) fn command(blocks: &[Block]) -> Option<Command> {
    let [Block::Text(text)] = blocks else { return None };
    let rest = text.trim().strip_prefix("/rewind")?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut words = rest.split_whitespace();
    let Some(uuid) = words.next() else { return Some(Command::List) };
    let (mut what, mut forced) = (None, false);
    for word in words {
        match word {
            "conversation" | "files" | "both" if what.is_none() => what = Some(word),
            "force" if !forced => forced = true,
            _ => return Some(Command::Wrong),
        }
    }
    let what = what.unwrap_or("both");
    Some(Command::Go(Wish {
        uuid: uuid.to_owned(),
        conversation: what != "files",
        files: what != "conversation",
        forced,
    }))
}

impl Conversation {
    /// Does the command, and returns what a person is told.
    pub(super) async fn rewound(&mut self, command: Command) -> Result<String, String> {
        match command {
            Command::List => {
                let answer = self.transcript.ask(json!({}))?;
                let marks = answer.get("marks").and_then(Value::as_array).cloned();
                let line = |mark: &Value| {
                    let text = |key: &str| mark.get(key).and_then(Value::as_str).unwrap_or_default();
                    let changes = mark.get("changes").and_then(Value::as_u64).unwrap_or_default();
                    format!("{}  {changes:>3} changes since  {}", text("uuid"), text("words"))
                };
                let lines: Vec<String> = marks.unwrap_or_default().iter().map(line).collect();
                Ok(lines.join("\n"))
            }
            Command::Go(wish) => Ok(self.rewind(&wish).await?.text),
            Command::Wrong => {
                Err("write `/rewind MESSAGE [conversation|files|both] [force]`; `/rewind` lists the messages".to_owned())
            }
        }
    }

    /// Returns the files that would go back to a message; nothing is changed.
    pub(crate) fn would_rewind(&mut self, uuid: &str) -> Result<Vec<String>, String> {
        let answer = self.transcript.ask(json!({ "steps": uuid }))?;
        let steps = answer.get("steps").and_then(Value::as_array).into_iter().flatten();
        let own = steps.filter(|step| step.get("foreign") != Some(&Value::Bool(true)));
        Ok(own.filter_map(|step| Some(step.get("path")?.as_str()?.to_owned())).collect())
    }

    /// Goes back. Files that somebody else changed, or whose content is not kept, are named and left.
    pub(crate) async fn rewind(&mut self, wish: &Wish) -> Result<Rewound, String> {
        let answer = self.transcript.ask(json!({ "steps": wish.uuid }))?;
        if wish.conversation && answer.get("is_there") != Some(&Value::Bool(true)) {
            return Err(
                "the message is older than the last summary; `files` alone can go back to it"
                    .to_owned(),
            );
        }
        let steps = answer.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        let (mut done, mut left, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps.iter().filter(|_| wish.files) {
            let path = step.get("path").and_then(Value::as_str).unwrap_or_default();
            match self.step(path, step, wish.forced).await {
                Ok(how) => {
                    files.push(path.to_owned());
                    done.push(format!("{path}: {how}"));
                }
                Err(reason) => left.push(format!("{path}: left as it is: {reason}")),
            }
        }
        let data = json!({ "before": wish.uuid, "conversation": wish.conversation,
            "files": wish.files && left.is_empty() });
        let messages = self.transcript.rewound(data)?;
        if wish.conversation {
            self.messages = messages;
            self.room.tokens = 0;
        } else if !done.is_empty() {
            let list = done.join("\n");
            self.door.queue(&format!(
                "<reminder>\nThe user took back changes of files:\n{list}\n</reminder>"
            ));
        }
        let mut lines = match wish.conversation {
            true => vec!["The conversation goes on in front of that message.".to_owned()],
            false => Vec::new(),
        };
        if wish.files && steps.is_empty() {
            lines.push("No file was changed since.".to_owned());
        }
        lines.extend(done);
        lines.extend(left);
        Ok(Rewound { text: lines.join("\n"), files })
    }

    async fn step(&self, path: &str, step: &Value, forced: bool) -> Result<String, String> {
        if !forced && step.get("foreign") == Some(&Value::Bool(true)) {
            return Err(
                "somebody else changed it in between; `force` restores it even so".to_owned()
            );
        }
        let field = |key: &str| step.get(key).cloned().unwrap_or_default();
        let wanted = json!({ "before": field("before"), "mode": field("mode"), "after": field("after"),
            "forced": forced });
        self.door.restore(path, wanted).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_a_message_and_what_goes_back() {
        let of = |text: &str| command(&[Block::Text(text.into())]);
        let wish = |conversation, files, forced| {
            Some(Command::Go(Wish { uuid: "u".into(), conversation, files, forced }))
        };
        assert_eq!(of("/rewind"), Some(Command::List));
        assert_eq!(of("/rewind u"), wish(true, true, false));
        assert_eq!(of("/rewind u files force\n"), wish(false, true, true));
        assert_eq!(of("/rewind u conversation"), wish(true, false, false));
        assert_eq!(of("/rewind u files both"), Some(Command::Wrong));
        assert_eq!(of("/rewinding"), None);
        assert_eq!(of("please /rewind u"), None);
    }
}
