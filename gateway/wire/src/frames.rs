//! JSON-RPC 2.0 messages, one a line: read strictly, written compactly.
//!
//! A line has a largest length and a deepest nesting, no key twice, and no member that JSON-RPC does not
//! know. [`decode`] is total: every byte string gives a frame or an error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stockade_text::json::{Dialect, read};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::errors::{Code, Failure};

/// Longest line, in bytes, without its line feed.
pub const LONGEST_LINE: usize = 8 << 20;

/// Identity of a request: a number or a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// Wants an answer.
    Request {
        /// Comes back in the answer.
        id: Id,
        /// Name of the method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// Wants none.
    Notification {
        /// Name of the method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// The answer to a request.
    Answer {
        /// Of which request; none when it could not be read.
        id: Option<Id>,
        /// Result of the request, or its error.
        result: Result<Value, RpcError>,
    },
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct RpcError {
    /// Stable number, see [`number`].
    pub code: i64,
    /// Description of the error, one line.
    pub message: String,
    /// The [`Failure`], when it is one of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The line is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The line is not a message of JSON-RPC 2.0.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is not known.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not those of the method.
pub const INVALID_PARAMS: i64 = -32602;

/// Returns the stable number of a failure's code.
pub fn number(code: Code) -> i64 {
    match code {
        Code::InvalidRequest => -32001,
        Code::NotUtf8 => -32002,
        Code::SettingsRejected => -32003,
        Code::SettingsUnreadable => -32004,
        Code::DirectoryUnusable => -32005,
        Code::StateUnusable => -32006,
        Code::ShellMissing => -32007,
        Code::AuditUnavailable => -32008,
        Code::SandboxUnavailable => -32009,
        Code::LaunchFailed => -32010,
        Code::GatewayUnreachable => -32011,
        Code::VersionMismatch => -32012,
        Code::Internal => -32013,
        Code::AgentUnguarded => -32014,
        Code::TaskUnknown => -32015,
    }
}

impl RpcError {
    /// Returns an error with one of the codes of JSON-RPC itself.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// Returns the error that carries `failure`.
    pub fn failure(failure: &Failure) -> RpcError {
        RpcError {
            code: number(failure.code),
            message: failure.message.clone(),
            data: serde_json::to_value(failure).ok(),
        }
    }

    /// Returns the failure that this error carries, or one with its message.
    pub fn into_failure(self) -> Failure {
        let carried = self.data.and_then(|data| serde_json::from_value(data).ok());
        carried.unwrap_or_else(|| Failure::new(Code::Internal, self.message, ""))
    }
}

/// Reads one line, without its line feed.
pub fn decode(line: &[u8]) -> Result<Frame, RpcError> {
    if line.len() > LONGEST_LINE {
        return Err(RpcError::new(
            INVALID_REQUEST,
            format!("a line is longer than {LONGEST_LINE} bytes"),
        ));
    }
    // The strict reader first: it bounds the depth and refuses a key that stands twice.
    if let Err(error) = read(line, Dialect::Strict) {
        return Err(RpcError::new(PARSE_ERROR, format!("byte {}: {}", error.at, error.message)));
    }
    let value = serde_json::from_slice(line)
        .map_err(|error| RpcError::new(PARSE_ERROR, error.to_string()))?;
    let Value::Object(members) = value else { return Err(malformed("a message is an object")) };
    frame(members)
}

/// Writes one frame as a line, with its line feed.
pub fn encode(frame: &Frame) -> Vec<u8> {
    let value = match frame {
        Frame::Request { id, method, params } => {
            json!({"jsonrpc": "2.0", "id": id.value(), "method": method, "params": params})
        }
        Frame::Notification { method, params } => {
            json!({"jsonrpc": "2.0", "method": method, "params": params})
        }
        Frame::Answer { id, result: Ok(result) } => {
            json!({"jsonrpc": "2.0", "id": id.as_ref().map(Id::value), "result": result})
        }
        Frame::Answer { id, result: Err(error) } => {
            json!({"jsonrpc": "2.0", "id": id.as_ref().map(Id::value), "error": error})
        }
    };
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A message of ours, written without a tree of values in between.
#[derive(Serialize)]
struct Written<'a, I, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<I>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a P>,
}

impl<I: Serialize, P: Serialize> Written<'_, I, P> {
    const NOTHING: Self =
        Written { jsonrpc: "2.0", id: None, method: None, params: None, result: None };

    fn line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = Vec::with_capacity(1 << 10);
        serde_json::to_writer(&mut line, self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Writes a request as a line, with its line feed.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let (id, method, params) = (Some(id), Some(method), Some(params));
    Written { id, method, params, ..Written::NOTHING }.line()
}

/// Writes a notification as a line, with its line feed.
pub fn notification(method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let (method, params) = (Some(method), Some(params));
    Written::<u64, _> { method, params, ..Written::NOTHING }.line()
}

/// Writes the answer to request `id` as a line, with its line feed.
pub fn answer(id: &Value, result: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    Written { id: Some(id), result: Some(result), ..Written::NOTHING }.line()
}

/// Lines out of a stream that is read in pieces.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Bytes at the beginning that hold no line feed.
    searched: usize,
}

impl Lines {
    /// Most bytes that are read at once.
    const PIECE: usize = 16 << 10;

    /// Returns the next whole line, without its line feed. A line that is too long is an error of kind `InvalidData`.
    pub fn next_line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        let found = rest.iter().position(|byte| *byte == b'\n');
        let length = self.searched + found.unwrap_or(rest.len());
        if length > LONGEST_LINE {
            return Err(cut("a line is too long"));
        }
        if found.is_none() {
            self.searched = length;
            return Ok(None);
        }
        self.searched = 0;
        let rest = self.bytes.split_off((length + 1).min(self.bytes.len()));
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.truncate(length);
        Ok(Some(line))
    }

    /// Reads a piece from `input`; zero bytes are its end.
    pub fn fill(&mut self, mut input: impl std::io::Read) -> std::io::Result<usize> {
        self.fill_from(|buffer| input.read(buffer))
    }

    /// Has `read` write a piece behind what is there.
    pub fn fill_from(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let before = self.bytes.len();
        self.bytes.resize(before + Lines::PIECE, 0);
        let result = read(self.bytes.get_mut(before..).unwrap_or_default());
        let count = result.as_ref().map_or(0, |count| *count);
        self.bytes.truncate(before + count);
        result
    }
}

/// Reads the next line from `input`, without its line feed; none at the end of the stream.
///
/// A line that is too long is an error of kind `InvalidData`; so is an end inside a line. Not safe to
/// cancel: the caller waits for nothing else meanwhile.
pub async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return if line.is_empty() {
                Ok(None)
            } else {
                Err(cut("the stream ends inside a line"))
            };
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        if line.len() + piece.len() > LONGEST_LINE {
            return Err(cut("a line is too long"));
        }
        line.extend_from_slice(piece);
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

fn cut(message: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, message.to_owned())
}

