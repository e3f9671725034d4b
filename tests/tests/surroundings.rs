//! The main job in the surroundings that people really have: as root, as an ordinary user, in somebody else's
//! clone, without git, with odd paths, with a nearly empty environment.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use stockade_tests::{Place, give, is_root, skip};

/// A line with a pipeline, a redirection and a git command.
const LINE: &str =
    "git --version 2>&1 | tee seen.txt | wc -l; printf 'done\\n' > end.txt; cat end.txt";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that `LINE` ran: its output, its exit status, its files.
fn assert_ran(output: &Output, project: &Path) {
    let seen = (output.status.code(), text(&output.stdout));
    assert_eq!(seen, (Some(0), "1\ndone\n".to_owned()), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(project.join("end.txt")).expect("the file"), "done\n");
}

#[test]
fn it_runs_as_the_user_who_tests() {
    let place = Place::new("plain");
    assert_ran(&place.output(["run", "--no-daemon", "--", LINE]), &place.project());
}

#[test]
fn it_runs_as_an_ordinary_user() {
    let name = "it_runs_as_an_ordinary_user";
    if !is_root() {
        return skip(name, "the tests run as an ordinary user already; the test above is this one");
    }
    let place = Place::new("ordinary");
    let mut command = place.stockade_as(65534, ["run", "--no-daemon", "--", LINE]);
    assert_ran(&command.output().expect("setpriv"), &place.project());
    let owner = std::fs::metadata(place.project().join("end.txt")).expect("the file").uid();
    assert_eq!(owner, 65534);
}

#[test]
fn it_runs_as_whom_sudo_makes_it() {
    let name = "it_runs_as_whom_sudo_makes_it";
    if !is_root() {
        return skip(name, "only root needs no password for `sudo -u`");
    }
    if Command::new("sudo").arg("--version").output().is_err() {
        return skip(name, "sudo is not installed");
    }
    let place = Place::new("sudo");
    let line = format!("{LINE}; id -u");
    let plain = place.stockade_as(65534, ["run", "--no-daemon", "--", &line]);
    // Behind `setpriv`, its options and the program stands the call of stockade.
    let words = plain.get_args().skip_while(|word| !word.to_string_lossy().contains('/'));
    let mut command = Command::new("sudo");
    command.args(["-n", "-u", "#65534", "-g", "#65534", "env"]);
    for (key, value) in plain.get_envs() {
        let value = value.unwrap_or_default();
        command.arg(format!("{}={}", key.to_string_lossy(), value.to_string_lossy()));
    }
    let output = command.args(words).current_dir(place.project()).output().expect("sudo");
    let seen = (output.status.code(), text(&output.stdout));
    assert_eq!(seen, (Some(0), "1\ndone\n65534\n".to_owned()), "{}", text(&output.stderr));
    // Variables of root that sudo leaves lead to root's files: a refusal that names them.
    let mut command = place.stockade_as(65534, ["run", "--no-daemon", "--", "touch made"]);
    let closed = place.root.join("closed");
    std::fs::create_dir_all(closed.join(".config/stockade")).expect("a folder");
    std::fs::write(closed.join(".config/stockade/settings.json"), "{}").expect("settings");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let output = command.env("HOME", &closed).output().expect("setpriv");
    assert_eq!(output.status.code(), Some(122), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("closed/.config/stockade"), "{}", text(&output.stderr));
    assert!(!place.project().join("made").exists());
}

#[test]
fn root_runs_it_in_the_clone_of_somebody_else() {
    let name = "root_runs_it_in_the_clone_of_somebody_else";
    if !is_root() {
        return skip(
            name,
            "only root can work in a clone that another user owns and others cannot write",
        );
    }
    let place = Place::new("foreign");
    give(&place.project(), 12345);
    for _ in 0..2 {
        assert_ran(&place.output(["run", "--no-daemon", "--", LINE]), &place.project());
    }
}

#[test]
fn without_git_the_git_part_says_not_found() {
    let place = Place::new("no-git");
    let programs = place.root.join("bin");
    std::fs::create_dir(&programs).expect("a folder");
    for program in ["tee", "wc", "cat", "bash"] {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
        let found = found.iter().find(|path| path.exists()).expect("a usual program");
        std::os::unix::fs::symlink(found, programs.join(program)).expect("a link");
    }
    let mut command = place.stockade(["run", "--no-daemon", "--", LINE]);
    command.env("PATH", &programs);
    let output = command.output().expect("the executable starts");
    assert_ran(&output, &place.project());
    let seen = std::fs::read_to_string(place.project().join("seen.txt")).expect("the file");
    assert!(seen.contains("git: command not found"), "{seen}");
}

#[test]
fn it_runs_in_a_folder_with_blanks_and_other_scripts() {
    let place = Place::new("odd");
    let project = place.root.join("a b  ü 世界 'x' \"y\"");
    place.repository(&project);
    let mut command = place.stockade(["run", "--no-daemon", "--", LINE]);
    let output = command.current_dir(&project).output().expect("the executable starts");
    assert_ran(&output, &project);
}

#[test]
fn it_runs_with_a_nearly_empty_environment() {
    let place = Place::new("bare");
    let mut command = place.stockade(["run", "--no-daemon", "--state-dir"]);
    command.arg(place.root.join("state/bare")).args(["--", LINE]).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    assert_ran(&command.output().expect("the executable starts"), &place.project());
}

#[test]
fn exit_statuses_and_signals_come_back() {
    let place = Place::new("status");
    for (line, status) in
        [("exit 7", 7), ("kill -TERM $$", 143), ("false", 1), ("no-such-program-here", 127)]
    {
        let output = place.output(["run", "--no-daemon", "--", line]);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn credentials_are_unreadable_and_the_outside_unwritable() {
    let place = Place::new("defaults");
    place.write("home/.ssh/id_ed25519", "secret-key");
    place.write("home/.netrc", "machine x password secret-key");
    place.write("home/notes.txt", "plain");
    std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    // The acts succeed without the gate.
    let acts = [
        ("cat ~/.ssh/id_ed25519", "secret-key"),
        ("cat ~/.netrc", "machine x password secret-key"),
        ("echo x > ~/outside.txt && echo wrote", "wrote\n"),
    ];
    for (act, expected) in acts {
        let plain = Command::new("bash")
            .args(["-c", act])
            .env("HOME", place.home())
            .output()
            .expect("bash");
        assert_eq!(text(&plain.stdout), expected, "{act}");
    }
    std::fs::remove_file(place.root.join("home/outside.txt")).expect("what the act wrote");
    // A program that no rule knows does them: the kernel refuses, not a reading of the text.
    for (act, _) in acts {
        place.write("project/act.sh", act);
        let output = place.output(["run", "--no-daemon", "--", "bash act.sh"]);
        assert!(
            !output.status.success(),
            "{act}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "", "{act}");
    }
    assert!(!place.home().join("outside.txt").exists());
    let output = place.output(["run", "--no-daemon", "--", "cat ~/notes.txt"]);
    assert_eq!(text(&output.stdout), "plain", "{}", text(&output.stderr));
}
