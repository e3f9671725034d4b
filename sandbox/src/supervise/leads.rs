//! Where a symbolic link leads: into a writable region, to what its reader could not change and the run may read, or to tools.
//!
//! A program outside that judged a path may open another file, when a run puts a link there meanwhile. So no link of a run leads to
//! what only a person can reach. Each is judged alone: where all links of runs lead only to such places, and none goes up
//! behind a name that a run can replace, no chain of them leads elsewhere, whatever becomes of its parts.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::guard::{Act, Guard, Word};
use stockade_kernel::syscalls;
use stockade_spec::Access;
use stockade_spec::{FileRule, SandboxSpec};
use stockade_spec::{Match, Pattern};

/// Links followed before the kernel gives up (`path_resolution(7)`).
const MOST_LINKS: u32 = 40;

/// Directories of the host that a run sees as other ones, or that each process sees in its own way.
const OTHERS: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev", "/proc"];

/// Beginning of the rule that refuses a link, before where it leads.
const RULE: &str = "builtin: symbolic link to";

/// Where links may lead.
#[derive(Debug)]
pub(super) struct Leads {
    roots: Vec<PathBuf>,
    /// Rules that say what can be read.
    rules: Vec<FileRule>,
    /// Patterns of what cannot, each with where it comes from.
    hidden: Vec<(Pattern, String)>,
}

/// Object to which a text leads.
struct End {
    path: PathBuf,
    is_there: bool,
}

