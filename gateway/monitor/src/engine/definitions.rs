//! A command text with the aliases and functions of its person that it uses: one text, which is judged and run.

use serde_json::Value;
use stockade_shell::definitions::{self, Definitions};

use super::Gateway;
use crate::protocol::errors::Failure;
use crate::protocol::types::CheckRequest;
use crate::request::{Command, command_text};

/// The front door of a call that is only tried.
const CHECK: &str = "check";

impl Gateway {
    /// Returns a command with the definitions that it uses.
    pub(super) async fn written_out(&self, mut command: Command) -> Result<Command, Failure> {
        if command.words.is_none()
            && let Some(text) = self.with_definitions(command.text.clone()).await?
        {
            command.text = text;
        }
        Ok(command)
    }

    /// Does the same with a command that is tried as if it were run. A caller that runs a text itself has definitions of its own.
    pub(super) async fn tried_with_definitions(
        &self,
        request: &mut CheckRequest,
    ) -> Result<(), Failure> {
        let is_run = request.context.door == CHECK && request.tool == "Bash";
        if !is_run || request.caller_runs || request.case.is_some() {
            return Ok(());
        }
        let Some(Value::String(text)) = request.input.get_mut("command") else { return Ok(()) };
        if let Some(written) = self.with_definitions(text.clone()).await? {
            *text = written;
        }
        Ok(())
    }

    async fn with_definitions(&self, text: String) -> Result<Option<String>, Failure> {
        let state = self.places.state.clone();
        if definitions::file(&state).symlink_metadata().is_err() {
            return Ok(None);
        }
        self.blocking(move || {
            let written = Definitions::read(&state)?.written_out(&text);
            written.map(command_text).transpose()
        })
        .await
    }
}
