//! Expands the patterns of file lists: `*`, `?` and `[...]` within a name, `**` across directories.

use std::path::{Path, PathBuf};

use regex::Regex;

/// Most paths that one pattern may stand for.
const MAX_PATHS: usize = 4_096;
/// Most directories that are looked through for one pattern.
const MAX_DIRECTORIES: usize = 20_000;

/// Says whether a path holds a wildcard.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the existing paths that an absolute pattern stands for; a path without wildcard as it is.
pub(super) fn expand(pattern: &str) -> Result<Vec<PathBuf>, &'static str> {
    if !is_pattern(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let segments: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut looked = 0;
    let mut paths = vec![PathBuf::from("/")];
    for segment in segments {
        let mut next = Vec::new();
        for path in &paths {
            match segment {
                "**" => descend(path, &mut next, &mut looked)?,
                plain if !is_pattern(plain) => next.push(path.join(plain)),
                wild => matching(path, wild, &mut next, &mut looked)?,
            }
            if next.len() > MAX_DIRECTORIES {
                return Err("it stands for too many paths");
            }
        }
        paths = next;
    }
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths.sort();
    paths.dedup();
    if paths.len() > MAX_PATHS {
        return Err("it stands for too many paths");
    }
    Ok(paths)
}

fn matching(
    directory: &Path,
    wild: &str,
    next: &mut Vec<PathBuf>,
    looked: &mut usize,
) -> Result<(), &'static str> {
    // An expression takes a tenth of the time of a whole call to be compiled, and few patterns need one.
    let expression = if wild.contains(['?', '[']) { Some(expression(wild)?) } else { None };
    let fits = |name: &str| match &expression {
        Some(expression) => expression.is_match(name),
        None => has_pieces(name, wild),
    };
    for entry in entries(directory, looked)? {
        if entry.file_name().is_some_and(|name| fits(&name.to_string_lossy())) {
            next.push(entry);
        }
    }
    Ok(())
}

/// Says whether `name` is `wild`, in which `*` alone stands for any text.
fn has_pieces(name: &str, wild: &str) -> bool {
    let Some((first, others)) = wild.split_once('*') else { return name == wild };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let (middle, last) = others.rsplit_once('*').unwrap_or(("", others));
    for piece in middle.split('*') {
        // The leftmost place leaves the most for the others.
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Adds `directory` and every directory below; links are not followed.
fn descend(
    directory: &Path,
    next: &mut Vec<PathBuf>,
    looked: &mut usize,
) -> Result<(), &'static str> {
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in entries(&directory, looked)? {
            if entry.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                waiting.push(entry);
            }
        }
        next.push(directory);
    }
    Ok(())
}

fn entries(directory: &Path, looked: &mut usize) -> Result<Vec<PathBuf>, &'static str> {
    *looked += 1;
    if *looked > MAX_DIRECTORIES {
        return Err("too many directories must be looked through");
    }
    // What cannot be listed here cannot be listed by the command either.
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn expression(wild: &str) -> Result<Regex, &'static str> {
    let mut text = String::from("(?s)^");
    let mut rest = wild.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '[' => {
                text.push('[');
                if rest.peek() == Some(&'!') {
                    rest.next();
                    text.push('^');
                }
                for inner in rest.by_ref() {
                    if inner == ']' {
                        break;
                    }
                    if matches!(inner, '[' | '\\' | '&' | '~' | '^') {
                        text.push('\\');
                    }
                    text.push(inner);
                }
                text.push(']');
            }
            plain => text.push_str(&regex::escape(plain.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('$');
    Regex::new(&text).map_err(|_| "it is not a pattern")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn stars_are_the_same_with_and_without_an_expression() {
        let names =
            ["", "a", "ab", "ba", "aa", "aba", "abab", "a\nb", "key", "ssh_host_x_key", "é*"];
        for wild in
            ["*", "**", "a*", "*a", "*a*", "a*a", "a*b*", "*b*a", "a*b*a*b", "ssh_host_*_key", "é*"]
        {
            for name in names {
                let expected = expression(wild).unwrap().is_match(name);
                assert_eq!(has_pieces(name, wild), expected, "{name:?} {wild:?}");
            }
        }
    }

    #[test]
    fn patterns_stand_for_what_exists() {
        let folder = Folder::new();
        for name in ["a/.env", "a/b/.env", "a/b/x.pem", "c/.env.local", "c/y.pem"] {
            folder.write(name, "");
        }
        let found = |pattern: &str| -> Vec<String> {
            let root = folder.path();
            let paths = expand(&format!("{}/{pattern}", root.display())).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            paths.iter().map(name).collect()
        };
        assert_eq!(found("**/.env"), ["a/.env", "a/b/.env"]);
        assert_eq!(found("*/.env*"), ["a/.env", "c/.env.local"]);
        assert_eq!(found("**/[xy].pem"), ["a/b/x.pem", "c/y.pem"]);
        assert_eq!(found("a/?/.env"), ["a/b/.env"]);
        assert_eq!(found("missing"), ["missing"]);
    }
}
