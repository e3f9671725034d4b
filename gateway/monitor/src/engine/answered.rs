//! A call about which a person is asked. Their yes counts for what they were shown: while they thought, settings, links
//! and files may have changed, so the call is judged once more before it runs.

use std::io::Write as _;

use stockade_policy::Decision;
use tokio::sync::mpsc;

use super::Gateway;
use super::calling::Calling;
use crate::approve::{self, Answered, Consent, Kept, named};
use crate::audit::record::decision::Runs;
use crate::audit::{self, Log, Receipt};
use crate::decide::{self, Grant, Outcome, Pending, Spec};
use crate::hooks::Report;
use crate::judge::{self, Asked, Given, Hooks, Judged, Recorded, Runner, Scene};
use crate::plan::{Planned, Rest, Yes};
use crate::protocol::errors::Failure;
use crate::protocol::types::{CommandRequest, Event, RunOutcome};
use crate::protocol::words;
use crate::records::{self, Circumstances};
use crate::request::Command;
use crate::response::{self, Case};
use crate::{view, worker};
use stockade_approvals::asked::Agreed;
use stockade_approvals::strict;
use stockade_base::place::Place;
use stockade_settings::approvers::{Required, required};
use stockade_wire::conversation::{Conversation, PendingQuestion};

/// Message for a yes that does not count.
const CHANGED: &str = "settings, links or files changed while the question was open, so the answer is void; run the command again";

/// A call that may run.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) case: Case,
    pub(super) grant: Grant,
    pub(super) rest: Rest,
}

/// The effect of a yes after the call was judged once more.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Counted {
    /// The yes answers this question, the first one or a new one about the same call.
    Asked(Case, Pending),
    /// Nobody has to be asked any more.
    Granted(Going),
    /// The yes does not count, and nothing runs.
    Over(RunOutcome),
}

/// A call as it came.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) caller: &'a Calling,
    pub(super) request: &'a CommandRequest,
    pub(super) command: &'a Command,
    pub(super) log: &'a Log,
    /// Where the question is put: the door of the call, or elsewhere.
    pub(super) channel: &'a str,
    /// Required approvers; none where the managed settings name none.
    pub(super) required: Option<&'a Required>,
}

/// Whom a call may ask.
pub(super) struct Person<'a> {
    /// The yes that was given before.
    pub(super) agreed: Option<Agreed>,
    /// Where questions go.
    pub(super) people: Option<mpsc::Sender<PendingQuestion>>,
    pub(super) conversation: &'a mut Conversation,
}

impl Gateway {
    /// Returns what may run of a call that is recorded, after the answer of whom it asks; or the outcome of a call that
    /// may not. Without a plan nothing runs.
    pub(super) async fn decided(
        &self,
        call: Call<'_>,
        case: Case,
        recorded: audit::Recorded<Spec>,
        rest: Option<Rest>,
        person: Person<'_>,
    ) -> Result<Result<Going, RunOutcome>, Failure> {
        let Some(rest) = rest else {
            return Ok(Err(response::not_run(recorded.verdict(), case)));
        };
        match decide::decide(recorded).1 {
            Outcome::Granted(grant) => Ok(Ok(Going { case, grant, rest })),
            Outcome::Refused => Ok(Err(response::not_run(Decision::Deny, case))),
            Outcome::Ask(pending) => {
                drop(rest);
                // Apart: it holds more than all the rest, and most calls ask nobody.
                Box::pin(self.put(call, case, pending, person)).await
            }
        }
    }

