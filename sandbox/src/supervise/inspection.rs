//! Changes of a run in git directories that would run programs when somebody uses git there: inspected when nothing of
//! the run is left, by pid 1 or, if that one is gone, by the monitor.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::configuration::Keys;
use super::found::Lines;
use super::guard::Guard;
use super::repository::{self, identity, links};
use super::resolve;
use stockade_kernel::frames;
use stockade_kernel::syscalls;
use stockade_spec::codec::{Report, Wire};
use stockade_spec::note::{Kind, Note};
use stockade_spec::{GitVariable, git_variables};
use stockade_spec::{SandboxSpec, Violation};

/// Most directories that are remembered: each is held open until it was inspected.
const MOST_PLACES: usize = 500;

/// Longest file that is read; git's own are a few hundred bytes.
const MOST_TEXT: u64 = 1 << 20;

/// Part of the name of a file that is not yet in its place. A command that could write, move or replace the file could
/// do so with the files to inspect.
pub(super) const OWN: &str = ".stockade-";

/// Names that are tried to put something aside under.
const MOST_ASIDE: u32 = 50;

/// A directory that is looked at in the end.
#[derive(Debug)]
pub(crate) struct InspectedDirectory {
    pub(crate) note: Note,
    pub(crate) directory: OwnedFd,
}

/// A directory, and why it is remembered.
type Key = (repository::Identity, Kind);

/// The directories of one run, each told to the monitor before the run may use it.
#[derive(Debug, Default)]
pub(super) struct Places {
    held: RefCell<BTreeMap<Key, InspectedDirectory>>,
    /// Lines from before the run.
    lines: Lines,
    monitor: Option<UnixStream>,
}

impl Places {
    pub(super) fn new(monitor: UnixStream, lines: Lines) -> Places {
        Places { held: RefCell::default(), lines, monitor: Some(monitor) }
    }

    /// Remembers `directory`; on an error it is not remembered, and the act that asked for it must not be done.
    pub(super) fn add(&self, kind: Kind, directory: &OwnedFd) -> io::Result<()> {
        let key = (identity(&resolve::metadata(directory)?), kind);
        let mut held = self.held.borrow_mut();
        if held.contains_key(&key) {
            return Ok(());
        }
        if held.len() >= MOST_PLACES {
            return Err(io::Error::from_raw_os_error(libc::EDQUOT));
        }
        let known = match kind {
            Kind::Repository | Kind::Pointer | Kind::File => Vec::new(),
            Kind::Work => self.lines.get(&key.0).cloned().unwrap_or_default(),
        };
        let path = resolve::real_path(directory.as_fd())?;
        let place = InspectedDirectory {
            note: Note { kind, path, known },
            directory: directory.try_clone()?,
        };
        if let Some(monitor) = &self.monitor {
            let report = Report::Noted(place.note.clone()).to_bytes();
            frames::send_with(monitor, &report, &[directory.as_fd()])?;
        }
        held.insert(key, place);
        Ok(())
    }

    pub(super) fn inspect(&self, keys: &Keys, guard: &Guard) -> Vec<Violation> {
        let held = self.held.borrow();
        held.values()
            .filter_map(|place| {
                let path = resolve::real_path(place.directory.as_fd()).unwrap_or_default();
                inspect(place, &path, keys, guard)
            })
            .flatten()
            .collect()
    }
}

/// Looks into `places` where the supervisor can no more. Nothing of the run may live.
pub(crate) fn from_outside(spec: &SandboxSpec, places: &[InspectedDirectory]) -> Vec<Violation> {
    let keys = Keys::new(spec);
    // Where a directory lies is known from before: what depends on that is refused.
    let guard = Guard::nothing();
    let found = places.iter().filter_map(|place| inspect(place, &place.note.path, &keys, &guard));
    found.flatten().collect()
}

/// File that must not stay as it is: its name, the key that is refused, and the words for that.
struct Planted {
    name: &'static str,
    key: String,
    what: &'static str,
    aside: String,
}

