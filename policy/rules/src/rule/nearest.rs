//! Tools that nobody knows, and the one that was meant.

use crate::decision::Decision;
use crate::knowledge::knowledge;
use crate::spelling::close;

/// Returns the tool that a rule which refuses or asks is likely to mean, or the empty name where that cannot be told, with
/// what is wrong and what to write; none if the tool is known.
pub(super) fn unknown(
    tool: &str,
    inside: Option<&str>,
    effect: Decision,
) -> Option<(&'static str, String, String)> {
    if is_known(tool) {
        return None;
    }
    let message = format!("unknown tool `{tool}`");
    let until = match effect {
        Decision::Deny => "refused",
        Decision::Ask | Decision::Allow => "asked",
    };
    match near(tool) {
        Some(near) => {
            let meant = inside.map_or(near.to_owned(), |inside| format!("{near}({inside})"));
            let help = format!(
                "did you mean `{meant}`? Until it is corrected, every call of {near} is {until}"
            );
            Some((near, message, help))
        }
        None => {
            let help = format!(
                "write a tool by its exact name, such as `Bash` or `Read`; until then, every call is {until}"
            );
            Some(("", message, help))
        }
    }
}

/// Returns the tool that a rule is about which cannot be read: the known one that its text begins with, or the nearest;
/// the empty name where that cannot be told.
pub(super) fn meant(text: &str) -> &str {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    let text = text.trim_start_matches(|c: char| !letter(c));
    let end = text.find(|c: char| !letter(c)).unwrap_or(text.len());
    let name = text.get(..end).unwrap_or_default();
    match is_known(name) && !name.is_empty() {
        true => name,
        false => near(name).unwrap_or_default(),
    }
}

/// Says whether a tool may be called so.
fn is_known(tool: &str) -> bool {
    let tables = knowledge();
    tables.known_tools.contains(&tool)
        || tables.agent_tools.contains(&tool)
        || tool.contains(['_', '*'])
}

/// Returns the one known tool that is called nearly so.
pub(super) fn near(tool: &str) -> Option<&'static str> {
    close(tool, knowledge().known_tools.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_tool_is_named() {
        let nearest = |tool: &str| unknown(tool, Some("x"), Decision::Deny).map(|(tool, ..)| tool);
        for (typed, wanted) in [
            ("bash", "Bash"),
            ("BASH", "Bash"),
            ("Bsh", "Bash"),
            ("Bahs", "Bash"),
            ("Bashh", "Bash"),
            ("webfetch", "WebFetch"),
            ("Raed", "Read"),
            ("ls", "LS"),
            ("Shell", ""),
        ] {
            assert_eq!(nearest(typed), Some(wanted), "{typed}");
        }
        for known in ["Bash", "mcp__a__b", "TaskCreate", "CronCreate", "todowrite"] {
            assert_eq!(nearest(known), None, "{known}");
            assert_eq!(unknown(known, None, Decision::Deny), None, "{known}");
        }
        let (_, message, help) = unknown("bash", Some("curl:*"), Decision::Deny).unwrap();
        assert_eq!(message, "unknown tool `bash`");
        assert_eq!(
            help,
            "did you mean `Bash(curl:*)`? Until it is corrected, every call of Bash is refused"
        );
        let (tool, _, help) = unknown("Shell", None, Decision::Ask).unwrap();
        assert_eq!(tool, "");
        assert_eq!(
            help,
            "write a tool by its exact name, such as `Bash` or `Read`; until then, every call is asked"
        );
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_about_the_tool_that_it_begins_with() {
        for (text, tool) in [
            ("Bash(git push", "Bash"),
            ("Bash curl:*", "Bash"),
            ("Bash[curl:*]", "Bash"),
            ("\"Bash(curl:*)\"", "Bash"),
            ("bsh(curl", "Bash"),
            ("mcp__a__b(", "mcp__a__b"),
            ("Frobnicate(x", ""),
            ("(x)", ""),
            ("", ""),
        ] {
            assert_eq!(meant(text), tool, "{text}");
        }
    }
}
