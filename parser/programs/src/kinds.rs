//! Words of the tables that a tree uses as well.

/// Whether a command runs on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Here.
    Here,
    /// On another machine.
    Remote,
    /// In a container.
    Container,
}

/// A kind of effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    /// Only reads what its operands name and writes to its output.
    ReadOnly,
    /// Starts another program.
    Execute,
    /// Writes or removes a file.
    Write,
    /// Reads a file.
    Read,
    /// Uses the network.
    Network,
    /// Loads code into itself.
    LoadCode,
    /// Runs code of the project, such as a build script.
    ProjectCode,
    /// Changes settings of this user or machine.
    Settings,
}

/// The language of a shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// bash.
    Bash,
    /// A POSIX shell that may be dash, busybox or bash.
    Sh,
}
