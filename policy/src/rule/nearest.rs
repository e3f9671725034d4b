//! Tools that nobody knows, and the one that was meant.

use crate::knowledge::knowledge;

/// Returns the tool that a rule about `tool` is likely to mean, or none of them, with what is wrong and what to write; none
/// if the tool is known, or could be one of an agent's own.
pub(super) fn unknown(tool: &str, inside: Option<&str>) -> Option<(&'static str, String, String)> {
    let tools = &knowledge().known_tools;
    if tools.contains(&tool) || tool.contains(['_', '*']) {
        return None;
    }
    let message = format!("no tool is called `{tool}`");
    let lower = tool.to_ascii_lowercase();
    let near = |known: &&&str| {
        let known = known.to_ascii_lowercase();
        known == lower || (known.len() > 3 && is_one_off(known.as_bytes(), lower.as_bytes()))
    };
    match (tools.iter().find(near), inside) {
        (Some(near), inside) => {
            let meant = inside.map_or((*near).to_owned(), |inside| format!("{near}({inside})"));
            Some((
                near,
                message,
                format!("write `{meant}`; until then each call of {near} is asked"),
            ))
        }
        (None, Some(_)) => {
            let help = "write `Bash(..)`, `Read(..)` or another tool by its exact name; until then every call is asked";
            Some(("", message, help.to_owned()))
        }
        (None, None) => None,
    }
}

/// Says whether one letter more, less, other or exchanged with its neighbour makes one of the other.
fn is_one_off(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let rest = |text: &[u8], from: usize| text.get(from..).unwrap_or_default().to_vec();
    match long.len() - short.len() {
        0 => {
            let swapped = short.get(same) == long.get(same + 1)
                && short.get(same + 1) == long.get(same)
                && rest(short, same + 2) == rest(long, same + 2);
            swapped || rest(short, same + 1) == rest(long, same + 1)
        }
        1 => rest(short, same) == rest(long, same + 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_tool_is_named() {
        let nearest = |tool: &str| unknown(tool, Some("x")).map(|(tool, ..)| tool);
        for (typed, meant) in [
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
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
        assert_eq!(nearest("Bash"), None);
        assert_eq!(nearest("mcp__a__b"), None);
        assert_eq!(unknown("Shell", None), None);
        let (_, message, help) = unknown("bash", Some("curl:*")).unwrap();
        assert_eq!(message, "no tool is called `bash`");
        assert_eq!(help, "write `Bash(curl:*)`; until then each call of Bash is asked");
    }
}
