//! The first step of a call: its input against the schema of the tool.

use jsonschema::Validator;
use serde_json::Value;
use stockade_turn::Call;

use crate::catalogue::Tool;

/// Most mistakes that are told.
const MOST: usize = 5;

/// A call whose input fits the schema of its tool. Only [`validate`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct Valid<'a> {
    tool: &'a Tool,
    call: Call,
}

impl<'a> Valid<'a> {
    pub(crate) fn tool(&self) -> &'a Tool {
        self.tool
    }

    pub(crate) fn input(&self) -> &Value {
        &self.call.input
    }

    pub(crate) fn call_id(&self) -> &str {
        &self.call.id
    }
}

/// Compiles a schema.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

/// Holds a call against the schema of its tool. An error tells the model what is wrong.
pub(crate) fn validate<'a>(
    tool: &'a Tool,
    validator: Option<&Validator>,
    call: Call,
) -> Result<Valid<'a>, String> {
    if !call.input.is_object() {
        return Err(format!("The input of `{}` is not a JSON object.", tool.name));
    }
    if let Some(validator) = validator {
        let wrong: Vec<String> = validator
            .iter_errors(&call.input)
            .take(MOST)
            .map(|error| match error.instance_path.as_str() {
                "" => error.to_string(),
                place => format!("{place}: {error}"),
            })
            .collect();
        if !wrong.is_empty() {
            return Err(format!("The input of `{}` is invalid: {}.", tool.name, wrong.join("; ")));
        }
    }
    Ok(Valid { tool, call })
}