fn malformed(message: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_REQUEST, message)
}

fn frame(mut members: Map<String, Value>) -> Result<Frame, RpcError> {
    if members.remove("jsonrpc") != Some(Value::from("2.0")) {
        return Err(malformed("`jsonrpc` must be \"2.0\""));
    }
    let had_id = members.contains_key("id");
    let id = members.remove("id").map(id_of).transpose()?.flatten();
    let method = members.remove("method");
    let params = members.remove("params");
    let result = members.remove("result");
    let error = members.remove("error");
    if let Some(key) = members.keys().next() {
        return Err(malformed(format!("unknown member `{key}`")));
    }
    match (method, params, result, error) {
        (Some(Value::String(method)), params, None, None) => {
            let params = params.unwrap_or_else(|| json!({}));
            match (had_id, id) {
                (true, Some(id)) => Ok(Frame::Request { id, method, params }),
                (false, None) => Ok(Frame::Notification { method, params }),
                (true, None) | (false, Some(_)) => Err(malformed("`id` must not be null")),
            }
        }
        (None, None, Some(result), None) if had_id => Ok(Frame::Answer { id, result: Ok(result) }),
        (None, None, None, Some(error)) if had_id => {
            Ok(Frame::Answer { id, result: Err(error_of(error)?) })
        }
        (_, _, _, _) => {
            Err(malformed("a message has `method`, or `id` and one of `result`, `error`"))
        }
    }
}

fn id_of(value: Value) -> Result<Option<Id>, RpcError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Id::Text(text))),
        Value::Number(number) => match number.as_u64() {
            Some(number) => Ok(Some(Id::Number(number))),
            None => Err(malformed("`id` must be a whole number or a text")),
        },
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(malformed("`id` must be a whole number or a text"))
        }
    }
}

