//! Files of git that a command may not change, in the project's repository and in those that belong to it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use stockade_spec::{Access, GitKeys};

use super::Rules;
use super::globs::LIMIT;
use super::protected::protect;
use super::targets::shown;
use stockade_base::names::Names;
use stockade_base::place::Place;
use stockade_settings::trust;

/// Entries of a git directory that run code or lead elsewhere.
const GIT: &[&str] = &[
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "objects/info/alternates",
    "info/attributes",
];

/// The directories that git itself makes in a git directory (`gitrepository-layout(5)`, `git-lfs`).
const GIT_DIRECTORIES: &[&str] = &[
    "objects",
    "refs",
    "reftable",
    "logs",
    "info",
    "hooks",
    "worktrees",
    "modules",
    "branches",
    "remotes",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "rr-cache",
    "lfs",
];

/// Returns which keys of git's configuration a command may set.
pub(super) fn keys() -> GitKeys {
    let known = stockade_policy::git_keys();
    let list = |keys: &[&str]| keys.iter().map(OsString::from).collect();
    GitKeys {
        refused: list(&known.refused),
        free: list(&known.free),
        changeable: list(&known.changeable),
        addable: list(&known.addable),
    }
}

/// Returns the directories that hold the history of the project, and of the other directories that are worked in.
pub(super) fn objects(place: &Place) -> Vec<PathBuf> {
    let projects = std::iter::once(&place.project).chain(&place.additional);
    let mut found = Vec::new();
    for project in projects {
        // A bare repository has no `.git`: it is one.
        let directory = trust::common_directory(project).unwrap_or_else(|| project.clone());
        found.extend(inner(&directory, "modules").unwrap_or_default());
        found.push(directory);
    }
    // One that is closed to its owner may be opened again by any command.
    let is_git = |directory: &PathBuf| is_there_or_closed(&directory.join("HEAD"));
    let real = |directory: PathBuf| Some(directory.canonicalize().ok()?.join("objects"));
    let objects = found.into_iter().filter(is_git).filter_map(real);
    objects.map(|objects| objects.canonicalize().unwrap_or(objects)).collect()
}

fn is_there_or_closed(path: &Path) -> bool {
    let there = path.symlink_metadata();
    there.map_or_else(|error| error.kind() == ErrorKind::PermissionDenied, |_| true)
}

/// Files of git that may change in ways that a rule for a whole path cannot express.
#[derive(Debug, Default)]
pub(super) struct Changeable {
    /// Configurations, of which some keys may change.
    pub(super) configurations: Vec<PathBuf>,
    /// Files that may be removed, though neither written nor replaced.
    pub(super) removable: Vec<PathBuf>,
}

/// Adds what must stay as it is in the project's repository and in those that belong to it. What leads to a linked worktree in
/// one of `regions` goes with it, when git removes that.
pub(super) fn keep(rules: &mut Rules, place: &Place, regions: &[PathBuf]) -> Changeable {
    let pointer = place.project.join(".git");
    if pointer.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        rules.follow(&pointer, Access::Protected, "builtin: git pointer");
    }
    let Some(directory) = trust::git_directory(&place.project) else {
        return Changeable::default();
    };
    let common = trust::common_directory(&place.project);
    // A linked worktree or submodule: commits write to its repository, wherever it lies.
    for outside in [Some(&directory), common.as_ref()].into_iter().flatten() {
        if outside.starts_with(&place.project) {
            continue;
        }
        if place.home.starts_with(outside) {
            return Changeable::default();
        }
        match others(outside, &place.project) {
            Some(others) => {
                rules.add(outside, Access::Write, "builtin: git directory");
                for other in others {
                    rules.follow(&other, Access::ReadOnly, "builtin: no part of the git directory");
                }
            }
            None => rules.tell(format!(
                "{} contains too many directories that are not git's: no command can write there",
                shown(outside)
            )),
        }
        protect(rules, outside, &[]);
    }
    let mut removable = Vec::new();
    let mut found = vec![directory];
    found.extend(common);
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        // Commands that may write the files of a worktree may move and remove it, too.
        let goes = is_worktree_in(&directory, regions);
        removable.extend(goes.then(|| directory.join(COMMON)));
        for name in GIT.iter().filter(|name| !goes || **name != POINTER) {
            // Whether it exists or not: what is missing leads elsewhere as soon as a command makes it.
            rules.follow(&directory.join(name), Access::Protected, "builtin: git directory");
        }
        for name in ["modules", "worktrees"] {
            let all = inner(&directory, name).filter(|all| found.len() + all.len() <= MAX_INNER);
            let Some(all) = all else {
                let whole = directory.join(name);
                rules.tell(format!(
                    "{} contains too many files: no command can write there",
                    shown(&whole)
                ));
                rules.follow(&whole, Access::ReadOnly, "builtin: git directory that is too large");
                continue;
            };
            let new: Vec<PathBuf> = all.into_iter().filter(|it| !found.contains(it)).collect();
            found.extend(new);
        }
    }
    let configurations = found.iter().take(MAX_REWRITTEN).map(|it| it.join("config")).collect();
    Changeable { configurations, removable }
}

/// In the git directory of a linked worktree, what leads to the repository (`gitrepository-layout(5)`).
const COMMON: &str = "commondir";

/// There, what leads to the files of the worktree.
const POINTER: &str = "gitdir";

/// Says whether `directory` is that of a linked worktree whose files lie in one of `regions`, whether they are there or not.
fn is_worktree_in(directory: &Path, regions: &[PathBuf]) -> bool {
    let is_listed = directory.parent().is_some_and(|above| above.ends_with("worktrees"));
    let Some(text) = trust::small(&directory.join(POINTER)) else { return false };
    let pointer = directory.join(text.trim_end());
    let real = Names::default().real(&pointer);
    is_listed && regions.iter().any(|region| real.starts_with(region))
}

/// Returns the directories that lie in a git directory and are not git's, such as other worktrees in a bare repository.
/// None where there are too many to keep each.
fn others(directory: &Path, project: &Path) -> Option<Vec<PathBuf>> {
    let is_plain =
        directory.extension().is_some_and(|end| end == "git") || directory.ends_with(".git");
    if is_plain && !project.starts_with(directory) {
        return Some(Vec::new());
    }
    let (until, mut found) = (Instant::now() + LIMIT, Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_git = GIT_DIRECTORIES.iter().any(|it| name == *it);
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_git && !is_file && !project.starts_with(&path) && path.is_dir() {
            found.push(path);
        }
        if found.len() > MAX_INNER || Instant::now() >= until {
            return None;
        }
    }
    Some(found)
}

/// Returns the git directories below `name` of a git directory, at any depth: the name of a submodule may hold slashes.
/// None where there are too many of them, or too much lies there.
fn inner(directory: &Path, name: &str) -> Option<Vec<PathBuf>> {
    let until = Instant::now() + LIMIT;
    let (mut found, mut rest, mut seen) = (Vec::new(), vec![directory.join(name)], 0_usize);
    while let Some(next) = rest.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_SEEN || found.len() > MAX_INNER || Instant::now() >= until {
                return None;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if is_there_or_closed(&path.join("HEAD")) {
                rest.push(path.join(name));
                found.push(path);
            } else {
                rest.push(path);
            }
        }
    }
    Some(found)
}

/// Most configurations of one project that may be written: each is held open while the command runs.
const MAX_REWRITTEN: usize = 50;

/// Most git directories in one of a project that are kept each for itself; where more are, they are kept as a whole.
const MAX_INNER: usize = 1_000;

/// Most entries that are looked at to find them.
const MAX_SEEN: usize = 1_000_000;
