//! Requests about questions that wait.

use std::time::Duration;

use stockade_wire::approvals::{ApprovalAnswer, ApprovalRequest};
use stockade_wire::conversation::PendingQuestion;
use tokio::sync::mpsc;

use super::Gateway;
use super::calling::Calling;
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
        let (id, answer) = match request {
            ApprovalRequest::List => {
                return Ok(ApprovalAnswer { approvals: self.approvals.list(caller.uid()) });
            }
            ApprovalRequest::Allow { id, always: true } => (id, Answer::Always),
            ApprovalRequest::Allow { id, always: false } => (id, Answer::Once),
            ApprovalRequest::Deny { id } => (id, Answer::Deny),
        };
        let (approvals, who) = (self.approvals.clone(), (caller.pid, caller.uid()));
        let answered = super::blocking(move || approvals.answer(&id, answer, who)).await?;
        Ok(ApprovalAnswer { approvals: vec![answered] })
    }
}
