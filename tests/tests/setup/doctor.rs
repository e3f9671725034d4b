//! `stockade doctor --agent`: whether the gate is in force, and what puts it out of force.

use std::os::unix::fs::PermissionsExt as _;

use stockade_tests::{Place, copy_program, executable, stockade};

use super::doctor;

#[test]
fn doctor_says_whether_the_gate_is_in_force() {
    for agent in ["claude", "gemini", "copilot", "opencode", "cline", "cursor"] {
        let place = Place::new("doctor");
        let (status, _, told) = doctor(&place, agent);
        assert_eq!(status, Some(122), "{agent}: {told}");
        assert!(told.contains("no settings of this agent contain it"), "{agent}: {told}");
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
        let (status, findings, told) = doctor(&place, agent);
        assert_eq!(status, Some(0), "{agent}: {told}");
        assert!(findings.iter().all(|(_, state)| state != "bad"), "{agent}: {told}");
        let tried =
            findings.iter().filter(|(name, state)| name == "hook answers" && state == "good");
        assert_eq!(tried.count(), 3, "{agent}: {told}");
    }
}

#[test]
fn doctor_finds_what_puts_the_gate_out_of_force() {
    let place = Place::new("doctor-bad");
    assert_eq!(place.output(["setup", "claude"]).status.code(), Some(0));
    let file = "home/.claude/settings.json";
    let written = std::fs::read_to_string(place.root.join(file)).expect("it");
    let gate = stockade().canonicalize().expect("it").display().to_string();
    for (change, said) in [
        (written.replacen('{', "{\"disableAllHooks\":true,", 1), "`disableAllHooks` in"),
        (written.replace(&gate, "/nowhere/stockade"), "`/nowhere/stockade` does not exist"),
        (written.replace(&gate, "stockade"), "is not an absolute path"),
        (written.replace("/claude/bash", "/claude/dash"), "/claude/dash`, not our shell"),
    ] {
        assert_ne!(change, written, "{said}");
        place.write(file, &change);
        let (status, _, told) = doctor(&place, "claude");
        assert_eq!(status, Some(122), "{said}: {told}");
        assert!(told.contains(said), "{said}: {told}");
    }
    place.write(file, &written);
    let other = place.root.join("stockade");
    std::fs::write(&other, "#!/bin/sh\nexit 0\n").expect("a file");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    place.write(file, &written.replace(&gate, &other.display().to_string()));
    let (status, _, told) = doctor(&place, "claude");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("is another executable than this one"), "{told}");
    assert!(told.contains("a truncated frame is allowed"), "{told}");
    // The link of the second layer leads elsewhere.
    place.write(file, &written);
    let link = place.home().join(".local/share/stockade/claude/bash");
    std::fs::remove_file(&link).expect("the link");
    std::os::unix::fs::symlink("/bin/bash", &link).expect("a link");
    let (status, _, told) = doctor(&place, "claude");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("is not this executable"), "{told}");
}

#[test]
fn doctor_wants_the_trust_that_codex_wants() {
    let place = Place::new("doctor-codex");
    assert_eq!(place.output(["setup", "codex"]).status.code(), Some(0));
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("no trusted hash for this hook"), "{told}");
    let hooks = place.home().canonicalize().expect("it").join(".codex/hooks.json");
    let section = |hash: &str| {
        let hooks = hooks.display();
        format!(
            "model = \"x\"\n[hooks.state.\"{hooks}:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:{hash}\"\n"
        )
    };
    place.write("home/.codex/config.toml", &section("00"));
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("differs from the hook's"), "{told}");
    let gate = stockade_tests::word(&stockade().canonicalize().expect("it"));
    let identity = format!(
        "{{\"event_name\":\"pre_tool_use\",\"hooks\":[{{\"async\":false,\"command\":\"{gate} hook codex --rewrite || exit 2\",\
         \"timeout\":600,\"type\":\"command\"}}],\"matcher\":\"*\"}}"
    );
    let hash = sha256(&identity);
    place.write("home/.codex/config.toml", &section(&hash));
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(0), "{told}");
    place.write("home/.codex/config.toml", &format!("{}enabled = false\n", section(&hash)));
    let (status, _, told) = doctor(&place, "codex");
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("the hook is disabled"), "{told}");
}

/// The digest of a text, by the program of coreutils.
fn sha256(text: &str) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum of coreutils");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a digest").to_owned()
}

