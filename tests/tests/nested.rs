//! A repository inside a project, one that a run made for instance, sheds nothing of what holds in the project.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::Place;

/// Runs a command in `folder`, and returns its status, what it wrote and what was told beside it.
fn run(place: &Place, folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let mut command = place.stockade(["run", "--no-daemon", "--", line]);
    command.env("GREETING", "hello");
    let output = command.current_dir(folder).output().expect("the executable starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn judged(place: &Place, folder: &Path, line: &str) -> Value {
    let arguments = ["check", "--no-daemon", "--json", "--run-hooks", "--", line];
    let output = place.stockade(arguments).current_dir(folder).output().expect("it starts");
    serde_json::from_slice(&output.stdout).expect("an answer")
}

fn digest(text: &[u8]) -> String {
    let file = std::env::temp_dir().join(format!("digest-{}", std::process::id()));
    fs::write(&file, text).expect("a file");
    let output = Command::new("sha256sum").arg(&file).output().expect("sha256sum");
    fs::remove_file(&file).expect("the file");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a digest").to_owned()
}

/// Has the person trust the settings of the project as they are.
fn trust(place: &Place) {
    let file = place.project().join(".stockade/settings.json");
    let mark = format!("state/stockade/trust/{}", digest(file.as_os_str().as_encoded_bytes()));
    place.write(&mark, &digest(&fs::read(&file).expect("settings")));
}

fn project(place: &Place, settings: &Value) {
    place.write("project/.stockade/settings.json", &settings.to_string());
}

const MAKE: &str = "git init -q sub && mkdir -p sub/deep && echo made";

#[test]
fn what_tightens_in_a_project_holds_in_a_repository_that_a_run_makes() {
    let place = Place::new("nested-tight");
    project(
        &place,
        &json!({
            "permissions": { "ask": ["Bash(tail:*)"] },
            "sandbox": { "limits": { "descriptors": 77 }, "network": { "strictAllowlist": true, "enabled": false },
                         "credentials": { "envVars": ["GREETING"] }, "filesystem": { "denyWrite": ["sub/locked"] } },
        }),
    );
    let made = run(&place, &place.project(), MAKE);
    assert_eq!(made.1, "made\n", "{}", made.2);
    for folder in ["", "sub", "sub/deep"].map(|it| place.project().join(it)) {
        let line = "ulimit -n; echo \"${GREETING-none}\"; echo \"${http_proxy-none}\"";
        let (_, told, notes) = run(&place, &folder, line);
        assert_eq!(told, "77\nnone\nnone\n", "{}: {notes}", folder.display());
        assert_eq!(run(&place, &folder, "tail x").0, Some(121), "{}", folder.display());
    }
    run(&place, &place.project().join("sub"), "mkdir locked");
    assert!(!place.project().join("sub/locked").exists());
}

#[test]
fn the_sandbox_of_a_project_is_that_of_a_repository_inside() {
    let place = Place::new("nested-sandbox");
    let off = json!({ "sandbox": { "enabled": false }, "permissions": { "allow": ["Bash"] } });
    place.write("home/.config/stockade/settings.json", &off.to_string());
    let outside = place.root.join("outside");
    let line = format!("touch '{}'", outside.display());
    assert_eq!(run(&place, &place.project(), MAKE).1, "made\n");
    for (folder, confined) in [("", false), ("sub", false), ("", true), ("sub", true)] {
        let on = json!({ "sandbox": { "enabled": confined, "failIfUnavailable": true } });
        project(&place, &if confined { on } else { json!({}) });
        let (_, _, notes) = run(&place, &place.project().join(folder), &line);
        assert_eq!(outside.exists(), !confined, "{folder} {confined}: {notes}");
        let _ = fs::remove_file(&outside); // where it was made
    }
}

#[test]
fn a_hook_of_a_project_guards_a_repository_inside_and_allows_nothing_there() {
    let place = Place::new("nested-hook");
    let user = json!({ "sandbox": { "enabled": false } });
    place.write("home/.config/stockade/settings.json", &user.to_string());
    let command = r#"case $(cat) in *blocked*) echo "$CLAUDE_PROJECT_DIR" >&2; exit 2;; esac
        echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#;
    let hooks = json!({ "PreToolUse": [{ "hooks": [{ "type": "command", "command": command }] }] });
    project(&place, &json!({ "hooks": hooks }));
    place.repository(&place.project().join("sub"));
    let (top, sub) = (place.project(), place.project().join("sub"));
    let told = |folder: &Path, line: &str| {
        let answer = judged(&place, folder, line);
        (answer["decision"].as_str().unwrap_or_default().to_owned(), answer["reason"].to_string())
    };
    assert_eq!(told(&top, "touch blocked").0, "ask", "nobody has trusted it");
    trust(&place);
    assert_eq!(told(&top, "touch fine").0, "allow");
    assert_eq!(told(&sub, "touch fine").0, "ask");
    let top_name = top.display().to_string();
    for folder in [&top, &sub] {
        let (decision, reason) = told(folder, "touch blocked");
        assert_eq!(decision, "deny", "{}", folder.display());
        assert!(
            reason.contains(&format!("{top_name}\"")) || reason.contains(&top_name),
            "{reason}"
        );
        assert!(!reason.contains("project/sub"), "{reason}");
    }
    // The repository inside does not switch it off, trusted or not.
    place.write("project/sub/.stockade/settings.json", r#"{"disableAllHooks": true}"#);
    assert_eq!(told(&sub, "touch blocked").0, "deny");
}
