//! Values that completions offer, beside which others are accepted.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// Names of tools.
pub(super) const TOOLS: &[&str] = &[
    "Bash",
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
    "WebFetch",
    "WebSearch",
];
/// Usual forms of rules.
pub(super) const RULES: &[&str] = &[
    "Bash",
    "Bash(git:*)",
    "Bash(npm run:*)",
    "Bash(make:*)",
    "Read",
    "Read(//**)",
    "Edit",
    "Edit(//**)",
    "WebFetch",
    "WebFetch(domain:example.com)",
    "mcp__server__tool",
];

/// A text, for which these are offered.
#[derive(Debug, Clone)]
pub(super) struct Known(pub &'static [&'static str]);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
