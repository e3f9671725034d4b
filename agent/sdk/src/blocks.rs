//! Blocks of messages in the form of the protocol, which is that of Anthropic's messages.

use serde_json::{Value, json};
use stockade_model::{Block, Image, Outcome};

/// Returns the form of a block.
#[must_use]
pub fn to_wire(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Image(image) => json!({ "type": "image",
            "source": { "type": "base64", "media_type": image.media_type, "data": image.base64 } }),
        Block::Thinking(value) => value.clone(),
        Block::Call { id, name, input } => {
            let input = input.clone().unwrap_or_else(|text| json!({ "invalid_json": text }));
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        Block::Outcome(outcome) => {
            let content = match outcome.content.as_slice() {
                [Block::Text(text)] => json!(text),
                blocks => blocks.iter().map(to_wire).collect(),
            };
            json!({ "type": "tool_result", "tool_use_id": outcome.id, "content": content, "is_error": outcome.is_error })
        }
    }
}

/// Reads the content of a message: text, or blocks. Blocks that are not known are left out.
#[must_use]
pub fn from_wire(content: &Value) -> Vec<Block> {
    match content {
        Value::String(text) => vec![Block::Text(text.clone())],
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        _ => Vec::new(),
    }
}

fn block(value: &Value) -> Option<Block> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(match value.get("type")?.as_str()? {
        "text" => Block::Text(text(value, "text")?),
        "image" => {
            let source = value.get("source")?;
            Block::Image(Image {
                media_type: text(source, "media_type")?,
                base64: text(source, "data")?,
            })
        }
        "thinking" | "redacted_thinking" => Block::Thinking(value.clone()),
        "tool_use" => Block::Call {
            id: text(value, "id")?,
            name: text(value, "name")?,
            input: Ok(value.get("input")?.clone()),
        },
        "tool_result" => Block::Outcome(Outcome {
            id: text(value, "tool_use_id")?,
            content: value.get("content").map(from_wire).unwrap_or_default(),
            is_error: value.get("is_error").and_then(Value::as_bool).unwrap_or_default(),
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_went() {
        let outcome =
            Outcome { id: "a".into(), content: vec![Block::Text("x".into())], is_error: true };
        let blocks = vec![
            Block::Text("t".into()),
            Block::Thinking(json!({ "type": "thinking", "thinking": "h", "signature": "s" })),
            Block::Call { id: "a".into(), name: "Read".into(), input: Ok(json!({ "x": 1 })) },
            Block::Outcome(outcome),
            Block::Image(Image { media_type: "image/png".into(), base64: "AA==".into() }),
        ];
        let wire: Value = blocks.iter().map(to_wire).collect();
        assert_eq!(from_wire(&wire), blocks);
        assert_eq!(from_wire(&json!("hi")), [Block::Text("hi".into())]);
        assert!(from_wire(&json!([{ "type": "new" }, 1])).is_empty());
    }
}
