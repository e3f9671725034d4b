//! Launchers that a zygote forked: they know what it knew, as long as that is true, and hold nothing of it.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{PipeReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_sandbox::{Child, Launcher, LauncherZygote};
use stockade_spec::{
    Access, Fallback, FileRule, Files, Limits, Mediation, Network, PROXY_PORTS, Program,
    SandboxSpec, Stdio,
};

/// Set in the copy of this program that sees a kernel with an older Landlock.
const OLDER: &str = "STOCKADE_TEST_OLDER_KERNEL";

/// No tests of the harness: it has several threads, and then no zygote can be forked.
fn main() {
    #[cfg(target_arch = "x86_64")]
    if let Ok(kernel) = std::env::var(OLDER) {
        stockade_tests::older::set(&kernel);
        return abstract_names_stay_apart_where_landlock_does_not_know_them();
    }
    for (name, test) in [
        (
            "what_is_denied_is_denied_where_it_was_mounted_after_the_zygote_had_looked",
            what_is_denied_is_denied_where_it_was_mounted_after_the_zygote_had_looked as fn(),
        ),
        (
            "a_forked_launcher_has_no_descriptors_but_its_own",
            a_forked_launcher_has_no_descriptors_but_its_own,
        ),
        (
            "only_runs_that_are_watched_and_keep_to_the_ports_have_a_network_together",
            only_runs_that_are_watched_and_keep_to_the_ports_have_a_network_together,
        ),
        ("abstract_names_stay_apart_where_landlock_does_not_know_them", with_an_older_landlock),
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
        let path = std::env::temp_dir().join(format!("stockade-zygote-{number}"));
        fs::create_dir_all(path.join("one")).unwrap();
        fs::create_dir_all(path.join("two")).unwrap();
        fs::write(path.join("one/open"), "open").unwrap();
        fs::write(path.join("one/secret"), "secret").unwrap();
        Place(path)
    }

    /// Returns what a command writes that reads both files of `folder`, of which one is denied in `one`.
    fn read(&self, launcher: Launcher, folder: &str) -> String {
        let folder = self.0.join(folder);
        let line = format!("cd '{}'; cat secret open 2>/dev/null", folder.display());
        run(launcher, &self.spec(&line))
    }

    fn spec(&self, line: &str) -> SandboxSpec {
        let rule = |path: PathBuf, access| FileRule { path, access, origin: "test".to_owned() };
        let rules =
            vec![rule(self.0.clone(), Access::Read), rule(self.0.join("one/secret"), Access::None)];
        SandboxSpec {
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
        }
    }
}

/// Starts the command of `spec`, and returns what it writes as well.
fn start(launcher: Launcher, spec: &SandboxSpec) -> (Child, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
    let stdio = Stdio { stdin: null().into(), stdout: writer.into(), stderr: null().into() };
    let (child, _) = launcher.run(spec, stdio).unwrap();
    (child, reader)
}

/// Returns what the command of `spec` writes.
fn run(launcher: Launcher, spec: &SandboxSpec) -> String {
    let (child, mut reader) = start(launcher, spec);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
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
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(format!("/proc/{monitor}/task/{monitor}/children")).unwrap();
        if let Some(child) = text.split_whitespace().next() {
            return child.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "it makes nothing ready");
        std::thread::yield_now();
    }
}

fn what_is_denied_is_denied_where_it_was_mounted_after_the_zygote_had_looked() {
    let place = Place::new();
    let mut zygote = LauncherZygote::fork().unwrap();
    assert_eq!(place.read(zygote.launcher(None).unwrap(), "one"), "open");
    let [waiting, resting] = [zygote.launcher(None).unwrap(), zygote.launcher(None).unwrap()];
    confined_side(&waiting);
    let two = place.0.join("two");
    if !mount(&place.0.join("one"), &two) {
        return println!(
            "SKIPPED what_is_denied_is_denied_where_it_was_mounted_after_the_zygote_had_looked: this user cannot mount"
        );
    }
    assert_eq!(fs::read_to_string(two.join("secret")).unwrap(), "secret", "without confinement");
    // One that was there before, one that may have been on its way, and two of after.
    assert_eq!(place.read(waiting, "two"), "open");
    assert_eq!(place.read(resting, "two"), "open");
    assert_eq!(place.read(zygote.launcher(None).unwrap(), "two"), "open");
    assert_eq!(place.read(zygote.launcher(None).unwrap(), "two"), "open");
    assert!(Command::new("umount").arg(&two).status().unwrap().success());
    assert_eq!(place.read(zygote.launcher(None).unwrap(), "two"), "");
}

/// Mounts a directory at another one, if this user can.
fn mount(from: &Path, to: &Path) -> bool {
    let mounted = Command::new("mount").arg("--bind").arg(from).arg(to).output();
    mounted.is_ok_and(|output| output.status.success())
}

