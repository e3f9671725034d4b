//! Rules of the settings that refuse, and those that lift one for reading: what they are about, and what is refused by its
//! name alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Permission, access};
use rustix::process::{Resource, getrlimit};
use stockade_policy::{Origin, SandboxSettings};
use stockade_spec::{Access, Pattern};

use super::globs::{self, Found, Ground, Unlisted};
use super::place_of;
use super::rules::Rules;
use super::targets::{Target, Targets, shown};
use stockade_scene::request::quoted;
use stockade_wire::errors::{Code, Failure};

/// Most paths that all patterns stand for, each of which is a mount.
const MOST: usize = 15_000;

/// The reason of a rule for a directory that is read-only since so many directories in it are closed.
const CLOSED: &str = "builtin: unreadable directories";

/// The reason of a rule for a directory that is read-only since so many files in it are refused.
const CROWDED: &str = "builtin: directory with too many files that patterns refuse";

/// Directories with fewer refused files are not the reason that there are too many.
const CROWD: usize = 100;

/// One entry of the settings.
#[derive(Clone, Copy)]
struct Entry<'a> {
    pattern: &'a str,
    origin: &'a Origin,
    access: Access,
}

/// Adds what the settings refuse, and what they show again, to the rules of paths and of patterns.
pub(super) fn add(
    sandbox: &SandboxSettings,
    targets: &mut Targets,
    rules: &mut Rules,
    patterns: &mut Rules,
) -> Result<(), Failure> {
    let lists = [
        (&sandbox.deny_write, Access::ReadOnly),
        (&sandbox.deny_read, Access::None),
        (&sandbox.allow_read, Access::Read),
    ];
    let entries: Vec<Entry<'_>> = lists
        .iter()
        .flat_map(|(list, access)| {
            list.iter().map(|(pattern, origin)| Entry { pattern, origin, access: *access })
        })
        .collect();
    let (expanded, fixed, named) = expanded(&entries, targets)?;
    for (directory, count) in &named {
        rules.add(directory, Access::ReadOnly, CROWDED);
        rules.tell(format!(
            "{name} cannot be written by this command: patterns refuse writing {count} files in it, too many to refuse each; \
             move them into a directory below it, which is refused as a whole",
            name = shown(directory)
        ));
    }
    for directory in &fixed {
        // Closed directories in it can be opened by nobody then, and need no rule of their own.
        rules.add(directory, Access::ReadOnly, CLOSED);
        let help = opens(directory);
        let name = shown(directory);
        rules.tell(format!(
            "{name} cannot be written by this command: it contains too many unreadable directories; {help}"
        ));
    }
    for (entry, found) in entries.iter().zip(expanded) {
        let Entry { pattern, origin, access } = *entry;
        let place = place_of(pattern, origin);
        if let Some(note) = unseen(&found) {
            rules.tell(format!("{place}: {note}"));
        }
        for path in &found.paths {
            if access == Access::Read {
                rules.permit(path, access, pattern, origin);
                continue;
            }
            match targets.of(path, access) {
                Target::There => rules.refuse(path, access, &place),
                Target::Closed(above) => rules.add(&above, access, &place),
                Target::Name(name, note) => {
                    rules.add(&name, Access::Kept, &place);
                    rules.tell(format!("{place}: {note}"));
                }
            }
        }
        if Pattern::is(pattern) && access != Access::Read {
            let path = rules.with_real_start(pattern, &place);
            patterns.add(&path, access, &place);
        }
    }
    Ok(())
}

/// The paths that patterns match, directories that are to be read-only in the place of what is closed in them, and those in the place
/// of the files that are refused in them, with their number.
type Expanded = (Vec<Found>, Vec<PathBuf>, Vec<(PathBuf, usize)>);

