//! The layers of settings and their order, and where a value stands.

use std::path::PathBuf;

/// A layer of settings; a later one is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Settings that hold without any settings file, or by a profile; below all others.
    Builtin,
    /// The person's own settings.
    User,
    /// Settings that come with the project.
    Project,
    /// This person's settings for this project.
    Local,
    /// Options of one call.
    Flag,
    /// Managed settings.
    Policy,
}

/// Where a rule or value stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The file, or a name in `<>` for text that comes from elsewhere.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// JSON pointer (RFC 6901) of the value in its file.
    pub pointer: String,
}

impl Layer {
    /// Returns the name used in messages, records and `check --jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Builtin => "builtin",
            Layer::User => "user",
            Layer::Project => "project",
            Layer::Local => "local",
            Layer::Flag => "flag",
            Layer::Policy => "policy",
        }
    }
}
