//! Puts the service on a machine, and takes it away to the byte.
//!
//! All that is made is noted in one file, which root alone can change; what was there before stands in it as well.

pub mod apparmor;
mod manager;
mod programs;
pub mod units;

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::accounts::{self, Line, Lock};
use crate::{LISTENER_USER, LOG_USER};
use apparmor::Standing;
pub use manager::{Manager, start, stop};

/// Where it is noted what was made.
const NOTE: &str = "var/lib/stockade/install.json";
/// The managed settings.
const POLICY: &str = "etc/stockade/managed-settings.json";

/// One installation.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Root of the file system.
    pub root: PathBuf,
    /// The executable of the service, as the machine will find it.
    pub executable: PathBuf,
    /// Text of the managed settings; none leaves those that are there.
    pub policy: Option<String>,
    /// The manager that starts the service.
    pub manager: Manager,
}

/// One thing that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Made {
    /// A directory that was not there.
    Folder { path: PathBuf, mode: u32, owner: [u32; 2] },
    /// A file, and what it held before.
    File { path: PathBuf, text: String, mode: u32, before: Option<Before> },
    /// A line in a file of the machine.
    Line { path: PathBuf, line: String },
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    text: String,
    mode: u32,
}

/// All that was made, in order.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    made: Vec<Made>,
}

/// Returns the managed settings of an installation that names none.
pub const USUAL_POLICY: &str = "{\n  \"requireGateway\": true\n}\n";

/// Installs, or says what it would do; returns one line for each thing.
///
/// # Errors
///
/// Names the thing that cannot be made. Everything made before it is noted, so that [`undo`] takes it away.
pub fn install(plan: &Plan, is_tried: bool) -> Result<Vec<String>, String> {
    if let Some(policy) = &plan.policy {
        let _: serde_json::Value = serde_json::from_str(policy)
            .map_err(|error| format!("the policy is not JSON: {error}"))?;
    }
    let note = read_note(&plan.root)?.unwrap_or_default();
    let _lock = match is_tried {
        true => None,
        false => Some(Lock::take(&plan.root).map_err(|error| format!("/etc/.pwd.lock: {error}"))?),
    };
    let wanted = wanted(plan).map_err(|error| error.to_string())?;
    let mut session = Session { root: plan.root.clone(), note, is_tried, told: Vec::new() };
    for made in wanted {
        session.make(made)?;
    }
    session.profile(&plan.executable)?;
    Ok(session.told)
}

/// Returns all that belongs to an installation, in the order in which it is made.
fn wanted(plan: &Plan) -> io::Result<Vec<Made>> {
    let root = &plan.root;
    let (listener, _, mut lines) =
        accounts::service(root, LISTENER_USER, "takes connections for stockade", &[])?;
    let (uid, gid, its) =
        accounts::service(root, LOG_USER, "keeps the log of stockade", &[listener])?;
    lines.extend(its);
    let folder = |path: &str, mode: u32, owner: [u32; 2]| Made::Folder {
        path: root.join(path),
        mode,
        owner,
    };
    let file = |path: &str, text: &str, mode: u32| Made::File {
        path: root.join(path),
        text: text.to_owned(),
        mode,
        before: None,
    };
    let mut wanted = vec![folder("var/lib/stockade", 0o755, [0, 0])];
    let of_line = |Line { file, line }| Made::Line { path: file, line };
    wanted.extend(lines.into_iter().map(of_line));
    wanted.push(folder("etc/stockade", 0o755, [0, 0]));
    match &plan.policy {
        Some(policy) => wanted.push(file(POLICY, policy, 0o644)),
        None if root.join(POLICY).exists() => {}
        None => wanted.push(file(POLICY, USUAL_POLICY, 0o644)),
    }
    wanted.push(folder("var/log/stockade", 0o750, [uid, gid]));
    wanted.push(folder("var/lib/stockade/log", 0o700, [uid, gid]));
    let executable = plan.executable.to_string_lossy();
    match plan.manager {
        Manager::Systemd => {
            wanted.push(folder(units::FOLDER, 0o755, [0, 0]));
            for (name, text) in units::units(&executable) {
                wanted.push(file(&format!("{}/{name}", units::FOLDER), &text, 0o644));
            }
        }
        Manager::Script => {
            wanted.push(folder("etc/init.d", 0o755, [0, 0]));
            wanted.push(file(units::SCRIPT, &units::script(&executable), 0o755));
        }
    }
    Ok(wanted)
}

