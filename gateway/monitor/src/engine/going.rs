//! A call that may run: what it runs with, and what is said of its end.

use std::sync::Arc;

use serde_json::json;
use stockade_sandbox::Loopback;
use tokio::sync::mpsc::Sender;

use super::answered::{Call, Going};
use super::{Gateway, grants, quotas};
use crate::audit::Receipt;
use crate::control::was_given_up;
use crate::hooks::pipes;
use crate::plan::Rest;
use crate::protocol::errors::Failure;
use crate::protocol::types::{AtLimit, Event, RunOutcome};
use crate::request::Command;
use crate::response::{self, Case};
use crate::run::{Lines, Manner};
use crate::{plan, records, view, worker};
use stockade_egress::broker::{Broker, Person};
use stockade_wire::conversation::{Conversation, PendingQuestion};

/// Parts of a session that a call uses.
pub(super) struct Share<'a> {
    pub(super) lent: grants::Lent,
    pub(super) seat: Option<&'a quotas::Seat>,
    pub(super) loopback: Option<Arc<Loopback>>,
}

impl Gateway {
    /// Runs a call that may run, and returns its outcome.
    pub(super) async fn go(
        &self,
        call: Call<'_>,
        Going { mut case, grant, rest }: Going,
        Share { lent, seat, loopback }: Share<'_>,
        asking: Option<Sender<PendingQuestion>>,
        mut conversation: Conversation,
    ) -> Result<RunOutcome, Failure> {
        let Call { caller, request, command, log, .. } = call;
        let Rest { mut temporary, hosts, withheld } = rest;
        if was_given_up(&mut conversation.control) {
            records::not_run(log, &case.receipt).await?;
            return Err(response::given_up());
        }
        for rule in lent.spend(&case.judged.verdict) {
            grants::note(log, &rule, "used_up", None).await?;
        }
        drop(lent);
        let journal = self.begin_journal(temporary.take_journal(), log, &case.receipt).await?;
        let person = self.person(asking.as_ref(), &case, &conversation, command);
        response::tell(&conversation, &case).await;
        let manner = self.manner(call, &case.receipt, seat, loopback, withheld);
        let task = self.task(call, &case);
        let Conversation { events, mut input, control, .. } = conversation;
        if let Some(call) = request.tool() {
            let keep = plan::file_backups::folder(&self.places.state, &case.scene, request);
            let keep = keep.map(|folder| json!({ "folder": folder, "call": request.call_id }));
            input = worker::input(call, &case.judged.input, &keep.unwrap_or_default());
        }
        let told = events.clone();
        let broker = Broker {
            log,
            decision: &case.receipt,
            executable: self.launchers.executable().to_path_buf(),
            rules: hosts,
            person,
        };
        let lines = Lines { events, input, control };
        let executed = self.execute(grant, broker, manner, temporary, task, lines);
        let (execution, cwd_after) = executed.await?;
        self.end_journal(journal, log, &case.judged, command).await;
        let said = self.after(caller, &request.context, &case, &execution).await?;
        for notice in &said.notices {
            let _ = told.send(Event::Notice(notice.clone())).await; // a front end that is gone reads none
        }
        view::add_hooks(&mut case.view, said);
        let session = request.context.session.as_deref();
        let busy = self.busy_port(session, &command.text, &execution).await;
        let ended = self.ended_in(request, &case.scene, cwd_after).await?;
        let busy = busy.map(|busy| format!("stockade: {busy}"));
        Ok(response::ran(case, &execution, ended, busy))
    }

    /// Returns whom the command's connections may ask about; nobody where questions are refusals.
    fn person(
        &self,
        asking: Option<&Sender<PendingQuestion>>,
        Case { scene, judged, .. }: &Case,
        conversation: &Conversation,
        command: &Command,
    ) -> Option<Person> {
        let may_ask = judged.facts.mode != stockade_policy::Mode::DontAsk;
        asking.filter(|_| may_ask).map(|questions| Person {
            questions: questions.clone(),
            events: conversation.events.clone(),
            command: command.text.clone(),
            saving: Arc::new(stockade_approvals::remember::LocalSettings {
                project: scene.place.project.clone(),
                state: self.places.state.clone(),
            }),
            may_save: !scene.snapshot.rules.settings().managed_rules_only,
        })
    }

    /// Returns how a command runs.
    fn manner(
        &self,
        Call { request, command, .. }: Call<'_>,
        receipt: &Receipt,
        seat: Option<&quotas::Seat>,
        loopback: Option<Arc<Loopback>>,
        withheld: Vec<String>,
    ) -> Manner {
        let is_tool = request.tool().is_some();
        Manner {
            timeout: command.timeout,
            goes_on: match request.at_limit {
                AtLimit::Usual => command.limits.goes_on,
                AtLimit::Stop => false,
                AtLimit::Background => true,
            },
            // A background process gets keys later, from a terminal that attaches.
            input: match request.stdin || is_tool || (request.background && request.pty) {
                true => pipes::Input::Piped,
                false => pipes::Input::Empty,
            },
            outputs: match (request.one_stream || request.background) && !is_tool {
                true => pipes::Outputs::Joined,
                false => pipes::Outputs::Apart,
            },
            directory: self.places.task(&receipt.id),
            kept: command.limits.output,
            budget: seat.map(quotas::Seat::output),
            loopback,
            withheld,
        }
    }
}
