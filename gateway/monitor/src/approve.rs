//! Puts a question to a person, records the answer, and remembers what they allowed for good.

pub mod asked;
pub mod elsewhere;
pub mod named;
pub mod remember;
mod unnamed;

use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::approve::asked::Agreed;
use crate::audit::record::{self, Body};
use crate::audit::{Approved, Log, Receipt};
use crate::blocking::blocking;
use crate::control::given_up;
use crate::decide::Spec;
use crate::failures::unrecorded;
use crate::judge::Scene;
use crate::protocol::errors::Failure;
use crate::protocol::types::{AlwaysOffer, Answer, Control, DecisionView, Event, Question};
use stockade_wire::conversation::PendingQuestion;

/// The consent of a person to one command. Only [`ask`] and [`agreed`] make one; what it lets run is not on disk before
/// [`Consent::record`].
#[derive(Debug)]
#[must_use]
pub struct Consent {
    channel: String,
    waited_ms: u64,
    shown_hmac: String,
    scope: record::Scope,
}

impl Consent {
    /// Records that it answers this decision, for a command that may reach what `spec` says.
    pub async fn record(
        self,
        log: &Log,
        decision: &Receipt,
        spec: Spec,
    ) -> Result<Approved<Spec>, Failure> {
        let yes = self.answer(decision, record::Answer::Allow);
        log.approval(yes, spec).await.map_err(|error| unrecorded(&error))
    }

    /// Records that it answered this decision, of which nothing came.
    pub async fn record_unused(&self, log: &Log, decision: &Receipt) -> Result<(), Failure> {
        let yes = Body::Approval(self.answer(decision, record::Answer::Allow));
        log.record(yes).await.map(drop).map_err(|error| unrecorded(&error))
    }

    fn answer(&self, decision: &Receipt, answer: record::Answer) -> record::Approval {
        record::Approval {
            reference: decision.id.clone(),
            answer,
            who: Some(record::who()),
            channel: self.channel.clone().into(),
            waited_ms: self.waited_ms,
            shown_hmac: self.shown_hmac.clone(),
            scope: self.scope,
            expires: None,
            spec_hmac: None,
        }
    }
}

/// What came of a question.
#[derive(Debug)]
pub enum Answered {
    /// The person said yes; for good if a rule is given.
    Yes(Consent, Option<String>),
    /// The person said no.
    No,
    /// The person went away.
    Withdrawn,
}

/// Puts `question` to the person behind `door`, and records the answer unless it is a yes: that is recorded with what the command
/// may reach. Who gives the call up by `control` withdraws the question.
pub async fn ask(
    log: &Log,
    decision: &Receipt,
    question: Question,
    door: &str,
    people: Option<mpsc::Sender<PendingQuestion>>,
    control: &mut mpsc::Receiver<Control>,
) -> Result<Answered, Failure> {
    let start = Instant::now();
    let shown = log.redactor().digest(question.command.as_bytes());
    let rule = question.always.as_ref().map(|offer| offer.rule.clone());
    let (answer, answered) = oneshot::channel();
    let sent = match people {
        Some(people) => people.send(PendingQuestion { question, answer }).await.is_ok(),
        None => false,
    };
    // A front end that goes away without an answer withdraws.
    let said = async {
        if sent { answered.await.unwrap_or(Answer::Withdrawn) } else { Answer::Withdrawn }
    };
    let said = tokio::select! {
        biased;
        () = given_up(control) => Answer::Withdrawn,
        said = said => said,
    };
    let always = rule.filter(|_| said == Answer::Always);
    let consent = Consent {
        channel: door.to_owned(),
        waited_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        shown_hmac: shown,
        scope: match always {
            Some(_) => record::Scope::Always,
            None => record::Scope::Once,
        },
    };
    let (answer, outcome) = match said {
        Answer::Once | Answer::Always => return Ok(Answered::Yes(consent, always)),
        Answer::Deny => (record::Answer::Deny, Answered::No),
        Answer::Withdrawn => (record::Answer::Withdrawn, Answered::Withdrawn),
    };
    let body = Body::Approval(consent.answer(decision, answer));
    log.record(body).await.map_err(|error| unrecorded(&error))?;
    Ok(outcome)
}

/// Returns the consent of the person of an agent, who said yes there.
pub fn agreed(log: &Log, question: &Question, _agreed: Agreed) -> Answered {
    let shown_hmac = log.redactor().digest(question.command.as_bytes());
    let (channel, scope) = ("agent".to_owned(), record::Scope::Once);
    Answered::Yes(Consent { channel, waited_ms: 0, shown_hmac, scope }, None)
}

/// Returns the question about a call, with what "always" would write.
pub fn question(view: &DecisionView, command: &str, scene: &Scene) -> Question {
    let settings = scene.snapshot.rules.settings();
    let rule = view.suggestion.clone().filter(|_| !settings.managed_rules_only);
    let file = local_file(&scene.place.project).display().to_string();
    let always = rule.map(|rule| AlwaysOffer { rule, file });
    Question { decision: view.clone(), command: command.into(), always, connection: None }
}

/// Writes down the rule that a person allowed for good. The command may run whether or not that works.
pub async fn keep(
    log: &Log,
    state: &Path,
    scene: &Scene,
    rule: Option<String>,
    events: &mpsc::Sender<Event>,
) -> Result<(), Failure> {
    let Some(rule) = rule else { return Ok(()) };
    let (project, state, text) = (scene.place.project.clone(), state.to_path_buf(), rule.clone());
    let written = blocking(move || {
        Ok(remember::remember(&project, &state, &["permissions", "allow"], &text))
    })
    .await?;
    let notice = match &written {
        Ok(file) => format!("`{rule}` is allowed from now on, by {}", file.display()),
        Err(error) => format!("`{rule}` could not be saved, so it is asked again: {error}"),
    };
    if written.is_ok() {
        let (layer, action, who) = ("local", "made", Some(record::who()));
        let grant = record::Grant { rule: rule.into(), layer, action, who, expires: None };
        log.record(Body::Grant(grant)).await.map_err(|error| unrecorded(&error))?;
    }
    let _ = events.send(Event::Notice(notice)).await; // a front end that is gone needs no notice
    Ok(())
}

/// Returns the file into which a lasting permission goes.
pub fn local_file(project: &Path) -> PathBuf {
    project.join(".stockade/settings.local.json")
}
