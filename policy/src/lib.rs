//! Layered rules, and what they decide about one call.
//!
//! [`load`] reads settings texts into [`Rules`]; [`evaluate`] decides one [`Call`] from rules, tree and
//! [`Facts`] alone. Both are functions: same inputs, same answer, on every machine.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod confine;
mod decide;
mod facts;
mod hook;
mod paths;
mod verdict;

use std::collections::BTreeSet;
use std::path::PathBuf;

use stockade_rules::{index, knowledge, pattern, rule};
use stockade_text::json::Value;

pub use confine::sandbox_settings;
pub use decide::evidence::{Change, Evidence, Form, PartEvidence, RuleFiles, Weighed, explain};
pub use decide::{Executed, Named, evaluate, executed_by, named_by};
pub use facts::{
    Bringing, Call, Changed, Doubt, Doubts, Expanded, Facts, GitPlace, HookOutcome, HookVerdict,
    Repository, SandboxState, TreeChange, Unpacked,
};
pub use hook::hook_covers;
pub use stockade_rules::knowledge::{
    DEFAULT_SETTINGS, GitKeys, PROFILES, ProtectedName, Unwritable, git_keys, protected_names,
};
pub use stockade_rules::pattern::path::{Shape, ShapeSegment, verbatim};
pub use stockade_rules::pattern::tool::NameGlob;
pub use stockade_rules::protected::{protected_part, protected_part_in};
pub use stockade_rules::{
    Blocking, CommandHook, Condition, Decision, Handler, Hook, HookEvent, Host, HostError,
    HostName, HostRule, HttpHook, Layer, LoadedSettings, Mode, NetworkRules, Origin, Problem,
    Reach, Rule, Rules, SandboxSettings, Settings, SettingsText, SettingsValue, Severity, lint,
    load, misplaced, settings_values,
};
pub use verdict::{By, Part, RuleMatch, Verdict};

/// Returns the paths that [`evaluate`] may ask about, absolute and as they are written, so that the
/// gateway can resolve them into [`Facts::real_paths`] before.
pub fn paths_of(call: &Call<'_>, facts: &Facts) -> Vec<PathBuf> {
    match call {
        Call::Bash { tree, .. } => decide::paths_of_shell(&decide::Shell::of(tree), facts),
        Call::Tool { name, input } => {
            decide::path_of_tool(name, input, facts).into_iter().collect()
        }
    }
}

/// Returns the directory whose files a tool reads that goes through one (`Grep`), and the pattern that bounds their names.
pub fn walk_of<'a>(call: &Call<'a>, facts: &Facts) -> Option<(PathBuf, Option<&'a str>)> {
    match *call {
        Call::Bash { .. } => None,
        Call::Tool { name, input } => decide::walk_of_tool(name, input, facts),
    }
}

/// Returns the words by which the programs of a call are named, so that the gateway can look for them into
/// [`Facts::doubts`] before.
pub fn programs_of(call: &Call<'_>) -> BTreeSet<Vec<u8>> {
    match call {
        Call::Bash { tree, .. } => decide::programs_of_shell(&decide::Shell::of(tree)),
        Call::Tool { .. } => BTreeSet::new(),
    }
}

/// Returns the patterns that stand for files in a call, for [`Facts::expanded`].
pub fn patterns_of(call: &Call<'_>, facts: &Facts) -> BTreeSet<Shape> {
    match call {
        Call::Bash { tree, .. } => decide::patterns_of_shell(&decide::Shell::of(tree), facts),
        Call::Tool { .. } => BTreeSet::new(),
    }
}

/// Returns the places in which git looks for a repository for a call, for [`Facts::repositories`].
pub fn repositories_of(call: &Call<'_>, facts: &Facts) -> BTreeSet<GitPlace> {
    match call {
        Call::Bash { tree, .. } => decide::repositories_of_shell(&decide::Shell::of(tree), facts),
        Call::Tool { .. } => BTreeSet::new(),
    }
}

/// Returns what commands of a call would write without naming it, for [`Facts::brought`].
pub fn brought_by(call: &Call<'_>, facts: &Facts) -> BTreeSet<Bringing> {
    match call {
        Call::Bash { tree, .. } => decide::brought_by_shell(&decide::Shell::of(tree), facts),
        Call::Tool { .. } => BTreeSet::new(),
    }
}

/// Returns the names of the builders and runners that a call starts, for [`Doubts::changed`]. The facts say what its programs
/// are.
pub fn builders_of(call: &Call<'_>, facts: &Facts) -> BTreeSet<Vec<u8>> {
    match call {
        Call::Bash { tree, .. } => decide::builders_of_shell(&decide::Shell::of(tree), facts),
        Call::Tool { .. } => BTreeSet::new(),
    }
}

/// Says whether what the names of programs stand for changes a decision about a call that runs confined: whether a command
/// is allowed for its name and not for being confined.
pub fn names_count(rules: &Rules, facts: &Facts) -> bool {
    !rules.settings().sandbox.auto_allow || facts.mode == Mode::Plan
}

/// Says whether rules know a tool by this name.
pub fn is_known_tool(name: &str) -> bool {
    knowledge::knowledge().known_tools.contains(&name)
}

/// Says whether a call could run outside the sandbox: it asks for it, or settings name commands that do.
pub fn may_leave_sandbox(rules: &Rules, call: &Call<'_>) -> bool {
    let wish = |input: &Value| {
        input.get("dangerouslyDisableSandbox").is_some_and(|it| it.boolean() == Some(true))
    };
    match call {
        Call::Bash { input, .. } => !rules.settings().sandbox.excluded.is_empty() || wish(input),
        Call::Tool { .. } => false,
    }
}

/// Says whether settings let the call run outside the sandbox: each of its commands is excluded, or the call
/// asks for it and may. [`Facts::sandbox`] is then [`SandboxState::Off`]. The facts say what its programs are for a command
/// that runs unconfined.
pub fn runs_outside_sandbox(rules: &Rules, call: &Call<'_>, facts: &Facts) -> bool {
    match call {
        Call::Bash { tree, input } => {
            let wish =
                input.get("dangerouslyDisableSandbox").is_some_and(|v| v.boolean() == Some(true));
            (wish && rules.settings().sandbox.allow_unsandboxed)
                || decide::excluded_from_sandbox(rules, &decide::Shell::of(tree), facts)
        }
        Call::Tool { .. } => false,
    }
}
