//! An agent's own rules about commands.
//!
//! Such an agent holds its rules against what a hook made of a command: a call of this executable, which none of them
//! speaks of. So where a command is rewritten, what they refuse and ask about counts here. What they allow does not.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use stockade_text::json;
use stockade_text::json::{Dialect, Value};

use super::Surroundings;
use super::row::placed;
use crate::serve::hook::{Agent, TABLE};

/// Largest settings file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Returns settings that hold the agent's own deny and ask rules about commands, as JSON text; none when there are none.
/// An error names the file that cannot be read or understood: it may hold such a rule.
pub(crate) fn settings(
    agent: Agent,
    around: &Surroundings,
    projects: &[PathBuf],
) -> Result<Option<String>, String> {
    let table = json::read(TABLE.as_bytes(), Dialect::Commented).map_err(|error| error.message)?;
    let Some(row) = table.get(agent.name()).and_then(|row| row.get("rules")) else {
        return Ok(None);
    };
    let files = row.get("files").and_then(Value::elements).unwrap_or_default();
    let (mut deny, mut ask) = (Vec::new(), Vec::new());
    for file in files.iter().filter_map(Value::text) {
        let paths = match file.starts_with(['~', '/']) {
            true => vec![placed(file, around)],
            false => projects.iter().map(|project| project.join(file)).collect(),
        };
        for path in paths {
            let Some(text) = held(&path)?.filter(|text| !text.trim_ascii().is_empty()) else {
                continue;
            };
            let unread =
                |reason: &str| format!("`{}` cannot be understood: {reason}", path.display());
            let value = json::read(&text, Dialect::Commented).map_err(|it| unread(&it.message))?;
            for (key, rules) in [("deny", &mut deny), ("ask", &mut ask)] {
                let keys = row.get(key).and_then(Value::elements).unwrap_or_default();
                let list = keys.iter().filter_map(Value::text);
                let list = list.into_iter().try_fold(&value, |place, key| place.get(key));
                let listed = list.and_then(Value::elements).unwrap_or_default();
                let commands =
                    listed.iter().filter_map(Value::text).filter(|it| is_of_commands(it));
                rules.extend(commands.map(str::to_owned));
            }
        }
    }
    let none = deny.is_empty() && ask.is_empty();
    Ok((!none).then(|| json!({"permissions": {"deny": deny, "ask": ask}}).to_string()))
}

/// Says whether a rule is about commands; the others the agent holds against calls that stay as they are.
fn is_of_commands(rule: &str) -> bool {
    let tool = rule.split('(').next().unwrap_or(rule).trim();
    tool == "Bash" || tool.contains('*')
}

/// Returns what a file holds; none when it is not there.
fn held(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let unread = |reason: &str| format!("`{}` cannot be read: {reason}", path.display());
    // Without waiting for the other end of a FIFO.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = {
        use std::os::unix::fs::OpenOptionsExt as _;
        File::options().read(true).custom_flags(flags).open(path)
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            return match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(unread(&error.to_string())),
            };
        }
    };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(unread("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unread(&error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES { Err(unread("it is too large")) } else { Ok(Some(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn refusals_about_commands_count_and_nothing_else_does() {
        let folder = Folder::new();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        let executable = "/opt/stockade".into();
        let around = Surroundings {
            configuration: home.join(".config"),
            home,
            project: project.clone(),
            executable,
            system: "/".into(),
            moved: Vec::new(),
        };
        let of = |agent| settings(agent, &around, std::slice::from_ref(&project));
        assert_eq!(of(Agent::Claude), Ok(None));
        folder.write("home/.claude/settings.json",
            r#"{"permissions": {"deny": ["Bash(curl:*)", "Read(.env)", "*"], "allow": ["Bash"]}, "sandbox": {"enabled": false}}"#);
        folder.write(
            "project/.claude/settings.local.json",
            r#"{"permissions": {"ask": ["Bash(git push:*)"]} /* mine */}"#,
        );
        let expected =
            r#"{"permissions":{"deny":["Bash(curl:*)","*"],"ask":["Bash(git push:*)"]}}"#;
        assert_eq!(of(Agent::Claude), Ok(Some(expected.to_owned())));
        assert_eq!(of(Agent::Codex), Ok(None));
        folder.write("project/.claude/settings.json", "{");
        assert!(of(Agent::Claude).is_err_and(|reason| reason.contains(".claude/settings.json` cannot be understood")));
    }
}
