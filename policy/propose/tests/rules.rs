//! Tests of the rules that are proposed for a command, with trees of real texts.

// Tests fail by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

#[allow(dead_code, reason = "other tests judge whole case files")]
#[path = "../../../tests/src/cases.rs"]
mod cases;
#[allow(dead_code, reason = "other tests read trees of their own")]
#[path = "../../../tests/src/oracle/tree.rs"]
mod tree;

mod oracle {
    pub(crate) use crate::tree;
}

/// The places of the cage in which the oracle runs a text.
mod cage {
    pub const HOME: &str = "/desk";
}

use stockade_policy::{Call, evaluate, load};
use stockade_propose::{allowed_with, rule_matches, wider_rule};
use stockade_text::json::{Dialect, read as json};

fn wider(command: &str) -> Option<String> {
    let tree = tree::read(command.as_bytes());
    let input = json(br#"{"command": "x"}"#, Dialect::Strict).unwrap();
    let (rules, facts) = (load(&[]).rules, cases::plain_facts());
    let call = Call::Bash { tree: &tree, input: &input };
    let verdict = evaluate(&rules, &call, &facts);
    wider_rule(&rules, &call, &facts, &verdict)
}

#[test]
fn a_wider_rule_names_the_program_and_its_work() {
    for (command, expected) in [
        ("tool commit first try", Some("Bash(tool commit:*)")),
        ("tool a.txt", Some("Bash(tool:*)")),
        ("npm run test --watch", Some("Bash(npm run test:*)")),
        // Nothing wider can be said, or it would not be enough.
        ("tool", None),
        ("tool commit", None),
        ("make", None),
        ("tar --to-command=x -xf a.tar", None),
        ("X=1 tool a.txt", None),
        ("tool a.txt ; tool b.txt", None),
        ("tool $x", None),
    ] {
        assert_eq!(wider(command).as_deref(), expected, "{command}");
    }
}

#[test]
fn a_rule_matches_words_of_a_record() {
    assert!(rule_matches("Bash(git commit:*)", &["git", "commit", "-m", "a b"]));
    assert!(!rule_matches("Bash(git commit:*)", &["git", "push"]));
    for none in ["Bash", "Bash(git", "Read(x)", "Bash(\u{1b}:*)", ""] {
        assert!(!rule_matches(none, &["git"]), "{none}");
    }
}

#[test]
fn a_rule_of_a_person_is_tried_before_it_is_taken() {
    let tree = tree::read(b"tool commit now");
    let input = json(br#"{"command": "tool commit now"}"#, Dialect::Strict).unwrap();
    let (rules, facts) = (load(&[]).rules, cases::plain_facts());
    let call = Call::Bash { tree: &tree, input: &input };
    let with = |rule: &str| allowed_with(&rules, &call, &facts, rule);
    assert_eq!(with("Bash(tool commit:*)"), Ok(()));
    assert_eq!(with("Bash(tool push:*)"), Err("it does not allow this call".to_owned()));
    assert_eq!(with("Bash(tool"), Err("it is not a valid allow rule".to_owned()));
    assert_eq!(
        with(&format!("Bash({})", "x".repeat(4096))),
        Err("it is too long, or has control characters".to_owned())
    );
}
