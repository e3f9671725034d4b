//! The case files, which are the manual of the rules, and the recorded decisions.

use std::path::PathBuf;

use stockade_parser::json::{Dialect, Kind, Value, read};
use stockade_policy::{Facts, Layer, Mode, SandboxState, load};
use stockade_tests::cases::{answer, cases_of, judge, layer_named, outcome, plain_facts, texts};
use stockade_tests::root;

fn files() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("tests/cases")).expect("the folder of the cases");
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    files
}

#[test]
fn the_case_files_hold() {
    let (mut count, mut wrong) = (0, Vec::new());
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a case file");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for case in cases_of(&name, &text) {
            count += 1;
            wrong.extend(judge(&case));
        }
    }
    println!("{count} cases");
    assert!(count > 0, "no cases were found");
    assert!(wrong.is_empty(), "{} of {count} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// One recorded decision: who is right, the gate or the record.
#[test]
fn the_recorded_decisions_hold() {
    let text =
        std::fs::read_to_string(root().join("tests/cases/decisions.jsonl")).expect("the file");
    let mut wrong = Vec::new();
    for line in text.lines() {
        let case = read(line.as_bytes(), Dialect::Strict).expect("JSON");
        let text = |key: &str| case.get(key).and_then(Value::text).unwrap_or_default();
        let (decision, rule, source) = decide(&case);
        let also = case.get("also").and_then(Value::elements).unwrap_or_default();
        let right =
            decision == text("expect") || also.iter().any(|one| one.text() == Some(&decision));
        let named = |key: &str, found: &str| {
            case.get(key).and_then(Value::text).is_none_or(|wanted| wanted == found)
        };
        let attributed = decision != text("expect")
            || (named("expect_rule", &rule) && named("expect_source", &source));
        if !right || !attributed {
            let wanted =
                format!("{} {} {}", text("expect"), text("expect_rule"), text("expect_source"));
            wrong
                .push(format!("{}: wanted {wanted}, found {decision} {rule} {source}", text("id")));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

fn decide(case: &Value) -> (String, String, String) {
    let layers = case.get("layers").and_then(Value::members).expect("layers");
    let flag = |key: &str| case.get(key).and_then(Value::boolean) != Some(false);
    let layers: Vec<(Layer, bool, String)> = layers
        .iter()
        .map(|member| (layer_named(&member.key), flag("trusted"), json(&member.value)))
        .collect();
    let mut facts = Facts {
        mode: Mode::named(case.get("mode").and_then(Value::text).expect("a mode")).expect("a mode"),
        interactive: flag("interactive"),
        ..plain_facts()
    };
    let rules = load(&texts(&layers, &facts.home, &facts.project)).rules;
    if rules.settings().sandbox.enabled {
        let available = flag("sandbox_available");
        facts.sandbox = if available { SandboxState::Enforced } else { SandboxState::Unavailable };
    }
    let mut input = case.get("input").cloned().expect("an input");
    for hook in case.get("hooks_inline").and_then(Value::elements).unwrap_or_default() {
        hook_outcome(hook, &mut facts, &mut input);
    }
    let tool = case.get("tool").and_then(Value::text).expect("a tool");
    let verdict = answer(&rules, tool, &input, &facts);
    let rule = verdict.decisive_rule().map_or(String::new(), |rule| rule.text.clone());
    (verdict.decision.name().to_owned(), rule, verdict.source().to_owned())
}

/// Merges a recorded outcome as the gateway would: the strictest wins.
fn hook_outcome(hook: &Value, facts: &mut Facts, input: &mut Value) {
    let layer = layer_named(hook.get("source").and_then(Value::text).expect("a source"));
    let output = hook.get("stdout").and_then(|output| output.get("hookSpecificOutput"));
    let word = match hook.get("exit").and_then(Value::whole) {
        Some(2) => Some("deny"),
        _ => output.and_then(|output| output.get("permissionDecision")).and_then(Value::text),
    };
    if let Some(new) = output.and_then(|output| output.get("updatedInput")) {
        *input = new.clone();
    }
    let Some(word) = word else { return };
    let rank =
        |word: &str| ["allow", "ask", "defer", "deny"].iter().position(|known| *known == word);
    let known = facts.hook.as_ref().map(|hook| format!("{:?}", hook.verdict).to_lowercase());
    if known.is_none_or(|known| rank(word) > rank(&known)) {
        facts.hook = Some(outcome(word, layer));
    }
}

/// Writes a value as JSON text.
fn json(value: &Value) -> String {
    let quoted = |text: &str| serde_json::to_string(text).expect("a string");
    match &value.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(digits) => digits.clone(),
        Kind::String(text) => quoted(text),
        Kind::Array(elements) => {
            format!("[{}]", elements.iter().map(json).collect::<Vec<_>>().join(","))
        }
        Kind::Object(members) => {
            let member = |m: &stockade_parser::json::Member| {
                format!("{}:{}", quoted(&m.key), json(&m.value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}
