//! Hooks at which nothing is decided any more: those that run when a command has ended, and those of events that a
//! front end tells of.

use serde_json::{Value, json};
use stockade_policy::{Hook, HookEvent};

use super::Gateway;
use super::calling::Calling;
use crate::audit::Receipt;
use crate::hooks::{self, Call, Report, merge};
use crate::judge::{self, Runner, Scene};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Context, EventRequest, EventView};
use crate::records;
use crate::response::Case;
use crate::run::Execution;
use crate::worker;

impl Gateway {
    /// Runs the hooks for the way in which a command ended, and records them.
    pub(super) async fn after(
        &self,
        caller: &Calling,
        context: &Context,
        Case { scene, judged, receipt, .. }: &Case,
        execution: &Execution,
    ) -> Result<Report, Failure> {
        let (event, further) = match &judged.tree {
            Some(_) => end(execution),
            None => worker::end(execution),
        };
        let call = Call {
            event,
            subject: &judged.tool,
            input: &judged.input,
            further: &further,
            id: &judged.id,
            mode: scene.mode.name(),
            place: &scene.place,
            context,
            covers: &|hook| judged.is_covered(&judged.tool, hook),
        };
        self.tell(scene, &call, caller, Some(receipt), None).await
    }

    /// Runs the hooks of an event that a front end tells of.
    pub async fn event(&self, request: EventRequest) -> Result<EventView, Failure> {
        self.event_for(Calling::parent(), request).await
    }

    /// The same for a caller that the kernel named.
    pub async fn event_for(
        &self,
        caller: Calling,
        request: EventRequest,
    ) -> Result<EventView, Failure> {
        let event = event(&request)?;
        self.log.is_writable().await?;
        self.note_session(&caller, &request);
        let scene = self.find(&request.cwd, &request.context).await?;
        let settings = scene.snapshot.rules.settings();
        let id = match &request.call_id {
            Some(id) => id.clone(),
            None => crate::random::call_id()?,
        };
        let subject = request.subject.as_str();
        let matching = hooks::matching(&settings.hooks, event, subject);
        let has_condition =
            |index: &usize| settings.hooks.get(*index).is_some_and(|hook| hook.condition.is_some());
        let reading = match event.is_about_a_tool() && matching.iter().any(has_condition) {
            true => {
                let (scanner, input) = (&self.scanner, &request.input);
                Some(judge::read(scanner, &scene, subject, Runner::Caller, input).await?)
            }
            false => None,
        };
        let covers = |hook: &Hook| {
            let covered = reading.as_ref().map(|reading| reading.is_covered(subject, hook));
            covered.unwrap_or(hook.condition.is_none())
        };
        let call = Call {
            event,
            subject,
            input: &request.input,
            further: &request.further,
            id: &id,
            mode: scene.mode.name(),
            place: &scene.place,
            context: &request.context,
            covers: &covers,
        };
        let call_id = request.call_id.as_deref();
        let report = self.tell(&scene, &call, &caller, None, call_id).await?;
        Ok(EventView {
            hooks: report.ran.iter().map(hooks::view).collect(),
            context: report.context,
            messages: report.messages,
            blocks: report.blocks,
            stop: report.stop,
            retry: report.retry,
            notices: report.notices,
        })
    }

    /// Runs the hooks of an event and records them, before anybody learns of what they said.
    pub async fn tell(
        &self,
        scene: &Scene,
        call: &Call<'_>,
        caller: &Calling,
        decision: Option<&Receipt>,
        call_id: Option<&str>,
    ) -> Result<Report, Failure> {
        let settings = scene.snapshot.rules.settings();
        if hooks::matching(&settings.hooks, call.event, call.subject).is_empty() {
            return Ok(Report::default());
        }
        // A hook that could not be recorded does not run.
        let log = self.log.log().await?;
        let around = hooks::Around { scene, scanner: &self.scanner };
        let ran = hooks::run(around, &self.means(), call, &[]).await?;
        let mut report = merge::told(&ran);
        report.outcome = merge::strictest(&ran);
        if !ran.is_empty() {
            let agent = records::agent(call.context, call_id, call.mode);
            let caller = caller.caller().await?;
            records::hooks(&log, decision, call.event, &ran, agent, caller).await?;
        }
        report.ran = ran;
        Ok(report)
    }
}

/// Returns the event that a front end tells of: one at which nothing waits for a decision about a call.
fn event(request: &EventRequest) -> Result<HookEvent, Failure> {
    let known = HookEvent::named(&request.event).filter(|event| {
        let decides =
            [HookEvent::PreToolUse, HookEvent::PermissionRequest, HookEvent::ConfigChange];
        !decides.contains(event)
    });
    known.ok_or_else(|| {
        let message = format!("unknown event `{}`", request.event.escape_debug());
        let help =
            "the page about hooks lists the events; those at which a call is decided are not told";
        Failure::new(Code::InvalidRequest, message, help)
    })
}

/// Returns the event of an end, with what its hooks get to know besides the call.
fn end(execution: &Execution) -> (HookEvent, Value) {
    let exit = execution.exit.unwrap_or_default();
    let duration = u64::try_from(execution.took.as_millis()).unwrap_or(u64::MAX);
    let stopped = execution.timed_out || execution.interrupted;
    if exit.code == Some(0) && !stopped {
        let response =
            json!({ "stdout": execution.output.text, "stderr": "", "interrupted": false });
        return (
            HookEvent::PostToolUse,
            json!({ "tool_response": response, "duration_ms": duration }),
        );
    }
    let error = match (execution.timed_out, exit.code, exit.signal) {
        (true, _, _) => "it did not end in time".to_owned(),
        (false, Some(code), _) => format!("it ended with status {code}"),
        (false, None, Some(signal)) => format!("it was ended by signal {signal}"),
        (false, None, None) => "its exit status is unknown".to_owned(),
    };
    let is_interrupt = execution.interrupted;
    (
        HookEvent::PostToolUseFailure,
        json!({ "error": error, "is_interrupt": is_interrupt, "duration_ms": duration }),
    )
}
