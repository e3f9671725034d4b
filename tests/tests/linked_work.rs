//! Ordinary work that lives on symbolic and hard links goes on: package managers, virtual environments, git, archives, builds;
//! over several runs, as root and as an ordinary user. And what it must not do, through the executable that ships.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use stockade_tests::{Place, is_root, skip};

/// A user without any rights of root.
const ORDINARY: u32 = 65534;

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).concat()
}

/// Runs `test` as this user, and as an ordinary one if that is root; `run` runs a script through the gate.
fn as_both(name: &str, test: impl Fn(&Place, &dyn Fn(&str) -> Output)) {
    let users: &[Option<u32>] = if is_root() { &[None, Some(ORDINARY)] } else { &[None] };
    for user in users {
        let place = Place::new(name);
        test(&place, &|script| {
            place.write("project/act.sh", script);
            let line = ["run", "--no-daemon", "--", "bash act.sh"];
            let mut command = match user {
                None => place.stockade(line),
                Some(user) => place.stockade_as(*user, line),
            };
            command.output().expect("the executable starts")
        });
    }
}

/// Runs `scripts` one after the other, each of which prints `done` at its end.
fn all_work(run: &dyn Fn(&str) -> Output, scripts: &[&str]) {
    for script in scripts {
        let output = run(&format!("set -e\n{script}\necho done"));
        let text = text(&output);
        assert!(output.status.success() && text.contains("done\n"), "{script}\n{text}");
        assert!(!text.contains("(write)"), "{script}\n{text}");
    }
}

fn has(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(test, &format!("{program} is not installed"));
    }
    found
}

const IDENTITY: &str = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@example.invalid GIT_COMMITTER_NAME=n \
                        GIT_COMMITTER_EMAIL=n@example.invalid GIT_EDITOR=true GIT_CONFIG_NOSYSTEM=1; ";

#[test]
fn environments_of_python_are_made_and_made_again() {
    if !Path::new("/usr/bin/python3").exists() {
        return skip("environments_of_python", "there is no /usr/bin/python3");
    }
    as_both("venv", |place, run| {
        for tool in [
            ".pyenv/versions/3.12.1/bin",
            ".local/share/uv/python/cpython-3.12/bin",
            "miniconda3/pkgs/x/bin",
        ] {
            place.write(&format!("home/{tool}/python3.12"), "#!/bin/sh\n");
        }
        all_work(
            run,
            &[
                "/usr/bin/python3 -m venv --without-pip .venv; .venv/bin/python -c 'print(1)'",
                "/usr/bin/python3 -m venv --without-pip --clear .venv; mv .venv env; env/bin/python -c 1; rm -rf env",
                "/usr/bin/python3 -m venv --without-pip --copies .venv; ln -sfn lib .venv/lib64",
                "mkdir -p u/bin; ln -s ~/.local/share/uv/python/cpython-3.12/bin/python3.12 u/bin/python; ln -s python u/bin/python3",
                "mkdir -p v/bin; ln -s ~/.pyenv/versions/3.12.1/bin/python3.12 v/bin/python; ln -sf /usr/bin/python3 v/bin/python3; mv v w",
                "mkdir -p c/bin; ln -s ~/miniconda3/pkgs/x/bin/python3.12 c/bin/python",
                "mkdir -p .direnv/bin; ln -s ~/.pyenv/versions/3.12.1 .direnv/python; ln -s /nix/store/none-shell .direnv/flake-profile-1-link; ln -s flake-profile-1-link .direnv/flake-profile",
            ],
        );
    });
}

