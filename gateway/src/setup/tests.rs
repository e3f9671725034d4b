//! Each agent is put behind the gate and taken out again, and all else in its files stays.

use super::*;
use crate::testing::Folder;

fn around(folder: &Folder) -> Surroundings {
    Surroundings {
        configuration: folder.path().join("home/.config"),
        home: folder.path().join("home"),
        project: folder.path().join("project"),
        executable: "/opt/a b/stockade".into(),
        system: folder.path().join("system"),
        moved: Vec::new(),
    }
}

/// Puts an agent behind the gate and returns what that changed.
fn installed(agent: Agent, scope: Scope, around: &Surroundings) -> Vec<Change> {
    let changes = install(agent, scope, around).unwrap();
    for change in &changes {
        change.apply(around).unwrap();
    }
    changes
}

fn undone(agent: Agent, scope: Scope, around: &Surroundings) {
    for change in uninstall(agent, scope, around).unwrap() {
        change.apply(around).unwrap();
    }
    left(agent, scope, around).unwrap();
}

#[test]
fn every_agent_goes_in_and_out_and_leaves_nothing() {
    for agent in Agent::ALL {
        let folder = Folder::new();
        let around = around(&folder);
        let changes = installed(agent, Scope::User, &around);
        assert!(changes.iter().all(|change| change.before.is_none()), "{agent:?}");
        let hook = |change: &&Change| change.after.as_ref().is_some_and(|it| it.contains("hook"));
        let change = changes.iter().find(hook).unwrap();
        let written = std::fs::read_to_string(&change.path).unwrap();
        assert!(written.contains("/opt/a b/stockade"), "{agent:?}: {written}");
        if change.path.extension().is_some_and(|it| it == "json") {
            let value: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert!(value.to_string().contains(&format!("hook {}", agent.name())), "{written}");
        }
        let again = install(agent, Scope::User, &around).unwrap();
        assert!(again.iter().all(Change::is_nothing), "{agent:?}: again");
        undone(agent, Scope::User, &around);
        assert!(changes.iter().all(|it| it.path.symlink_metadata().is_err()), "{agent:?}");
        assert!(!around.home.exists(), "{agent:?}: a folder is left");
        assert_eq!(uninstall(agent, Scope::User, &around).unwrap(), [], "{agent:?}");
    }
}

#[test]
fn agents_that_share_a_folder_leave_it_with_the_last_one() {
    for pair in [[Agent::Copilot, Agent::VsCode], [Agent::Gemini, Agent::Antigravity]] {
        for scope in [Scope::User, Scope::Project] {
            if !pair.into_iter().all(|agent| row::has(agent, scope).unwrap()) {
                continue;
            }
            for [first, second] in [pair, [pair[1], pair[0]]] {
                let folder = Folder::new();
                let around = around(&folder);
                pair.into_iter().for_each(|agent| drop(installed(agent, scope, &around)));
                undone(first, scope, &around);
                assert!(around.home.exists() || around.project.exists(), "{second:?} is set up");
                undone(second, scope, &around);
                assert!(!around.home.exists() && !around.project.exists(), "{first:?} {second:?}");
            }
        }
    }
}

#[test]
fn what_the_file_held_comes_back_to_the_byte() {
    let folder = Folder::new();
    let around = around(&folder);
    let file = around.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = "{\n\t\"model\": \"x\",\n\t\"hooks\": {\"PreToolUse\": [ {\"matcher\":\"Bash\",\"hooks\":[]} ]}\n}";
    std::fs::write(&file, before).unwrap();
    let changes = installed(Agent::Claude, Scope::User, &around);
    let with = std::fs::read_to_string(&file).unwrap();
    assert!(
        with.contains("\t\"model\": \"x\",\n\t\"hooks\": {\"PreToolUse\": [ {\"matcher\":\"Bash\""),
        "{with}"
    );
    undone(Agent::Claude, Scope::User, &around);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    // Changed by the agent in between: only our entry goes.
    changes.iter().for_each(|change| change.apply(&around).unwrap());
    std::fs::write(&file, with.replace("\"x\"", "\"y\"")).unwrap();
    undone(Agent::Claude, Scope::User, &around);
    let left: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let mut expected: serde_json::Value = serde_json::from_str(before).unwrap();
    expected["model"] = "y".into();
    expected["env"] = serde_json::json!({});
    assert_eq!(left, expected);
}

#[test]
fn a_moved_executable_takes_the_place_of_the_old_one() {
    let folder = Folder::new();
    let mut around = around(&folder);
    for agent in [Agent::Gemini, Agent::Claude, Agent::OpenCode] {
        around.executable = "/opt/a b/stockade".into();
        installed(agent, Scope::Project, &around);
        around.executable = "/usr/bin/stockade".into();
        let changes = installed(agent, Scope::Project, &around);
        let after: String = changes.iter().filter_map(|change| change.after.clone()).collect();
        assert!(after.contains("/usr/bin/stockade") && !after.contains("/opt"), "{after}");
    }
}

