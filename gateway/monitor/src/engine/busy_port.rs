//! The note under a command that failed because a task of its session has the port that it wants.

use crate::run::Execution;
use crate::tasks::busy_port;
use crate::tasks::store::Store;

use super::{Gateway, blocking};

impl Gateway {
    /// Returns the note, if it applies. The output is read for nothing but this hint: no decision depends on it.
    pub(super) async fn busy_port(
        &self,
        session: Option<&str>,
        command: &str,
        execution: &Execution,
    ) -> Option<String> {
        let session = session?.to_owned();
        let failed = execution.exit.is_none_or(|exit| exit.code != Some(0));
        if !failed || self.tasks.count_of(&session) == 0 {
            return None;
        }
        let output = execution.output.text.to_lowercase();
        busy_port::says_in_use(&output).then_some(())?;
        let store = Store::of(&self.places.state);
        let tasks = blocking(move || Ok(store.with_ports(store.list(Some(&session))?)));
        // Some programs do not say which port it was that they were told to take.
        let tasks = tasks.await.ok()?;
        busy_port::note(&output, &tasks).or_else(|| busy_port::note(command, &tasks))
    }
}
