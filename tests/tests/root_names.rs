//! Files that come with checkouts and that tools of a person run: protected in the root of the project, free further down,
//! and always told by `stockade review`.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade};

/// Names that are protected in the root alone.
const NAMES: [&str; 18] = [
    "rust-toolchain",
    "rust-toolchain.toml",
    ".continue/config.yaml",
    ".yarn/releases/yarn.cjs",
    "gradle/wrapper/gradle-wrapper.jar",
    "gradle/wrapper/gradle-wrapper.properties",
    ".pylintrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bazelrc",
    ".pre-commit-config.yaml",
    ".gitmodules",
    ".mvn/wrapper/maven-wrapper.properties",
    ".idea/workspace.xml",
    ".VSCode/tasks.json",
    ".devcontainer/devcontainer.json",
];

/// Ways to a name over one or more commands; `N` is the name, `T` its first part.
const WAYS: [&[&str]; 8] = [
    &["mkdir -p $(dirname N); echo a=1 > N"],
    &["echo a=1 > plain", "mkdir -p $(dirname N); cp plain own; mv own N"],
    &["echo a=1 > plain", "mkdir -p $(dirname N); ln plain N"],
    &["echo a=1 > plain", "mkdir -p $(dirname N); ln -s $PWD/plain N"],
    &["mkdir -p deep/$(dirname N); echo a=1 > deep/N", "mv deep/T T"],
    &["mkdir -p deep/$(dirname N); echo a=1 > deep/N", "ln -s deep/T T"],
    &["mkdir -p deep/$(dirname N); echo a=1 > deep/N", "cp -r deep/T T"],
    &["mkdir -p deep/$(dirname N); echo a=1 > deep/N; tar -C deep -cf a.tar .", "tar -xf a.tar"],
];

fn steps(way: &[&str], name: &str) -> Vec<String> {
    let first = name.split('/').next().unwrap_or(name);
    way.iter().map(|step| step.replace('N', name).replace('T', first)).collect()
}

/// Runs `line` out of a file, so that its text does not name what it does.
fn hidden(place: &Place, line: &str) -> Output {
    place.write("project/act.sh", line);
    place.output(["run", "bash act.sh"])
}

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

fn opened(place: &Place, names: &[&str]) {
    let paths: Vec<_> = names.iter().map(|name| place.project().join(name)).collect();
    user(place, &json!({ "sandbox": { "filesystem": { "allowWrite": paths } } }));
}

/// Runs `script` as the person does.
fn plain(place: &Place, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", script]).current_dir(place.project());
    command.env("HOME", place.home()).env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(command.status().expect("bash").success(), "{script}");
}