fn a_forked_launcher_has_no_descriptors_but_its_own() {
    // A descriptor that a launcher must not have.
    let held = File::open("/etc/passwd").unwrap();
    let mut zygote = LauncherZygote::fork().unwrap();
    let loopback = zygote.loopback().unwrap();
    let before = zygote.launcher(None).unwrap();
    let of_none = zygote.launcher(None).unwrap();
    let of_session = zygote.launcher(Some(&loopback)).unwrap();
    for (launcher, more) in [(of_none, &[][..]), (of_session, &["net", "user"])] {
        confined_side(&launcher);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let found = descriptors(launcher.monitor());
            let mounts = format!("/proc/{}/mountinfo", mountinfo_of(&found));
            let own = ["/dev/null", "/dev/null", "/dev/null", &mounts, "socket", "socket"];
            let mut expected = own.map(str::to_owned).to_vec();
            expected.extend(more.iter().map(|it| (*it).to_owned()));
            expected.sort();
            // The launcher has just forked its confined side, and is about to close the descriptors of that side.
            if found == expected {
                break;
            }
            assert!(Instant::now() < deadline, "{found:?}");
            std::thread::yield_now();
        }
    }
    drop((held, before));
}

/// Returns what the descriptors of a process lead to, without numbers.
fn descriptors(process: u32) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        // One may be closed meanwhile.
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .map(|link| link.display().to_string())
        // Its control group, where it can have one.
        .filter(|link| !link.starts_with("/sys/fs/cgroup/"))
        .map(|link| link.split(':').next().unwrap_or_default().to_owned())
        .collect();
    found.sort();
    found
}

fn only_runs_that_are_watched_and_keep_to_the_ports_have_a_network_together() {
    let place = Place::new();
    let mut zygote = LauncherZygote::fork().unwrap();
    let [one, two] = [zygote.loopback().unwrap(), zygote.loopback().unwrap()];
    let spec = place.spec("readlink /proc/self/ns/net");
    let network_of = |launcher, spec: &SandboxSpec| {
        let network = run(launcher, spec);
        assert!(network.starts_with("net:["), "{network}");
        network
    };
    let waiting = zygote.launcher(Some(&one)).unwrap();
    let mut network =
        |loopback, spec: &SandboxSpec| network_of(zygote.launcher(loopback).unwrap(), spec);
    let host = fs::read_link("/proc/self/ns/net").unwrap().display().to_string() + "\n";
    let shared = network(Some(&one), &spec);
    let [http, socks] = PROXY_PORTS;
    let proxy =
        |http, socks| SandboxSpec { network: Network::Proxy { http, socks }, ..spec.clone() };
    assert_eq!(network(Some(&one), &spec), shared);
    assert_eq!(network(Some(&one), &proxy(http, socks)), shared);
    // Another way to the same: what the host has mounted changes, and the launcher has to begin again.
    confined_side(&waiting);
    if mount(&place.0.join("one"), &place.0.join("two")) {
        assert_eq!(network_of(waiting, &spec), shared);
        assert!(Command::new("umount").arg(place.0.join("two")).status().unwrap().success());
    } else {
        println!("SKIPPED a network of a session after a change of mounts: this user cannot mount");
    }
    let others = [
        ("of another session", network(Some(&two), &spec)),
        ("of none", network(None, &spec)),
        (
            "not watched",
            network(Some(&one), &SandboxSpec { mediation: Mediation::None, ..spec.clone() }),
        ),
        ("other ports", network(Some(&one), &proxy(socks, http))),
    ];
    for (name, own) in &others {
        assert!(![&shared, &host].contains(&own), "{name}: {own}");
    }
    // A run with the host's network has that, and not a session's.
    for spec in [
        SandboxSpec { network: Network::Host, ..spec.clone() },
        SandboxSpec { confine: false, ..spec.clone() },
    ] {
        assert_eq!(network(Some(&one), &spec), host);
    }
    assert_eq!(network(Some(&one), &spec), shared);
}

/// Has a copy of this program run the next test: an older kernel is seen until the end of a process.
fn with_an_older_landlock() {
    if cfg!(not(target_arch = "x86_64")) {
        return println!(
            "SKIPPED abstract_names_stay_apart_where_landlock_does_not_know_them: the registers are those of x86-64"
        );
    }
    let own = std::env::current_exe().unwrap();
    assert!(Command::new(own).env(OLDER, "landlock-abi-5").status().unwrap().success());
}

fn abstract_names_stay_apart_where_landlock_does_not_know_them() {
    let place = Place::new();
    let mut zygote = LauncherZygote::fork().unwrap();
    let loopback = zygote.loopback().unwrap();
    let mut launcher = || zygote.launcher(Some(&loopback)).unwrap();
    let listen = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un(\"\\0n\")) or die; listen(S, 5);";
    let connect = "use Socket; socket(C, AF_UNIX, SOCK_STREAM, 0); \
                   print connect(C, pack_sockaddr_un(\"\\0n\")) ? \"there\" : \"none: $!\";";
    assert_eq!(
        run(launcher(), &place.spec(&format!("perl -e '{listen} {connect}'"))),
        "there",
        "its own"
    );
    let server = format!("perl -e '{listen} syswrite STDOUT, \"ready\"; sleep 1000'");
    let (child, mut said) = start(launcher(), &place.spec(&server));
    let mut word = [0; 5];
    said.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"ready");
    assert_eq!(
        run(launcher(), &place.spec(&format!("perl -e '{connect}'"))),
        "none: Connection refused"
    );
    drop(child);
}

/// Returns the number in the link to the table of mounts, which is that of the process that opened it.
fn mountinfo_of(links: &[String]) -> &str {
    let inside = links.iter().find_map(|it| it.strip_prefix("/proc/")?.strip_suffix("/mountinfo"));
    inside.unwrap_or("no")
}
