//! `stockade allow`, `stockade block` and `--profile`: what may run changes, and a person says so.

use std::path::Path;

use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const LOCAL: &str = "project/.stockade/settings.local.json";

#[test]
fn a_block_counts_at_once_and_an_allow_needs_a_person() {
    let place = Place::new("amend");
    let check = |command: &str| place.output(["check", command]).status.code();
    assert_eq!(check("echo a"), Some(0));
    let shown = place.output(["block", "Bash(echo:*)", "--dry-run"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("+ permissions.deny: `Bash(echo:*)`"));
    assert!(!place.root.join(LOCAL).exists());
    let blocked = place.output(["block", "Bash(echo:*)"]);
    assert_eq!(blocked.status.code(), Some(0), "{}", text(&blocked.stderr));
    assert_eq!(check("echo a"), Some(120));
    let held = std::fs::read_to_string(place.root.join(LOCAL)).expect("the file");
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    assert_eq!(held, serde_json::json!({"permissions": {"deny": ["Bash(echo:*)"]}}));
    // Without a terminal nobody allows anything.
    let alone = place.output(["allow", "Bash(make:*)"]);
    assert_eq!(alone.status.code(), Some(121), "{}", text(&alone.stderr));
    let told = text(&alone.stderr);
    assert!(told.starts_with("stockade: needs a person: add to `"), "{told}");
    assert!(told.contains("`\n+ permissions.allow: `Bash(make:*)`\n"), "{told}");
    let wrong = place.output(["allow", "Bash(make"]);
    assert_eq!(wrong.status.code(), Some(122), "{}", text(&wrong.stderr));
    let grants = place.output(["audit", "tail", "--json", "--kind", "grant"]);
    assert!(text(&grants.stdout).contains("block Bash(echo:*)"), "{}", text(&grants.stdout));
    assert!(!text(&grants.stdout).contains("make"), "{}", text(&grants.stdout));
}

#[test]
fn a_person_allows_a_rule_at_the_terminal() {
    let place = Place::new("amend-yes");
    place.write("home/.config/stockade/settings.json", r#"{"sandbox": {"enabled": false}}"#);
    let check = || place.output(["check", "make all"]).status.code();
    assert_eq!(check(), Some(121));
    for (answer, status) in [("no\r", Some(121)), ("yes\r", Some(0))] {
        let words = ["allow", "Bash(make:*)"];
        let Some(mut terminal) = Terminal::start(&place, Path::new(stockade()), &words) else {
            return skip(
                "a_person_allows_a_rule_at_the_terminal",
                "the program `script`, which gives a terminal, is not installed",
            );
        };
        terminal.wait_for("allow this? yes, no:");
        terminal.press(answer);
        terminal.end();
        assert_eq!(check(), status, "{answer}");
    }
}

#[test]
fn a_profile_sets_what_the_sandbox_lets_through() {
    let place = Place::new("profiles");
    let run = |profile: &str, command: &str| {
        let words = ["run", "--no-daemon", "--profile", profile, "--", command];
        place.output(words)
    };
    let write = "touch written";
    let written = || place.project().join("written").exists();
    for profile in ["read-only", "project", "network", "default"] {
        let output = run(profile, write);
        let writes = profile != "read-only";
        assert_eq!((output.status.success(), written()), (writes, writes), "{profile}: {output:?}");
        let _ = std::fs::remove_file(place.project().join("written")); // not there where nothing may write
        assert_eq!(text(&run(profile, "echo a").stdout), "a\n", "{profile}");
    }
    assert_eq!(run("none", "make all").status.code(), Some(121), "unconfined, a person is asked");
    let unknown = run("raed-only", "echo a");
    assert_eq!(unknown.status.code(), Some(122));
    assert!(
        text(&unknown.stderr).contains("use one of default, read-only, project"),
        "{unknown:?}"
    );
    // By a file, and by the setting of the user.
    place.write("home/own.json", r#"{"permissions": {"deny": ["Bash(echo:*)"]}}"#);
    let own = place.home().join("own.json");
    assert_eq!(run(own.to_str().expect("UTF-8"), "echo a").status.code(), Some(120));
    place.write("home/.config/stockade/settings.json", r#"{"profile": "read-only"}"#);
    let output = place.output(["run", "--no-daemon", "--", write]);
    assert!(!output.status.success() && !written(), "{output:?}");
    assert!(!text(&output.stderr).contains("has no effect"), "{output:?}");
}
