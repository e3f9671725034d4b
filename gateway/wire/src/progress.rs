//! Steps of a session, by the word of its agent: recorded, and never looked at by a decision.

use serde::{Deserialize, Serialize};

use crate::types::Context;

/// Longest word, in characters.
const LONGEST: usize = 128;
/// Most models of one turn.
const MODELS: usize = 16;

/// A step of a session, told by its agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressRequest {
    /// The step.
    pub step: Step,
    /// Working directory, absolute.
    pub cwd: String,
    /// Context of the session, which it names.
    pub context: Context,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// The session begins, or goes on: `startup`, `resume` or `fork`.
    Start {
        /// How it began.
        source: String,
    },
    /// A turn begins.
    Turn {},
    /// The turn is over.
    TurnEnd {
        /// How it ended, in a word.
        outcome: String,
        /// Use of models in the turn.
        usage: Vec<Used>,
    },
    /// The agent says that the task of the session is done.
    Completed {},
    /// The session is over.
    End {},
}

/// Use of one model, with that of sub-agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Name of the model.
    pub model: String,
    /// Answers.
    pub answers: u64,
    /// Input tokens that no cache held.
    pub input: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_write: u64,
    /// Input tokens that were read from the provider's cache.
    pub cache_read: u64,
    /// Output tokens.
    pub output: u64,
    /// Millionths of a US dollar.
    pub micro_dollars: u64,
}

impl Step {
    /// Returns its name in the log, how a session began, how a turn ended, and what the turn used.
    pub fn into_parts(self) -> (&'static str, Option<String>, Option<String>, Vec<Used>) {
        match self {
            Step::Start { source } => ("start", Some(source), None, Vec::new()),
            Step::Turn {} => ("turn", None, None, Vec::new()),
            Step::TurnEnd { outcome, usage } => ("turn_end", None, Some(outcome), usage),
            Step::Completed {} => ("completed", None, None, Vec::new()),
            Step::End {} => ("end", None, None, Vec::new()),
        }
    }

    /// Says whether all words and numbers are short enough for a record.
    pub fn is_bounded(&self) -> bool {
        let is_word = |text: &str| !text.is_empty() && text.chars().count() <= LONGEST;
        match self {
            Step::Start { source } => is_word(source),
            Step::TurnEnd { outcome, usage } => {
                let is_fine = |it: &Used| is_word(&it.model) && it.numbers().all(|it| it < 1 << 53);
                is_word(outcome) && usage.len() <= MODELS && usage.iter().all(is_fine)
            }
            Step::Turn {} | Step::Completed {} | Step::End {} => true,
        }
    }
}

impl Used {
    fn numbers(&self) -> impl Iterator<Item = u64> {
        let Used { answers, input, cache_write, cache_read, output, micro_dollars, .. } = self;
        [*answers, *input, *cache_write, *cache_read, *output, *micro_dollars].into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_record_is_told_from_what_fits() {
        let end =
            |outcome: &str, usage: Vec<Used>| Step::TurnEnd { outcome: outcome.into(), usage };
        let used = |model: &str, output| Used { model: model.into(), output, ..Used::default() };
        let most = (1 << 53) - 1;
        assert!(end("finished", vec![used("m", most); 16]).is_bounded());
        assert!(Step::Start { source: "é".repeat(128) }.is_bounded());
        for over in [
            end("finished", vec![used("m", 1); 17]),
            end("finished", vec![used("m", most + 1)]),
            end("finished", vec![used("", 1)]),
            end("", Vec::new()),
            Step::Start { source: "é".repeat(129) },
        ] {
            assert!(!over.is_bounded(), "{over:?}");
        }
    }
}
