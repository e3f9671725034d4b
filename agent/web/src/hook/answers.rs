//! Takes answers: signed, about the question that was shown, and for one call unless they say more.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use stockade_wire::approvals::{ApprovalRequest, Lasts};
use stockade_wire::words;

use super::form::Form;
use super::say;
use super::sign::{Direction, HEADER, Key};
use crate::questions::Questions;

/// Longest answer, in bytes. Slack sends the message back, so it is longer than the longest command.
const LONGEST: usize = 64 * 1024;
/// Most characters of a name.
const LONGEST_NAME: usize = 200;

#[derive(Debug, Clone)]
struct Ear {
    questions: Arc<Questions>,
    key: Arc<Key>,
    form: Form,
}

/// Returns the one path at which answers of this form are taken.
pub(crate) fn routes(questions: Arc<Questions>, key: Arc<Key>, form: Form) -> Router {
    Router::new()
        .route(form.path(), post(answer))
        .layer(DefaultBodyLimit::max(LONGEST))
        .with_state(Ear { questions, key, form })
}

/// A parsed answer.
#[derive(Debug, PartialEq, Eq)]
struct Given {
    request: ApprovalRequest,
    /// The name of the person who answered, as the other end says.
    by: String,
}

async fn answer(State(ear): State<Ear>, headers: HeaderMap, body: Bytes) -> Response {
    if !ear.is_signed(&headers, &body) {
        return refuse(StatusCode::UNAUTHORIZED, "the signature is invalid or too old");
    }
    let given = match ear.form {
        Form::Plain => plain(&body),
        Form::Slack => slack(&body),
        Form::Teams => teams(&body),
    };
    let Given { request, by } = match given {
        Ok(given) => given,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    let mut request = request;
    match &mut request {
        ApprovalRequest::Allow { claimed, .. } | ApprovalRequest::Deny { claimed, .. } => {
            *claimed = Some(by.chars().take(LONGEST_NAME).collect());
        }
        ApprovalRequest::List => {}
    }
    let told = match &request {
        ApprovalRequest::Allow { id, .. } => format!("{by} allowed question {id}"),
        ApprovalRequest::Deny { id, .. } => format!("{by} denied question {id}"),
        ApprovalRequest::List => return refuse(StatusCode::BAD_REQUEST, "not an answer"),
    };
    let questions = ear.questions;
    match tokio::task::spawn_blocking(move || questions.answer(&request)).await {
        Ok(Ok(())) => {
            let _ = say(&told); // nobody reads it
            Json(json!({ "type": "message", "text": told })).into_response()
        }
        Ok(Err(failure)) => refuse(StatusCode::CONFLICT, &failure.message),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the answer was not passed on"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "message": why }))).into_response()
}

impl Ear {
    fn is_signed(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        // A header that is there twice is none.
        let text = |name: &str| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().and_then(|value| value.to_str().ok());
            first.filter(|_| all.next().is_none()).unwrap_or_default()
        };
        match self.form {
            Form::Plain => self.key.accepts(Direction::Answer, text(HEADER), body),
            Form::Slack => {
                let seconds = text("x-slack-request-timestamp");
                self.key.accepts_slack(seconds, text("x-slack-signature"), body)
            }
            Form::Teams => self.key.accepts_teams(text("authorization"), body),
        }
    }
}

/// An answer in our own form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    act: Act,
    id: String,
    digest: String,
    by: String,
    #[serde(default)]
    lasts: Lasts,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Allow,
    Deny,
}

fn plain(body: &[u8]) -> Result<Given, &'static str> {
    let Plain { act, id, digest, by, lasts, why } =
        serde_json::from_slice(body).map_err(|_| "not an answer")?;
    if lasts == Lasts::Always {
        return Err("a webhook cannot write a rule");
    }
    if by.trim().is_empty() || by.chars().count() > LONGEST_NAME {
        return Err("`by` does not say who answers");
    }
    let by = words::one_line(&by);
    let digest = Some(digest);
    let request = match act {
        Act::Allow => {
            ApprovalRequest::Allow { id, lasts, digest, break_glass: None, claimed: None }
        }
        Act::Deny => ApprovalRequest::Deny { id, why, digest, claimed: None },
    };
    Ok(Given { request, by })
}

