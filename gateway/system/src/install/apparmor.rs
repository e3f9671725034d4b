//! The AppArmor profile of the executable. Ubuntu 24.04 and later let only programs with a profile make user namespaces
//! (`kernel.apparmor_restrict_unprivileged_userns`).

use std::fs;
use std::path::{Path, PathBuf};

use super::{failed, programs, write};

/// Folder of profiles (`apparmor.d(5)`).
const FOLDER: &str = "etc/apparmor.d";
/// The name of the profile, and of its file.
const NAME: &str = "stockade";
/// The first line of a file of ours.
const MARK: &str =
    "# Written by `stockade install`, which replaces it. Additions go into local/stockade.\n";
/// `Y` where AppArmor is in force (`aa_is_enabled(2)`).
const ENABLED: &str = "sys/module/apparmor/parameters/enabled";
/// Profiles that the kernel has, one a line: its name, and its mode in parentheses.
const LOADED: &str = "sys/kernel/security/apparmor/profiles";
/// Compiled profiles, in a folder for the features of each kernel (`--cache-loc` of `apparmor_parser(8)`).
const CACHE: &str = "var/cache/apparmor";
const PARSER: &str = "apparmor_parser";

/// The profile: nothing is held back, and user namespaces are named, as they have to be (`apparmor.d(5)`, "Userns rules").
const TEXT: &str = "\
abi <abi/4.0>,
include <tunables/global>

profile stockade EXECUTABLE flags=(unconfined) {
  userns,
  include if exists <local/stockade>
}

# Two processes of the service, whose units name these profiles. They start nothing, and have no network. A socket that came from
# outside of the mounts of a unit has its name all the same.
profile stockade-listener flags=(attach_disconnected) {
  LOADING
  /etc/passwd r,
  /run/stockade/{gateway,keeper}.sock rw,
  unix (accept, getattr, getopt, receive, send, setopt, shutdown) type=stream,
  unix (connect, create, getattr, getopt, receive, send, setopt) type=seqpacket,
  include if exists <local/stockade-listener>
}

