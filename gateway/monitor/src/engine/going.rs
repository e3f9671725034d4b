//! A call that may run: what it runs with, and what is said of its end.

use std::sync::Arc;

use serde_json::json;
use stockade_sandbox::Loopback;
use tokio::sync::mpsc::Sender;

use super::answered::{Case, Going};
use super::calling::Calling;
use super::{Gateway, carried, grants, quotas};
use crate::audit::{Log, Receipt};
use crate::control::was_given_up;
use crate::judge::{Judged, Scene};
use crate::protocol::errors::Failure;
use crate::protocol::types::{AtLimit, CommandRequest, Event, RunOutcome};
use crate::request::Command;
use crate::run::{Lines, Manner};
use crate::{plan, records, response, view, worker};
use stockade_egress::broker::{Broker, Person};
use stockade_wire::conversation::{Conversation, PendingQuestion};

impl Gateway {
    /// Runs a call that may run, and returns its outcome.
    pub(super) async fn go(
        &self,
        (caller, lent, going): (Calling, grants::Lent, Going),
        (request, command, log): (&CommandRequest, &Command, &Log),
        mut conversation: Conversation,
        (asking, seat, loopback): (
            Option<Sender<PendingQuestion>>,
            Option<&quotas::Seat>,
            Option<Arc<Loopback>>,
        ),
    ) -> Result<RunOutcome, Failure> {
        let Going { case, grant, mut temporary, hosts, withheld } = going;
        let Case { scene, judged, mut view, receipt } = case;
        if was_given_up(&mut conversation.control) {
            let recorded = records::not_run(log, &receipt).await;
            recorded.map_err(|error| response::unrecorded(&error))?;
            return Err(response::given_up());
        }
        for rule in lent.spend(&judged.verdict) {
            grants::note(log, &rule, ("used_up", None)).await?;
        }
        drop(lent);
        let journal = self.begin_journal(temporary.take_journal(), (log, &receipt)).await?;
        let about = (&scene, &judged);
        let person = self.person(asking.clone(), about, (&conversation, command));
        response::tell(&conversation, &scene, &judged, &view).await;
        let manner = self.manner(request, command, (&receipt, seat), (loopback, withheld));
        let task = self.task(request, (command, &scene, &judged), (log, &receipt));
        let Conversation { events, mut input, control, .. } = conversation;
        if let Some(call) = request.tool() {
            let keep = plan::kept::folder(&self.places.state, &scene, request);
            let keep = keep.map(|folder| json!({ "folder": folder, "call": request.call_id }));
            input = worker::input(call, &judged.input, &keep.unwrap_or_default());
        }
        let told = events.clone();
        let broker = Broker {
            log,
            decision: &receipt,
            executable: self.launchers.executable().to_path_buf(),
            rules: hosts,
            person,
        };
        let manner = (manner, temporary);
        let lines = Lines { events, input, control };
        let (execution, cwd_after) = self.execute(grant, broker, (manner, task), lines).await?;
        self.end_journal(journal, (log, &judged, command)).await;
        let ended = (&receipt, &execution);
        let said = self.after(caller, &request.context, (&scene, &judged), ended).await?;
        for notice in &said.notices {
            let _ = told.send(Event::Notice(notice.clone())).await; // a front end that is gone reads none
        }
        view::add_hooks(&mut view, said);
        let busy =
            self.busy_port((request.context.session.as_deref(), &command.text), &execution).await;
        let carried::Ended { cwd, is_outside, note } =
            self.ended_in(request, &scene, cwd_after).await?;
        let busy = busy.map(|busy| format!("stockade: {busy}"));
        let notes = busy.into_iter().chain(note);
        let after = (cwd, is_outside);
        Ok(response::ran(view, &receipt, &execution, (&scene, &judged), (after, notes)))
    }

    /// Returns whom the command's connections may ask about; nobody where questions are refusals.
    fn person(
        &self,
        asking: Option<Sender<PendingQuestion>>,
        (scene, judged): (&Scene, &Judged),
        (conversation, command): (&Conversation, &Command),
    ) -> Option<Person> {
        let may_ask = judged.facts.mode != stockade_policy::Mode::DontAsk;
        asking.filter(|_| may_ask).map(|questions| Person {
            questions,
            events: conversation.events.clone(),
            command: command.text.clone(),
            saving: Arc::new(crate::approve::remember::LocalSettings {
                project: scene.place.project.clone(),
                state: self.places.state.clone(),
            }),
            may_save: !scene.snapshot.rules.settings().managed_rules_only,
        })
    }

    /// Returns how a command runs.
    fn manner(
        &self,
        request: &CommandRequest,
        command: &Command,
        (receipt, seat): (&Receipt, Option<&quotas::Seat>),
        (loopback, withheld): (Option<Arc<Loopback>>, Vec<String>),
    ) -> Manner {
        Manner {
            timeout: command.timeout,
            goes_on: match request.at_limit {
                AtLimit::Usual => command.limits.goes_on,
                AtLimit::Stop => false,
                AtLimit::Background => true,
            },
            // A background process gets keys later, from a terminal that attaches.
            stdin: request.stdin || request.tool().is_some() || (request.background && request.pty),
            one_stream: (request.one_stream || request.background) && request.tool().is_none(),
            directory: self.places.task(&receipt.id),
            kept: command.limits.output,
            budget: seat.map(quotas::Seat::output),
            loopback,
            withheld,
        }
    }
}
