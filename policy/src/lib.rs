//! Layered rules, and what they decide about one call.
//!
//! [`load`] reads settings texts into [`Rules`]; [`evaluate`] decides one [`Call`] from rules, tree and
//! [`Facts`] alone. Both are functions: same inputs, same answer, on every machine.
#![forbid(unsafe_code)]

mod facts;
mod layer;
mod settings;
mod verdict;

pub use facts::{Call, Facts, HookOutcome, HookVerdict, Mode, SandboxState};
pub use layer::{Layer, Origin};
pub use settings::{
    CommandHook, Hook, HookEvent, LoadedSettings, Problem, Rules, SandboxSettings, Settings,
    SettingsText, Severity, load,
};
pub use verdict::{By, Decision, Part, RuleMatch, Verdict};

/// Decides one call.
///
/// The strictest finding wins; nothing found, nothing understood and nothing known are asked or denied.
pub fn evaluate(rules: &Rules, call: &Call<'_>, facts: &Facts) -> Verdict {
    let _ = (rules, call, facts);
    Verdict::error("not decided")
}

/// Returns the paths that [`evaluate`] may ask about, as they are written, so that the gateway can
/// resolve them into [`Facts::real_paths`] before.
pub fn paths_of(call: &Call<'_>, facts: &Facts) -> Vec<std::path::PathBuf> {
    let _ = (call, facts);
    Vec::new()
}
