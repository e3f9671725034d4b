//! A place where a hostile text can run: namespaces, a root of its own, stubs for programs, a time limit.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::room;
use super::scenery::Scenery;
use super::trace::{self, Trace};

/// The home and working directory of every text.
pub const HOME: &str = "/desk";

/// Where the stubs are, which is all of `PATH`.
pub const STUBS: &str = "/stubs";

/// How long the answer about one text may take. Beyond it, something went wrong with the room.
const PATIENCE: Duration = Duration::from_secs(60);

/// Texts that run in one room, which keeps its traces small.
const TEXTS: usize = 1_000;

/// Stub for a program that is not really there: prints two lines and exits as the cage says.
const STUB: &[u8] =
    b"#!/usr/bin/sh\nprintf 'f1\\nf2\\n'\nread status </stubs/.status\nexit $status\n";

/// Programs that are really there, for what they start themselves. Those that this machine lacks are stubs.
const REAL: &[&str] = &[
    "bash", "sh", "dash", "env", "nice", "nohup", "timeout", "setsid", "xargs", "find", "cat",
    "sort", "sed", "awk", "mawk", "gawk", "tar", "head", "split", "stdbuf", "ionice", "chrt",
    "flock", "ed",
];

/// Script that runs in the new namespaces: mounts, then the room in another root, traced.
const SETUP: &str = r#"
set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
for folder in desk tmp stubs; do mount -t tmpfs -o size=16m tmpfs "$ROOT/$folder"; done
mount --bind /dev/null "$ROOT/dev/null"
mount -t proc proc "$ROOT/proc"
ulimit -f 65536
ulimit -v 4194304
ulimit -c 0
exec strace -f --seccomp-bpf -qq -xx -s 200000 -o "$TRACE" -e signal=none \
  -e trace=execve,execveat,open,openat,creat,clone,clone3,fork,vfork \
  unshare -R "$ROOT" -w / /usr/bin/room
"#;

/// A root folder with copies of a few programs, used by many runs.
#[derive(Debug)]
pub struct Cage {
    folder: PathBuf,
    opened: AtomicU64,
    /// Rooms in which no text runs at this moment.
    rooms: Mutex<Vec<Room>>,
}

impl Cage {
    /// Builds a cage; `oracle` is the program of that name, which runs the texts in it. An error is the reason
    /// why texts cannot be run on this machine.
    pub fn build(oracle: &Path) -> Result<Cage, String> {
        static CAGES: AtomicU64 = AtomicU64::new(0);
        for tool in ["strace", "unshare", "mount", "bash", "ldd"] {
            if find(tool).is_none() {
                return Err(format!("`{tool}` is not installed"));
            }
        }
        let number = CAGES.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-oracle-{}-{number}", std::process::id());
        let cage = Cage {
            folder: std::env::temp_dir().join(name),
            opened: AtomicU64::new(0),
            rooms: Mutex::default(),
        };
        cage.furnish(oracle).map_err(|error| format!("the cage cannot be built: {error}"))?;
        let trace = cage.run(b"oracle-probe works >f", 0, &Scenery::default())?;
        let expected = vec![b"oracle-probe".to_vec(), b"works".to_vec()];
        if !trace.started.iter().any(|started| started.argv == expected) {
            return Err("bash cannot be traced in namespaces of its own".into());
        }
        Ok(cage)
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn furnish(&self, oracle: &Path) -> io::Result<()> {
        let root = self.root();
        for folder in ["desk", "tmp", "stubs", "dev", "proc", "usr/bin", "etc"] {
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
        let stub = root.join("usr/bin/stub");
        fs::write(&stub, STUB)?;
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755))?;
        self.install(oracle, &root.join("usr/bin").join(room::NAME))
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

    /// Runs `text` among `scenery` and returns what it started and opened. An error is a fault of the cage, not of the text.
    pub fn run(&self, text: &[u8], status: u8, scenery: &Scenery) -> Result<Trace, String> {
        let scenery = scenery.encode();
        let fault = |error: io::Error| format!("the cage: {error}");
        let free = self.rooms.lock().map_err(|error| error.to_string())?.pop();
        if let Some(mut room) = free
            && let Ok(trace) = room.run(text, status, &scenery)
        {
            self.keep(room);
            return Ok(trace);
        }
        // A text can end its room, for example with `kill -9 -1`: what it did until then counts.
        let mut room = self.open().map_err(fault)?;
        match room.run(text, status, &scenery) {
            Ok(trace) => {
                self.keep(room);
                Ok(trace)
            }
            Err(_) => room.trace().map_err(fault),
        }
    }

    fn keep(&self, room: Room) {
        if room.texts < TEXTS
            && let Ok(mut rooms) = self.rooms.lock()
        {
            rooms.push(room);
        }
    }

    /// Makes namespaces, and in them a process that runs one text after the other.
    fn open(&self) -> io::Result<Room> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let trace = self.folder.join(format!("trace-{number}"));
        fs::write(&trace, b"")?;
        let mut process = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc"])
            .args(["--uts", "--mount-proc", "--kill-child", "sh", "-c", SETUP])
            .envs([("ROOT", self.root()), ("TRACE", trace.clone())])
            .env("HOME", HOME)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while output.read_exact(&mut byte).is_ok() && sender.send(()).is_ok() {}
        });
        Ok(Room { process, input, answers, trace: fs::File::open(&trace)?, path: trace, texts: 0 })
    }
}

/// Namespaces with a process in them that runs one text after the other.
#[derive(Debug)]
struct Room {
    process: Child,
    input: ChildStdin,
    answers: Receiver<()>,
    /// Read up to the end of the text before.
    trace: fs::File,
    path: PathBuf,
    texts: usize,
}

impl Room {
    fn run(&mut self, text: &[u8], status: u8, scenery: &[u8]) -> io::Result<Trace> {
        self.texts += 1;
        let mut request = vec![status];
        for part in [scenery, text] {
            let length = u32::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            request.extend(length.to_le_bytes());
            request.extend_from_slice(part);
        }
        self.input.write_all(&request)?;
        self.answers.recv_timeout(PATIENCE).map_err(|_| io::ErrorKind::TimedOut)?;
        self.trace()
    }

    /// Reads what was traced since the last time.
    fn trace(&mut self) -> io::Result<Trace> {
        let mut log = Vec::new();
        self.trace.read_to_end(&mut log)?;
        Ok(trace::read(&log))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // The end of `unshare` ends all that is in its namespaces.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if let Ok(mut rooms) = self.rooms.lock() {
            rooms.clear();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns where program `name` is, seen through links.
fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
        .iter()
        .find_map(|folder| fs::canonicalize(Path::new(folder).join(name)).ok())
}
