//! A wildcard allow rule for a program covers its ordinary uses and none of the forms by which it starts other
//! programs, loads code or writes files.

use serde_json::Value;
use stockade_parser::json::{Dialect, read};
use stockade_policy::{Decision, Layer, load};
use stockade_tests::cases::{answer, plain_facts, texts};
use stockade_tests::root;

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(path)).expect("the data of the tests");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What `Bash(PROGRAM *)` alone decides about a command.
fn decided(program: &str, command: &str) -> Decision {
    let rule = format!("Bash({program} *)");
    let settings = serde_json::json!({"permissions": {"allow": [rule]}}).to_string();
    let facts = plain_facts();
    let loaded = load(&texts(&[(Layer::User, true, settings)], &facts.home, &facts.project));
    let input = serde_json::json!({ "command": command }).to_string();
    let input = read(input.as_bytes(), Dialect::Strict).expect("JSON");
    answer(&loaded.rules, "Bash", &input, &facts).decision
}

#[test]
fn escape_forms_do_not_pass_under_a_wildcard_rule() {
    let cases = lines("tests/cases/escapes.jsonl");
    assert!(cases.len() >= 300);
    let text = |case: &Value, key: &str| case[key].as_str().expect("a text").to_owned();
    let passed: Vec<String> = cases
        .iter()
        .filter(|case| decided(&text(case, "program"), &text(case, "command")) == Decision::Allow)
        .map(|case| text(case, "command"))
        .collect();
    println!("{} of {} pass", passed.len(), cases.len());
    assert!(passed.len() * 50 <= cases.len(), "{}", passed.join("\n"));
}

#[test]
fn ordinary_uses_stay_allowed_under_a_wildcard_rule() {
    let ordinary = [
        ("git", "git log --oneline -n 5"),
        ("git", "git commit -m message"),
        ("curl", "curl -sSL https://example.com"),
        ("curl", "curl -d a=b https://example.com"),
        ("grep", "grep -rn word src"),
        ("gradle", "gradle build"),
        ("rake", "rake test"),
        ("python3", "python3 scripts/x.py"),
        ("tar", "tar -tf a.tar"),
        ("ls", "ls -la src"),
    ];
    for (program, command) in ordinary {
        assert_eq!(decided(program, command), Decision::Allow, "{command}");
    }
}

/// Measures; what the share of harmless uses is needs eyes, for the corpus does not say which are harmless.
#[test]
fn the_share_of_manual_examples_that_a_wildcard_rule_allows_is_told() {
    let (mut allowed, mut all) = (0, 0);
    for line in lines("tests/corpus/tldr.jsonl") {
        let command = line["command"].as_str().expect("a text");
        let program = command.split(' ').next().unwrap_or_default();
        let plain = program.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if plain && !program.is_empty() {
            all += 1;
            allowed += usize::from(decided(program, command) == Decision::Allow);
        }
    }
    println!("{allowed} of {all} examples are allowed under `Bash(PROGRAM *)`");
    assert!(allowed * 10 >= all * 7, "{allowed} of {all}");
}
