//! Settings as the executable reads them: the files of another product beside ours, the digest that names what was
//! used, and entries that are wrong.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stockade_tests::{Place, skip};

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Judges a command and returns the answer with what was told beside it.
fn judged(place: &Place, options: &[&str], line: &str) -> (Value, String) {
    let arguments = [&["check", "--no-daemon", "--json"], options, &["--", line]].concat();
    let output = place.output(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout);
    (answer.unwrap_or_else(|error| panic!("{error}: {told}")), told)
}

#[track_caller]
fn check(place: &Place, options: &[&str], line: &str, decision: &str, file: Option<&Path>) {
    let (answer, told) = judged(place, options, line);
    assert_eq!(answer["decision"], decision, "{line}: {answer} {told}");
    let found = answer["file"].as_str().map(Path::new);
    assert_eq!(found, file, "{line}: {answer} {told}");
}

fn rules(list: &str, rule: &str) -> String {
    json!({ "permissions": { list: [rule] } }).to_string()
}

/// Makes a root of the caller's own, for managed settings below a root of somebody else are rejected, with all that the
/// other has but `/etc`.
const OWN_ROOT: &str = r#"
mount -t tmpfs tmpfs "$ROOT" && mkdir "$ROOT/etc" || exit
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$ROOT$entry"
  elif [ -d "$entry" ] && [ "$entry" != /etc ]; then mkdir "$ROOT$entry" && mount --rbind "$entry" "$ROOT$entry" || exit
  fi
done
PATH="$PATH:/usr/sbin:/sbin"
exec chroot "$ROOT" sh -c "cd '$PWD' && echo mounted && $0"
"#;

/// Runs `script` where `/etc` is an empty folder of its own; none where this machine gives no such place.
fn with_own_etc(place: &Place, script: &str) -> Option<String> {
    let own_root = place.root.join("own-root");
    std::fs::create_dir(&own_root).expect("a folder");
    let mut shell = std::process::Command::new("unshare");
    let whole = format!("{{\n{script}\n}}");
    shell.args(["-rm", "sh", "-c", OWN_ROOT, &whole]).current_dir(place.project());
    shell.env("ROOT", own_root);
    shell.env("HOME", place.home()).env_remove("XDG_CONFIG_HOME");
    shell.env("STOCKADE_UNDER_TEST", stockade_tests::stockade()).env("STATE", place.state());
    let output = shell.output().ok()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    told.strip_prefix("mounted\n").map(str::to_owned)
}

#[test]
fn managed_settings_of_the_other_product_hold_once_it_is_imported() {
    let place = Place::new("managed-import");
    user(&place, &json!({ "permissions": { "allow": ["Bash"] }, "sandbox": { "enabled": false } }));
    let script = r#"
mkdir -p /etc/claude-code/managed-settings.d
echo '{"permissions": {"deny": ["Bash(one:*)"]}}' > /etc/claude-code/managed-settings.json
echo '{"permissions": {"ask": ["Bash(two:*)"]}}' > /etc/claude-code/managed-settings.d/10.json
echo 'no settings' > /etc/claude-code/managed-settings.d/notes.txt
judge() { "$STOCKADE_UNDER_TEST" check --no-daemon --state-dir "$STATE" --quiet "$@" > /dev/null 2>&1; echo "$?"; }
judge -- one a
judge --import claude-code -- one a
judge --import claude-code -- two a
judge --import claude-code -- three
judge --import claude-code --allowed-tools 'Bash(one:*)' -- one a
echo '{"import": ["claude-code"]}' > "$HOME/.config/stockade/settings.json"
judge -- one a
judge --setting-sources project --import claude-code -- one a
chmod 666 /etc/claude-code/managed-settings.json
judge --import claude-code -- three
chmod 644 /etc/claude-code/managed-settings.json
echo '{' > /etc/claude-code/managed-settings.json
judge --import claude-code -- three
"#;
    let Some(told) = with_own_etc(&place, script) else {
        let test = "managed_settings_of_the_other_product_hold_once_it_is_imported";
        return skip(test, "no folder can be put over `/etc` in a namespace of its own");
    };
    // Not imported; refused and asked; free; no other layer lifts it; imported by the user's file; no source leaves it
    // out; a file that others can write and one that is no JSON refuse everything.
    let answers: Vec<&str> = told.split_whitespace().collect();
    assert_eq!(answers, ["0", "120", "121", "0", "120", "120", "120", "122", "122"], "{told}");
}

