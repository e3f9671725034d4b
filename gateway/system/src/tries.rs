//! The reach of an ordinary user into the service of the machine, found by trying.

use std::fs::{self, OpenOptions};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, test_kill_process};
use serde::Serialize;
use stockade_base::places::{MANAGED, SYSTEM_LOG, SYSTEM_LOG_STATE, SYSTEM_SOCKET};

use crate::{GATEWAY, KEEPER, KEEPER_SOCKET, LISTENER, RECORDER, RECORDER_SOCKET};

/// One sentence about the service, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Try {
    /// The sentence.
    pub promise: &'static str,
    /// No attempt broke it.
    pub holds: bool,
    /// The attempts, or those that succeeded although they must not.
    pub detail: String,
}

/// Tries everything as the user of this process.
pub fn all(executable: &Path) -> Vec<Try> {
    if rustix::process::geteuid().is_root() {
        let detail = "an attempt by root proves nothing".to_owned();
        return vec![Try { promise: "tried as an ordinary user", holds: false, detail }];
    }
    vec![
        runs(executable),
        rules(),
        keys(),
        log(),
        sockets(),
        services(),
        own(),
        without(executable),
    ]
}

/// Puts attempts together: each has a name, and must fail.
fn against(promise: &'static str, attempts: Vec<(String, bool)>) -> Try {
    let succeeded: Vec<&str> = attempts
        .iter()
        .filter(|(_, succeeded)| *succeeded)
        .map(|(name, _)| name.as_str())
        .collect();
    let detail = match succeeded.is_empty() {
        true => format!("{} attempts failed", attempts.len()),
        false => format!("this succeeded: {}", succeeded.join(", ")),
    };
    Try { promise, holds: succeeded.is_empty() && !attempts.is_empty(), detail }
}

/// Attempts to change what `folder` holds: a file in it, its names, and itself.
fn changes(folder: &Path, file: &Path) -> Vec<(String, bool)> {
    let new = folder.join(".stockade-try");
    let made = OpenOptions::new().write(true).create_new(true).open(&new).is_ok();
    let moved = folder.with_extension("stockade-try");
    let renamed = fs::rename(folder, &moved).is_ok();
    if renamed {
        let _ = fs::rename(&moved, folder); // it was possible, which is told
    }
    if made {
        let _ = fs::remove_file(&new);
    }
    let away = file.with_extension("stockade-try");
    let taken = fs::rename(file, &away).is_ok();
    if taken {
        let _ = fs::rename(&away, file);
    }
    vec![
        (format!("write {}", file.display()), OpenOptions::new().append(true).open(file).is_ok()),
        (format!("make a file in {}", folder.display()), made),
        (format!("rename {}", file.display()), taken),
        (format!("rename {}", folder.display()), renamed),
    ]
}

/// Without this everything below would hold for want of a service.
fn runs(executable: &Path) -> Try {
    let promise = "a command of this user runs through the system gateway";
    let ran = run(executable, &["run", "--", "id -u"]);
    let own = rustix::process::geteuid().as_raw().to_string();
    let holds = ran.as_ref().is_ok_and(|it| it.trim() == own) && !gateways().is_empty();
    let detail = match ran {
        Ok(_) if holds => "it ran as this user only".to_owned(),
        Ok(told) => format!("it answered `{}`, or no gateway of this user runs", told.trim()),
        Err(told) => told,
    };
    Try { promise, holds, detail }
}

fn rules() -> Try {
    let folder = Path::new(MANAGED);
    against(
        "this user cannot change the rules",
        changes(folder, &folder.join("managed-settings.json")),
    )
}

fn keys() -> Try {
    let folder = Path::new(SYSTEM_LOG_STATE);
    let read = |path: PathBuf| (format!("read {}", path.display()), fs::read(&path).is_ok());
    let mut attempts = vec![(format!("list {}", folder.display()), fs::read_dir(folder).is_ok())];
    attempts.extend(["sign.key", "redact.key"].map(|name| read(folder.join("keys").join(name))));
    attempts.extend(changes(folder, &folder.join("head")));
    against("this user cannot read or change the keys", attempts)
}

