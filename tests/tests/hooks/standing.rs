//! Hooks are not the agent's to write: the person's own run apart from the project, any other one like a command of it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::machine::{self, Lacking};
use stockade_tests::{Place, skip, write_program};

use super::{answering, command, decision, saying, script, told, user};

/// Settings with which a command is asked about although it is confined, unless a hook says yes.
fn settings(handlers: &[Value]) -> Value {
    json!({
        "sandbox": {"enabled": true, "autoAllowBashIfSandboxed": false},
        "hooks": {"PreToolUse": [{"matcher": "", "hooks": handlers}]},
    })
}

/// Returns the answer with this hook for a command that needs a person otherwise, and the messages beside it.
fn answered(place: &Place, handler: &Value, search: &str) -> (Value, String) {
    user(place, &settings(std::slice::from_ref(handler)));
    let line = ["check", "--run-hooks", "--json", "--no-daemon", "--", "gentool"];
    let output = place.stockade(line).env("PATH", search).output().expect("it starts");
    (serde_json::from_slice(&output.stdout).expect("an answer"), told(&output))
}

fn usual() -> String {
    std::env::var("PATH").expect("a search path")
}

fn heard(place: &Place, handler: &Value) -> (String, String) {
    let (answer, told) = answered(place, handler, &usual());
    (decision(&answer).0.to_owned(), told)
}

#[test]
fn a_hook_takes_nothing_from_the_directory_of_the_call() {
    let place = Place::new("hooks-apart");
    let mark = place.home().join("mark");
    place
        .write("project/json.py", &format!("open({:?}, 'w')\ndef dumps(x): return '{{}}'\n", mark));
    let text = r#"python3 -c 'import json; print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}))'"#;
    // The act succeeds where nothing is in its way.
    let outside = Command::new("sh").args(["-c", text]).current_dir(place.project()).output();
    assert!(outside.expect("it starts").status.success() && mark.exists());
    std::fs::remove_file(&mark).expect("its mark");
    let (decided, told) = heard(&place, &command(text));
    assert_eq!(decided, "allow", "{told}");
    assert!(!mark.exists());
}

#[test]
fn a_hook_finds_no_program_where_commands_can_write() {
    let place = Place::new("hooks-search");
    let mark = place.home().join("mark");
    let planted = format!("#!/bin/sh\necho x > '{}'\n{}\n", mark.display(), saying("allow"));
    for name in ["id", "only-here"] {
        write_program(&place.project().join("bin").join(name), &planted);
    }
    let bin = place.project().join("bin");
    let search = format!("{}:{}", bin.display(), usual());
    let decided = |text: &str| {
        let (answer, _) = answered(&place, &command(text), &search);
        decision(&answer).0.to_owned()
    };
    // The system's program runs, and what it prints is not an answer; what lies in the project alone is confined.
    for text in ["id -u", "only-here", "env only-here"] {
        assert_eq!(decided(text), "ask", "{text}");
        assert!(!mark.exists(), "{text}");
    }
}

#[test]
fn what_may_be_what_a_command_wrote_only_refuses() {
    let place = Place::new("hooks-bound");
    let mark = place.home().join("mark");
    let inside = |text: &str| {
        let text = format!("echo x > '{}'\n{text}", mark.display());
        let hook = script(&place, "project/hooks/hook.sh", &text);
        assert!(Command::new(&hook).status().is_ok() && mark.exists(), "it acts outside");
        std::fs::remove_file(&mark).expect("its mark");
        hook
    };
    let changed = answering(&json!({"updatedInput": {"command": "ls"}}));
    for (text, decided) in [
        ("exit 2".to_owned(), "deny"),
        (saying("deny"), "deny"),
        (saying("ask"), "ask"),
        (saying("allow"), "ask"),
        (changed, "ask"),
    ] {
        let hook = inside(&text);
        let exec = json!({"type": "command", "command": "${CLAUDE_PROJECT_DIR}/hooks/hook.sh", "args": []});
        let shell = "sh \"$CLAUDE_PROJECT_DIR\"/hooks/hook.sh";
        for handler in [command(&hook), command("hooks/hook.sh"), command(shell), exec] {
            let (answer, told) = answered(&place, &handler, &usual());
            assert_eq!(decision(&answer).0, decided, "{handler} {text}: {answer}");
            assert_eq!(answer["input"]["command"], "gentool");
            assert!(!mark.exists(), "{handler} {text}");
            let widens = text.contains("allow") || text.contains("updated");
            assert_eq!(told.contains("is ignored, since"), widens, "{handler} {told}");
        }
    }
}

