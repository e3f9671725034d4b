//! Records of what commands and agents changed, kept for a person's review.

use super::Gateway;
use crate::audit::{Log, Receipt};
use crate::judge::{Judged, Scene};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::CheckRequest;
use crate::records;
use crate::request::Command;
use crate::review::edits::Edit;
use crate::review::{self, Journal};
use stockade_policy::Decision;

impl Gateway {
    /// Makes the journal of a run that is about to start. Without one it does not.
    pub(super) async fn begin_journal(
        &self,
        journal: Option<Journal>,
        log: &Log,
        receipt: &Receipt,
    ) -> Result<Option<Journal>, Failure> {
        let Some(mut journal) = journal else { return Ok(None) };
        let decision = receipt.id.clone();
        let begun = self.blocking(move || Ok(journal.begin(&decision).map(|()| journal))).await?;
        match begun {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => {
                records::not_run(log, receipt).await?;
                Err(self.unwritable(&error))
            }
        }
    }

    /// Takes the journal of a run that is over into the ledger.
    pub(super) async fn end_journal(
        &self,
        journal: Option<Journal>,
        log: &Log,
        judged: &Judged,
        command: &Command,
    ) {
        let Some(journal) = journal else { return };
        let (state, redactor) = (self.places.state.clone(), log.redactor().clone());
        let (tree, text) = (judged.tree.clone(), command.text.clone());
        let end = move || {
            // One that cannot be taken now is by whoever looks next: nothing is lost.
            let _ = journal.end(&state, || redactor.command(tree.as_ref(), &text));
            Ok(())
        };
        let _ = self.blocking(end).await;
    }

    /// Notes that a tool of an agent may be about to write a file.
    pub(super) async fn note_edit(
        &self,
        scene: &Scene,
        judged: &Judged,
        request: &CheckRequest,
        receipt: &Receipt,
    ) -> Result<(), Failure> {
        if judged.verdict.decision == Decision::Deny || request.case.is_some() {
            return Ok(());
        }
        let (state, place, input) =
            (self.places.state.clone(), scene.place.clone(), judged.input.clone());
        let (tool, agent) = (request.tool.clone(), request.context.agent.clone());
        let decision = receipt.id.clone();
        let note = move || {
            let edit =
                Edit { tool: &tool, input: &input, agent: agent.as_deref(), decision: &decision };
            Ok(review::note_edit(&state, &place, edit))
        };
        self.blocking(note).await?.map_err(|error| self.unwritable(&error))
    }

    fn unwritable(&self, error: &std::io::Error) -> Failure {
        let state = self.places.state.join("review");
        let message = format!(
            "the review journal in `{}` cannot be written: {error}; nothing was run",
            state.display()
        );
        Failure::new(Code::StateUnusable, message, "make room there")
    }
}
