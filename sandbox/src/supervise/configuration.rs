//! Variables of git's configuration that a repository made by a run may not have.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::guard::{Act, Guard, Word};
use stockade_spec::{GitKeys, SandboxSpec};
use stockade_spec::{GitVariable, git_variables};

/// Keys that the configuration of a git directory made by a run may hold, and that a run may change in an existing one.
#[derive(Debug, Clone)]
pub(super) struct Keys(GitKeys);

/// Text in the place of a key for a configuration that git would not read.
pub(super) const UNREADABLE: &str = "what git cannot read";

/// Says whether a key is in a list.
fn listed(list: &[OsString], key: &str) -> bool {
    list.iter().any(|pattern| {
        let pattern = pattern.as_bytes().to_ascii_lowercase();
        match pattern.strip_suffix(b"*") {
            Some(section) => key.as_bytes().starts_with(section),
            None => key.as_bytes() == pattern,
        }
    })
}

impl Keys {
    pub(super) fn new(spec: &SandboxSpec) -> Keys {
        Keys(spec.files.git_keys.clone())
    }

    /// Returns the first key of `text` that the git directory at `directory` may not set. A text that is not
    /// understood is refused as a whole.
    pub(super) fn refused(&self, text: &[u8], directory: &Path, guard: &Guard) -> Option<String> {
        let Some(variables) = git_variables(text) else {
            return Some(UNREADABLE.to_owned());
        };
        let is_refused = |variable: &&GitVariable| {
            !self.is_in(&self.0.free, variable) && !leads_back(variable, directory, guard)
        };
        variables.iter().find(is_refused).map(|variable| variable.key.clone())
    }

    /// Returns the first key in which `new` differs from `old`, the configuration of a git directory that was there, and
    /// may not. What may not change stays as often and in the same order; a text that is not understood may not be there.
    pub(super) fn changed(&self, old: &[u8], new: &[u8]) -> Option<String> {
        let (Some(old), Some(new)) = (git_variables(old), git_variables(new)) else {
            return Some(UNREADABLE.to_owned());
        };
        let is_set = |variable: &GitVariable| old.iter().any(|it| it.full == variable.full);
        let is_kept = |variable: &&GitVariable| {
            let is_added = self.is_in(&self.0.addable, variable) && !is_set(variable);
            !is_added && !self.is_in(&self.0.changeable, variable)
        };
        let (mut before, mut after) = (old.iter().filter(is_kept), new.iter().filter(is_kept));
        loop {
            match (before.next(), after.next()) {
                (None, None) => break,
                (one, other) if one == other => {}
                (one, other) => return other.or(one).map(|it| it.key.clone()),
            }
        }
        let strange = |it: &&GitVariable| !old.contains(it) && !names_remote(it, &new);
        new.iter().find(strange).map(|it| it.key.clone())
    }

    fn is_in(&self, list: &[OsString], variable: &GitVariable) -> bool {
        listed(list, &variable.key) && !listed(&self.0.refused, &variable.key)
    }
}

/// Says whether what a branch follows or is pushed to, if that is what a variable tells, is this repository or a remote of it:
/// an address in its place would be seen nowhere else (`git-config(1)`, `branch.<name>.remote`).
fn names_remote(variable: &GitVariable, all: &[GitVariable]) -> bool {
    if !matches!(&*variable.key, "branch.remote" | "branch.pushremote") {
        return true;
    }
    let Some(name) = &variable.value else { return true };
    let url = [b"remote.", &name[..], b".url"].concat();
    name == b"." || all.iter().any(|it| it.full == url)
}

/// Says whether a variable only leads the git directory of a submodule back to its files
/// (`gitsubmodules(7)`): to a place where the run could write them itself.
fn leads_back(variable: &GitVariable, directory: &Path, guard: &Guard) -> bool {
    let is_module = directory.components().any(|part| part.as_os_str() == "modules");
    let (true, "core.worktree", Some(value)) = (is_module, &*variable.key, &variable.value) else {
        return false;
    };
    let mut there = PathBuf::new();
    for part in directory.join(std::ffi::OsStr::from_bytes(value)).components() {
        match part {
            Component::ParentDir => drop(there.pop()),
            Component::CurDir => {}
            part => there.push(part),
        }
    }
    // Links on the way are followed by git, too, and can be changed later.
    if !std::fs::canonicalize(&there).is_ok_and(|real| real == there && real.is_dir()) {
        return false;
    }
    let holds_git = there.components().any(|part| super::repository::is_git_name(part.as_os_str()));
    let is_beside = !holds_git && !directory.starts_with(&there);
    is_beside && guard.is_in_region(&there) && guard.judge(Act::Make, &there) == Word::Free
}

#[cfg(test)]
mod tests;