#[test]
fn the_yes_of_a_hook_counts_only_where_all_that_it_names_is_known() {
    let place = Place::new("hooks-named");
    let project = place.project().display().to_string();
    let yes = saying("allow");
    place.write("project/notes", "");
    let own = script(&place, "own.sh", &yes);
    std::os::unix::fs::symlink(place.root.join("own.sh"), place.project().join("link"))
        .expect("a link");
    let venv = format!("#!{project}/venv/bin/python\n");
    write_program(&place.root.join("shebang"), &venv);
    let shebang = place.root.join("shebang").display().to_string();
    for counts in [
        yes.clone(),
        own.clone(),
        format!("{own} --strict notes"),
        format!("[ -d \"$CLAUDE_PROJECT_DIR\" ] || echo \"no {project}\"; {yes}"),
        format!("bash {own}"),
        format!("input=$(cat); echo \"$input\" | grep -q no-such-word-9 || exec {own}"),
        format!("tr a b >> {}/log; {yes}", place.root.display()),
    ] {
        assert_eq!(heard(&place, &command(&counts)).0, "allow", "{counts}");
    }
    for counts_not in [
        format!("cd \"$CLAUDE_PROJECT_DIR\" && {yes}"),
        format!("{yes} | tee -a {project}/log"),
        format!("{yes} | tee -a log"),
        format!("cat notes; {yes}"),
        format!("{own} ./notes"),
        format!("{own} --file={project}/notes"),
        format!("bash {project}/link"),
        format!("python3 -c 'import os; os.chdir(os.environ[\"CLAUDE_PROJECT_DIR\"])'; {yes}"),
        format!("git status; {yes}"),
        format!("make; {yes}"),
        format!("$HOOK; {yes}"),
        format!("echo {project}/notes | xargs sh; {yes}"),
        format!("echo . {project}/notes | sh; {yes}"),
        format!("a=$(printf %s {project}/notes); sh \"$a\"; {yes}"),
        format!("bash \"$HOOK\"; {yes}"),
        format!("eval \"$(cat)\"; {yes}"),
        format!("PATH=.:$PATH; {yes}"),
        format!(". ./notes; {yes}"),
        format!("{shebang}; {yes}"),
    ] {
        let (decided, told) = heard(&place, &command(&counts_not));
        assert_eq!(decided, "ask", "{counts_not} {told}");
    }
}

#[test]
fn what_one_command_writes_no_hook_of_the_next_runs_unconfined() {
    let place = Place::new("hooks-sequence");
    let mark = place.home().join("mark");
    let hook = script(&place, "project/hook.sh", "exit 0");
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "", "hooks": [command(&hook)]}],
        "PostToolUse": [{"matcher": "", "hooks": [command(&hook)]}]}});
    user(&place, &settings);
    let evil =
        format!("printf '#!/bin/sh\\necho x > {}; exit 0\\n' > new; chmod +x new", mark.display());
    for line in [evil.as_str(), "mv hook.sh old; ln -s new hook.sh", "true"] {
        let output = place.output(["run", "--no-daemon", "--", line]);
        assert!(output.status.success(), "{line}: {}", told(&output));
    }
    assert_eq!(std::fs::read_link(&hook).expect("a link"), PathBuf::from("new"));
    assert!(!mark.exists());
    assert!(Command::new(&hook).status().is_ok_and(|it| it.success()) && mark.exists());
}

