//! Git's configuration text: which variables it sets, as git reads it (`git-config(1)`, Syntax), and which of
//! them a repository that a run makes may not have.
//!
//! What git would not read is refused as a whole, and so is a text that other readers could take for another one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::guard::{Act, Guard, Word};
use crate::{GitKeys, SandboxSpec};

/// One variable that a text sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// Section, subsection where there is one, and name, as git lists it.
    pub(super) full: Vec<u8>,
    /// Section and name, lower case, without the subsection: `remote.url`.
    pub(super) key: String,
    /// Its value without quotes; none where there is no `=`, which git takes for true.
    pub(super) value: Option<Vec<u8>>,
}

/// Returns the variables that `text` sets; `None` for what git would not read, or what is in doubt.
pub(super) fn variables(text: &[u8]) -> Option<Vec<Variable>> {
    let text = clean(text)?;
    let mut reader = Reader { rest: &text };
    let mut found = Vec::new();
    let mut section: Option<Vec<u8>> = None;
    loop {
        match reader.next() {
            None => return Some(found),
            Some(b' ' | b'\t' | b'\n') => {}
            Some(b'#' | b';') => reader.skip_line(),
            Some(b'[') => section = Some(reader.header()?),
            Some(first) if first.is_ascii_alphabetic() => {
                let section = section.as_ref()?;
                let mut name = vec![first.to_ascii_lowercase()];
                name.extend(reader.name(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
                let value = reader.value()?;
                let kind = section.split(|byte| *byte == b'.').next().unwrap_or_default();
                let key = [kind, b".", &name].concat();
                let key = String::from_utf8_lossy(&key).into_owned();
                found.push(Variable { full: [section, &b"."[..], &name].concat(), key, value });
            }
            Some(_) => return None,
        }
    }
}

/// Returns a text with line feeds alone at the ends of its lines.
fn clean(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut cleaned = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            // A blank for git, an end of line for others.
            b'\r' if bytes.peek() != Some(&b'\n') => return None,
            b'\r' => {}
            // The end of a value for some readers.
            0 => return None,
            byte => cleaned.push(byte),
        }
    }
    Some(cleaned)
}

/// What is left of a text; its end counts as the end of a line.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// Takes what belongs to a name, in lower case.
    fn name(&mut self, belongs: impl Fn(u8) -> bool) -> Vec<u8> {
        let length = self.rest.iter().take_while(|byte| belongs(**byte)).count();
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        name.to_ascii_lowercase()
    }

    fn skip_blanks(&mut self) {
        let length = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.rest = self.rest.split_at(length).1;
    }

    /// Reads a header behind its bracket: `section]`, `section.subsection]` or `section "subsection"]`.
    fn header(&mut self) -> Option<Vec<u8>> {
        let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let mut section = self.name(belongs);
        if section.first().is_none_or(|first| *first == b'.') {
            return None;
        }
        match self.next()? {
            b']' => return Some(section),
            b' ' | b'\t' => self.skip_blanks(),
            _ => return None,
        }
        if self.next()? != b'"' {
            return None;
        }
        section.push(b'.');
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next()? {
                    b'\n' => return None,
                    byte => section.push(byte),
                },
                byte => section.push(byte),
            }
        }
        (self.next()? == b']').then_some(section)
    }

    /// Reads what follows a name, to the end of the line; the outer `None` is what git cannot read.
    fn value(&mut self) -> Option<Option<Vec<u8>>> {
        self.skip_blanks();
        match self.next() {
            None | Some(b'\n') => return Some(None),
            Some(b'=') => {}
            Some(_) => return None,
        }
        let mut value = Vec::new();
        let mut is_quoted = false;
        // Up to here the value is kept when nothing but blanks follows.
        let mut kept = 0;
        loop {
            match self.next().unwrap_or(b'\n') {
                b'\n' if is_quoted => return None,
                b'\n' => break,
                b' ' | b'\t' if !is_quoted && value.is_empty() => continue,
                byte @ (b' ' | b'\t') if !is_quoted => {
                    value.push(byte);
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next().unwrap_or(b'\n') {
                    // The value goes on in the next line.
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                byte => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(Some(value))
    }
}

/// What the configuration of a git directory may hold that a run makes, and what it may change in one that was there.
#[derive(Debug, Clone)]
pub(super) struct Keys(GitKeys);

/// What is said of a text that git would not read, in the place of a key.
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
        let Some(variables) = variables(text) else {
            return Some(UNREADABLE.to_owned());
        };
        let is_refused = |variable: &&Variable| {
            !self.is_in(&self.0.free, variable) && !leads_back(variable, directory, guard)
        };
        variables.iter().find(is_refused).map(|variable| variable.key.clone())
    }

    /// Returns the first key in which `new` differs from `old`, the configuration of a git directory that was there, and
    /// may not. What may not change stays as often and in the same order; a text that is not understood may not be there.
    pub(super) fn changed(&self, old: &[u8], new: &[u8]) -> Option<String> {
        let (Some(old), Some(new)) = (variables(old), variables(new)) else {
            return Some(UNREADABLE.to_owned());
        };
        let is_set = |variable: &Variable| old.iter().any(|it| it.full == variable.full);
        let is_kept = |variable: &&Variable| {
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
        let strange = |it: &&Variable| !old.contains(it) && !names_remote(it, &new);
        new.iter().find(strange).map(|it| it.key.clone())
    }

    fn is_in(&self, list: &[OsString], variable: &Variable) -> bool {
        listed(list, &variable.key) && !listed(&self.0.refused, &variable.key)
    }
}

/// Says whether what a branch follows or is pushed to, if that is what a variable tells, is this repository or a remote of it:
/// an address in its place would be seen nowhere else (`git-config(1)`, `branch.<name>.remote`).
fn names_remote(variable: &Variable, all: &[Variable]) -> bool {
    if !matches!(&*variable.key, "branch.remote" | "branch.pushremote") {
        return true;
    }
    let Some(name) = &variable.value else { return true };
    let url = [b"remote.", &name[..], b".url"].concat();
    name == b"." || all.iter().any(|it| it.full == url)
}

/// Says whether a variable only leads the git directory of a submodule back to its files
/// (`gitsubmodules(7)`): to a place where the run could write them itself.
fn leads_back(variable: &Variable, directory: &Path, guard: &Guard) -> bool {
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
