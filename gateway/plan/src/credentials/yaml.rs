//! Files in the plain part of YAML that package managers write: keys, values and lists, by their indentation.

use super::sieve::{Sieve, Word};

/// A line that is shown.
struct Line {
    indent: usize,
    text: String,
    /// True if the line is a key with its value on the lines below.
    opens: bool,
    /// True if there was something below the line.
    held: bool,
}

/// Returns the lines that may be shown; none for what tells its structure in another way.
pub(super) fn show(text: &str, sieve: Sieve<'_>) -> Option<String> {
    let mut lines: Vec<Line> = Vec::new();
    // The keys around a line, with their indentation.
    let mut around: Vec<(usize, String)> = Vec::new();
    // Indentation of a value that is left out; lines with more indentation belong to it.
    let mut dropped: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let (indent, trimmed) = (line.len() - content.len(), content.trim_end());
        if trimmed.is_empty() || trimmed.starts_with('#') {
            if Sieve::shows_comment(trimmed) {
                lines.push(Line {
                    indent: usize::MAX,
                    text: line.into(),
                    opens: false,
                    held: false,
                });
            }
            continue;
        }
        if content.starts_with('\t') || trimmed.starts_with(['%', '?']) {
            return None;
        }
        if dropped.is_some_and(|above| indent > above) {
            continue;
        }
        dropped = None;
        around.retain(|(above, _)| *above < indent);
        if let Some(above) = lines.iter_mut().rev().find(|above| above.indent < indent) {
            above.held = true;
        }
        let item = trimmed.trim_start_matches("- ");
        let (key, value) = split(item).unwrap_or(("", item));
        let place = around.iter().map(|it| it.1.as_str()).collect::<Vec<_>>().join("/");
        let name = if key.is_empty() { around.last().map_or("", |it| it.1.as_str()) } else { key };
        let opens = !key.is_empty() && value.is_empty();
        // Values that go on below, or refer to others, are not read.
        let is_plain = !value.starts_with(['|', '>', '{', '&', '*', '!', '%', '@', '`']);
        let is_whole = !value.starts_with('[') || value.ends_with(']');
        let word = match is_plain && is_whole {
            true => weigh(sieve, &place, name, value),
            false => Word::Drop,
        };
        let shown = match word {
            Word::Keep => line.to_owned(),
            Word::Change(changed) => line.replace(value, &changed),
            Word::Drop => {
                dropped = Some(indent);
                continue;
            }
        };
        lines.push(Line { indent, text: shown, opens, held: false });
        if !key.is_empty() {
            let deeper = indent + (trimmed.len() - item.len());
            around.push((deeper.max(indent), key.to_owned()));
        }
    }
    Some(without_empty(lines))
}

/// A comment behind a value may hold anything.
fn weigh(sieve: Sieve<'_>, place: &str, name: &str, value: &str) -> Word {
    match value.split_once(" #") {
        Some((_, comment)) if !Sieve::shows_comment(comment) => Word::Drop,
        Some((value, _)) => match sieve.weigh(place, name, value) {
            Word::Keep => Word::Keep,
            Word::Change(_) | Word::Drop => Word::Drop,
        },
        None => sieve.weigh(place, name, value),
    }
}

/// Returns key and value of a line that has a key.
fn split(line: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(rest) = line.strip_prefix(quote) {
            let (key, rest) = rest.split_once(quote)?;
            let value = rest.trim_start().strip_prefix(':')?;
            return Some((key, value.trim()));
        }
    }
    if let Some((key, value)) = line.split_once(": ") {
        return Some((key.trim(), value.trim()));
    }
    Some((line.strip_suffix(':')?, ""))
}

/// Leaves out keys of which nothing is left that stood below.
fn without_empty(lines: Vec<Line>) -> String {
    let mut kept: Vec<&Line> = Vec::with_capacity(lines.len());
    for line in lines.iter().rev() {
        let below = kept.iter().rev().find(|it| it.indent != usize::MAX);
        let is_empty = below.is_none_or(|below| {
            below.indent <= line.indent
                && !(below.indent == line.indent && below.text.trim_start().starts_with("- "))
        });
        if !(line.opens && line.held && is_empty) {
            kept.push(line);
        }
    }
    kept.iter().rev().map(|line| line.text.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sieve::Others;
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let kept =
            &["npmRegistryServer", "npmScopes", "npmRegistries", "plugins", "path", "yarnPath"];
        let shown = show(text, Sieve { kept, others: Others::Plain });
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn registries_stay_and_what_opens_them_goes() {
        check(
            "yarnPath: .yarn/releases/yarn-4.cjs\nnpmRegistryServer: \"https://u:pw4711@host/npm\"\nnpmAuthToken: pw4711\nnpmAlwaysAuth: true\n\
             npmScopes:\n  mine:\n    npmRegistryServer: 'http://b'\n    npmAuthToken: pw4711\n  other:\n    npmAuthIdent: me:pw4711\n\
             npmRegistries:\n  \"//host:80\":\n    npmAuthToken: pw4711\nenableTelemetry: false\nunknown: pw4711\n",
            Some(
                "yarnPath: .yarn/releases/yarn-4.cjs\nnpmRegistryServer: \"https://host/npm\"\n\
                 npmScopes:\n  mine:\n    npmRegistryServer: 'http://b'\nenableTelemetry: false\n",
            ),
        );
    }

    #[test]
    fn values_of_several_lines_are_left_out_whole() {
        check(
            "a: |\n  pw4711\n  b: 1\nenableX: true\nplugins:\n  - path: .yarn/p.cjs\n    spec: \"x\"\nc: {npmAuthToken: pw4711}\nd: [\n  pw4711]\n# npmAuthToken: pw4711\nfold: abc\n  pw4711\n",
            Some("enableX: true\nplugins:\n  - path: .yarn/p.cjs\n"),
        );
        check("a:\n\tb: pw4711\n", None);
    }
}
