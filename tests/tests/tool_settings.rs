//! Settings of tools that a person runs: what runs code, or says where it is taken from, a command cannot make.
#![cfg(target_os = "linux")]

use std::process::Command;

use stockade_tests::Place;

/// Ways to a name over one or more commands; `N` is the name.
const WAYS: [&[&str]; 4] = [
    &["mkdir -p $(dirname N); echo x > N"],
    &["echo x > plain", "mkdir -p $(dirname N); cp plain own; mv own N"],
    &["echo x > plain", "mkdir -p $(dirname N); ln plain N"],
    &["echo x > plain", "mkdir -p $(dirname N); ln -s $PWD/plain N"],
];

const NAMES: [&str; 24] = [
    ".hg/requires",
    ".hg/sharedpath",
    ".jj/repo/config.toml",
    ".jj/repo/config-id",
    ".jj/workspace-config.toml",
    "lefthook.yml",
    "lefthook.toml",
    ".lefthook.json",
    "lefthook-local.yml",
    ".lefthook/pre-commit/run.sh",
    "mise.toml",
    ".mise.local.toml",
    ".config/mise/config.toml",
    ".envrc",
    ".envrc.local",
    ".exrc",
    ".nvim.lua",
    ".nvimrc",
    "team.code-workspace",
    "TEAM.Code-Workspace",
    ".windsurf/mcp.json",
    ".kiro/hooks/a.hook",
    ".roo/mcp.json",
    ".amazonq/mcp.json",
];

/// Runs `line` out of a file, so that its text does not name what it does.
fn hidden(place: &Place, line: &str) -> Option<i32> {
    place.write("project/act.sh", line);
    place.output(["run", "bash act.sh"]).status.code()
}

/// The same for each name, below `depth`.
fn each(depth: &str, step: &str) -> String {
    let one = |name: &str| format!("{}\n", step.replace('N', &format!("{depth}{name}")));
    NAMES.iter().map(|name| one(name)).collect()
}

#[test]
fn settings_of_tools_come_into_being_in_no_way() {
    for way in WAYS {
        for depth in ["", "sub/"] {
            let place = Place::new("settings");
            let files = NAMES.map(|name| place.project().join(depth).join(name));
            let lines: Vec<String> = way.iter().map(|step| each(depth, step)).collect();
            for (name, file) in NAMES.iter().zip(&files) {
                for step in way {
                    let line = step.replace('N', &format!("{depth}{name}"));
                    let mut command = Command::new("bash");
                    command.args(["-c", &line]).current_dir(place.project());
                    assert!(command.status().expect("bash").success(), "{line}");
                }
                assert!(file.symlink_metadata().is_ok(), "{name}: {way:?}");
                std::fs::remove_file(file).expect("it was made");
            }
            for line in &lines {
                hidden(&place, line);
            }
            let made: Vec<_> = files.iter().filter(|it| it.symlink_metadata().is_ok()).collect();
            assert!(made.is_empty(), "{way:?}: {made:?}");
        }
    }
}

#[test]
fn settings_of_tools_that_are_there_stay_as_they_are() {
    let place = Place::new("settings-there");
    for name in NAMES {
        place.write(&format!("project/{name}"), "old");
        place.write(&format!("project/sub/{name}"), "old");
    }
    let steps =
        ["echo x > N", "rm -f N", "mv N plain", "truncate -s 0 N", "echo x > plain; mv -f plain N"];
    for (step, depth) in steps.iter().flat_map(|step| [(step, ""), (step, "sub/")]) {
        hidden(&place, &each(depth, step));
        for name in NAMES {
            let held = std::fs::read_to_string(place.project().join(depth).join(name));
            assert_eq!(held.ok().as_deref(), Some("old"), "{depth}{name}: {step}");
        }
    }
}

#[test]
fn names_that_only_look_alike_are_free() {
    let place = Place::new("settings-alike");
    for name in [
        "envrc.md",
        "my.lefthook.yml",
        "mise.md",
        "code-workspace",
        "docs/kiro.md",
        ".jj/repo/store/a",
    ] {
        let line = format!("mkdir -p $(dirname {name}); echo x > {name}");
        assert_eq!(hidden(&place, &line), Some(0), "{name}");
    }
}
