//! Acts that were refused, as the layer that refused them saw them.

#[cfg(target_os = "linux")]
use super::Limits;

/// Begins the rule of a write to a name that is protected where a writable directory begins, before that name.
pub const AT_TOP: &str = "builtin: protected in the root ";

/// The rule of a connection to a socket by a path that a run does not see: it has a directory of its own there. Whoever sees the
/// host's knows whether there is one.
pub const UNSEEN_SOCKET: &str = "builtin: sockets of the host";

/// The rule of a connection to a port of the run's own loopback where nothing listens. Whoever sees the host's loopback knows
/// whether something listens there.
pub const OWN_LOOPBACK: &str = "builtin: loopback of the command's own";

/// One distinct refused act.
///
/// The texts come from confined programs: escape them before they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violation {
    /// `write`, `network`, `unix-socket`, `syscall`, `limit`, `planted`: which kind.
    pub kind: String,
    /// System call, or the limit's name.
    pub call: String,
    /// Canonical path, address or value.
    pub object: String,
    /// Origin of the rule that refused it.
    pub rule: String,
    /// How often it was tried.
    pub count: u32,
    /// Error number that the caller got; 0 where there was none.
    pub errno: i32,
    /// Process that tried it, as the run numbers its own; 0 where none is known.
    pub pid: u32,
    /// Name of that process, from itself.
    pub program: String,
    /// Layer that saw it: `supervisor`, `filter`, `monitor`, `inspection`.
    pub source: String,
}

#[cfg(target_os = "linux")]
/// Returns the report of a process that has no descriptor left.
pub fn too_many_descriptors(limits: &Limits) -> Violation {
    let mut reached = limit("descriptors", "as many as one process may open".to_owned(), limits);
    reached.errno = libc::EMFILE;
    reached
}

#[cfg(target_os = "linux")]
/// Returns the report of a limit that was reached.
pub fn limit(name: &str, value: String, limits: &Limits) -> Violation {
    Violation {
        kind: "limit".to_owned(),
        call: name.to_owned(),
        object: value,
        rule: limits.origin(name),
        count: 1,
        source: "monitor".to_owned(),
        ..Violation::default()
    }
}
