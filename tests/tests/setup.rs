//! `stockade setup` and `doctor --agent`: an agent's files before, with, and after the gate.

#[path = "setup/doctor.rs"]
mod doctors;

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::Value;
use stockade_tests::{Place, give, is_root, skip, stockade};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The files below the home directory and the project, with what they hold or where they lead.
fn files(place: &Place) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![place.home(), place.project()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match std::fs::read_link(&path) {
                Ok(target) => {
                    found.push((path.display().to_string(), target.display().to_string()))
                }
                Err(_) if path.is_dir() => waiting.push(path),
                Err(_) => {
                    let held = text(&std::fs::read(&path).expect("a file"));
                    found.push((path.display().to_string(), held));
                }
            }
        }
    }
    found.sort();
    found
}

/// The folders below the home directory and the project.
fn folders(place: &Place) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![place.home(), place.project()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            if entry.file_type().expect("a type").is_dir() {
                waiting.push(entry.path());
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn undo_takes_the_empty_folders_away_that_set_up_made_and_no_other() {
    let agents = ["claude", "codex", "gemini", "copilot", "opencode", "cline", "cursor"];
    for words in [&["--undo", "--all"][..], &["--undo"]] {
        let place = Place::new("setup-folders");
        // Empty, and of the person.
        for folder in ["home/.cursor", "home/.config/opencode", "project/.gemini"] {
            std::fs::create_dir_all(place.root.join(folder)).expect("a folder");
        }
        let before = (files(&place), folders(&place));
        for agent in agents {
            assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        }
        for agent in ["claude", "gemini"] {
            let words = ["setup", agent, "--scope", "project"];
            assert_eq!(place.output(words).status.code(), Some(0), "{agent}");
        }
        let made = |name: &str| folders(&place).contains(&place.root.join(name));
        for name in ["home/.claude", "home/.codex", "home/.cline/hooks", "project/.claude"] {
            assert!(made(name), "{name}: {:?}", folders(&place));
        }
        // A folder that set-up made stays if it holds something, and one that was made anew is somebody else's.
        place.write("home/.codex/config.toml", "model = 'x'\n");
        place.write("home/.cline/own", "");
        std::fs::remove_dir_all(place.root.join("home/.copilot")).expect("it goes");
        std::fs::create_dir(place.root.join("home/.between")).expect("a folder");
        std::fs::create_dir(place.root.join("home/.copilot")).expect("a folder");
        if words.len() == 2 {
            assert_eq!(place.output([&["setup"], words].concat()).status.code(), Some(0));
        } else {
            for agent in agents {
                let undone = place.output([&["setup", agent], words].concat());
                assert_eq!(undone.status.code(), Some(0), "{agent}: {}", text(&undone.stderr));
            }
            for agent in ["claude", "gemini"] {
                let words = ["setup", agent, "--scope", "project", "--undo"];
                assert_eq!(place.output(words).status.code(), Some(0), "{agent}");
            }
        }
        for theirs in ["home/.codex/config.toml", "home/.cline/own"] {
            std::fs::remove_file(place.root.join(theirs)).expect("it stays");
        }
        for name in ["home/.codex", "home/.cline", "home/.copilot", "home/.between"] {
            std::fs::remove_dir(place.root.join(name))
                .expect("it stays, and nothing else is in it");
        }
        assert_eq!((files(&place), folders(&place)), before);
    }
}

#[test]
fn undo_all_takes_every_agent_out_and_leaves_every_byte() {
    let place = Place::new("setup");
    place.write(
        "home/.claude/settings.json",
        "{\n  \"model\": \"x\" ,\n\n  \"env\": { \"A\":\"1\" }\n}\n",
    );
    place.write("home/.gemini/settings.json", "{}");
    place.write("home/.config/opencode/opencode.json", "{\"theme\":\"dark\"}");
    let before = files(&place);
    for agent in ["claude", "codex", "gemini", "copilot", "opencode", "cline", "cursor"] {
        let shown = place.output(["setup", agent, "--dry-run"]);
        assert_eq!(shown.status.code(), Some(0), "{agent}: {}", text(&shown.stderr));
        let told = text(&shown.stdout);
        assert!(told.contains("would change"), "{agent}: {told}");
        // The lines that come, and those of the agent that go for them.
        let gate = stockade().canonicalize().expect("it").display().to_string();
        let comes = |line: &str| line.trim_start().starts_with('+') && line.contains(&gate);
        assert!(told.lines().any(comes), "{agent}: {told}");
        let goes = told.lines().any(|line| line.trim_start().starts_with('-'));
        assert_eq!(goes, ["claude", "gemini", "opencode"].contains(&agent), "{agent}: {told}");
        assert_eq!(files(&place), before, "{agent}: a dry run writes nothing");
    }
    for agent in ["claude", "codex", "gemini", "copilot", "opencode", "cline", "cursor"] {
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        let once = files(&place);
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        assert_eq!(files(&place), once, "{agent}: once more changes nothing");
    }
    assert_eq!(place.output(["setup", "claude", "--scope", "project"]).status.code(), Some(0));
    let output = place.output(["setup", "--undo", "--all"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(files(&place), before);
}

/// Files of agents that are JSON, with the list that hooks stand in.
const JSON: [(&str, &str, &str); 5] = [
    ("claude", "home/.claude/settings.json", "PreToolUse"),
    ("codex", "home/.codex/hooks.json", "PreToolUse"),
    ("gemini", "home/.gemini/settings.json", "BeforeTool"),
    ("cursor", "home/.cursor/hooks.json", "preToolUse"),
    ("opencode", "home/.config/opencode/opencode.json", ""),
];

#[test]
fn settings_that_are_no_json_are_refused_and_stay() {
    for (agent, file, list) in JSON {
        for held in [
            "{ \"hooks\": ",
            "{ // mine\n}",
            "[]",
            "null",
            "{\"a\":1,\"a\":2}",
            "\u{feff}{}",
            "\u{0}",
            &format!("{{\"hooks\":{{\"{list}\":{{}}}},\"shell\":{{}}}}"),
        ] {
            let place = Place::new("no-json");
            place.write(file, held);
            let before = files(&place);
            for words in
                [&["setup", agent][..], &["setup", agent, "--undo"], &["setup", "--undo", "--all"]]
            {
                let output = place.output(words);
                let told = text(&output.stderr);
                assert_eq!(files(&place), before, "{words:?}: {held}");
                if words.len() == 2 {
                    assert_eq!(output.status.code(), Some(122), "{agent}: {held}: {told}");
                    assert!(told.contains("nothing was written"), "{agent}: {held}: {told}");
                }
            }
        }
    }
    // Files that would be ours, and are somebody else's.
    for (agent, file) in [
        ("copilot", "home/.copilot/hooks/stockade.json"),
        ("cline", "home/.cline/hooks/PreToolUse"),
        ("opencode", "home/.config/opencode/plugin/stockade.js"),
    ] {
        let place = Place::new("not-ours");
        place.write(file, "{ \"hooks\": ");
        let before = files(&place);
        for words in [&["setup", agent][..], &["setup", "--undo", "--all"]] {
            let output = place.output(words);
            assert_eq!(files(&place), before, "{words:?}");
            let expected = if words.len() == 2 { Some(122) } else { Some(0) };
            assert_eq!(output.status.code(), expected, "{words:?}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn undo_all_says_which_file_it_could_not_change_and_changes_the_others() {
    let place = Place::new("undo-broken");
    for words in [&["claude"][..], &["claude", "--scope", "project"], &["gemini"]] {
        assert_eq!(place.output([&["setup"], words].concat()).status.code(), Some(0));
    }
    let user = place.home().join(".claude/settings.json");
    let project = place.project().join(".claude/settings.json");
    for (broken, other) in [(&user, &project), (&project, &user)] {
        let written = std::fs::read_to_string(broken).expect("what set-up wrote");
        std::fs::write(broken, format!("{written}}}")).expect("one brace too many");
        let output = place.output(["setup", "--undo", "--all"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(122), "{told}");
        assert!(
            told.contains(&format!("cannot change the JSON of `{}`", broken.display())),
            "{told}"
        );
        let held = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!((held(broken), held(other)), (format!("{written}}}"), String::new()), "{told}");
        assert!(!held(&place.home().join(".gemini/settings.json")).contains("hook gemini"));
        std::fs::write(broken, written).expect("mended");
        assert_eq!(place.output(["setup", "--undo", "--all"]).status.code(), Some(0));
        assert!(!broken.exists());
        for words in [&["claude"][..], &["claude", "--scope", "project"]] {
            assert_eq!(place.output([&["setup"], words].concat()).status.code(), Some(0));
        }
    }
    assert_eq!(place.output(["setup", "--undo", "--all"]).status.code(), Some(0));
    assert!(!place.home().join(".local/share/stockade").exists(), "our own folder");
    // An empty file is none of ours, and is as it was.
    place.write("home/.claude/settings.json", "");
    assert_eq!(place.output(["setup", "--undo", "--all"]).status.code(), Some(0));
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    assert_eq!(place.output(["setup", "claude", "--undo"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(user).expect("it"), "");
}

/// The lines of `doctor --agent` as name and state, and the exit status.
fn doctor(place: &Place, agent: &str) -> (Option<i32>, Vec<(String, String)>, String) {
    let output = place.output(["doctor", "--agent", agent, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer["findings"].as_array().expect("findings").iter();
    let word = |finding: &Value, key: &str| finding[key].as_str().expect("a word").to_owned();
    let pairs = findings.map(|finding| (word(finding, "name"), word(finding, "state"))).collect();
    (output.status.code(), pairs, answer.to_string())
}

#[test]
fn all_installed_agents_are_set_up_and_undo_leaves_nothing() {
    let place = Place::new("setup-all");
    let before = (files(&place), folders(&place));
    let alone = |words: &[&str]| {
        let mut setup = place.stockade(words);
        setup.env("PATH", place.root.join("programs")).output().expect("it starts")
    };
    let nothing = alone(&["setup", "--all"]);
    assert_eq!(nothing.status.code(), Some(0), "{}", text(&nothing.stderr));
    assert_eq!(
        text(&nothing.stderr),
        "stockade: no known agent was found; use `stockade setup AGENT`\n"
    );
    let agents = [
        ("claude", "home/.claude", "home/.claude/settings.json"),
        ("droid", "home/.factory", "home/.factory/settings.json"),
        ("qwen", "home/.qwen", "home/.qwen/settings.json"),
        ("windsurf", "home/.codeium/windsurf", "home/.codeium/windsurf/hooks.json"),
        ("vscode", "home/.config/Code", "home/.copilot/hooks/stockade-vscode.json"),
        ("antigravity", "home/.gemini/antigravity-cli", "home/.gemini/config/hooks.json"),
    ];
    for (_, folder, _) in agents {
        std::fs::create_dir_all(place.root.join(folder)).expect("a folder");
    }
    let made = (files(&place), folders(&place));
    assert_eq!(alone(&["setup", "--all"]).status.code(), Some(0));
    for (agent, _, file) in agents {
        let held = std::fs::read_to_string(place.root.join(file)).expect(agent);
        assert!(held.contains(&format!("hook {agent}")), "{agent}: {held}");
        let (status, _, told) = doctor(&place, agent);
        // The executable of a test is not a program of one agent: only this one has a second layer to lose.
        assert_eq!(status, Some(0), "{agent}: {told}");
    }
    assert!(!place.root.join("home/.codex").exists(), "it is not installed");
    let held = std::fs::read_to_string(place.root.join("home/.codeium/windsurf/hooks.json"));
    assert_eq!(held.expect("it").matches("hook windsurf || exit 2").count(), 4);
    // An agent that reads its hooks elsewhere alone is not said to be behind the gate.
    place.write("home/.factory/hooks.json", "{}");
    let (status, _, told) = doctor(&place, "droid");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("reads its hooks from"), "{told}");
    std::fs::remove_file(place.root.join("home/.factory/hooks.json")).expect("it");
    assert_eq!(alone(&["setup", "--all", "--undo"]).status.code(), Some(0));
    assert_eq!((files(&place), folders(&place)), made);
    for (_, folder, _) in agents {
        let _ = std::fs::remove_dir_all(place.root.join(folder)); // one may hold another
    }
    std::fs::remove_dir_all(place.root.join("home/.codeium")).expect("it");
    std::fs::remove_dir_all(place.root.join("home/.gemini")).expect("it");
    std::fs::remove_dir_all(place.root.join("home/.config")).expect("it");
    assert_eq!((files(&place), folders(&place)), before);
}

#[test]
fn a_hook_whose_executable_is_gone_or_killed_refuses() {
    let place = Place::new("lost");
    let gate = place.root.join("a gate/stockade");
    std::fs::create_dir(place.root.join("a gate")).expect("a folder");
    for (agent, file, keys) in [
        ("claude", "home/.claude/settings.json", "/hooks/PreToolUse/0/hooks/0/command"),
        ("codex", "home/.codex/hooks.json", "/hooks/PreToolUse/0/hooks/0/command"),
        ("gemini", "home/.gemini/settings.json", "/hooks/BeforeTool/0/hooks/0/command"),
        ("copilot", "home/.copilot/hooks/stockade.json", "/hooks/preToolUse/0/bash"),
        ("cursor", "home/.cursor/hooks.json", "/hooks/preToolUse/0/command"),
        ("cline", "home/.cline/hooks/PreToolUse", ""),
    ] {
        stockade_tests::copy_program(stockade(), &gate);
        let mut setup = std::process::Command::new(&gate);
        let plain = place.stockade(["setup", agent]);
        setup.args(plain.get_args()).current_dir(place.project()).env_clear();
        setup.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        assert!(setup.output().expect("it starts").status.success(), "{agent}");
        let held = std::fs::read_to_string(place.root.join(file)).expect("it");
        let line = match keys {
            "" => held,
            _ => {
                let value: serde_json::Value = serde_json::from_str(&held).expect("JSON");
                value.pointer(keys).and_then(|it| it.as_str()).expect("a line").to_owned()
            }
        };
        std::fs::remove_file(&gate).expect("it goes");
        let refused = |what: &str| {
            let shell = std::process::Command::new("sh").args(["-c", &line]).output();
            let output = shell.expect("a shell");
            let (status, out, told) =
                (output.status.code(), text(&output.stdout), text(&output.stderr));
            let cancel =
                "{\"cancel\":true,\"errorMessage\":\"stockade is missing or was stopped\"}\n";
            match agent {
                "cline" => assert_eq!((status, out.as_str()), (Some(0), cancel), "{what}"),
                _ => assert_eq!((status, out.as_str()), (Some(2), ""), "{agent}: {what}: {told}"),
            }
            // Codex wants a reason.
            assert!(!told.trim().is_empty(), "{agent}: {what}");
        };
        refused("gone");
        std::fs::write(&gate, "#!/bin/sh\nkill -9 $$\n").expect("a file");
        std::fs::set_permissions(&gate, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        refused("killed");
        std::fs::remove_file(&gate).expect("it goes");
    }
}

#[test]
fn the_executable_may_have_another_name() {
    for agent in ["claude", "codex", "gemini", "cursor"] {
        let place = Place::new("setup-name");
        let gate = place.root.join("gate 2");
        stockade_tests::copy_program(stockade(), &gate);
        let run = |words: &[&str]| {
            let own = place.stockade(words);
            let mut command = std::process::Command::new(&gate);
            command.args(words).current_dir(place.project()).env_clear();
            command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
            command.output().expect("the executable starts")
        };
        let before = files(&place);
        assert_eq!(run(&["setup", agent]).status.code(), Some(0), "{agent}");
        let with = files(&place);
        assert_eq!(run(&["setup", agent]).status.code(), Some(0), "{agent}");
        assert_eq!(files(&place), with, "{agent}: once more");
        let told = text(&run(&["doctor", "--agent", agent, "--json"]).stdout);
        assert!(told.contains("is in ") && told.contains("is this executable"), "{agent}: {told}");
        assert!(!told.contains("no settings of this agent contain it"), "{agent}: {told}");
        // The same program under its usual name knows it as well.
        let undone = place.output(["setup", agent, "--undo"]);
        assert_eq!(undone.status.code(), Some(0), "{agent}: {}", text(&undone.stderr));
        assert_eq!(files(&place), before, "{agent}: undone");
    }
}

#[test]
fn settings_that_cannot_be_changed_safely_stay_as_they_are() {
    let place = Place::new("odd-settings");
    let file = place.home().join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let refused = |what: &str, said: &str| {
        for words in [&["setup", "claude"][..], &["setup", "claude", "--undo"]] {
            let output = place.output(words);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(122), "{what} {words:?}: {told}");
            assert!(told.contains(said) && told.contains("nothing was written"), "{what}: {told}");
            assert!(!file.with_file_name("settings.json.before-stockade").exists(), "{what}");
        }
    };
    std::fs::create_dir(&file).expect("a folder");
    refused("a folder", "it is not a regular file");
    std::fs::remove_dir(&file).expect("it");
    symlink("nowhere", &file).expect("a link");
    refused("a link to nothing", "it is a broken symbolic link");
    assert_eq!(std::fs::read_link(&file).expect("still a link"), std::path::Path::new("nowhere"));
    std::fs::remove_file(&file).expect("it");
    let made =
        std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo of coreutils");
    assert!(made.success());
    refused("a FIFO", "it is not a regular file");
    std::fs::remove_file(&file).expect("it");
    std::fs::write(&file, format!("{{\"a\":\"{}\"}}", "x".repeat(5 << 20))).expect("a file");
    refused("a huge file", "it is too large");
    std::fs::write(&file, b"{\"a\":\"\xff\"}").expect("a file");
    refused("no UTF-8", "UTF-8");
    assert_eq!(std::fs::read(&file).expect("it"), b"{\"a\":\"\xff\"}");
}

#[test]
fn a_file_that_its_owner_closed_is_not_opened() {
    let place = Place::new("read-only");
    let file = place.home().join(".claude/settings.json");
    place.write("home/.claude/settings.json", "{}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).expect("chmod");
    let output = place.output(["setup", "claude"]);
    assert_eq!(output.status.code(), Some(122));
    assert!(text(&output.stderr).contains("it cannot be written"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).expect("it"), "{}");
}

#[test]
fn what_is_written_keeps_line_ends_indent_mode_owner_and_link() {
    let place = Place::new("kept-form");
    let held = "{\r\n\t\"model\" : \"x\",\r\n\t\"hooks\": {\r\n\t\t\"Stop\": []\r\n\t}\r\n}\r\n";
    place.write("dotfiles/claude.json", held);
    let real = place.root.join("dotfiles/claude.json");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("chmod");
    std::fs::create_dir_all(place.home().join(".claude")).expect("a folder");
    let file = place.home().join(".claude/settings.json");
    symlink("../../dotfiles/claude.json", &file).expect("a link");
    if is_root() {
        give(&real, 12345);
    } else {
        skip("the owner of a file that root changes", "only root can give a file away");
    }
    let seen = || {
        use std::os::unix::fs::MetadataExt as _;
        let found = real.metadata().expect("it");
        (found.mode() & 0o7777, found.uid(), found.gid())
    };
    let before = seen();
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    let with = std::fs::read_to_string(&real).expect("it");
    assert!(with.contains("\r\n\t\"model\" : \"x\",\r\n"), "{with:?}");
    assert!(with.contains("hook claude"), "{with:?}");
    assert_eq!((seen(), file.is_symlink()), (before, true));
    let kept = place.root.join("dotfiles/claude.json.before-stockade");
    assert_eq!(std::fs::read_to_string(&kept).expect("what it held"), held);
    assert_eq!(place.output(["setup", "claude", "--undo"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&real).expect("it"), held);
    assert_eq!((seen(), file.is_symlink(), kept.exists()), (before, true, false));
}

#[test]
fn set_ups_at_the_same_time_leave_one_hook() {
    let place = Place::new("together");
    place.write("home/.claude/settings.json", "{\"model\": \"x\"}");
    let start = |_| {
        let mut command = place.stockade(["setup", "claude"]);
        command.stderr(std::process::Stdio::null()).spawn().expect("it starts")
    };
    let mut running: Vec<_> = (0..4).map(start).collect();
    for child in &mut running {
        child.wait().expect("it ends");
    }
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    let held = std::fs::read_to_string(place.home().join(".claude/settings.json")).expect("it");
    assert_eq!(held.matches("hook claude --rewrite").count(), 1, "{held}");
    assert_eq!(place.output(["setup", "claude", "--undo"]).status.code(), Some(0));
    let held = std::fs::read_to_string(place.home().join(".claude/settings.json")).expect("it");
    assert_eq!(held, "{\"model\": \"x\"}");
    let left: Vec<_> =
        std::fs::read_dir(place.home().join(".claude")).expect("it").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
