//! The decision about a call, its source, and the reason.

use std::path::PathBuf;

use stockade_parser::Span;

use crate::{Decision, Origin};

/// Source of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// A rule of a settings file or flag.
    Rule,
    /// A PreToolUse hook.
    Hook,
    /// A person.
    Human,
    /// The permission mode.
    Mode,
    /// A check that is always on, or the read-only set.
    Builtin,
    /// Sandbox auto-allow.
    Sandbox,
    /// Nothing spoke of it.
    Default,
    /// Something of ours failed.
    Error,
}

/// A rule that matched a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleMatch {
    /// The rule as it is written, such as `Bash(git log:*)`.
    pub text: String,
    /// Decision that the rule makes.
    pub effect: Decision,
    /// Origin of the rule.
    pub origin: Origin,
    /// The part of the command that it matched.
    pub span: Span,
    /// Index into [`Verdict::parts`].
    pub part: usize,
    /// This rule decided the call.
    pub decisive: bool,
}

/// One part of the call: a simple command, a redirection or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where it stands in the command text.
    pub span: Span,
    /// Its text.
    pub text: String,
    /// Decision about this part alone.
    pub decision: Decision,
    /// Source of the decision about this part.
    pub by: By,
    /// Index into [`Verdict::rules`] of the rule that decided it.
    pub rule: Option<usize>,
    /// Why, in one sentence.
    pub reason: String,
}

/// The decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// Source of the decision.
    pub by: By,
    /// Stable code of the reason, such as `rule_deny`.
    pub code: &'static str,
    /// The reason, one sentence.
    pub reason: String,
    /// The parts of the call, in source order: of very many the deciding one and the strictest others.
    pub parts: Vec<Part>,
    /// How many further parts are not listed, none of them stricter than a listed one.
    pub unlisted: usize,
    /// The rules that matched; of very many those that decided a part, and the first others.
    pub rules: Vec<RuleMatch>,
    /// The rule that "always allow" would write; none when no rule could allow this.
    pub suggestion: Option<String>,
    /// Advice, one sentence for people.
    pub help: String,
    /// True if the call was allowed because it runs sandboxed.
    pub auto_allowed: bool,
    /// Real paths that the sandbox keeps unwritable in the root alone, that the call writes, and that a person is asked about:
    /// their yes makes them writable for it.
    pub opens: Vec<PathBuf>,
}

impl By {
    /// Returns the name used in records.
    pub fn name(self) -> &'static str {
        match self {
            By::Rule => "rule",
            By::Hook => "hook",
            By::Human => "human",
            By::Mode => "mode",
            By::Builtin => "builtin",
            By::Sandbox => "sandbox",
            By::Default => "default",
            By::Error => "error",
        }
    }
}

impl Verdict {
    /// Returns a refusal because something of ours failed.
    pub fn error(reason: impl Into<String>) -> Verdict {
        Verdict {
            decision: Decision::Deny,
            by: By::Error,
            code: "internal_error",
            reason: reason.into(),
            parts: Vec::new(),
            unlisted: 0,
            rules: Vec::new(),
            suggestion: None,
            help: String::new(),
            auto_allowed: false,
            opens: Vec::new(),
        }
    }

    /// Returns the rule that decided, if one did.
    pub fn decisive_rule(&self) -> Option<&RuleMatch> {
        self.rules.iter().find(|rule| rule.decisive)
    }

    /// Returns `source` as `check --jsonl` prints it: the layer of the deciding rule, or who decided.
    pub fn source(&self) -> &'static str {
        match self.by {
            By::Rule => self.decisive_rule().map_or("builtin", |rule| rule.origin.layer.name()),
            By::Hook => "hook",
            By::Mode => "mode",
            By::Sandbox => "sandbox",
            By::Human | By::Builtin | By::Default | By::Error => "builtin",
        }
    }
}
