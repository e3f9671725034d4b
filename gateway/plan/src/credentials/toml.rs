//! TOML as uv, cargo, bun and Poetry read it, statement by statement.

use super::sieve::{Sieve, Word};

/// Returns the statements that may be shown; none for what is not read here.
pub(super) fn show(text: &str, sieve: Sieve<'_>) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    let mut table = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = statement(rest)?;
        let (statement, behind) = rest.split_at(end);
        rest = behind;
        let trimmed = statement.trim();
        if trimmed.is_empty() {
            shown.push_str(statement);
        } else if let Some(comment) = trimmed.strip_prefix('#') {
            shown.push_str(if Sieve::shows_comment(comment) { statement } else { "" });
        } else if trimmed.starts_with('[') {
            trimmed.trim_matches(['[', ']']).clone_into(&mut table);
            shown.push_str(statement);
        } else {
            let (key, value) = trimmed.split_once('=')?;
            let key = key.trim();
            let word = match names_within(value).any(|name| speaks(sieve, name)) {
                true => Word::Drop,
                false => sieve.weigh(&table, key, value),
            };
            match word {
                Word::Keep => shown.push_str(statement),
                Word::Change(changed) => shown.push_str(&statement.replace(value, &changed)),
                Word::Drop => {}
            }
        }
    }
    Some(shown)
}

/// Says whether a name within an inline table is one whose value may be a secret.
fn speaks(sieve: Sieve<'_>, name: &str) -> bool {
    sieve.weigh("", name, "x") == Word::Drop
}

/// Returns the names of an inline table, and whatever else stands before a `=`.
fn names_within(value: &str) -> impl Iterator<Item = &str> {
    let is_table = value.contains('{');
    let pieces = value.split(['{', ',', '\n']).filter(move |_| is_table);
    pieces.filter_map(|piece| Some(piece.split_once('=')?.0.trim().trim_matches(['"', '\''])))
}

/// Returns where the first statement ends, behind its line; none where a text has several lines.
fn statement(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped, mut comment) = (0_usize, None, false, false);
    if text.trim_start_matches([' ', '\t']).starts_with('[') {
        return Some(text.find('\n').map_or(text.len(), |end| end + 1));
    }
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'\n') if depth == 0 => return Some(at + 1),
            (None, b'\n') => comment = false,
            (None, _) if comment => {}
            (None, b'#') => comment = true,
            (None, b'"' | b'\'') => {
                let triple = text.as_bytes().get(at..at + 3);
                if triple == Some(b"\"\"\"") || triple == Some(b"'''") {
                    return None;
                }
                quote = Some(byte);
            }
            (None, b'[' | b'{') => depth += 1,
            (None, b']' | b'}') => depth = depth.checked_sub(1)?,
            (None, _) => {}
            (Some(_), b'\n') => return None,
            (Some(_), _) if escaped => escaped = false,
            (Some(b'"'), b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
        }
    }
    (depth == 0 && quote.is_none()).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::super::sieve::Others;
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let shown = show(text, Sieve { kept: &[], others: Others::Kept });
        assert_eq!(shown.as_deref(), expected, "{text}");
    }

    #[test]
    fn addresses_stay_and_tokens_go() {
        check(
            "# note\n[registries.mine]\nindex = \"sparse+https://u:pw4711@host/\"\ntoken = \"pw4711\"\n\n[source.crates-io]\nreplace-with = 'mine'\n\
             [build]\nrustflags = [\n  \"-C\", # why\n  \"target-cpu=native\",\n]\n[env]\nDB_PASSWORD = \"pw4711\"\nA = { value = \"b\", force = true }\n\
             [install]\nregistry = { url = \"https://h/\", token = \"pw4711\" }\n[[index]]\nurl = \"https://u:pw4711@h/simple\"\n",
            Some(
                "# note\n[registries.mine]\nindex = \"sparse+https://host/\"\n\n[source.crates-io]\nreplace-with = 'mine'\n\
                 [build]\nrustflags = [\n  \"-C\", # why\n  \"target-cpu=native\",\n]\n[env]\nA = { value = \"b\", force = true }\n\
                 [install]\n[[index]]\nurl = \"https://h/simple\"\n",
            ),
        );
    }

    #[test]
    fn what_is_not_read_here_is_not_shown() {
        check("a = \"\"\"\npw4711\"\"\"\n", None);
        check("a = [\n", None);
        check("no statement\n", None);
    }
}