fn log() -> Try {
    let folder = Path::new(SYSTEM_LOG);
    let file = folder.join("00000001.jsonl");
    let cut = OpenOptions::new().write(true).truncate(false).open(&file).is_ok();
    let mut attempts = vec![
        (format!("list {}", folder.display()), fs::read_dir(folder).is_ok()),
        (format!("read {}", file.display()), fs::read(&file).is_ok()),
        (format!("shorten {}", file.display()), cut),
    ];
    attempts.extend(changes(folder, &file));
    against("this user cannot read or change the log", attempts)
}

fn sockets() -> Try {
    let socket = Path::new(SYSTEM_SOCKET);
    let folder = socket.parent().unwrap_or(Path::new("/run"));
    let away = folder.join(".stockade-try");
    let moved = fs::rename(socket, &away).is_ok();
    if moved {
        let _ = fs::rename(&away, socket);
    }
    against(
        "no other process can replace the gateway or write its log",
        vec![
            ("connect to the recorder".into(), UnixStream::connect(RECORDER_SOCKET).is_ok()),
            ("connect to the keeper".into(), reaches(KEEPER_SOCKET)),
            (format!("rename {}", socket.display()), moved),
            (format!("make a file in {}", folder.display()), fs::write(&away, "").is_ok()),
        ],
    )
}

/// Says whether this process may connect to the socket of messages at `path`.
fn reaches(path: &str) -> bool {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
    socket.is_ok_and(|it| SocketAddrUnix::new(path).and_then(|at| connect(it, &at)).is_ok())
}

/// Attempts to look into a process.
fn looks(pid: i32) -> Vec<(String, bool)> {
    let at = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
    let open = |name: &str| OpenOptions::new().read(true).open(at(name)).is_ok();
    // A descriptor of these two may be had, and gives nothing when it is read.
    let reads = |name: &str| fs::read(at(name)).is_ok_and(|it| !it.is_empty());
    vec![
        (format!("open the memory of process {pid}"), open("mem")),
        (format!("read the environment of process {pid}"), reads("environ")),
        (format!("list the descriptors of process {pid}"), fs::read_dir(at("fd")).is_ok()),
    ]
}

fn services() -> Try {
    let mut attempts = Vec::new();
    for role in [LISTENER, KEEPER, RECORDER] {
        let found = processes(role);
        if found.is_empty() {
            attempts.push((format!("end {role} (it does not run)"), true));
        }
        for pid in found {
            let can_signal = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
            attempts.push((format!("signal process {pid}"), can_signal));
            attempts.extend(looks(pid));
        }
    }
    against("this user cannot touch listener, keeper and recorder", attempts)
}

fn own() -> Try {
    let attempts = gateways().into_iter().flat_map(looks).collect();
    against("no user can inspect the gateway of this user, not even this user", attempts)
}

fn without(executable: &Path) -> Try {
    let state = std::env::temp_dir().join(format!("stockade-try-{}", std::process::id()));
    let state = state.to_string_lossy().into_owned();
    let attempt = |arguments: &[&str]| {
        let ran = run(executable, arguments);
        (arguments.join(" "), ran.is_ok_and(|it| it.contains("it ran")))
    };
    let line = "echo it ran";
    let tried = against(
        "stockade runs nothing for this user without the system gateway",
        vec![
            attempt(&["run", "--no-daemon", "--", line]),
            attempt(&["run", "--state-dir", &state, "--", line]),
        ],
    );
    let _ = fs::remove_dir_all(&state); // only there if something began
    tried
}

/// Runs `stockade` with `arguments`, and returns what it writes, or what it says when it fails.
#[expect(
    clippy::disallowed_methods,
    reason = "this executable once more, as the user would start it"
)]
fn run(executable: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(executable);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr).lines().next().unwrap_or("it failed").to_owned()),
    }
}

/// Returns the processes that were started in `role`.
fn processes(role: &str) -> Vec<i32> {
    started(|words| words.get(1).is_some_and(|word| word == role))
}

/// Returns the gateways of this user.
fn gateways() -> Vec<i32> {
    let own = format!("{}:", rustix::process::geteuid().as_raw());
    started(|words| {
        words.get(1).is_some_and(|word| word == GATEWAY)
            && words.get(2).is_some_and(|word| word.starts_with(&own))
    })
}

fn started(is_meant: impl Fn(&[String]) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = line.split(|byte| *byte == 0);
        let words: Vec<String> =
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        is_meant(&words)
    })
    .collect()
}
