//! Git's configuration text, read only so far as to know which keys it sets (`git-config(1)`, Syntax).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// One variable that a text sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// Section and name, lower case, without the subsection: `remote.url`.
    pub(super) key: String,
    /// The raw rest of its line.
    pub(super) value: Vec<u8>,
}

/// Returns the variables that `text` sets; `None` for what git would not read, or what is not understood.
///
/// A line that continues another one is read as a line of its own: a key too many, never one too few.
pub(super) fn variables(text: &[u8]) -> Option<Vec<Variable>> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    if text.contains(&0) {
        return None;
    }
    let mut found = Vec::new();
    let mut section: Option<String> = None;
    let mut continues = false;
    // A carriage return alone is no end of a line for git; as one it can only show more keys.
    for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let mut rest = line.trim_ascii_start();
        while let Some(header) = rest.strip_prefix(b"[") {
            match after_header(header) {
                Some((name, after)) => (section, rest) = (Some(name), after.trim_ascii_start()),
                // The rest of a value may hold anything.
                None if continues => rest = b"",
                None => return None,
            }
        }
        let is_comment = rest.is_empty() || rest.starts_with(b"#") || rest.starts_with(b";");
        let length =
            rest.iter().take_while(|it| it.is_ascii_alphanumeric() || **it == b'-').count();
        let (name, value) = rest.split_at(length);
        if !is_comment && name.first().is_some_and(u8::is_ascii_alphabetic) {
            let section = section.as_ref()?;
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let value = value.trim_ascii_start();
            let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii().to_vec();
            found.push(Variable { key: format!("{section}.{name}"), value });
        } else if !is_comment && !continues {
            return None;
        }
        continues = line.ends_with(b"\\");
    }
    Some(found)
}

/// Reads a header behind its bracket; returns the section's name and what follows.
fn after_header(header: &[u8]) -> Option<(String, &[u8])> {
    let named = |it: &&u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.');
    let length = header.iter().take_while(named).count();
    let (name, rest) = header.split_at(length);
    // `[section.subsection]` is an old form of the same.
    let name = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let mut rest = rest.trim_ascii_start();
    if let Some(quoted) = rest.strip_prefix(b"\"") {
        let mut bytes = quoted.iter().enumerate();
        loop {
            match bytes.next()? {
                (_, b'\\') => drop(bytes.next()?),
                (index, b'"') => {
                    rest = quoted.get(index.saturating_add(1)..)?;
                    break;
                }
                _ => {}
            }
        }
    }
    let rest = rest.trim_ascii_start().strip_prefix(b"]")?;
    (!name.is_empty()).then_some((name, rest))
}

/// Returns the first key that `text` sets and that one of `refused` names: `section.name` in whatever
/// subsection, or `section.*`. A text that is not understood is refused as a whole.
pub(super) fn refused_key(text: &[u8], refused: &[OsString], is_module: bool) -> Option<String> {
    let Some(variables) = variables(text) else { return Some("what git cannot read".to_owned()) };
    let is_refused = |variable: &&Variable| {
        // The git directory of a submodule leads back to its files (`gitsubmodules(7)`).
        let leads_back = variable.key == "core.worktree" && variable.value.starts_with(b"../");
        let named = |pattern: &OsString| {
            let pattern = pattern.as_bytes().to_ascii_lowercase();
            let key = variable.key.as_bytes();
            match pattern.strip_suffix(b"*") {
                Some(section) => key.starts_with(section),
                None => key == pattern,
            }
        };
        !(is_module && leads_back) && refused.iter().any(named)
    };
    variables.iter().find(is_refused).map(|variable| variable.key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let refused =
            ["core.fsmonitor", "core.worktree", "alias.*", "filter.clean", "include.path"];
        let refused = refused.map(OsString::from);
        assert_eq!(refused_key(text.as_bytes(), &refused, false).as_deref(), expected, "{text}");
    }

    #[test]
    fn ordinary_configuration_is_free() {
        check("", None);
        check(
            "# c\n[core]\n\trepositoryformatversion = 0\n\tbare = false ; x\n[remote \"o\\\"]\"]\n\
             \turl = /a\\\n b\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[branch \"m\"]\n\tremote\n",
            None,
        );
    }

    #[test]
    fn a_refused_key_is_found_however_it_is_written() {
        let fsmonitor = Some("core.fsmonitor");
        check("[core]\nfsmonitor=x", fsmonitor);
        check("[CORE]\n  FsMonitor = x", fsmonitor);
        check("[core] fsmonitor", fsmonitor);
        check("\u{FEFF}[core]\r\n\tfsmonitor = x\r\n", fsmonitor);
        check("[a]\n[core]fsmonitor=x", fsmonitor);
        check("[a] [core] fsmonitor=x", fsmonitor);
        check("[core \"x\"]\nfsmonitor=x", fsmonitor);
        check("[core.x]\nfsmonitor=x", fsmonitor);
        check("[a]\nb = c \\\n[core]\nfsmonitor = x", fsmonitor);
        check("[alias]\n\tst = !x", Some("alias.st"));
        check("[filter \"a b\"]\n\tclean = x", Some("filter.clean"));
        check("[include]\n\tpath = x", Some("include.path"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["[core\nbare=x", "key = x", "[core]\n= x", "[]\na=b", "[a]\0\n", "[a \"\nb\"]"]
        {
            check(text, Some("what git cannot read"));
        }
    }

    #[test]
    fn a_submodule_leads_back_to_its_files_and_nowhere_else() {
        let refused = [OsString::from("core.worktree")];
        let check = |text: &str, is_module, expected: Option<&str>| {
            assert_eq!(refused_key(text.as_bytes(), &refused, is_module).as_deref(), expected);
        };
        check("[core]\nworktree = ../../../s", true, None);
        check("[core]\nworktree = ../../../s", false, Some("core.worktree"));
        check("[core]\nworktree = /etc", true, Some("core.worktree"));
    }
}
