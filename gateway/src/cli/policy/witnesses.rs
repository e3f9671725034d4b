//! Commands by which the reach of rules is shown.

use serde_json::{Value, json};
use stockade_policy::Rules;
use stockade_text::json::{Dialect, read};

use crate::judge;
use crate::protocol::errors::Failure;

const WITNESSES: &[u8] = include_bytes!("../../../../policies/witnesses.jsonc");

/// A command that does what its rule should have said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Witness {
    /// The command.
    pub command: String,
    /// Effect of the command, as a verb with its object.
    pub shows: String,
    /// True if the command can run or send anything.
    pub escape: bool,
}

/// A call that stands for those that a rule covers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// Name of the tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// How people read the call.
    pub shown: String,
}

/// Returns the commands that are known to do more than they seem to.
pub(super) fn witnesses() -> Result<Vec<Witness>, Failure> {
    let broken = || judge::broken("the built-in table of witnesses cannot be read");
    let table = read(WITNESSES, Dialect::Commented).map_err(|_| broken())?;
    let row = |row: &stockade_text::json::Value| {
        let text = |key: &str| row.get(key)?.text().map(str::to_owned);
        let escape = row.get("escape").is_none_or(|value| value.boolean() != Some(false));
        Some(Witness { command: text("command")?, shows: text("shows")?, escape })
    };
    table.elements().and_then(|rows| rows.iter().map(row).collect()).ok_or_else(broken)
}

/// Returns calls for each rule: its text as it stands, with something for each star, and with a word more.
pub(super) fn samples(rules: &Rules) -> Vec<Sample> {
    let mut found: Vec<Sample> = Vec::new();
    for rule in rules.rules() {
        let (tool, inside) = match rule.text.trim().split_once('(') {
            Some((tool, rest)) => (tool, rest.strip_suffix(')').unwrap_or(rest)),
            None => (rule.text.trim(), ""),
        };
        found.extend(calls(tool, inside));
    }
    found.dedup();
    found
}

/// Returns a call of Bash.
pub(super) fn command(text: &str) -> Sample {
    Sample { tool: "Bash".into(), input: json!({ "command": text }), shown: text.to_owned() }
}

fn calls(tool: &str, inside: &str) -> Vec<Sample> {
    match tool {
        "Bash" => {
            let prefix = inside.strip_suffix(":*").or_else(|| inside.strip_suffix(" *"));
            let text = prefix.unwrap_or(inside).replace('*', "x");
            match (text.is_empty(), prefix) {
                (true, _) => Vec::new(),
                (false, None) => vec![command(&text), command(&format!("{text} --more"))],
                (false, Some(_)) => {
                    vec![
                        command(&text),
                        command(&format!("{text} x")),
                        command(&format!("{text} --more")),
                    ]
                }
            }
        }
        "Read" | "Edit" | "Write" => {
            let path = inside.replace("**", "x").replace('*', "x");
            // `//x` is `/x` of the file system; `/x` begins at the project.
            let path = path.strip_prefix('/').unwrap_or(&path);
            vec![call(tool, "file_path", if path.is_empty() { "x" } else { path })]
        }
        "WebFetch" => {
            let host = inside.trim().strip_prefix("domain:").unwrap_or("example.com");
            vec![call(tool, "url", &format!("https://{}/", host.trim().replace('*', "x")))]
        }
        name if name.contains('*') => Vec::new(),
        name => vec![Sample { tool: name.into(), input: json!({}), shown: name.to_owned() }],
    }
}

fn call(tool: &str, field: &str, value: &str) -> Sample {
    let shown = format!("{tool} {value}");
    Sample { tool: tool.into(), input: json!({ field: value }), shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_witnesses_are_read() {
        let witnesses = witnesses().unwrap();
        assert!(witnesses.iter().any(|one| one.command.starts_with("curl -T ")));
    }
}