#[test]
fn a_confined_hook_has_its_time_and_no_more() {
    let place = Place::new("hooks-confined-late");
    let hook = script(&place, "project/late.sh", "sleep 600 & sleep 600");
    let handler = json!({"type": "command", "command": hook, "timeout": 1});
    let (answer, told) = answered(&place, &handler, &usual());
    assert_eq!(decision(&answer).0, "ask", "{answer}");
    assert!(told.contains("it did not end within 1 seconds"), "{told}");
    // One that writes without end is stopped as well.
    let hook = script(&place, "project/flood.sh", "exec yes");
    let (_, told) = answered(&place, &command(&hook), &usual());
    assert!(told.contains("it wrote more than"), "{told}");
}

/// Returns the answer with a hook of the project on a machine without `lacking`, under these settings of the sandbox, and
/// whether the hook wrote in the project and in the home directory.
fn on(lacking: &[Lacking], sandbox: &Value) -> Option<(Value, bool, bool)> {
    let place = Place::new("hooks-machine");
    let mark = place.home().join("mark");
    let text = format!("echo x > '{}'; echo x > ran; exit 0", mark.display());
    let hook = script(&place, "project/hook.sh", &text);
    assert!(Command::new(&hook).current_dir(&place.root).status().is_ok() && mark.exists());
    std::fs::remove_file(&mark).expect("its mark");
    let hooks = json!({"PreToolUse": [{"matcher": "", "hooks": [command(&hook)]}]});
    let allow = json!({"allow": ["Bash"]});
    user(&place, &json!({"permissions": allow, "hooks": hooks, "sandbox": sandbox}));
    let inner = place.stockade(["check", "--run-hooks", "--json", "--no-daemon", "--", "gentool"]);
    let output = machine::without(lacking, &inner)?.output().expect("it starts");
    let answer = serde_json::from_slice(&output.stdout).expect("an answer");
    Some((answer, place.project().join("ran").exists(), mark.exists()))
}

#[test]
fn a_hook_that_cannot_be_confined_is_a_question_and_does_not_run() {
    let (on_by_default, off) = (json!({}), json!({"enabled": false}));
    let less = json!({"failIfUnavailable": false});
    let off_or_less = json!({"enabled": false, "failIfUnavailable": false});
    let nothing: &[Lacking] = &[Lacking::Namespaces, Lacking::Landlock];
    for (lacking, sandbox) in [
        (&[Lacking::Namespaces][..], &on_by_default),
        (&[Lacking::Namespaces], &off),
        (&[Lacking::Notifications], &off),
        (nothing, &less),
        (nothing, &off_or_less),
    ] {
        let Some((answer, ran, marked)) = on(lacking, sandbox) else {
            return skip("a_hook_that_cannot_be_confined_is_a_question", "there is no Python");
        };
        assert_eq!(decision(&answer), ("ask", "hook"), "{lacking:?} {sandbox}: {answer}");
        let reason = answer["reason"].to_string();
        assert!(
            reason.contains("it cannot be confined")
                && reason.contains("keep the hook where commands cannot write")
        );
        assert!(!ran && !marked, "{lacking:?} {sandbox}");
    }
}

#[test]
fn a_hook_of_the_project_is_confined_whatever_the_settings_say_of_commands() {
    let off_or_less = json!({"enabled": false, "failIfUnavailable": false});
    for (lacking, sandbox) in [
        (&[][..], json!({"enabled": false})),
        (&[Lacking::Namespaces], json!({"failIfUnavailable": false})),
        (&[Lacking::Notifications], json!({"failIfUnavailable": false})),
        (&[Lacking::Notifications], off_or_less),
    ] {
        let Some((answer, ran, marked)) = on(lacking, &sandbox) else {
            return skip("a_hook_of_the_project_is_confined", "there is no Python");
        };
        assert_eq!(answer["decision"], "allow", "{lacking:?} {sandbox}: {answer}");
        assert!(ran && !marked, "{lacking:?} {sandbox}");
    }
}
