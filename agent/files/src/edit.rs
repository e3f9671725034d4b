//! Edit and MultiEdit: exact texts are replaced, all of them or none.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Known};
use crate::change::{NEW, all_known, covers, is_known, replace};
use crate::error::{Error, refuse};
use crate::found::{Found, absolute, present};
use crate::keep::Keep;
use crate::patch;
use crate::text::{Text, numbered};

/// Lines that are shown around a change.
const AROUND: usize = 3;
/// Most bytes of a file that is given back whole in the result.
const MAX_ORIGINAL: usize = 256 << 10;

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    file_path: String,
    #[serde(flatten)]
    change: Change,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Inputs {
    file_path: String,
    edits: Vec<Change>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Change {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(crate) fn edit(
    input: &Input,
    cwd: &Path,
    given: (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    let mut answer = change(&input.file_path, std::slice::from_ref(&input.change), cwd, given)?;
    if let Some(result) = answer.result.as_object_mut() {
        result.insert("oldString".into(), json!(input.change.old_string));
        result.insert("newString".into(), json!(input.change.new_string));
        result.insert("replaceAll".into(), json!(input.change.replace_all));
    }
    Ok(answer)
}

pub(crate) fn edits(
    input: &Inputs,
    cwd: &Path,
    given: (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    if input.edits.is_empty() {
        return refuse("`edits` is empty; give at least one");
    }
    let mut answer = change(&input.file_path, &input.edits, cwd, given)?;
    if let Some(result) = answer.result.as_object_mut() {
        let edits = input.edits.iter().map(|it| {
            json!({ "old_string": it.old_string, "new_string": it.new_string, "replace_all": it.replace_all })
        });
        result.insert("edits".into(), edits.collect());
    }
    Ok(answer)
}

fn change(
    path: &str,
    changes: &[Change],
    cwd: &Path,
    (known, keep): (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    let file_path = path;
    let path = absolute(cwd, path)?;
    let found = present(&path)?;
    let creates = changes.first().is_some_and(|first| first.old_string.is_empty());
    let before = match (&found, creates) {
        (None, true) => NEW,
        (None, false) => return Err(Error::Missing(path)),
        (Some(found), _) => text_of(found, known)?,
    };
    if creates && !before.text.is_empty() {
        return refuse(format!(
            "{} is not empty, so `old_string` must not be empty.",
            path.display()
        ));
    }
    let mut after = before.text.clone();
    for (index, change) in changes.iter().enumerate() {
        let number =
            if changes.len() > 1 { format!("Edit {}: ", index + 1) } else { String::new() };
        let known = if index == 0 { known } else { None };
        after = one(&after, change, (&number, known))?;
    }
    let Some(bytes) = before.encode(&after) else {
        return refuse(format!("{} is Latin-1 and cannot hold the new text.", path.display()));
    };
    let old = found.as_ref().map(Found::before);
    let real = replace(&path, (old.as_ref(), &bytes), keep)?;
    let original = Some(&before.text).filter(|text| text.len() <= MAX_ORIGINAL);
    let result = json!({
        "filePath": file_path, "originalFile": original, "structuredPatch": patch::hunks(&before.text, &after),
        "userModified": false,
    });
    let shown =
        format!("Edited {}. The changed part:\n{}", path.display(), part(&before.text, &after));
    let mut answer = Answer::text(shown, result);
    answer.facts = Some(all_known(real, &bytes));
    Ok(answer)
}

fn text_of(found: &Found, known: Option<&Known>) -> Result<Text, Error> {
    is_known(found, known)?;
    match Text::decode(&found.bytes) {
        Some(text) => Ok(text),
        None => refuse(format!("{} is not text.", found.path.display())),
    }
}

/// Makes one change. `known` are the lines that the session has read of `text`; none leaves that out.
fn one(
    text: &str,
    change: &Change,
    (number, known): (&str, Option<&Known>),
) -> Result<String, Error> {
    // The text has line feeds alone where the file ends lines otherwise.
    let fits =
        |it: &str| if text.contains("\r\n") { it.to_owned() } else { it.replace("\r\n", "\n") };
    let (old, new) = (fits(&change.old_string), fits(&change.new_string));
    if old == new {
        return refuse(format!(
            "{number}`old_string` and `new_string` are the same; nothing was changed."
        ));
    }
    if old.is_empty() {
        return Ok(new);
    }
    let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).collect();
    match (places.as_slice(), change.replace_all) {
        ([], _) => refuse(format!(
            "{number}`old_string` was not found; nothing was changed. It must match exactly, with its white space."
        )),
        ([_, _, ..], false) => refuse(format!(
            "{number}`old_string` was found {} times; nothing was changed. Add lines around it until it is unique, or set \
             `replace_all`.",
            places.len()
        )),
        _ => {
            if let Some(line) = unread(text, &old, &places, known) {
                return refuse(format!(
                    "{number}line {line} has not been read in this session; nothing was changed. Read it first."
                ));
            }
            Ok(if change.replace_all {
                text.replace(&old, &new)
            } else {
                text.replacen(&old, &new, 1)
            })
        }
    }
}

/// Returns the first line of a match that was not read.
fn unread(text: &str, old: &str, places: &[usize], known: Option<&Known>) -> Option<u64> {
    let known = known?;
    let line = |at: usize| text.get(..at).map_or(0, |it| it.matches('\n').count() as u64) + 1;
    let span = (old.trim_end_matches('\n').matches('\n').count()) as u64;
    places.iter().map(|at| line(*at)).find(|first| !covers(Some(known), *first, first + span))
}

/// Returns the lines around what differs, with their numbers.
fn part(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new);
    let end = new.len() - end.count();
    let first = same.saturating_sub(AROUND);
    let lines: Vec<&str> =
        new.iter().skip(first).take(end + AROUND - first).take(60).copied().collect();
    numbered(&lines, first as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, known, text};
    use serde_json::Value;

    fn read(folder: &Folder, name: &str) -> Value {
        known(&folder.call("Read", json!({ "file_path": name })))
    }

    #[test]
    fn an_edit_replaces_one_place_and_keeps_the_rest() {
        let folder = Folder::new();
        let path = folder.write("a.txt", "\u{feff}one\r\ntwo\r\nthree");
        let input = json!({ "file_path": "a.txt", "old_string": "one\ntwo", "new_string": "1\n2" });
        let seen = read(&folder, "a.txt");
        let answer = folder.call_knowing("Edit", input, seen);
        assert_eq!(answer.error, None);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "\u{feff}1\r\n2\r\nthree");
        let hunk = json!({ "oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
            "lines": ["-one", "-two", "+1", "+2", " three"] });
        assert_eq!(answer.result["structuredPatch"], json!([hunk]));
    }

    #[test]
    fn what_is_not_unique_or_not_there_changes_nothing() {
        let folder = Folder::new();
        let path = folder.write("a.txt", "x\nx\n");
        let seen = read(&folder, "a.txt");
        let edit = |old: &str, all: bool| {
            let input = json!({ "file_path": "a.txt", "old_string": old, "new_string": "y", "replace_all": all });
            folder.call_knowing("Edit", input, seen.clone())
        };
        assert!(text(&edit("x", false)).contains("found 2 times"));
        assert!(text(&edit("z", false)).contains("was not found"));
        assert!(text(&edit("y", false)).contains("are the same"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\nx\n");
        assert_eq!(edit("x", true).error, None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "y\ny\n");
    }

    #[test]
    fn many_edits_are_all_made_or_none() {
        let folder = Folder::new();
        let path = folder.write("a.txt", "a\nb\n");
        let seen = read(&folder, "a.txt");
        let edits = |second: &str| {
            let edits = json!([{ "old_string": "a", "new_string": "c" }, { "old_string": second, "new_string": "d" }]);
            folder.call_knowing(
                "MultiEdit",
                json!({ "file_path": "a.txt", "edits": edits }),
                seen.clone(),
            )
        };
        assert!(text(&edits("z")).starts_with("Edit 2: "));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
        assert_eq!(edits("c\nb").error, None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "d\n");
    }

    #[test]
    fn a_line_that_was_not_read_is_not_edited() {
        let folder = Folder::new();
        folder.write("a.txt", "a\nb\nc\n");
        let seen = known(&folder.call("Read", json!({ "file_path": "a.txt", "limit": 1 })));
        let edit = |old: &str| {
            let input = json!({ "file_path": "a.txt", "old_string": old, "new_string": "x" });
            folder.call_knowing("Edit", input, seen.clone())
        };
        assert!(text(&edit("c")).contains("line 3 has not been read"));
        assert!(text(&edit("a\nb")).contains("line 1 has not been read"));
        assert_eq!(edit("a").error, None);
    }

    #[test]
    fn an_empty_old_string_makes_a_new_file_alone() {
        let folder = Folder::new();
        folder.write("a.txt", "a\n");
        let input =
            |name: &str| json!({ "file_path": name, "old_string": "", "new_string": "n\n" });
        assert_eq!(folder.call("Edit", input("new.txt")).error, None);
        let seen = read(&folder, "a.txt");
        assert!(text(&folder.call_knowing("Edit", input("a.txt"), seen)).contains("is not empty"));
    }
}