#[test]
fn the_files_of_the_other_product_are_read_beside_ours_each_at_its_layer() {
    let place = Place::new("import");
    let off = json!({ "sandbox": { "enabled": false } });
    let import = json!({ "import": ["claude-code"], "sandbox": { "enabled": false } });
    place.write("home/.claude/settings.json", &rules("deny", "Bash(one:*)"));
    place.write("project/.claude/settings.json", &rules("deny", "Bash(two:*)"));
    place.write("project/.claude/settings.local.json", &rules("ask", "Bash(three:*)"));
    let home = place.home().join(".claude/settings.json");
    let project = place.project().join(".claude/settings.json");
    let local = place.project().join(".claude/settings.local.json");
    // Nothing of it counts unasked.
    user(&place, &off);
    for line in ["one", "two", "three"] {
        check(&place, &[], line, "ask", None);
    }
    for options in [&[][..], &["--import", "claude-code"]] {
        user(&place, if options.is_empty() { &import } else { &off });
        check(&place, options, "one a", "deny", Some(&home));
        check(&place, options, "two a", "deny", Some(&project));
        check(&place, options, "three a", "ask", Some(&local));
        check(&place, options, "four", "ask", None);
    }
    // A rule that widens counts in the person's own file; the project's file is not trusted yet.
    user(&place, &import);
    fs::write(&home, rules("allow", "Bash(one:*)")).expect("settings");
    fs::write(&project, rules("allow", "Bash(two:*)")).expect("settings");
    check(&place, &[], "one a", "allow", Some(&home));
    check(&place, &[], "two a", "ask", None);
    // A layer that is left out is left out in both products.
    fs::write(&project, rules("deny", "Bash(two:*)")).expect("settings");
    check(&place, &["--setting-sources", "user"], "two a", "ask", None);
    // Another folder of the person's settings.
    let mut other = place.stockade(["check", "--no-daemon", "--json", "--", "five"]);
    place.write("root/settings.json", &rules("deny", "Bash(five:*)"));
    let output = other.env("CLAUDE_CONFIG_DIR", place.root.join("root")).output().expect("it");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["decision"], "deny", "{answer}");
    // A file of the other product that cannot be read stops everything, like ours.
    fs::write(&project, "{\n \"permissions\": {,}\n}").expect("settings");
    let output = place.output(["check", "--no-daemon", "--", "ls"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(122), "{told}");
    assert!(told.contains(".claude/settings.json:2:18: invalid JSON: "), "{told}");
}

