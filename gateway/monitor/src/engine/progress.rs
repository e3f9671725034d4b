//! Steps of a session, by the word of its agent: recorded for those who read along, and looked at by no decision.

use stockade_wire::progress::{ProgressRequest, Step, Used};

use super::Gateway;
use super::calling::Calling;
use super::sessions::Session;
use crate::audit::record::{self, Body, ModelUsage};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::Context;
use crate::records;
use crate::response::unrecorded;

impl Gateway {
    /// Records a step of a session, by the word of its agent.
    pub async fn progress(&self, caller: Calling, request: ProgressRequest) -> Result<(), Failure> {
        let ProgressRequest { step, cwd, context } = request;
        let invalid = |message: &str| Failure::new(Code::InvalidRequest, message, "");
        if context.session.is_none() {
            return Err(invalid("no session is named"));
        }
        if !step.is_bounded() {
            return Err(invalid("a word, a number or the list of models is too long"));
        }
        if let Some(sessions) = &self.sessions {
            sessions.reports(&caller, &cwd, &context, step != Step::End {});
        }
        self.record_step(&caller, &context, step).await
    }

    /// Records the end of a session whose agent left without telling of it.
    pub(super) async fn record_end(&self, session: &Session) {
        if session.reports {
            // Nobody is left to be told of a failure.
            let _ = self.record_step(&session.caller, &session.context, Step::End {}).await;
        }
    }

    async fn record_step(
        &self,
        caller: &Calling,
        context: &Context,
        step: Step,
    ) -> Result<(), Failure> {
        let (action, source, outcome, used) = step.into_parts();
        let body = record::Session {
            action,
            // The mode is that of the settings where the agent names none, and nobody reads them for this.
            agent: records::agent(context, None, context.mode.as_deref().unwrap_or_default()),
            caller: caller.caller().await?,
            source: source.map(Into::into),
            outcome: outcome.map(Into::into),
            usage: used.into_iter().map(model).collect(),
        };
        let log = self.log.log().await?;
        let recorded = log.record(Body::Session(Box::new(body))).await;
        recorded.map(drop).map_err(|error| unrecorded(&error))
    }
}

fn model(used: Used) -> ModelUsage {
    let Used { model, answers, input, cache_write, cache_read, output, micro_dollars } = used;
    let model = model.into();
    ModelUsage { model, answers, input, cache_write, cache_read, output, micro_dollars }
}
