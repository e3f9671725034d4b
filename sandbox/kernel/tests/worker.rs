//! The scan worker's confinement: what it may still do, and that all else ends it.
#![expect(clippy::disallowed_methods, reason = "tests and figures start what they look at")]
#![cfg(target_os = "linux")]
// Tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const ACT: &str = "STOCKADE_TEST_WORKER_ACT";

/// Not a test of its own: the process that the tests below start.
#[test]
fn worker_process() {
    let Ok(act) = std::env::var(ACT) else { return };
    let before = std::fs::File::open("/etc/passwd").unwrap();
    if !act.ends_with("-free") {
        stockade_kernel::confine_worker().unwrap();
    }
    match act.trim_end_matches("-free") {
        "compute" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).unwrap();
            let many: Vec<u8> = vec![1; 64 << 20];
            let sum: u64 = many.iter().map(|byte| u64::from(*byte)).sum();
            std::io::stdout().write_all(format!("got {text} {}\n", sum >> 20).as_bytes()).unwrap();
        }
        "open" => drop(std::fs::File::open("/etc/passwd")),
        "read-open-file" => drop((&before).read(&mut [0; 8])),
        "socket" => drop(std::net::TcpListener::bind("127.0.0.1:0")),
        "thread" => drop(std::thread::spawn(|| ())),
        "spawn" => drop(Command::new("/bin/true").spawn()),
        "environment" => drop(std::env::current_dir()),
        other => panic!("unknown act {other}"),
    }
    std::io::stdout().write_all(b"done\n").unwrap();
    std::process::exit(0);
}

fn run(act: &str) -> (Option<i32>, String) {
    // The test harness starts a thread for its test; the worker confines that thread, which then ends
    // the whole process.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker_process", "--nocapture", "--test-threads=1"])
        .env(ACT, act)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The worker may be dead before it reads.
    let _ = child.stdin.take().unwrap().write_all(b"input");
    let output = child.wait_with_output().unwrap();
    (output.status.signal(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_confined_worker_reads_computes_and_writes() {
    let (signal, output) = run("compute");
    assert_eq!(signal, None, "{output}");
    assert!(output.contains("got input 64\n"), "{output}");
}

#[test]
fn every_other_call_kills_it() {
    for act in ["open", "read-open-file", "socket", "thread", "spawn", "environment"] {
        let (signal, output) = run(&format!("{act}-free"));
        assert!(signal.is_none() && output.contains("done"), "{act} works unconfined: {output}");
        let (signal, output) = run(act);
        assert_eq!((signal, output.contains("done")), (Some(libc::SIGSYS), false), "{act}");
    }
}
