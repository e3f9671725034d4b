//! Sends requests and reads streams, with retries.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime};

use eventsource_stream::Eventsource as _;
use futures_util::{StreamExt as _, stream};
use reqwest::redirect;
use serde_json::Value;

use crate::answer::{Answer, Collected};
use crate::endpoint::Endpoint;
use crate::error::{Error, Refusal};
use crate::event::{Event, Stop};
use crate::http::{CONNECT, UNREACHED, headers, told};
use crate::message::Request;
use crate::retry::{Retries, asked_wait, is_worth_a_retry};
use crate::wire::{self, Fault};

/// Limit until the head of a response arrives: local servers read the whole prompt before.
const HEAD: Duration = Duration::from_secs(600);
/// Most bytes of one answer.
const MAX_ANSWER: usize = 64 << 20;
/// Most bytes that are read of an error response.
const MAX_ERROR: usize = 64 << 10;
/// Most characters of an endpoint's message that are repeated.
const MAX_MESSAGE: usize = 500;

/// Asks one endpoint.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    retries: Retries,
}

/// Why one try failed.
enum Failed {
    Again { status: Option<u16>, reason: String, wait: Option<Duration> },
    Final(Error),
}

impl Client {
    /// Makes a client. Proxy variables and `SSL_CERT_FILE` of the environment apply. Redirects are not followed, so a
    /// key stays with the endpoint.
    pub fn new(endpoint: Endpoint, retries: Retries) -> Result<Client, Error> {
        let settings = |error: String| Error::Settings(error);
        let mut building = reqwest::Client::builder()
            .user_agent(concat!("stockade/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT)
            .default_headers(headers(&endpoint)?);
        if let Some(socket) = &endpoint.relay {
            // The relay checks the certificate of the endpoint; there is none on the way to it.
            building =
                building.unix_socket(socket.as_path()).no_proxy().tls_built_in_root_certs(false);
        }
        let http = building.build().map_err(|error| settings(told(&error)))?;
        Ok(Client { http, endpoint, retries })
    }

    /// Asks the model and reports each event as it arrives. To cancel, drop the future.
    ///
    /// # Errors
    ///
    /// The endpoint rejects the request, all tries fail, or the endpoint asks for too long a wait.
    pub async fn ask(
        &self,
        request: &Request,
        report: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Answer, Error> {
        let body = wire::body(self.endpoint.provider, request).to_string();
        let mut tried = 1;
        loop {
            let id = identifier();
            let (status, reason, asked) = match self.attempt(&body, &id, report).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Again { status, reason, wait }) => (status, reason, wait),
            };
            if let (Some(wait), Some(status)) = (asked, status)
                && wait > self.retries.patience
            {
                return Err(Error::Wait { wait, status, reason, request: id });
            }
            if tried >= self.retries.tries {
                return Err(Error::GaveUp { tries: tried, status, reason, request: id });
            }
            let delay = asked.unwrap_or_else(|| self.retries.delay(tried, chance()));
            tried = tried.saturating_add(1);
            let of = self.retries.tries;
            report(Event::Retry { attempt: tried, of, delay, status, reason });
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt(
        &self,
        body: &str,
        id: &str,
        report: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Answer, Failed> {
        let sending = self
            .http
            .post(wire::address(&self.endpoint))
            .header("x-client-request-id", id)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(body.to_owned())
            .send();
        let again = |reason: String| Failed::Again { status: None, reason, wait: None };
        let response = match tokio::time::timeout(HEAD, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_builder() => {
                return Err(Failed::Final(Error::Settings(told(&error))));
            }
            Ok(Err(error)) => return Err(again(told(&error))),
            Err(_) => return Err(again(format!("no response within {} s", HEAD.as_secs()))),
        };
        if self.endpoint.relay.is_some() && header(&response, UNREACHED).is_some() {
            return Err(again(body_of(response).await));
        }
        if response.status().is_success() {
            self.read(response, id, report).await
        } else {
            Err(refused(response, id).await)
        }
    }

    /// Reads a stream to its end.
    async fn read(
        &self,
        response: reqwest::Response,
        id: &str,
        report: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Answer, Failed> {
        let status = response.status().as_u16();
        let kind = header(&response, "content-type").unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let message = format!("the response is `{}`, not an event stream", shown(&kind));
            return Err(Failed::Final(invalid(status, message, id)));
        }
        let silence = self.endpoint.silence;
        let mut events = std::pin::pin!(pieces(response, silence).eventsource());
        let mut decoder = wire::decoder(self.endpoint.provider);
        let mut collected = Collected::default();
        let broken = loop {
            let step = match events.next().await {
                Some(Ok(event)) => decoder.take(&event.event, &event.data),
                Some(Err(error)) => break error.to_string(),
                None => match decoder.end() {
                    Some(events) => Ok(events),
                    None => break "the stream ended early".to_owned(),
                },
            };
            match step {
                Ok(events) => {
                    for event in events {
                        collected.take(&event);
                        report(event);
                    }
                }
                Err(Fault::Again(reason)) => break reason,
                Err(Fault::Final(kind, message)) => {
                    let refusal = Refusal::of(status, &kind, &message);
                    let (message, request) = (shown(&message), id.to_owned());
                    return Err(Failed::Final(Error::Refused {
                        refusal,
                        status,
                        message,
                        request,
                    }));
                }
            }
            if decoder.is_complete() {
                return Ok(collected.answer(Stop::EndTurn));
            }
        };
        // A complete call may have been shown already, and is not asked for again.
        if collected.has_call() {
            return Ok(collected.answer(Stop::Broken));
        }
        Err(Failed::Again { status: None, reason: shown(&broken), wait: None })
    }
}

/// Why no further bytes of a stream come.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("no data for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the answer is longer than {} MiB", MAX_ANSWER >> 20)]
    Long,
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// Returns the bytes of a response as a stream that ends with an error after `silence` without bytes, or above
/// [`MAX_ANSWER`].
fn pieces(
    response: reqwest::Response,
    silence: Duration,
) -> impl futures_util::Stream<Item = Result<Vec<u8>, Cut>> {
    stream::try_unfold((response, 0_usize), move |(mut response, read)| async move {
        let piece = match tokio::time::timeout(silence, response.chunk()).await {
            Err(_) => return Err(Cut::Silent(silence)),
            Ok(Err(error)) => return Err(Cut::Broken(told(&error))),
            Ok(Ok(None)) => return Ok(None),
            Ok(Ok(Some(piece))) => piece,
        };
        let read = read.saturating_add(piece.len());
        if read > MAX_ANSWER {
            return Err(Cut::Long);
        }
        Ok(Some((piece.to_vec(), (response, read))))
    })
}

/// Reads a short text.
async fn body_of(response: reqwest::Response) -> String {
    let text = tokio::time::timeout(CONNECT, response.text()).await;
    text.ok().and_then(Result::ok).map_or_else(|| "the request failed".to_owned(), |it| shown(&it))
}

/// Reads an error response.
async fn refused(mut response: reqwest::Response, id: &str) -> Failed {
    let status = response.status().as_u16();
    let [should, milliseconds, after] =
        ["x-should-retry", "retry-after-ms", "retry-after"].map(|name| header(&response, name));
    let mut body = Vec::new();
    while let Ok(Ok(Some(piece))) = tokio::time::timeout(CONNECT, response.chunk()).await {
        body.extend_from_slice(&piece);
        if body.len() >= MAX_ERROR {
            break;
        }
    }
    let (kind, message) = match serde_json::from_slice::<Value>(&body) {
        Ok(value) => wire::error(value.get("error").unwrap_or(&value)),
        Err(_) => (String::new(), String::from_utf8_lossy(&body).into_owned()),
    };
    let message = if message.trim().is_empty() { "no message".to_owned() } else { shown(&message) };
    let refusal = Refusal::of(status, &kind, &message);
    let worth = is_worth_a_retry(status, should.as_deref());
    if worth && !matches!(refusal, Refusal::Credit | Refusal::TooLong) {
        let wait = asked_wait(milliseconds.as_deref(), after.as_deref(), SystemTime::now());
        return Failed::Again {
            status: Some(status),
            reason: format!("HTTP {status}: {message}"),
            wait,
        };
    }
    Failed::Final(Error::Refused { refusal, status, message, request: id.to_owned() })
}

fn invalid(status: u16, message: String, id: &str) -> Error {
    Error::Refused { refusal: Refusal::Invalid, status, message, request: id.to_owned() }
}

/// Returns the value of a header that is plain text.
fn header(response: &reqwest::Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns text of an endpoint in one line without control characters, at most [`MAX_MESSAGE`] characters of it.
fn shown(text: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    text.chars().map(plain).take(MAX_MESSAGE).collect::<String>().trim().to_owned()
}

/// Returns 64 random bits: each `RandomState` has keys of its own (documentation of `std::hash::RandomState`).
fn random() -> u64 {
    RandomState::new().hash_one(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok())
}

/// Returns an identifier for one HTTP request.
fn identifier() -> String {
    format!("{:016x}{:016x}", random(), random())
}

fn chance() -> u8 {
    random().to_le_bytes()[0]
}