/// Reads what Slack sends when a button is pressed: a form with the member `payload`.
/// Source: <https://docs.slack.dev/reference/interaction-payloads/block_actions-payload>.
fn slack(body: &[u8]) -> Result<Given, &'static str> {
    let mut payloads = form_urlencoded::parse(body).filter(|(name, _)| name == "payload");
    let payload = payloads.next().filter(|_| payloads.next().is_none());
    let (_, payload) = payload.ok_or("not an action of Slack")?;
    let payload: Value = serde_json::from_str(&payload).map_err(|_| "not an action of Slack")?;
    let actions = payload.get("actions").and_then(Value::as_array).map(Vec::as_slice);
    let [action] = actions.unwrap_or_default() else { return Err("not one action") };
    let by = payload.pointer("/user/username").or_else(|| payload.pointer("/user/id"));
    typed(action.get("value").and_then(Value::as_str).unwrap_or_default(), by)
}

/// Reads what an outgoing webhook of Teams sends: a message that begins with the name of the webhook in `<at>`.
fn teams(body: &[u8]) -> Result<Given, &'static str> {
    let message: Value = serde_json::from_slice(body).map_err(|_| "not a message of Teams")?;
    let text =
        message.get("text").and_then(Value::as_str).unwrap_or_default().replace("&nbsp;", " ");
    let text = text.split_once("</at>").map_or(text.as_str(), |(_, rest)| rest);
    let text = text.replace("<p>", " ").replace("</p>", " ");
    typed(&text, message.pointer("/from/name"))
}

/// Reads `allow ID DIGEST` or `deny ID DIGEST`.
fn typed(text: &str, by: Option<&Value>) -> Result<Given, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [act, id, digest] = words.as_slice() else {
        return Err("write `allow ID DIGEST` or `deny ID DIGEST`");
    };
    let by = by.and_then(Value::as_str).unwrap_or("somebody");
    let by = words::one_line(&by.chars().take(LONGEST_NAME).collect::<String>());
    let (id, digest) = ((*id).to_owned(), Some((*digest).to_owned()));
    let request = match *act {
        "allow" => ApprovalRequest::Allow {
            id,
            lasts: Lasts::Once,
            digest,
            break_glass: None,
            claimed: None,
        },
        "deny" => ApprovalRequest::Deny { id, why: None, digest, claimed: None },
        _ => return Err("write `allow ID DIGEST` or `deny ID DIGEST`"),
    };
    Ok(Given { request, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(by: &str) -> Given {
        let digest = Some("d1".to_owned());
        let request = ApprovalRequest::Allow {
            id: "1f".to_owned(),
            lasts: Lasts::Once,
            digest,
            break_glass: None,
            claimed: None,
        };
        Given { request, by: by.to_owned() }
    }

    #[test]
    fn each_form_says_who_answers_which_question() {
        let body = br#"{"act":"allow","id":"1f","digest":"d1","by":"Ann"}"#;
        assert_eq!(plain(body), Ok(allowed("Ann")));
        let payload = r#"{"user":{"username":"ann"},"actions":[{"value":"allow 1f d1"}]}"#;
        let body: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", payload)
            .finish();
        assert_eq!(slack(body.as_bytes()), Ok(allowed("ann")));
        let body = r#"{"text":"<p><at>gate</at>&nbsp;allow 1f d1</p>","from":{"name":"Ann"}}"#;
        assert_eq!(teams(body.as_bytes()), Ok(allowed("Ann")));
    }

    #[test]
    fn an_answer_that_says_too_much_or_too_little_is_none() {
        for wrong in [
            r#"{"act":"allow","id":"1f","digest":"d1","by":"Ann","lasts":"always"}"#,
            r#"{"act":"allow","id":"1f","digest":"d1","by":" "}"#,
            r#"{"act":"allow","id":"1f","digest":"d1"}"#,
            r#"{"act":"allow","id":"1f","by":"Ann"}"#,
            r#"{"act":"list","id":"1f","digest":"d1","by":"Ann"}"#,
            r#"{"act":"deny","act":"allow","id":"1f","digest":"d1","by":"Ann"}"#,
            r#"{"act":"allow","id":"1f","digest":"d1","by":"Ann","always":true}"#,
            "",
        ] {
            assert!(plain(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in ["allow 1f", "allow", "", "always 1f d1", "allow 1f d1 too", "Allow 1f d1"] {
            assert!(typed(wrong, None).is_err(), "{wrong}");
        }
        let twice = "payload=%7B%7D&payload=%7B%7D";
        assert!(slack(twice.as_bytes()).is_err());
        let two = r#"payload={"actions":[{"value":"allow 1f d1"},{"value":"deny 1f d1"}]}"#;
        assert!(slack(two.as_bytes()).is_err());
    }
}