/// An installation under way.
struct Session {
    root: PathBuf,
    note: Note,
    is_tried: bool,
    told: Vec<String>,
}

impl Session {
    fn make(&mut self, made: Made) -> Result<(), String> {
        match made {
            Made::Folder { path, mode, owner } => self.folder(path, mode, owner),
            Made::File { path, text, mode, .. } => self.file(path, text, mode),
            Made::Line { path, line } => {
                self.told.push(format!("add to {}: {line}", path.display()));
                let failed = failed("change", &path);
                let add = Line { file: path.clone(), line: line.clone() };
                self.done(Made::Line { path, line }, || add.add().map_err(failed))
            }
        }
    }

    fn folder(&mut self, path: PathBuf, mode: u32, owner: [u32; 2]) -> Result<(), String> {
        match path.symlink_metadata() {
            Ok(found) if !found.is_dir() => Err(format!("`{}` is not a directory", path.display())),
            Ok(found) => {
                // A folder that somebody else made there before is not believed.
                let is_open = found.mode() & 0o022 != 0;
                let own = found.uid() == 0 || found.uid() == owner[0];
                match own && !is_open {
                    true => Ok(()),
                    false => Err(format!(
                        "`{}` is there and belongs to uid {}, or other users can write it; nothing was done with it",
                        path.display(),
                        found.uid()
                    )),
                }
            }
            Err(_) => {
                self.told.push(format!(
                    "make {} (mode {mode:04o}, uid {})",
                    path.display(),
                    owner[0]
                ));
                let failed = failed("make", &path);
                let at = path.clone();
                self.done(Made::Folder { path, mode, owner }, || {
                    let made = DirBuilder::new().mode(mode).create(&at);
                    let own = || std::os::unix::fs::chown(&at, Some(owner[0]), Some(owner[1]));
                    let mode = || fs::set_permissions(&at, Permissions::from_mode(mode));
                    made.and_then(|()| own()).and_then(|()| mode()).map_err(failed)
                })
            }
        }
    }

    fn file(&mut self, path: PathBuf, text: String, mode: u32) -> Result<(), String> {
        let found = path.symlink_metadata();
        let before = match found {
            Ok(found) if !found.is_file() => {
                return Err(format!("`{}` is not a file", path.display()));
            }
            Ok(found) => {
                let held = fs::read_to_string(&path).map_err(failed("read", &path))?;
                if held == text {
                    return Ok(());
                }
                Some(Before { text: held, mode: found.mode() & 0o7777 })
            }
            Err(_) => None,
        };
        let known = self.note.made.iter().find_map(|made| match made {
            Made::File { path: noted, before, .. } if *noted == path => Some(before.clone()),
            Made::Folder { .. } | Made::File { .. } | Made::Line { .. } => None,
        });
        // The first time counts: what an installation before this one wrote is not what was there.
        let before = known.unwrap_or(before);
        self.told.push(format!("write {} (mode {mode:04o}, {} bytes)", path.display(), text.len()));
        let failed = failed("write", &path);
        let (at, held) = (path.clone(), text.clone());
        self.done(Made::File { path, text, mode, before }, || {
            write(&at, &held, mode).map_err(failed)
        })
    }

    /// Writes the AppArmor profile and has the kernel take it. A machine where that is not possible has the service without it.
    fn profile(&mut self, executable: &Path) -> Result<(), String> {
        let line = match apparmor::standing(&self.root, executable) {
            Ok(Standing::Fits(text)) => {
                let told = self.told.len();
                self.file(apparmor::path(&self.root), text, 0o644)?;
                let is_new = self.told.len() > told;
                apparmor::load(&self.root, is_new, self.is_tried).unwrap_or_else(|why| {
                    Some(format!("leave the AppArmor profile unloaded: {why}"))
                })
            }
            Ok(Standing::Needless(why)) => Some(apparmor::left_out(why)),
            Err(why) => Some(apparmor::left_out(&why)),
        };
        self.told.extend(line);
        Ok(())
    }

    /// Notes what is about to be made, and makes it.
    fn done(
        &mut self,
        made: Made,
        make: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        if self.is_tried {
            return Ok(());
        }
        let path = |made: &Made| match made {
            Made::Folder { path, .. } | Made::File { path, .. } => (path.clone(), String::new()),
            Made::Line { path, line } => (path.clone(), line.clone()),
        };
        let known = self.note.made.iter().position(|it| path(it) == path(&made));
        match known.and_then(|place| self.note.made.get_mut(place)) {
            Some(noted) => *noted = made,
            None => self.note.made.push(made),
        }
        let at = self.root.join(NOTE);
        // The folder of the note is the first thing that is made.
        if at.parent().is_some_and(Path::is_dir) {
            self.save()?;
            return make();
        }
        make()?;
        self.save()
    }

