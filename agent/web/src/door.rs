//! The requests of a browser.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use stockade_wire::approvals::{ApprovalRequest, GrantRequest};
use stockade_wire::errors::Failure;
use tokio::sync::Semaphore;

use crate::gate::Gate;
use crate::questions::Questions;

/// The one file of the page.
const PAGE: &str = include_str!("page.html");
/// Longest request, in bytes.
const LONGEST: usize = 8192;
/// Most pages that listen at once.
const MOST_LISTENERS: usize = 16;
/// How often a page is told that the server lives.
const ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Clone)]
struct Door {
    gate: Arc<Gate>,
    questions: Arc<Questions>,
    listeners: Arc<Semaphore>,
    policy: HeaderValue,
}

/// Returns all that is answered.
pub(crate) fn routes(gate: Arc<Gate>, questions: Arc<Questions>) -> anyhow::Result<Router> {
    let listeners = Arc::new(Semaphore::new(MOST_LISTENERS));
    let door = Door { gate, questions, listeners, policy: policy()? };
    Ok(Router::new()
        .route("/", get(page))
        .route("/open", post(open))
        .route("/events", get(events))
        .route("/answer", post(answer))
        .route("/revoke", post(revoke))
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(middleware::from_fn_with_state(door.clone(), guard))
        .with_state(door))
}

/// Returns the rule for the browser: nothing runs but the script of the page, nothing comes from elsewhere, nothing goes
/// elsewhere, and no page holds this one.
fn policy() -> anyhow::Result<HeaderValue> {
    let digest = |tag: &str| {
        let rest = PAGE.split_once(&format!("<{tag}>"))?.1;
        let text = rest.split_once(&format!("</{tag}>"))?.0;
        Some(STANDARD.encode(Sha256::digest(text)))
    };
    let script = digest("script").context("the page has no script")?;
    let style = digest("style").context("the page has no style")?;
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    Ok(HeaderValue::from_str(&policy)?)
}

/// Refuses what is not this page's own, and says to the browser how closed it is.
async fn guard(State(door): State<Door>, request: Request, next: Next) -> Response {
    let mut response = match door.gate.is_own(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, door.policy);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-embedder-policy", "require-corp"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    link: String,
}

async fn open(State(door): State<Door>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(status) = door.gate.may_write(&headers) {
        return status.into_response();
    }
    let opening: Option<Opening> = serde_json::from_slice(&body).ok();
    match opening.and_then(|opening| door.gate.open(&opening.link)) {
        Some(opened) => {
            let body = Json(serde_json::json!({ "page": opened.page }));
            ([(header::SET_COOKIE, opened.cookie)], body).into_response()
        }
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

/// Tells a page all that it shows, now and at each change.
async fn events(State(door): State<Door>, headers: HeaderMap) -> Response {
    if let Err(status) = door.gate.knows(&headers) {
        return status.into_response();
    }
    let Ok(place) = Arc::clone(&door.listeners).try_acquire_owned() else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let mut shown = door.questions.shown();
    shown.mark_changed();
    let told = futures_util::stream::unfold((shown, place), |(mut shown, place)| async move {
        shown.changed().await.ok()?;
        let text = serde_json::to_string(&*shown.borrow_and_update()).ok()?;
        Some((Ok::<_, Infallible>(Event::default().data(text)), (shown, place)))
    });
    Sse::new(told).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

async fn answer(State(door): State<Door>, headers: HeaderMap, body: Bytes) -> Response {
    let Door { gate, questions, .. } = door;
    write(&gate, (&headers, &body), move |request: ApprovalRequest| questions.answer(&request))
        .await
}

async fn revoke(State(door): State<Door>, headers: HeaderMap, body: Bytes) -> Response {
    let Door { gate, questions, .. } = door;
    write(&gate, (&headers, &body), move |request: GrantRequest| questions.revoke(&request)).await
}

/// Does what a request of the page asks for.
async fn write<R: DeserializeOwned + Send + 'static>(
    gate: &Gate,
    (headers, body): (&HeaderMap, &Bytes),
    ask: impl FnOnce(R) -> Result<(), Failure> + Send + 'static,
) -> Response {
    if let Err(status) = gate.may_write(headers).and_then(|()| gate.knows(headers)) {
        return status.into_response();
    }
    let Ok(request) = serde_json::from_slice(body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    match tokio::task::spawn_blocking(move || ask(request)).await {
        Ok(Ok(())) => Json(serde_json::json!({})).into_response(),
        Ok(Err(failure)) => {
            let told = serde_json::json!({ "message": failure.message, "help": failure.help });
            (StatusCode::CONFLICT, Json(told)).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_file_that_names_no_other() {
        for elsewhere in
            ["http:", "https:", "src=", "href=", "@import", "url(", "innerHTML", "eval("]
        {
            assert!(!PAGE.contains(elsewhere), "{elsewhere}");
        }
        assert_eq!(PAGE.matches("<script").count(), 1);
        let policy = policy().unwrap();
        assert!(!policy.to_str().unwrap().contains("unsafe"), "{policy:?}");
    }

    #[test]
    fn the_answer_type_is_the_gateways() {
        let text = r#"{"act":"allow","id":"a","lasts":{"for":{"minutes":5}},"digest":"d"}"#;
        assert!(serde_json::from_str::<ApprovalRequest>(text).is_ok());
    }
}
