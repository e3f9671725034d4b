//! The last frame of a turn.

use serde_json::{Map, Value, json};
use stockade_model::{Error, Ledger, Refusal, Stop, Usage};
use stockade_turn::End;

use crate::partial::{stop_reason, usage};

/// How the reason of a turn begins that has no structured output; what went wrong follows.
const NO_OUTPUT: &str = "error_max_structured_output_retries: ";

/// Outcome of a turn.
#[derive(Debug)]
pub struct Result<'a> {
    /// How it ended.
    pub end: &'a End,
    /// Milliseconds in all, and those of requests.
    pub took: (u64, u64),
    /// Requests.
    pub turns: u64,
    /// Use and cost of the session.
    pub ledger: &'a Ledger,
    /// Usage of this turn.
    pub usage: Usage,
    /// Calls that were not run: tool, identity, input.
    pub denials: Vec<(String, String, Value)>,
    /// The structured output.
    pub structured: Option<Value>,
    /// Context window and output limit by model.
    pub windows: fn(&str) -> (u64, u64),
}

/// A turn in words: subtype of the frame, whether it is an error, and texts.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// Subtype of the frame.
    pub subtype: &'static str,
    /// True if the turn ended with an error.
    pub is_error: bool,
    /// Result for people, where there is one.
    pub text: Option<String>,
    /// Errors.
    pub errors: Vec<String>,
    /// HTTP status of a failed request.
    pub status: Option<u16>,
    /// Class of a failed request.
    pub class: &'static str,
    reason: &'static str,
    stop: Option<&'static str>,
}

impl Ended {
    /// Returns the words for an end.
    #[must_use]
    pub fn of(end: &End) -> Ended {
        let plain = Ended {
            subtype: "success",
            is_error: false,
            text: None,
            errors: Vec::new(),
            status: None,
            class: "",
            reason: "completed",
            stop: None,
        };
        let error = |subtype, reason, message: String| Ended {
            subtype,
            is_error: true,
            errors: vec![message],
            text: None,
            stop: None,
            reason,
            ..Ended::of(&End::Finished { text: String::new(), stop: Stop::EndTurn })
        };
        match end {
            End::Finished { text, stop } => {
                let text = finished(text, stop);
                Ended { text: Some(text), stop: Some(stop_reason(stop)), ..plain }
            }
            End::Turns => {
                error("error_max_turns", "max_turns", "the limit of turns was reached".into())
            }
            End::Full => {
                error("error_during_execution", "model_error", "the context window is full".into())
            }
            End::Budget => {
                error("error_max_budget_usd", "max_budget", "the budget is spent".into())
            }
            End::Interrupted { in_tools } => {
                let reason = if *in_tools { "aborted_tools" } else { "aborted_streaming" };
                error("error_during_execution", reason, "the turn was interrupted".into())
            }
            End::Ended(reason) => match reason.strip_prefix(NO_OUTPUT) {
                Some(told) => error(
                    "error_max_structured_output_retries",
                    "max_structured_output_retries",
                    told.to_owned(),
                ),
                None => error("error_during_execution", "aborted_tools", reason.clone()),
            },
            End::Wrong(reason) => error("error_during_execution", "model_error", reason.clone()),
            End::Failed(failed) => {
                let (status, class) = class(failed);
                let text = Some(format!("API Error: {failed}"));
                Ended {
                    is_error: true,
                    text,
                    status,
                    class,
                    reason: "api_error",
                    stop: Some("stop_sequence"),
                    ..plain
                }
            }
        }
    }
}

/// Returns the text of an answer that ended; without one, why it was cut off.
fn finished(text: &str, stop: &Stop) -> String {
    let cut = match stop {
        Stop::OutputLimit => Some("the answer reached the limit of output tokens"),
        Stop::ContextLimit => Some("the context window is full"),
        Stop::Declined => Some("the model declined to answer"),
        Stop::EndTurn | Stop::Calls | Stop::Broken | Stop::Other(_) => None,
    };
    match (text.is_empty(), cut) {
        (true, Some(cut)) => cut.to_owned(),
        (_, _) => text.to_owned(),
    }
}

/// Returns status and class of a failed request, in the words of the packages.
fn class(error: &Error) -> (Option<u16>, &'static str) {
    let by_status = |status: u16| match status {
        429 => "rate_limit",
        529 => "overloaded",
        _ => "server_error",
    };
    match error {
        Error::Settings(_) => (None, "invalid_request"),
        Error::Refused { refusal, status, .. } => {
            let class = match refusal {
                Refusal::Key => "authentication_failed",
                Refusal::Credit => "billing_error",
                Refusal::TooLong | Refusal::NotFound | Refusal::Invalid => "invalid_request",
            };
            (Some(*status), class)
        }
        Error::GaveUp { status, .. } => (*status, status.map_or("server_error", by_status)),
        Error::Wait { status, .. } => (Some(*status), by_status(*status)),
    }
}

impl Result<'_> {
    /// Returns the frame, without session and identity.
    #[must_use]
    pub fn frame(&self) -> Value {
        let ended = Ended::of(self.end);
        let mut models = Map::new();
        for (model, spent) in self.ledger.aggregate() {
            let (window, output) = (self.windows)(model);
            models.insert(model.clone(), json!({ "inputTokens": spent.usage.input, "outputTokens": spent.usage.output,
                "cacheReadInputTokens": spent.usage.cache_read, "cacheCreationInputTokens": spent.usage.cache_write,
                "webSearchRequests": 0, "costUSD": spent.dollars, "contextWindow": window, "maxOutputTokens": output }));
        }
        let root = self.ledger.root().values().fold(0.0, |sum, spent| sum + spent.dollars);
        let denials = self.denials.iter().map(|(tool, id, input)| {
            json!({ "tool_name": tool, "tool_use_id": id, "tool_input": input })
        });
        let mut frame = json!({
            "type": "result", "subtype": ended.subtype, "is_error": ended.is_error, "duration_ms": self.took.0,
            "duration_api_ms": self.took.1, "num_turns": self.turns, "stop_reason": ended.stop,
            "total_cost_usd": self.ledger.dollars(), "root_cost_usd": root, "usage": usage(self.usage),
            "modelUsage": models, "permission_denials": denials.collect::<Vec<_>>(),
            "api_error_status": ended.status, "terminal_reason": ended.reason,
        });
        if let Some(fields) = frame.as_object_mut() {
            if let Some(text) = ended.text {
                fields.insert("result".into(), json!(text));
            }
            if !ended.errors.is_empty() {
                fields.insert("errors".into(), json!(ended.errors));
            }
            if let Some(output) = &self.structured {
                fields.insert("structured_output".into(), output.clone());
            }
        }
        frame
    }
}