    fn save(&self) -> Result<(), String> {
        let path = self.root.join(NOTE);
        let text = serde_json::to_string_pretty(&self.note).map_err(|error| error.to_string())?;
        write(&path, &text, 0o600).map_err(failed("write", &path))
    }
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |error| format!("cannot {what} `{path}`: {error}")
}

/// Puts `text` at `path`, whole.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.stockade"));
    let _ = fs::remove_file(&new); // one that an end of power left
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn read_note(root: &Path) -> Result<Option<Note>, String> {
    let path = root.join(NOTE);
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", &path)(error)),
    };
    if !found.is_file() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        return Err(format!("other users can write `{}`; nothing was done", path.display()));
    }
    let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))
}

/// Takes away what [`install`] made, and returns one line for each thing. With `keeps_log`, the log and its keys stay.
///
/// # Errors
///
/// Nothing was installed, or something cannot be taken away; the rest is taken away all the same.
pub fn undo(root: &Path, is_tried: bool, keeps_log: bool) -> Result<Vec<String>, String> {
    let Some(note) = read_note(root)? else {
        return Err("no installation is recorded here".into());
    };
    let _lock = match is_tried {
        true => None,
        false => Some(Lock::take(root).map_err(|error| format!("/etc/.pwd.lock: {error}"))?),
    };
    let logs = [root.join("var/log/stockade"), root.join("var/lib/stockade/log")];
    let stays = |made: &Made| match made {
        Made::Folder { path, .. } => {
            keeps_log && (logs.contains(path) || *path == root.join("var/lib/stockade"))
        }
        // The files of the log belong to its user.
        Made::Line { line, .. } => {
            keeps_log && line.split(':').next().is_some_and(|name| name == LOG_USER)
        }
        Made::File { .. } => false,
    };
    let (mut told, mut failures) = (Vec::new(), Vec::new());
    for made in note.made.iter().rev().filter(|made| !stays(made)) {
        if let Made::Folder { path, .. } = made
            && *path == root.join("var/lib/stockade")
            && !is_tried
        {
            let _ = fs::remove_file(root.join(NOTE)); // the folder that holds it tells if it stays
        }
        let is_profile = matches!(made, Made::File { path, .. } if *path == apparmor::path(root));
        let unmake = || unmake(made, &logs, is_tried);
        let taken = match is_profile {
            // Somebody else's file came there since.
            true if !apparmor::is_ours(root) => Ok(None),
            true if !is_tried => apparmor::around(root, unmake),
            true | false => unmake(),
        };
        match taken {
            Ok(line) => told.extend(line),
            Err(failure) => failures.push(failure),
        }
    }
    if keeps_log && !is_tried {
        let kept: Vec<Made> = note.made.iter().filter(|made| stays(made)).cloned().collect();
        let session = Session {
            root: root.to_path_buf(),
            note: Note { made: kept },
            is_tried,
            told: Vec::new(),
        };
        session.save()?;
    }
    if failures.is_empty() { Ok(told) } else { Err(failures.join("; ")) }
}

fn unmake(made: &Made, logs: &[PathBuf], is_tried: bool) -> Result<Option<String>, String> {
    let gone = |done: io::Result<()>, path: &Path| match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    };
    match made {
        Made::Line { path, line } => {
            if !is_tried {
                let line = Line { file: path.clone(), line: line.clone() };
                line.remove().map_err(failed("change", path))?;
            }
            Ok(Some(format!("remove from {}: {line}", path.display())))
        }
        Made::File { path, before: None, .. } => {
            if !is_tried {
                gone(fs::remove_file(path), path)?;
            }
            Ok(Some(format!("remove {}", path.display())))
        }
        Made::File { path, before: Some(before), .. } => {
            if !is_tried {
                write(path, &before.text, before.mode).map_err(failed("write", path))?;
            }
            Ok(Some(format!("restore {}", path.display())))
        }
        Made::Folder { path, .. } => {
            if !is_tried {
                match logs.contains(path) {
                    true => gone(fs::remove_dir_all(path), path)?,
                    // Something of others in it keeps it.
                    false => gone(fs::remove_dir(path), path)?,
                }
            }
            Ok(Some(format!("remove {}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests;
