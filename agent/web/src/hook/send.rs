//! Sends each question once, and that it is no longer open.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::form::Form;
use super::say;
use super::sign::{Direction, HEADER, Key};
use crate::questions::Shown;

/// How long the other end has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long is waited before each further try.
const AGAIN: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];
/// Most messages on their way at once; the others wait.
const MOST: usize = 8;

/// Returns what sends all that is shown, until the questions are no longer watched. No redirect is followed, and no proxy
/// of the environment is used but for `https`.
pub(crate) fn send(
    mut shown: watch::Receiver<Shown>,
    url: Url,
    key: Arc<Key>,
    form: Form,
) -> anyhow::Result<impl Future<Output = ()>> {
    let building = Client::builder().timeout(PATIENCE).redirect(redirect::Policy::none());
    let building = if url.scheme() == "http" { building.no_proxy() } else { building };
    let post = Post { http: building.build()?, url, key };
    let places = Arc::new(Semaphore::new(MOST));
    shown.mark_changed();
    Ok(async move {
        let (mut open, mut closed) = (BTreeSet::new(), BTreeSet::new());
        let mut approved: BTreeMap<String, Vec<String>> = BTreeMap::new();
        while shown.changed().await.is_ok() {
            let mut messages = Vec::new();
            {
                let shown = shown.borrow_and_update();
                for view in &shown.waiting {
                    let so_far = view.required.as_ref().map(|it| it.approved.clone());
                    let so_far = so_far.unwrap_or_default();
                    let before = approved.insert(view.id.clone(), so_far.clone());
                    if open.insert(view.id.clone()) {
                        messages.push((format!("question {}", view.id), form.opened(view)));
                    } else if before.is_some_and(|before| before != so_far) {
                        let message = form.approved(view);
                        let what = format!("approval of question {}", view.id);
                        messages.extend(message.map(|it| (what, it)));
                    }
                }
                for past in &shown.past {
                    let id = &past.view.id;
                    if open.contains(id) && closed.insert(id.clone()) {
                        let message = form.closed(id, past.how);
                        messages.extend(message.map(|it| (format!("end of question {id}"), it)));
                    }
                }
            }
            for (what, message) in messages {
                let (post, places) = (post.clone(), Arc::clone(&places));
                tokio::spawn(async move {
                    let Ok(_place) = places.acquire().await else { return };
                    post.told(&what, &message).await;
                });
            }
        }
    })
}

#[derive(Debug, Clone)]
struct Post {
    http: Client,
    url: Url,
    key: Arc<Key>,
}

impl Post {
    /// Sends a message, tries again where that may help, and prints the outcome.
    async fn told(&self, what: &str, message: &Value) {
        let mut waits = AGAIN.into_iter();
        loop {
            let failed = match self.once(message).await {
                Ok(()) => {
                    tracing::debug!(what, "sent");
                    let _ = say(&format!("sent {what}")); // nobody reads it
                    return;
                }
                Err(failed) => failed,
            };
            tracing::info!(what, why = %failed.why, may_pass = failed.may_pass, "not sent");
            match waits.next().filter(|_| failed.may_pass) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => {
                    eprintln!("stockade: cannot send {what}: {}", failed.why);
                    return;
                }
            }
        }
    }

    async fn once(&self, message: &Value) -> Result<(), Failed> {
        let body = message.to_string();
        let signature = self.key.sign(Direction::Question, body.as_bytes());
        let request = self.http.post(self.url.clone()).header("content-type", "application/json");
        let request = request.header(HEADER, signature.unwrap_or_default()).body(body);
        // The address may hold a secret, so no error says it.
        let sent = request
            .send()
            .await
            .map_err(|error| Failed { why: reason(&error.without_url()), may_pass: true })?;
        let status = sent.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(Failed {
                why: format!("the webhook answered {status}"),
                may_pass: status.is_server_error() || status.as_u16() == 429,
            }),
        }
    }
}

struct Failed {
    why: String,
    /// Whether another try may succeed.
    may_pass: bool,
}

/// Returns an error with its causes.
fn reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
