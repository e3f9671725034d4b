//! The state in which bash starts: what the parser may assume about it.

use std::collections::BTreeMap;

/// What is known about the shell before it reads the first byte of the text.
///
/// The gateway makes each field true when it starts the shell; a field that is not known to hold makes
/// the tree opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartState {
    /// Version of bash, major and minor.
    pub version: (u32, u32),
    /// The text is read by `bash --noprofile --norc -c`, not in POSIX mode, without aliases and history.
    pub plain_options: bool,
    /// No variable that changes how bash reads a text is in the environment.
    pub clean_environment: bool,
    /// The locale is C or UTF-8.
    pub utf8_or_c: bool,
    /// The environment holds only names that are listed, so others are unset.
    pub closed_environment: bool,
    /// Values of variables that are known exactly, such as `HOME`.
    pub known: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for StartState {
    fn default() -> StartState {
        StartState {
            version: (5, 2),
            plain_options: true,
            clean_environment: true,
            utf8_or_c: true,
            closed_environment: false,
            known: BTreeMap::new(),
        }
    }
}
