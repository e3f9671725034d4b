//! The pipeline from request to answer, through the executable: what is decided, what runs, what is left.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::{Place, write_program};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `line` and returns the exit status and the object of `--json`.
fn object(place: &Place, line: &str) -> (Option<i32>, Value) {
    let output = place.output(["run", "--no-daemon", "--json", "--", line]);
    let object = serde_json::from_slice(&output.stdout);
    (output.status.code(), object.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

fn run(place: &Place, line: &str) -> Output {
    place.output(["run", "--no-daemon", "--", line])
}

/// Writes settings of the user.
fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Writes a hook program and settings that run it before every command.
fn hook(place: &Place, script: &str) {
    let path = place.root.join("hook.sh");
    write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    let handler = json!({"type": "command", "command": path});
    user(place, &json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}}));
}

/// Asserts exit status and first line on standard error.
fn check(output: &Output, status: i32, begins: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.starts_with(begins), "`{stderr}` does not begin with `{begins}`");
}

#[test]
fn words_reach_the_program_as_they_are() {
    let place = Place::new("gateway-words");
    let output =
        place.output(["run", "--no-daemon", "--", "printf", "%s|", "a b", "$HOME", "*", "'", ""]);
    assert_eq!(text(&output.stdout), "a b|$HOME|*|'||", "{}", text(&output.stderr));
}

#[test]
fn words_are_judged_like_text() {
    let place = Place::new("gateway-words-deny");
    place.write("project/.stockade/settings.json", r#"{"permissions":{"deny":["Bash(id:*)"]}}"#);
    check(&place.output(["run", "--no-daemon", "--", "id", "-u"]), 120, "stockade: denied `id -u`");
}

#[test]
fn bytes_go_through_unchanged_in_both_directions() {
    let place = Place::new("gateway-bytes");
    let sent: Vec<u8> = (0..300_000_u32).map(|n| (n * 7 % 256) as u8).collect();
    let mut command = place.stockade(["run", "--no-daemon", "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the executable starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = sent.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect("the end");
    writer.join().expect("no panic").expect("all is taken");
    assert!(output.stdout == sent, "{} of {} bytes", output.stdout.len(), sent.len());
}

#[test]
fn long_output_is_shortened_and_kept_in_a_private_file() {
    let place = Place::new("gateway-long");
    let (status, object) = object(&place, "seq 1 100000");
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(status, Some(0));
    assert_eq!(object["output_bytes"], json!(whole.len()));
    assert_eq!((&object["output_lines"], &object["truncated"]), (&json!(100_000), &json!(true)));
    let path = object["spill_path"].as_str().expect("a file");
    assert_eq!(std::fs::read_to_string(path).expect("the file"), whole);
    let mode = std::fs::metadata(path).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = object["output"].as_str().expect("text");
    assert!(output.starts_with("1\n2\n") && output.ends_with("99999\n100000\n"));
    assert!(output.chars().count() < 31_000);
}

#[test]
fn a_hook_that_blocks_keeps_the_command_from_running() {
    let place = Place::new("gateway-hook-deny");
    hook(&place, "echo not on my watch >&2; exit 2");
    let output = run(&place, "echo ran > ran.txt");
    check(&output, 120, "stockade: denied");
    assert!(text(&output.stderr).contains("not on my watch"));
    assert!(!place.project().join("ran.txt").exists());
}

#[test]
fn what_a_hook_puts_in_place_of_the_command_is_judged_and_runs() {
    let place = Place::new("gateway-hook-update");
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "updatedInput": {"command": "echo second"},
    }});
    hook(&place, &format!("printf '%s' '{answer}'"));
    assert_eq!(text(&run(&place, "echo first").stdout), "second\n");
    place.write(
        "project/.stockade/settings.json",
        r#"{"permissions":{"deny":["Bash(echo second)"]}}"#,
    );
    check(&run(&place, "echo first"), 120, "stockade: denied `echo second`");
}

#[test]
fn a_hook_of_an_untrusted_project_never_runs() {
    let place = Place::new("gateway-hook-project");
    let mark = place.root.join("hook-ran");
    let handler = json!({"type": "command", "command": format!("touch '{}'", mark.display())});
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}});
    place.write("project/.stockade/settings.json", &settings.to_string());
    run(&place, "true");
    assert!(!mark.exists());
    // The same hook runs when it is the person's own.
    user(&place, &settings);
    run(&place, "true");
    assert!(mark.exists());
}

