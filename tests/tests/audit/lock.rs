//! The lock of the log's writers: taken away, replaced, copied, and fought for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, is_root, skip};

use super::{log, run, runs, text, verifies};

#[test]
fn a_gateway_takes_a_lock_that_was_replaced_before_it_appends() {
    let place = Place::new("lock-lost");
    let gateway = Gateway::start(&place);
    runs(&place);
    let lock = place.state().join("audit/lock");
    fs::remove_file(&lock).expect("the lock");
    runs(&place);
    fs::write(lock.with_extension("new"), "").expect("a file");
    fs::rename(lock.with_extension("new"), &lock).expect("its name");
    runs(&place);
    assert_eq!(gateway.end(), Some(0));
    runs(&place);
    verifies(&place);
}

/// Something that a person or a program may put in the place of the lock file.
type Deed = fn(&Path);

const DEEDS: [(&str, Deed); 2] = [
    ("a link", |lock| {
        fs::rename(lock, lock.with_file_name("../elsewhere")).expect("the lock");
        symlink("../elsewhere", lock).expect("a link");
    }),
    ("a directory", |lock| {
        fs::remove_file(lock).expect("the lock");
        fs::create_dir(lock).expect("a directory");
    }),
];

#[test]
fn a_gateway_whose_lock_is_no_file_runs_nothing() {
    for (what, deed) in DEEDS {
        let place = Place::new("lock-kind");
        let gateway = Gateway::start(&place);
        runs(&place);
        let lock = place.state().join("audit/lock");
        deed(&lock);
        // Nobody guesses which lock others take: what is no file stays, and refuses.
        for _ in 0..2 {
            let (output, ran) = run(&place);
            let told = text(&output.stderr);
            assert_eq!((output.status.code(), ran), (Some(122), false), "{what}: {told}");
            assert!(told.starts_with(&format!("stockade: audit log {}", log(&place))), "{told}");
        }
        let removed =
            if lock.is_symlink() { fs::remove_file(&lock) } else { fs::remove_dir(&lock) };
        removed.expect("it goes");
        runs(&place);
        assert_eq!(gateway.end(), Some(0), "{what}");
        verifies(&place);
    }
}

#[test]
fn a_copied_log_without_its_state_is_not_continued() {
    let place = Place::new("lock-copy");
    let gateway = Gateway::start(&place);
    runs(&place);
    let copy = place.root.join("copy");
    let copied = Command::new("cp").arg("-a").arg(place.state().join("audit")).arg(&copy).status();
    assert!(copied.expect("cp starts").success());
    let before = fs::read(copy.join("00000001.jsonl")).expect("a segment");
    let copy_name = copy.to_str().expect("a path");
    let output =
        place.output(["run", "--no-daemon", "--audit-dir", copy_name, "--", "touch ran-on-copy"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(122), "{told}");
    assert!(told.contains("is missing or altered"), "{told}");
    assert!(!place.project().join("ran-on-copy").exists());
    assert_eq!(fs::read(copy.join("00000001.jsonl")).expect("a segment"), before);
    runs(&place);
    assert_eq!(gateway.end(), Some(0));
    verifies(&place);
}

#[test]
fn two_writers_that_are_killed_while_the_lock_is_taken_away_lose_no_acknowledged_record() {
    let place = Place::new("lock-fight");
    runs(&place);
    let lock = place.state().join("audit/lock");
    let mut acknowledged = Vec::new();
    let mut killed = 0;
    for round in 0..12_u32 {
        let mark = |number: u32| format!("mark-{round}-{number}");
        let start = |number: u32| {
            let mut command =
                place.stockade(["run", "--no-daemon", "--", &format!("echo {}", mark(number))]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
        };
        let mut children = [start(0), start(1), start(2)];
        if round % 2 == 0 {
            let _ = fs::remove_file(&lock); // it may be gone already
        }
        // Another moment each round, in steps of a few milliseconds over the length of a call.
        std::thread::sleep(Duration::from_millis(u64::from(round) * 7));
        let _ = children[0].kill();
        for (number, child) in (0..).zip(&mut children) {
            let status = child.wait().expect("it ends");
            match status.code() {
                Some(0) => acknowledged.push(mark(number)),
                _ => killed += 1,
            }
        }
    }
    runs(&place);
    verifies(&place);
    let stored = text(&place.output(["audit", "tail", "-n", "1000", "--json"]).stdout);
    for mark in &acknowledged {
        let found =
            stored.lines().filter(|line| line.contains(&format!(r#"echo {mark}""#))).count();
        assert!(found > 0, "{mark} was acknowledged and has no record");
    }
    assert!(acknowledged.len() >= 12 && killed > 0, "{acknowledged:?}, {killed} killed");
}

#[test]
fn a_link_above_the_state_directory_is_followed() {
    const TEST: &str = "a_link_above_the_state_directory_is_followed";
    let place = Place::new("linked-state");
    fs::create_dir_all(place.root.join("disk/state")).expect("a folder");
    symlink("disk/state", place.root.join("link")).expect("a link");
    let check = |make: &dyn Fn(&[&str]) -> Command| {
        for arguments in [&["run", "--no-daemon", "--", "echo fine"][..], &["audit", "verify"]] {
            let mut command = make(arguments);
            command.env("XDG_STATE_HOME", place.root.join("link"));
            let output = command.output().expect("it starts");
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        }
        assert!(place.root.join("disk/state/stockade/audit/00000001.jsonl").exists());
    };
    check(&|arguments| place.stockade(arguments));
    if !is_root() {
        return skip(TEST, "only root can become another user");
    }
    fs::remove_dir_all(place.root.join("disk/state/stockade")).expect("the state of root");
    check(&|arguments| place.stockade_as(65_534, arguments));
}
