//! Hooks as the executable runs them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use stockade_tests::Place;

fn script(place: &Place, name: &str, text: &str) -> String {
    place.write(name, &format!("#!/bin/sh\n{text}\n"));
    let path = place.root.join(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a script");
    path.display().to_string()
}

#[test]
fn hooks_run_after_a_command_by_the_way_it_ended() {
    let place = Place::new("after");
    let seen = place.root.join("seen");
    let answer =
        r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"well done"}}"#;
    let good = script(&place, "good.sh", &format!("cat > {}; echo '{answer}'", seen.display()));
    let bad =
        script(&place, "bad.sh", &format!("cat > {}; echo try again >&2; exit 2", seen.display()));
    let group = |command: &str| json!([{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]);
    let settings =
        json!({"hooks": {"PostToolUse": group(&good), "PostToolUseFailure": group(&bad)}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());

    let output = place.output(["run", "echo hi"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("well done") && !told.contains("try again"), "{told}");
    let frame = || -> Value {
        serde_json::from_slice(&std::fs::read(&seen).expect("the hook ran")).expect("JSON")
    };
    let first = frame();
    assert_eq!(
        (
            &first["hook_event_name"],
            &first["tool_input"]["command"],
            &first["tool_response"]["stdout"]
        ),
        (&json!("PostToolUse"), &json!("echo hi"), &json!("hi\n"))
    );

    let output = place.output(["run", "exit 3"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("try again") && !told.contains("well done"), "{told}");
    let second = frame();
    assert_eq!(
        (&second["hook_event_name"], &second["error"], &second["is_interrupt"]),
        (&json!("PostToolUseFailure"), &json!("it ended with status 3"), &json!(false))
    );
}

#[test]
fn hooks_of_events_that_do_not_come_are_warned_about() {
    let place = Place::new("events");
    let hooks = json!([{"hooks": [{"type": "command", "command": "true"}]}]);
    let settings = json!({"hooks": {"PermissionRequest": hooks}});
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let output = place.output(["check", "ls"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("hooks of `PermissionRequest` do not run here"), "{told}");
}
