//! Caches of package managers: a command reads the host's, and what it changes is its session's alone.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stockade_tests::{Place, is_root, skip, until, write_program, write_to_reader};

/// A user without any rights of root.
const ORDINARY: u32 = 65534;

/// Runs `test` as this user, and as an ordinary one if that is root.
fn as_both(name: &str, test: impl Fn(&Place, &dyn Fn(&[&str]) -> Command)) {
    let place = Place::new(name);
    test(&place, &|arguments| place.stockade(arguments));
    if is_root() {
        let place = Place::new(name);
        test(&place, &|arguments| place.stockade_as(ORDINARY, arguments));
    } else {
        skip(name, "what an ordinary user does, who runs these tests anyway, is not tried twice");
    }
}

/// Returns exit status and both outputs.
fn outcome(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    (output.status.code(), text.concat())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A script of the project that changes a cache, as a package manager would.
const INSTALL: &str = "#!/bin/sh\nset -e\ncat ~/.npm/_cacache/index\necho \"$1\" >> ~/.npm/_cacache/index\n\
    mkdir ~/.npm/_cacache/\"$1\"\nls ~/.npm/_cacache\n";

/// Writes the script, and a cache for it.
fn fill(place: &Place) {
    write_program(&place.project().join("install"), INSTALL);
    place.write("home/.npm/_cacache/index", "host\n");
}

#[test]
fn a_session_has_its_own_changes_of_a_cache_and_the_host_has_none() {
    as_both("caches-session", |place, stockade| {
        fill(place);
        let cache = place.home().join(".npm/_cacache");
        let mut plain = Command::new(place.project().join("install"));
        let plain = plain.arg("zero").env("HOME", place.home()).output().unwrap();
        assert_eq!(outcome(&plain), (Some(0), "host\nindex\nzero\n".to_owned()));
        fs::remove_dir(cache.join("zero")).unwrap();
        fill(place);
        let run = |arguments: &[&str]| outcome(&stockade(arguments).output().unwrap());
        let first = run(&["run", "--session", "s", "--", "./install", "one"]);
        assert_eq!(first, (Some(0), "host\nindex\none\n".to_owned()));
        let second = run(&["run", "--session", "s", "--", "./install", "two"]);
        assert_eq!(second, (Some(0), "host\none\nindex\none\ntwo\n".to_owned()));
        // Neither another session nor a command without one sees it.
        let other = run(&["run", "--session", "t", "--", "./install", "three"]);
        assert_eq!(other, (Some(0), "host\nindex\nthree\n".to_owned()));
        for name in ["four", "five"] {
            let alone = run(&["run", "--", "./install", name]);
            assert_eq!(alone, (Some(0), format!("host\n{name}\nindex\n")), "{name}");
        }
        assert_eq!(names(&cache), ["index"]);
        assert_eq!(fs::read_to_string(cache.join("index")).unwrap(), "host\n");
        let kept = names(&place.state().join("tmp"));
        assert!(
            kept.iter().all(|name| name.starts_with("caches-") || name.starts_with("session-"))
        );
        assert_eq!(kept.len(), 4, "{kept:?}");
    });
}

#[test]
fn two_commands_of_a_session_at_once_have_each_their_own_changes() {
    let place = Place::new("caches-at-once");
    fill(&place);
    let made = Command::new("mkfifo").arg("on").current_dir(place.project()).status();
    assert!(made.unwrap().success());
    // The first command says that it is there, and waits.
    let text = "./install one; echo > here; cat on";
    let arguments = |text: &'static str| ["run", "--session", "s", text];
    let mut first = place.stockade(arguments(text));
    let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first command is there", || place.project().join("here").exists());
    let second = place.output(arguments("./install two"));
    assert_eq!(outcome(&second), (Some(0), "host\nindex\ntwo\n".to_owned()));
    write_to_reader(&place.project().join("on"), "");
    let first = first.wait_with_output().unwrap();
    assert_eq!(outcome(&first), (Some(0), "host\nindex\none\n".to_owned()));
    let third = place.output(arguments("./install three"));
    assert_eq!(outcome(&third), (Some(0), "host\none\nindex\none\nthree\n".to_owned()));
}

#[test]
fn what_is_not_a_cache_stays_closed_beside_one() {
    as_both("caches-beside", |place, stockade| {
        for name in
            [".cargo/bin", ".cargo/registry", ".cargo/git", ".npm", ".config", "go/pkg", "go/bin"]
        {
            fs::create_dir_all(place.home().join(name)).unwrap();
        }
        let paths = [
            ".cargo/new",
            ".cargo/bin/new",
            ".cargo/config.toml",
            ".cargo/credentials.toml",
            ".npmrc",
            ".config/new",
            "go/bin/new",
            "new",
            ".cargo/registry/new",
            ".cargo/git/new",
            ".npm/new",
            "go/pkg/new",
        ];
        let script = format!(
            "#!/bin/sh\nfor it in {}; do (: > ~/$it) 2>/dev/null && echo $it; done; exit 0\n",
            paths.join(" ")
        );
        place.write("project/try.sh", &script);
        let mut plain = Command::new("/bin/sh");
        plain.arg(place.project().join("try.sh")).env("HOME", place.home());
        assert_eq!(outcome(&plain.output().unwrap()), (Some(0), paths.join("\n") + "\n"));
        for path in paths {
            fs::remove_file(place.home().join(path)).unwrap();
        }
        let ran = stockade(&["run", "--", "sh", "./try.sh"]).output().unwrap();
        let expected = ".cargo/registry/new\n.cargo/git/new\n.npm/new\ngo/pkg/new\n";
        assert_eq!(
            (ran.status.code(), &*String::from_utf8_lossy(&ran.stdout)),
            (Some(0), expected)
        );
        for path in paths {
            assert!(!place.home().join(path).exists(), "{path}");
        }
    });
}

#[test]
fn a_cache_is_there_for_the_programs_that_use_it() {
    let place = Place::new("caches-programs");
    for cache in [".npm", ".cache/pip"] {
        fs::create_dir_all(place.home().join(cache)).unwrap();
    }
    let tried = "test -w ~/.npm && echo npm; test -w ~/.cache/pip && echo pip";
    for (text, expected) in [
        ("true", ""),
        ("ls; git --version > /dev/null", ""),
        ("echo npm install > /dev/null", ""),
        ("cargo=1; false && cargo build", ""),
        ("false && npm install", "npm\n"),
        ("false && /usr/local/bin/npx x", "npm\npip\n"),
        ("true | cat || env A=1 timeout 5 npm ci", "npm\n"),
        ("false && (cd x && bash -c 'npm ci')", "npm\n"),
        ("false && pip install x", "pip\n"),
        ("false && bash -c 'pip install x'", "pip\n"),
        ("false && python3 -m pip install x", "pip\n"),
        ("false && python3 x.py", ""),
        ("false && npm run build", "npm\npip\n"),
        ("false && make", "npm\npip\n"),
        ("false && ./build", "npm\npip\n"),
        ("false && sh build.sh", "npm\npip\n"),
    ] {
        let output = place.output(["run", &format!("{text}; {tried}; exit 0")]);
        assert_eq!(outcome(&output), (Some(0), expected.to_owned()), "{text}");
    }
}

#[test]
fn a_cache_that_is_not_there_is_named_in_the_temporary_directory_and_not_made() {
    let place = Place::new("caches-missing");
    let text = "false && npm ci; false && cargo build; \
        printenv npm_config_cache CARGO_HOME; ls -A ~; exit 0";
    let shown = |command: &mut Command| outcome(&command.output().unwrap());
    let seen = shown(&mut place.stockade(["run", text]));
    assert_eq!(seen, (Some(0), "/tmp/.npm\n/tmp/.cargo\n".to_owned()));
    // A variable that the person has set stays, and a cache that the person has is used.
    let mut set = place.stockade(["run", text]);
    set.env("npm_config_cache", "/somewhere").env("CARGO_HOME", "/elsewhere");
    assert_eq!(shown(&mut set), (Some(0), "/somewhere\n/elsewhere\n".to_owned()));
    fs::create_dir(place.home().join(".cargo")).unwrap();
    let seen = shown(&mut place.stockade(["run", text]));
    assert_eq!(seen, (Some(0), "/tmp/.npm\n.cargo\n".to_owned()));
    let other = shown(&mut place.stockade(["run", "printenv npm_config_cache; exit 0"]));
    assert_eq!(other, (Some(0), String::new()));
}

#[test]
fn a_variable_moves_a_cache_and_makes_nothing_else_one() {
    let place = Place::new("caches-moved");
    for name in ["home/.npm", "home/.config/x", "home/moved", "home/.ssh-like/hooks", "outside/npm"]
    {
        fs::create_dir_all(place.root.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(place.home().join(".config"), place.home().join("link")).unwrap();
    fs::write(place.home().join("moved-file"), "").unwrap();
    place.write("home/profile/.bashrc", "");
    let text = "false && npm ci; test -w \"$npm_config_cache\" && echo yes; exit 0";
    let home = place.home();
    for (value, expected) in [
        (home.join("moved"), "yes\n"),
        (place.root.join("outside/npm"), "yes\n"),
        (home.join(".config"), ""),
        (home.join(".config/x"), ""),
        (home.join("link"), ""),
        (home.clone(), ""),
        (place.root.clone(), ""),
        (home.join("profile"), ""),
        (home.join("moved-file"), ""),
        (PathBuf::from("/usr/lib"), ""),
        (PathBuf::from("/"), ""),
    ] {
        let mut command = place.stockade(["run", text]);
        let output = command.env("npm_config_cache", &value).output().unwrap();
        assert_eq!(outcome(&output), (Some(0), expected.to_owned()), "{}", value.display());
    }
}

#[test]
fn a_rule_about_what_lies_in_a_cache_keeps_it_as_it_is_and_says_so() {
    let place = Place::new("caches-rules");
    fill(&place);
    place.write("home/.npm/_cacache/token", "secret words\n");
    let settings = r#"{"permissions": {"deny": ["Read(~/.npm/_cacache/token)"]}}"#;
    place.write("project/.stockade/settings.json", settings);
    place.write("project/read.sh", "cat ~/.npm/_cacache/token; cp ~/.npm/_cacache/token copy\n");
    let (code, text) = outcome(&place.output(["run", "sh ./read.sh"]));
    let note = format!(
        "stockade: the cache `{}` can be read and not written: a rule matches it or a path below it: ",
        place.home().join(".npm").display()
    );
    assert_eq!((code, text.contains(&note)), (Some(1), true), "{text}");
    assert!(!text.contains("secret words") && !place.project().join("copy").exists(), "{text}");
    let (code, text) = outcome(&place.output(["run", "./install one"]));
    assert_eq!(code, Some(2), "{text}");
    assert_eq!(fs::read_to_string(place.home().join(".npm/_cacache/index")).unwrap(), "host\n");
}

/// Returns the toolchain's own cargo, which needs nothing of a home directory.
fn cargo() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(root.trim()).join("bin/cargo")).filter(|cargo| cargo.exists())
}

#[test]
fn cargo_fetches_a_dependency_that_the_host_does_not_get() {
    let name = "cargo_fetches_a_dependency_that_the_host_does_not_get";
    let Some(cargo) = cargo() else { return skip(name, "there is no cargo") };
    let place = Place::new("caches-cargo");
    let manifest = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n{more}")
    };
    place.write("dependency/Cargo.toml", &manifest("dependency", ""));
    place.write("dependency/src/lib.rs", "");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
        git.args(arguments).current_dir(place.root.join("dependency")).env("HOME", place.home());
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "x"]);
    let url = format!("file://{}", place.root.join("dependency").display());
    let more = format!("[dependencies]\ndependency = {{ git = \"{url}\" }}\n[workspace]\n");
    place.write("project/Cargo.toml", &manifest("user", &more));
    place.write("project/src/lib.rs", "");
    let caches = ["registry", "git"].map(|it| place.home().join(".cargo").join(it));
    let empty = || {
        for cache in &caches {
            let _ = fs::remove_dir_all(cache); // the first time there is none
            fs::create_dir_all(cache).unwrap();
        }
        let _ = fs::remove_file(place.project().join("Cargo.lock"));
    };
    empty();
    let tools = cargo.parent().unwrap().display();
    let search = format!("{tools}:{}", std::env::var("PATH").unwrap());
    let mut plain = Command::new(&cargo);
    plain.arg("fetch").current_dir(place.project()).env("HOME", place.home()).env("PATH", &search);
    let plain = plain.env_remove("CARGO_HOME").output().unwrap();
    assert_eq!(plain.status.code(), Some(0), "{}", outcome(&plain).1);
    assert!(!names(&caches[1]).is_empty());
    empty();
    let run = |session: &str, more: &[&str]| {
        let fixed = ["run", "--session", session, "--", "cargo", "fetch"];
        let mut command = place.stockade(fixed.iter().chain(more));
        outcome(&command.env("PATH", &search).output().unwrap())
    };
    let (code, text) = run("s", &[]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run("s", &["--offline"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run("t", &["--offline"]);
    assert_ne!(code, Some(0), "{text}");
    for cache in caches {
        assert_eq!(names(&cache), Vec::<String>::new());
    }
}
