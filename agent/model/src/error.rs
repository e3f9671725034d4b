//! Why there is no answer.

use std::time::Duration;

/// Why there is no answer. Every variant that concerns a sent request names its `x-client-request-id`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings make no request.
    #[error("invalid model settings: {0}")]
    Settings(String),
    /// The endpoint answered with an error that another try does not change.
    #[error("{refusal} (HTTP {status}): {message} (request {request})")]
    Refused {
        /// Kind of the error.
        refusal: Refusal,
        /// HTTP status.
        status: u16,
        /// Message of the endpoint.
        message: String,
        /// Identifier of the request.
        request: String,
    },
    /// All tries failed.
    #[error("no answer after {tries} tries: {reason} (request {request})")]
    GaveUp {
        /// Number of tries.
        tries: u32,
        /// HTTP status of the last try, if there was a response.
        status: Option<u16>,
        /// Why the last try failed.
        reason: String,
        /// Identifier of the last request.
        request: String,
    },
    /// The endpoint wants a longer wait than a run should have.
    #[error("the endpoint asks to wait {} s: {reason} (request {request})", .wait.as_secs())]
    Wait {
        /// The wait that the endpoint asks for.
        wait: Duration,
        /// HTTP status.
        status: u16,
        /// Message of the endpoint.
        reason: String,
        /// Identifier of the request.
        request: String,
    },
}

/// Kind of an error that another try does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The key is missing, invalid, or not allowed to use the model.
    Key,
    /// The prompt is longer than the context window.
    TooLong,
    /// No such model or address.
    NotFound,
    /// The account has no credit.
    Credit,
    /// The request is invalid.
    Invalid,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Refusal::Key => "the model's endpoint rejected the key",
            Refusal::TooLong => "the prompt is longer than the model's context window",
            Refusal::NotFound => "the endpoint does not have this model or address",
            Refusal::Credit => "the account of the key has no credit",
            Refusal::Invalid => "the endpoint rejected the request",
        })
    }
}

impl Refusal {
    /// Classifies an error response by its status, its type or code, and its message. The texts are those of the
    /// providers' documentation; the status alone decides where none of them fits.
    pub(crate) fn of(status: u16, kind: &str, message: &str) -> Refusal {
        let message = message.to_ascii_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
        let too_long = [
            "prompt is too long",
            "maximum context length",
            "context window",
            "exceeds the available context size",
            "context_length",
        ];
        if status == 413 || kind == "context_length_exceeded" || says(&too_long) {
            return Refusal::TooLong;
        }
        if matches!(kind, "insufficient_quota" | "billing_error")
            || status == 402
            || says(&["credit balance"])
        {
            return Refusal::Credit;
        }
        match status {
            401 | 403 => Refusal::Key,
            404 => Refusal::NotFound,
            _ => Refusal::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_type_message_and_status() {
        let cases = [
            (401, "authentication_error", "invalid x-api-key", Refusal::Key),
            (400, "invalid_request_error", "prompt is too long: 9 > 8", Refusal::TooLong),
            (400, "context_length_exceeded", "", Refusal::TooLong),
            (413, "request_too_large", "", Refusal::TooLong),
            (400, "invalid_request_error", "Your credit balance is too low", Refusal::Credit),
            (429, "insufficient_quota", "You exceeded your current quota", Refusal::Credit),
            (404, "not_found_error", "model: x", Refusal::NotFound),
            (400, "invalid_request_error", "messages: empty", Refusal::Invalid),
        ];
        for (status, kind, message, expected) in cases {
            assert_eq!(Refusal::of(status, kind, message), expected, "{status} {kind} {message}");
        }
    }
}
