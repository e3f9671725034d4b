//! Finds the shell that runs command texts, and its version, builds the environment of a command, and finds the program that
//! literal words name.
//!
//! May read the file system and the environment that a request names. Writes the definitions that a person hands over, and the
//! version of a shell in the state; starts nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod definitions;
pub mod elsewhere;
pub mod environment;
pub mod toolchains;
pub mod zsh;

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use stockade_base::place::Place;
use stockade_base::quoted::quoted;
use stockade_parser::{StartState, Zsh};
use stockade_wire::errors::{Code, Failure};

/// The shell that runs command texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// Its executable.
    pub path: PathBuf,
    /// Version of a bash, major and minor; of the one that is modelled best where zsh runs texts.
    pub version: (u32, u32),
    /// The zsh that it is, if it is one.
    pub zsh: Option<Zsh>,
}

impl Shell {
    /// Returns the arguments with which it runs `text`, and the variable that makes it read `start` first: bash has one,
    /// zsh without start files is told in the text.
    pub fn told(&self, text: &str, start: Option<&Path>) -> (Vec<OsString>, Option<OsString>) {
        let start = start.map(|path| path.as_os_str().to_owned());
        let (words, text) = match (&self.zsh, &start) {
            (Some(_), Some(start)) => (
                zsh::WORDS,
                format!(". {}\n{text}", quoted(&[start.to_string_lossy().into_owned()])),
            ),
            (Some(_), None) => (zsh::WORDS, text.to_owned()),
            (None, _) => (BASH, text.to_owned()),
        };
        let words = words.iter().map(|word| OsString::from(*word)).chain([text.into()]).collect();
        (words, start.filter(|_| self.zsh.is_none()))
    }
}

/// How bash is started, in front of a text.
const BASH: &[&str] = &["bash", "--noprofile", "--norc", "-c"];

/// Finds the shell: the one of the settings, else bash at its usual places, else the first on `search` that
/// lies outside the project and is not writable by others.
pub fn find(
    setting: Option<&Path>,
    search: &str,
    place: &Place,
    state: &Path,
) -> Result<Shell, Failure> {
    let path = match setting {
        Some(path) if is_program(path) => path.to_path_buf(),
        Some(path) => {
            let message = format!("invalid setting `shell`: `{}` is not a program", path.display());
            return Err(Failure::new(Code::ShellMissing, message, "correct the setting `shell`"));
        }
        None => usual(search, place).ok_or_else(|| {
            let help = "install the package `bash`, or set its path in `shell`";
            Failure::new(Code::ShellMissing, "bash is not installed", help)
        })?,
    };
    match version(&path, state) {
        Some(Version::Bash(version)) => Ok(Shell { path, version, zsh: None }),
        Some(Version::Zsh(found)) => {
            let zsh = Some(found.zsh(search));
            Ok(Shell { path, version: StartState::default().version, zsh })
        }
        None => {
            let message = format!("`{}` does not report a version of bash or zsh", path.display());
            Err(Failure::new(Code::ShellMissing, message, "set `shell` to the path of bash or zsh"))
        }
    }
}

fn usual(search: &str, place: &Place) -> Option<PathBuf> {
    let known = ["/bin/bash", "/usr/bin/bash"].map(PathBuf::from);
    let listed = search.split(':').map(|directory| Path::new(directory).join("bash"));
    known
        .into_iter()
        .chain(listed.filter(|path| is_safe(path, place)))
        .find(|path| is_program(path))
}

/// Says whether a program at `path` was put there by this machine's owner: outside the project, in a
/// directory that others cannot write.
fn is_safe(path: &Path, place: &Place) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let inside = real.starts_with(&place.project)
        || path.starts_with(&place.project)
        || place.additional.iter().any(|directory| real.starts_with(directory));
    let uid = rustix::process::geteuid().as_raw();
    let closed = real.ancestors().all(|step| {
        step.metadata().is_ok_and(|found| {
            found.mode() & 0o002 == 0 && (found.uid() == 0 || found.uid() == uid)
        })
    });
    path.is_absolute() && !inside && closed
}

/// Says whether a file can be executed.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Kind and version of a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Version {
    Bash((u32, u32)),
    Zsh(zsh::Found),
}

impl Version {
    /// Reads what [`Version::text`] wrote.
    fn of(text: &str) -> Option<Version> {
        match text.strip_prefix("zsh ") {
            Some(rest) => zsh::Found::of(rest).map(Version::Zsh),
            None => number(text).map(Version::Bash),
        }
    }

