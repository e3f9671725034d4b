//! Messages of a gateway, and the failures where none comes.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::frames::RpcError;
use stockade_wire::subscriptions::Told;
use stockade_wire::types::{Event, Question};

/// How long a gateway may take to say hello.
pub(crate) const HELLO: Duration = Duration::from_secs(5);

/// Identity of the greeting; requests count on from it.
pub(crate) const GREETING: u64 = 1;

/// A message of a gateway to one that waits for a result of type `R`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "R: DeserializeOwned")]
pub(crate) struct Message<R> {
    jsonrpc: String,
    pub(crate) id: Option<Value>,
    pub(crate) method: Option<String>,
    pub(crate) params: Option<Params>,
    result: Option<R>,
    error: Option<RpcError>,
}

/// Parameters of a notification or a question; a later minor version may send more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    pub(crate) event: Option<Event>,
    pub(crate) question: Option<Question>,
    pub(crate) told: Option<Told>,
}

impl<R> Message<R> {
    /// Returns the result if this is the answer to request `id`, or its failure; none for all else.
    pub(crate) fn answers(self, id: u64) -> Option<Result<R, Failure>> {
        let of_it = self.id.as_ref().and_then(Value::as_u64) == Some(id);
        match (self.method, self.result, self.error) {
            (None, Some(result), None) if of_it => Some(Ok(result)),
            // A failure without an identity is the answer to a request that the gateway could not read.
            (None, None, Some(error)) => Some(Err(error.into_failure())),
            (_, _, _) => None,
        }
    }
}

/// Reads the answer to the greeting.
pub(crate) fn greeting(line: &[u8]) -> Result<(), Failure> {
    let answer = message::<IgnoredAny>(line)?.answers(GREETING);
    answer.ok_or_else(|| nonsense("it answers before it greets"))?.map(drop)
}

pub(crate) fn message<R: DeserializeOwned>(line: &[u8]) -> Result<Message<R>, Failure> {
    let message: Message<R> =
        serde_json::from_slice(line).map_err(|error| nonsense(&error.to_string()))?;
    match message.jsonrpc.as_str() {
        "2.0" => Ok(message),
        _ => Err(nonsense("it speaks another JSON-RPC")),
    }
}

pub(crate) fn silent(path: &Path) -> Failure {
    unreachable(path, "it does not say hello")
}

pub(crate) fn unreachable(path: &Path, reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("none of your gateways answers at `{}`: {reason}", path.display()),
        "start one with `stockade serve`, or remove `--socket`",
    )
}

pub(crate) fn untrusted(path: &Path, reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("the listener at `{}` is not trusted as a gateway: {reason}", path.display()),
        "stop that process and remove the socket; commands must not be able to write its directory",
    )
}

/// Returns why the outcome of a command that was told to end is not known here.
pub fn left() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "this program was stopped before the gateway reported the result",
        "`stockade audit tail` shows the result",
    )
}

pub(crate) fn gone() -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        "the gateway went away before it answered",
        "`stockade audit tail` shows whether the command ran",
    )
}

pub(crate) fn nonsense(reason: &str) -> Failure {
    Failure::new(
        Code::GatewayUnreachable,
        format!("the gateway and this program disagree about the protocol: {reason}"),
        "stop the gateway and start it again from this version",
    )
}
