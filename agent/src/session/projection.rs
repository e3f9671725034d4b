//! The files of sessions that the readers of the SDK packages know. The event log is the truth, so a file that cannot be
//! written holds nothing up.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, statat};
use rustix::io::Errno;
use serde_json::Value;

/// Longest file that is read.
const LONGEST: u64 = 1 << 30;
/// Longest name of a folder that the packages do not cut.
const LONGEST_NAME: usize = 200;
/// Folder of all directories, below the base.
const ALL: &str = "projects";

/// The folder in which the packages' readers find the sessions of one directory. The base is where the user says; below it
/// no link is followed.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    base: PathBuf,
    name: String,
}

/// Returns the name that the packages give the folder of a directory.
fn folder_name(cwd: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let name: String = cwd.chars().map(plain).collect();
    match name.get(..LONGEST_NAME).filter(|_| name.len() > LONGEST_NAME) {
        Some(cut) => format!("{cut}-{}", hash(cwd)),
        None => name,
    }
}

/// Returns the hash behind a name that is cut: that of Java's strings, in base 36.
fn hash(text: &str) -> String {
    let sum = text
        .chars()
        .fold(0_i32, |sum, it| sum.wrapping_mul(31).wrapping_add_unsigned(u32::from(it)));
    let (mut rest, mut digits) = (sum.unsigned_abs(), Vec::new());
    loop {
        digits.extend(char::from_digit(rest % 36, 36));
        rest /= 36;
        if rest == 0 {
            return digits.iter().rev().collect();
        }
    }
}

