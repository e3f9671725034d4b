//! Files of lines `key = value`: npm, pip, yarn, Gradle.

use super::sieve::{Sieve, Word, looks_secret, without_users};

/// How such a file is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Between key and value; a blank stands for any.
    pub(super) marks: &'static str,
    /// A line that begins with a blank belongs to the one before.
    pub(super) folds: bool,
}

impl Style {
    /// Says whether a line that ends with `\` goes on.
    fn continues(self) -> bool {
        self.marks.contains(' ') && self.marks.contains('=')
    }
}

/// Returns the lines that may be shown.
pub(super) fn show(text: &str, style: Style, sieve: Sieve<'_>) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    // The key that further lines belong to, if that is shown.
    let mut open: Option<(&str, bool)> = None;
    let mut section = "";
    let (mut is_continued, mut is_hidden) = (false, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let is_more = is_continued || (style.folds && line.starts_with([' ', '\t']));
        is_continued = style.continues() && trimmed.ends_with('\\');
        if trimmed.is_empty() {
            shown.push_str(line);
            continue;
        }
        if trimmed.starts_with(['#', ';', '!']) {
            if Sieve::shows_comment(trimmed.trim_start_matches(['#', ';', '!'])) {
                shown.push_str(line);
            }
            continue;
        }
        if is_more {
            let Some((key, true)) = open else { continue };
            match sieve.weigh(section, key, trimmed) {
                Word::Keep => shown.push_str(line),
                Word::Change(value) => shown.push_str(&line.replace(trimmed, &value)),
                Word::Drop => open = Some((key, false)),
            }
            continue;
        }
        if trimmed.starts_with('[') {
            section = trimmed;
            // A name that may be a secret takes all that stands below it along.
            is_hidden = looks_secret(trimmed) || without_users(trimmed)? != trimmed;
        }
        if is_hidden || trimmed.starts_with('[') {
            shown.push_str(if is_hidden { "" } else { line });
            continue;
        }
        let (key, value) = split(trimmed, style.marks);
        let word = match value {
            // A line that is not written like a setting is none that a program reads.
            "" if trimmed.ends_with(key) => single(trimmed),
            value => sieve.weigh(section, key, value),
        };
        open = Some((key, word != Word::Drop && word != Word::Change(String::new())));
        match word {
            Word::Keep => shown.push_str(line),
            Word::Change(changed) => {
                let start = line.rfind(value)?;
                shown.push_str(line.get(..start)?);
                shown.push_str(&changed);
                shown.push('\n');
            }
            Word::Drop => {}
        }
    }
    Some(shown)
}

/// Says what becomes of a word alone.
fn single(word: &str) -> Word {
    let is_name = |it: u8| it.is_ascii_lowercase() || b"-_.\"".contains(&it);
    if word.bytes().all(is_name) { Word::Keep } else { Word::Drop }
}

/// Returns key and value of a line.
fn split<'a>(line: &'a str, marks: &str) -> (&'a str, &'a str) {
    let is_mark = |it: char| marks.contains(it) || (marks.contains(' ') && it.is_whitespace());
    let Some((key, value)) = line.split_once(is_mark) else { return (line, "") };
    let value = value.trim_start_matches(|it: char| {
        it.is_whitespace() || (marks.contains(' ') && "=:".contains(it))
    });
    (key.trim(), value)
}

#[cfg(test)]
mod tests {
    use super::super::sieve::Others;
    use super::*;

    fn check(style: Style, others: Others, text: &str, expected: &str) {
        let kept = &["registry", "@*:registry", "index-url", "extra-index-url", "org.gradle.*"];
        let shown = show(text, style, Sieve { kept, others });
        assert_eq!(shown.as_deref(), Some(expected));
    }

    #[test]
    fn npm_keeps_its_registries() {
        let style = Style { marks: "=", folds: false };
        check(
            style,
            Others::Plain,
            "registry=https://u:pw4711@host/npm/\n@a:registry = http://b/\n//host/:_authToken=abc\n  //host/:_password=x\n\
             ; note\n#_auth=abc\nalways-auth=true\nfund=false\nunknown=pw4711\n_authToken pw4711\nemail\n",
            "registry=https://host/npm/\n@a:registry = http://b/\n; note\nfund=false\nemail\n",
        );
    }

    #[test]
    fn pip_has_values_of_several_lines() {
        let style = Style { marks: "=:", folds: true };
        check(
            style,
            Others::Plain,
            "[global]\nindex-url = https://u:pw4711@host/simple\nextra-index-url =\n    https://a/simple\n    https://u:pw4711@b/simple\n\
             password =\n  pw4711\nno-color: true\n",
            "[global]\nindex-url = https://host/simple\nextra-index-url =\n    https://a/simple\n    https://b/simple\npassword =\nno-color: true\n",
        );
    }

    #[test]
    fn gradle_keeps_the_names_that_builds_ask_for() {
        let style = Style { marks: "=: ", folds: false };
        check(
            style,
            Others::Blank,
            "org.gradle.jvmargs=-Xmx2g -XX:+UseParallelGC\nnexusUser : pw4711\nnexusPassword=pw4711\\\n   more\nmirror=https://a/b\nkey pw4711\n",
            "org.gradle.jvmargs=-Xmx2g -XX:+UseParallelGC\nnexusUser : \nnexusPassword=\nmirror=https://a/b\nkey \n",
        );
    }
}
