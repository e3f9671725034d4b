//! Machines with less: a program runs as on a kernel that lacks mechanisms.

use std::path::PathBuf;
use std::process::Command;

/// A mechanism of the kernel that can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// Namespaces: `unshare` and `clone` refuse to make them.
    Namespaces,
    /// Landlock: its calls do not exist.
    Landlock,
    /// Notifications of system-call filters, which the supervisor answers.
    Notifications,
}

/// Returns `command` on a machine without these mechanisms; none where no Python can set that machine up.
pub fn without(lacking: &[Lacking], command: &Command) -> Option<Command> {
    let name = |lacking: &Lacking| match lacking {
        Lacking::Namespaces => "namespaces",
        Lacking::Landlock => "landlock",
        Lacking::Notifications => "notifications",
    };
    let names: Vec<&str> = lacking.iter().map(name).collect();
    let mut outer = Command::new(python()?);
    let script = crate::root().join("tests/src/machine.py");
    outer.arg(script).arg(names.join(",")).arg(command.get_program()).args(command.get_args());
    outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        outer.current_dir(directory);
    }
    Some(outer)
}

/// Returns a Python that can call the C library.
fn python() -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    let found: Vec<PathBuf> = std::env::split_paths(&search).map(|it| it.join("python3")).collect();
    let works = |path: &PathBuf| {
        let tried =
            Command::new(path).args(["-c", "import ctypes; ctypes.CDLL(None).prctl"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    found.into_iter().find(works)
}
