//! A launcher that was started before there is a spec.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_sandbox::Launcher;
use stockade_spec::{SandboxSpec, Stdio};
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, launcher};

/// Runs `spec` with this launcher and returns what the command wrote.
fn run(launcher: Launcher, spec: &SandboxSpec) -> String {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let stdio = Stdio {
        stdin: OwnedFd::from(File::open("/dev/null").unwrap()),
        stdout: writer.try_clone().unwrap().into(),
        stderr: writer.into(),
    };
    let (child, _) = launcher.run(spec, stdio).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

/// Waits until the launcher has its confined side, and returns the number of that.
fn confined_side(launcher: &Launcher) -> u32 {
    let monitor = launcher.monitor();
    let children = format!("/proc/{monitor}/task/{monitor}/children");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(&children).unwrap();
        if let Some(child) = text.split_whitespace().next() {
            return child.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "it makes nothing ready");
        std::thread::yield_now();
    }
}

#[test]
fn a_launcher_that_waited_confines_like_another() {
    as_root_and_user("ready::a_launcher_that_waited_confines_like_another", || {
        let place = Place::new("waited");
        let waiting = Launcher::start(launcher()).unwrap();
        confined_side(&waiting);
        let spec = place.spec("echo in > here; echo out > ../outside/there; cat here; echo $$");
        let text = run(waiting, &spec);
        assert!(text.starts_with("bash: ") && text.contains("../outside/there"), "{text}");
        assert!(text.ends_with("\nin\n2\n"), "{text}");
        assert!(!place.outside.join("there").exists());
    });
}

#[test]
fn a_launcher_that_is_not_used_leaves_nothing() {
    as_root_and_user("ready::a_launcher_that_is_not_used_leaves_nothing", || {
        let waiting = Launcher::start(launcher()).unwrap();
        let processes = [waiting.monitor(), confined_side(&waiting)];
        drop(waiting);
        let deadline = Instant::now() + Duration::from_secs(60);
        while processes.iter().any(|number| Path::new(&format!("/proc/{number}")).exists()) {
            assert!(Instant::now() < deadline, "something is left of it");
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_is_mounted_while_a_launcher_waits_is_seen() {
    let name = "what_is_mounted_while_a_launcher_waits_is_seen";
    let place = Place::new("mounted");
    let target = place.project.join("mounted");
    fs::create_dir(&target).unwrap();
    let waiting = Launcher::start(launcher()).unwrap();
    confined_side(&waiting);
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&target).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return skip(name, "this user cannot mount");
    }
    fs::write(target.join("file"), "seen").unwrap();
    let text = run(waiting, &place.spec("cat mounted/file"));
    let gone = Command::new("umount").arg(&target).status().unwrap();
    assert_eq!((text.as_str(), gone.success()), ("seen", true));
}
