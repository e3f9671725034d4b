//! Carries the requests of one agent to one endpoint, and adds the key that the agent does not hold.
//!
//! The relay listens at a Unix socket. Each `POST` there is sent to the endpoint, whatever path and host it names, with
//! the headers of a short list and the headers of the endpoint's settings. Redirects are not followed.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use reqwest::{Body, redirect};
use tokio::net::UnixListener;

use crate::endpoint::{Endpoint, Key};
use crate::error::Error;
use crate::http::{CONNECT, UNREACHED, headers, told};
use crate::wire;

/// Headers of the agent that reach the endpoint.
const THERE: [&str; 4] = ["accept", "content-type", "user-agent", "x-client-request-id"];
/// Headers of the endpoint that reach the agent.
const BACK: [&str; 5] =
    ["content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"];
/// Most bytes of a request.
const MAX_REQUEST: usize = 64 << 20;
/// Most bytes of an error response.
const MAX_ERROR: usize = 64 << 10;

/// The way to one endpoint.
#[derive(Debug)]
pub struct Relay {
    http: reqwest::Client,
    address: String,
    key: Option<Key>,
    /// Where each request is noted.
    notes: Option<Mutex<File>>,
}

impl Relay {
    /// Makes a relay to `endpoint`. Proxy variables and `SSL_CERT_FILE` of the environment apply.
    ///
    /// # Errors
    ///
    /// A header of the settings is invalid, or no client can be made.
    pub fn new(endpoint: &Endpoint) -> Result<Relay, Error> {
        let http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT)
            .default_headers(headers(endpoint)?)
            .build()
            .map_err(|error| Error::Settings(told(&error)))?;
        Ok(Relay { http, address: wire::address(endpoint), key: endpoint.key.clone(), notes: None })
    }

    /// Notes each request in a file: when, its identity, its bytes, and the status and time of the answer. Neither contents
    /// nor keys are noted.
    #[must_use]
    pub fn with_notes(self, file: File) -> Relay {
        Relay { notes: Some(Mutex::new(file)), ..self }
    }

    fn note(&self, request: &str, bytes: usize, (begun, status): (Instant, Option<StatusCode>)) {
        let Some(notes) = &self.notes else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let status = status.map_or_else(|| "unreached".to_owned(), |it| it.as_u16().to_string());
        let took = begun.elapsed().as_millis();
        let line = format!("{now} request {request} bytes {bytes} status {status} ms {took}\n");
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = notes.write_all(line.as_bytes()); // a full disk loses notes alone
    }

    /// Serves everybody who connects, until the future is dropped.
    pub async fn serve(self, listener: UnixListener) {
        let relay = Arc::new(self);
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Without a free descriptor the next try would fail at once.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let relay = Arc::clone(&relay);
                    async move { Ok::<_, Infallible>(relay.pass(request).await) }
                });
                let serving = hyper::server::conn::http1::Builder::new();
                // An agent that goes away needs no answer.
                let _ = serving.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        if request.method() != Method::POST {
            return own(StatusCode::METHOD_NOT_ALLOWED, "the relay takes POST alone");
        }
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
            return own(StatusCode::PAYLOAD_TOO_LARGE, "the request is longer than 64 MiB");
        };
        let body = body.to_bytes();
        let (begun, bytes) = (Instant::now(), body.len());
        let mut sending = self.http.post(&self.address).body(body);
        for name in THERE {
            if let Some(value) = head.headers.get(name) {
                sending = sending.header(name, value);
            }
        }
        let sent = sending.send().await;
        let id = head.headers.get("x-client-request-id").and_then(|it| it.to_str().ok());
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '-';
        let id: String = id.unwrap_or("-").chars().filter(|it| plain(*it)).take(64).collect();
        self.note(&id, bytes, (begun, sent.as_ref().ok().map(reqwest::Response::status)));
        match sent {
            Ok(response) => self.back(response).await,
            Err(error) => own(StatusCode::BAD_GATEWAY, &told(&error)),
        }
    }

    async fn back(&self, response: reqwest::Response) -> Response<Body> {
        let status = response.status();
        let kept: Vec<(HeaderName, HeaderValue)> = BACK
            .iter()
            .filter_map(|name| {
                let value = response.headers().get(*name)?;
                Some((HeaderName::from_static(name), value.clone()))
            })
            .collect();
        let body = match status.is_success() {
            true => Response::<Body>::from(response).into_body(),
            false => Body::from(self.error(response).await),
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        answer.headers_mut().extend(kept);
        answer
    }

    /// Reads an error response. One that repeats the key is told without it.
    async fn error(&self, mut response: reqwest::Response) -> String {
        let mut bytes = Vec::new();
        while let Ok(Ok(Some(piece))) = tokio::time::timeout(CONNECT, response.chunk()).await {
            bytes.extend_from_slice(&piece);
            if bytes.len() >= MAX_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        self.key.as_ref().map_or_else(|| text.clone().into_owned(), |key| key.mask(&text))
    }
}

/// Returns an answer of the relay itself.
fn own(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text.to_owned()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(UNREACHED, HeaderValue::from_static("1"));
    answer
}
