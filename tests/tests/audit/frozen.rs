//! A file system that hangs: who asks gets an answer, and its pipes are closed, although the process itself stays.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stockade_tests::{Place, skip};

use super::{text, verifies_in};

/// A small ext4 file system, thawed and unmounted with the test.
struct Disk(PathBuf);

impl Disk {
    /// Mounts one at `path`, or says why it cannot be had.
    fn mount(path: PathBuf, image: &Path) -> Result<Disk, String> {
        File::create(image)
            .and_then(|file| file.set_len(16 << 20))
            .and_then(|()| fs::create_dir(&path))
            .map_err(|error| error.to_string())?;
        let (image, at) = (image.as_os_str(), path.as_os_str());
        for words in [
            ["mkfs.ext4".as_ref(), "-q".as_ref(), image].as_slice(),
            &["mount".as_ref(), "-o".as_ref(), "loop".as_ref(), image, at],
        ] {
            let done = Command::new(words[0]).args(&words[1..]).output();
            let done = done.map_err(|error| format!("no {}: {error}", words[0].display()))?;
            if !done.status.success() {
                return Err(text(&done.stderr));
            }
        }
        Ok(Disk(path))
    }

    fn freeze(&self, option: &str) {
        let done = Command::new("fsfreeze").arg(option).arg(&self.0).status();
        assert!(done.expect("fsfreeze starts").success(), "{option}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn start(place: &Place, disk: &Disk, arguments: &[&str]) -> Child {
    start_with(place, disk, arguments, Stdio::null())
}

fn start_with(place: &Place, disk: &Disk, arguments: &[&str], stdin: Stdio) -> Child {
    let mut command = place.stockade(arguments);
    command.env("XDG_STATE_HOME", &disk.0);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the executable starts")
}

/// Returns what a child says until it closes its pipes, and how long that took.
fn said(child: &mut Child) -> (String, String, Duration) {
    let start = Instant::now();
    let (mut out, mut told) = (String::new(), String::new());
    let mut stdout = child.stdout.take().expect("its output");
    stdout.read_to_string(&mut out).expect("text");
    let mut stderr = child.stderr.take().expect("its errors");
    stderr.read_to_string(&mut told).expect("text");
    (out, told, start.elapsed())
}

#[test]
fn a_frozen_file_system_refuses_in_five_seconds_and_closes_the_pipes() {
    const TEST: &str = "a_frozen_file_system_refuses_in_five_seconds_and_closes_the_pipes";
    let place = Place::new("frozen");
    let disk = match Disk::mount(place.root.join("disk"), &place.root.join("image")) {
        Ok(disk) => disk,
        Err(reason) => return skip(TEST, &format!("no file system to freeze: {reason}")),
    };
    let log = disk.0.join("stockade/audit");
    let slow = format!("audit log {} did not answer within 5 s", log.display());
    let mut first = start(&place, &disk, &["run", "true"]);
    assert_eq!(first.wait().expect("it ends").code(), Some(0));

    disk.freeze("-f");
    let mut refused = start(&place, &disk, &["run", "touch ran"]);
    let (_, told, took) = said(&mut refused);
    disk.freeze("-u");
    assert_eq!(told.lines().next(), Some(&*format!("stockade: {slow}; nothing was run")));
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(refused.wait().expect("it ends").code(), Some(122));
    assert!(!place.project().join("ran").exists());

    // The same for a hook, whose own limit is longer: every agent is told that the call is blocked.
    for agent in ["claude", "cline"] {
        disk.freeze("-f");
        let words = ["hook", agent, "--deadline", "60s"];
        let mut hook = start_with(&place, &disk, &words, Stdio::piped());
        let frame = json!({
            "session_id": "s", "transcript_path": "/x", "cwd": place.project(), "permission_mode": "default",
            "hook_event_name": "PreToolUse", "hookName": "PreToolUse", "tool_name": "Bash",
            "preToolUse": {"toolName": "execute_command", "parameters": {"command": "touch ran"}},
            "tool_input": {"command": "touch ran"},
        });
        let mut stdin = hook.stdin.take().expect("its input");
        stdin.write_all(frame.to_string().as_bytes()).expect("it reads");
        drop(stdin);
        let (out, told, took) = said(&mut hook);
        disk.freeze("-u");
        assert!(format!("{out}{told}").contains(&slow), "{agent}: {out}{told}");
        assert!(took < Duration::from_secs(30), "{agent}: {took:?}");
        let status = hook.wait().expect("it ends").code();
        assert_eq!(status, Some(if agent == "cline" { 0 } else { 2 }), "{agent}");
    }

    // The disk hangs while the command runs: that its result is not recorded is told, and it is not lost.
    let mut running =
        start(&place, &disk, &["run", "touch begun; until test -e on; do :; done; echo done"]);
    while !place.project().join("begun").exists() {
        assert!(running.try_wait().expect("a child").is_none(), "it ends before it began");
        std::thread::yield_now();
    }
    disk.freeze("-f");
    fs::write(place.project().join("on"), "").expect("a file");
    let (out, told, took) = said(&mut running);
    disk.freeze("-u");
    assert_eq!(out, "done\n");
    let line = format!("stockade: the command ran, exit 0, but that could not be recorded: {slow}");
    assert_eq!(told.lines().next(), Some(&*line));
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(running.wait().expect("it ends").code(), Some(122));

    let mut after = start(&place, &disk, &["run", "true"]);
    assert_eq!(after.wait().expect("it ends").code(), Some(0));
    verifies_in(&place, &disk.0);
    let mut found = start(&place, &disk, &["audit", "search", "--kind", "result", "--json"]);
    let results = said(&mut found).0;
    assert_eq!(results.lines().count(), 3, "each command that ran has a result: {results}");
}