#[test]
fn no_command_makes_a_local_file_the_persons_own() {
    let place = Place::new("gateway-hook-local");
    let mark = place.root.join("hook-ran");
    let handler = json!({"type": "command", "command": format!("touch '{}'", mark.display())});
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]},
        "sandbox": {"enabled": false}, "permissions": {"allow": ["Bash(mkfifo:*)"]}});
    place.write("project/.stockade/settings.local.json", &settings.to_string());
    for line in [
        "git init -q .; git add -f .stockade",
        "git rm -q --cached .stockade/settings.local.json",
        "git read-tree --empty",
        "rm -f .git/index",
        "rm -rf .git",
        "true",
    ] {
        run(&place, line);
        assert!(!mark.exists(), "{line}");
    }
    let judged = place.output(["check", "--no-daemon", "--json", "--", "mkfifo a"]);
    let judged = text(&judged.stdout);
    assert!(!judged.contains("Bash(mkfifo:*)"), "{judged}");
}

#[test]
fn secrets_and_shell_traps_are_not_in_the_environment() {
    let place = Place::new("gateway-environment");
    place.write("project/trap.sh", "echo trapped");
    let mut command = place.stockade(["run", "--no-daemon", "--", "env"]);
    command.env("SERVICE_TOKEN", "hidden-value").env("PLAIN", "visible-value");
    command.env("BASH_ENV", place.project().join("trap.sh"));
    command.env("HARMLESS", "ghp_0123456789abcdefghij");
    let seen = text(&command.output().expect("the executable starts").stdout);
    assert!(seen.contains("PLAIN=visible-value") && seen.contains("STOCKADE=1"), "{seen}");
    for absent in ["hidden-value", "BASH_ENV", "trapped", "ghp_"] {
        assert!(!seen.contains(absent), "{absent} in {seen}");
    }
}

#[test]
fn no_process_of_a_run_but_the_gateway_holds_the_environment_and_arguments_of_the_call() {
    let place = Place::new("gateway-wiped");
    let line = "echo ready; read x; cat /proc/1/cmdline | tr -d '\\0' | wc -c";
    let mut command = place.stockade(["run", "--no-daemon", "--", line]);
    command.env("CALL_TOKEN", "mark-of-the-call").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gateway = command.spawn().expect("stockade starts");
    let mut output = BufReader::new(gateway.stdout.take().expect("a pipe"));
    let mut read = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        line
    };
    assert_eq!(read(), "ready\n");
    // The gateway, whose environment it is, shows that the mark can be found.
    assert_eq!(processes_with("mark-of-the-call"), [gateway.id()]);
    writeln!(gateway.stdin.take().expect("a pipe")).expect("it reads");
    assert_eq!(read().trim(), "0");
    assert!(gateway.wait().expect("it ends").success());
}

/// Returns the processes in whose environment `mark` stands, as far as they can be looked at.
fn processes_with(mark: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |number: &u32| {
        let bytes = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        text(&bytes).contains(mark)
    };
    numbers.filter(holds).collect()
}

#[test]
fn a_time_limit_ends_everything_that_was_started() {
    let place = Place::new("gateway-timeout");
    // No other run of the tests has such a command.
    let nap = format!("sleep 9{:07}", std::process::id());
    let line = format!("setsid {nap} & trap '' TERM; echo started; {nap}; {nap}");
    let start = Instant::now();
    let output = place.output(["run", "--no-daemon", "--timeout", "5s", "--", &line]);
    check(&output, 124, "stockade: timed out");
    assert_eq!(text(&output.stdout), "started\n");
    assert!(start.elapsed() < Duration::from_secs(60));
    let left = std::process::Command::new("pgrep").args(["-f", &nap]).output();
    match left {
        Ok(left) => assert_eq!(text(&left.stdout), ""),
        Err(error) => {
            stockade_tests::skip("what a command leaves", &format!("pgrep does not start: {error}"))
        }
    }
}

#[test]
fn the_private_temporary_directory_is_gone_afterwards() {
    let place = Place::new("gateway-tmp");
    let output = run(&place, "echo x > $TMPDIR/a && mkdir -m 000 /tmp/closed && cat /tmp/a");
    assert_eq!(text(&output.stdout), "x\n", "{}", text(&output.stderr));
    let left = std::fs::read_dir(place.state().join("tmp")).expect("the folder").count();
    assert_eq!(left, 0);
}

#[test]
fn the_temporary_directory_of_a_session_stays_with_it() {
    let place = Place::new("gateway-session");
    let in_session = |session: &str, line: &str| {
        text(&place.output(["run", "--no-daemon", "--session", session, "--", line]).stdout)
    };
    assert_eq!(in_session("one", "echo x > /tmp/a; cat /tmp/a"), "x\n");
    assert_eq!(in_session("one", "cat /tmp/a"), "x\n");
    assert_eq!(
        in_session("two", "ls /tmp/a 2>&1 | wc -l; test ! -e /tmp/a && echo none"),
        "1\nnone\n"
    );
}

