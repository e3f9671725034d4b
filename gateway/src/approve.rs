//! Puts a question to a person, records the answer, and remembers what they allowed for good.

pub(crate) mod remember;

use std::path::Path;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::audit::record::{self, Body};
use crate::audit::{self, Log, Receipt};
use crate::client::PendingQuestion;
use crate::protocol::types::{Answer, Question};

/// The consent of a person to one command, durable in the log. Only [`ask`] makes one.
#[derive(Debug)]
#[must_use]
pub(crate) struct Consent(());

/// What came of a question.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The person said yes; for good if a rule is given.
    Yes(Consent, Option<String>),
    /// The person said no.
    No,
    /// The person went away.
    Withdrawn,
}

/// Puts `question` to the person behind `door` and records the answer.
pub(crate) async fn ask(
    log: &Log,
    decision: &Receipt,
    question: Question,
    door: &str,
    people: &mpsc::Sender<PendingQuestion>,
) -> Result<Answered, audit::Error> {
    let start = Instant::now();
    let shown = log.redactor().digest(question.command.as_bytes());
    let rule = question.always.as_ref().map(|offer| offer.rule.clone());
    let (answer, answered) = oneshot::channel();
    let said = match people.send(PendingQuestion { question, answer }).await {
        // A front end that goes away without an answer withdraws.
        Ok(()) => answered.await.unwrap_or(Answer::Withdrawn),
        Err(_) => Answer::Withdrawn,
    };
    let always = rule.filter(|_| said == Answer::Always);
    let (answer, outcome) = match said {
        Answer::Once | Answer::Always => {
            (record::Answer::Allow, Answered::Yes(Consent(()), always.clone()))
        }
        Answer::Deny => (record::Answer::Deny, Answered::No),
        Answer::Withdrawn => (record::Answer::Withdrawn, Answered::Withdrawn),
    };
    let scope = match always {
        Some(_) => record::Scope::Always,
        None => record::Scope::Once,
    };
    log.record(Body::Approval(record::Approval {
        reference: decision.id.clone(),
        answer,
        who: Some(who()),
        channel: door.into(),
        waited_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        shown_hmac: shown,
        scope,
        expires: None,
    }))
    .await?;
    Ok(outcome)
}

/// Records that a rule was written.
pub(crate) async fn record_rule(log: &Log, rule: &str) -> Result<(), audit::Error> {
    let grant = record::Grant {
        rule: rule.into(),
        layer: "local",
        action: "made",
        who: Some(who()),
        expires: None,
    };
    log.record(Body::Grant(grant)).await.map(drop)
}

fn who() -> record::Who {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    record::Who { uid, name: name_of(uid, &users).unwrap_or_default().into() }
}

fn name_of(uid: u32, users: &[u8]) -> Option<String> {
    let uid = uid.to_string();
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        let found = fields.nth(1)? == uid.as_bytes();
        found.then(|| String::from_utf8_lossy(name).into_owned())
    })
}

/// Returns the file into which a lasting permission goes.
pub(crate) fn local_file(project: &Path) -> std::path::PathBuf {
    project.join(".stockade/settings.local.json")
}
