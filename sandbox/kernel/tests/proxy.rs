//! The proxy's confinement: it still resolves, connects and starts threads, and can do little else.
#![expect(clippy::disallowed_methods, reason = "tests and figures start what they look at")]
#![cfg(target_os = "linux")]
// Tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::Command;

const ACT: &str = "STOCKADE_TEST_PROXY_ACT";

/// Not a test of its own: the process that the tests below start.
#[test]
fn proxy_process() {
    let Ok(act) = std::env::var(ACT) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if !act.ends_with("-free") {
        // The harness runs tests in threads of their own; the filter holds for the one that does the act.
        stockade_kernel::confine_proxy().unwrap();
    }
    let file = std::env::var("FILE").unwrap();
    let worked = match act.trim_end_matches("-free") {
        "carry" => {
            let names = ("localhost", port).to_socket_addrs().unwrap();
            let dialled = names.into_iter().find_map(|it| TcpStream::connect(it).ok()).is_some();
            let accepted = std::thread::spawn(move || listener.accept().is_ok()).join().unwrap();
            dialled && accepted
        }
        "read" => std::fs::read(&file).is_ok(),
        "write" => std::fs::write(&file, "x").is_ok(),
        "serve" => TcpListener::bind("127.0.0.1:0").is_ok(),
        "start" => Command::new("/bin/true").status().is_ok(),
        "see" => std::fs::read("/proc/1/status").is_ok(),
        other => panic!("unknown act {other}"),
    };
    std::process::exit(if worked { 0 } else { 1 });
}

fn works(act: &str) -> bool {
    let file = std::env::temp_dir().join(format!("stockade-proxy-{}-{act}", std::process::id()));
    std::fs::write(&file, "secret").unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proxy_process", "--nocapture"])
        .env(ACT, act)
        .env("FILE", &file)
        .status()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    status.success()
}

#[test]
fn it_resolves_connects_and_accepts() {
    assert!(works("carry-free"), "without confinement");
    assert!(works("carry"));
}

#[test]
fn it_has_no_files_no_programs_and_no_servers() {
    for act in ["read", "write", "serve", "start", "see"] {
        assert!(works(&format!("{act}-free")), "{act} without confinement");
        assert!(!works(act), "{act}");
    }
}
