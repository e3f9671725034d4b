//! The redaction rules, from the table in `policies/secrets.jsonc`.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};
use stockade_programs::tables::{self, Table};
use stockade_text::json::view::{Members, View};

/// The table that ships.
#[cfg(test)]
pub(super) const TABLE: &str = include_str!("../../../../policies/secrets.jsonc");

/// Where a rule looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Option,
    Header,
    Assignment,
    Pair,
    Last,
    Stdin,
    Template,
    Shape,
}

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) kind: Kind,
    pub(super) programs: Vec<&'static str>,
    pub(super) names: Vec<&'static str>,
    /// Words that must all stand in the command.
    pub(super) with: Vec<&'static str>,
    pub(super) after: Option<&'static str>,
    regex: Option<Lazy>,
    min_entropy: Option<f64>,
    keep: Vec<Lazy>,
}

impl Rule {
    /// Returns the ends of what the rule's expression finds in `text`; the end of all where it has none that works.
    pub(super) fn matches(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        let found: Vec<usize> = match self.regex.as_ref().and_then(Lazy::get) {
            Some(regex) => regex.find_iter(text).map(|found| found.end()).collect(),
            None => vec![text.len()],
        };
        found.into_iter()
    }
}

/// A regular expression that is compiled when it is first needed: most records need none.
#[derive(Debug)]
pub(super) struct Lazy {
    text: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Lazy {
    fn new(text: &'static str) -> Lazy {
        Lazy { text, compiled: OnceLock::new() }
    }

    /// Returns the expression; none when it is not one.
    pub(super) fn get(&self) -> Option<&Regex> {
        let compile = || RegexBuilder::new(self.text).unicode(false).build().ok();
        self.compiled.get_or_init(compile).as_ref()
    }

    /// Says whether it matches; what is no expression matches nothing, so that nothing is kept by it.
    fn matches(&self, value: &[u8]) -> bool {
        self.get().is_some_and(|regex| regex.is_match(value))
    }
}

/// All rules, ready to be used.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    keep: Vec<Lazy>,
    keywords: Keywords,
}

/// The keywords of shapes, by their first byte in lower case, each with the rule that it belongs to.
#[derive(Debug)]
struct Keywords(Vec<Vec<(&'static [u8], usize)>>);

impl Keywords {
    fn new(keywords: Vec<(&'static str, usize)>) -> Keywords {
        let mut rows = vec![Vec::new(); 256];
        for (keyword, rule) in keywords {
            let first = keyword.as_bytes().first().map(u8::to_ascii_lowercase);
            if let Some(row) = first.and_then(|first| rows.get_mut(usize::from(first))) {
                row.push((keyword.as_bytes(), rule));
            }
        }
        Keywords(rows)
    }

    /// Returns the rules one of whose keywords stands in `text`, each once, in the order of the table.
    fn rules_for(&self, text: &[u8]) -> Vec<usize> {
        let mut due = Vec::new();
        for (at, byte) in text.iter().enumerate() {
            let row = self.0.get(usize::from(byte.to_ascii_lowercase()));
            for (keyword, rule) in row.into_iter().flatten() {
                let found = text.get(at..at + keyword.len());
                if found.is_some_and(|found| found.eq_ignore_ascii_case(keyword))
                    && !due.contains(rule)
                {
                    due.push(*rule);
                }
            }
        }
        due.sort_unstable();
        due
    }
}

/// A secret in a text: where, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) range: Range<usize>,
    pub(super) rule: usize,
}

const KEYS: [&str; 11] = [
    "id",
    "kind",
    "programs",
    "names",
    "with",
    "keywords",
    "regex",
    "min_entropy",
    "after",
    "keep",
    "examples",
];

impl Rules {
    /// Returns the rules that ship; an error names the rule.
    pub(super) fn built_in() -> Result<Rules, String> {
        let table = tables::view(Table::Secrets).members().ok_or("the table cannot be read")?;
        let keep = regexes(table.get("keep"))?;
        let rows = table.get("rules").and_then(View::elements).ok_or("`rules` is missing")?;
        let mut rules = Vec::new();
        let mut owned = Vec::new();
        for row in rows {
            let row = row.members().ok_or("a rule is an object")?;
            let rule = rule(&row)?;
            if rule.kind == Kind::Shape {
                let keywords = texts(row.get("keywords"))?;
                if keywords.is_empty() || rule.regex.is_none() {
                    return Err(format!("rule `{}` needs `keywords` and `regex`", rule.id));
                }
                if keywords.iter().any(|keyword| keyword.is_empty()) {
                    return Err(format!("rule `{}` has an empty keyword", rule.id));
                }
                owned.extend(keywords.into_iter().map(|keyword| (keyword, rules.len())));
            }
            rules.push(rule);
        }
        Ok(Rules { rules, keep, keywords: Keywords::new(owned) })
    }

    /// Returns what looks like a secret in `text`.
    pub(super) fn shapes(&self, text: &[u8]) -> Vec<Spot> {
        let mut spots = Vec::new();
        for index in self.keywords.rules_for(text) {
            let Some(rule) = self.rules.get(index) else { continue };
            let Some(regex) = rule.regex.as_ref().and_then(Lazy::get) else {
                // A rule that cannot be used and whose keyword is there: all of the text may be secret.
                spots.push(Spot { range: 0..text.len(), rule: index });
                continue;
            };
            for found in regex.captures_iter(text) {
                let secret = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
                let Some(secret) = secret else { continue };
                if self.is_secret(rule, secret.as_bytes()) {
                    spots.push(Spot { range: secret.range(), rule: index });
                }
            }
        }
        spots
    }

    /// Says whether `value`, found by `rule`, is not a reference, placeholder or other harmless word.
    pub(super) fn is_secret(&self, rule: &Rule, value: &[u8]) -> bool {
        !self.keep.iter().chain(&rule.keep).any(|keep| keep.matches(value))
            && rule.min_entropy.is_none_or(|least| entropy(value) >= least)
    }

    /// Returns the expressions that cannot be compiled.
    #[cfg(test)]
    pub(super) fn faults(&self) -> Vec<&str> {
        let all = self
            .rules
            .iter()
            .flat_map(|rule| rule.regex.iter().chain(&rule.keep))
            .chain(&self.keep);
        all.filter(|it| it.get().is_none()).map(|it| it.text).collect()
    }

    /// Returns the id of a rule.
    pub(super) fn id(&self, rule: usize) -> &str {
        self.rules.get(rule).map_or("unknown", |rule| rule.id)
    }
}

fn rule(row: &Members<'static>) -> Result<Rule, String> {
    let id = row.get("id").and_then(View::text).ok_or("a rule has no `id`")?;
    let wrong = |what: String| format!("rule `{id}`: {what}");
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
        return Err(wrong("an id is lower-case letters and hyphens".into()));
    }
    if let Some((key, _)) = row.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(wrong(format!("`{key}` is not known")));
    }
    let kind = match row.get("kind").and_then(View::text) {
        Some("option") => Kind::Option,
        Some("header") => Kind::Header,
        Some("assignment") => Kind::Assignment,
        Some("pair") => Kind::Pair,
        Some("last") => Kind::Last,
        Some("stdin") => Kind::Stdin,
        Some("template") => Kind::Template,
        Some("shape") => Kind::Shape,
        _ => return Err(wrong("`kind` is not known".into())),
    };
    let regex = row.get("regex").map(regex).transpose().map_err(&wrong)?;
    let min_entropy = match row.get("min_entropy").map(View::number) {
        None => None,
        Some(Some(digits)) => Some(digits.parse().map_err(|_| wrong("`min_entropy`".into()))?),
        Some(None) => return Err(wrong("`min_entropy` is a number".into())),
    };
    Ok(Rule {
        kind,
        programs: texts(row.get("programs")).map_err(&wrong)?,
        names: texts(row.get("names")).map_err(&wrong)?,
        with: texts(row.get("with")).map_err(&wrong)?,
        after: row.get("after").and_then(View::text),
        regex,
        min_entropy,
        keep: regexes(row.get("keep")).map_err(&wrong)?,
        id,
    })
}

