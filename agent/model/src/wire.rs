//! The wire forms: a request becomes a body, and server-sent events become [`Event`]s.

mod anthropic;
mod chat;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::endpoint::{Endpoint, Provider};
use crate::event::{Event, Usage};
use crate::message::Request;

/// Why a try gives no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another try may succeed.
    Again(String),
    /// The endpoint rejected the request: type or code, and message.
    Final(String, String),
}

/// Reads the events of one answer.
pub(crate) trait Decoder: Send {
    /// Takes one server-sent event: its name, which may be missing, and its data.
    fn take(&mut self, name: &str, data: &str) -> Result<Vec<Event>, Fault>;

    /// Takes the end of the stream. Returns what was still open, or `None` if the answer is not complete.
    fn end(&mut self) -> Option<Vec<Event>>;

    /// Says whether the answer is complete, so that nothing more needs to be read.
    fn is_complete(&self) -> bool;
}

/// Returns the path of the wire form below the base address.
pub(crate) fn path(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "/v1/messages",
        Provider::OpenAi => "/responses",
        Provider::Compatible => "/chat/completions",
    }
}

/// Returns the address for requests to an endpoint. A relay has one endpoint, so that it takes any address.
pub(crate) fn address(endpoint: &Endpoint) -> String {
    let base = endpoint.base_url.trim_end_matches('/');
    match &endpoint.relay {
        Some(_) => "http://relay/".to_owned(),
        None => format!("{base}{}", path(endpoint.provider)),
    }
}

/// Returns the body of a request that asks for a stream.
pub(crate) fn body(provider: Provider, request: &Request) -> Value {
    match provider {
        Provider::Anthropic => anthropic::body(request),
        Provider::OpenAi => responses::body(request),
        Provider::Compatible => chat::body(request),
    }
}

/// Returns a reader for one answer.
pub(crate) fn decoder(provider: Provider) -> Box<dyn Decoder> {
    match provider {
        Provider::Anthropic => Box::<anthropic::Reader>::default(),
        Provider::OpenAi => Box::<responses::Reader>::default(),
        Provider::Compatible => Box::<chat::Reader>::default(),
    }
}

/// Reads the data of an event as a JSON object.
fn object(data: &str) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_str(data) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Fault::Again("the stream has data that is not a JSON object".to_owned())),
        Err(error) => Err(Fault::Again(format!("the stream has invalid JSON: {error}"))),
    }
}

/// Reads the input of a call: a JSON object; nothing at all is an empty one. `Err` is the text as it came.
fn input(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) | Err(_) => Err(text.to_owned()),
    }
}

/// Returns the text at `key`, empty if there is none.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at `key`, 0 if there is none.
fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the number of a block or choice at `key`.
fn index(value: &Value, key: &str) -> usize {
    usize::try_from(number(value, key)).unwrap_or(usize::MAX)
}

/// Reads the usage of both OpenAI forms, in which the whole input includes what a cache held.
fn openai_usage(usage: &Value, [whole, details, output]: [&str; 3]) -> Usage {
    let cache_read = usage.get(details).map_or(0, |details| number(details, "cached_tokens"));
    let input = number(usage, whole).saturating_sub(cache_read);
    Usage { input, cache_write: 0, cache_read, output: number(usage, output) }
}

/// Reads an error object: its type or code, and its message.
pub(crate) fn error(error: &Value) -> (String, String) {
    let kind = [text(error, "code"), text(error, "type")];
    let kind = kind.into_iter().find(|kind| !kind.is_empty()).unwrap_or_default();
    let message = text(error, "message");
    (kind.to_owned(), if message.is_empty() { kind.to_owned() } else { message.to_owned() })
}

/// Says what an error in the middle of a stream means: these kinds pass, all others stay.
fn fault(value: &Value) -> Fault {
    let (kind, message) = error(value);
    let passes = [
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "timeout_error",
        "server_error",
        "rate_limit_exceeded",
        "",
    ];
    if passes.contains(&kind.as_str()) {
        Fault::Again(if message.is_empty() {
            "the endpoint reports an error".into()
        } else {
            message
        })
    } else {
        Fault::Final(kind, message)
    }
}
