//! LS: the entries of a directory.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::error::Error;
use crate::glob::{directory, matcher};
use crate::text::visible;

/// Most entries that are shown.
const SHOWN: usize = 1_000;

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    ignore: Vec<String>,
}

pub(crate) fn list(input: &Input, cwd: &Path) -> Result<Answer, Error> {
    let path = directory(cwd, input.path.as_deref())?;
    let ignored = input.ignore.iter().map(|it| matcher(it)).collect::<Result<Vec<_>, _>>()?;
    let entries = path.read_dir().map_err(|error| Error::of("Listing", &path, &error))?;
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if ignored.iter().any(|it| it.is_match(Path::new(&name))) {
            continue;
        }
        let end = match entry.file_type() {
            Ok(kind) if kind.is_dir() => "/",
            Ok(kind) if kind.is_symlink() => "@",
            Ok(_) | Err(_) => "",
        };
        names.push(format!("{}{end}", name.to_string_lossy()));
    }
    names.sort();
    let rest = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let lines: Vec<String> = names.iter().map(|name| format!("- {}", visible(name))).collect();
    let mut text = format!("{}/\n{}", path.display(), lines.join("\n"));
    if rest > 0 {
        text.push_str(&format!("\n({rest} more; narrow it with Glob.)"));
    }
    Ok(Answer::text(text, json!({ "path": path, "entries": names, "truncated": rest > 0 })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::Folder;

    #[test]
    fn entries_are_sorted_and_marked() {
        let folder = Folder::new();
        folder.write("b/x", "");
        folder.write("a.txt", "");
        folder.write("c.pyc", "");
        std::os::unix::fs::symlink("a.txt", folder.path().join("d")).unwrap();
        let answer = folder.call("LS", json!({ "ignore": ["*.pyc"] }));
        assert_eq!(answer.result["entries"], json!(["a.txt", "b/", "d@"]));
    }
}