fn error_of(value: Value) -> Result<RpcError, RpcError> {
    let Value::Object(mut members) = value else {
        return Err(malformed("`error` must be an object"));
    };
    match (members.remove("code").and_then(|code| code.as_i64()), members.remove("message")) {
        (Some(code), Some(Value::String(message))) => {
            Ok(RpcError { code, message, data: members.remove("data") })
        }
        (_, _) => Err(malformed("`error` must have `code` and `message`")),
    }
}

impl Id {
    /// Returns the identity as it stands in a message.
    pub fn value(&self) -> Value {
        match self {
            Id::Number(number) => Value::from(*number),
            Id::Text(text) => Value::from(text.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (i64, String) {
        let error = decode(line.as_bytes()).unwrap_err();
        (error.code, error.message)
    }

    #[test]
    fn every_frame_is_read_back_as_it_was_written() {
        let id = Id::Number(7);
        let failure = Failure::new(Code::ShellMissing, "no bash", "install bash");
        for frame in [
            Frame::Request { id: id.clone(), method: "run".into(), params: json!({"a": [1]}) },
            Frame::Notification { method: "output".into(), params: json!({"bytes": "AA=="}) },
            Frame::Answer { id: Some(id.clone()), result: Ok(json!({"x": null})) },
            Frame::Answer {
                id: Some(Id::Text("q1".into())),
                result: Err(RpcError::failure(&failure)),
            },
            Frame::Answer { id: None, result: Err(RpcError::new(PARSE_ERROR, "byte 0: no")) },
        ] {
            let line = encode(&frame);
            assert_eq!(line.last(), Some(&b'\n'));
            assert_eq!(decode(&line[..line.len() - 1]), Ok(frame));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_a_stable_code() {
        assert_eq!(refused("").0, PARSE_ERROR);
        assert_eq!(refused("{\"a\":1,\"a\":2}").0, PARSE_ERROR);
        assert_eq!(refused(&"[".repeat(100_000)).0, PARSE_ERROR);
        assert_eq!(refused("[]"), (INVALID_REQUEST, "a message is an object".into()));
        assert_eq!(refused(r#"{"method":"run","id":1}"#).0, INVALID_REQUEST);
        assert_eq!(refused(r#"{"jsonrpc":"2.0","method":"run","id":null}"#).0, INVALID_REQUEST);
        assert_eq!(refused(r#"{"jsonrpc":"2.0","method":"run","id":1.5}"#).0, INVALID_REQUEST);
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#).0, INVALID_REQUEST);
        assert_eq!(refused(r#"{"jsonrpc":"2.0","method":"run","extra":1}"#).0, INVALID_REQUEST);
    }

    #[test]
    fn what_is_written_without_a_tree_is_the_same_line() {
        let (id, params) = (Id::Number(7), json!({"a": [1, null]}));
        let (method, result) = ("run".to_owned(), Ok(params.clone()));
        let whole =
            Frame::Request { id: id.clone(), method: method.clone(), params: params.clone() };
        assert_eq!(request(7, "run", &params).unwrap(), encode(&whole));
        let whole = Frame::Notification { method, params: params.clone() };
        assert_eq!(notification("run", &params).unwrap(), encode(&whole));
        let whole = Frame::Answer { id: Some(id.clone()), result };
        assert_eq!(answer(&id.value(), &params).unwrap(), encode(&whole));
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\n\ntwo\nrest";
        for piece in 1..text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for bytes in text.chunks(piece) {
                assert_eq!(lines.fill(bytes).unwrap(), bytes.len());
                while let Some(line) = lines.next_line().unwrap() {
                    found.push(line);
                }
            }
            assert_eq!(found, [b"one".to_vec(), Vec::new(), b"two".to_vec()]);
        }
    }

    #[test]
    fn a_failure_comes_back_whole() {
        let failure = Failure::new(Code::AuditUnavailable, "cannot be written", "free some space");
        assert_eq!(RpcError::failure(&failure).into_failure(), failure);
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let seed = encode(&Frame::Request {
            id: Id::Text("a".into()),
            method: "run".into(),
            params: json!({"command": {"shell": "ls \u{e9}"}, "n": [1, -2.5e3, null, true]}),
        });
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bytes = seed.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 20) as u8;
            }
            let _ = decode(&bytes);
        }
    }
}
