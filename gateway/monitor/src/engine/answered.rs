//! A call about which a person is asked. Their yes counts for what they were shown: while they thought, settings, links
//! and files may have changed, so the call is judged once more before it runs.

use stockade_policy::{Decision, NetworkRules};
use tokio::sync::mpsc;

use super::Gateway;
use super::calling::Calling;
use crate::approve::asked::Agreed;
use crate::approve::{self, Answered, Consent, named};
use crate::audit::Log;
use crate::audit::Receipt;
use crate::audit::record::decision::Runs;
use crate::decide::{Grant, Pending};
use crate::facts::Place;
use crate::hooks::Report;
use crate::judge::{self, Asked, Given, Hooks, Judged, Recorded, Runner, Scene};
use crate::plan::Planned;
use crate::protocol::errors::Failure;
use crate::protocol::types::{CommandRequest, DecisionView, RunOutcome};
use crate::records::{self, Circumstances};
use crate::request::Command;
use crate::temporary::Temporary;
use crate::{answer, view};
use stockade_wire::conversation::{Conversation, PendingQuestion};

/// What is told of a yes that does not count.
const CHANGED: &str = "settings, links or files changed while the question stood, so the yes does not count; give the command again";

/// A call as it was judged and recorded.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) scene: Scene,
    pub(super) judged: Judged,
    pub(super) view: DecisionView,
    pub(super) receipt: Receipt,
}

/// A call that may run.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) case: Case,
    pub(super) grant: Grant,
    pub(super) temporary: Temporary,
    pub(super) hosts: NetworkRules,
    pub(super) withheld: Vec<String>,
}

/// A call as it came.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) caller: &'a Calling,
    pub(super) request: &'a CommandRequest,
    pub(super) command: &'a Command,
    pub(super) log: &'a Log,
}

impl Gateway {
    /// Puts the question about a call, unless the person of an agent has answered it, and returns what may run, or the
    /// outcome of a call that may not.
    pub(super) async fn put(
        &self,
        call: Call<'_>,
        (case, pending): (Case, Pending),
        (agreed, people, conversation): (
            Option<Agreed>,
            Option<mpsc::Sender<PendingQuestion>>,
            &mut Conversation,
        ),
    ) -> Result<Result<Going, RunOutcome>, Failure> {
        let files = named::files(&case.scene, &case.judged);
        let question = approve::question(&case.view, &call.command.text, &case.scene);
        let door = &call.request.context.door;
        let (log, control) = (call.log, &mut conversation.control);
        let answered = match agreed {
            // That was before the call came.
            Some(agreed) => approve::agreed(log, &case.receipt, &question, agreed).await?,
            None => approve::ask(log, &case.receipt, question, door, people, control).await?,
        };
        let (consent, rule) = match answered {
            Answered::Yes(consent, rule) => (consent, rule),
            Answered::No => return Ok(Err(answer::declined(case.view, &case.receipt))),
            Answered::Withdrawn => return Ok(Err(answer::withdrawn(case.view, &case.receipt))),
        };
        let (case, consent) =
            match self.still(call, (case, files), (consent, rule.as_ref())).await? {
                Ok(still) => still,
                Err(outcome) => return Ok(Err(outcome)),
            };
        approve::keep(log, &self.places.state, &case.scene, rule, &conversation.events).await?;
        let (builders, state) = (case.judged.builders.clone(), self.places.state.clone());
        let project = case.scene.place.project.clone();
        let keep = move || {
            builders.keep_yes(&state, &project);
            Ok(())
        };
        self.blocking(keep).await?;
        // A person saw which protected files of the root the text names, and said yes.
        let judged = (&case.judged, case.judged.verdict.opens.as_slice());
        let planned = self.plan(call.request, (&case.scene, None), judged, call.command);
        let Planned { spec, temporary, hosts, withheld } = match planned.await {
            Ok(planned) => planned,
            Err(failure) => return Err(never_ran(log, &case.receipt, failure).await),
        };
        let grant = pending.allowed(consent, spec);
        Ok(Ok(Going { case, grant, temporary, hosts, withheld }))
    }

    /// Judges a call once more after a yes, and returns what counts now: the same, or a new decision that the yes covers
    /// as well, or the outcome of a call that it does not cover.
    async fn still(
        &self,
        call: Call<'_>,
        (case, files): (Case, [u8; 32]),
        (consent, rule): (Consent, Option<&String>),
    ) -> Result<Result<(Case, Consent), RunOutcome>, Failure> {
        let log = call.log;
        let (scene, judged) = match self.again(call, &case).await {
            Ok(again) => again,
            Err(failure) => return Err(never_ran(log, &case.receipt, failure).await),
        };
        let is_same = asks_the_same((&case.scene, &case.judged), (&scene, &judged))
            && files == named::files(&scene, &judged);
        if is_same && scene.snapshot.sha256 == case.scene.snapshot.sha256 {
            return Ok(Ok((Case { scene, judged, ..case }, consent)));
        }
        let recorded = records::not_run(log, &case.receipt).await;
        recorded.map_err(|error| answer::unrecorded(&error))?;
        let mut view = view::decision(&judged.verdict, &scene.snapshot, judged.input.clone());
        view::add_hooks(&mut view, judged.hooks.clone());
        let decision = judged.verdict.decision;
        let may_run = match decision {
            Decision::Allow => judged.input == case.judged.input,
            Decision::Ask => is_same,
            Decision::Deny => false,
        };
        let runs = if may_run { Runs::Gateway } else { Runs::Nobody };
        let Call { caller, request, command, .. } = call;
        let circumstances =
            Circumstances::of_run(caller.caller().await?, request, command.timeout, runs);
        let receipt = self.record(&scene, &judged, circumstances).await?.into_receipt();
        if !may_run {
            view.warnings.push(CHANGED.into());
            return Ok(Err(answer::not_run(decision, view, &receipt)));
        }
        let shown = (command.text.as_str(), request.context.door.as_str());
        let consent = match decision {
            Decision::Ask => approve::carried(log, &receipt, shown, rule, consent).await?,
            Decision::Allow | Decision::Deny => consent,
        };
        Ok(Ok((Case { scene, judged, view, receipt }, consent)))
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

/// Says whether a person was asked about the same as would be asked now.
fn asks_the_same(before: (&Scene, &Judged), now: (&Scene, &Judged)) -> bool {
    let question = |(scene, judged): (&Scene, &Judged)| {
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
    question(before) == question(now)
}

/// Records that a command that was allowed never ran, and returns why.
async fn never_ran(log: &Log, receipt: &Receipt, failure: Failure) -> Failure {
    match records::not_run(log, receipt).await {
        Ok(_) => failure,
        Err(error) => answer::unrecorded(&error),
    }
}