fn inspect(
    place: &InspectedDirectory,
    path: &Path,
    keys: &Keys,
    guard: &Guard,
) -> Option<Vec<Violation>> {
    let directory = &place.directory;
    match place.note.kind {
        Kind::Repository => {
            let planted = configuration(directory, path, keys, guard);
            let aside = planted.map(|planted| put_aside(directory, path, &planted));
            Some(aside.into_iter().chain(remove_links(directory, path)).collect())
        }
        Kind::Pointer => pointer(directory).map(|it| vec![put_aside(directory, path, &it)]),
        Kind::File => {
            git_file(directory, path, guard).map(|it| vec![put_aside(directory, path, &it)])
        }
        Kind::Work => {
            // A directory of another kind has no instructions for git; one below a git directory has, even if
            // `HEAD` is away for now.
            let is_used = !matches!(kind_of(directory, "HEAD"), Ok(None))
                || links::git_above(directory, path, Path::new("/"))
                    .map_or(true, |found| found.is_some());
            is_used.then(|| work(directory, path, &place.note.known))
        }
    }
}

fn configuration(directory: &OwnedFd, path: &Path, keys: &Keys, guard: &Guard) -> Option<Planted> {
    let key = match read(directory, "config") {
        Ok(None) => return None,
        Ok(Some(text)) => match keys.refused(&text, path, guard) {
            Some(key) => key,
            None => not_renewed(renew(directory, "config", &text))?,
        },
        Err(_) => "what cannot be read".to_owned(),
    };
    Some(Planted { name: "config", key, what: "git configuration", aside: "config.refused".into() })
}

fn not_renewed(renewed: io::Result<()>) -> Option<String> {
    renewed.err().map(|_| "what cannot be written anew".to_owned())
}

/// The git directory of a linked worktree names that of its repository in one way (`gitrepository-layout(5)`).
fn pointer(directory: &OwnedFd) -> Option<Planted> {
    let text = match read(directory, "commondir") {
        Ok(None) => return None,
        Ok(Some(text)) => text,
        Err(_) => Vec::new(),
    };
    let is_own = text.trim_ascii_end() == b"../.."
        && repository::is_worktree(directory).unwrap_or(false)
        && renew(directory, "commondir", &text).is_ok();
    // Whether or not `HEAD` is there: that can be made later.
    (!is_own).then(|| Planted {
        name: "commondir",
        key: "commondir".to_owned(),
        what: "git directory",
        aside: "commondir.refused".into(),
    })
}

/// A `.git` file leads to a git directory that this run could not fill unseen: one in a writable region.
fn git_file(directory: &OwnedFd, path: &Path, guard: &Guard) -> Option<Planted> {
    let is_known = match kind_of(directory, ".git") {
        Ok(None | Some(true)) => return None,
        Ok(Some(false)) => read(directory, ".git").ok().flatten().is_some_and(|text| {
            // Git reads nothing else as one (`gitrepository-layout(5)`).
            let Some(target) = text.strip_prefix(b"gitdir: ") else { return true };
            let target = OsString::from_vec(target.trim_ascii_end().to_vec());
            path.join(target).canonicalize().is_ok_and(|found| guard.is_in_region(&found))
        }),
        Err(_) => false,
    };
    (!is_known).then(|| Planted {
        name: ".git",
        key: "gitdir".to_owned(),
        what: "git directory outside of the writable directories",
        aside: ".git.refused".into(),
    })
}

/// The instructions of a rebase that goes on later, and of a sequence of picks.
fn work(directory: &OwnedFd, path: &Path, known: &[OsString]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (inner, files) in
        [("rebase-merge", &["git-rebase-todo", "strategy"][..]), ("sequencer", &["opts"])]
    {
        let what = "instructions for git";
        match kind_of(directory, inner) {
            Ok(None) => continue,
            // Git makes a directory; what leads elsewhere is none.
            Ok(Some(true)) => {}
            Ok(Some(false)) | Err(_) => {
                let (key, aside) = ("what is not a directory".into(), format!("{inner}.stockade"));
                let planted = Planted { name: inner, key, what, aside };
                violations.push(put_aside(directory, path, &planted));
                continue;
            }
        }
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
        let Ok(opened) = syscalls::create_at(directory.as_fd(), Path::new(inner), flags, 0) else {
            continue;
        };
        for name in files {
            let key = match read(&opened, name) {
                Ok(None) => None,
                Ok(Some(text)) => instruction(name, &text, known)
                    .or_else(|| not_renewed(renew(&opened, name, &text))),
                Err(_) => Some("what cannot be read".to_owned()),
            };
            if let Some(key) = key {
                let planted = Planted { name, key, what, aside: format!("{name}.stockade") };
                violations.push(put_aside(&opened, &path.join(inner), &planted));
            }
        }
    }
    violations
}