    fn text(&self) -> String {
        match self {
            Version::Bash(version) => format!("{}.{}", version.0, version.1),
            Version::Zsh(found) => format!("zsh {}", found.text()),
        }
    }
}

/// Returns the version of the shell at `path`: kept in the state for this very file, else read from it.
fn version(path: &Path, state: &Path) -> Option<Version> {
    let found = path.metadata().ok()?;
    let key = format!(
        "{} {} {} {} {}.{}",
        path.display(),
        found.dev(),
        found.ino(),
        found.len(),
        found.ctime(),
        found.ctime_nsec()
    );
    let kept = state.join("shell");
    let text = fs::read_to_string(&kept).unwrap_or_default();
    if let Some(version) = text.strip_prefix(&key).and_then(|rest| Version::of(rest.trim())) {
        return Some(version);
    }
    let version = version_inside(path)?;
    // Keeping it saves a millisecond next time; a state that cannot be written is reported elsewhere.
    let new = state.join(format!("shell.{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
    if let Ok(mut file) = opened {
        let written = writeln!(file, "{key} {}", version.text());
        if written.is_err() || fs::rename(&new, &kept).is_err() {
            let _ = fs::remove_file(&new); // a left-over name is written again next time
        }
    }
    Some(version)
}

/// Returns the version that a shell carries in its bytes: a bash as what(1) shows it. Nothing is run for it.
fn version_inside(path: &Path) -> Option<Version> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_SHELL_BYTES).read_to_end(&mut bytes).ok()?;
    let first = |text: &[u8]| number(&String::from_utf8_lossy(text.get(..16).unwrap_or(text)));
    match behind(&bytes, b"@(#)Bash version ").next().and_then(first) {
        Some(version) => Some(Version::Bash(version)),
        None => zsh::inside(&bytes).map(Version::Zsh),
    }
}

/// Returns what stands behind each `mark`.
fn behind<'a>(bytes: &'a [u8], mark: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let starts = bytes.iter().enumerate().filter(move |(_, byte)| mark.first() == Some(byte));
    let rest = starts.filter_map(|(at, _)| bytes.get(at..));
    rest.filter_map(move |rest| rest.strip_prefix(mark))
}

/// Largest shell that is read for its version, in bytes.
const MAX_SHELL_BYTES: u64 = 64 << 20;

fn number(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the program that `name` means on the search path of the command, as execvp(3) finds it.
pub fn program(name: &str, search: &str, cwd: &Path) -> Result<PathBuf, Failure> {
    let found = match name.contains('/') {
        true => Some(cwd.join(name)).filter(|path| is_program(path)),
        false => search
            .split(':')
            .map(|directory| cwd.join(directory).join(name))
            .find(|path| is_program(path)),
    };
    found.ok_or_else(|| {
        let name = name.escape_debug();
        let message = format!("no program `{name}` in PATH");
        Failure::new(
            Code::InvalidRequest,
            message,
            "pass one operand to have it read as shell text",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    fn place(project: &Path) -> Place {
        let here = project.to_path_buf();
        let (cwd, project) = (here.clone(), here.clone());
        Place {
            cwd,
            session: None,
            project,
            roots: Vec::new(),
            home: here,
            homes: Vec::new(),
            additional: Vec::new(),
        }
    }

    #[test]
    fn the_version_is_kept_for_the_same_file() {
        let folder = Folder::new();
        let find = || find(None, "", &place(Path::new("/nowhere")), folder.path()).unwrap();
        let first = find();
        assert!(first.version >= (3, 2));
        let kept = folder.path().join("shell");
        let text = fs::read_to_string(&kept).unwrap();
        let (key, _) = text.trim().rsplit_once(' ').unwrap();
        fs::write(&kept, format!("{key} 9.9\n")).unwrap();
        assert_eq!(find().version, (9, 9));
        fs::write(&kept, "another 9.9\n").unwrap();
        assert_eq!(find(), first);
    }

    #[test]
    fn a_shell_in_the_project_is_not_taken() {
        let folder = Folder::new();
        let path = folder.write("bin/bash", "#!/bin/sh\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!is_safe(&path, &place(folder.path())));
    }

    #[test]
    fn words_name_programs_as_execvp_finds_them() {
        assert_eq!(program("sh", "/nowhere:/bin", Path::new("/")), Ok("/bin/sh".into()));
        assert_eq!(program("./sh", "", Path::new("/bin")), Ok("/bin/./sh".into()));
        assert_eq!(
            program("no-such", "/bin", Path::new("/")).unwrap_err().code,
            Code::InvalidRequest
        );
    }
}
