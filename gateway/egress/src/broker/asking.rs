//! One question at a time to the person at the front end, about a host that no rule covers.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use stockade_policy::Host;
use tokio::sync::{mpsc, oneshot};

use super::Wish;
use stockade_log::Log;
use stockade_log::record::{self, Body};
use stockade_wire::conversation::{PendingQuestion, Whom};
use stockade_wire::types::{AlwaysOffer, Answer, ConnectionAsked, DecisionView, Event, Question};

/// A host with a port.
pub(super) type Key = (Host, u16);

/// The setting that "always" adds to.
const SETTING: [&str; 3] = ["sandbox", "network", "allowedDomains"];

/// Where rules are kept that a person allows for good. The broker only calls it back.
pub trait Saving: std::fmt::Debug + Send + Sync {
    /// Returns the file that a rule would be written to.
    fn file(&self) -> PathBuf;

    /// Adds `rule` to the list at `keys`, and returns the file. Blocks on the file system.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not settings, or cannot be written.
    fn save(&self, keys: &[&str], rule: &str) -> std::io::Result<PathBuf>;
}

/// Channels to the person who can be asked while a command runs, and the place of the rules that "always" writes.
#[derive(Debug, Clone)]
pub struct Person {
    /// Questions go here.
    pub questions: mpsc::Sender<PendingQuestion>,
    /// Notices go here.
    pub events: mpsc::Sender<Event>,
    /// The command, for the question.
    pub command: String,
    /// Where "always" is written.
    pub saving: Arc<dyn Saving>,
    /// Rules may be saved.
    pub may_save: bool,
}

impl Person {
    fn question(&self, key: &Key) -> Question {
        let (host, port) = key;
        let always = self.may_save.then(|| AlwaysOffer {
            rule: super::rule_for(key),
            file: self.saving.file().display().to_string(),
            wider: None,
        });
        Question {
            decision: DecisionView {
                decision: "ask".into(),
                source: "builtin".into(),
                code: "host_unlisted".into(),
                reason: format!("no rule matches `{host}:{port}`"),
                ..DecisionView::default()
            },
            command: self.command.clone(),
            always,
            connection: Some(ConnectionAsked { host: host.to_string(), port: *port }),
            session: None,
            mode: String::new(),
        }
    }

    /// Writes the host down as one that is allowed for good. The connection may be made whether or not that works.
    pub(super) async fn keep(&self, log: &Log, rule: &str) {
        let (saving, text) = (Arc::clone(&self.saving), rule.to_owned());
        let write = move || saving.save(&SETTING, &text);
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let notice = match &written {
            Ok(file) => {
                format!("`{rule}` is allowed from now on, by {}", file.display())
            }
            Err(error) => format!("`{rule}` could not be saved, so it is asked again: {error}"),
        };
        if written.is_ok() {
            let grant = record::GrantRecord {
                rule: format!("{}: {rule}", SETTING.join(".")).into(),
                layer: "local",
                action: "made",
                who: Some(record::who()),
                expires: None,
            };
            // The connection itself has a record, too, without which it is not made.
            let _ = log.record(Body::Grant(grant)).await;
        }
        let _ = self.events.send(Event::Notice(notice)).await; // a front end that is gone needs no notice
    }
}

/// Outcome of the question about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Once,
    Always,
    Declined,
    Withdrawn,
}

/// Questions that were put, are put, and will be.
#[derive(Default)]
pub(super) struct Asking {
    put: Option<(Key, oneshot::Receiver<Answer>)>,
    next: VecDeque<Key>,
    waiting: HashMap<Key, Vec<Wish>>,
    said: HashMap<Key, Settled>,
    abandoned: Vec<Wish>,
}

impl Asking {
    /// Returns what was said about a host in this run.
    pub(super) fn settled(&self, key: &Key) -> Option<Settled> {
        self.said.get(key).copied()
    }

    /// Lets a wish wait for the answer about its host.
    pub(super) fn queue(&mut self, wish: Wish) {
        let key = wish.key.clone();
        let waiting = self.waiting.entry(key.clone()).or_default();
        if waiting.is_empty() {
            self.next.push_back(key);
        }
        waiting.push(wish);
    }

    /// Puts the next question, when none is put.
    pub(super) fn put_next(&mut self, person: &Person) {
        while self.put.is_none() {
            let Some(key) = self.next.pop_front() else { return };
            let (answer, answered) = oneshot::channel();
            let question = person.question(&key);
            // The channel is empty, since one question is put at a time; else nobody takes them any more.
            match person.questions.try_send(PendingQuestion {
                question,
                answer,
                whom: Whom::default(),
            }) {
                Ok(()) => self.put = Some((key, answered)),
                Err(_) => self.abandoned.extend(self.waiting.remove(&key).unwrap_or_default()),
            }
        }
    }

    /// Returns a wish that nobody will be asked about.
    pub(super) fn abandoned(&mut self) -> Option<Wish> {
        self.abandoned.pop()
    }

    /// Waits for the answer to the question that is put. Dropping the future loses nothing.
    pub(super) async fn answer(&mut self) -> Answer {
        match &mut self.put {
            // A front end that goes away without an answer withdraws.
            Some((_, answered)) => answered.await.unwrap_or(Answer::Withdrawn),
            None => std::future::pending().await,
        }
    }

    /// Keeps an answer for the rest of the run.
    pub(super) fn take(&mut self, answer: Answer) -> Option<(Key, Settled)> {
        let (key, _) = self.put.take()?;
        let settled = match answer {
            // None of the others is offered for a host; such an answer is for this run.
            Answer::Once | Answer::Session | Answer::For(_) | Answer::AlwaysRule(_) => {
                Settled::Once
            }
            Answer::Always => Settled::Always,
            Answer::Deny | Answer::DenyWith(_) => Settled::Declined,
            Answer::Withdrawn => Settled::Withdrawn,
        };
        self.said.insert(key.clone(), settled);
        Some((key, settled))
    }

    /// Returns the wishes that wait for the answer about a host.
    pub(super) fn waiting_for(&mut self, key: &Key) -> Vec<Wish> {
        self.waiting.remove(key).unwrap_or_default()
    }
}