#[test]
fn packages_of_node_are_installed_and_installed_again() {
    if !has("npm", "packages_of_node") {
        return;
    }
    as_both("npm", |place, run| {
        place.write(
            "project/tool/package.json",
            r#"{"name":"tool","version":"1.0.0","bin":{"tool":"cli.js"}}"#,
        );
        place.write("project/tool/cli.js", "#!/usr/bin/env node\nconsole.log('tool')\n");
        place.write(
            "project/packages/part/package.json",
            r#"{"name":"part","version":"1.0.0","dependencies":{"tool":"file:../../tool"}}"#,
        );
        place.write(
            "project/package.json",
            r#"{"name":"whole","version":"1.0.0","workspaces":["packages/*"],"dependencies":{"tool":"file:tool"}}"#,
        );
        let install =
            "npm install --offline --no-audit --no-fund --ignore-scripts; node_modules/.bin/tool";
        all_work(
            run,
            &[
                install,
                install,
                "rm -rf node_modules/tool; npm install --offline --no-audit --no-fund --ignore-scripts; test -L node_modules/part",
                "mv node_modules old; npm ci --offline --no-audit --no-fund --ignore-scripts; node_modules/.bin/tool; rm -rf old",
            ],
        );
    });
}

#[test]
fn stores_of_package_managers_are_linked_from() {
    as_both("stores", |place, run| {
        for name in ["a", "b"] {
            place.write(&format!("home/.local/share/pnpm/store/v3/files/{name}"), "store\n");
            place.write(&format!("home/.cache/uv/archive-v0/{name}/__init__.py"), "store\n");
        }
        // As the person's own installation leaves it: second names of files of the store.
        let package = place.project().join("node_modules/.pnpm/a@1.0.0/node_modules/a");
        fs::create_dir_all(&package).expect("a folder");
        let store = place.home().join(".local/share/pnpm/store/v3/files");
        for name in ["a", "b"] {
            fs::hard_link(store.join(name), package.join(name)).expect("a second name");
        }
        let layout = "cd node_modules; mkdir -p .bin .pnpm/node_modules .pnpm/b@1.0.0/node_modules
            ln -sfn .pnpm/a@1.0.0/node_modules/a a; ln -sfn ../../a@1.0.0/node_modules/a .pnpm/b@1.0.0/node_modules/a
            ln -sfn ../a@1.0.0/node_modules/a .pnpm/node_modules/a; ln -sf ../a/a .bin/a; cat .bin/a; cat .pnpm/b@1.0.0/node_modules/a/b";
        all_work(
            run,
            &[
                layout,
                "chmod +x node_modules/a/a; sed -i s/store/patched/ node_modules/a/a; echo more >> node_modules/a/b",
                layout,
                "cp -al node_modules copied; echo changed > copied/.pnpm/a@1.0.0/node_modules/a/b; mv node_modules other; mv other node_modules; rm -rf copied",
                "mkdir -p site; ln -s ~/.cache/uv/archive-v0/a site/a; cat site/a/__init__.py",
                "mkdir -p yarn/.bin yarn/pkg; ln -s ../pkg/cli.js yarn/.bin/cli; ln -s yarn/pkg linked; rm -rf yarn linked",
            ],
        );
        for name in ["a", "b"] {
            assert_eq!(fs::read_to_string(store.join(name)).expect("a file"), "store\n");
        }
    });
}

#[test]
fn git_moves_between_branches_with_links() {
    if !has("git", "git_moves_between_branches") {
        return;
    }
    as_both("git-links", |place, run| {
        fs::remove_dir_all(place.project().join(".git")).expect("a folder");
        let mut init = Command::new("git");
        init.args(["init", "-q", "-b", "main"]).arg(place.project()).env("HOME", place.home());
        assert!(init.status().expect("git").success());
        let begin = format!(
            "{IDENTITY} mkdir -p packages/one packages/two docs; echo 1 > packages/one/f
             ln -s ../one packages/two/one; ln -s missing docs/dangling; ln -s ../missing/deeper docs/far; ln -s ../packages docs/packages
             ln -s /usr/share/none docs/absolute; ln -s packages/one/f top; git add packages docs top; git commit -qm one
             git checkout -q -b bare; git rm -qr docs top packages/two; git commit -qm two; git checkout -q main"
        );
        let switch = format!(
            "{IDENTITY} git switch -q bare; test ! -e docs; git switch -q main; test -L docs/dangling; cat top packages/two/one/f
             git mv docs texts; git commit -qm moved; git stash list; git reset -q --hard HEAD~1; test -L docs/far
             rm top; git checkout -q top; git stash -q 2>/dev/null || true; git status --short >/dev/null"
        );
        let apart = format!(
            "{IDENTITY} git worktree add -q wt bare; (cd wt; ln -sfn packages/one/f new; git add new; git commit -q --allow-empty -m new); git worktree remove wt
             git clone -q . copy; (cd copy; git checkout -q bare; echo 2 >> packages/one/f; git commit -qam three; git checkout -q main); rm -rf copy
             git archive main | tar x -C packages/one; rm -rf packages/one/docs packages/one/packages packages/one/top
             mkdir -p .husky/_; echo true > .husky/_/h; chmod +x .husky/_/h"
        );
        all_work(run, &[&begin, &switch, &switch, &apart, &apart]);
    });
}

