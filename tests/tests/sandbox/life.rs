//! Beginning and end: exit codes, signals, stopping, and that nothing survives.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::place::{Place, as_root_and_user, run, start};

#[test]
fn exit_codes_and_signals_pass_through() {
    as_root_and_user("life::exit_codes_and_signals_pass_through", || {
        let place = Place::new("exit");
        for (script, code, signal) in [
            ("true", Some(0), None),
            ("exit 7", Some(7), None),
            ("no-such-program", Some(127), None),
            ("kill -TERM $$", None, Some(15)),
            ("kill -SEGV $$", None, Some(11)),
            ("kill -9 $$", None, Some(9)),
        ] {
            for confine in [true, false] {
                let mut spec = place.spec(script);
                spec.confine = confine;
                let ran = run(&spec).unwrap();
                assert_eq!((ran.exit.code, ran.exit.signal), (code, signal), "{script}");
            }
        }
    });
}

#[test]
fn usage_is_told() {
    let place = Place::new("usage");
    let ran = run(&place.spec("for ((i = 0; i < 200000; i++)); do :; done")).unwrap();
    assert!(ran.exit.user > Duration::from_millis(20), "{:?}", ran.exit);
    assert!(ran.exit.max_rss_kib > 500, "{:?}", ran.exit);
}

/// A script that starts a daemon of its own session, tells its lock, and goes on.
const DAEMON: &str = "exec 8>lock; flock -x 8; setsid sleep 1000 < /dev/null > /dev/null 2>&1 & \
     exec 8>&-; echo ready;";

/// Waits until nothing holds the lock that the daemon inherited.
fn wait_for_the_end_of_the_daemon(place: &Place) {
    let lock = place.project.join("lock");
    let status = Command::new("flock").args(["-w", "20"]).arg(&lock).arg("true").status().unwrap();
    assert!(status.success(), "the daemon still lives");
}

#[test]
fn a_daemon_ends_with_the_command() {
    as_root_and_user("life::a_daemon_ends_with_the_command", || {
        for confine in [true, false] {
            let place = Place::new("daemon");
            let mut spec = place.spec(&format!("{DAEMON} exit 0"));
            spec.confine = confine;
            assert_eq!(run(&spec).unwrap().exit.code, Some(0));
            wait_for_the_end_of_the_daemon(&place);
        }
    });
}

fn first_line(reader: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while reader.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn a_daemon_ends_with_the_monitor() {
    as_root_and_user("life::a_daemon_ends_with_the_monitor", || {
        let place = Place::new("monitor");
        for confine in [true, false] {
            let mut spec = place.spec(&format!("{DAEMON} wait"));
            spec.confine = confine;
            let (child, _, mut reader) = start(&spec).unwrap();
            assert_eq!(first_line(&mut reader), "ready");
            Command::new("kill").arg("-9").arg(child.monitor().to_string()).status().unwrap();
            assert!(child.wait().is_err());
            wait_for_the_end_of_the_daemon(&place);
        }
    });
}

#[test]
fn a_daemon_ends_when_the_child_is_dropped() {
    as_root_and_user("life::a_daemon_ends_when_the_child_is_dropped", || {
        let place = Place::new("dropped");
        for confine in [true, false] {
            let mut spec = place.spec(&format!("{DAEMON} wait"));
            spec.confine = confine;
            let (child, _, mut reader) = start(&spec).unwrap();
            assert_eq!(first_line(&mut reader), "ready");
            drop(child);
            wait_for_the_end_of_the_daemon(&place);
        }
    });
}

const GATEWAY: &str = "STOCKADE_TEST_GATEWAY";

/// Not a test of its own: plays the gateway that is killed in the test below.
#[test]
fn gateway_process() {
    let Some(base) = std::env::var_os(GATEWAY) else { return };
    let mut place = Place::new("unused");
    place.project = Path::new(&base).join("project");
    for confine in [true, false] {
        let mut spec = place.spec(&format!("{DAEMON} wait"));
        spec.confine = confine;
        if !confine {
            spec.program.cwd = Path::new(&base).join("outside");
        }
        let (child, _, mut reader) = start(&spec).unwrap();
        assert_eq!(first_line(&mut reader), "ready");
        std::mem::forget((child, reader));
    }
    println!("\nboth are ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_daemon_ends_with_the_gateway() {
    as_root_and_user("life::a_daemon_ends_with_the_gateway", || {
        let mut place = Place::new("gateway");
        let mut gateway = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "life::gateway_process", "--nocapture"])
            .env(GATEWAY, &place.base)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = gateway.stdout.take().unwrap();
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while line != "both are ready\n" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the gateway ended");
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        wait_for_the_end_of_the_daemon(&place);
        place.project = place.outside.clone();
        wait_for_the_end_of_the_daemon(&place);
    });
}

#[test]
fn stopping_gives_time_and_then_ends_all() {
    as_root_and_user("life::stopping_gives_time_and_then_ends_all", || {
        let place = Place::new("stop");
        for confine in [true, false] {
            for (script, code, signal) in [
                (
                    "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
                    Some(5),
                    None,
                ),
                ("trap '' TERM; echo ready; while :; do sleep 0.05; done", None, Some(9)),
            ] {
                let mut spec = place.spec(script);
                spec.confine = confine;
                let (child, _, mut reader) = start(&spec).unwrap();
                assert_eq!(first_line(&mut reader), "ready");
                let stopper = child.stopper().unwrap();
                let grace = Duration::from_millis(if code.is_some() { 20_000 } else { 200 });
                stopper.stop(grace).unwrap();
                let exit = child.wait().unwrap();
                assert_eq!((exit.code, exit.signal), (code, signal), "{script} {confine}");
            }
        }
    });
}

#[test]
fn a_signal_reaches_the_command() {
    as_root_and_user("life::a_signal_reaches_the_command", || {
        let place = Place::new("signal");
        let spec = place.spec("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done");
        let (child, _, mut reader) = start(&spec).unwrap();
        assert_eq!(first_line(&mut reader), "ready");
        child.stopper().unwrap().signal(10).unwrap();
        assert_eq!(child.wait().unwrap().code, Some(9));
    });
}

#[test]
fn sixty_four_runs_at_once_do_not_disturb_each_other() {
    as_root_and_user("life::sixty_four_runs_at_once_do_not_disturb_each_other", || {
        let place = Place::new("parallel");
        let runs: Vec<_> = (0..64)
            .map(|number| {
                let script = format!("echo {number} > n{number}; cat n{number}; exit {number}");
                (number, start(&place.spec(&script)).unwrap())
            })
            .collect();
        for (number, (child, _, mut reader)) in runs {
            // Every fourth is ended in the middle, and the monitor of every fourth is killed.
            if number % 4 == 3 {
                drop(child);
                continue;
            }
            if number % 4 == 1 {
                let pid = child.monitor().to_string();
                Command::new("kill")
                    .args(["-9", &pid])
                    .stderr(std::process::Stdio::null())
                    .status()
                    .unwrap();
                drop(child);
                continue;
            }
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            let exit = child.wait().unwrap();
            assert_eq!((text, exit.code), (format!("{number}\n"), Some(number)));
        }
        let foreign = std::fs::read_dir(&place.project)
            .unwrap()
            .filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('n'))
            .count();
        assert_eq!(foreign, 0, "nothing is left behind");
    });
}
