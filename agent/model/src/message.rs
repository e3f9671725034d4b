//! A request to a model: a system prompt, tools, and a conversation.

use serde_json::Value;

/// One request to a model. The order of `system`, `tools` and `messages` is the order in which they are sent, so that
/// an unchanged beginning is found in the provider's prompt cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Name of the model, as the provider spells it.
    pub model: String,
    /// Parts of the system prompt. Parts that change go last.
    pub system: Vec<String>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// The conversation, oldest message first.
    pub messages: Vec<Message>,
    /// Most tokens of the answer.
    pub max_output_tokens: u64,
    /// Most tokens for thinking; `None` turns thinking off. Providers that know levels alone get the nearest one.
    pub thinking_tokens: Option<u64>,
    /// How thinking comes back, in the words of Anthropic's interface (`summarized`, `omitted`); other wire forms have none.
    pub thinking_display: Option<String>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name by which the model calls the tool.
    pub name: String,
    /// Text that tells the model what the tool does.
    pub description: String,
    /// JSON Schema of the input, an object.
    pub input: Value,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person, or the agent with results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// One piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Plain text.
    Text(String),
    /// A picture, from the user or in a result.
    Image(Image),
    /// Thinking of the model, exactly as the provider sent it: it is sent back unchanged.
    Thinking(Value),
    /// A call of a tool by the model.
    Call {
        /// Identifier that the result repeats.
        id: String,
        /// Name of the tool.
        name: String,
        /// Input of the call; `Err` holds a text that is not a JSON object.
        input: Result<Value, String>,
    },
    /// The result of a call.
    Outcome(Outcome),
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The bytes, in base64 (RFC 4648, section 4).
    pub base64: String,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Identifier of the call.
    pub id: String,
    /// Text and images.
    pub content: Vec<Block>,
    /// Whether the call failed or was refused.
    pub is_error: bool,
}

impl Outcome {
    /// Returns the text of the result, without images.
    pub(crate) fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the images of the result.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Image> {
        self.content.iter().filter_map(|block| match block {
            Block::Image(image) => Some(image),
            Block::Text(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
        })
    }
}

impl Message {
    /// Returns a message of the user with one text.
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, blocks: vec![Block::Text(text.into())] }
    }
}
