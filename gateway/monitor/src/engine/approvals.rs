//! Requests about questions that wait.

use std::time::Duration;

use stockade_wire::approvals::{ApprovalAnswer, ApprovalRequest, Lasts};
use stockade_wire::conversation::PendingQuestion;
use tokio::sync::mpsc;

use super::Gateway;
use super::calling::Calling;
use crate::approve::elsewhere::Given;
use crate::audit::GatewayMode;
use crate::protocol::errors::Failure;
use crate::protocol::types::{Answer, CommandRequest};

impl Gateway {
    /// Returns where questions of a call go at which nobody can be asked: they wait for at most `patience`. None where no
    /// gateway stays for the answer to reach.
    pub(super) fn elsewhere(
        &self,
        caller: &Calling,
        request: &CommandRequest,
        patience: Duration,
    ) -> Option<mpsc::Sender<PendingQuestion>> {
        match self.mode {
            GatewayMode::Embedded => None,
            GatewayMode::Daemon | GatewayMode::System => {
                let who = (caller.pid, caller.uid());
                Some(self.approvals.people(request, who, patience))
            }
        }
    }

    /// Answers a request about questions that wait.
    pub async fn about_approvals(
        &self,
        caller: &Calling,
        request: ApprovalRequest,
    ) -> Result<ApprovalAnswer, Failure> {
        let (id, digest, answer) = match request {
            ApprovalRequest::List => {
                return Ok(ApprovalAnswer { approvals: self.approvals.list(caller.uid()) });
            }
            ApprovalRequest::Allow { id, lasts, digest } => (id, digest, yes(lasts)),
            ApprovalRequest::Deny { id, why, digest } => {
                (id, digest, why.map_or(Answer::Deny, Answer::DenyWith))
            }
        };
        let (approvals, who) = (self.approvals.clone(), (caller.pid, caller.uid()));
        let given = Given { answer, digest };
        let answered = super::blocking(move || approvals.answer(&id, given, who)).await?;
        Ok(ApprovalAnswer { approvals: vec![answered] })
    }
}

fn yes(lasts: Lasts) -> Answer {
    match lasts {
        Lasts::Once => Answer::Once,
        Lasts::Session => Answer::Session,
        Lasts::For(lasting) => Answer::For(lasting),
        Lasts::Always => Answer::Always,
    }
}