impl Folder {
    /// Returns the folder of a directory: below `CLAUDE_CONFIG_DIR`, as the packages expect it, else in the state directory.
    pub(crate) fn of(cwd: &Path) -> Option<Folder> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = variable("HOME");
        let base = variable("CLAUDE_CONFIG_DIR")
            .or_else(|| {
                variable("CLAUDE_CODE_ENTRYPOINT")
                    .and(home.clone())
                    .map(|home| home.join(".claude"))
            })
            .or_else(|| variable("XDG_STATE_HOME").map(|state| state.join("stockade/sessions")))
            .or_else(|| home.map(|home| home.join(".local/state/stockade/sessions")))?;
        Some(Folder { base, name: folder_name(&cwd.to_string_lossy()) })
    }

    /// Returns a folder below another base.
    #[cfg(test)]
    pub(super) fn at(base: &Path) -> Folder {
        Folder { base: base.to_owned(), name: folder_name("/p") }
    }

    /// Returns the path of a session's file, if its identity can be the name of one.
    pub(super) fn path(&self, session: &str) -> Option<PathBuf> {
        let is_name = !session.is_empty()
            && session.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it));
        is_name.then(|| self.base.join(ALL).join(&self.name).join(format!("{session}.jsonl")))
    }

    fn open(&self, makes: bool) -> io::Result<OwnedFd> {
        if makes {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.base)?;
        }
        let is_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &self.base, is_folder, Mode::empty())?;
        for name in [ALL, &self.name] {
            if makes {
                match mkdirat(&folder, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            folder = openat(&folder, name, is_folder | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Opens the file of a session: a regular file of the user with one name.
    fn file(&self, session: &str, how: OFlags) -> anyhow::Result<File> {
        if self.path(session).is_none() {
            bail!("`{}` is not the identity of a session", session.escape_debug());
        }
        let folder = self.open(how.contains(OFlags::CREATE))?;
        // A pipe without a reader is refused, and not waited for (open(2)).
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = format!("{session}.jsonl");
        let file = File::from(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            bail!("it is not a regular file");
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            bail!("it belongs to another user");
        }
        if metadata.nlink() > 1 {
            bail!("it has another name as well");
        }
        Ok(file)
    }

    /// Finds the session that was written last.
    pub(crate) fn last(&self) -> Option<String> {
        let folder = self.open(false).ok()?;
        let mut found: Option<((i64, u64), String)> = None;
        for entry in Dir::read_from(&folder).ok()?.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Some(session) = name.strip_suffix(".jsonl") else { continue };
            let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let written = (stat.st_mtime, stat.st_mtime_nsec);
            if found.as_ref().is_none_or(|(newest, _)| *newest < written) {
                found = Some((written, session.to_owned()));
            }
        }
        found.map(|(_, session)| session)
    }

    /// Reads the lines of a session.
    pub(crate) fn load(&self, session: &str) -> anyhow::Result<Vec<Value>> {
        let file = self.file(session, OFlags::RDONLY);
        let file = file.ok().filter(|it| it.metadata().is_ok_and(|it| it.len() <= LONGEST));
        let Some(file) = file else {
            bail!("No conversation found with session ID: {}", session.escape_debug())
        };
        let mut text = Vec::new();
        let read = file.take(LONGEST).read_to_end(&mut text);
        read.with_context(|| format!("the file of the session `{session}` cannot be read"))?;
        // A line that was cut by a crash is left out.
        Ok(text
            .split(|it| *it == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    /// Appends lines. A line that was written in part is removed.
    fn append(&self, session: &str, lines: &[u8]) -> anyhow::Result<()> {
        let mut file = self.file(session, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        let length = file.metadata()?.len();
        let written = file.write_all(lines);
        if written.is_err() {
            file.set_len(length).context("it cannot be cut back to whole lines")?;
        }
        Ok(written?)
    }
}

/// Where the lines of a session are written for the packages' readers.
#[derive(Debug, Default)]
pub(super) struct Projection {
    /// None where no file is wanted.
    place: Option<(Folder, String)>,
    /// True if the file could not be written.
    has_ended: bool,
}

impl Projection {
    pub(super) fn new(place: Option<(Folder, String)>) -> Projection {
        Projection { place, has_ended: false }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let (folder, session) = self.place.as_ref()?;
        folder.path(session)
    }

    /// Says whether a file is wanted that is not there yet.
    pub(super) fn is_missing(&self) -> bool {
        let is_there = |(folder, session): &(Folder, String)| {
            let file = folder.file(session, OFlags::RDONLY);
            // A file that cannot be used is told when it is written.
            file.map_or_else(
                |error| {
                    error.downcast_ref::<Errno>() != Some(&Errno::NOENT) && !is_not_found(&error)
                },
                |file| file.metadata().is_ok_and(|it| it.len() > 0),
            )
        };
        self.place.as_ref().is_some_and(|place| !is_there(place))
    }

    /// Appends lines. The first failure is told and ends the file: readers follow the parents of messages, and would lose
    /// everything before a gap.
    pub(super) fn add(&mut self, lines: &[u8]) {
        let Some((folder, session)) = self.place.as_ref().filter(|_| !self.has_ended) else {
            return;
        };
        if let Err(error) = folder.append(session, lines) {
            let path = folder.path(session).unwrap_or_default();
            eprintln!(
                "stockade: `{}` ends here, because it cannot be written: {error:#}; the session is still stored",
                path.display()
            );
            self.has_ended = true;
        }
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own, and its files `NAME.jsonl`.
    fn folder(name: &str) -> (Folder, PathBuf) {
        let base =
            std::env::temp_dir().join(format!("stockade-projection-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        (Folder::at(&base), base)
    }

    #[test]
    fn a_directory_has_the_folder_that_the_packages_look_for() {
        assert_eq!(folder_name("/home/me/a_b.c"), "-home-me-a-b-c");
        let long = format!("/{}", "a".repeat(300));
        // As `claude_agent_sdk.project_key_for_directory` has it.
        assert_eq!(folder_name(&long), format!("-{}-vtkmfl", "a".repeat(199)));
        assert_eq!(hash(""), "0");
    }

    #[test]
    fn lines_go_to_a_regular_file_and_never_through_a_link_or_into_a_pipe() {
        let (folder, base) = folder("files");
        folder.append("plain", b"{\"a\":1}\n").unwrap();
        folder.append("plain", b"{\"a\":2}\n{cut").unwrap();
        let path = |session: &str| folder.path(session).unwrap();
        assert_eq!(path("plain").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            folder.load("plain").unwrap(),
            [serde_json::json!({"a": 1}), serde_json::json!({"a": 2})]
        );
        assert_eq!(folder.last(), Some("plain".into()));

        let target = base.join("target");
        std::fs::write(&target, "{\"kept\":true}\n").unwrap();
        symlink(&target, path("link")).unwrap();
        std::fs::hard_link(&target, path("name")).unwrap();
        let (mode, kind) = (Mode::RUSR | Mode::WUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(CWD, path("pipe"), kind, mode, 0).unwrap();
        for session in ["link", "name", "pipe", "../x", ""] {
            assert!(folder.append(session, b"one\n").is_err(), "{session} is written");
            assert!(folder.load(session).is_err(), "{session} is read");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "{\"kept\":true}\n");
        // With a reader the pipe can be opened, and is refused for its kind.
        let reader =
            openat(CWD, path("pipe"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        assert_eq!(
            folder.append("pipe", b"one\n").unwrap_err().to_string(),
            "it is not a regular file"
        );
        drop(reader);

        let mut projection = Projection::new(Some((folder.clone(), "link".into())));
        assert!(!projection.is_missing());
        projection.add(b"one\n");
        std::fs::remove_file(path("link")).unwrap();
        projection.add(b"two\n");
        assert!(!path("link").exists(), "the file has a gap");
        assert!(projection.is_missing());
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn folders_that_are_links_are_neither_written_nor_read() {
        for name in [ALL, "projects/-p"] {
            let (folder, base) = folder("folders");
            let elsewhere = base.join("elsewhere");
            std::fs::create_dir_all(elsewhere.join("-p")).unwrap();
            let own = "{\"type\":\"user\"}\n";
            for place in ["-p/s.jsonl", "s.jsonl"] {
                std::fs::write(elsewhere.join(place), own).unwrap();
            }
            let link = base.join(name);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&elsewhere, &link).unwrap();
            assert!(folder.load("s").is_err(), "{name}");
            assert_eq!(folder.last(), None, "{name}");
            assert!(folder.append("s", b"one\n").is_err(), "{name}");
            assert!(folder.append("new", b"one\n").is_err(), "{name}");
            for place in ["-p/s.jsonl", "s.jsonl"] {
                assert_eq!(std::fs::read_to_string(elsewhere.join(place)).unwrap(), own, "{name}");
            }
            std::fs::remove_dir_all(base).unwrap();
        }
    }
}