/// The files that wait for a look, below the project.
fn waiting(place: &Place) -> BTreeSet<String> {
    let told = place.output(["review", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let project = format!("{}/", place.project().display());
    let files = told["files"].as_array().expect("files");
    let path = |file: &Value| {
        let path = file["path"].as_str().expect("a path");
        path.strip_prefix(&project).unwrap_or(path).to_owned()
    };
    files.iter().map(path).collect()
}

fn has(place: &Place, name: &str) -> bool {
    place.project().join(name).symlink_metadata().is_ok()
}

#[test]
fn in_the_root_they_come_into_being_in_no_way_and_further_down_in_each() {
    for way in WAYS {
        let place = Place::new("root-names");
        place.write("project/all/.keep", "");
        // Beside each other, each way works where nobody confines it.
        for name in NAMES {
            for step in steps(way, name) {
                let mut command = Command::new("bash");
                command.args(["-c", &step]).current_dir(place.project().join("all"));
                assert!(command.status().expect("bash").success(), "{step}");
            }
            assert!(has(&place, &format!("all/{name}")), "{name}: {way:?}");
            fs::remove_dir_all(place.project().join("all")).expect("it was made");
            fs::create_dir(place.project().join("all")).expect("a directory");
        }
        let count = way.len();
        let line = |step: usize, into: &str| -> String {
            let one = |(at, name): (usize, &&str)| {
                let step = steps(way, name).into_iter().nth(step).unwrap_or_default();
                format!("(mkdir -p {into}{at}; cd {into}{at}; {step})\n")
            };
            NAMES.iter().enumerate().map(one).collect()
        };
        for step in 0..count {
            let ran = hidden(&place, &line(step, "all/"));
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!((ran.status.code(), told.contains("stockade:")), (Some(0), false), "{told}");
        }
        let told = waiting(&place);
        for (at, name) in NAMES.iter().enumerate() {
            assert!(has(&place, &format!("all/{at}/{name}")), "{name}: {way:?}");
            // Behind a link to a directory it is the link that is told.
            let inside = format!("all/{at}/{name}");
            let is_told = told.iter().any(|path| inside.starts_with(path.as_str()));
            assert!(is_told, "{name}: {way:?}: {told:?}");
        }
        plain(&place, "rm -rf all");
        for step in 0..count {
            let one = |(at, name): (usize, &&str)| {
                let step = steps(way, name).into_iter().nth(step).unwrap_or_default();
                format!("({})\n", step.replace("deep", &format!("deep{at}")))
            };
            hidden(&place, &NAMES.iter().enumerate().map(one).collect::<String>());
        }
        let made: Vec<_> = NAMES.iter().filter(|name| has(&place, name)).collect();
        assert!(made.is_empty(), "{way:?}: {made:?}");
    }
}

#[test]
fn in_the_root_they_stay_as_they_are() {
    let place = Place::new("root-names-there");
    for name in NAMES {
        place.write(&format!("project/{name}"), "a=1");
    }
    place.write("project/deep/T", "new");
    let steps = [
        "echo b=1 > N",
        "rm -rf N T",
        "mv T moved",
        "truncate -s 0 N",
        "echo b=1 > plain; mv -f plain N",
        "ln N second; echo b=1 > second",
        "python3 -c \"import os; os.rename('T', 'deep/x')\"",
    ];
    for step in steps {
        let one = |name: &&str| format!("({})\n", self::steps(&[step], name).concat());
        hidden(&place, &NAMES.iter().map(one).collect::<String>());
        for name in NAMES {
            let held = fs::read_to_string(place.project().join(name));
            assert_eq!(held.ok().as_deref(), Some("a=1"), "{name}: {step}");
        }
    }
}

#[test]
fn a_yes_opens_what_the_text_names_and_nothing_beside_it() {
    let place = Place::new("root-names-yes");
    place.write("project/other.sh", "echo x > .pylintrc; mkdir .vscode; echo x > .idea/more");
    place.write("project/.idea/old", "old");
    let line = "echo x > .npmrc; echo x > .idea/some.xml; bash other.sh";
    // Nobody is there to ask.
    let ran = place.output(["run", line]);
    assert_eq!((ran.status.code(), has(&place, ".npmrc")), (Some(121), false));
    for (answer, expected) in [("deny", [false; 2]), ("once", [true; 2])] {
        let Some(mut terminal) = Terminal::start(&place, stockade(), &["run", line]) else {
            skip("a_yes_opens_what_the_text_names_and_nothing_beside_it", "no terminal");
            return;
        };
        terminal.wait_for("run it?");
        terminal.press(&format!("{answer}\n"));
        let (_, screen) = terminal.end();
        let made = [".npmrc", ".idea/some.xml"].map(|name| has(&place, name));
        assert_eq!(made, expected, "{screen}");
        let others = [".pylintrc", ".vscode", ".idea/more"].map(|name| has(&place, name));
        assert_eq!(others, [false; 3], "{screen}");
    }
    let told = waiting(&place);
    assert_eq!(told, [".idea/some.xml", ".npmrc"].map(str::to_owned).into());
    // The yes was for that command.
    hidden(&place, "echo y > .npmrc");
    assert_eq!(fs::read_to_string(place.project().join(".npmrc")).ok().as_deref(), Some("x\n"));
}

#[test]
fn a_mode_without_questions_opens_nothing() {
    let place = Place::new("root-names-bypass");
    let ran = place.output(["run", "--permission-mode", "bypassPermissions", "echo x > .npmrc"]);
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!((ran.status.code(), has(&place, ".npmrc")), (Some(1), false), "{told}");
    assert!(told.contains("to allow: sandbox.filesystem.allowWrite"), "{told}");
}

#[test]
fn the_remedy_of_each_name_lets_it_be_written_unasked() {
    for name in [".npmrc", ".vscode/tasks.json", ".yarn/releases/yarn.cjs", "rust-toolchain.toml"] {
        let place = Place::new("root-names-remedy");
        // A text that names it is asked about, and says what would allow it.
        let line = format!("mkdir -p $(dirname {name}); echo a=1 > {name}");
        let mut known = Vec::new();
        // A directory is made before what lies in it.
        for _ in 0..3 {
            if hidden(&place, &line).status.code() == Some(0) {
                break;
            }
            let told = place.output(["run", "--json", "bash act.sh"]);
            let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
            let remedy = &told["violations"][0]["remedy"];
            assert_eq!(remedy["setting"], "sandbox.filesystem.allowWrite", "{name}: {told}");
            known.extend(remedy["value"].as_array().expect("paths").clone());
            user(&place, &json!({ "sandbox": { "filesystem": { "allowWrite": known } } }));
        }
        let ran = place.output(["run", &format!("echo b=1 > {name}")]);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), has(&place, name)), (Some(0), true), "{name}: {told}");
        assert_eq!(waiting(&place), [name.to_owned()].into(), "{name}");
        // Nothing else became writable.
        let others = || NAMES.iter().filter(|it| it.split('/').next() != name.split('/').next());
        let lines =
            others().map(|other| format!("mkdir -p $(dirname {other}); echo a=1 > {other}\n"));
        hidden(&place, &lines.collect::<String>());
        let made: Vec<_> = others().filter(|other| has(&place, other)).collect();
        assert!(made.is_empty(), "{name} opened {made:?}");
    }
}

