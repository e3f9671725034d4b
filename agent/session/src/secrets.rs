//! Secrets in texts, by the shapes of `policies/secrets.jsonc`: whatever leaves this machine holds none of them.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// The table, with comments on lines of their own.
const TABLE: &str = include_str!("../../../policies/secrets.jsonc");
/// The text in the place of a secret.
const MASK: &str = "[redacted]";
/// Shortest secret that is looked for wherever it stands.
const SHORTEST: usize = 6;

/// The shape of a secret.
#[derive(Debug)]
struct Shape {
    keywords: Vec<String>,
    regex: Regex,
    min_entropy: f64,
    keep: Vec<Regex>,
}

/// Masks secrets, and remembers them: a secret that was found once is masked wherever it stands.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    known: BTreeSet<String>,
}

fn compile(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).build().ok()
}

/// Returns all shapes; none if one of them cannot be read, so that nothing leaves with half of them.
fn shapes() -> Option<&'static Vec<Shape>> {
    static SHAPES: OnceLock<Option<Vec<Shape>>> = OnceLock::new();
    SHAPES.get_or_init(read).as_ref()
}

fn read() -> Option<Vec<Shape>> {
    let plain: Vec<&str> =
        TABLE.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let table: Value = serde_json::from_str(&plain.join("\n")).ok()?;
    let texts = |value: &Value, key: &str| -> Vec<String> {
        let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let keep = texts(&table, "keep");
    let rules = table.get("rules")?.as_array()?.iter();
    let of_shape = |rule: &&Value| rule.get("kind").and_then(Value::as_str) == Some("shape");
    rules
        .filter(of_shape)
        .map(|rule| {
            let keep = keep.iter().cloned().chain(texts(rule, "keep"));
            Some(Shape {
                keywords: texts(rule, "keywords"),
                regex: compile(rule.get("regex")?.as_str()?)?,
                min_entropy: rule.get("min_entropy").and_then(Value::as_f64).unwrap_or_default(),
                keep: keep.map(|text| compile(&text)).collect::<Option<Vec<_>>>()?,
            })
        })
        .collect()
}

/// Returns the bits for each character.
fn entropy(text: &str) -> f64 {
    let characters: Vec<char> = text.chars().collect();
    let all = f64::from(u32::try_from(characters.len()).unwrap_or(u32::MAX));
    let kinds: BTreeSet<char> = characters.iter().copied().collect();
    let bits = kinds.into_iter().map(|kind| {
        let count = characters.iter().filter(|it| **it == kind).count();
        let part = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / all;
        -part * part.log2()
    });
    bits.sum()
}

impl Masks {
    /// Says whether the table can be used.
    pub(crate) fn are_usable() -> bool {
        shapes().is_some()
    }

    /// Learns the secrets of a text.
    pub(crate) fn learn(&mut self, text: &str) {
        let lower = text.to_lowercase();
        let fits = |shape: &&Shape| shape.keywords.iter().any(|it| lower.contains(it.as_str()));
        for shape in shapes().into_iter().flatten().filter(fits) {
            for found in shape.regex.captures_iter(text) {
                let group = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
                let Some(secret) = group.map(|it| it.as_str()) else { continue };
                let is_kept = shape.keep.iter().any(|keep| keep.is_match(secret));
                if secret.len() >= SHORTEST && !is_kept && entropy(secret) >= shape.min_entropy {
                    self.known.insert(secret.to_owned());
                }
            }
        }
    }

    /// Learns the secrets of every text in a value.
    pub(crate) fn learn_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn(text),
            Value::Array(items) => items.iter().for_each(|item| self.learn_all(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.learn_all(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks every text in a value. Returns how many secrets it had.
    pub(crate) fn mask_all(&self, value: &mut Value) -> usize {
        match value {
            Value::String(text) => {
                let (masked, count) = self.mask(text);
                *text = masked;
                count
            }
            Value::Array(items) => items.iter_mut().map(|item| self.mask_all(item)).sum(),
            Value::Object(fields) => fields.values_mut().map(|field| self.mask_all(field)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }

    /// Masks the known secrets of a text, the longest first. Returns how many there were.
    pub(crate) fn mask(&self, text: &str) -> (String, usize) {
        let mut secrets: Vec<&String> = self.known.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let (mut masked, mut count) = (text.to_owned(), 0);
        for secret in secrets {
            let times = masked.matches(secret.as_str()).count();
            if times > 0 {
                count += times;
                masked = masked.replace(secret.as_str(), MASK);
            }
        }
        (masked, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_wherever_they_stand_and_plain_words_stay() {
        let mut masks = Masks::default();
        let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        masks.learn(&format!("export TOKEN={key}"));
        masks.learn("postgres://bob:hunter22@db/x");
        let (text, count) = masks.mask(&format!("it printed {key} and hunter22, not the token"));
        assert_eq!(
            (text.as_str(), count),
            ("it printed [redacted] and [redacted], not the token", 2)
        );
        assert_eq!(masks.mask("ordinary words").1, 0);
    }

    #[test]
    fn every_shape_of_the_table_can_be_read() {
        assert!(shapes().is_some_and(|shapes| shapes.len() > 20));
    }
}
