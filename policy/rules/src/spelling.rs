//! Words that are written nearly as a known one, and what to write in their place.

use stockade_text::json;
use stockade_text::json::{Dialect, Value};

/// Keys of settings files, as the JSON Schema has them.
const KEYS: &str = include_str!("../../../policies/settings.jsonc");

/// Most words that a message lists.
const MOST_LISTED: usize = 12;

/// Returns the one word of `known` that `word` is written nearly as; none where that cannot be told.
pub(crate) fn close<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let (known, lower) = (known.into_iter(), word.to_ascii_lowercase());
    let same = |known: &&str| known.to_ascii_lowercase() == lower;
    let nearly = |known: &&str| {
        known.len() > 3 && is_one_off(known.to_ascii_lowercase().as_bytes(), lower.as_bytes())
    };
    let mut close = known.clone().filter(nearly);
    known.clone().find(same).or_else(|| close.next().filter(|_| close.next().is_none()))
}

/// Returns what to write in the place of `word`: the known one that is meant, or one of all.
pub(crate) fn instead(word: &str, known: &[&str]) -> String {
    match close(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("write {}", listed(known)),
    }
}

/// Returns what to write in the place of an unknown key, which is named with the keys above it.
pub(crate) fn instead_of_key(path: &str) -> String {
    let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
    let rows = json::read(KEYS.as_bytes(), Dialect::Commented).ok();
    let mut known: Vec<&str> = Vec::new();
    for row in rows.as_ref().and_then(Value::elements).unwrap_or_default() {
        let row = row.get("key").and_then(Value::text).unwrap_or_default();
        let below = match above.is_empty() {
            true => Some(row),
            false => row.strip_prefix(above).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = below.and_then(|below| below.split('.').next());
        known.extend(name.filter(|name| *name != "*" && !known.contains(name)));
    }
    match close(key, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if (1..=MOST_LISTED).contains(&known.len()) => {
            format!("remove it, or write {}", listed(&known))
        }
        None => "remove it; `stockade settings page` lists all keys".into(),
    }
}

/// Returns `known` as a sentence has a choice.
fn listed(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
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
    fn a_key_is_corrected_or_its_neighbours_are_listed() {
        let told = [
            "permisions",
            "permissions.alow",
            "permissions.defaultmode",
            "sandbox.netwrok",
            "limits.timeout",
            "sandbox.env.x",
            "zzz",
            "",
            "a.b.c",
        ];
        let told: Vec<String> = told.map(|key| format!("{key}: {}", instead_of_key(key))).to_vec();
        expect_test::expect![[r#"
            permisions: did you mean `permissions`?
            permissions.alow: did you mean `allow`?
            permissions.defaultmode: did you mean `defaultMode`?
            sandbox.netwrok: did you mean `network`?
            limits.timeout: remove it, or write `defaultTimeoutSeconds`, `maxTimeoutSeconds`, `outputCharacters`, `outputBytes`, `whenOutputIsFull`, `whenTimeIsUp`, `keepOutputDays`, `keepOutputBytes`, `sessionCommands`, `sessionTasks` or `sessionOutputBytes`
            sandbox.env.x: remove it, or write `pass`
            zzz: remove it; `stockade settings page` lists all keys
            : remove it; `stockade settings page` lists all keys
            a.b.c: remove it; `stockade settings page` lists all keys"#]].assert_eq(&told.join("\n"));
    }

    #[test]
    fn a_word_that_is_near_to_two_others_is_not_corrected() {
        assert_eq!(instead("allom", &["allow", "allot"]), "write `allow` or `allot`");
        assert_eq!(instead("Allow", &["allow", "allot"]), "did you mean `allow`?");
        assert_eq!(instead("x", &["one"]), "write `one`");
    }
}
