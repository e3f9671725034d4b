//! Sends requests to a collector, and says what became of them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Client, redirect};

use crate::export;
use crate::settings::{Settings, Signal, Target};

/// Most bytes of an answer that are read.
const LONGEST_ANSWER: usize = 64 << 10;
/// Longest time that a collector can ask for before the next try.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Most characters of a reason that a collector gives.
const LONGEST_REASON: usize = 200;

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sent {
    /// The collector has it, except for so many items of which it says why.
    Accepted(Option<(u64, String)>),
    /// The collector rejects the request for good.
    Refused(String),
    /// Another try may help, not before the time that the collector asks for.
    Later(String, Option<Duration>),
}

/// The way to a collector.
#[derive(Debug)]
pub(crate) struct Sender {
    http: Client,
    /// For `http`, which goes through no proxy of the environment.
    plain: Client,
    targets: BTreeMap<Signal, Target>,
}

impl Sender {
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Sender> {
        let building = || -> anyhow::Result<reqwest::ClientBuilder> {
            let agent = concat!("stockade-telemetry/", env!("CARGO_PKG_VERSION"));
            let building = Client::builder().redirect(redirect::Policy::none()).user_agent(agent);
            Ok(match &settings.authority {
                Some(pem) => {
                    let authority = Certificate::from_pem(pem);
                    building.add_root_certificate(
                        authority.context(
                            "the file of OTEL_EXPORTER_OTLP_CERTIFICATE is no certificate",
                        )?,
                    )
                }
                None => building,
            })
        };
        Ok(Sender {
            http: building()?.build()?,
            plain: building()?.no_proxy().build()?,
            targets: settings.targets.clone(),
        })
    }

    pub(crate) fn sends(&self, signal: Signal) -> bool {
        self.targets.contains_key(&signal)
    }

    /// Sends one request. A signal that is switched off is accepted.
    pub(crate) async fn send(&self, signal: Signal, body: Vec<u8>) -> Sent {
        let Some(target) = self.targets.get(&signal) else { return Sent::Accepted(None) };
        let client = if target.url.scheme() == "http" { &self.plain } else { &self.http };
        let request = client.post(target.url.clone()).headers(target.headers.clone());
        let request = request
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))
            .timeout(target.timeout)
            .body(body);
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            // The address may hold a secret, so no error says it.
            Err(error) => return Sent::Later(reason(&error.without_url()), None),
        };
        let status = answer.status();
        let wait = answer.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
        let mut text = Vec::new();
        while let Ok(Some(piece)) = answer.chunk().await {
            text.extend(piece);
            if text.len() > LONGEST_ANSWER {
                break;
            }
        }
        let said = format!("the collector answered {status}");
        match status.as_u16() {
            _ if status.is_success() => {
                let rejected = export::rejected(&text);
                Sent::Accepted(rejected.map(|(count, why)| (count, shown(&why))))
            }
            429 | 502 | 503 | 504 => {
                Sent::Later(said, wait.map(|it| Duration::from_secs(it).min(LONGEST_WAIT)))
            }
            _ => Sent::Refused(said),
        }
    }
}

/// Returns text of a collector so that it can be shown on a terminal.
fn shown(text: &str) -> String {
    text.escape_debug().take(LONGEST_REASON).collect()
}

/// Returns an error with its causes.
fn reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
