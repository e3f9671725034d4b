//! The packages: each is made by its one command, installed, used and removed.

#[path = "system/machine.rs"]
#[allow(dead_code, reason = "the tests of the service use the rest")]
mod machine;
#[path = "packages/upgrade.rs"]
mod upgrade;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use stockade_tests::{Place, root, skip, stockade};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `program` and returns what it printed, if it succeeded.
fn done(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    output
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Makes the package of `format` and returns it.
fn made(place: &Place, format: &str) -> PathBuf {
    made_as(place, format, env!("CARGO_PKG_VERSION"))
}

/// The same with another version of the package.
fn made_as(place: &Place, format: &str, version: &str) -> PathBuf {
    let script = root().join("packaging/package");
    let folder = place.root.join("packages");
    let mut command = Command::new("bash");
    command.arg(script).arg(format).arg(stockade()).arg(folder);
    command.env("VERSION", version);
    // Fast, not small (dpkg-deb(1)).
    command.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    let output = command.output().expect("bash");
    assert!(output.status.success(), "{format}: {}", text(&output.stderr));
    let package = PathBuf::from(text(&output.stdout).trim_end());
    assert!(package.is_file(), "{}", package.display());
    package
}

/// All files below `folder`, without it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut waiting, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).expect("a folder").flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => waiting.push(entry.path()),
                false => {
                    found.push(entry.path().strip_prefix(folder).expect("below").to_owned());
                }
            }
        }
    }
    found.sort();
    found
}

