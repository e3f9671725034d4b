//! Acts that were refused, as the layer that refused them saw them.

/// One distinct refused act.
///
/// The texts come from confined programs: escape them before they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `write`, `network`, `unix-socket`, `limit`: which kind.
    pub kind: String,
    /// System call, or the limit's name.
    pub call: String,
    /// Canonical path, address or value.
    pub object: String,
    /// Origin of the rule that refused it.
    pub rule: String,
    /// How often it was tried.
    pub count: u32,
}
