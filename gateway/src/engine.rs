//! The pipeline: parse, decide, record, run, record.

use crate::client::{Conversation, Options};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CheckRequest, CommandRequest, DecisionView, RunOutcome};

/// The whole gate: takes a request, gives its outcome.
#[derive(Debug)]
pub struct Gateway {
    #[allow(dead_code)]
    options: Options,
}

impl Gateway {
    /// Opens the log and what else a gateway holds.
    pub async fn open(options: Options) -> Result<Gateway, Failure> {
        Ok(Gateway { options })
    }

    /// Decides one command, runs it if it may, and records both.
    pub async fn run(&self, request: CommandRequest, conversation: Conversation) -> RunOutcome {
        let _ = (request, conversation);
        RunOutcome::Failed(Failure::new(Code::Internal, "not built", ""))
    }

    /// Judges one call without running anything.
    pub async fn check(&self, request: CheckRequest) -> Result<DecisionView, Failure> {
        let _ = request;
        Err(Failure::new(Code::Internal, "not built", ""))
    }
}
