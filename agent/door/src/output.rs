//! An output is the answer of a hook; the model hears it in a frame of its own.

use serde_json::Value;
use stockade_model::Block;

/// The answer of a hook.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Output {
    /// Why it blocks.
    pub(crate) blocks: Option<String>,
    /// The turn ends.
    pub(crate) ends: bool,
    pub(crate) decision: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) context: Option<String>,
}

impl Output {
    /// Says whether the hook wants a person to decide.
    pub(crate) fn asks(&self) -> bool {
        self.decision.as_deref().is_some_and(|it| it == "ask" || it == "defer")
    }

    /// Reads the JSON of a hook. One that failed, or says what is not understood, blocks.
    pub(crate) fn of(output: Result<Value, String>) -> Output {
        let blocked = |reason: String| Output { blocks: Some(reason), ..Output::default() };
        let output = match output {
            Ok(Value::Null) => return Output::default(),
            Ok(Value::Object(output)) => Value::Object(output),
            Ok(_) => return blocked("the hook's answer is not an object".into()),
            Err(error) => return blocked(error),
        };
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let specific = output.get("hookSpecificOutput").cloned().unwrap_or_default();
        let decision = text(&specific, "permissionDecision");
        let reason =
            text(&specific, "permissionDecisionReason").or_else(|| text(&output, "reason"));
        let why = || reason.clone().unwrap_or_else(|| "no reason was given".into());
        let stops = output.get("continue").and_then(Value::as_bool) == Some(false);
        let blocks = match (stops, text(&output, "decision").as_deref(), decision.as_deref()) {
            (true, _, _) => Some(text(&output, "stopReason").unwrap_or_else(why)),
            (_, Some("block" | "deny"), _) | (_, _, Some("deny")) => Some(why()),
            (
                _,
                None | Some("approve" | "allow" | "ask"),
                None | Some("allow" | "ask" | "defer"),
            ) => None,
            (_, decision, other) => Some(format!(
                "the hook's decision is unknown: {}",
                other.or(decision).unwrap_or_default()
            )),
        };
        let older =
            text(&output, "decision").map(|it| if it == "approve" { "allow".into() } else { it });
        Output {
            blocks,
            ends: stops,
            decision: decision.or(older),
            reason,
            input: specific.get("updatedInput").filter(|it| it.is_object()).cloned(),
            context: text(&specific, "additionalContext"),
        }
    }
}

/// Returns the reason of a hook, or that it gave none.
pub(crate) fn worded(reason: &str) -> String {
    if reason.trim().is_empty() { "a hook gave no reason".into() } else { reason.to_owned() }
}

/// Returns the words of a hook as a block of text.
pub(crate) fn framed(text: &str) -> Block {
    Block::Text(format!("<hook>\n{text}\n</hook>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_hook_that_is_not_understood_blocks() {
        let of = |output: Value| Output::of(Ok(output));
        assert_eq!(of(json!({})), Output::default());
        assert_eq!(of(Value::Null), Output::default());
        let deny = json!({ "hookSpecificOutput": { "permissionDecision": "deny", "permissionDecisionReason": "no" } });
        assert_eq!(of(deny).blocks.as_deref(), Some("no"));
        assert_eq!(of(json!({ "decision": "block", "reason": "r" })).blocks.as_deref(), Some("r"));
        assert!(
            of(json!({ "hookSpecificOutput": { "permissionDecision": "perhaps" } }))
                .blocks
                .is_some()
        );
        assert!(of(json!("yes")).blocks.is_some());
        assert!(Output::of(Err("gone".into())).blocks.is_some());
        let stop = of(json!({ "continue": false, "stopReason": "enough" }));
        assert_eq!((stop.blocks.as_deref(), stop.ends), (Some("enough"), true));
        assert_eq!(of(json!({ "decision": "approve" })).decision.as_deref(), Some("allow"));
    }
}
