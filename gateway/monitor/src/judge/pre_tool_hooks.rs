//! Hooks of a call while it is judged: before the rules are asked, when a question would be put, and after
//! a refusal. Whatever a hook changes is read, heard by the other hooks and judged like what came through the door.

use serde_json::{Value, json};
use stockade_policy::{
    Decision, HookEvent, HookOutcome, HookVerdict, Layer, Mode, Origin, Verdict,
};

use super::{Asked, Hooks, Reading, Scene, read};
use crate::hooks::{self, Means, Ran, Report, merge};
use crate::parse::Scanner;
use crate::protocol::errors::Failure;

/// A call with what its hooks made of it so far.
pub(super) struct PreToolHooks<'a> {
    scanner: &'a Scanner,
    scene: &'a Scene,
    asked: &'a Asked<'a>,
    /// The input as it is now.
    pub(super) input: Value,
    /// The input before, and where the hook is configured that changed it.
    pub(super) received: Option<(Value, Origin)>,
    /// The input as it is now, read.
    pub(super) reading: Reading,
    /// The answers of the hooks.
    pub(super) report: Report,
}

impl<'a> PreToolHooks<'a> {
    /// Hears the hooks of PreToolUse.
    pub(super) async fn open(
        scanner: &'a Scanner,
        scene: &'a Scene,
        asked: &'a Asked<'a>,
        reading: Reading,
    ) -> Result<PreToolHooks<'a>, Failure> {
        let input = asked.input.clone();
        let report = Report::default();
        let mut hearing =
            PreToolHooks { scanner, scene, asked, input, received: None, reading, report };
        match &asked.hooks {
            Hooks::Recorded(recorded) => {
                hearing.report = recorded.before.clone();
                if let Some((new, origin)) = hearing.report.updated.clone() {
                    hearing.take(new, origin).await;
                }
            }
            Hooks::Run(means) => {
                let (contexts, messages) = hooks::earlier(means, asked.context).await;
                let ran = hearing.run(means, HookEvent::PreToolUse, &Value::Null, &[]).await?;
                hearing.report = merge::before(ran);
                hearing.report.notices.extend(contexts.iter().chain(&messages).cloned());
                hearing.report.context.extend(contexts);
                hearing.report.messages.extend(messages);
                if let Some((new, origin)) = hearing.report.updated.clone() {
                    let kept = merge::kept(&hearing.report, &new);
                    hearing.change(means, kept, new, origin).await?;
                }
            }
        }
        Ok(hearing)
    }

    /// Hears the hooks of PermissionRequest if the verdict is a question, and says whether one of them answered it.
    ///
    /// A yes has the weight of a PreToolUse hook's yes: rules, protected paths and what is not understood still ask.
    pub(super) async fn answers(&mut self, verdict: &Verdict) -> Result<bool, Failure> {
        // A question that nobody can be asked is a refusal already, but no rule made it one.
        let asks = verdict.decision == Decision::Ask || verdict.code == "no_person";
        if !asks {
            return Ok(false);
        }
        let ran = match &self.asked.hooks {
            Hooks::Recorded(recorded) => recorded.requests.clone(),
            Hooks::Run(means) => {
                self.run(means, HookEvent::PermissionRequest, &Value::Null, &[]).await?
            }
        };
        let said = merge::requested(ran);
        let bound = hooks::is_asked_by_policy(&self.report);
        let is_weak = |it: &HookOutcome| {
            it.verdict == HookVerdict::Allow && bound && it.origin.layer != Layer::Policy
        };
        let outcome = said.outcome.clone().filter(|it| !is_weak(it));
        let updated = said.updated.clone();
        self.add(said);
        let Some(outcome) = outcome else { return Ok(false) };
        self.report.outcome = Some(outcome.clone());
        if let Some((new, origin)) = updated {
            match &self.asked.hooks {
                Hooks::Recorded(_) => {
                    self.take(new, origin).await;
                }
                Hooks::Run(means) => self.change(means, Some(outcome), new, origin).await?,
            }
        }
        Ok(true)
    }

    /// Tells the hooks of PermissionDenied of a refusal in auto mode.
    pub(super) async fn told(&mut self, verdict: &Verdict) -> Result<(), Failure> {
        let auto =
            self.scene.mode == Mode::Auto && !self.scene.snapshot.rules.settings().disable_auto;
        let Hooks::Run(means) = &self.asked.hooks else { return Ok(()) };
        if !auto || verdict.decision != Decision::Deny {
            return Ok(());
        }
        let reason = json!({ "reason": verdict.reason });
        let ran = self.run(means, HookEvent::PermissionDenied, &reason, &[]).await?;
        let mut said = merge::told(&ran);
        said.ran = ran;
        if said.retry {
            let words = "a hook allows another try of this call";
            said.context.push(words.into());
            said.notices.push(words.into());
        }
        self.add(said);
        Ok(())
    }

    /// Adds what further hooks said; what it comes to is the caller's matter.
    fn add(&mut self, said: Report) {
        self.report.ran.extend(said.ran);
        self.report.notices.extend(said.notices);
        self.report.context.extend(said.context);
        self.report.messages.extend(said.messages);
        self.report.stop = self.report.stop.take().or(said.stop);
    }

    /// Takes a new input and lets the other hooks of PreToolUse hear it: each judges what would run. `kept` is the
    /// outcome so far.
    async fn change(
        &mut self,
        means: &Means,
        kept: Option<HookOutcome>,
        new: Value,
        origin: Origin,
    ) -> Result<(), Failure> {
        if !self.take(new.clone(), origin).await {
            return Ok(());
        }
        let givers: Vec<usize> = self
            .report
            .ran
            .iter()
            .filter(|run| run.event == HookEvent::PreToolUse)
            .filter(|run| run.answer.as_ref().is_ok_and(|it| it.updated.as_ref() == Some(&new)))
            .map(|run| run.index)
            .collect();
        let ran = self.run(means, HookEvent::PreToolUse, &Value::Null, &givers).await?;
        let first = std::mem::take(&mut self.report);
        self.report = merge::again(first, kept, &new, ran);
        Ok(())
    }

    /// Takes a new input. One that cannot be used is a refusal, and says so.
    async fn take(&mut self, new: Value, origin: Origin) -> bool {
        match read(self.scanner, self.scene, self.asked.tool, self.asked.runner, &new).await {
            Ok(reading) => {
                self.reading = reading;
                if self.received.is_none() && new != self.input {
                    self.received = Some((self.input.clone(), origin));
                }
                self.input = new;
                true
            }
            Err(failure) => {
                let reason = format!("the new input of a hook cannot be used: {}", failure.message);
                let verdict = HookVerdict::Deny;
                self.report.outcome = Some(HookOutcome { verdict, reason, origin });
                self.report.updated = None;
                false
            }
        }
    }

    async fn run(
        &self,
        means: &Means,
        event: HookEvent,
        further: &Value,
        but: &[usize],
    ) -> Result<Vec<Ran>, Failure> {
        let call = hooks::Call {
            event,
            subject: self.asked.tool,
            input: &self.input,
            further,
            id: self.asked.id,
            mode: self.scene.mode.name(),
            place: &self.scene.place,
            context: self.asked.context,
            covers: &|hook| self.reading.is_covered(self.asked.tool, hook),
        };
        let around = hooks::Around { scene: self.scene, scanner: self.scanner };
        hooks::run(around, means, &call, but).await
    }
}