#[test]
fn archives_with_links_are_unpacked_and_moved() {
    as_both("archives", |_, run| {
        all_work(
            run,
            &[
                "mkdir -p /tmp/root/usr/lib /tmp/root/usr/bin; cd /tmp/root; ln -s usr/lib lib; echo x > usr/lib/x.so.1; ln -s x.so.1 usr/lib/x.so
                 ln -s ../lib/x.so usr/bin/x; ln -s /usr/bin/env usr/bin/env; ln usr/lib/x.so.1 usr/lib/second; tar cf /tmp/r.tar .
                 cd - >/dev/null; mkdir out; tar xf /tmp/r.tar -C out; cat out/usr/bin/x",
                "mv out moved; cat moved/lib/x.so; cp -a moved copied; echo y >> copied/usr/lib/second; tar cf a.tar copied; tar xf a.tar; rm -rf copied moved a.tar",
            ],
        );
    });
}

#[test]
fn a_build_with_cargo_works_a_second_time() {
    let test = "a_build_with_cargo";
    let Some(cargo) = std::env::var_os("CARGO") else { return skip(test, "cargo does not run it") };
    let tools = Path::new(&cargo).parent().expect("a folder").to_path_buf();
    // One user: the tools lie in the home directory of the one who runs this.
    let place = Place::new("cargo");
    let run = |script: &str| {
        place.write("project/act.sh", script);
        place.output(["run", "--no-daemon", "--", "bash act.sh"])
    };
    let tools = tools.display();
    let build = |more: &str| {
        format!(
            "PATH={tools}:$PATH; cd made; {more}; cargo build --quiet --offline; target/debug/made"
        )
    };
    let new = "mkdir -p made/src; printf '[package]\nname = \"made\"\nedition = \"2021\"\n[workspace]\n' > made/Cargo.toml
        echo 'fn main() { println!(\"Hello, world!\") }' > made/src/main.rs";
    let first = format!("{new}; {}", build("true"));
    let change = build("sed -i s/Hello/Again/ src/main.rs; sleep 0.01; touch src/main.rs");
    let release = build("cargo build --quiet --offline --release; touch src/main.rs");
    all_work(&run, &[&first, &change, &release, &build("cargo clean --quiet")]);
    let names = "stat -c %h made/target/debug/made";
    let seen = text(&run(names));
    assert!(seen.contains('2'), "cargo gives its programs two names: {seen}");
    assert!(text(&run(&build("true"))).contains("Again, world!"));
}