    /// Puts the question about a call, unless the person of an agent has answered it, and returns what may run, or the
    /// outcome of a call that may not.
    pub(super) async fn put(
        &self,
        call: Call<'_>,
        case: Case,
        pending: Pending,
        Person { agreed, people, conversation }: Person<'_>,
    ) -> Result<Result<Going, RunOutcome>, Failure> {
        let files = named::files(&case.scene, &case.judged);
        let session = self.lasting_session(call.caller, &call.request.context);
        let (places, text) = (self.places.of_log(), &call.command.text);
        let question = approve::question(&case, text, &places, session);
        let (log, control) = (call.log, &mut conversation.control);
        let answered = match agreed {
            // This yes was given before the call came.
            Some(agreed) => approve::agreed(log, &question, agreed),
            None => {
                let (receipt, door) = (&case.receipt, call.channel);
                let tried = |rule: &str| case.judged.allowed_with(&case.scene, rule);
                approve::ask(log, receipt, question, door, people, &tried, control).await?
            }
        };
        let (consent, kept) = match answered {
            // INVARIANT: where the managed settings say who approves, nobody else's yes lets anything run.
            Answered::Yes(consent, _)
                if call.required.is_some_and(|it| !strict::suffices(it, consent.by())) =>
            {
                let failure = judge::broken("the answer lacks a required approver");
                return Err(never_ran(log, &case.receipt, Some(&consent), failure).await);
            }
            // Nothing outlives the call here.
            Answered::Yes(consent, Kept::For(..)) if self.sessions.is_none() => {
                (consent, Kept::Nothing)
            }
            Answered::Yes(consent, kept) => (consent, kept),
            Answered::No(why) => return Ok(Err(response::declined(case, why))),
            Answered::Withdrawn => return Ok(Err(response::withdrawn(case))),
        };
        let counted = self.still(call, case, files, pending, &consent).await?;
        let (case, pending) = match counted {
            Counted::Asked(case, pending) => (case, pending),
            Counted::Granted(going) => return Ok(Ok(going)),
            Counted::Over(outcome) => return Ok(Err(outcome)),
        };
        if let Some(reason) = &consent.by().break_glass {
            alarm(&consent.by().approvers, reason, &conversation.events).await;
        }
        let held = kept.clone();
        approve::keep(log, &self.places.state, &case.scene, kept, &conversation.events).await?;
        self.keep_grant(call.caller, call.request, &held);
        self.keep_builders(&case).await?;
        let planned = match self.plan_opened(call, &case.scene, &case.judged).await {
            Ok(planned) => planned,
            Err(failure) => {
                return Err(never_ran(log, &case.receipt, Some(&consent), failure).await);
            }
        };
        let Planned { spec, rest } = planned;
        let approved = consent.record(log, &case.receipt, spec.into()).await?;
        let Some(grant) = pending.allowed(approved) else {
            let failure = judge::broken("the answer belongs to another question");
            return Err(never_ran(log, &case.receipt, None, failure).await);
        };
        Ok(Ok(Going { case, grant, rest }))
    }

    /// Keeps which programs of the project a person let build.
    async fn keep_builders(&self, case: &Case) -> Result<(), Failure> {
        let (builders, state) = (case.judged.builders.clone(), self.places.state.clone());
        let project = case.scene.place.project.clone();
        let keep = move || {
            builders.keep_yes(&state, &project);
            Ok(())
        };
        self.blocking(keep).await
    }

    /// Plans a call to which a person said yes: they saw which file it changes, and which protected files of the root the
    /// text names.
    async fn plan_opened(
        &self,
        call: Call<'_>,
        scene: &Scene,
        judged: &Judged,
    ) -> Result<Planned, Failure> {
        let opened = judged.verdict.opens.clone();
        let edited = worker::changed(&judged.tool, &judged.input, &scene.place.cwd);
        let yes = Yes { opened, edited };
        self.plan(call.request, scene, None, judged, &yes, call.command).await
    }

    /// Judges a call once more after a yes, and returns what counts now: the same, or a new decision that the yes covers
    /// as well, or the outcome of a call that it does not cover.
    async fn still(
        &self,
        call: Call<'_>,
        case: Case,
        files: [u8; 32],
        pending: Pending,
        consent: &Consent,
    ) -> Result<Counted, Failure> {
        let log = call.log;
        let (scene, judged) = match self.again(call, &case).await {
            Ok(again) => again,
            Err(failure) => return Err(never_ran(log, &case.receipt, Some(consent), failure).await),
        };
        let demanded = match required(&scene.snapshot.rules, &judged.verdict) {
            Ok(demanded) => demanded,
            Err(failure) => return Err(never_ran(log, &case.receipt, Some(consent), failure).await),
        };
        let is_same = asks_the_same(&case, &scene, &judged)
            && demanded.as_ref() == call.required
            && files == named::files(&scene, &judged);
        if is_same && scene.snapshot.sha256 == case.scene.snapshot.sha256 {
            return Ok(Counted::Asked(Case { scene, judged, ..case }, pending));
        }
        consent.record_unused(log, &case.receipt).await?;
        records::not_run(log, &case.receipt).await?;
        let may_run = match judged.verdict.decision {
            Decision::Allow => judged.input == case.judged.input,
            Decision::Ask => is_same,
            Decision::Deny => false,
        };
        self.decided_anew(call, scene, judged, may_run).await
    }

