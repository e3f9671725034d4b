//! The questions and grants of the gateway, as it tells them, and what became of those before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use stockade_client::{Client, Options};
use stockade_wire::approvals::{ApprovalRequest, ApprovalView, GrantRequest, GrantView, Lasts};
use stockade_wire::errors::{Code, Failure};
use tokio::sync::watch;

/// How often the gateway is asked.
const LOOK: Duration = Duration::from_millis(300);
/// Most questions of which is told what became of them.
const MOST: usize = 200;

/// Content of the page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Shown {
    /// Those that wait.
    pub(crate) waiting: Vec<ApprovalView>,
    /// Required approvers in words, by the identity of the question.
    needs: BTreeMap<String, String>,
    /// Those that do not wait any more, the latest first.
    pub(crate) past: VecDeque<Past>,
    /// Rules that hold for a while.
    grants: Vec<GrantView>,
    /// Why nothing is known, if so.
    failure: Option<String>,
}

/// A question that does not wait any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Past {
    pub(crate) view: ApprovalView,
    /// The answer that was given here; `gone` for one that was answered elsewhere, withdrawn or too late.
    pub(crate) how: &'static str,
}

/// The way to the gateway, and what it told last.
#[derive(Debug)]
pub(crate) struct Questions {
    options: Options,
    shown: watch::Sender<Shown>,
    /// The connection, while it works.
    client: Mutex<Option<Client>>,
    answered: Mutex<VecDeque<(String, &'static str)>>,
}

impl Questions {
    pub(crate) fn new(options: Options) -> Questions {
        let shown = watch::Sender::default();
        Questions { options, shown, client: Mutex::default(), answered: Mutex::default() }
    }

    /// Returns what is shown, and each change of it.
    pub(crate) fn shown(&self) -> watch::Receiver<Shown> {
        self.shown.subscribe()
    }

    /// Asks the gateway; one that went away is looked for again at the next time.
    fn ask<R>(&self, ask: impl FnOnce(&mut Client) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match kept.take() {
            Some(client) => client,
            None => Client::reach(&self.options)?.ok_or_else(|| {
                Failure::new(Code::GatewayUnreachable, "none of your gateways is running", "")
            })?,
        };
        let answer = ask(&mut client);
        // A refusal comes over a connection that works.
        if !matches!(&answer, Err(it) if it.code == Code::GatewayUnreachable) {
            *kept = Some(client);
        }
        answer
    }

    /// Answers one question. The answer names the digest of the question that was shown.
    pub(crate) fn answer(&self, request: &ApprovalRequest) -> Result<(), Failure> {
        let (id, digest, how) = match request {
            ApprovalRequest::List => return Ok(()),
            ApprovalRequest::Allow { id, digest, lasts, .. } => (id, digest, name(*lasts)),
            ApprovalRequest::Deny { id, digest, .. } => (id, digest, "denied"),
        };
        if digest.is_none() {
            let message = "the answer does not say which question was shown";
            return Err(Failure::new(Code::InvalidRequest, message, ""));
        }
        // One of several approvals is not yet a yes.
        let shown = self.shown.borrow();
        let view = shown.waiting.iter().find(|view| view.id == *id);
        let is_shared = view.is_some_and(|view| view.required.is_some());
        drop(shown);
        let how = if is_shared && how != "denied" { "approved" } else { how };
        // Before it is seen to be gone.
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask(|client| client.approval(request))?;
        answered.push_front((id.clone(), how));
        answered.truncate(MOST);
        Ok(())
    }

    /// Revokes grants.
    pub(crate) fn revoke(&self, request: &GrantRequest) -> Result<(), Failure> {
        self.ask(|client| client.grant(request)).map(drop)
    }

    fn look(&self) {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.ask(|client| {
            let waiting = client.approval(&ApprovalRequest::List)?.approvals;
            Ok((waiting, client.grant(&GrantRequest::List)?.grants))
        });
        self.shown.send_if_modified(|shown| {
            let mut next = shown.clone();
            match found {
                Ok((waiting, grants)) => {
                    next.failure = None;
                    let is_gone = |old: &&ApprovalView| waiting.iter().all(|it| it.id != old.id);
                    for view in shown.waiting.iter().filter(is_gone) {
                        let how = answered.iter().find(|(id, _)| *id == view.id);
                        let how = how.map_or("gone", |(_, how)| how);
                        next.past.push_front(Past { view: view.clone(), how });
                    }
                    next.past.truncate(MOST);
                    let needs = waiting.iter().filter_map(|view| {
                        Some((view.id.clone(), view.required.as_ref()?.sentence()))
                    });
                    next.needs = needs.collect();
                    (next.waiting, next.grants) = (waiting, grants);
                }
                Err(failure) => {
                    // A gateway that is gone asks nothing any more.
                    next.waiting = Vec::new();
                    next.needs = BTreeMap::new();
                    next.grants = Vec::new();
                    next.failure = Some(failure.message);
                }
            }
            let changed = next != *shown;
            *shown = next;
            changed
        });
    }
}

fn name(lasts: Lasts) -> &'static str {
    match lasts {
        Lasts::Once => "allowed",
        Lasts::Session => "allowed for the session",
        Lasts::For(_) => "allowed for a while",
        Lasts::Always => "always allowed",
    }
}

/// Asks the gateway again and again.
pub(crate) async fn watch(questions: Arc<Questions>) {
    loop {
        let looking = Arc::clone(&questions);
        // The next turn looks again, whatever became of this one.
        let _ = tokio::task::spawn_blocking(move || looking.look()).await;
        tokio::time::sleep(LOOK).await;
    }
}