#[test]
fn a_link_out_of_the_project_is_refused_with_the_rule_that_allows_it() {
    as_both("refused-link", |place, run| {
        place.write("home/notes/private/diary", "secret\n");
        let notes = place.home().join("notes/private");
        let script = "ln -s ~/notes/private/diary link";
        let refused = run(script);
        let said = text(&refused);
        let rule = format!("builtin: symbolic link to {}/diary", notes.display());
        let remedy = format!("sandbox.filesystem.allowRead: [\"{}\"]", notes.display());
        assert!(!refused.status.success() && said.contains(&rule), "{said}");
        assert!(said.contains(&remedy), "{said}");
        assert!(!place.project().join("link").is_symlink());
        let settings =
            format!(r#"{{"sandbox":{{"filesystem":{{"allowRead":["{}"]}}}}}}"#, notes.display());
        place.write("home/.config/stockade/settings.json", &settings);
        all_work(run, &["ln -s ~/notes/private/diary link; cat link"]);
        assert!(!run("ln -s ~/notes link2").status.success());
    });
}

#[test]
fn a_root_for_links_is_none_that_a_command_chose() {
    as_both("chosen-root", |place, run| {
        place.write("home/.pyenv/versions/x/python", "tool\n");
        place.write("home/mail/inbox", "secret\n");
        place.write("home/tools/installs/x", "tool\n");
        // The person keeps a folder of tools that commands may write, and another that leads into it.
        let tools = place.home().join("tools");
        std::os::unix::fs::symlink(&tools, place.home().join(".asdf")).expect("a link");
        let settings = format!(
            r#"{{"sandbox":{{"filesystem":{{"allowWrite":["{0}"],"allowRead":["{0}/installs"]}}}}}}"#,
            tools.display()
        );
        place.write("home/.config/stockade/settings.json", &settings);
        all_work(run, &["ln -s ~/.pyenv/versions/x/python ok; ln -s ~/tools/installs/x ok2"]);
        // Made as a run could have made it before.
        fs::remove_dir_all(tools.join("installs")).expect("a folder");
        std::os::unix::fs::symlink(place.home().join("mail"), tools.join("installs"))
            .expect("a link");
        for script in ["ln -s ~/mail/inbox bait", "ln -s ~/.asdf/installs/inbox bait"] {
            assert!(!run(script).status.success(), "{script}");
            assert!(!place.project().join("bait").is_symlink(), "{script}");
        }
    });
}

#[test]
fn a_variable_of_the_person_puts_tools_elsewhere_and_a_command_puts_none() {
    let place = Place::new("moved-tools");
    place.write("opt/pyenv/versions/x/python", "tool\n");
    place.write("opt/pyenv/notes", "secret\n");
    place.write("home/mail/versions/inbox", "secret\n");
    let opt = place.root.join("opt/pyenv").display().to_string();
    let makes = |variable: Option<(&str, &str)>, script: &str| {
        let link = place.project().join("link");
        let _ = fs::remove_file(&link); // it may not be there
        place.write("project/act.sh", script);
        let mut command = place.stockade(["run", "--no-daemon", "--", "bash act.sh"]);
        command.envs(variable);
        text(&command.output().expect("it starts"));
        link.is_symlink()
    };
    let tool = format!("ln -s {opt}/versions/x/python link");
    let other = format!("ln -s {opt}/notes link");
    assert!(!makes(None, &tool));
    assert!(makes(Some(("PYENV_ROOT", &opt)), &tool));
    assert!(!makes(Some(("PYENV_ROOT", &opt)), &other), "settings lie beside the versions");
    assert!(makes(Some(("CARGO_HOME", &opt)), &tool) == makes(Some(("CARGO_HOME", "/")), &tool));
    // Set by the command itself, it is nothing.
    assert!(!makes(None, &format!("export PYENV_ROOT={opt}; {tool}")));
    // A directory that holds the home directory or the work holds what a person writes.
    let mail = format!("ln -s {}/mail/versions/inbox link", place.home().display());
    for wide in [place.home(), place.root.clone()] {
        assert!(!makes(Some(("UV_CACHE_DIR", &wide.to_string_lossy())), &mail));
    }
    // Nor does one through a directory in which commands write, of this project or of another.
    let other = place.root.join("other");
    place.repository(&other);
    let ran = place.stockade(["run", "--no-daemon", "--", "true"]).current_dir(&other).output();
    assert!(ran.expect("it starts").status.success());
    for folder in [place.project(), other] {
        let tools = folder.join("tools");
        std::os::unix::fs::symlink(place.home().join("mail"), &tools).expect("a link");
        assert!(!makes(Some(("PYENV_ROOT", &tools.to_string_lossy())), &mail), "{tools:?}");
    }
}
