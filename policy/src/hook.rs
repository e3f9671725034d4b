//! The calls at which a hook runs.

use stockade_parser::CommandTree;
use stockade_rules::{Condition, Hook};

use crate::Mode;
use crate::decide::evaluate;
use crate::facts::{Call, Facts};

/// Says whether the `if` of a hook, where it has one, covers a call.
pub fn hook_covers(hook: &Hook, call: &Call<'_>, facts: &Facts) -> bool {
    hook.condition.as_ref().is_none_or(|condition| covers(condition, call, facts))
}

/// Says whether the rule, taken as a deny rule, reaches a part of the call or could, once its words are known.
/// A call that is not understood or not read is covered: a hook that runs too often harms less than one that
/// does not.
fn covers(condition: &Condition, call: &Call<'_>, facts: &Facts) -> bool {
    let facts = Facts { hook: None, mode: Mode::Default, interactive: true, ..facts.clone() };
    let opaque = |tree: &CommandTree| !tree.opaque_spans().is_empty() || !tree.unread().is_empty();
    let unclear = match call {
        Call::Bash { tree, .. } => opaque(tree),
        Call::Tool { .. } => false,
    };
    unclear || !evaluate(condition.rules(), call, &facts).rules.is_empty()
}
