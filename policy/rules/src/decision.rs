//! The three answers of a rule and of a verdict.

/// A decision; the strictest is the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use]
pub enum Decision {
    /// The call may run.
    Allow,
    /// A person decides.
    Ask,
    /// The call does not run.
    Deny,
}

impl Decision {
    /// Returns `allow`, `ask` or `deny`.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}
