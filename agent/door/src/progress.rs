//! Steps of the session, told to the gateway for those who read its records.

use serde_json::Value;
use stockade_wire::progress::{ProgressRequest, Step};

use crate::door::Door;
use crate::host::Note;

impl Door {
    /// Tells of a step. A gateway that cannot record it refuses calls as well, so the session goes on.
    pub async fn progress(&self, step: Step) {
        let context = self.session.context(false);
        let request = ProgressRequest { step, cwd: self.session.cwd(), context };
        let told: Result<Value, _> = self.gateway.call("progress", &request).await;
        if let Err(failure) = told {
            self.host.note(Note::Said(failure.message));
        }
    }
}
