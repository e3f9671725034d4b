//! A place to test in, and running one script plain and confined.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use stockade_sandbox::{Child, spawn};
use stockade_spec::{
    Access, Enforced, Error, Exit, Fallback, FileRule, Files, GitKeys, Limits, Mediation, Network,
    Program, SandboxSpec, Stdio, Violation,
};
use stockade_tests::lacking::{Refused, without};
use stockade_tests::{SKIPPED, skip};

/// Set in the copy of a test that runs as an ordinary user.
const SECOND: &str = "STOCKADE_TEST_AS_USER";

/// Set in a copy of the tests to the name of the older kernel that their runs see.
pub const OLDER: &str = "STOCKADE_TEST_OLDER_KERNEL";

/// Set in the copy of a test in which parts of `/proc` are covered.
const COVERED: &str = "STOCKADE_TEST_COVERED_PROC";

/// An unprivileged user and group that every system has.
const NOBODY: &str = "65534";

/// Runs `body`, and when it is root's turn also as an ordinary user: this test again, under `setpriv`.
pub fn as_root_and_user(test: &str, body: impl FnOnce()) {
    body();
    if std::env::var_os(SECOND).is_some() {
        return;
    }
    if !is_root() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| skip("what root does in these tests", "they run as an ordinary user"));
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(SECOND, "1")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "as an ordinary user: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    pass_on(&String::from_utf8_lossy(&output.stderr));
}

/// Prints what a test that ran in a process of its own says that it skipped.
pub fn pass_on(stderr: &str) {
    for line in stderr.lines() {
        if let Some((test, reason)) =
            line.strip_prefix(SKIPPED).and_then(|rest| rest.trim_start().split_once(": "))
        {
            skip(test, reason);
        }
    }
}

/// Says whether this process is root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A directory with `project/` and `outside/`, removed at the end.
pub struct Place {
    pub base: PathBuf,
    pub project: PathBuf,
    pub outside: PathBuf,
}

impl Place {
    /// Makes one; `name` may hold any character.
    pub fn new(name: &str) -> Place {
        // Not under /tmp, which a run does not see.
        let above =
            stockade_tests::plain_folder(env!("CARGO_TARGET_TMPDIR").as_ref()).join("sandbox");
        if fs::create_dir_all(&above).is_ok() && is_root() {
            fs::set_permissions(&above, fs::Permissions::from_mode(0o1777)).unwrap();
        }
        let unique = format!("{name}-{}-{:?}", std::process::id(), std::thread::current().id());
        let base = above.join(unique.replace(['(', ')'], ""));
        let (project, outside) = (base.join("project"), base.join("outside"));
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(&outside).unwrap();
        Place { base, project, outside }
    }

    /// Returns a spec for `script` that writes in the project alone.
    pub fn spec(&self, script: &str) -> SandboxSpec {
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        SandboxSpec {
            program: Program {
                path: "/bin/bash".into(),
                argv: vec!["bash".into(), "-c".into(), script.into()],
                environment: vec![
                    ("PATH".into(), std::env::var_os("PATH").unwrap()),
                    variable("P", &self.project),
                    variable("O", &self.outside),
                    ("TMPDIR".into(), "/tmp".into()),
                    ("LC_ALL".into(), "C".into()),
                    ("HOME".into(), "/nonexistent".into()),
                ],
                cwd: self.project.clone(),
            },
            files: Files {
                rules: vec![rule(&self.project, Access::Write)],
                // With a guarded name every call that makes something goes through the supervisor.
                patterns: Vec::new(),
                guarded_names: vec![".guarded".into()],
                guarded_at_top: Vec::new(),
                opened: Vec::new(),
                removable: Vec::new(),
                numerous_names: Vec::new(),
                git_keys: GitKeys {
                    refused: ["core.fsmonitor", "core.worktree", "alias.*"].map(Into::into).into(),
                    free: vec!["*".into()],
                    ..GitKeys::default()
                },
                git_configurations: Vec::new(),
                kept_objects: Vec::new(),
                link_roots: ["/usr/bin", "/usr/lib", "/usr/share"].map(Into::into).into(),
                private_tmp: None,
                caches: Vec::new(),
                sockets: Vec::new(),
                watched: None,
                turns: Some(turns(&self.base)),
                copies: Vec::new(),
            },
            network: Network::Off,
            limits: Limits { memory_bytes: 4 << 30, ..Limits::default() },
            terminal: None,
            required: BTreeSet::new(),
            mediation: Mediation::Writes,
            confine: true,
            fallback: Fallback::Refuse,
        }
    }

    /// Runs `script` without any sandbox.
    pub fn plain(&self, script: &str) -> Outcome {
        let spec = self.spec(script);
        let output = Command::new("/bin/bash")
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .env_clear()
            .envs(spec.program.environment)
            .current_dir(&self.project)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Outcome { code: output.status.code(), text }
    }

    /// Runs `script` confined to the project.
    pub fn confined(&self, script: &str) -> Outcome {
        self.run(&self.spec(script))
    }

    /// Runs what `spec` says.
    pub fn run(&self, spec: &SandboxSpec) -> Outcome {
        let Ran { exit, text, .. } = run(spec).unwrap();
        Outcome { code: exit.code, text }
    }

    /// Asserts that `script` succeeds plain and fails confined; `undo` brings things back in between.
    pub fn stops(&self, script: &str, undo: impl Fn()) {
        self.stops_with(&[], script, undo);
    }