#[test]
fn what_stands_in_the_place_of_settings_or_state_is_one_clear_refusal() {
    let place = Place::new("gateway-odd-files");
    let settings = place.project().join(".stockade/settings.json");
    std::fs::create_dir_all(&settings).expect("a folder");
    check(&run(&place, "true"), 122, "stockade: the settings file");
    std::fs::remove_dir(&settings).expect("the folder goes");
    let made = std::process::Command::new("mkfifo").arg(&settings).status();
    assert!(made.expect("mkfifo starts").success());
    check(&run(&place, "true"), 122, "stockade: the settings file");
    std::fs::remove_file(&settings).expect("the pipe goes");
    place.write("not-a-folder", "");
    let state = place.root.join("not-a-folder");
    let mut command = place.stockade(["run", "--no-daemon", "--state-dir"]);
    command.arg(&state).args(["--", "true"]);
    let output = command.output().expect("the executable starts");
    check(&output, 122, "stockade: the state directory");
}

#[test]
fn runs_at_the_same_time_do_not_disturb_each_other() {
    let place = Place::new("gateway-parallel");
    let started: Vec<_> = (0..4)
        .map(|number| {
            let line =
                format!("echo {number} > {number}.txt; cat {number}.txt; echo x > /tmp/same");
            let mut command = place.stockade(["run", "--no-daemon", "--", &line]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for (number, child) in started.into_iter().enumerate() {
        let output = child.wait_with_output().expect("the end");
        let seen = (output.status.code(), text(&output.stdout));
        assert_eq!(seen, (Some(0), format!("{number}\n")), "{}", text(&output.stderr));
    }
}

#[test]
fn a_question_without_a_person_runs_nothing() {
    let place = Place::new("gateway-ask");
    user(&place, &json!({"permissions": {"ask": ["Bash(touch:*)"]}}));
    check(&run(&place, "touch asked.txt"), 121, "stockade: needs a person: `touch asked.txt`");
    assert!(!place.project().join("asked.txt").exists());
}

#[test]
fn the_repository_can_be_worked_in_but_not_booby_trapped() {
    let place = Place::new("gateway-git");
    if std::process::Command::new("git").arg("--version").output().is_err() {
        return stockade_tests::skip("the_repository_can_be_worked_in", "git is not installed");
    }
    let made = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(place.project())
        .status();
    assert!(made.expect("git starts").success());
    place.write(
        "project/work.sh",
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline | wc -l\n\
         echo x > .git/hooks/post-commit\ngit config core.fsmonitor x\n\
         echo x > .git/config; mv .git other; echo end\n",
    );
    let before = std::fs::read(place.project().join(".git/config")).expect("the file");
    let output = run(&place, "bash work.sh");
    assert_eq!(text(&output.stdout), "1\nend\n", "{}", text(&output.stderr));
    assert_eq!(std::fs::read(place.project().join(".git/config")).expect("the file"), before);
    assert!(!place.project().join(".git/hooks/post-commit").exists());
}

#[test]
fn what_is_missing_in_the_repository_cannot_come_into_being() {
    let place = Place::new("planted");
    let acts = [
        ("git directory elsewhere", "mkdir -p x; echo ../x > .git/commondir"),
        ("its place taken by a link", "ln -s ../x .git/commondir"),
        ("its place taken by a rename", "echo ../x > y; mv y .git/commondir"),
        ("configuration of a worktree", "echo x > .git/config.worktree"),
        ("objects elsewhere", "mkdir -p .git/objects/info; echo x > .git/objects/info/alternates"),
        (
            "objects elsewhere, by rename",
            "mkdir -p i; echo x > i/alternates; rm -rf .git/objects/info; mv -T i .git/objects/info",
        ),
        ("settings of a build tool", "mkdir -p .cargo; echo x > .cargo/config.toml"),
        ("the folder around them", "mkdir -p c; echo x > c/config.toml; mv -T c .cargo"),
        ("git settings deeper down", "mkdir -p s/.config/git; echo x > s/.config/git/config"),
    ];
    for (what, act) in acts {
        place.write("project/act.sh", &format!("set -e\n{act}\n"));
        let output = place.output(["run", "--no-daemon", "--", "bash act.sh"]);
        assert!(!output.status.success(), "{what}: {}", text(&output.stderr));
        // The act succeeds without the gate.
        let beside = place.root.join("beside");
        place.repository(&beside);
        let plain = std::process::Command::new("bash")
            .args(["-c", &format!("set -e\n{act}")])
            .current_dir(&beside)
            .output();
        assert!(plain.expect("bash").status.success(), "{what}");
        std::fs::remove_dir_all(&beside).expect("what the act made");
    }
    let project = place.project();
    for path in [
        ".git/commondir",
        ".git/config.worktree",
        ".git/objects/info/alternates",
        ".cargo/config.toml",
    ] {
        assert!(project.join(path).symlink_metadata().is_err(), "{path}");
    }
}
