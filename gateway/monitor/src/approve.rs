//! Puts a question to a person, records the answer, and remembers what they allowed for good.

pub mod named;
mod question;
mod unnamed;

use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, oneshot};

use crate::audit::record::{self, Body};
use crate::audit::{Approved, Log, Receipt};
use crate::blocking::blocking;
use crate::control::given_up;
use crate::decide::Spec;
use crate::failures::unrecorded;
use crate::judge::Scene;
use crate::protocol::errors::Failure;
use crate::protocol::types::{Answer, Control, Event, Lasting, Question};
pub use question::question;
use stockade_approvals::asked::Agreed;
use stockade_approvals::remember;
use stockade_wire::conversation::{ByWhom, PendingQuestion, Whom};

/// The consent of a person to one command. Only [`ask`] and [`agreed`] make one; what it lets run is not on disk before
/// [`Consent::record`].
#[derive(Debug)]
#[must_use]
pub struct Consent {
    channel: String,
    waited_ms: u64,
    shown_hmac: String,
    scope: record::Scope,
    expires: Option<String>,
    by: ByWhom,
}

impl Consent {
    /// Records that it answers this decision, for a command that may reach what `spec` says.
    pub async fn record(
        self,
        log: &Log,
        decision: &Receipt,
        spec: Spec,
    ) -> Result<Approved<Spec>, Failure> {
        let yes = self.answer(decision, record::ApprovalAnswer::Allow);
        log.approval(yes, spec).await.map_err(|error| unrecorded(&error))
    }

    /// Records that it answered this decision, of which nothing came.
    pub async fn record_unused(&self, log: &Log, decision: &Receipt) -> Result<(), Failure> {
        let yes = Body::Approval(self.answer(decision, record::ApprovalAnswer::Allow));
        log.record(yes).await.map(drop).map_err(|error| unrecorded(&error))
    }

    /// Returns who gave it.
    pub fn by(&self) -> &ByWhom {
        &self.by
    }

    fn answer(&self, decision: &Receipt, answer: record::ApprovalAnswer) -> record::Approval {
        let approver = |(uid, name, other): &(u32, String, Option<String>)| record::Approver {
            uid: *uid,
            name: name.as_str().into(),
            in_place_of: other.as_deref().map(record::Text::from),
        };
        let ByWhom { question, approvers, break_glass, claimed } = &self.by;
        record::Approval {
            reference: decision.id.clone(),
            answer,
            who: approvers.is_empty().then(record::who),
            channel: self.channel.clone().into(),
            waited_ms: self.waited_ms,
            shown_hmac: self.shown_hmac.clone(),
            scope: self.scope,
            expires: self.expires.clone(),
            question: question.clone(),
            approvers: approvers.iter().map(approver).collect(),
            break_glass: break_glass.as_deref().map(record::Text::from),
            claimed: claimed.as_deref().map(record::Text::from),
            spec_hmac: None,
        }
    }
}

/// The outcome of a question.
#[derive(Debug)]
pub enum Answered {
    /// The person said yes; the second value is the rule that is kept for later calls.
    Yes(Box<Consent>, Kept),
    /// The person said no; the reason is present if they gave one.
    No(Option<String>),
    /// The person went away.
    Withdrawn,
}

/// A rule that a person allowed beyond one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// None.
    Nothing,
    /// A rule until the session ends.
    Session(String),
    /// A rule for a while.
    For(String, Lasting),
    /// A rule for good.
    Always(String),
    /// A rule of the person's own that cannot be kept, and why.
    Not(String, String),
}

/// Whether a rule that a person typed lets the call run.
pub type Tried<'a> = &'a (dyn Fn(&str) -> Result<(), String> + Sync);