/// Finds what patterns stand for, all at once.
fn expanded(entries: &[Entry<'_>], targets: &Targets) -> Result<Expanded, Failure> {
    let asked: Vec<(&str, Unlisted)> = entries
        .iter()
        .map(|Entry { pattern, access, .. }| match access {
            Access::ReadOnly | Access::None | Access::Protected => (*pattern, Unlisted::Whole),
            Access::Read | Access::Write | Access::Kept => (*pattern, Unlisted::Nothing),
        })
        .collect();
    let ground = Ground {
        is_needed: &|path| targets.is_needed(path),
        follows: &|link| targets.is_reached(link),
    };
    let found = globs::expand(&asked, ground, globs::LIMIT);
    let found = found.map_err(|(index, reason)| {
        let pattern = asked.get(index).map(|asked| asked.0).unwrap_or_default();
        let message =
            format!("the pattern `{}` cannot be expanded: {reason}", pattern.escape_debug());
        Failure::new(Code::SettingsRejected, message, "write it in another way")
    })?;
    let mut found = found;
    let fixed = fix(&mut found);
    let named = join_crowds(&mut found, entries, fixed.len());
    let all: BTreeSet<&Path> =
        found.iter().flat_map(|it| &it.paths).map(PathBuf::as_path).collect();
    match all.len() + fixed.len() + named.len() > most() {
        true => Err(too_many(&all)),
        false => Ok((found, fixed, named)),
    }
}

/// Takes the files of crowded directories that may not be written out of more paths than can be refused, and returns these
/// directories with the number of the files: what lies in a directory that is read-only is so, too.
fn join_crowds(found: &mut [Found], entries: &[Entry<'_>], others: usize) -> Vec<(PathBuf, usize)> {
    let mut named = Vec::new();
    loop {
        let all: BTreeSet<&Path> =
            found.iter().flat_map(|it| &it.paths).map(PathBuf::as_path).collect();
        if all.len() + others + named.len() <= most() || !super::is_available() {
            return named;
        }
        let of_patterns = found.iter().zip(entries).filter(|(_, entry)| is_by_name(entry));
        let files: BTreeSet<&PathBuf> = of_patterns.flat_map(|(it, _)| &it.paths).collect();
        let files = files.into_iter().map(PathBuf::as_path).filter(|path| !path.is_dir());
        let most = globs::counts(files).into_iter().max_by_key(|(_, count)| *count);
        let Some((directory, count)) = most.filter(|(_, count)| *count >= CROWD) else {
            return named;
        };
        let directory = directory.to_path_buf();
        for (each, _) in found.iter_mut().zip(entries).filter(|(_, entry)| is_by_name(entry)) {
            each.paths.retain(|path| path.parent() != Some(&directory) || path.is_dir());
        }
        named.push((directory, count));
    }
}

/// Says whether an entry is a pattern that refuses writing. What may not be read is hidden one by one.
fn is_by_name(entry: &Entry<'_>) -> bool {
    Pattern::is(entry.pattern) && entry.access == Access::ReadOnly
}

/// Takes closed directories out of more paths than can be refused, and returns the ones that hold them, which are to be
/// read-only: without a change of its mode nobody enters a closed one. Landlock alone keeps no mode.
fn fix(found: &mut [Found]) -> Vec<PathBuf> {
    let all: BTreeSet<&Path> =
        found.iter().flat_map(|it| &it.paths).map(PathBuf::as_path).collect();
    if all.len() <= most() || !super::is_available() {
        return Vec::new();
    }
    let closed: BTreeSet<PathBuf> =
        all.into_iter().filter(|path| is_closed(path)).map(Path::to_path_buf).collect();
    for each in found {
        each.paths.retain(|path| !closed.contains(path));
        each.unseen.retain(|path| !closed.contains(path));
    }
    let above: BTreeSet<&Path> = closed.iter().filter_map(|path| path.parent()).collect();
    above.into_iter().map(Path::to_path_buf).collect()
}

/// Says whether a directory can be neither listed nor entered by this user.
fn is_closed(path: &Path) -> bool {
    let may = |right| access(path, right).is_ok();
    path.is_dir() && !may(Permission::READ_OK) && !may(Permission::EXEC_OK)
}

/// Returns the command that opens the directories that are closed in one.
fn opens(directory: &Path) -> String {
    let name = quoted(&[directory.display().to_string()]);
    format!("`find {name} -type d ! -perm -u=rx -prune -exec chmod u+rwx {{}} +` opens them")
}

/// Returns how many paths can be refused: each takes a descriptor while a command is started.
fn most() -> usize {
    let highest = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    MOST.min(usize::try_from(highest).unwrap_or(usize::MAX) / 4 * 3)
}

/// Says which directory holds most of `all`, and how a person makes them fewer.
fn too_many(all: &BTreeSet<&Path>) -> Failure {
    let most = globs::counts(all.iter().copied()).into_iter().max_by_key(|(_, count)| *count);
    let (directory, count) = most.unwrap_or((Path::new("/"), 0));
    let is_closed = |path: &&&Path| {
        path.parent() == Some(directory)
            && path.is_dir()
            && access(**path, Permission::READ_OK | Permission::EXEC_OK).is_err()
    };
    let closed = all.iter().filter(is_closed).count();
    let name = quoted(&[directory.display().to_string()]);
    let message = format!(
        "{} contains {count} files and directories that the patterns of your settings refuse, {closed} of them because they are unreadable: no command can start with so many",
        shown(directory)
    );
    let help = match 2 * closed > count {
        true => opens(directory),
        false => {
            format!("move them into a directory below {name}, which is then refused as a whole")
        }
    };
    Failure::new(Code::SettingsRejected, message, help)
}

/// Says what could not be looked through for a pattern.
fn unseen(found: &Found) -> Option<String> {
    let (first, rest) = found.unseen.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let seconds = globs::LIMIT.as_secs();
    Some(format!(
        "{}{more} could not be searched in {seconds} s and is refused as a whole; move it out of the project, or write a narrower pattern",
        shown(first)
    ))
}

/// Leaves out what refuses nothing because its path leads nowhere: the links on its way are kept as they are.
pub(super) fn settle(targets: &Targets, rules: &mut Rules) {
    let refuses = |access| matches!(access, Access::None | Access::ReadOnly | Access::Protected);
    rules.all.retain(|rule| !refuses(rule.access) || !targets.is_over_link(&rule.path));
}
