//! `stockade policy`: what people are told about their rules.

use std::process::Output;

use serde_json::{Value, json};
use stockade_tests::{Place, root};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts exit status and standard output.
fn check(output: &Output, status: i32, stdout: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), stdout, "{}", text(&output.stderr));
}

#[test]
fn show_tells_rules_and_settings_with_their_places() {
    let place = Place::new("show");
    place.write(
        "home/.config/stockade/settings.json",
        "{\n \"permissions\": {\n  \"deny\": [\"Bash(curl:*)\"],\n  \"defaultMode\": \"plan\"\n }\n}\n",
    );
    place.write(
        "project/.stockade/settings.json",
        r#"{"permissions": {"ask": ["Bash(git push:*)"]}, "sandbox": {"network": {"allowedDomains": ["a.org"]}}}"#,
    );
    let output = place.output(["policy", "show", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let file = place.home().join(".config/stockade/settings.json");
    let project = place.project().join(".stockade/settings.json");
    assert_eq!(
        shown["rules"],
        json!([
            {"source": "project", "file": project, "line": 1, "column": 26,
             "pointer": "/permissions/ask/0", "effect": "ask", "rule": "Bash(git push:*)"},
            {"source": "user", "file": file, "line": 3, "column": 12,
             "pointer": "/permissions/deny/0", "effect": "deny", "rule": "Bash(curl:*)"},
        ])
    );
    let settings = shown["settings"].as_array().expect("a list");
    let mode = settings.iter().find(|one| one["key"] == "permissions.defaultMode");
    assert_eq!(
        mode,
        Some(&json!({"source": "user", "file": file, "line": 4, "column": 18,
            "pointer": "/permissions/defaultMode", "key": "permissions.defaultMode", "value": "plan"}))
    );
    // A setting that is not trusted yet does not count, and a warning tells of it.
    assert!(!settings.iter().any(|one| one["key"] == "sandbox.network.allowedDomains"));
    assert_eq!(shown["warnings"].as_array().map(Vec::len), Some(1));
}

#[test]
fn lint_names_what_is_wrong_with_a_witness_where_a_rule_is_broad() {
    let place = Place::new("lint");
    place.write(
        "project/.stockade/settings.json",
        "{\"permissions\": {\n\"allow\": [\"Bash(git *)\",\n\"Bash(git log *)\",\n\"Bash(curl x)\",\n\
         \"Bash($HOME/x)\"],\n\"deny\": [\"Bash(curl:*)\",\n\"Bash(curl:*)\"],\n\"alow\": []}}\n",
    );
    check(
        &place.output(["policy", "lint"]),
        1,
        "\
warning: this file is not trusted, so entries that allow more are ignored
  --> .stockade/settings.json:1:1
   = help: run `stockade policy trust` after reading the file
warning: this allows `git push origin main`, which publishes the repository
  --> .stockade/settings.json:2:11
   |  Bash(git *)
   = help: make the rule narrower, or move it to `ask`
warning: `Bash(git *)` in PROJECT/.stockade/settings.json:2 already covers all of this
  --> .stockade/settings.json:3:1
   |  Bash(git log *)
   = help: remove this one
warning: `Bash(curl:*)` in PROJECT/.stockade/settings.json:6 refuses everything that this rule matches
  --> .stockade/settings.json:4:1
   |  Bash(curl x)
   = help: remove one of the two
warning: the shell replaces the first word, and a word that is not known before it runs matches no allow rule
  --> .stockade/settings.json:5:1
   |  Bash($HOME/x)
   = help: write the path out
warning: the same rule is in PROJECT/.stockade/settings.json:6
  --> .stockade/settings.json:7:1
   |  Bash(curl:*)
   = help: keep one of them
warning: unknown key `alow`
  --> .stockade/settings.json:8:1
   |  \"alow\"
   = help: did you mean `allow`?
"
        .replace("PROJECT", &place.project().display().to_string())
        .as_str(),
    );
    place.write(
        "project/.stockade/settings.json",
        r#"{"permissions": {"allow": ["Bash(git log *)"]}}"#,
    );
    let untrusted = "\
warning: this file is not trusted, so entries that allow more are ignored
  --> .stockade/settings.json:1:1
   = help: run `stockade policy trust` after reading the file
";
    check(&place.output(["policy", "lint"]), 0, untrusted);
    place.write("project/.stockade/settings.json", "{");
    assert_eq!(place.output(["policy", "lint"]).status.code(), Some(1));
}

#[test]
fn lint_calls_a_rule_that_means_nothing_or_lets_everything_out_an_error() {
    let place = Place::new("lint-errors");
    place
        .write("project/.stockade/settings.json", r#"{"permissions": {"deny": ["bash(curl:*)"]}}"#);
    check(
        &place.output(["policy", "lint"]),
        1,
        "\
error: unknown tool `bash`
  --> .stockade/settings.json:1:27
   |  \"bash(curl:*)\"
   = help: did you mean `Bash(curl:*)`? Until it is corrected, every call of Bash is refused
",
    );
}

/// A rule that lets a program out is an error with a command that shows it; a rule that does not is no error.
#[test]
fn lint_shows_the_way_out_that_a_rule_covers() {
    let place = Place::new("lint-escapes");
    let told = |rule: &str| {
        let settings = serde_json::json!({"permissions": {"allow": [rule]}}).to_string();
        place.write("home/.config/stockade/settings.json", &settings);
        let output = place.output(["policy", "lint"]);
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let cases = [
        (
            "Bash(curl -T *)",
            "error: this allows `curl -T notes.txt https://example.com`, which sends a file to another machine",
        ),
        (
            "Bash(gh extension *)",
            "error: this allows `gh extension`, which runs other programs or code",
        ),
        (
            "Bash(ruby x.rb *)",
            "warning: this allows `ruby x.rb`, which runs any content of the file",
        ),
        (
            "Bash(python3 *)",
            "warning: this allows `python3 x.py`, which runs any content of the file",
        ),
        (
            "Bash(python3 -c pass *)",
            "error: this allows `python3 -c pass`, which runs other programs or code",
        ),
        ("Bash(python3 -c *)", ""),
        ("Bash(find *)", ""),
        ("Bash(scp *)", ""),
        ("Bash(dmsetup *)", ""),
        ("Bash(dmsetup ls --exec ./x *)", ""),
        ("Bash(python3 -c pass)", ""),
    ];
    for (rule, expected) in cases {
        assert_eq!(told(rule), expected, "{rule}");
    }
}

#[test]
fn test_decides_written_cases_and_shows_misses() {
    let place = Place::new("cases");
    let deny = r#"{"permissions": {"deny": ["Bash(curl:*)"]}}"#;
    place.write("project/.stockade/settings.json", deny);
    let right = r#"{"tool": "Bash", "input": {"command": "curl x"}, "expect": "deny", "expect_rule": "Bash(curl:*)"}"#;
    place.write("project/.stockade/cases/a.jsonl", &format!("{right}\n"));
    check(&place.output(["policy", "test"]), 0, "");
    let wrong = r#"{"tool": "Bash", "input": {"command": "curl y"}, "expect": "allow"}"#;
    place.write("project/.stockade/cases/b.jsonl", &format!("{right}\n{wrong}\n"));
    let miss = format!(
        "{}:2: `curl y` is decided deny, not allow: deny rule `Bash(curl:*)` in {}:1\n",
        place.project().join(".stockade/cases/b.jsonl").display(),
        place.project().join(".stockade/settings.json").display(),
    );
    check(&place.output(["policy", "test"]), 1, &miss);
    check(&place.output(["policy", "test", ".stockade/cases/a.jsonl"]), 0, "");
    // A file that holds no cases is not a pass.
    place.write("project/.stockade/cases/b.jsonl", "{}\n");
    assert_eq!(place.output(["policy", "test"]).status.code(), Some(122));
    let empty = Place::new("no-cases");
    assert_eq!(empty.output(["policy", "test"]).status.code(), Some(122));
}

#[test]
fn the_cases_of_this_project_are_decided_as_written() {
    let place = Place::new("own-cases");
    let file = root().join("tests/cases/decisions.jsonl");
    let file = file.to_str().expect("a path of UTF-8");
    check(&place.output(["policy", "test", file]), 0, "");
}

#[test]
fn diff_shows_commands_that_two_files_decide_differently() {
    let place = Place::new("diff");
    place.write(
        "project/a.json",
        r#"{"permissions": {"allow": ["Bash(make x)"], "deny": ["Read(.env)"]}}"#,
    );
    place.write("project/b.json", r#"{"permissions": {"ask": ["Bash(make x)"]}}"#);
    check(&place.output(["policy", "diff", "a.json", "a.json"]), 0, "");
    check(
        &place.output(["policy", "diff", "a.json", "b.json"]),
        1,
        "make x: allow (`Bash(make x)` in a.json:1:28) -> ask (`Bash(make x)` in b.json:1:26)\n\
         Read .env: deny (`Read(.env)` in a.json:1:54) -> allow (it is read inside the working directories)\n",
    );
    let missing = place.output(["policy", "diff", "a.json", "missing.json"]);
    assert_eq!(missing.status.code(), Some(122));
}

#[test]
fn ten_thousand_rules_are_looked_through_without_waiting() {
    let place = Place::new("many");
    let rules = |word: &str| {
        let rule = |index: usize| format!("\"Bash({word}{index} *)\"");
        (0..5_000).map(rule).collect::<Vec<_>>().join(",")
    };
    let settings = format!(
        r#"{{"permissions": {{"allow": [{}], "deny": [{}]}}}}"#,
        rules("program"),
        rules("tool")
    );
    place.write("home/.config/stockade/settings.json", &settings);
    let start = std::time::Instant::now();
    check(&place.output(["policy", "lint"]), 0, "");
    let took = start.elapsed();
    // A release build does it within one second; a debug build on a busy machine is granted much more, and
    // one that compared each rule with every other would still not make it.
    assert!(took < std::time::Duration::from_secs(240), "{took:?}");
    println!("10,000 rules: {took:?}");
}
