//! Verdict and person to outcome. The only maker of a [`Grant`], and nothing runs without one.

use stockade_policy::Decision;
use stockade_sandbox::SandboxSpec;

use crate::approve::Consent;
use crate::audit::{Receipt, Recorded};

/// The right to run one command once. Its fields are private: nobody else can make or copy one.
#[derive(Debug)]
#[must_use]
pub struct Grant {
    spec: SandboxSpec,
}

/// A command that a person has to allow before it may run. What it may reach is found after that, as things are then.
#[derive(Debug)]
#[must_use]
pub struct Pending(());

/// What a verdict comes to.
#[derive(Debug)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Outcome {
    /// It may run.
    Granted(Grant),
    /// A person decides.
    Ask(Pending),
    /// It does not run.
    Refused,
}

/// Decides what a recorded verdict comes to, and returns the receipt of the record with it. The verdict is the one on disk, and it
/// decides once.
pub fn decide(recorded: Recorded, spec: SandboxSpec) -> (Receipt, Outcome) {
    let outcome = match recorded.verdict() {
        Decision::Allow => Outcome::Granted(Grant { spec }),
        Decision::Ask => Outcome::Ask(Pending(())),
        Decision::Deny => Outcome::Refused,
    };
    (recorded.into_receipt(), outcome)
}

impl Pending {
    /// Lifts the question by the consent of a person, which is on disk, too.
    pub fn allowed(self, _consent: Consent, spec: SandboxSpec) -> Grant {
        Grant { spec }
    }
}

impl Grant {
    /// Gives up the grant for what it allows.
    pub fn into_spec(self) -> SandboxSpec {
        self.spec
    }
}