#[test]
fn doctor_finds_what_is_wrong_with_the_program() {
    let place = Place::new("doctor-program");
    assert_eq!(place.output(["setup", "gemini"]).status.code(), Some(0));
    let file = "home/.gemini/settings.json";
    let written = std::fs::read_to_string(place.root.join(file)).expect("it");
    let gate = stockade().canonicalize().expect("it").display().to_string();
    // A copy is the same executable, wherever it lies.
    let copy = place.root.join("bin/stockade");
    std::fs::create_dir(place.root.join("bin")).expect("a folder");
    stockade_tests::copy_program(stockade(), &copy);
    place.write(file, &written.replace(&gate, &copy.display().to_string()));
    let (status, _, told) = doctor(&place, "gemini");
    assert_eq!(status, Some(0), "{told}");
    let mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    };
    let folder = place.root.join("bin");
    for (file_mode, folder_mode, said) in [
        (0o644, 0o755, "cannot be executed by this user"),
        (0o775, 0o755, "can be changed by other users"),
        (0o757, 0o755, "can be changed by other users"),
        (0o755, 0o777, "other users can put another program into"),
    ] {
        mode(&copy, file_mode);
        mode(&folder, folder_mode);
        let (status, _, told) = doctor(&place, "gemini");
        assert_eq!(status, Some(122), "{said}: {told}");
        assert!(told.contains(said), "{said}: {told}");
    }
    mode(&copy, 0o755);
    mode(&folder, 0o755);
    for off in ["home/.gemini/settings.json", "project/.gemini/settings.json"] {
        let held = std::fs::read_to_string(place.root.join(off)).unwrap_or_else(|_| "{}".into());
        let empty = if held.trim() == "{}" { "" } else { "," };
        place.write(
            off,
            &held.replacen('{', &format!("{{\"hooksConfig\":{{\"enabled\":false}}{empty}"), 1),
        );
        let (status, _, told) = doctor(&place, "gemini");
        assert_eq!(status, Some(122), "{off}: {told}");
        assert!(told.contains("`hooksConfig.enabled` in"), "{off}: {told}");
        place.write(off, &held);
    }
}

/// Puts a JSON member or text into a file of the place and says what doctor finds then.
fn with(
    place: &Place,
    agent: &str,
    file: &str,
    change: impl Fn(&str) -> String,
) -> (Option<i32>, String) {
    let path = place.root.join(file);
    let held = std::fs::read_to_string(&path).ok();
    place.write(file, &change(held.as_deref().unwrap_or("{}")));
    let (status, _, told) = doctor(place, agent);
    match held {
        Some(held) => place.write(file, &held),
        None => std::fs::remove_file(&path).expect("it goes"),
    }
    (status, told)
}