    /// Records what was decided anew after a yes, and returns what it comes to.
    async fn decided_anew(
        &self,
        call: Call<'_>,
        scene: Scene,
        judged: Judged,
        may_run: bool,
    ) -> Result<Counted, Failure> {
        let mut view = view::decision(&judged.verdict, &scene.snapshot, judged.input.clone());
        view::add_hooks(&mut view, judged.hooks.clone());
        let Call { caller, request, command, .. } = call;
        let decision = judged.verdict.decision;
        let (mut spec, mut rest) = (None, None);
        if may_run && decision == Decision::Allow {
            let planned = self.plan_opened(call, &scene, &judged).await?;
            (spec, rest) = (Some(planned.spec.into()), Some(planned.rest));
        }
        let runs = if may_run { Runs::Gateway } else { Runs::Nobody };
        let known = caller.caller().await?;
        let circumstances = Circumstances::of_run(known, request, command.timeout, runs);
        let recorded = self.record(&scene, &judged, circumstances, spec).await?;
        let mut case = Case { scene, judged, view, receipt: recorded.receipt().clone() };
        if !may_run {
            case.view.warnings.push(CHANGED.into());
            return Ok(Counted::Over(response::not_run(decision, case)));
        }
        Ok(match (decide::decide(recorded).1, rest) {
            (Outcome::Granted(grant), Some(rest)) => Counted::Granted(Going { case, grant, rest }),
            (Outcome::Ask(pending), _) => Counted::Asked(case, pending),
            (Outcome::Granted(_), None) | (Outcome::Refused, _) => {
                Counted::Over(response::not_run(Decision::Deny, case))
            }
        })
    }

    /// Judges what was judged once more. Hooks are heard again only where settings changed.
    async fn again(&self, call: Call<'_>, case: &Case) -> Result<(Scene, Judged), Failure> {
        let scene = self.scene(call.caller, call.request).await?;
        let before = &case.judged;
        let is_known = scene.snapshot.sha256 == case.scene.snapshot.sha256;
        let hooks = match is_known {
            true => {
                let before = Report { outcome: before.facts.hook.clone(), ..Report::default() };
                Hooks::Recorded(Box::new(Recorded { before, requests: Vec::new() }))
            }
            false => Hooks::Run(self.means()),
        };
        let context = &call.request.context;
        let (input, id) = (before.input.clone(), before.id.as_str());
        let runner = Runner::Gateway(Given::by(call.request));
        let asked = Asked { tool: &before.tool, input, id, context, hooks, runner };
        let mut judged = judge::judge(&self.scanner, &scene, asked).await?;
        judged.received = judged.received.or_else(|| before.received.clone());
        if is_known {
            judged.hooks = before.hooks.clone();
        }
        Ok((scene, judged))
    }
}

/// Tells loudly that somebody allowed a call alone: at the call, and in the journal of the service.
async fn alarm(
    approvers: &[(u32, String, Option<String>)],
    reason: &str,
    events: &mpsc::Sender<Event>,
) {
    let names: Vec<&str> = approvers.iter().map(|(_, name, _)| name.as_str()).collect();
    let notice = format!("BREAK-GLASS: allowed by {} alone: {reason}", names.join(", "));
    // A journal that nobody keeps needs nothing; the record says the same.
    let _ = writeln!(std::io::stderr(), "stockade: {}", words::one_line(&notice));
    let _ = events.send(Event::Notice(notice)).await; // a front end that is gone needs no notice
}

/// Says whether a person was asked about the same as would be asked now.
fn asks_the_same(before: &Case, scene: &Scene, judged: &Judged) -> bool {
    let question = |scene: &Scene, judged: &Judged| {
        let facts = &judged.facts;
        (
            // A first call makes its project one that is known, for the next.
            Place { roots: Vec::new(), ..scene.place.clone() },
            judged.input.clone(),
            judged.verdict.clone(),
            facts.sandbox,
            facts.mode,
            facts.doubts.changed.clone(),
        )
    };
    question(&before.scene, &before.judged) == question(scene, judged)
}

/// Records that a command that was allowed never ran, with a yes that is not recorded yet, and returns why.
async fn never_ran(
    log: &Log,
    receipt: &Receipt,
    consent: Option<&Consent>,
    failure: Failure,
) -> Failure {
    if let Some(consent) = consent
        && let Err(unrecorded) = consent.record_unused(log, receipt).await
    {
        return unrecorded;
    }
    records::not_run(log, receipt).await.err().unwrap_or(failure)
}
