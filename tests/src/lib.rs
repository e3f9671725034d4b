//! The harness of the tests: finds the executable that ships, and gives each test places of its own.
#![deny(unsafe_code)]

pub mod agents;
pub mod browser;
pub mod cases;
pub mod gateway;
#[cfg(target_os = "linux")]
pub mod lacking;
pub mod machine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod older;
pub mod oracle;
pub mod terminal;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the `stockade` executable of this build, building it first if cargo did not.
///
/// `cargo test` builds executables only beside integration tests of their own package, so the harness asks.
pub fn stockade() -> &'static Path {
    static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();
    EXECUTABLE.get_or_init(|| executable("stockade"))
}

/// Returns the executable as one word of a shell line: quoted where its path is not plain, as set-up writes it.
pub fn stockade_word() -> String {
    word(stockade())
}

/// Returns a path as one word of a shell line.
pub fn word(path: &Path) -> String {
    let path = path.to_str().expect("a path in UTF-8");
    if is_plain(path) { path.to_owned() } else { format!("'{}'", path.replace('\'', r#"'"'"'"#)) }
}

/// Says whether no reader of shell text takes a path for anything but itself.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte))
}

/// Returns the executable `name` of this build, building its package first.
pub fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().find(|folder| folder.join(".cargo-lock").exists());
    let folder = folder.expect("the folder that cargo builds into").to_path_buf();
    let release = folder.file_name().is_some_and(|profile| profile == "release");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The whole workspace and a test with it: these choose the features with which `cargo test --workspace` has built
    // everything, so that nothing is compiled twice.
    build.args([
        "build",
        "--quiet",
        "--offline",
        "--workspace",
        "--bin",
        name,
        "--test",
        "layering",
    ]);
    build.args(release.then_some("--release"));
    build
        .env_remove("CARGO_TARGET_DIR")
        .arg("--target-dir")
        .arg(folder.parent().expect("a target folder"));
    build.current_dir(root()).stdin(Stdio::null());
    let path = folder.join(name);
    let built = build.output();
    let failed = match &built {
        Ok(output) => {
            (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
        }
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = failed {
        // An ordinary user may run tests that another user has built.
        assert!(path.exists(), "cannot build {name}: {reason}");
        println!("using {} as it is: cargo did not build it again: {reason}", path.display());
    }
    path
}

/// The folder for the places of tests. Not the folder for temporary files: a confined command sees its own there.
fn base() -> PathBuf {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(find_base).clone()
}

/// Longest path, in bytes, of a build folder in which tests keep their places: sockets below it have at most 107 bytes
/// (unix(7)), and tests paste paths into shell lines.
const LONGEST_BASE: usize = 48;

/// Returns `folder`, or another one where shell lines cannot name it without quotes: for root and ordinary users the same.
pub fn plain_folder(folder: &Path) -> PathBuf {
    if folder.to_str().is_some_and(is_plain) {
        return folder.to_owned();
    }
    let shared = PathBuf::from("/var/lib/stockade-tests");
    let inside = shared.join("sandbox");
    let is_usable = std::fs::create_dir_all(&inside).is_ok() && probe(&inside);
    if is_usable { shared } else { base() }
}

fn find_base() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().find(|folder| folder.join(".cargo-lock").exists());
    let own = folder.map(|folder| folder.join("places"));
    let is_short = |path: &str| path.len() <= LONGEST_BASE && is_plain(path);
    let own = own.filter(|folder| folder.to_str().is_some_and(is_short));
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into()));
    let elsewhere = if is_root() { "/var/lib".into() } else { home.clone() };
    // An ordinary user may run tests that another user has built.
    let mut folders = own.into_iter().chain([elsewhere.join("stockade-tests")]);
    let usable = |folder: &PathBuf| std::fs::create_dir_all(folder).is_ok() && probe(folder);
    folders.find(usable).unwrap_or(home)
}

fn probe(folder: &Path) -> bool {
    let file = folder.join(format!(".probe-{}", std::process::id()));
    std::fs::write(&file, "").and_then(|()| std::fs::remove_file(&file)).is_ok()
}

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent folder").to_path_buf()
}

/// Says whether the tests run as root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
}

/// Gives everything below `path` to `uid`.
pub fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).expect("chown");
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).expect("a folder").flatten() {
            give(&entry.path(), uid);
        }
    }
}

/// How a line of [`skip`] begins.
pub const SKIPPED: &str = "SKIPPED";

