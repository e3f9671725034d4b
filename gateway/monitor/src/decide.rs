//! The one door to running: what is on disk becomes an outcome. The only maker of a [`Grant`], and nothing runs without one.
//!
//! A grant comes from a [`Recorded`] decision that says allow, or from a [`Recorded`] question and the [`Approved`] yes to it.
//! Both hold the spec whose digest their record names, and both are used up.
//!
//! Nobody else makes a grant:
//!
//! ```compile_fail,E0451
//! fn forged(spec: stockade_spec::SandboxSpec) -> stockade_monitor::decide::Grant {
//!     stockade_monitor::decide::Grant { spec }
//! }
//! ```
//!
//! keeps one for a second run:
//!
//! ```compile_fail,E0382
//! fn twice(grant: stockade_monitor::decide::Grant) {
//!     let _ = (grant.into_spec(), grant.into_spec());
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn copied(grant: &stockade_monitor::decide::Grant) -> stockade_monitor::decide::Grant {
//!     grant.clone()
//! }
//! ```
//!
//! changes what one allows:
//!
//! ```compile_fail,E0616
//! fn widened(grant: &mut stockade_monitor::decide::Grant, spec: stockade_spec::SandboxSpec) {
//!     grant.spec = spec;
//! }
//! ```
//!
//! answers a question without a person:
//!
//! ```compile_fail,E0451
//! fn unasked() -> stockade_monitor::approve::Consent {
//!     let (channel, shown_hmac, expires) = (String::new(), String::new(), None);
//!     let scope = stockade_log::record::Scope::Once;
//!     stockade_monitor::approve::Consent { channel, waited_ms: 0, shown_hmac, scope, expires }
//! }
//! ```
//!
//! or decides about what is not recorded:
//!
//! ```compile_fail,E0308
//! fn unrecorded(spec: stockade_monitor::decide::Spec) {
//!     let _ = stockade_monitor::decide::decide(spec);
//! }
//! ```
//!
//! A recorded decision is the way:
//!
//! ```
//! fn recorded(decision: stockade_log::Recorded<stockade_monitor::decide::Spec>) {
//!     let _ = stockade_monitor::decide::decide(decision);
//! }
//! fn once(grant: stockade_monitor::decide::Grant) -> stockade_spec::SandboxSpec {
//!     grant.into_spec()
//! }
//! ```

use stockade_policy::Decision;
use stockade_spec::SandboxSpec;

use crate::audit::{Approved, Receipt, Recorded, Subject};
use stockade_shell::environment::TASK_ID;

/// The reach of a command, to be recorded.
#[derive(Debug)]
pub struct Spec(SandboxSpec);

impl From<SandboxSpec> for Spec {
    fn from(spec: SandboxSpec) -> Spec {
        Spec(spec)
    }
}

impl Subject for Spec {
    fn bytes(&self) -> Vec<u8> {
        self.0.bytes()
    }
}

/// The right to run one command once. Its fields are private: nobody else can make or copy one.
#[derive(Debug)]
#[must_use]
pub struct Grant {
    spec: SandboxSpec,
}

/// A command that a person has to allow before it may run. What it may reach is found after that, as things are then.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    decision: String,
}

/// The outcome of a verdict.
#[derive(Debug)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Outcome {
    /// The call may run.
    Granted(Grant),
    /// A person decides.
    Ask(Pending),
    /// The call does not run.
    Refused,
}

/// Decides what a recorded verdict comes to, and returns the receipt of the record with it. The verdict is the one on disk, and it
/// decides once. INVARIANT: without a spec in the record nothing is granted.
pub fn decide(recorded: Recorded<Spec>) -> (Receipt, Outcome) {
    let (receipt, verdict, spec) = recorded.open();
    let outcome = match (verdict, spec) {
        (Decision::Allow, Some(Spec(spec))) => Outcome::Granted(Grant::of(spec, &receipt.id)),
        (Decision::Ask, _) => Outcome::Ask(Pending { decision: receipt.id.clone() }),
        (Decision::Allow, None) | (Decision::Deny, _) => Outcome::Refused,
    };
    (receipt, outcome)
}

impl Pending {
    /// Lifts the question by the yes of a person, which is on disk, too. None if the answer belongs to another question.
    pub fn allowed(self, approved: Approved<Spec>) -> Option<Grant> {
        let (decision, Spec(spec)) = approved.open();
        (decision == self.decision).then(|| Grant::of(spec, &self.decision))
    }
}

impl Grant {
    /// Returns the grant of a decision. The command is told its number, which the digest of the spec cannot hold yet.
    fn of(mut spec: SandboxSpec, decision: &str) -> Grant {
        let variables = &mut spec.program.environment;
        variables.retain(|(name, _)| name != TASK_ID);
        variables.push((TASK_ID.into(), decision.into()));
        Grant { spec }
    }

    /// Gives up the grant for what it allows.
    pub fn into_spec(self) -> SandboxSpec {
        self.spec
    }
}

#[cfg(test)]
mod tests;