#[test]
fn both_layers_are_written_and_another_shell_is_not_replaced() {
    let folder = Folder::new();
    let around = around(&folder);
    for (agent, file, member) in [
        (Agent::Claude, ".claude/settings.json", ["env", "CLAUDE_CODE_SHELL"].as_slice()),
        (Agent::OpenCode, ".config/opencode/opencode.json", ["shell"].as_slice()),
    ] {
        let link = around.home.join(".local/share/stockade").join(agent.name()).join("bash");
        installed(agent, Scope::User, &around);
        let text = std::fs::read_to_string(around.home.join(file)).unwrap();
        let shell = json_text::at_path(&text, member).unwrap();
        assert_eq!(shell.text(), link.to_str());
        assert_eq!(std::fs::read_link(&link).unwrap(), around.executable);
        // In a project the hook and the shell of Claude Code are in two files: who loses one keeps the other.
        if agent == Agent::Claude {
            let changes = install(agent, Scope::Project, &around).unwrap();
            let written = |change: &Change| change.path.file_name().unwrap().to_owned();
            let names: Vec<_> = changes.iter().map(written).collect();
            assert_eq!(names, ["bash", "settings.json", "settings.local.json"]);
        }
        // The link stays as long as one scope needs it.
        installed(agent, Scope::Project, &around);
        undone(agent, Scope::User, &around);
        assert!(link.symlink_metadata().is_ok(), "{agent:?}");
        undone(agent, Scope::Project, &around);
        assert!(link.symlink_metadata().is_err(), "{agent:?}");
    }
    let file = around.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, r#"{"env": {"CLAUDE_CODE_SHELL": "/opt/my/bash"}}"#).unwrap();
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(install(Agent::Claude, Scope::User, &around).is_err());
    assert_eq!(uninstall(Agent::Claude, Scope::User, &around).unwrap(), []);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_file_that_is_not_understood_is_left_alone() {
    for text in ["{ // mine\n}", "[]", "{\"hooks\": 1}", "{\"a\":1,\"a\":2}"] {
        let folder = Folder::new();
        let around = around(&folder);
        let file = around.home.join(".claude/settings.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let failure = install(Agent::Claude, Scope::User, &around).unwrap_err();
        assert!(failure.message.ends_with("nothing was written"), "{}", failure.message);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    let folder = Folder::new();
    let around = around(&folder);
    let hook = around.home.join(".cline/hooks/PreToolUse");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho mine\n").unwrap();
    assert!(install(Agent::Cline, Scope::User, &around).is_err());
    assert_eq!(uninstall(Agent::Cline, Scope::User, &around).unwrap(), []);
}

#[test]
fn a_new_file_of_cursor_names_its_version_and_goes_again() {
    let folder = Folder::new();
    let around = around(&folder);
    installed(Agent::Cursor, Scope::User, &around);
    let file = around.home.join(".cursor/hooks.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let text: serde_json::Value = serde_json::from_str(&text).unwrap();
    let command = format!("'{}' hook cursor --rewrite || exit 2", around.executable.display());
    let entry = serde_json::json!({ "command": command, "failClosed": true });
    assert_eq!(text, serde_json::json!({ "version": 1, "hooks": { "preToolUse": [entry] } }));
    undone(Agent::Cursor, Scope::User, &around);
    assert!(!file.exists());
}

#[test]
fn a_hook_of_the_persons_own_is_never_taken_for_ours() {
    let folder = Folder::new();
    let around = around(&folder);
    let file = around.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // An entry of theirs with a command of their own beside a call of ours, and one that only mentions us.
    let before = r#"{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"mine"},{"type":"command","command":"/x/stockade hook claude"}]},{"hooks":[{"command":"log 'stockade hook claude'"}]}]}}"#;
    std::fs::write(&file, before).unwrap();
    installed(Agent::Claude, Scope::User, &around);
    let with = std::fs::read_to_string(&file).unwrap();
    assert!(
        with.contains(
            r#""command":"mine"},{"type":"command","command":"/x/stockade hook claude"}"#
        ),
        "{with}"
    );
    let failure = uninstall(Agent::Claude, Scope::User, &around).unwrap_err();
    assert!(failure.message.contains("your own entry in"), "{}", failure.message);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), with);
    // A script of theirs that calls us, as we advise.
    for (agent, path) in [
        (Agent::Cline, ".cline/hooks/PreToolUse"),
        (Agent::OpenCode, ".config/opencode/plugin/stockade.js"),
        (Agent::Copilot, ".copilot/hooks/stockade.json"),
    ] {
        let file = around.home.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let held = "#!/bin/sh\nlog-it\nexec /opt/stockade hook cline\n";
        std::fs::write(&file, held).unwrap();
        assert!(install(agent, Scope::User, &around).is_err(), "{agent:?}");
        assert_eq!(uninstall(agent, Scope::User, &around).unwrap(), [], "{agent:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), held);
    }
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let folder = Folder::new();
    let around = around(&folder);
    let file = around.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{}").unwrap();
    let changes = install(Agent::Claude, Scope::User, &around).unwrap();
    let other = install(Agent::Claude, Scope::User, &around).unwrap();
    std::fs::write(&file, "{\"model\":\"new\"}").unwrap();
    let failure = changes.iter().find_map(|change| change.apply(&around).err()).unwrap();
    assert!(failure.message.contains("it changed meanwhile"), "{}", failure.message);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"model\":\"new\"}");
    // Two that want the same do not hold each other up.
    std::fs::write(&file, "{}").unwrap();
    for change in changes.iter().chain(&other) {
        change.apply(&around).unwrap();
    }
    undone(Agent::Claude, Scope::User, &around);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn each_file_of_a_set_up_can_be_the_last_before_a_crash() {
    for agent in [Agent::Claude, Agent::OpenCode] {
        for written in 0..3 {
            let folder = Folder::new();
            let around = around(&folder);
            let changes = install(agent, Scope::User, &around).unwrap();
            changes.iter().take(written).for_each(|change| change.apply(&around).unwrap());
            // Again makes it whole; or undone leaves nothing.
            installed(agent, Scope::User, &around);
            assert!(install(agent, Scope::User, &around).unwrap().iter().all(Change::is_nothing));
            undone(agent, Scope::User, &around);
            changes.iter().take(written).for_each(|change| change.apply(&around).unwrap());
            undone(agent, Scope::User, &around);
            assert!(
                changes.iter().all(|it| it.path.symlink_metadata().is_err()),
                "{agent:?} {written}"
            );
        }
    }
}

#[test]
fn what_is_kept_is_what_the_file_held_before_the_last_set_up() {
    let folder = Folder::new();
    let around = around(&folder);
    let file = around.home.join(".gemini/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{\"a\":1}").unwrap();
    installed(Agent::Gemini, Scope::User, &around);
    let with = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, with.replace("\"a\":1", "\"a\":2")).unwrap();
    undone(Agent::Gemini, Scope::User, &around);
    let left = std::fs::read_to_string(&file).unwrap();
    assert!(left.contains("\"a\":2") && !left.contains("stockade"), "{left}");
    installed(Agent::Gemini, Scope::User, &around);
    let kept = file.with_file_name("settings.json.before-stockade");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), left);
    undone(Agent::Gemini, Scope::User, &around);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), left);
}