#[test]
fn a_rule_for_the_whole_project_or_for_file_tools_opens_nothing() {
    let place = Place::new("root-names-wide");
    let all = json!(["."]);
    user(
        &place,
        &json!({ "sandbox": { "filesystem": { "allowWrite": all } },
        "permissions": { "allow": ["Edit(**)", "Edit(.npmrc)", "Bash(*)"] } }),
    );
    hidden(&place, "echo x > .npmrc; mkdir .vscode");
    assert_eq!([".npmrc", ".vscode"].map(|name| has(&place, name)), [false; 2]);
    let ran = place.output(["run", "echo x > .npmrc"]);
    assert_eq!((ran.status.code(), has(&place, ".npmrc")), (Some(121), false));
}

#[test]
fn a_link_of_a_command_leads_no_setting_elsewhere() {
    let place = Place::new("root-names-link");
    plain(&place, "mkdir -p conf; ln -s conf/npmrc .npmrc; echo old > conf/npmrc");
    hidden(&place, "echo x > .npmrc; echo x > conf/npmrc; rm .npmrc");
    let held = |name: &str| fs::read_to_string(place.project().join(name)).ok();
    assert_eq!(held("conf/npmrc").as_deref(), Some("old\n"));
    // Where a rule names what a command could have led elsewhere, it grants nothing.
    opened(&place, &["way/npmrc"]);
    hidden(&place, "ln -s . way; echo x > way/.pylintrc; rm -f way; ln -s .idea way");
    hidden(&place, "mkdir way; mv way .idea; echo x > .idea/npmrc");
    assert_eq!([".pylintrc", ".idea"].map(|name| has(&place, name)), [false; 2]);
}

fn has_git(test: &str) -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip(test, "git is not installed");
    }
    found
}

const TREE: &str = "tree() { mkdir -p $1/.vscode $1/.idea $1/.mvn; echo a > $1/.npmrc; echo a > $1/.vscode/settings.json; \
    echo a > $1/.idea/a.xml; echo a > $1/.pre-commit-config.yaml; : > $1/.gitmodules; echo a > $1/rust-toolchain.toml; \
    echo a > $1/.mvn/jvm.config; }; ";

/// A repository with such files in `pkg`, on a branch of its own, and a second repository that has them in its root.
fn repository(place: &Place) {
    plain(
        place,
        &format!(
            "{TREE} git config --global user.name n; git config --global user.email e@x; git init -q -b main; echo a > a; \
             git add a; git commit -qm a; git switch -qc trees; tree pkg; git add .; git commit -qm trees; git switch -q main; \
             mkdir ../up; cd ../up; git init -q -b main; tree .; git add .; git commit -qm up"
        ),
    );
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned()).concat()
}

fn works(place: &Place, line: &str) {
    let ran = place.output(["run", line]);
    let text = said(&ran);
    assert_eq!((ran.status.code(), text.contains("stockade:")), (Some(0), false), "{line}: {text}");
}

/// The files of a tree, below `root`.
fn tree(root: &str) -> BTreeSet<String> {
    let names = [
        ".gitmodules",
        ".idea/a.xml",
        ".mvn/jvm.config",
        ".npmrc",
        ".pre-commit-config.yaml",
        ".vscode/settings.json",
        "rust-toolchain.toml",
    ];
    names.iter().map(|name| format!("{root}/{name}")).collect()
}