/// Why that is not known, and where.
struct Doubt(&'static str, PathBuf);

impl Leads {
    pub(super) fn new(spec: &SandboxSpec) -> Leads {
        let patterns = spec.files.patterns.iter().filter(|it| it.access == Access::None);
        let pattern =
            |rule: &FileRule| (Pattern::parse(&rule.path).unwrap_or_default(), rule.origin.clone());
        Leads {
            roots: spec.files.link_roots.clone(),
            rules: spec.files.rules.clone(),
            hidden: patterns.map(pattern).collect(),
        }
    }

    /// Returns the rule that refuses a link with this text in the directory `above`, whose path is real.
    pub(super) fn refuses(&self, guard: &Guard, above: &Path, text: &Path) -> Option<String> {
        let end = match follow(guard, above, text) {
            Ok(end) => end,
            Err(Doubt(why, path)) => return Some(format!("{RULE} {}, {why}", path.display())),
        };
        if guard.is_in_region(&end.path) {
            return match guard.judge(Act::Make, &end.path) {
                Word::Free => None,
                Word::Forbidden(rule) => Some(rule),
                Word::Outside => Some(format!("{RULE} {}", end.path.display())),
            };
        }
        let is_tool = || self.roots.iter().any(|root| end.path.starts_with(root));
        match self.hides(&end.path) {
            Some(rule) => Some(rule.clone()),
            None if is_tool() || !is_other(&end.path) && is_out_of_reach(&end) => None,
            None => Some(format!("{RULE} {}", end.path.display())),
        }
    }

    /// Returns where the rule comes from that hides `path`.
    fn hides(&self, path: &Path) -> Option<&String> {
        let covering = self.rules.iter().filter(|rule| path.starts_with(&rule.path));
        let says = covering.filter(|rule| match rule.access {
            Access::None | Access::Read | Access::Write => true,
            Access::ReadOnly | Access::Protected | Access::Kept => false,
        });
        let longest =
            says.max_by_key(|it| (it.path.components().count(), it.access == Access::None));
        let rule = longest.filter(|it| it.access == Access::None).map(|it| &it.origin);
        let mut hidden = self.hidden.iter();
        rule.or_else(|| hidden.find(|it| it.0.matches(path) == Match::Whole).map(|it| &it.1))
    }
}

/// Follows a text from the directory `above`, as far as there is something.
fn follow(guard: &Guard, above: &Path, text: &Path) -> Result<End, Doubt> {
    let mut end = End { path: above.to_path_buf(), is_there: true };
    let (mut links, mut is_down) = (0, false);
    for part in text.components() {
        // A directory that a run can replace may lead elsewhere later, and its parent may be any directory.
        if part == Component::ParentDir && is_down {
            return Err(Doubt("by `..` behind a name that a command can replace", end.path));
        }
        is_down |= matches!(part, Component::Normal(_)) && guard.is_in_region(&end.path);
        step(guard, &mut end, part, &mut links)?;
    }
    Ok(end)
}

/// Goes on by one part of a path, and by the whole text of a link.
fn step(guard: &Guard, end: &mut End, part: Component<'_>, links: &mut u32) -> Result<(), Doubt> {
    let is_other = |path: &Path| !guard.is_in_region(path) && is_other(path);
    let name = match part {
        Component::Normal(name) => name,
        Component::CurDir => return Ok(()),
        Component::RootDir | Component::Prefix(_) => {
            *end = End { path: PathBuf::from("/"), is_there: true };
            return Ok(());
        }
        Component::ParentDir if !end.is_there || is_other(&end.path) => {
            return Err(Doubt("by `..` behind what may come to be", end.path.clone()));
        }
        Component::ParentDir => {
            end.path.pop();
            return Ok(());
        }
    };
    let next = end.path.join(name);
    let found = match end.is_there {
        true => fs::symlink_metadata(&next),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    match found {
        Ok(found) if found.is_symlink() => {
            *links = links.saturating_add(1);
            if is_other(&next) {
                return Err(Doubt("which is another one outside", next));
            }
            if *links > MOST_LINKS {
                *end = End { path: next, is_there: false };
                return Ok(());
            }
            let Ok(text) = fs::read_link(&next) else {
                return Err(Doubt("which cannot be looked up", next));
            };
            text.components().try_for_each(|part| step(guard, end, part, links))
        }
        Ok(_) => {
            end.path = next;
            Ok(())
        }
        Err(error) if is_absent(&error) => {
            *end = End { path: next, is_there: false };
            Ok(())
        }
        Err(_) => Err(Doubt("which cannot be looked up", next)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_other(path: &Path) -> bool {
    OTHERS.iter().any(|other| path.starts_with(other))
}

/// Says whether the caller could neither write nor make what is there, outside of any sandbox, and can read it. A directory is
/// not: what lies below may be anything.
fn is_out_of_reach(end: &End) -> bool {
    let user = syscalls::ids().user;
    if user == 0 {
        // Root can make everything but what lies in a directory that is not there.
        let above = end.path.ancestors().skip(1).filter(|it| *it != Path::new("/"));
        let is_absent = |path: &Path| path.symlink_metadata().is_err_and(|error| is_absent(&error));
        return !end.is_there && above.last().is_some_and(is_absent);
    }
    let is_strange = |path: &Path| match path.symlink_metadata() {
        Err(error) => is_absent(&error),
        Ok(found) => !may_change(path, &found, user),
    };
    end.path.ancestors().all(is_strange) && (!end.is_there || is_readable(&end.path))
}

/// Says whether the caller could write what is at `path`, or give himself the right to, if its mount let him.
fn may_change(path: &Path, found: &Metadata, user: u32) -> bool {
    const BY_OTHERS: u32 = 0o022;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let Ok(object) = syscalls::open_path(path, flags, syscalls::NO_LINKS) else { return true };
    // Every user that our namespace does not know has the number of one that may be the caller. Only an owner may keep the
    // time of access as it is (`open(2)`).
    let as_owner = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOATIME;
    let is_owner = || {
        let opened = syscalls::reopen(object.as_fd(), as_owner);
        !opened.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
    };
    let is_plain = found.is_file() || found.is_dir();
    if found.uid() == user && (!is_plain || is_owner()) {
        return true;
    }
    match syscalls::may_write(object.as_fd()).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EACCES)) => false,
        // Of a file system that is read-only as a whole the kernel says no more.
        Err(Some(libc::EROFS)) => found.mode() & BY_OTHERS != 0,
        Ok(()) | Err(_) => true,
    }
}

fn is_readable(path: &Path) -> bool {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let Ok(object) = syscalls::open_path(path, flags, syscalls::NO_LINKS) else { return false };
    let is_file = super::resolve::metadata(&object).is_ok_and(|found| found.is_file());
    is_file && syscalls::reopen(object.as_fd(), libc::O_RDONLY | libc::O_NONBLOCK).is_ok()
}