#[test]
fn a_folder_that_the_agent_finds_elsewhere_is_the_one_that_counts() {
    let folder = Folder::new();
    let mut around = around(&folder);
    for (moved, agent, file) in [
        ("~/.claude", Agent::Claude, "settings.json"),
        ("~/.codex", Agent::Codex, "hooks.json"),
        ("~/.gemini", Agent::Gemini, "settings.json"),
        ("~/.config", Agent::OpenCode, "opencode/plugin/stockade.js"),
    ] {
        assert!(row::variables().unwrap().iter().any(|(_, known)| known == moved), "{moved}");
        let place = folder.path().join(agent.name());
        around.moved = vec![(moved.to_owned(), place.clone())];
        installed(agent, Scope::User, &around);
        let text = std::fs::read_to_string(place.join(file)).unwrap();
        assert!(text.contains("/opt/a b/stockade"), "{text}");
        undone(agent, Scope::User, &around);
        assert!(!place.join(file).exists());
    }
}

#[test]
fn the_file_of_an_administrator_holds_the_hook_and_no_project_switches_it_off() {
    let folder = Folder::new();
    let around = around(&folder);
    for (agent, file) in [
        (Agent::Claude, "system/etc/claude-code/managed-settings.json"),
        (Agent::Gemini, "system/etc/gemini-cli/settings.json"),
        (Agent::Windsurf, "system/etc/windsurf/hooks.json"),
    ] {
        let changes = installed(agent, Scope::Managed, &around);
        let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
        assert_eq!(paths, [folder.path().join(file)], "{agent:?}");
        let named = |finding: &&inspect::Finding| finding.name == "in force";
        let found = |around: &Surroundings| {
            let found = inspect::inspect(agent, around).unwrap().findings;
            found.iter().find(named).map(|it| it.state).unwrap()
        };
        assert_eq!(found(&around), inspect::State::Good, "{agent:?}");
        folder.write("project/.claude/settings.json", r#"{"disableAllHooks": true}"#);
        if agent == Agent::Claude {
            assert_eq!(found(&around), inspect::State::Note);
            let held = std::fs::read_to_string(folder.path().join(file)).unwrap();
            folder.write(file, held.replacen('{', "{\"allowManagedHooksOnly\": true,", 1));
            assert_eq!(found(&around), inspect::State::Note);
            folder.write(file, held.replacen('{', "{\"disableAllHooks\": true,", 1));
            assert_eq!(found(&around), inspect::State::Bad);
            folder.write(file, &held);
        }
        std::fs::remove_dir_all(folder.path().join("project")).unwrap();
        undone(agent, Scope::Managed, &around);
        assert!(!folder.path().join("system").exists(), "{agent:?}");
    }
    assert!(install(Agent::Cline, Scope::Managed, &around).is_err());
}
