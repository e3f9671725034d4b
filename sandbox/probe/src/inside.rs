//! The acts that probes try: `stockade probe`, once outside and once confined.
//!
//! Each line of output is the name of an act and whether it succeeded. Nothing is left behind but what the
//! caller made for it and removes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::attempts;
use stockade_spec::Protection;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_millis(200);

/// Time after which what is left behind ends by itself.
const LEFT_BEHIND: Duration = Duration::from_secs(20);

/// Objects of the acts, from the environment.
pub(super) struct Scene {
    /// Holds `outside/file`, `denied/file`, `project` and `outside/socket`.
    pub(super) place: PathBuf,
    /// A process outside.
    pub(super) process: i32,
    /// A server outside.
    pub(super) server: Option<SocketAddr>,
    /// The namespace for messages of System V outside.
    pub(super) messages: PathBuf,
}

/// One act.
pub(super) struct Act {
    pub(super) name: &'static str,
    /// Protections that are missing if the act succeeds.
    pub(super) protections: &'static [Protection],
    /// The act itself, which succeeds without confinement; one that always fails there shows nothing.
    pub(super) run: fn(&Scene) -> bool,
}

/// All acts.
pub(super) const ACTS: &[Act] = &[
    Act {
        name: "write a file outside",
        protections: &[Protection::WriteOutside],
        run: |scene| fs::write(scene.place.join("outside/new"), "x").is_ok(),
    },
    Act {
        name: "change the mode of a file outside",
        protections: &[Protection::MetadataOutside],
        run: |scene| {
            let mode = fs::Permissions::from_mode(0o640);
            fs::set_permissions(scene.place.join("outside/file"), mode).is_ok()
        },
    },
    Act {
        name: "make a protected name",
        protections: &[Protection::Protected],
        run: |scene| {
            fs::write(scene.place.join("project").join(super::trial::GUARDED), "x").is_ok()
        },
    },
    Act {
        name: "read a denied file",
        protections: &[Protection::NoRead],
        run: |scene| fs::read(scene.place.join("denied/file")).is_ok(),
    },
    Act {
        name: "see a denied file",
        protections: &[Protection::HiddenNames],
        run: |scene| fs::symlink_metadata(scene.place.join("denied/file")).is_ok(),
    },
    Act {
        name: "connect to a server of the host",
        protections: &[Protection::Network, Protection::Loopback],
        run: |scene| {
            scene.server.is_some_and(|at| TcpStream::connect_timeout(&at, CONNECT_LIMIT).is_ok())
        },
    },
    Act {
        name: "connect to a socket of the host",
        protections: &[Protection::UnixSockets],
        run: |scene| UnixStream::connect(scene.place.join("outside/socket")).is_ok(),
    },
    Act {
        name: "signal a process of the host",
        protections: &[Protection::Processes],
        run: |scene| attempts::may_signal(scene.process),
    },
    Act {
        name: "see a process of the host",
        protections: &[Protection::Processes],
        run: |scene| fs::metadata(format!("/proc/{}/stat", scene.process)).is_ok(),
    },
    Act {
        name: "use the host's message queues",
        protections: &[Protection::Ipc],
        run: |scene| {
            let is_hosts =
                fs::read_link("/proc/self/ns/ipc").is_ok_and(|own| own == scene.messages);
            is_hosts && attempts::make_message_queue()
        },
    },
    Act {
        name: "join a kernel keyring",
        protections: &[Protection::Keyring],
        run: |_| attempts::join_keyring(),
    },
    Act {
        name: "write a setting of the kernel",
        protections: &[Protection::KernelSettings],
        run: |_| {
            let file = OpenOptions::new().write(true).open("/proc/self/oom_score_adj");
            file.and_then(|mut file| file.write_all(b"1000")).is_ok()
        },
    },
    Act {
        name: "gain rights from a set-id program",
        protections: &[Protection::Privilege],
        run: |_| {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            status.lines().any(|line| line == "NoNewPrivs:\t0")
        },
    },
    Act {
        name: "make a namespace",
        protections: &[Protection::Syscalls],
        run: |_| attempts::make_user_namespace(),
    },
    Act {
        name: "reach the terminal's input queue",
        protections: &[Protection::Tty],
        // Without a terminal the kernel still looks; a filter does not let it.
        run: |_| {
            let refused = attempts::inject_input().err().and_then(|error| error.raw_os_error());
            refused != Some(libc::EPERM)
        },
    },
    Act {
        name: "have files without a limit",
        protections: &[Protection::Limits],
        run: |_| attempts::has_unlimited_files(),
    },
    Act {
        name: "have more descriptors than three",
        protections: &[Protection::Fds],
        // One more is the directory that is being read.
        run: |_| fs::read_dir("/proc/self/fd").is_ok_and(|entries| entries.count() > 4),
    },
    Act {
        name: "see a variable that was not given",
        protections: &[Protection::Env],
        run: |_| {
            std::env::vars_os()
                .any(|(name, _)| !super::trial::VARIABLES.iter().any(|it| name == *it))
        },
    },
];

/// Tries all acts and prints the outcome of each; returns the exit status.
pub fn run() -> i32 {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let scene = Scene {
        place: variable("PROBE_PLACE").into(),
        process: variable("PROBE_PROCESS").parse().unwrap_or(0),
        server: variable("PROBE_SERVER").parse().ok(),
        messages: variable("PROBE_MESSAGES").into(),
    };
    let mut lines = String::new();
    for act in ACTS {
        lines.push_str(&format!("{}={}\n", act.name, (act.run)(&scene)));
    }
    // Outlives this process unless somebody ends it; it holds the pipe that the caller reads to its end.
    if variable("PROBE_LEAVES") == "true" {
        attempts::leave_process_behind(LEFT_BEHIND);
    }
    i32::from(std::io::stdout().write_all(lines.as_bytes()).is_err())
}
