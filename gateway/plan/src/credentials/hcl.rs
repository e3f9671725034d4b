//! The settings of Terraform: attributes and blocks, of which only those that are listed are shown.

use super::sieve::{looks_secret, without_users};

/// Returns what may be shown; none for what is not read here.
pub(super) fn show(text: &str, kept: &[&str]) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(part(rest)?);
        rest = behind;
        let trimmed = part.trim_start();
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name = trimmed.split(|it| !is_name(it)).next().unwrap_or_default();
        if trimmed.is_empty() {
            shown.push_str(part);
        } else if kept.contains(&name) {
            let clean = without_users(part).filter(|it| !looks_secret(it));
            shown.push_str(&clean.unwrap_or_default());
        }
    }
    Some(shown)
}

/// Returns where the first line ends, with the block that begins in it.
fn part(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped, mut comment) = (0_usize, false, false, false);
    for (at, byte) in text.bytes().enumerate() {
        let next = text.as_bytes().get(at + 1);
        match byte {
            b'\n' if depth == 0 && !quoted => return Some(at + 1),
            b'\n' => comment = false,
            _ if comment => {}
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'#' => comment = true,
            b'/' if next == Some(&b'/') => comment = true,
            // Comments and texts of several lines.
            b'/' if next == Some(&b'*') => return None,
            b'<' if next == Some(&b'<') => return None,
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0 && !quoted).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_stay_and_credentials_go() {
        let text = "plugin_cache_dir = \"/c\"\n# token pw4711\ncredentials \"app.terraform.io\" {\n  token = \"pw4711}\"\n}\n\
            provider_installation {\n  network_mirror {\n    url = \"https://u:pw4711@host/\"\n  }\n}\ncredentials_helper \"x\" { args = [\"pw4711\"] }\n";
        let expected = "plugin_cache_dir = \"/c\"\nprovider_installation {\n  network_mirror {\n    url = \"https://host/\"\n  }\n}\n";
        let kept = ["plugin_cache_dir", "provider_installation"];
        assert_eq!(show(text, &kept).as_deref(), Some(expected));
        assert_eq!(show("a = <<EOT\npw4711\nEOT\n", &kept), None);
        assert_eq!(show("credentials \"x\" {\n", &kept), None);
    }
}