#[test]
fn doctor_merges_the_layers_of_the_agent_and_finds_a_hook_that_is_not_called() {
    let place = Place::new("doctor-merged");
    for agent in ["claude", "gemini", "codex"] {
        assert_eq!(place.output(["setup", agent]).status.code(), Some(0), "{agent}");
    }
    let (status, _, told) = doctor(&place, "claude");
    assert_eq!(status, Some(0), "{told}");
    let line = format!("in {} the hook of ", place.project().canonicalize().expect("it").display());
    assert!(told.contains(&line) && told.contains("/.claude/settings.json is in force"), "{told}");
    // Called for one tool only.
    let (status, told) = with(&place, "claude", "home/.claude/settings.json", |held| {
        held.replace(r#""matcher": "*""#, r#""matcher": "Write""#)
            .replace(r#""matcher":"*""#, r#""matcher":"Write""#)
    });
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("is called for `Write` alone"), "{told}");
    // A stronger layer names another shell.
    for file in ["project/.claude/settings.local.json", "project/.claude/settings.json"] {
        let (status, told) = with(&place, "claude", file, |_| {
            r#"{"env": {"CLAUDE_CODE_SHELL": "/bin/bash"}}"#.to_owned()
        });
        assert_eq!(status, Some(122), "{told}");
        assert!(told.contains("`env.CLAUDE_CODE_SHELL` in"), "{told}");
        assert!(told.contains("is `/bin/bash`, not our shell"), "{told}");
    }
    // A list of hooks that do not run, in the project.
    let held = std::fs::read_to_string(place.root.join("home/.gemini/settings.json")).expect("it");
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    let line = &held["hooks"]["BeforeTool"][0]["hooks"][0]["command"];
    let (status, told) = with(&place, "gemini", "project/.gemini/settings.json", |_| {
        serde_json::json!({"hooksConfig": {"disabled": [line]}}).to_string()
    });
    assert_eq!(status, Some(122), "{told}");
    assert!(told.contains("`hooksConfig.disabled` in"), "{told}");
    assert_eq!(doctor(&place, "gemini").0, Some(0));
    // A switch in TOML, in each form.
    for text in [
        "[features]\nhooks = false\n",
        "features.hooks = false # x\n",
        "features = { hooks = false, x = 1 }\n",
    ] {
        let (status, told) = with(&place, "codex", "home/.codex/config.toml", |_| text.to_owned());
        assert_eq!(status, Some(122), "{told}");
        assert!(told.contains("`features.hooks` in"), "{text}: {told}");
    }
    let (_, told) = with(&place, "codex", "home/.codex/config.toml", |_| {
        "[features]\nhooks = true\n".to_owned()
    });
    assert!(!told.contains("features"), "{told}");
}

/// Says what `doctor` tells of stockade's own agent beside a copy of the executable.
fn own_agent(place: &Place, program: Option<&str>, mode: u32) -> (Option<bool>, String) {
    let (own, agent) = (place.root.join("bin/stockade"), place.root.join("bin/stockade-agent"));
    if !own.exists() {
        std::fs::create_dir_all(place.root.join("bin")).expect("a directory");
        copy_program(stockade(), &own);
    }
    match program {
        Some(program) => {
            std::fs::write(&agent, program).expect("a file");
            std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(mode)).expect("chmod");
        }
        None => drop(std::fs::remove_file(&agent)),
    }
    let usual = place.stockade(["doctor"]);
    let tell = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&own);
        command.args(arguments).current_dir(place.project()).env_clear();
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        String::from_utf8(command.output().expect("it starts").stdout).expect("UTF-8")
    };
    let told: serde_json::Value =
        serde_json::from_str(&tell(&["doctor", "--json"])).expect("an object");
    let text = tell(&["doctor"]);
    let lines = text.split_once("stockade agent\n").expect("its lines").1.to_owned();
    (told["agent"]["ready"].as_bool(), lines)
}

#[test]
fn doctor_says_whether_the_agent_would_start_and_one_fix_if_not() {
    let place = Place::new("doctor-own-agent");
    let real = executable("stockade-agent");
    let at = place.root.join("bin/stockade-agent").display().to_string();
    let pass = format!("#!/bin/sh\nexec '{}' \"$@\"\n", real.display());
    let other = "#!/bin/sh\necho stockade-agent 0.0.0\n";
    for (program, mode, cause) in [
        (None, 0o755, format!("`{at}` does not exist")),
        (Some(other), 0o755, format!("`{at}` says that it is `stockade-agent 0.0.0`")),
        (Some(other), 0o644, format!("`{at}` does not start: ")),
        // The program starts, but the executable behind it lies where its sandbox shows nothing.
        (Some(&pass), 0o755, "in its sandbox".to_owned()),
    ] {
        let (ready, lines) = own_agent(&place, program, mode);
        assert_eq!(ready, Some(false), "{lines}");
        assert!(lines.contains(&cause), "{cause}: {lines}");
        assert_eq!((lines.lines().count(), lines.matches("fix: ").count()), (2, 1), "{lines}");
    }
    place.write("home/.config/stockade/settings.json", r#"{"agent": {"confine": false}}"#);
    let (ready, lines) = own_agent(&place, Some(&pass), 0o755);
    assert_eq!(ready, Some(true), "{lines}");
    assert!(lines.contains("without a sandbox by agent.confine false ("), "{lines}");
    place.write("home/.config/stockade/settings.json", "{}");
    std::fs::remove_file(place.root.join("bin/stockade-agent")).expect("it is there");
    copy_program(&real, &place.root.join("bin/stockade-agent"));
    let usual = place.stockade(["doctor"]);
    let mut command = std::process::Command::new(place.root.join("bin/stockade"));
    command.arg("doctor").current_dir(place.project()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let text = String::from_utf8(command.output().expect("it starts").stdout).expect("UTF-8");
    assert!(text.ends_with(&format!("stockade agent\n  ready      {at}\n")), "{text}");
}