#[test]
fn import_counts_where_the_person_or_the_administrator_writes_it_and_is_never_dropped() {
    let place = Place::new("import-where");
    place.write("home/.claude/settings.json", &rules("deny", "Bash(one:*)"));
    for file in ["settings.json", "settings.local.json"] {
        place.write(&format!("project/.stockade/{file}"), r#"{"import": ["claude-code"]}"#);
        let (answer, told) = judged(&place, &[], "one");
        assert_ne!(answer["decision"], "deny", "{answer}");
        let wanted = "`import` is only valid in user and managed settings";
        assert!(told.contains(&format!("{file}:1:12: {wanted}")), "{told}");
        fs::remove_file(place.project().join(".stockade").join(file)).expect("the file goes");
    }
    for (settings, place_of_it) in [
        (r#"{"import": "claude-code"}"#, ":1:12: expected a list of products, not a string"),
        (r#"{"import": ["claude"]}"#, ":1:13: unknown product"),
        (r#"{"import": [7]}"#, ":1:13: unknown product"),
    ] {
        place.write("home/.config/stockade/settings.json", settings);
        let output = place.output(["check", "--no-daemon", "--", "one"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(122), "{told}");
        assert!(told.contains(&format!("settings.json{place_of_it}")), "{told}");
        assert!(told.contains("\n  try: write `[\"claude-code\"]`, or remove it"), "{told}");
    }
}

/// Runs a command and returns the digest that its answer, and the one that its record, names.
fn digests(place: &Place) -> (String, String) {
    let output = place.output(["run", "--no-daemon", "--json", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (answer, _) = judged(place, &[], "true");
    let told = answer["settings_sha256"].as_str().expect("a digest").to_owned();
    let output = place.output(["audit", "search", "--json", "--kind", "decision"]);
    let records = String::from_utf8(output.stdout).expect("UTF-8");
    let last = records.lines().last().expect("a record");
    let record: Value = serde_json::from_str(last).expect("JSON");
    let recorded = record.pointer("/policy/sha256").and_then(Value::as_str);
    let recorded = recorded.unwrap_or_else(|| panic!("no digest: {record}")).to_owned();
    (told, recorded)
}

#[test]
fn every_decision_names_the_digest_of_the_settings_it_used() {
    let place = Place::new("digest");
    let hook = |command: &str| {
        let handler = json!({ "type": "command", "command": command });
        json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [handler] }] } })
    };
    let mut seen = Vec::new();
    for settings in [
        json!({}),
        json!({ "permissions": { "deny": ["Bash(x)"] } }),
        hook("cat > /dev/null"),
        hook("cat > /dev/null; true"),
        json!({ "env": { "A": "1" } }),
        json!({ "import": ["claude-code"] }),
    ] {
        user(&place, &settings);
        let (told, recorded) = digests(&place);
        assert_eq!(told, recorded, "{settings}");
        assert!(!seen.contains(&told), "{settings} has the digest of other settings");
        seen.push(told);
    }
    // A file that is imported, and whether one is trusted, are part of it.
    for (file, text) in [
        ("home/.claude/settings.json", rules("deny", "Bash(x)")),
        ("project/.claude/settings.json", rules("deny", "Bash(x)")),
    ] {
        place.write(file, &text);
        let (told, recorded) = digests(&place);
        assert_eq!(told, recorded, "{file}");
        assert!(!seen.contains(&told), "{file} does not count");
        seen.push(told);
    }
}

/// Wrong entries: the settings, the message with its place, and the help.
const WRONG: [(&str, &str, &str); 20] = [
    (
        r#"{"permissions":{"deny":["Bash(git push"]}}"#,
        "1:25: the parenthesis is not closed: `\"Bash(git push\"`",
        "; ",
    ),
    (
        r#"{"permissions":{"ask":["Edit(a"]}}"#,
        "1:24: the parenthesis is not closed: `\"Edit(a\"`",
        "; ",
    ),
    (
        r#"{"permissions":{"allow":["Bash(ls"]}}"#,
        "1:26: the parenthesis is not closed: `\"Bash(ls\"`",
        "; ",
    ),
    (r#"{"permissions":{"deny":["Bash()"]}}"#, "1:25: the parentheses are empty", "; "),
    (r#"{"permissions":{"deny":[7]}}"#, "1:25: the rule has no tool name: `7`", "; "),
    (r#"{"permissions":{"deny":[["Bash"]]}}"#, "1:25: the rule has no tool name", "; "),
    (
        r#"{"permissions":{"allow":["B*"]}}"#,
        "1:26: an allow rule with `*` in the tool name approves nothing",
        "; ",
    ),
    (
        r#"{"permissions":{"defaultMode":"wild"}}"#,
        "1:31: invalid mode; `default` is used",
        "; write `default`, `acceptEdits`, `plan`, `auto`, `dontAsk` or `bypassPermissions`",
    ),
    (
        r#"{"permissions":{"defaultMode":"acceptEdit"}}"#,
        "1:31: invalid mode",
        "; did you mean `acceptEdits`?",
    ),
    (r#"{"permissions":{"alow":[]}}"#, "1:17: unknown key `alow`", "; did you mean `allow`?"),
    (
        r#"{"sandbox":{"network":{"allowedDomain":[]}}}"#,
        "1:24: unknown key `sandbox.network.allowedDomain`",
        "; did you mean `allowedDomains`?",
    ),
    (
        r#"{"limits":{"whenTimeIsOp":"stop"}}"#,
        "1:27: `limits.whenTimeIsOp` has no effect",
        "; did you mean `whenTimeIsUp`?",
    ),
    (
        r#"{"hooks":{"PreTooluse":[]}}"#,
        "1:11: unknown event `PreTooluse`",
        "; did you mean `PreToolUse`?",
    ),
    (
        r#"{"env":{"A=B":"x"}}"#,
        "1:9: invalid variable name `A=B`",
        "; use a name without `=` and NUL bytes",
    ),
    (r#"{"sandbox":{"enabled":"yes"}}"#, "1:23: expected a Boolean; used as true", "; "),
    (r#"{"hooks":{"Nothing":[]}}"#, "1:11: unknown event `Nothing`", "; "),
    (r#"{"hooks":{"PreToolUse":{}}}"#, "1:24: expected a list", "; "),
    (
        r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"none"}]}]}}"#,
        "1:35: the handler has no known `type`",
        "; ",
    ),
    (r#"{"env":{"A":1}}"#, "1:13: expected a string", "; "),
    (r#"{"permisions":{}}"#, "1:2: unknown key `permisions`", "; did you mean `permissions`?"),
];

#[test]
fn an_entry_that_is_wrong_is_told_with_its_place_and_help_and_leaves_the_others() {
    let place = Place::new("wrong");
    for (settings, told_of_it, help) in WRONG {
        place.write("home/.config/stockade/settings.json", settings);
        let other = rules("deny", "Bash(made:*)");
        let (answer, told) = judged(&place, &["--settings", &other], "made it");
        assert_eq!(answer["decision"], "deny", "{settings}: {answer}");
        let lines: Vec<&str> =
            told.lines().filter(|line| line.starts_with("stockade: warning: ")).collect();
        assert_eq!(lines.len(), 1, "{settings}: {told}");
        let begins = format!("settings.json:{told_of_it}");
        let behind = lines[0].split_once(&begins).map(|(_, behind)| behind);
        let behind = behind.unwrap_or_else(|| panic!("{settings}: {}", lines[0]));
        assert!(
            behind.rsplit_once(help).is_some_and(|(_, rest)| (help == "; ") == (rest.len() > 4)),
            "{}",
            lines[0]
        );
    }
}

/// Shapes that could have held what forbids a call.
#[test]
fn a_shape_that_is_wrong_refuses_with_its_place() {
    let place = Place::new("shape");
    for (settings, told_of_it) in [
        (r#"{"permissions":7}"#, "1:16: expected an object, not a number"),
        (r#"{"permissions":{"deny":"Bash"}}"#, "1:24: expected a list of rules, not a string"),
        (r#"{"permissions":{"ask":{}}}"#, "1:23: expected a list of rules, not an object"),
        (
            r#"{"permissions":{"deny":["Bash(a)"],"deny":[]}}"#,
            "1:36: invalid JSON: duplicate key `deny`",
        ),
        (r#"{"sandbox":[]}"#, "1:12: expected an object, not a list"),
        (
            r#"{"sandbox":{"filesystem":{"denyRead":"x"}}}"#,
            "1:38: expected a list of strings, not a string",
        ),
        (r#"{"sandbox":{"network":{"deniedDomains":[7]}}}"#, "1:41: expected a string"),
        (r#"{"hooks":[]}"#, "1:10: expected an object of events"),
        (r#"{"env":[]}"#, "1:8: expected an object of names and strings, not a list"),
    ] {
        place.write("home/.config/stockade/settings.json", settings);
        let output = place.output(["run", "--no-daemon", "--json", "--", "true"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(122), "{settings}: {told}");
        assert!(told.contains(&format!("settings.json:{told_of_it}")), "{settings}: {told}");
        assert!(told.contains("\n  try: "), "{settings}: {told}");
        let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(object["error"]["code"], "settings_rejected", "{object}");
    }
}

#[test]
fn a_rule_of_a_megabyte_is_told_and_stops_the_call_where_it_refuses() {
    let place = Place::new("long-rule");
    let long = format!("Bash({})", "x".repeat(1 << 20));
    for (list, decision) in [("deny", "deny"), ("ask", "ask"), ("allow", "allow")] {
        place.write("home/.config/stockade/settings.json", &rules(list, &long));
        let (answer, told) = judged(&place, &[], "true");
        assert_eq!(answer["decision"], decision, "{list}: {answer}");
        let wanted = "settings.json:1:";
        let lines: Vec<&str> = told.lines().filter(|line| line.contains(wanted)).collect();
        let warned = lines.iter().any(|line| line.contains("the rule is too long"));
        assert!(warned, "{list}: {told}");
        assert!(told.len() < 4_000, "{list}: {} bytes are told", told.len());
    }
}

#[test]
fn a_managed_rule_that_cannot_be_read_refuses() {
    let place = Place::new("managed-rule");
    for rule in ["Bash(git push", "Bash()", ""] {
        let case = json!({
            "layers": { "policy": { "permissions": { "deny": [rule] } } }, "tool": "Bash",
            "input": { "command": "true" },
        });
        place.write("case.jsonl", &format!("{case}\n"));
        let mut check = place.stockade(["check", "--no-daemon", "--jsonl"]);
        check.stdin(fs::File::open(place.root.join("case.jsonl")).expect("the case"));
        let output = check.output().expect("it starts");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!answer.contains("\"decision\":\"allow\""), "{rule}: {answer}");
        assert!(answer.contains("<policy>:1:"), "{rule}: {answer}");
    }
}
