//! A person at a terminal: `script` of util-linux gives the terminal, the test reads the screen and types.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Place;

/// Time after which a test fails instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(180);

/// A program on a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    /// None once no more is typed.
    keys: Option<ChildStdin>,
    screen: ChildStdout,
    seen: Vec<u8>,
    read: usize,
}

impl Terminal {
    /// Starts `program` with these arguments on a new terminal in the project of `place`; none when `script` is not
    /// installed.
    pub fn start(place: &Place, program: &std::path::Path, arguments: &[&str]) -> Option<Terminal> {
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        let line = format!("exec {} {}", quoted(&program.to_string_lossy()), words.join(" "));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        command.current_dir(place.project()).env_clear().env("SHELL", "/bin/sh");
        let plain = place.stockade([""; 0]);
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let keys = child.stdin.take().expect("its input");
        let screen = child.stdout.take().expect("its output");
        Some(Terminal { child, keys: Some(keys), screen, seen: Vec::new(), read: 0 })
    }

    /// Waits until the screen shows `text` behind what was waited for before; panics if it never does.
    pub fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + LIMIT;
        let mut byte = [0];
        while !self.seen[self.read..].ends_with(text.as_bytes()) {
            let more = self.next(&mut byte, end);
            let new = &self.seen[self.read..];
            assert!(more > 0, "the screen never shows `{text}`: {}", String::from_utf8_lossy(new));
            self.seen.extend(byte);
        }
        self.read = self.seen.len();
    }

    /// Types `keys`. A program that has ended reads none: the screen tells why.
    pub fn press(&mut self, keys: &str) {
        let Some(input) = &mut self.keys else { return };
        drop(input.write_all(keys.as_bytes()).and_then(|()| input.flush()));
    }

    /// Waits for the end and returns the exit status and all that the screen showed.
    pub fn end(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + LIMIT;
        let mut piece = [0; 4096];
        loop {
            let count = self.next(&mut piece, end);
            if count == 0 {
                break;
            }
            self.seen.extend(&piece[..count]);
        }
        drop(self.keys.take());
        let status = self.child.wait().expect("it ends");
        (status.code(), String::from_utf8_lossy(&self.seen).into_owned())
    }

    /// Reads what the screen shows next; panics if nothing comes before `end`. 0 when the screen is gone.
    fn next(&mut self, piece: &mut [u8], end: Instant) -> usize {
        let left = end.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).expect("a short time");
        let ready = poll(&mut [PollFd::new(&self.screen, PollFlags::IN)], Some(&limit));
        let shown = String::from_utf8_lossy(&self.seen);
        assert!(ready.expect("its output") > 0, "not within {LIMIT:?}: {shown}");
        self.screen.read(piece).expect("its output")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail where it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
