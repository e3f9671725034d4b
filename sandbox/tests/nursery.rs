//! Launchers that a nursery forked: they know what it knew, as long as that is true, and hold nothing of it.
#![cfg(target_os = "linux")]
// Tests fail by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_sandbox::{
    Access, Fallback, FileRule, Files, Launcher, Limits, Mediation, Network, Nursery, Program,
    SandboxSpec, Stdio,
};

/// No tests of the harness: it has several threads, and then no nursery can be forked.
fn main() {
    for (name, test) in [
        (
            "what_is_denied_is_denied_where_it_was_mounted_after_the_nursery_had_looked",
            what_is_denied_is_denied_where_it_was_mounted_after_the_nursery_had_looked as fn(),
        ),
        (
            "a_forked_launcher_has_no_descriptors_but_its_own",
            a_forked_launcher_has_no_descriptors_but_its_own,
        ),
    ] {
        test();
        println!("test {name} ... ok");
    }
}

/// A directory of the test, which goes when the test is over.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let number = std::process::id();
        let path = std::env::temp_dir().join(format!("stockade-nursery-{number}"));
        fs::create_dir_all(path.join("one")).unwrap();
        fs::create_dir_all(path.join("two")).unwrap();
        fs::write(path.join("one/open"), "open").unwrap();
        fs::write(path.join("one/secret"), "secret").unwrap();
        Place(path)
    }

    /// Returns what a command writes that reads both files of `folder`, of which one is denied in `one`.
    fn read(&self, launcher: Launcher, folder: &str) -> String {
        let folder = self.0.join(folder);
        let line = format!("cd {}; cat secret open 2>/dev/null", folder.display());
        let rule = |path: PathBuf, access| FileRule { path, access, origin: "test".to_owned() };
        let rules =
            vec![rule(self.0.clone(), Access::Read), rule(self.0.join("one/secret"), Access::None)];
        let spec = SandboxSpec {
            program: Program {
                path: "/bin/sh".into(),
                argv: vec!["sh".into(), "-c".into(), line.into()],
                environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
                cwd: "/".into(),
            },
            files: Files { rules, guarded_names: vec![".guarded".into()], ..Files::default() },
            network: Network::Off,
            limits: Limits::default(),
            terminal: None,
            required: Default::default(),
            mediation: Mediation::Writes,
            confine: true,
            fallback: Fallback::Refuse,
            landlock_abi: u32::MAX,
            fail_at: String::new(),
            hide: Default::default(),
        };
        let (mut reader, writer) = std::io::pipe().unwrap();
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
        let stdio = Stdio { stdin: null().into(), stdout: writer.into(), stderr: null().into() };
        let (child, _) = launcher.run(&spec, stdio).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.join("two")).output();
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Waits until the launcher has made ready what needs no spec, and returns the number of its confined side.
fn confined_side(launcher: &Launcher) -> u32 {
    let monitor = launcher.monitor();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = fs::read_to_string(format!("/proc/{monitor}/task/{monitor}/children")).unwrap();
        if let Some(child) = text.split_whitespace().next() {
            return child.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "it makes nothing ready");
        std::thread::yield_now();
    }
}

fn what_is_denied_is_denied_where_it_was_mounted_after_the_nursery_had_looked() {
    let place = Place::new();
    let mut nursery = Nursery::fork().unwrap();
    assert_eq!(place.read(nursery.launcher().unwrap(), "one"), "open");
    let [waiting, resting] = [nursery.launcher().unwrap(), nursery.launcher().unwrap()];
    confined_side(&waiting);
    let two = place.0.join("two");
    let mounted = Command::new("mount").arg("--bind").arg(place.0.join("one")).arg(&two).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return println!(
            "SKIPPED what_is_denied_is_denied_where_it_was_mounted_after_the_nursery_had_looked: this user cannot mount"
        );
    }
    assert_eq!(fs::read_to_string(two.join("secret")).unwrap(), "secret", "without confinement");
    // One that was there before, one that may have been on its way, and two of after.
    assert_eq!(place.read(waiting, "two"), "open");
    assert_eq!(place.read(resting, "two"), "open");
    assert_eq!(place.read(nursery.launcher().unwrap(), "two"), "open");
    assert_eq!(place.read(nursery.launcher().unwrap(), "two"), "open");
    assert!(Command::new("umount").arg(&two).status().unwrap().success());
    assert_eq!(place.read(nursery.launcher().unwrap(), "two"), "");
}

fn a_forked_launcher_has_no_descriptors_but_its_own() {
    // What a launcher must not have.
    let held = File::open("/etc/passwd").unwrap();
    let mut nursery = Nursery::fork().unwrap();
    let before = nursery.launcher().unwrap();
    let launcher = nursery.launcher().unwrap();
    confined_side(&launcher);
    let mut found: Vec<String> = fs::read_dir(format!("/proc/{}/fd", launcher.monitor()))
        .unwrap()
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().display().to_string())
        // Its control group, where it can have one.
        .filter(|link| !link.starts_with("/sys/fs/cgroup/"))
        .map(|link| link.split(':').next().unwrap_or_default().to_owned())
        .collect();
    found.sort();
    let mounts = format!("/proc/{}/mountinfo", mountinfo_of(&found));
    let expected = ["/dev/null", "/dev/null", "/dev/null", &mounts, "socket", "socket"];
    assert_eq!(found, expected);
    drop((held, before));
}

/// Returns the number in the link to the table of mounts, which is that of the process that opened it.
fn mountinfo_of(links: &[String]) -> &str {
    let inside = links.iter().find_map(|it| it.strip_prefix("/proc/")?.strip_suffix("/mountinfo"));
    inside.unwrap_or("no")
}
