//! Usage of a session, from its results.

use serde_json::{Value, json};

/// Sums over the turns of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Spent {
    took: u64,
    api: u64,
    dollars: f64,
    models: Value,
}

impl Spent {
    /// Takes in the result of a turn; other frames tell nothing.
    pub(super) fn take(&mut self, frame: &Value) {
        if frame.get("type").and_then(Value::as_str) != Some("result") {
            return;
        }
        let number = |key: &str| frame.get(key).and_then(Value::as_u64).unwrap_or_default();
        self.took += number("duration_ms");
        self.api += number("duration_api_ms");
        // These are sums of the session.
        self.dollars = frame.get("total_cost_usd").and_then(Value::as_f64).unwrap_or_default();
        self.models = frame.get("modelUsage").cloned().unwrap_or_default();
    }

    /// Returns the answer to `get_usage`.
    pub(super) fn shown(&self) -> Value {
        let models = if self.models.is_object() { self.models.clone() } else { json!({}) };
        json!({
            "session": {
                "total_cost_usd": self.dollars, "total_api_duration_ms": self.api, "total_duration_ms": self.took,
                "total_lines_added": 0, "total_lines_removed": 0, "model_usage": models,
            },
            "subscription_type": null, "rate_limits_available": false, "rate_limits": null, "behaviors": null,
        })
    }
}