    /// Like [`Place::stops`], with more rules.
    pub fn stops_with(&self, rules: &[FileRule], script: &str, undo: impl Fn()) {
        let outside = self.plain(script);
        assert_eq!(outside.code, Some(0), "must work unconfined: {script}\n{}", outside.text);
        undo();
        let mut spec = self.spec(script);
        spec.files.rules.extend_from_slice(rules);
        let inside = self.run(&spec);
        assert_ne!(inside.code, Some(0), "must fail confined: {script}\n{}", inside.text);
    }

    /// Asserts that `script` succeeds confined.
    pub fn works(&self, script: &str) {
        let inside = self.confined(script);
        assert_eq!(inside.code, Some(0), "must work confined: {script}\n{}", inside.text);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Modes may have been taken away by a test; what cannot be removed lies in `target/`.
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// Exit status and output of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub code: Option<i32>,
    pub text: String,
}

/// All that came of a run.
#[derive(Debug)]
pub struct Ran {
    pub exit: Exit,
    pub text: String,
    pub enforced: Enforced,
    pub violations: Vec<Violation>,
}

/// Returns a rule.
pub fn rule(path: &Path, access: Access) -> FileRule {
    FileRule { path: path.to_path_buf(), access, origin: "test".to_owned() }
}

/// Runs `body` where a part of `/proc` is covered, as in a container: there the kernel lets nobody mount a new one
/// (`mount_namespaces(7)`). This test again, in a mount namespace of its own.
pub fn with_covered_proc(test: &str, body: impl FnOnce()) {
    if std::env::var_os(COVERED).is_some() {
        return body();
    }
    let output = Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-c"])
        .arg("mount --bind /dev/null /proc/version && exec \"$@\"")
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(COVERED, "1")
        .env(SECOND, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "with a covered `/proc`: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the launcher.
pub fn launcher() -> &'static Path {
    static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();
    LAUNCHER.get_or_init(|| match std::env::var(OLDER) {
        Ok(kernel) => on_older_kernel(&kernel),
        Err(_) => env!("CARGO_BIN_EXE_launcher").into(),
    })
}

/// Returns a launcher that sees an older kernel: `landlock-abi-N`, or `no-detached-copies`.
pub fn on_older_kernel(kernel: &str) -> PathBuf {
    let above = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    fs::create_dir_all(&above).unwrap();
    let launcher = above.join(kernel);
    if fs::symlink_metadata(&launcher).is_err() {
        // Another test may make it at the same time.
        let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_older_kernel"), &launcher);
    }
    launcher
}

/// Starts `spec` and returns the run and the end of the pipe that its output goes to.
pub fn start(spec: &SandboxSpec) -> Result<(Child, Enforced, std::io::PipeReader), Error> {
    start_by(launcher(), spec)
}

/// Starts `spec` by this launcher.
fn start_by(
    launcher: &Path,
    spec: &SandboxSpec,
) -> Result<(Child, Enforced, std::io::PipeReader), Error> {
    let (reader, writer) = std::io::pipe().unwrap();
    let stdio = Stdio {
        stdin: OwnedFd::from(File::open("/dev/null").unwrap()),
        stdout: writer.try_clone().unwrap().into(),
        stderr: writer.into(),
    };
    let (child, enforced) = spawn(launcher, spec, stdio)?;
    Ok((child, enforced, reader))
}

/// Makes the files with which the runs of a place take turns.
fn turns(base: &Path) -> (PathBuf, PathBuf) {
    let [act, run] = ["act", "run"].map(|name| base.join(format!("turn-{name}")));
    for path in [&act, &run] {
        File::options().append(true).create(true).open(path).unwrap();
    }
    (act, run)
}

/// Runs `spec` to its end.
pub fn run(spec: &SandboxSpec) -> Result<Ran, Error> {
    run_by(launcher(), spec)
}

/// Runs both at the same time; returns what the second did.
pub fn run_both(one: &SandboxSpec, other: &SandboxSpec) -> Ran {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run(one).unwrap());
        let ran = run(other).unwrap();
        first.join().unwrap();
        ran
    })
}

/// Runs `spec` where these calls fail.
pub fn run_without(refused: &[Refused], spec: &SandboxSpec) -> Result<Ran, Error> {
    without(refused, || run(spec))
}

/// Time after which a run of a test is stopped.
const LONGEST_RUN: Duration = Duration::from_secs(600);

/// Runs `spec` to its end by this launcher.
pub fn run_by(launcher: &Path, spec: &SandboxSpec) -> Result<Ran, Error> {
    let (child, enforced, mut reader) = start_by(launcher, spec)?;
    let stopper = child.stopper().unwrap();
    let (ended, end) = mpsc::channel::<()>();
    // A run that waits for something that never comes ends as well, so that its test fails.
    std::thread::spawn(move || {
        if end.recv_timeout(LONGEST_RUN) == Err(RecvTimeoutError::Timeout) {
            let _ = stopper.stop(Duration::ZERO);
        }
    });
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let (exit, violations) = child.wait_with_violations().unwrap();
    drop(ended);
    Ok(Ran { exit, text: String::from_utf8_lossy(&bytes).into_owned(), enforced, violations })
}

/// Returns kind, call, object and rule of each refusal of a run.
pub fn told(ran: &Ran) -> Vec<(&str, &str, &str, &str)> {
    ran.violations.iter().map(|it| (&*it.kind, &*it.call, &*it.object, &*it.rule)).collect()
}