/// Says by name that a test, or a part of it, cannot run here, and why.
pub fn skip(test: &str, reason: &str) {
    // Past what the harness keeps of a test that passes: a skipped one must not look like one that ran.
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "{SKIPPED} {test}: {}", reason.trim_end()); // nobody reads it: nothing else is to be done
}

/// Places of one test: a home, a project and state of its own, removed at the end.
#[derive(Debug)]
pub struct Place {
    /// Everything lies below this folder.
    pub root: PathBuf,
}

/// Copies a program by another process: one that this process holds open for writing, while another test forks, could
/// not be executed (`ETXTBSY`, execve(2)).
pub fn copy_program(program: &Path, copy: &Path) {
    let copied = Command::new("cp").arg(program).arg(copy).status().expect("`cp` starts");
    assert!(copied.success(), "no copy of {} at {}", program.display(), copy.display());
}

/// Writes a program that can be executed, with the folders that it needs, by another process: see [`copy_program`].
pub fn write_program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the program");
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cat > "$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("`sh` starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success(), "no program at {}", path.display());
}

/// Longest time that a wait of a test takes on a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`; panics after a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(what, || holds().then_some(()));
}

/// Waits until `look` finds something, and returns it; panics after a minute.
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

/// Writes `text` to a named pipe when somebody reads it; panics if nobody does within a minute.
pub fn write_to_reader(pipe: &Path, text: &str) {
    // Without waiting, opening fails until there is a reader (fifo(7)).
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    let open = || rustix::fs::open(pipe, flags, rustix::fs::Mode::empty()).ok();
    let opened = found("somebody reads the pipe", open);
    std::fs::File::from(opened).write_all(text.as_bytes()).expect("somebody reads");
}

impl Place {
    /// Makes fresh places; `name` is for people who look at the folder.
    pub fn new(name: &str) -> Place {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = base().join(format!("{name}-{}-{count}", std::process::id()));
        // An earlier run that was killed may have had this number.
        drop(std::fs::remove_dir_all(&root));
        let place = Place { root };
        for folder in ["home", "project", "state", "runtime"] {
            std::fs::create_dir_all(place.root.join(folder)).expect("a folder for the test");
        }
        place.repository(&place.project());
        place
    }

    /// Makes `folder` the root of an empty repository, so that it is a project of its own.
    pub fn repository(&self, folder: &Path) {
        for part in ["objects", "refs/heads"] {
            std::fs::create_dir_all(folder.join(".git").join(part)).expect("a repository");
        }
        std::fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a repository");
    }

    /// The project folder.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The state directory given to `--state-dir`.
    pub fn state(&self) -> PathBuf {
        self.root.join("state/stockade")
    }

    /// Writes a file below the root, with the folders that it needs.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the file");
        std::fs::write(path, text).expect("a file of the test");
    }

    /// Returns `stockade` with these arguments, in the project, with a clean environment of its own.
    pub fn stockade<I, A>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = A>,
        A: AsRef<std::ffi::OsStr>,
    {
        let mut command = Command::new(stockade());
        command.args(arguments).current_dir(self.project()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("LANG", "C.UTF-8");
        command.env("XDG_STATE_HOME", self.root.join("state"));
        command.env("XDG_RUNTIME_DIR", self.root.join("runtime"));
        // A test that wants a gateway starts it.
        command.env("STOCKADE_GATEWAY", "manual");
        command.stdin(Stdio::null());
        command
    }

    /// The same as user `uid`, who is given everything below the root and a copy of the executable there: the
    /// executable itself may lie where others cannot go. Only root can ask for it.
    pub fn stockade_as<I, A>(&self, uid: u32, arguments: I) -> Command
    where
        I: IntoIterator<Item = A>,
        A: AsRef<std::ffi::OsStr>,
    {
        let copy = self.root.join("stockade");
        if !copy.exists() {
            copy_program(stockade(), &copy);
        }
        give(&self.root, uid);
        let own = self.stockade(arguments);
        let mut command = Command::new("setpriv");
        let id = uid.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(copy);
        command.args(own.get_args()).env_clear();
        command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.current_dir(self.project()).stdin(Stdio::null());
        command
    }

    /// Runs `stockade` with these arguments to its end.
    pub fn output<I, A>(&self, arguments: I) -> Output
    where
        I: IntoIterator<Item = A>,
        A: AsRef<std::ffi::OsStr>,
    {
        self.stockade(arguments).output().expect("the executable starts")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::env::var_os("STOCKADE_KEEP_TEST_FILES").is_none() {
            let removed = std::fs::remove_dir_all(&self.root);
            if let Err(error) = removed {
                eprintln!("cannot remove {}: {error}", self.root.display());
            }
        }
    }
}
