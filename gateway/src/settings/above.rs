//! What the settings of directories above a project still forbid in it: a repository inside another sheds nothing of
//! what was forbidden there.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use stockade_parser::json::{Dialect, Value, read};

/// The keys on the way to a member.
type Keys = &'static [&'static str];

/// The members that can only tighten.
const TIGHTENING: &[Keys] = &[
    &["permissions", "deny"],
    &["permissions", "ask"],
    &["sandbox", "filesystem", "denyRead"],
    &["sandbox", "filesystem", "denyWrite"],
    &["sandbox", "network", "deniedDomains"],
];

/// Says whether settings in `directory` may be those of anybody: all can write there, and `folder` is a stranger's.
pub(super) fn is_anybodys(directory: &Path, folder: &Path) -> bool {
    let is_open = directory.metadata().is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    let owner = folder.symlink_metadata().map(|found| found.uid());
    is_open && owner.is_ok_and(|uid| uid != 0 && uid != rustix::process::geteuid().as_raw())
}

/// Returns `text` with everything blanked out but what tightens, each part on its line; none if it is no JSON, which
/// is for the reader of settings to refuse.
pub(super) fn tightening(text: &[u8]) -> Option<Vec<u8>> {
    let value = read(text, Dialect::Strict).ok()?;
    let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
    let mut kept: Vec<u8> = text.iter().map(blank).collect();
    keep(text, &value, TIGHTENING, &mut kept);
    Some(kept)
}

/// Keeps of `value` the members on `paths`; anything else than an object is kept whole, to be refused. The depth is
/// that of the paths.
fn keep(text: &[u8], value: &Value, paths: &[Keys], kept: &mut [u8]) {
    let (start, end) = (value.span.start as usize, value.span.end as usize);
    let Some(members) = value.members().filter(|_| !paths.iter().any(|keys| keys.is_empty()))
    else {
        return copy(text, start, end, kept);
    };
    copy(text, start, start + 1, kept);
    copy(text, end.saturating_sub(1), end, kept);
    let mut before: Option<usize> = None;
    for member in members {
        let strip = |keys: &Keys| -> Option<Keys> {
            let (key, rest) = keys.split_first()?;
            (*key == member.key).then_some(rest)
        };
        let rest: Vec<Keys> = paths.iter().filter_map(strip).collect();
        if rest.is_empty() {
            continue;
        }
        if let Some(comma) = before {
            copy(text, comma, comma + 1, kept);
        }
        copy(text, member.key_span.start as usize, member.value.span.start as usize, kept);
        keep(text, &member.value, &rest, kept);
        let end = member.value.span.end as usize;
        let behind = text.get(end..).unwrap_or_default();
        before = behind.iter().position(|byte| *byte == b',').map(|at| end + at);
    }
}

fn copy(text: &[u8], start: usize, end: usize, kept: &mut [u8]) {
    if let (Some(from), Some(to)) = (text.get(start..end), kept.get_mut(start..end)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tightens_is_kept_on_its_line_and_nothing_else() {
        let text = r#"{ "import": ["claude-code"], "permissions": {
  "allow": ["Bash(a)"], "deny": ["Read(./.env)", "Bash(id)"], "defaultMode": "x",
  "ask": ["Bash(b)"] }, "hooks": {}, "sandbox": { "enabled": false,
  "filesystem": { "allowWrite": ["/"], "denyRead": ["~/k"] } } }"#;
        let kept = String::from_utf8(tightening(text.as_bytes()).unwrap()).unwrap();
        let lines: Vec<Vec<&str>> =
            kept.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
        assert_eq!(
            lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>(),
            [
                r#"{ "permissions": {"#,
                r#""deny": ["Read(./.env)", "Bash(id)"],"#,
                r#""ask": ["Bash(b)"] }, "sandbox": {"#,
                r#""filesystem": { "denyRead": ["~/k"] } } }"#,
            ]
        );
        assert!(read(kept.as_bytes(), Dialect::Strict).is_ok());
    }

    #[test]
    fn what_has_another_form_is_kept_to_be_refused() {
        for text in ["[]", r#"{"permissions": 1}"#, r#"{"permissions": {"deny": 1}}"#] {
            assert_eq!(tightening(text.as_bytes()).as_deref(), Some(text.as_bytes()), "{text}");
        }
        assert_eq!(tightening(b"{"), None);
    }
}