profile stockade-recorder flags=(attach_disconnected) {
  LOADING
  /etc/{hostname,machine-id} r,
  /proc/sys/kernel/random/boot_id r,
  /run/stockade/recorder.sock rw,
  /var/lib/stockade/log/ rk,
  /var/lib/stockade/log/** rwk,
  /var/log/stockade/ rwk,
  /var/log/stockade/** rwk,
  unix (accept, getattr, getopt, receive, send, setopt, shutdown) type=stream,
  include if exists <local/stockade-recorder>
}
";

/// For each of both: to load the executable, to speak to the journal, and to be ended by the service manager.
const LOADING: &str = "\
EXECUTABLE mr,
  /{,usr/}lib{,32,64}/** mr,
  /dev/null rw,
  /etc/ld.so.cache r,
  /proc/@{pid}/maps r,
  /run/systemd/journal/stdout rw,
  signal (receive) peer=unconfined,";

/// Whether a machine takes the profile.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The machine takes this text.
    Fits(String),
    /// The machine has no use for a profile, for this reason.
    Needless(&'static str),
}

/// Returns the file of the profile.
pub(super) fn path(root: &Path) -> PathBuf {
    root.join(FOLDER).join(NAME)
}

/// Returns the text of the profile for `executable`.
pub fn text(executable: &str) -> String {
    MARK.to_owned() + &TEXT.replace("LOADING", LOADING).replace("EXECUTABLE", executable)
}

/// Says whether a file of ours is there.
pub(super) fn is_ours(root: &Path) -> bool {
    let path = path(root);
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    is_file && fs::read_to_string(&path).is_ok_and(|held| held.starts_with(MARK))
}

/// Finds out whether the machine at `root` takes the profile: its own parser tries the text.
pub(super) fn standing(root: &Path, executable: &Path) -> Result<Standing, String> {
    let is_enabled = fs::read_to_string(root.join(ENABLED)).is_ok_and(|held| held.trim() == "Y");
    let folder = root.join(FOLDER);
    if !is_enabled || !root.join(LOADED).exists() || !folder.is_dir() {
        return Ok(Standing::Needless("AppArmor is not in force on this machine"));
    }
    let path = path(root);
    if path.symlink_metadata().is_ok() && !is_ours(root) {
        let path = path.display();
        return Err(format!(
            "`{path}` is there and not written by stockade; `sudo mv {path} {path}.orig` makes room for it"
        ));
    }
    let text = text(&executable.to_string_lossy());
    let folder = folder.to_string_lossy();
    let tries = ["--quiet", "--skip-kernel-load", "--skip-cache", "--base", &*folder];
    match programs::accepts(PARSER, &tries, &text) {
        Ok(true) => Ok(Standing::Fits(text)),
        Ok(false) => Ok(Standing::Needless(
            "the `apparmor_parser` of this machine refuses it, as those before AppArmor 4.0 do, which restrict no user namespaces",
        )),
        Err(error) => Err(format!(
            "`{PARSER}` cannot be started: {error}; `sudo apt-get install apparmor` installs it"
        )),
    }
}

/// Says whether the kernel has the profile.
fn is_loaded() -> bool {
    let loaded = fs::read_to_string(Path::new("/").join(LOADED)).unwrap_or_default();
    loaded.lines().any(|line| line.split(' ').next() == Some(NAME))
}

/// Gives the kernel the profile that the file at `root` holds, if it `is_new` there or the kernel has none; returns the line that
/// says so. The kernel is that of this machine, so a file below another root is not loaded.
pub(super) fn load(root: &Path, is_new: bool, is_tried: bool) -> Result<Option<String>, String> {
    if !is_here(root) || !is_new && is_loaded() {
        return Ok(None);
    }
    if !is_tried {
        replace(root)?;
    }
    Ok(Some(format!("load {} into the kernel", path(root).display())))
}

/// Gives the kernel the profile that the file at `root` holds, in place of the one that it has.
fn replace(root: &Path) -> Result<(), String> {
    programs::run(PARSER, &["--replace", "--skip-cache", &path(root).to_string_lossy()])
}

fn is_here(root: &Path) -> bool {
    root == Path::new("/")
}

/// Takes the profile of our file out of the kernel and out of the cache, has `change` change its file, and loads what is there then.
pub(super) fn around<T>(
    root: &Path,
    change: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let unloaded = match is_here(root) && is_loaded() {
        true => programs::run(PARSER, &["--remove", &path(root).to_string_lossy()]),
        false => Ok(()),
    };
    for folder in fs::read_dir(root.join(CACHE)).into_iter().flatten().flatten() {
        let _ = fs::remove_file(folder.path().join(NAME)); // not every kernel has one
    }
    let changed = change()?;
    unloaded?;
    if is_here(root) && is_ours(root) {
        replace(root)?;
    }
    Ok(changed)
}

/// Writes the profile without the rest of the service and loads it, or says what it would do; returns one line for each thing.
///
/// # Errors
///
/// A file of somebody else is there, or the profile cannot be written or loaded.
pub fn install(root: &Path, executable: &Path, is_tried: bool) -> Result<Vec<String>, String> {
    let text = match standing(root, executable)? {
        Standing::Fits(text) => text,
        Standing::Needless(why) => return Ok(vec![left_out(why)]),
    };
    let (path, mut told) = (path(root), Vec::new());
    if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
        told.push(format!("write {} (mode 0644, {} bytes)", path.display(), text.len()));
        if !is_tried {
            write(&path, &text, 0o644).map_err(failed("write", &path))?;
        }
    }
    told.extend(load(root, !told.is_empty(), is_tried)?);
    Ok(told)
}

/// Takes a profile of ours away; returns one line for each thing.
///
/// # Errors
///
/// A file of somebody else is there, or the profile cannot be taken out of the kernel or away.
pub fn undo(root: &Path, is_tried: bool) -> Result<Vec<String>, String> {
    let path = path(root);
    if path.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    if !is_ours(root) {
        let path = path.display();
        return Err(format!("`{path}` is not written by stockade; `sudo rm {path}` removes it"));
    }
    if !is_tried {
        around(root, || fs::remove_file(&path).map_err(failed("remove", &path)))?;
    }
    Ok(vec![format!("remove {}", path.display())])
}

/// Returns the line that says that there is no profile.
pub(super) fn left_out(why: &str) -> String {
    format!("leave out the AppArmor profile: {why}")
}
