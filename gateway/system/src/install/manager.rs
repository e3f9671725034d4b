//! The manager that starts the service: systemd where it runs, else the service script.

use std::path::Path;

use super::programs::run;
use super::units::{SCRIPT, SERVICES, SOCKETS};
use crate::RECORDER_SOCKET;

/// The manager that starts the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// Units.
    Systemd,
    /// A plain script in `/etc/init.d`.
    Script,
}

impl Manager {
    /// Returns who manages services on this machine (`sd_booted(3)`).
    pub fn of_this_machine() -> Manager {
        match Path::new("/run/systemd/system").is_dir() {
            true => Manager::Systemd,
            false => Manager::Script,
        }
    }
}

/// Starts the service, and has it start with the machine.
///
/// # Errors
///
/// Says which command failed.
pub fn start(manager: Manager) -> Result<(), String> {
    match manager {
        Manager::Systemd => {
            run("systemctl", &["daemon-reload"])?;
            run("systemctl", &[&["enable", "--now"], &SOCKETS[..]].concat())
        }
        Manager::Script => run(&format!("/{SCRIPT}"), &["start"]),
    }
}

/// Ends the service. A service that does not run needs no end.
///
/// # Errors
///
/// Says which command failed.
pub fn stop(manager: Manager) -> Result<(), String> {
    match manager {
        Manager::Systemd => {
            run("systemctl", &[&["disable", "--now"], &SOCKETS[..]].concat())?;
            run("systemctl", &[&["stop"], &SERVICES[..]].concat())?;
            // systemd made this folder for the sockets, and leaves it.
            let _ = Path::new(RECORDER_SOCKET).parent().map(std::fs::remove_dir);
            Ok(())
        }
        Manager::Script if Path::new("/").join(SCRIPT).exists() => {
            run(&format!("/{SCRIPT}"), &["stop"])
        }
        Manager::Script => Ok(()),
    }
}
