//! Glob: files whose path fits a pattern, newest first.

use std::path::{Path, PathBuf};
use std::time::Instant;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::error::{Error, refuse};
use crate::found::absolute;
use crate::text::visible;
use crate::walk;

/// Most files that are shown.
const SHOWN: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

pub(crate) fn glob(input: &Input, cwd: &Path) -> Result<Answer, Error> {
    let begun = Instant::now();
    let base = directory(cwd, input.path.as_deref())?;
    let (base, pattern) = split(&base, &input.pattern);
    let matcher = matcher(&pattern)?;
    let (base_of, matcher_of) = (&base, &matcher);
    let mut found = walk::collect(&walk::builder(&base, None), || {
        move |path: &Path| {
            let relative = path.strip_prefix(base_of).unwrap_or(path);
            matcher_of.is_match(relative).then(|| walk::entry(path))
        }
    });
    walk::newest_first(&mut found);
    let total = found.len();
    let shown: Vec<String> =
        found.into_iter().take(SHOWN).map(|it| it.path.display().to_string()).collect();
    let mut text =
        if shown.is_empty() { "No files found.".to_owned() } else { visible(&shown.join("\n")) };
    if total > SHOWN {
        text.push_str(&format!("\n({} more; give a narrower pattern or path.)", total - SHOWN));
    }
    let result = json!({
        "filenames": shown, "numFiles": shown.len(), "truncated": total > SHOWN,
        "durationMs": u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    Ok(Answer::text(text, result))
}

/// Returns a directory to search in.
pub(crate) fn directory(cwd: &Path, path: Option<&str>) -> Result<PathBuf, Error> {
    let path = match path {
        Some(path) => absolute(cwd, path)?,
        None => cwd.to_owned(),
    };
    let found = path.metadata().map_err(|error| Error::of("Searching", &path, &error))?;
    match found.is_dir() {
        true => Ok(path),
        false => refuse(format!("{} is not a directory.", path.display())),
    }
}

/// Splits the fixed beginning off an absolute pattern.
fn split(base: &Path, pattern: &str) -> (PathBuf, String) {
    if !pattern.starts_with('/') {
        return (base.to_owned(), pattern.trim_start_matches("./").to_owned());
    }
    let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).count();
    let parts: Vec<&str> = pattern.split('/').collect();
    let fixed = fixed.min(parts.len().saturating_sub(1));
    let (start, rest) = parts.split_at_checked(fixed).unwrap_or((&[], &parts));
    (PathBuf::from(format!("{}/", start.join("/"))), rest.join("/"))
}

/// Returns the matcher of a pattern. One without a slash fits a name in any directory, as with ripgrep's `--glob`.
pub(crate) fn matcher(pattern: &str) -> Result<GlobMatcher, Error> {
    let whole = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&whole).literal_separator(true).build();
    match glob {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => {
            refuse(format!("the pattern `{}` is invalid: {}", visible(pattern), error.kind()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, text};
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn files_come_newest_first_and_ignored_ones_are_left_out() {
        let folder = Folder::new();
        for (name, age) in
            [("src/old.rs", 20), ("src/deep/new.rs", 10), ("target/x.rs", 5), ("a.txt", 1)]
        {
            let path = folder.write(name, "");
            let then = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }
        folder.write(".gitignore", "target\n");
        let names = |input| {
            let answer = folder.call("Glob", input);
            let base = format!("{}/", folder.path().display());
            text(&answer).lines().map(|line| line.replace(&base, "")).collect::<Vec<_>>()
        };
        assert_eq!(names(json!({ "pattern": "**/*.rs" })), ["src/deep/new.rs", "src/old.rs"]);
        assert_eq!(names(json!({ "pattern": "*.rs" })), ["src/deep/new.rs", "src/old.rs"]);
        assert_eq!(names(json!({ "pattern": "src/*.rs" })), ["src/old.rs"]);
        let absolute = format!("{}/src/**/n*.rs", folder.path().display());
        assert_eq!(names(json!({ "pattern": absolute })), ["src/deep/new.rs"]);
        assert_eq!(names(json!({ "pattern": "*.py" })), ["No files found."]);
        assert!(names(json!({ "pattern": "[" }))[0].contains("is invalid"));
    }

    #[test]
    fn beyond_a_hundred_the_rest_is_counted() {
        let folder = Folder::new();
        for number in 0..103 {
            folder.write(&format!("{number}.txt"), "");
        }
        let answer = folder.call("Glob", json!({ "pattern": "*.txt" }));
        assert!(text(&answer).ends_with("(3 more; give a narrower pattern or path.)"));
        assert_eq!(answer.result["truncated"], true);
    }
}
