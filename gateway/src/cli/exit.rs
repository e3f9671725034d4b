//! The status that this process ends with.

/// A status, as `std::process::ExitCode`, but one that can be read: the executable has an entry of its own and gives it
/// to the system itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitCode(u8);

impl ExitCode {
    /// All is well.
    pub(crate) const SUCCESS: ExitCode = ExitCode(0);

    /// Returns it as a number.
    pub(crate) fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(status: u8) -> ExitCode {
        ExitCode(status)
    }
}
