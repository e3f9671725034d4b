//! Calls of file tools: the words of the worker that does them, and how a person reads them.

use serde_json::Value;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::{FILE_TOOLS, ToolCall};

/// Words of the worker's command line, as the record has them.
pub const WORDS: [&str; 2] = [PROGRAM, "files"];
/// The executable beside this one that is the worker.
pub const PROGRAM: &str = "stockade-agent";
/// Most bytes of a call.
const MAX_CALL: usize = 4 << 20;

/// Returns the call as one line for people: name of the tool, and the path or pattern that it is about.
pub fn text(call: &ToolCall) -> Result<String, Failure> {
    let refuse = |message: String, help: &str| Failure::new(Code::InvalidRequest, message, help);
    if !FILE_TOOLS.contains(&call.name.as_str()) {
        let message = format!("the file worker has no tool `{}`", call.name.escape_debug());
        return Err(refuse(message, &format!("it has {}", FILE_TOOLS.join(", "))));
    }
    if !call.input.is_object() {
        let message = format!("the input of `{}` is not a JSON object", call.name);
        return Err(refuse(message, "give an object with the fields of the tool"));
    }
    let length = call.input.to_string().len() + call.conditions.to_string().len();
    if length > MAX_CALL {
        let message = format!("the call of `{}` is longer than {MAX_CALL} bytes", call.name);
        return Err(refuse(message, "write the file in parts"));
    }
    let about = ["file_path", "notebook_path", "path", "pattern"];
    let about = about.iter().find_map(|key| call.input.get(*key).and_then(Value::as_str));
    Ok(format!("{}({})", call.name, about.unwrap_or_default().escape_debug()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { name: name.into(), input, conditions: Value::Null }
    }

    #[test]
    fn a_call_is_told_by_tool_and_path() {
        let read = call("Read", json!({ "file_path": "/x/a.rs", "limit": 3 }));
        assert_eq!(text(&read), Ok("Read(/x/a.rs)".into()));
        assert_eq!(text(&call("Glob", json!({ "pattern": "*.rs" }))), Ok("Glob(*.rs)".into()));
        let other = text(&call("Bash", json!({ "command": "id" }))).unwrap_err();
        assert_eq!(other.message, "the file worker has no tool `Bash`");
        assert!(text(&call("Read", json!([]))).is_err());
    }
}
