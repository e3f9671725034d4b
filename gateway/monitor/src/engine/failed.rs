//! Requests that failed before anything was decided, because settings, directories or the request itself could not be
//! used: they leave a record, too.

use serde_json::Value;
use stockade_parser::{Limits, StartState};

use super::Gateway;
use super::calling::Calling;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CheckRequest, CommandRequest, CommandText};
use crate::records::{self, failed::Failed};
use crate::response;
use crate::{judge, settings};
use stockade_base::place::variable;

/// The request, as far as the record of a failure shows it.
#[derive(Debug)]
pub(super) struct Asked {
    failed: Failed,
    /// True if a decision is on disk: a failure from here on belongs to that decision.
    pub(super) is_decided: bool,
}

impl Asked {
    /// Keeps what `request` asks to run.
    pub(super) fn to_run(request: &CommandRequest) -> Asked {
        let (context, cwd) = (&request.context, &request.cwd);
        let text = match &request.command {
            CommandText::Shell(text) => text.clone(),
            CommandText::Words(words) => words.join(" "),
            CommandText::Tool(call) => {
                let id = request.call_id.as_deref();
                let failed = Asked::of(&call.name, call.input.clone(), cwd, context, id);
                return Asked { failed, is_decided: false };
            }
        };
        let failed = Failed {
            command: Some(text.clone()),
            timeout_ms: request.timeout_ms.unwrap_or_default(),
            background: request.background,
            pty: request.pty,
            unsandboxed: request.unsandboxed,
            ..Asked::of("Bash", judge::bash_input(&text, request), cwd, context, None)
        };
        Asked { failed, is_decided: false }
    }

    /// Keeps which call `request` asks about.
    pub(super) fn about(request: &CheckRequest) -> Asked {
        let (input, id) = (request.input.clone(), request.call_id.as_deref());
        let failed = Failed {
            command: judge::command_of(&input).ok(),
            ..Asked::of(&request.tool, input, &request.cwd, &request.context, id)
        };
        Asked { failed, is_decided: false }
    }

    fn of(
        tool: &str,
        input: Value,
        cwd: &str,
        context: &crate::protocol::types::Context,
        call_id: Option<&str>,
    ) -> Failed {
        Failed {
            agent: records::agent(context, call_id, "default"),
            tool: tool.to_owned(),
            input,
            command: None,
            cwd: cwd.into(),
            home: stockade_base::directories::home(|name| variable(context, name))
                .unwrap_or_else(|_| "/".into()),
            timeout_ms: 0,
            background: false,
            pty: false,
            unsandboxed: false,
        }
    }
}

impl Gateway {
    /// Records that a request failed with `failure`, and returns what its caller is told: that, or that it cannot be
    /// recorded.
    pub(super) async fn record_failed(
        &self,
        caller: &Calling,
        asked: Asked,
        failure: Failure,
    ) -> Failure {
        // Failures that the log could not take are counted beside it.
        if asked.is_decided || failure.code == Code::AuditUnavailable {
            return failure;
        }
        match self.try_record(caller, asked.failed, &failure).await {
            Ok(()) => failure,
            Err(unrecorded) => unrecorded,
        }
    }

    async fn try_record(
        &self,
        caller: &Calling,
        failed: Failed,
        failure: &Failure,
    ) -> Result<(), Failure> {
        let log = self.log.log().await?;
        let caller = caller.caller().await?;
        // Secrets are found by what the words of a command mean.
        let tree = match &failed.command {
            Some(text) => {
                let (start, limits) = (StartState::default(), Limits::default());
                Some(self.scanner.parse(text.as_bytes(), &start, &limits).await)
            }
            None => None,
        };
        // No rules were in force.
        let none = settings::merge(Vec::new())?;
        let state = &self.places.audit_state;
        let recorded = records::failed::record(&log, state, &none, caller, failed, tree, failure);
        recorded.await.map(drop).map_err(|error| response::unrecorded(&error))
    }
}