/// Returns what `text` would start. A strategy is the end of a program's name, so one with a slash is any program.
fn instruction(name: &str, text: &[u8], known: &[OsString]) -> Option<String> {
    match name {
        "git-rebase-todo" => {
            let is_new = |line: &&[u8]| !known.iter().any(|it| it.as_encoded_bytes() == *line);
            starting(text).find(is_new).map(|_| "exec".to_owned())
        }
        "strategy" => text.contains(&b'/').then(|| "strategy".to_owned()),
        _ => {
            let Some(variables) = git_variables(text) else {
                return Some("what git cannot read".to_owned());
            };
            let leads = |it: &GitVariable| {
                it.key == "options.strategy"
                    && it.value.as_ref().is_none_or(|value| value.contains(&b'/'))
            };
            variables.iter().find(|it| leads(it)).map(|it| it.key.clone())
        }
    }
}

/// Returns the lines of a rebase's instructions that start programs (`git-rebase(1)`, Interactive mode).
fn starting(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii).filter(|line| {
        let word = line.iter().take_while(|byte| byte.is_ascii_graphic()).count();
        let word = line.get(..word).unwrap_or_default();
        word.starts_with(b"exec") || word == b"x"
    })
}

/// Returns the lines of the rebase there that start programs.
pub(super) fn starting_lines(directory: &OwnedFd) -> Vec<OsString> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let opened = syscalls::create_at(directory.as_fd(), Path::new("rebase-merge"), flags, 0);
    let text = opened.and_then(|opened| read(&opened, "git-rebase-todo"));
    // A file that cannot be read was not left by a person.
    let text = text.ok().flatten().unwrap_or_default();
    starting(&text).map(|line| OsString::from_vec(line.to_vec())).collect()
}

/// Says whether `name` is a directory; none if there is nothing.
fn kind_of(directory: &OwnedFd, name: &str) -> io::Result<Option<bool>> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    match syscalls::create_at(directory.as_fd(), Path::new(name), flags, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        result => Ok(Some(resolve::metadata(&result?)?.is_dir())),
    }
}

/// Reads a file of git; none if there is none. Anything else than a plain file of a usual size is an error.
pub(super) fn read(directory: &OwnedFd, name: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match syscalls::create_at(directory.as_fd(), name.as_ref(), flags, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        result => File::from(result?),
    };
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    text(file).map(Some)
}

/// Returns all that a file of a usual size holds.
pub(super) fn text(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MOST_TEXT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_TEXT { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// Puts a file with this text in the place of one that was looked into: whoever holds the other one open, or has another
/// name of it, changes nothing that git reads. Until it is there it has a name that no command can use ([`OWN`]).
pub(super) fn renew(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    let held = directory.as_fd();
    let lookup = libc::O_PATH | libc::O_NOFOLLOW;
    let found = syscalls::create_at(held, Path::new(name), lookup, 0)?;
    let mode = resolve::metadata(&found)?.permissions().mode() & 0o777;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut number = 0;
    let (path, file) = loop {
        let path = format!("{name}{OWN}{number}");
        match syscalls::create_at(held, Path::new(&path), flags, 0o600) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && number < MOST_ASIDE => {
                number += 1;
            }
            result => break (path, result?),
        }
    };
    let mut file = File::from(file);
    let written = file
        .write_all(text)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| syscalls::rename_at(held, Path::new(&path), held, Path::new(name), 0));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = syscalls::unlink_at(held, Path::new(&path), 0);
    }
    written
}

/// Removes the symbolic links of a git directory that the run made: git makes none.
fn remove_links(directory: &OwnedFd, path: &Path) -> Vec<Violation> {
    // The directory may be a git directory by some of its names only, and hold the files of somebody.
    if matches!(repository::is_git(directory, path), Ok(false)) {
        return Vec::new();
    }
    let told = |inside: &Path, what: String| {
        planted("symbolic link", &path.join(inside), format!("builtin: git directory, {what}"))
    };
    match links::find(directory, Path::new("."), links::Ways::Links) {
        Err(error) => vec![told(Path::new(""), format!("not looked through: {error}"))],
        Ok(found) => found
            .iter()
            .map(|link| match syscalls::unlink_at(directory.as_fd(), link, 0) {
                Ok(()) => told(link, "removed".to_owned()),
                Err(error) => told(link, format!("still there: {error}")),
            })
            .collect(),
    }
}

