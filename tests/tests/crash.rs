//! Killed at any moment, stockade leaves no process of a command behind and a log that verifies.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stockade_tests::{Place, until};

/// Processes of the machine whose command line holds `mark`.
fn processes_with(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) {
            found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// A number from a seed: each call another one, the same sequence each time.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn verify(place: &Place) -> String {
    let output = place.output(["audit", "verify"]);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0), "{text}");
    text
}

#[test]
fn killing_stockade_ends_its_command_and_the_log_verifies() {
    let place = Place::new("crash");
    let mut seed = 0x5eed_1234_u64;
    for round in 0..25_u64 {
        // The mark is an argument of a daemonised grandchild; the file says that the command has begun.
        let mark = format!("31{:05}.{round}", std::process::id());
        let text = format!(
            "(setsid sleep {mark} &) ; (setsid sleep {mark} &) ; touch begun-{round}; sleep {mark}"
        );
        let mut child = place
            .stockade(["run", "--no-daemon", "--", &text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("stockade starts");
        let begun = place.project().join(format!("begun-{round}"));
        if round % 2 == 0 {
            until("the command begins", || begun.exists());
        } else {
            let pause = Duration::from_micros(next(&mut seed) % 30_000);
            let start = Instant::now();
            while start.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("stockade is gone");
        until(&format!("round {round}: {:?}", processes_with(&mark)), || {
            processes_with(&mark).is_empty()
        });
    }
    verify(&place);
    let output = place.output(["run", "--no-daemon", "--", "echo after"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "after\n");
    verify(&place);
}

#[test]
fn i9_killing_every_process_of_stockade_at_once_leaves_nothing() {
    let place = Place::new("crash-all");
    for round in 0..10_u64 {
        let mark = format!("32{:05}.{round}", std::process::id());
        let text = format!("(setsid sleep {mark} &) ; touch begun-{round}; sleep {mark}");
        let mut child = place
            .stockade(["run", "--no-daemon", "--", &text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("stockade starts");
        let begun = place.project().join(format!("begun-{round}"));
        until("the command begins", || begun.exists());
        // The group holds stockade, the scan worker and the monitor, all of them ours.
        let group = format!("-{}", child.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status().expect("kill");
        assert!(killed.success());
        child.wait().expect("stockade is gone");
        until(&format!("round {round}: {:?}", processes_with(&mark)), || {
            processes_with(&mark).is_empty()
        });
    }
    verify(&place);
}

#[test]
fn what_ran_has_a_record_even_when_stockade_dies_at_the_effect() {
    let place = Place::new("crash-effect");
    for round in 0..10_u64 {
        let effect = format!("effect-{}-{round}", std::process::id());
        let text = format!("touch {effect}; sleep 60");
        let mut child = place
            .stockade(["run", "--no-daemon", "--", &text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("stockade starts");
        until("the effect", || place.project().join(&effect).exists());
        child.kill().expect("SIGKILL");
        child.wait().expect("stockade is gone");
        let recorded =
            records(&place.state().join("audit")).iter().any(|line| line.contains(&effect));
        assert!(recorded, "round {round}: {effect} has no record");
    }
    verify(&place);
}

#[test]
fn watchers_that_hang_hold_nobody_up_beyond_the_time_limit_and_a_while() {
    let place = Place::new("crash-hang");
    let text = "exec 8>lock; flock -x 8; touch begun; sleep 600";
    let child = place
        .stockade(["run", "--no-daemon", "--json", "--timeout", "6s", "--", text])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("stockade starts");
    until("the command begins", || place.project().join("begun").exists());
    // The monitor is one of them.
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(path).expect("its children");
    let stopped = Command::new("kill").arg("-STOP").args(children.split_whitespace()).status();
    assert!(stopped.expect("kill").success());
    let (start, output) = (Instant::now(), child.wait_with_output().expect("an answer"));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["timed_out"], true, "{answer}");
    assert_eq!(answer["violations"][0]["kind"], "process", "{answer}");
    let rule = answer["violations"][0]["rule"].as_str();
    assert!(rule.is_some_and(|rule| rule.contains("were killed")), "{answer}");
    let recorded =
        records(&place.state().join("audit")).iter().any(|it| it.contains("were killed"));
    assert!(recorded, "the log says nothing of it");
    let mut lock = Command::new("flock");
    let ended = lock.args(["-w", "20"]).arg(place.project().join("lock")).arg("true").status();
    assert!(ended.expect("flock").success(), "the command still lives");
    verify(&place);
}

/// Lines of the segments of the log, whatever they hold.
fn records(log: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(log).expect("the log").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
            let text = std::fs::read(entry.path()).expect("a segment");
            lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        }
    }
    lines
}

/// Makes more than 20,000 directories, one in another, below the folder it is given. Each tenth part is made with
/// short paths and then moved below the others.
const DEEP: &str = "import os, sys
base = os.path.abspath(sys.argv[1])
def chain(name):
    os.chdir(base); os.mkdir(name); os.chdir(name)
    for _ in range(1900): os.mkdir('d'); os.chdir('d')
chain('x')
for _ in range(10):
    chain('y'); os.rename(base + '/x', 'x'); os.chdir(base); os.rename('y', 'x')
os.chmod('x', 0)
print('made')";

#[test]
fn twenty_thousand_directories_in_one_another_do_not_end_stockade() {
    let place = Place::new("deep");
    place.write("project/deep.py", DEEP);
    let outside = place.root.join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    let script = place.project().join("deep.py");
    let made = Command::new("python3").arg(&script).arg(&outside).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&made.stdout), "made\n", "it can be made outside");
    let rights = Command::new("chmod").arg("700").arg(outside.join("x")).status();
    let removed = Command::new("rm").arg("-rf").arg(&outside).status();
    assert!(rights.expect("chmod").success() && removed.expect("rm").success());
    let run = |text: &str| {
        let output = place.output(["run", "--no-daemon", "--", text]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{told}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(run("python3 deep.py /tmp"), "made\n");
    verify(&place);
    let left = || std::fs::read_dir(place.state().join("tmp")).expect("the folder").count();
    // Each call removes for a limited time; a slow disk needs more of them.
    let mut calls = 0;
    while left() > 0 {
        assert_eq!(run("echo fine"), "fine\n");
        calls += 1;
        assert!(calls < 200, "it is never gone");
    }
    assert_eq!(run("echo fine"), "fine\n");
    assert_eq!(left(), 0);
    verify(&place);
}
