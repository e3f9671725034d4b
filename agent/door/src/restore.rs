//! Files that are changed or read for the session itself, without a call of the model: through the same gate as one.

use serde_json::{Value, json};
use stockade_model::Block;
use stockade_turn::Call;

use crate::door::Door;
use crate::{catalogue, schema, through};

impl Door {
    /// Has the gateway restore a file, judged and recorded as a write of it. Returns what was done in a word, or why not.
    ///
    /// # Errors
    ///
    /// A rule refuses the write, somebody else changed the file, or its content is not kept any more.
    pub async fn restore(&self, path: &str, wanted: Value) -> Result<String, String> {
        let tools = catalogue::tools(false, None);
        let tool = tools.iter().find(|tool| tool.name == "Write").ok_or("there is no Write")?;
        let call = Call {
            id: format!("restore-{path}"),
            name: tool.name.clone(),
            input: json!({ "file_path": path, "restore": wanted }),
        };
        // Its input is not a model's: the schema of the tool has no `restore`.
        let valid = schema::validate(tool, None, call)?;
        let ran = through::agreed(self, valid).await.map_err(|refused| refused.message)?;
        if ran.is_error {
            return Err(texts(&ran.content).join(" "));
        }
        Ok(ran.result.get("done").and_then(Value::as_str).unwrap_or("done").to_owned())
    }

    /// Reads a file as a call of Read does: hooks hear it, rules decide it, and it is recorded. Returns its text.
    ///
    /// # Errors
    ///
    /// A rule or a hook refuses it, the file cannot be read, or it is not text.
    pub async fn read(&self, id: &str, input: Value) -> Result<String, String> {
        let call = Call { id: id.to_owned(), name: "Read".to_owned(), input };
        let ran = self.go(call.clone()).await.map_err(|refused| refused.message)?;
        // The text goes into the conversation as it is; what a hook would add to a result has no place there.
        drop(self.after(&call, &ran).await);
        let found = texts(&ran.content);
        match (ran.is_error, found.len() == ran.content.len()) {
            (true, _) => Err(found.join(" ")),
            (false, false) => Err("it is not text".to_owned()),
            (false, true) => Ok(found.join("\n")),
        }
    }
}

/// Returns the texts among blocks.
fn texts(content: &[Block]) -> Vec<&str> {
    let found = content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
    });
    found.collect()
}
