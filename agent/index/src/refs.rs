//! Commits, pull requests and issues that a text names.

use std::sync::LazyLock;

use regex::Regex;

/// Most characters of one text that are looked through.
const MOST: usize = 30_000;

/// Addresses of forges: repository, kind, number or digest.
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"https?://[\w.-]+/([\w.-]+/[\w.-]+)/(?:-/)?(pull|merge_requests|issues|commit)/([0-9a-f]+)\b",
    )
    .ok()
});
/// The line that `git commit` prints, and whole digests.
static COMMIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?m)^\[[^\]\s]+(?: \([^)]*\))? ([0-9a-f]{7,40})\] |\b([0-9a-f]{40})\b").ok()
});
/// Numbers, such as `#12` and `owner/name#12`.
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?:(\bpr |\bpull request |\bmerge request )|^|\s|\()([\w.-]+/[\w.-]+)?#([1-9][0-9]{0,6})\b",
    )
    .ok()
});

/// Returns the kind and the value of each.
pub(crate) fn of(text: &str) -> Vec<(&'static str, String)> {
    let end = text.char_indices().nth(MOST).map_or(text.len(), |(at, _)| at);
    let text = text.get(..end).unwrap_or_default();
    let mut found = Vec::new();
    let part = |captures: &regex::Captures<'_>, at: usize| {
        captures.get(at).map(|it| it.as_str().to_owned())
    };
    for captures in ADDRESS.iter().flat_map(|it| it.captures_iter(text)) {
        let (repository, value) = (part(&captures, 1), part(&captures, 3));
        let (Some(repository), Some(value)) = (repository, value) else { continue };
        match part(&captures, 2).as_deref() {
            Some("commit") => found.push(("commit", value)),
            Some("issues") => found.push(("issue", format!("{repository}#{value}"))),
            _ => found.push(("pull_request", format!("{repository}#{value}"))),
        }
    }
    for captures in COMMIT.iter().flat_map(|it| it.captures_iter(text)) {
        let value = part(&captures, 1).or_else(|| part(&captures, 2));
        found.extend(value.map(|value| ("commit", value)));
    }
    for captures in NUMBER.iter().flat_map(|it| it.captures_iter(text)) {
        let Some(number) = part(&captures, 3) else { continue };
        let kind = if captures.get(1).is_some() { "pull_request" } else { "issue" };
        found.push((kind, format!("{}#{number}", part(&captures, 2).unwrap_or_default())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_pull_requests_and_issues_are_found() {
        let text = "see https://forge.example/o/r/pull/12 and https://forge.example/o/r/-/issues/3,\n\
            [main (root-commit) 1a2b3c4] first\nfixes #7, PR #8 and a/b#9; not #0, x#1 or 0xabc";
        let found: Vec<(&str, String)> = of(text);
        let shown: Vec<String> =
            found.iter().map(|(kind, value)| format!("{kind} {value}")).collect();
        assert_eq!(
            shown,
            [
                "pull_request o/r#12",
                "issue o/r#3",
                "commit 1a2b3c4",
                "issue #7",
                "pull_request #8",
                "issue a/b#9"
            ]
        );
    }
}