/// Asserts that what lies below `prefix` is all that a user needs, and works.
fn assert_complete(place: &Place, prefix: &Path) {
    let gate = prefix.join("bin/stockade");
    let by_hand = |arguments: &[&str]| {
        let plain = place.stockade([""; 0]);
        let mut command = Command::new(&gate);
        command.args(arguments).current_dir(place.project()).env_clear();
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.output().expect("the installed executable starts")
    };
    let version = format!("stockade {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&by_hand(&["--version"]).stdout), version);
    let ran = by_hand(&["run", "--no-daemon", "--", "echo hello; echo x > ~/outside"]);
    assert_eq!(text(&ran.stdout), "hello\n", "{}", text(&ran.stderr));
    assert!(!place.home().join("outside").exists(), "the installed executable confines nothing");
    let listed = text(&by_hand(&["man", "--list"]).stdout);
    let mut pages: Vec<String> =
        listed.lines().map(|command| format!("stockade-{command}.1")).collect();
    pages.push("stockade.1".to_owned());
    pages.sort();
    let found: Vec<String> = files(&prefix.join("share/man/man1"))
        .iter()
        .map(|file| file.display().to_string().trim_end_matches(".gz").to_owned())
        .collect();
    assert_eq!(found, pages);
    let page = fs::read_to_string(prefix.join("share/man/man1/stockade.1")).expect("the page");
    for section in [".SH \"EXIT STATUS\"", ".SH FILES"] {
        assert!(page.contains(section), "stockade.1 has no {section}");
    }
    for file in [
        "share/bash-completion/completions/stockade",
        "share/zsh/site-functions/_stockade",
        "share/fish/vendor_completions.d/stockade.fish",
        "share/doc/stockade/README.md",
    ] {
        let content = fs::read_to_string(prefix.join(file));
        assert!(content.is_ok_and(|it| it.contains("stockade")), "{file}");
    }
    let schema = fs::read(prefix.join("share/stockade/settings.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    assert!(schema["properties"]["permissions"].is_object(), "{schema}");
}

/// Both commands of the page "Getting started", but for the profile, in a build directory of their own.
#[test]
fn both_executables_are_installed_from_a_clone() {
    let place = Place::new("cargo install");
    let prefix = place.root.join("installed");
    let target = stockade().parent().and_then(Path::parent).expect("the folder of the build");
    for package in ["gateway", "agent"] {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["install", "--locked", "--offline", "--debug", "--path", package]);
        cargo.arg("--root").arg(&prefix).arg("--target-dir").arg(target.join("installs"));
        cargo.current_dir(root());
        let output = cargo.output().expect("cargo");
        assert!(output.status.success(), "{package}: {}", text(&output.stderr));
    }
    let installed = files(&prefix.join("bin"));
    assert_eq!(installed, ["stockade", "stockade-agent"].map(PathBuf::from));
    let run = |program: &str, arguments: &[&str]| {
        let plain = place.stockade([""; 0]);
        let mut command = Command::new(prefix.join("bin").join(program));
        command.args(arguments).current_dir(place.project()).env_clear();
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        text(&command.output().expect("the installed executable starts").stdout)
    };
    assert_eq!(run("stockade", &["run", "--no-daemon", "--", "echo hello"]), "hello\n");
    let version = run("stockade-agent", &["--version"]);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}

#[test]
fn the_archive_is_unpacked_and_used() {
    let place = Place::new("package tar");
    let package = made(&place, "tar");
    let unpacked = place.root.join("unpacked");
    fs::create_dir(&unpacked).expect("a folder");
    done("tar", &["-C", &unpacked.display().to_string(), "-xzf", &package.display().to_string()]);
    let version = env!("CARGO_PKG_VERSION");
    assert_complete(&place, &unpacked.join(format!("stockade-{version}")));
}

#[test]
fn the_debian_package_is_installed_and_removed() {
    if !is_installed("dpkg-deb") {
        return skip("the_debian_package_is_installed_and_removed", "`dpkg-deb` is not installed");
    }
    let place = Place::new("package deb");
    let package = made(&place, "deb");
    let system = place.root.join("system");
    for folder in ["info", "updates"] {
        fs::create_dir_all(system.join("var/lib/dpkg").join(folder)).expect("a folder");
    }
    fs::write(system.join("var/lib/dpkg/status"), "").expect("a file");
    let dpkg = |action: &[&str]| {
        let own = [
            format!("--instdir={}", system.display()),
            format!("--admindir={}", system.join("var/lib/dpkg").display()),
            format!("--log={}", place.root.join("dpkg.log").display()),
        ];
        let own = own.iter().map(String::as_str);
        let forced = [
            "--force-script-chrootless",
            "--force-depends",
            "--force-not-root",
            "--force-bad-path",
        ];
        done("dpkg", &own.chain(forced).chain(action.iter().copied()).collect::<Vec<_>>())
    };
    dpkg(&["--install", &package.display().to_string()]);
    assert_complete(&place, &system.join("usr"));
    dpkg(&["--remove", "stockade"]);
    assert!(!system.join("usr").exists(), "left: {:?}", files(&system.join("usr")));
}

#[test]
fn the_rpm_package_is_installed_and_removed() {
    let test = "the_rpm_package_is_installed_and_removed";
    if !is_installed("rpmbuild") {
        return skip(test, "`rpmbuild` is not installed");
    }
    let place = Place::new("package-rpm");
    let package = made(&place, "rpm");
    let scripts = text(&done("rpm", &["-qp", "--scripts", &package.display().to_string()]).stdout);
    for line in ["systemctl try-restart stockade-recorder.service", "--undo --keep-log"] {
        assert!(scripts.contains(line), "{scripts}");
    }
    if !stockade_tests::is_root() {
        return skip(test, "only root can install a package into another root directory");
    }
    let system = place.root.join("system");
    fs::create_dir(&system).expect("a folder");
    let root = format!("--root={}", system.display());
    // A new root has no shell for the scripts.
    let own = [&root, "--nodeps", "--noscripts"];
    done("rpm", &[&own[..], &["--install", &package.display().to_string()]].concat());
    assert_complete(&place, &system.join("usr"));
    done("rpm", &[&own[..], &["--erase", "stockade"]].concat());
    assert!(!system.join("usr/bin/stockade").exists());
    assert_eq!(files(&system.join("usr/share/man")), Vec::<PathBuf>::new());
}

#[test]
fn an_unknown_format_is_told() {
    let script = root().join("packaging/package");
    let output =
        Command::new("bash").arg(script).args(["zip", "/bin/true"]).output().expect("bash");
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert_eq!(told, "packaging/package: `zip` is not one of tar, static, deb, rpm, container\n");
}
