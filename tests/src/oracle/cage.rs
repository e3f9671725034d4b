//! A place where a hostile text can run: namespaces, a root of its own, stubs for programs, a time limit.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::trace::{self, Trace};

/// The home and working directory of every text.
pub const HOME: &str = "/work";

/// How long one text may run.
const TIME_LIMIT: Duration = Duration::from_millis(1_500);

/// Programs that are really there, for what they start themselves. Those that this machine lacks are stubs.
const REAL: &[&str] = &[
    "bash", "sh", "dash", "env", "nice", "nohup", "timeout", "setsid", "xargs", "find", "cat",
    "sort", "sed", "awk", "mawk", "gawk", "tar", "head", "split", "stdbuf", "ionice", "chrt",
    "flock", "ed",
];

/// What runs in the new namespaces before bash: mounts, then the root is changed.
const SETUP: &str = r#"
set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs -o size=16m tmpfs "$ROOT/work"
mount -t tmpfs -o size=16m tmpfs "$ROOT/tmp"
mount --bind "$RUN/stubs" "$ROOT/stubs"
mount --bind /dev/null "$ROOT/dev/null"
mount -t proc proc "$ROOT/proc"
ulimit -f 65536
ulimit -v 4194304
ulimit -c 0
exec strace -f -qq -xx -s 200000 -o "$RUN/trace" -e signal=none \
  -e trace=execve,execveat,open,openat,creat,clone,clone3,fork,vfork \
  unshare -R "$ROOT" -w "$HOME" /usr/bin/env -i PATH=/stubs HOME="$HOME" LC_ALL=C \
  /usr/bin/bash --noprofile --norc -c "$1"
"#;

/// A root folder with copies of a few programs, used by many runs.
#[derive(Debug)]
pub struct Cage {
    folder: PathBuf,
    runs: AtomicU64,
}

impl Cage {
    /// Builds a cage in which `stub` stands for every program that is not there. An error is the reason why
    /// texts cannot be run on this machine.
    pub fn build(stub: &Path) -> Result<Cage, String> {
        static CAGES: AtomicU64 = AtomicU64::new(0);
        for tool in ["strace", "unshare", "mount", "bash", "ldd"] {
            if find(tool).is_none() {
                return Err(format!("`{tool}` is not installed"));
            }
        }
        let number = CAGES.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-oracle-{}-{number}", std::process::id());
        let cage = Cage { folder: std::env::temp_dir().join(name), runs: AtomicU64::new(0) };
        cage.furnish(stub).map_err(|error| format!("the cage cannot be built: {error}"))?;
        let trace = cage.run(b"oracle-probe works >f", 0)?;
        let expected = vec![b"oracle-probe".to_vec(), b"works".to_vec()];
        if !trace.started.iter().any(|started| started.argv == expected) {
            return Err("bash cannot be traced in namespaces of its own".into());
        }
        Ok(cage)
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn furnish(&self, stub: &Path) -> io::Result<()> {
        let root = self.root();
        for folder in ["work", "tmp", "stubs", "dev", "proc", "usr/bin", "etc"] {
            fs::create_dir_all(root.join(folder))?;
        }
        symlink("usr/bin", root.join("bin"))?;
        fs::write(root.join("dev/null"), b"")?;
        for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1")] {
            symlink(target, root.join("dev").join(name))?;
        }
        for name in REAL {
            if let Some(program) = find(name) {
                self.install(&program, &root.join("usr/bin").join(name))?;
            }
        }
        self.install(stub, &root.join("usr/bin/stub"))
    }

    /// Copies a program and the libraries it is linked with.
    fn install(&self, program: &Path, place: &Path) -> io::Result<()> {
        fs::copy(program, place)?;
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
        let listing = Command::new("ldd").arg(program).output()?.stdout;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        for library in listing.split_whitespace().filter(|word| word.starts_with('/')) {
            let copy = self.root().join(library.trim_start_matches('/'));
            if !copy.exists() {
                fs::create_dir_all(copy.parent().unwrap_or(&self.folder))?;
                fs::copy(library, &copy)?;
            }
        }
        Ok(())
    }

    /// Runs `text` and returns what it started and opened. An error is a fault of the cage, not of the text.
    pub fn run(&self, text: &[u8], status: u8) -> Result<Trace, String> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let run = self.folder.join(format!("run-{number}"));
        let result = self.run_in(&run, text, status).map_err(|error| format!("the cage: {error}"));
        // A folder left behind costs space only, and the whole cage goes at the end.
        let _ = fs::remove_dir_all(&run);
        result
    }

    fn run_in(&self, run: &Path, text: &[u8], status: u8) -> io::Result<Trace> {
        let stubs = run.join("stubs");
        fs::create_dir_all(&stubs)?;
        fs::write(stubs.join(".status"), [status])?;
        for name in names(text) {
            let real = self.root().join("usr/bin").join(OsStr::from_bytes(name)).exists();
            let target =
                if real { [b"/usr/bin/", name].concat() } else { b"/usr/bin/stub".to_vec() };
            // Names that differ only for this file system, or are too long for it, have no stub.
            let _ = symlink(OsStr::from_bytes(&target), stubs.join(OsStr::from_bytes(name)));
        }
        let mut unshare = Command::new("unshare");
        unshare
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "--net",
                "--ipc",
                "--uts",
            ])
            .args(["--mount-proc", "--kill-child", "sh", "-c", SETUP, "sh"])
            .arg(OsStr::from_bytes(text))
            .env("ROOT", self.root())
            .env("RUN", run)
            .env("HOME", HOME)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut process = unshare.spawn()?;
        let deadline = Instant::now() + TIME_LIMIT;
        let mut wait = Duration::from_micros(500);
        while process.try_wait()?.is_none() {
            if Instant::now() > deadline {
                process.kill()?;
                process.wait()?;
                break;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_millis(10));
        }
        Ok(trace::read(&fs::read(run.join("trace"))?))
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Every run of characters in `text` that could name a program.
fn names(text: &[u8]) -> BTreeSet<&[u8]> {
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+[]:@%^,".contains(byte) || *byte >= 0x80;
    let mut names: BTreeSet<&[u8]> = text.split(|byte| !plain(byte)).collect();
    // `$'\x61'` and the like make others; those are started without success, which the trace shows as well.
    names.retain(|name| !matches!(*name, b"" | b"." | b".."));
    names
}

/// Returns where program `name` is, seen through links.
fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
        .iter()
        .find_map(|folder| fs::canonicalize(Path::new(folder).join(name)).ok())
}
