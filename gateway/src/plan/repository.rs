//! What of git's a command may not change, in the project's repository and in those that belong to it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_sandbox::{Access, GitKeys};

use super::Rules;
use super::protected::protect;
use crate::facts::Place;
use crate::settings::trust;

/// What lies in a git directory and runs code or leads elsewhere.
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
        found.extend(inner(&directory, "modules"));
        found.push(directory);
    }
    let is_git = |directory: &PathBuf| directory.join("HEAD").exists();
    let objects = found.into_iter().filter(is_git).map(|directory| directory.join("objects"));
    objects.filter_map(|directory| directory.canonicalize().ok()).collect()
}

/// Adds what must stay as it is in the project's repository and in those that belong to it. Returns their configurations,
/// of which some keys may change.
pub(super) fn keep(rules: &mut Rules, place: &Place) -> Vec<PathBuf> {
    let pointer = place.project.join(".git");
    if pointer.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        rules.follow(&pointer, Access::Protected, "builtin: git pointer");
    }
    let Some(directory) = trust::git_directory(&place.project) else { return Vec::new() };
    let common = trust::common_directory(&place.project);
    // A linked worktree or submodule: commits write to its repository, wherever it lies.
    for outside in [Some(&directory), common.as_ref()].into_iter().flatten() {
        if outside.starts_with(&place.project) {
            continue;
        }
        if place.home.starts_with(outside) {
            return Vec::new();
        }
        rules.add(outside, Access::Write, "builtin: git directory");
        protect(rules, outside);
        keep_others(rules, outside, &place.project);
    }
    let mut found = vec![directory];
    found.extend(common);
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        next += 1;
        for name in GIT {
            // Whether it exists or not: what is missing leads elsewhere as soon as a command makes it.
            rules.follow(&directory.join(name), Access::Protected, "builtin: git directory");
        }
        let all = ["modules", "worktrees"].map(|name| inner(&directory, name));
        for inner in all.into_iter().flatten() {
            if !found.contains(&inner) {
                found.push(inner);
            }
        }
        found.truncate(MAX_INNER);
    }
    found.iter().take(MAX_REWRITTEN).map(|directory| directory.join("config")).collect()
}

/// Keeps the directories that lie in a git directory and are not git's, such as other worktrees in a bare repository.
fn keep_others(rules: &mut Rules, directory: &Path, project: &Path) {
    let is_plain =
        directory.extension().is_some_and(|end| end == "git") || directory.ends_with(".git");
    if is_plain && !project.starts_with(directory) {
        return;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.take(MAX_INNER).map(|entry| entry.path()) {
        let is_git =
            path.file_name().is_some_and(|name| GIT_DIRECTORIES.iter().any(|it| name == *it));
        if path.is_dir() && !is_git && !project.starts_with(&path) {
            rules.follow(&path, Access::ReadOnly, "builtin: no part of the git directory");
        }
    }
}

/// Returns the git directories below `name` of a git directory, at any depth: the name of a submodule may hold slashes.
fn inner(directory: &Path, name: &str) -> Vec<PathBuf> {
    let (mut found, mut rest, mut seen) = (Vec::new(), vec![directory.join(name)], 0);
    while let Some(next) = rest.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_INNER {
                return found;
            }
            let path = entry.path();
            if path.join("HEAD").is_file() {
                rest.push(path.join(name));
                found.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                rest.push(path);
            }
        }
    }
    found
}

/// Most configurations of one project that may be written: each is held open while the command runs.
const MAX_REWRITTEN: usize = 50;

/// Most git directories of one project that are looked at.
const MAX_INNER: usize = 1_000;
