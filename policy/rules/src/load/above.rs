//! Restrictions that directories above a project put on it: a repository inside another one does not escape them.
//! Settings of such directories are read like those of a project that nobody trusts; this module keeps those of the
//! restrictions that a trusted project below could loosen.

use super::Merging;
use super::source::Source;
use crate::mode::Mode;

/// Restrictions by directories above the project, which the project's own settings do not loosen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Floor {
    /// `autoAllowBashIfSandboxed` is off.
    pub keep_asking: bool,
    /// The strictest mode.
    mode: Option<Mode>,
}

impl Merging {
    /// Takes the mode of a directory above: one that is not a mode, or that such settings cannot set, is `default`.
    pub(super) fn mode_of_above(&mut self, source: &Source<'_>, named: Option<Mode>) {
        let mode = match named {
            Some(Mode::DontAsk | Mode::AcceptEdits) if !source.may_run() => return,
            Some(Mode::Auto | Mode::BypassPermissions) | None => Mode::Default,
            Some(mode) => mode,
        };
        let floor = stricter(mode, self.above.mode.unwrap_or(mode));
        self.above.mode = Some(floor);
        let known = self.settings.default_mode.unwrap_or(Mode::Default);
        self.settings.default_mode = Some(stricter(floor, known));
    }

    /// Sets the mode, for a project no looser one than directories above it do.
    pub(super) fn set_mode(&mut self, source: &Source<'_>, mode: Mode) {
        let floor = self.above.mode.filter(|_| source.is_shared());
        self.settings.default_mode = Some(floor.map_or(mode, |floor| stricter(mode, floor)));
    }
}

/// Returns the mode that lets less through.
fn stricter(first: Mode, second: Mode) -> Mode {
    let rank = |mode: Mode| match mode {
        Mode::Plan => 0,
        Mode::DontAsk => 1,
        Mode::Default => 2,
        Mode::AcceptEdits => 3,
        Mode::Auto => 4,
        Mode::BypassPermissions => 5,
    };
    if rank(first) <= rank(second) { first } else { second }
}

#[cfg(test)]
mod tests;