#[test]
fn checkouts_and_packages_bring_them_and_review_tells_of_each() {
    if !has_git("checkouts_and_packages_bring_them_and_review_tells_of_each") {
        return;
    }
    let cases: [(&str, &[&str], &str); 8] = [
        ("switch", &["git switch -q trees"], "pkg"),
        ("merge", &["git merge -q trees"], "pkg"),
        ("rebase", &["git rebase -q trees"], "pkg"),
        ("clone", &["git clone -q ../up cl"], "cl"),
        ("worktree", &["git worktree add -q wt trees"], "wt/pkg"),
        ("tar", &["git archive trees > x.tar", "mkdir t; tar -C t -xf x.tar"], "t/pkg"),
        (
            "package",
            &["mkdir -p node_modules/x; git archive trees | tar -C node_modules/x -x"],
            "node_modules/x/pkg",
        ),
        (
            "moved",
            &["git clone -q ../up n; mkdir node_modules", "mv n node_modules/y"],
            "node_modules/y",
        ),
    ];
    for (name, lines, root) in cases {
        let place = Place::new(&format!("root-names-{name}"));
        repository(&place);
        for line in lines {
            works(&place, line);
        }
        let there = tree(root).into_iter().filter(|name| has(&place, name)).collect();
        assert_eq!(tree(root), there, "{name}");
        let told: BTreeSet<String> =
            waiting(&place).into_iter().filter(|path| path.starts_with(root)).collect();
        assert_eq!(told, tree(root), "{name}");
    }
}

#[test]
fn in_the_root_a_checkout_is_refused_by_name_and_the_remedies_let_it_work() {
    if !has_git("in_the_root_a_checkout_is_refused_by_name_and_the_remedies_let_it_work") {
        return;
    }
    let place = Place::new("root-names-checkout");
    repository(&place);
    plain(
        &place,
        &format!(
            "{TREE} git switch -qc root; tree .; git add .; git commit -qm r; git switch -q main"
        ),
    );
    let mut known: Vec<Value> = Vec::new();
    let settings = |known: &[Value]| {
        user(&place, &json!({ "sandbox": { "filesystem": { "allowWrite": known } } }));
    };
    for _ in 0..tree("").len() {
        // Where the text itself says so, a person is asked before (`root_versions`).
        place.write("project/act.sh", "git switch -q root");
        let ran = place.output(["run", "--json", "bash act.sh"]);
        let told: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        // Git goes on without some of what it cannot write.
        if told["violations"] == json!([]) {
            break;
        }
        let remedies = told["violations"].as_array().expect("violations").iter();
        known.extend(
            remedies.flat_map(|it| it["remedy"]["value"].as_array().expect("paths").clone()),
        );
        settings(&known);
        plain(&place, "git reset -q --hard; git clean -qfd");
    }
    works(&place, "git status");
    assert!(tree(".").iter().all(|name| has(&place, name)));
    // The way back is refused by name as well, where nothing is opened.
    settings(&[]);
    let told = said(&hidden(&place, "git switch -q main"));
    assert!(told.contains("protected in the root"), "{told}");
    assert!(Path::new(&place.project()).join(".npmrc").exists());
}

#[test]
fn a_submodule_that_is_added_is_asked_about_and_a_yes_adds_it() {
    if !has_git("a_submodule_that_is_added_is_asked_about_and_a_yes_adds_it") {
        return;
    }
    let place = Place::new("root-names-submodule");
    repository(&place);
    plain(&place, "git config --global protocol.file.allow always");
    let words = ["run", "git submodule add -q ../up sm"];
    let ran = place.output(words);
    assert_eq!((ran.status.code(), has(&place, "sm")), (Some(121), false), "{}", said(&ran));
    let Some(mut terminal) = Terminal::start(&place, stockade(), &words) else {
        skip("a_submodule_that_is_added_is_asked_about_and_a_yes_adds_it", "no terminal");
        return;
    };
    terminal.wait_for("run it?");
    terminal.press("once\n");
    let (code, screen) = terminal.end();
    assert_eq!((code, has(&place, ".gitmodules")), (Some(0), true), "{screen}");
    // The configuration of the new repository is that which git makes outside.
    let config =
        fs::read_to_string(place.project().join(".git/modules/sm/config")).expect("a config");
    assert!(!config.contains("symlinks"), "{config}");
    assert!(waiting(&place).contains(".gitmodules"));
}
