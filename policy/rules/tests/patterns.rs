//! Rules and confinement read a pattern alike: the text that a rule becomes covers here what the rule matches.
// Tests fail by panicking.
#![allow(clippy::expect_used)]

use std::path::Path;

use proptest::prelude::*;
use stockade_pattern::{Match, Pattern};
use stockade_rules::Decision;
use stockade_rules::pattern::path::{Anchors, PathPattern};

const PATTERN: &str =
    r"(/(\*\*|([abé.*?]|\[[!^]?[\]abé-]([!a-b-]-[b-é])?[!-]{0,2}\]|\\[*?b\[]){1,4})){1,4}(/\*\*)?";

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rule_and_its_text_in_the_sandbox_match_alike(
        pattern in PATTERN,
        path in r"(/[abé.*?!\[\]-]{1,4}){1,5}",
    ) {
        if path.split('/').any(|name| name == "." || name == "..") {
            return Ok(());
        }
        let anchors = Anchors { places: Vec::new(), homes: Vec::new() };
        let rule = PathPattern::new(&format!("/{pattern}"), Path::new("/"), Decision::Deny);
        let Ok(rule) = rule else { return Ok(()) };
        // A rule that asks for a character out of none is told and counts for every path.
        if rule.has_empty_class() {
            return Ok(());
        }
        let texts = rule.absolute(&anchors);
        let covers = |text: &String| {
            let pattern = Pattern::parse(Path::new(text)).expect("a text that the sandbox reads");
            pattern.matches(Path::new(&path)) == Match::Whole
        };
        let expected = rule.matches(Path::new(&path), &anchors);
        prop_assert_eq!(texts.iter().any(covers), expected, "{} {:?} {}", pattern, texts, path);
    }
}
