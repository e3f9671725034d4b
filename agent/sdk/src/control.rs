//! Lines of the host, and control frames in both directions.

use serde_json::{Value, json};

/// A line of the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A message of the user.
    User(Value),
    /// A request: identity, subtype, and the request itself.
    Request(String, String, Value),
    /// The answer to a request of this side: identity, and the answer or why there is none.
    Response(String, Result<Value, String>),
    /// The host does not want an answer to a request any more.
    Cancel(String),
    /// Something that this version does not know, or that is not a frame.
    Unknown(String),
}

/// Reads a line.
#[must_use]
pub fn incoming(line: &str) -> Incoming {
    let Ok(frame) = serde_json::from_str::<Value>(line) else {
        return Incoming::Unknown("not JSON".into());
    };
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match text(&frame, "type").as_str() {
        "user" => Incoming::User(frame),
        "control_request" => {
            let request = frame.get("request").cloned().unwrap_or_default();
            Incoming::Request(text(&frame, "request_id"), text(&request, "subtype"), request)
        }
        "control_response" => {
            let response = frame.get("response").cloned().unwrap_or_default();
            let id = text(&response, "request_id");
            match text(&response, "subtype").as_str() {
                "success" => Incoming::Response(
                    id,
                    Ok(response.get("response").cloned().unwrap_or_default()),
                ),
                _ => Incoming::Response(id, Err(text(&response, "error"))),
            }
        }
        "control_cancel_request" => Incoming::Cancel(text(&frame, "request_id")),
        other => Incoming::Unknown(other.to_owned()),
    }
}

/// Returns a request to the host.
#[must_use]
pub fn request(id: &str, request: Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// Returns the answer to a request of the host.
#[must_use]
pub fn response(id: &str, answer: Result<Value, String>) -> Value {
    let response = match answer {
        Ok(answer) => json!({ "subtype": "success", "request_id": id, "response": answer }),
        Err(error) => json!({ "subtype": "error", "request_id": id, "error": error }),
    };
    json!({ "type": "control_response", "response": response })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let request =
            r#"{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}"#;
        assert_eq!(
            incoming(request),
            Incoming::Request("r1".into(), "interrupt".into(), json!({ "subtype": "interrupt" }))
        );
        let error = r#"{"type":"control_response","response":{"subtype":"error","request_id":"x","error":"no"}}"#;
        assert_eq!(incoming(error), Incoming::Response("x".into(), Err("no".into())));
        let empty = r#"{"type":"control_response","response":{"request_id":"x","response":{}}}"#;
        assert_eq!(incoming(empty), Incoming::Response("x".into(), Err(String::new())));
        assert_eq!(incoming("{"), Incoming::Unknown("not JSON".into()));
        for odd in
            ["[]", "1", "null", "{}", r#"{"type":"control_request"}"#, r#"{"type":1,"request":[]}"#]
        {
            assert!(!matches!(incoming(odd), Incoming::User(_) | Incoming::Response(..)), "{odd}");
        }
        assert_eq!(
            incoming(&response("x", Ok(json!(1))).to_string()),
            Incoming::Response("x".into(), Ok(json!(1)))
        );
    }
}