fn texts(value: Option<View<'static>>) -> Result<Vec<&'static str>, String> {
    value
        .map_or(Ok(Vec::new()), |value| value.texts().ok_or("a list of strings is expected".into()))
}

fn regexes(value: Option<View<'static>>) -> Result<Vec<Lazy>, String> {
    Ok(texts(value)?.into_iter().map(Lazy::new).collect())
}

fn regex(value: View<'static>) -> Result<Lazy, String> {
    value.text().map(Lazy::new).ok_or("a regular expression is a text".into())
}

/// Returns the bits that one byte of `value` tells, by the counts of its bytes.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = value.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    -counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| share(count) * binary_logarithm(share(count)))
        .sum::<f64>()
}

/// Returns the binary logarithm of a positive, normal number, to twelve digits. For `f64::log2` each start of the
/// program would load the library of mathematics.
fn binary_logarithm(number: f64) -> f64 {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let one = 1.0_f64.to_bits();
    let exponent = (bits >> FRACTION) as f64 - (one >> FRACTION) as f64;
    let mantissa = f64::from_bits(bits & ((1 << FRACTION) - 1) | one);
    // ln m = 2 (s + s³/3 + s⁵/5 + …) with s = (m - 1) / (m + 1), here at most a third.
    let step = (mantissa - 1.0) / (mantissa + 1.0);
    let mut power = step;
    let mut sum = 0.0;
    for odd in (1_u8..=23).step_by(2) {
        sum += power / f64::from(odd);
        power *= step * step;
    }
    exponent + 2.0 * sum * std::f64::consts::LOG2_E
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_logarithm_is_that_of_the_library() {
        for number in (1..=4096_u32).map(|count| f64::from(count) / 4096.0) {
            let difference = binary_logarithm(number) - number.log2();
            assert!(difference.abs() < 1e-12, "{number}: {difference}");
        }
    }

    #[test]
    fn entropy_counts_bits_of_a_byte() {
        assert_eq!(entropy(b"aaaa"), 0.0);
        assert_eq!(entropy(b"abab"), 1.0);
        assert_eq!(entropy(b"abcdabcd"), 2.0);
    }
}
