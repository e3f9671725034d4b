//! Permission modes.

/// A permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Ask for what no rule allows.
    Default,
    /// Edits and file commands inside the working directories run.
    AcceptEdits,
    /// Nothing is written.
    Plan,
    /// An outside reviewer answers questions.
    Auto,
    /// Questions are refusals.
    DontAsk,
    /// No questions but those of rules.
    BypassPermissions,
}

impl Mode {
    /// Names in settings.
    pub(crate) const NAMES: [&str; 6] =
        ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];

    /// Returns the mode with this name.
    pub fn named(name: &str) -> Option<Mode> {
        match name {
            "default" | "manual" => Some(Mode::Default),
            "acceptEdits" => Some(Mode::AcceptEdits),
            "plan" => Some(Mode::Plan),
            "auto" => Some(Mode::Auto),
            "dontAsk" => Some(Mode::DontAsk),
            "bypassPermissions" => Some(Mode::BypassPermissions),
            _ => None,
        }
    }

    /// Returns the name used in settings, records and messages.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::Auto => "auto",
            Mode::DontAsk => "dontAsk",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}
