//! Inputs that every step of one decision needs.

use std::path::PathBuf;

use stockade_text::json::Value;

use crate::Decision;
use crate::Mode;
use crate::Rules;
use crate::confine::further_directories;
use crate::facts::{Facts, SandboxState};
use crate::index::RuleId;
use crate::pattern::path::Anchors;
use crate::pattern::tool::NameGlob;
use crate::rule::Specifier;

use super::known;
use super::links::{self, Links};
use super::part::Hit;
use super::shell::Shell;

/// Inputs that every step of one decision needs.
pub(super) struct Context<'a> {
    pub rules: &'a Rules,
    pub facts: &'a Facts,
    pub tool: &'a str,
    pub input: &'a Value,
    /// The mode after locks.
    pub mode: Mode,
    /// Further working directories of the settings, absolute.
    pub directories: Vec<PathBuf>,
    /// The command runs confined and needs no rule.
    pub auto_allow: bool,
    /// The call asked to run unconfined, and settings let it.
    pub unconfined: bool,
    /// The text may set options of the shell that change what patterns mean.
    pub globs_differ: bool,
    /// Nothing in the text does more than read.
    pub only_reads: bool,
    /// Where commands of the text may put links.
    pub made: Links<'a>,
    /// Where rules that refuse or ask begin.
    strict: Anchors,
    /// Where rules that allow begin.
    loose: Anchors,
}

impl<'a> Context<'a> {
    pub fn new(
        rules: &'a Rules,
        facts: &'a Facts,
        tool: &'a str,
        input: &'a Value,
        shell: Option<&Shell<'a>>,
    ) -> Context<'a> {
        let sandbox = &rules.settings().sandbox;
        let excluded = shell.is_some_and(|shell| shell.excluded(rules));
        let mode = resolved(rules, facts);
        let wish =
            input.get("dangerouslyDisableSandbox").is_some_and(|v| v.boolean() != Some(false));
        let unconfined = wish && sandbox.allow_unsandboxed && sandbox.enabled;
        let confined = tool == "Bash"
            && facts.sandbox == SandboxState::Enforced
            && sandbox.enabled
            && !excluded
            && !unconfined;
        Context {
            rules,
            facts,
            tool,
            input,
            mode,
            directories: further_directories(rules, facts),
            auto_allow: confined && sandbox.auto_allow && mode != Mode::Plan,
            unconfined,
            globs_differ: shell.is_some_and(Shell::sets_globs),
            only_reads: shell.is_some_and(known::only_reads),
            made: shell.map_or_else(Links::default, |shell| links::made(shell, facts)),
            strict: facts.anchors(Decision::Deny),
            loose: facts.anchors(Decision::Allow),
        }
    }

    /// Returns where patterns of rules with this effect begin.
    pub fn anchors(&self, effect: Decision) -> &Anchors {
        if effect == Decision::Allow { &self.loose } else { &self.strict }
    }

    /// The sandbox keeps commands from what rules about paths refuse.
    pub fn is_confined(&self) -> bool {
        self.facts.sandbox == SandboxState::Enforced && !self.unconfined
    }

    /// Returns the rules of `effect` about every call of the tool, or of one of its fields.
    pub fn tool_hits(&self, effect: Decision) -> Vec<Hit> {
        let index = self.rules.by_effect(effect);
        index
            .every(self.tool)
            .chain(index.named(self.tool))
            .filter(|id| self.speaks_of_tool(*id))
            .map(Hit::certain)
            .collect()
    }

    fn speaks_of_tool(&self, id: RuleId) -> bool {
        let Some(rule) = self.rules.rule(id) else { return false };
        match &rule.specifier {
            Specifier::Every => true,
            Specifier::Malformed => {
                !rule.tool.contains('*') || NameGlob::new(&rule.tool).matches(self.tool)
            }
            Specifier::EveryOf(names) => names.matches(self.tool),
            Specifier::Parameter(field, value) => {
                scalar(self.input.get(field)).is_some_and(|text| value.matches(&text))
            }
            Specifier::Command(_)
            | Specifier::Read(_)
            | Specifier::Edit(_)
            | Specifier::Domain(_)
            | Specifier::Name(_) => false,
        }
    }
}

/// Returns an input value as rules compare it; nested values have no such form.
fn scalar(value: Option<&Value>) -> Option<String> {
    use stockade_text::json::Kind;
    match &value?.kind {
        Kind::Bool(value) => Some(value.to_string()),
        Kind::Number(digits) => Some(digits.clone()),
        Kind::String(text) => Some(text.clone()),
        Kind::Null | Kind::Array(_) | Kind::Object(_) => None,
    }
}

/// Returns the mode that holds: what is locked becomes `default`.
fn resolved(rules: &Rules, facts: &Facts) -> Mode {
    let settings = rules.settings();
    let locked = match facts.mode {
        // As root nothing else would hold the command.
        Mode::BypassPermissions => {
            settings.disable_bypass || (facts.root && facts.sandbox != SandboxState::Enforced)
        }
        Mode::Auto => settings.disable_auto,
        Mode::Default | Mode::AcceptEdits | Mode::Plan | Mode::DontAsk => false,
    };
    if locked { Mode::Default } else { facts.mode }
}
