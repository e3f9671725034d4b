//! Files that become again what they were before the session changed them.

use serde_json::{Value, json};
use stockade_model::Block;
use stockade_turn::Call;

use crate::boundary::Door;
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
            let texts = ran.content.iter().filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => {
                    None
                }
            });
            return Err(texts.collect::<Vec<_>>().join(" "));
        }
        Ok(ran.result.get("done").and_then(Value::as_str).unwrap_or("done").to_owned())
    }
}