/// Gives it a name that git does not read, and tells of it.
fn put_aside(directory: &OwnedFd, path: &Path, planted: &Planted) -> Violation {
    let rule = match rename(directory, planted) {
        Ok(aside) => format!("builtin: {}, put aside as `{aside}`", planted.what),
        Err(error) => format!("builtin: {}, still there: {error}", planted.what),
    };
    self::planted(&planted.key, &path.join(planted.name), rule)
}

/// Returns the report of an object that a run left behind and that must not stay as it is.
pub(super) fn planted(call: &str, object: &Path, rule: String) -> Violation {
    Violation {
        kind: "planted".to_owned(),
        call: call.to_owned(),
        object: object.to_string_lossy().into_owned(),
        rule,
        count: 1,
        source: "inspection".to_owned(),
        ..Violation::default()
    }
}

/// Renames it to the first name that is free; the run may have taken some, or the right to change the directory.
fn rename(directory: &OwnedFd, planted: &Planted) -> io::Result<String> {
    let (held, from) = (directory.as_fd(), Path::new(planted.name));
    let (mut number, mut flags, mut is_opened) = (0, libc::RENAME_NOREPLACE, false);
    while number < MOST_ASIDE {
        let aside = match number {
            0 => planted.aside.clone(),
            number => format!("{}.{number}", planted.aside),
        };
        let renamed = syscalls::rename_at(held, from, held, Path::new(&aside), flags);
        match renamed.map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => return Ok(aside),
            // The directory is the caller's, who took the right away.
            Err((Some(libc::EACCES), _)) if !is_opened => {
                is_opened = true;
                let all = Permissions::from_mode(0o700);
                std::fs::set_permissions(resolve::own_path(held), all)?;
            }
            // A file system that knows no flags.
            Err((Some(libc::EINVAL), _)) if flags != 0 => flags = 0,
            Err((Some(libc::EEXIST | libc::EISDIR | libc::ENOTDIR | libc::ENOTEMPTY), _)) => {
                number += 1
            }
            Err((_, error)) => return Err(error),
        }
    }
    // Every name is taken: a trap, and not the work of git.
    syscalls::unlink_at(held, from, 0)?;
    Ok("nothing: it is removed".to_owned())
}

/// The report of a run whose supervisor could not do its work to the end.
pub(crate) fn cut_short(call: &str, object: String, rule: &str) -> Violation {
    Violation {
        kind: "process".to_owned(),
        call: call.to_owned(),
        object,
        rule: format!("builtin: {rule}"),
        count: 1,
        source: "monitor".to_owned(),
        ..Violation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<_> = starting(text.as_bytes()).map(String::from_utf8_lossy).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lines_that_start_programs_are_found() {
        check("pick abc one\n# exec no\nfixup -C def exec two\n", &[]);
        check("pick abc one\nexec make test\n", &["exec make test"]);
        check("  \tx make\r\n", &["x make"]);
        check("exec\tmake", &["exec\tmake"]);
        check("xpick abc\nexecute y", &["execute y"]);
    }

    #[test]
    fn a_strategy_is_a_name_and_no_path() {
        let check = |name: &str, text: &str, expected: Option<&str>| {
            assert_eq!(instruction(name, text.as_bytes(), &[]).as_deref(), expected, "{text}");
        };
        check("strategy", "ort\n", None);
        check("strategy", "./x", Some("strategy"));
        check("opts", "[options]\n\tsignoff = true\n\tstrategy = ours\n", None);
        check("opts", "[options]\n\tstrategy = \"a/b\"\n", Some("options.strategy"));
        check("opts", "[options\n", Some("what git cannot read"));
        let known = [OsString::from("exec make")];
        let instruction = |text: &str| instruction("git-rebase-todo", text.as_bytes(), &known);
        assert_eq!(instruction("pick a\nexec make\n"), None);
        assert_eq!(instruction("pick a\nexec make evil\n").as_deref(), Some("exec"));
    }
}