/// Puts `question` to the person behind `door`, and records the answer unless it is a yes: that is recorded with what the command
/// may reach. Who gives the call up by `control` withdraws the question.
pub async fn ask(
    log: &Log,
    decision: &Receipt,
    question: Question,
    door: &str,
    people: Option<mpsc::Sender<PendingQuestion>>,
    tried: Tried<'_>,
    control: &mut mpsc::Receiver<Control>,
) -> Result<Answered, Failure> {
    let start = Instant::now();
    let shown = log.redactor().digest(question.command.as_bytes());
    let rule = question.always.as_ref().map(|offer| offer.rule.clone());
    let lasts = question.session.is_some();
    let (answer, answered) = oneshot::channel();
    let whom = Whom::default();
    let noted = Whom::clone(&whom);
    let sent = match people {
        Some(people) => people.send(PendingQuestion { question, answer, whom }).await.is_ok(),
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
    let kept = rule.map_or(Kept::Nothing, |rule| match &said {
        Answer::Always => Kept::Always(rule),
        Answer::Session if lasts => Kept::Session(rule),
        Answer::For(lasting) if lasting.is_valid() => Kept::For(rule, *lasting),
        Answer::AlwaysRule(own) => match tried(own) {
            Ok(()) => Kept::Always(own.clone()),
            Err(why) => Kept::Not(own.clone(), why),
        },
        Answer::Once | Answer::Session | Answer::For(_) => Kept::Nothing,
        Answer::Deny | Answer::DenyWith(_) | Answer::Withdrawn => Kept::Nothing,
    });
    let consent = Consent {
        channel: door.to_owned(),
        waited_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        shown_hmac: shown,
        expires: expires(&kept),
        by: noted.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        scope: match kept {
            Kept::Always(_) => record::Scope::Always,
            Kept::Session(_) => record::Scope::Session,
            Kept::For(..) => record::Scope::Limited,
            Kept::Nothing | Kept::Not(..) => record::Scope::Once,
        },
    };
    let (answer, outcome) = match said {
        Answer::Once
        | Answer::Session
        | Answer::For(_)
        | Answer::Always
        | Answer::AlwaysRule(_) => {
            return Ok(Answered::Yes(Box::new(consent), kept));
        }
        Answer::Deny => (record::ApprovalAnswer::Deny, Answered::No(None)),
        Answer::DenyWith(why) => (record::ApprovalAnswer::Deny, Answered::No(Some(why))),
        Answer::Withdrawn => (record::ApprovalAnswer::Withdrawn, Answered::Withdrawn),
    };
    let body = Body::Approval(consent.answer(decision, answer));
    log.record(body).await.map_err(|error| unrecorded(&error))?;
    Ok(outcome)
}

/// Returns the consent of the person of an agent, who said yes there.
pub fn agreed(log: &Log, question: &Question, _agreed: Agreed) -> Answered {
    let shown_hmac = log.redactor().digest(question.command.as_bytes());
    let (channel, scope) = ("agent".to_owned(), record::Scope::Once);
    let consent =
        Consent { channel, waited_ms: 0, shown_hmac, scope, expires: None, by: ByWhom::default() };
    Answered::Yes(Box::new(consent), Kept::Nothing)
}

/// Writes down the rule that a person allowed for good. The command may run whether or not that works.
pub async fn keep(
    log: &Log,
    state: &Path,
    scene: &Scene,
    kept: Kept,
    events: &mpsc::Sender<Event>,
) -> Result<(), Failure> {
    let expires = expires(&kept);
    let (layer, rule, notice) = match kept {
        Kept::Nothing => return Ok(()),
        Kept::Not(rule, why) => (None, rule.clone(), format!("`{rule}` was not saved: {why}")),
        Kept::Session(rule) => {
            (Some("flag"), rule.clone(), format!("`{rule}` is allowed until this session ends"))
        }
        Kept::For(rule, lasting) => {
            let span = match lasting {
                Lasting::Minutes(1) => "for a minute".to_owned(),
                Lasting::Minutes(count) => format!("for {count} minutes"),
                Lasting::Uses(count) => format!("for {count} calls, this one included"),
            };
            let notice = format!("`{rule}` is allowed {span}; `stockade grants` revokes it");
            (Some("flag"), rule, notice)
        }
        Kept::Always(rule) => {
            let (project, state) = (scene.place.project.clone(), state.to_path_buf());
            let text = rule.clone();
            let written = blocking(move || {
                Ok(remember::remember(&project, &state, &["permissions", "allow"], &text))
            })
            .await?;
            match written {
                Ok(file) => {
                    let notice = format!("`{rule}` is allowed from now on, by {}", file.display());
                    (Some("local"), rule, notice)
                }
                Err(error) => {
                    let told =
                        format!("`{rule}` could not be saved, so it is asked again: {error}");
                    (None, rule, told)
                }
            }
        }
    };
    if let Some(layer) = layer {
        let (action, who) = ("made", Some(record::who()));
        let grant = record::GrantRecord { rule: rule.into(), layer, action, who, expires };
        log.record(Body::Grant(grant)).await.map_err(|error| unrecorded(&error))?;
    }
    let _ = events.send(Event::Notice(notice)).await; // a front end that is gone needs no notice
    Ok(())
}

/// Returns when a permission ends that lasts some minutes, as records spell it.
fn expires(kept: &Kept) -> Option<String> {
    let Kept::For(_, Lasting::Minutes(count)) = kept else { return None };
    let end = SystemTime::now().checked_add(Duration::from_secs(60 * u64::from(*count)));
    end.map(crate::audit::clock::at)
}
