//! The scan worker that ships: it reads texts only when it has given its rights away, and lives from pipe to pipe.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use stockade_tests::stockade;
use stockade_witness::{Seen, frames};

/// A worker that is killed at the end of the test, whatever happens.
struct Worker(Child);

impl Worker {
    fn start() -> Worker {
        let child = Command::new(stockade())
            .arg("scan")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("stockade starts");
        Worker(child)
    }

    fn frame(&mut self) -> Vec<u8> {
        let output = self.0.stdout.as_mut().expect("a pipe");
        frames::read_frame(output, frames::ANSWER_LIMIT_BYTES).expect("a frame").expect("no end")
    }

    fn ask(&mut self, text: &[u8]) -> Seen {
        let input = self.0.stdin.as_mut().expect("a pipe");
        frames::write_frame(input, text, frames::REQUEST_LIMIT_BYTES).expect("a reader");
        frames::read_answer(&self.frame()).expect("an answer")
    }

    fn status(&self, key: &str) -> String {
        let file = Path::new("/proc").join(self.0.id().to_string()).join("status");
        let status = std::fs::read_to_string(file).expect("a living process");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_worker_is_confined_before_it_says_hello() {
    let mut worker = Worker::start();
    let frame = worker.frame();
    let hello = frames::read_hello(&frame).expect("a hello");
    assert!(hello.iter().any(|kind| kind.named && kind.name == "command"));
    // 2 is a filter of system calls (proc(5)).
    assert_eq!(
        (worker.status("Seccomp").as_str(), worker.status("NoNewPrivs").as_str()),
        ("2", "1")
    );
}

#[test]
fn the_confined_worker_has_the_memory_for_a_whole_mebibyte() {
    let mut worker = Worker::start();
    worker.frame();
    for text in [b"a;".repeat(100_000), b"$(".repeat(1 << 18), b"'".repeat(1 << 20), b"ls".to_vec()]
    {
        assert!(matches!(worker.ask(&text), Seen::Nodes(nodes) if !nodes.is_empty()));
    }
}

#[test]
fn the_worker_ends_with_its_input() {
    let mut worker = Worker::start();
    worker.frame();
    drop(worker.0.stdin.take());
    let mut rest = Vec::new();
    worker.0.stdout.take().expect("a pipe").read_to_end(&mut rest).expect("an end");
    assert_eq!((rest, worker.0.wait().expect("a status").code()), (Vec::new(), Some(0)));
}
