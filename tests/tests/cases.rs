//! The case files, which are the manual of the rules, and the recorded decisions.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use stockade_policy::{Facts, Layer, Mode, SandboxState, load};
use stockade_tests::cases::{
    Case, answer, cases_of, judge, layer_named, outcome, plain_facts, texts,
};
use stockade_tests::{Place, root};
use stockade_text::json::{Dialect, Kind, Value, read};

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
            let member =
                |m: &stockade_text::json::Member| format!("{}:{}", quoted(&m.key), json(&m.value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

/// Returns the case as a line of `check --jsonl`; none for one that needs links, hooks or a sandbox.
fn line_of(case: &Case) -> Option<String> {
    let plain =
        Facts { mode: case.facts.mode, interactive: case.facts.interactive, ..plain_facts() };
    if case.facts != plain || !case.input.is_empty() || case.question == "problems" {
        return None;
    }
    let mut layers = serde_json::Map::new();
    for (layer, _, text) in &case.layers {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let known = ["sandbox", "hooks"].iter().any(|key| value.get(key).is_some());
        if known || *layer == Layer::Builtin {
            return None;
        }
        if layers.insert(layer.name().to_owned(), value).is_some() {
            return None;
        }
    }
    let (tool, input) = match case.question.split_once(" {") {
        Some((tool, rest)) if tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            match serde_json::from_str(&format!("{{{rest}")) {
                Ok(input) => (tool, input),
                Err(_) => ("Bash", serde_json::json!({ "command": case.question })),
            }
        }
        Some(_) | None => ("Bash", serde_json::json!({ "command": case.question })),
    };
    let trusted = case.layers.iter().all(|(_, trusted, _)| *trusted);
    let line = serde_json::json!({
        "layers": layers, "mode": case.facts.mode.name(), "cwd": case.facts.cwd, "home": case.facts.home,
        "tool": tool, "input": input, "trusted": trusted, "interactive": case.facts.interactive,
    });
    Some(line.to_string())
}

#[test]
fn the_executable_answers_the_case_files() {
    let mut asked = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a case file");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let cases = cases_of(&name, &text).into_iter();
        asked.extend(cases.filter_map(|case| Some((line_of(&case)?, case))));
    }
    assert!(asked.len() >= 300, "{}", asked.len());
    let place = Place::new("case-files");
    let mut child = place
        .stockade(["check", "--no-daemon", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("stockade starts");
    let mut input = child.stdin.take().expect("an input");
    let lines: String = asked.iter().map(|(line, _)| format!("{line}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends").expect("it reads all");
    let answers = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(answers.lines().count(), asked.len());
    let mut wrong = Vec::new();
    for (answer, (_, case)) in answers.lines().zip(&asked) {
        let answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
        let wanted = case.expectation.split_whitespace().next().unwrap_or_default();
        if answer["decision"] != wanted {
            wrong.push(format!("{}: `{}`: {answer}", case.place, case.question));
        }
    }
    println!("{} cases", asked.len());
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}
