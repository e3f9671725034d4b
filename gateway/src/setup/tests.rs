//! Each agent is put behind the gate and taken out again, and all else in its files stays.

use super::*;
use crate::testing::Folder;

fn around(folder: &Folder) -> Surroundings {
    Surroundings {
        home: folder.path().join("home"),
        project: folder.path().join("project"),
        executable: "/opt/a b/stockade".into(),
    }
}

#[test]
fn every_agent_goes_in_and_out_and_leaves_nothing() {
    for agent in Agent::ALL {
        let folder = Folder::new();
        let around = around(&folder);
        let change = install(agent, Scope::User, &around).unwrap();
        assert_eq!(change.before, None, "{agent:?}");
        change.apply().unwrap();
        let written = std::fs::read_to_string(&change.path).unwrap();
        assert!(written.contains("/opt/a b/stockade"), "{agent:?}: {written}");
        if change.path.extension().is_some_and(|it| it == "json") {
            let value: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert!(value.to_string().contains(&format!("hook {}", agent.name())), "{written}");
        }
        assert!(install(agent, Scope::User, &around).unwrap().is_nothing(), "{agent:?}: again");
        let undone = uninstall(agent, Scope::User, &around).unwrap().unwrap();
        undone.apply().unwrap();
        assert!(!change.path.exists(), "{agent:?}");
        assert_eq!(uninstall(agent, Scope::User, &around).unwrap(), None, "{agent:?}");
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
    let change = install(Agent::Claude, Scope::User, &around).unwrap();
    change.apply().unwrap();
    let with = std::fs::read_to_string(&file).unwrap();
    assert!(
        with.starts_with(
            "{\n\t\"model\": \"x\",\n\t\"hooks\": {\"PreToolUse\": [ {\"matcher\":\"Bash\""
        ),
        "{with}"
    );
    uninstall(Agent::Claude, Scope::User, &around).unwrap().unwrap().apply().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    // Changed by the agent in between: only our entry goes.
    change.apply().unwrap();
    std::fs::write(&file, with.replace("\"x\"", "\"y\"")).unwrap();
    uninstall(Agent::Claude, Scope::User, &around).unwrap().unwrap().apply().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before.replace("\"x\"", "\"y\""));
}

#[test]
fn a_moved_executable_takes_the_place_of_the_old_one() {
    let folder = Folder::new();
    let mut around = around(&folder);
    install(Agent::Gemini, Scope::Project, &around).unwrap().apply().unwrap();
    around.executable = "/usr/bin/stockade".into();
    let change = install(Agent::Gemini, Scope::Project, &around).unwrap();
    let after = change.after.clone().unwrap();
    assert_eq!((after.matches("stockade").count(), after.contains("/opt")), (1, false), "{after}");
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
    assert_eq!(uninstall(Agent::Cline, Scope::User, &around).unwrap(), None);
}
