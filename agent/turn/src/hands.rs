//! Interface between the loop and whoever does the tool calls.

use std::future::Future;

use serde_json::Value;
use stockade_model::{Block, Outcome, Tool};

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Identity that the model gave to the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input of the tool.
    pub input: Value,
}

/// A call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Outcome for the model.
    pub outcome: Outcome,
    /// The result for programs.
    pub result: Value,
    /// The turn ends for this reason, without asking the model again.
    pub ends: Option<String>,
}

impl Done {
    /// Returns a call that failed or was refused, with the reason for the model.
    #[must_use]
    pub fn failed(id: &str, reason: &str) -> Done {
        let content = vec![Block::Text(reason.to_owned())];
        let outcome = Outcome { id: id.to_owned(), content, is_error: true };
        Done { outcome, result: Value::String(format!("Error: {reason}")), ends: None }
    }
}

/// Does the tool calls of a turn.
pub trait Hands: Sync {
    /// Returns the tools that the model sees. They stay the same within a session, so that the provider's cache holds.
    fn tools(&self) -> &[Tool];

    /// Says whether there is a tool of this name, aliases included.
    fn knows(&self, name: &str) -> bool {
        self.tools().iter().any(|tool| tool.name == name)
    }

    /// Says whether a call can be done beside others of its kind: it changes nothing.
    fn is_concurrent(&self, call: &Call) -> bool;

    /// Does a call. Dropping the future ends what the call started.
    fn run(&self, call: Call) -> impl Future<Output = Done> + Send;

    /// Returns what goes into the conversation before the model is asked: messages that people sent meanwhile, reminders.
    fn between(&self) -> impl Future<Output = Vec<Block>> + Send;

    /// Hears that all calls of one answer are over. A reason ends the turn before the model is asked again.
    fn batch(&self) -> impl Future<Output = Option<String>> + Send {
        async { None }
    }

    /// Hears that the model is finished. A reason keeps the turn going, with the reason as the next message.
    fn finished(&self, text: &str) -> impl Future<Output = Option<String>> + Send;

    /// Returns why the turn has to end before another request, such as a structured output that is complete.
    fn is_over(&self) -> bool {
        false
    }
}
