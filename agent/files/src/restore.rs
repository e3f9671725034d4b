//! Takes changes of a file back: it gets the content that it had before, or goes if there was none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::change::replace;
use crate::error::{Error, refuse};
use crate::found::{Found, absolute, present};
use crate::keep::Keep;
use crate::text::digest;

/// How a file was, and how it has to be now.
#[derive(Debug, Deserialize)]
pub(crate) struct Restore {
    /// Digest of the content that it gets; none for a file that there was not.
    before: Option<String>,
    /// Its mode then.
    #[serde(default)]
    mode: Option<u32>,
    /// Digest that the file has now if nobody else changed it; none for no file.
    after: Option<String>,
    /// True if the file is restored even if somebody else changed it.
    #[serde(default)]
    forced: bool,
}

/// Restores the file at `path`.
pub(crate) fn restore(
    path: &str,
    wanted: &Restore,
    cwd: &Path,
    keep: Option<&Keep>,
) -> Result<Answer, Error> {
    let Some(keep) = keep else {
        return refuse("the session keeps no contents of files, so nothing can be restored");
    };
    let file_path = path;
    let path = absolute(cwd, path)?;
    // The caller is not believed: a file gets back only content that it held before a change of the session.
    if !keep.knows(&path, wanted.before.as_deref(), wanted.mode) {
        return refuse("the session made no such change");
    }
    let found = present(&path)?;
    let now = found.as_ref().map(|found| digest(&found.bytes));
    // The session has not read what the file holds now: it learns nothing.
    let done = |how: &str| {
        let result = json!({ "type": "restore", "filePath": file_path, "done": how });
        Ok(Answer::text(format!("{}: {how}.", path.display()), result))
    };
    if now == wanted.before {
        return done("as before");
    }
    if now != wanted.after && !wanted.forced {
        return refuse(format!(
            "{} was changed by somebody else since, and is left as it is.",
            path.display()
        ));
    }
    let old = found.as_ref().map(Found::before);
    match &wanted.before {
        None => {
            keep.change(&path, old.as_ref(), None)?;
            fs::remove_file(&path).map_err(|error| Error::of("Removing", &path, &error))?;
            done("removed")
        }
        Some(name) => {
            let bytes = keep.read(name)?;
            let real = replace(&path, (old.as_ref(), &bytes), Some(keep))?;
            if let Some(mode) = wanted.mode {
                let mode = fs::Permissions::from_mode(mode & 0o7777);
                let set = fs::set_permissions(&real, mode);
                set.map_err(|error| Error::of("Setting the mode of", &path, &error))?;
            }
            done("restored")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Value, json};

    use crate::call::answer;
    use crate::call::tests::{Folder, known};

    fn call(folder: &Folder, tool: &str, input: Value, known: Value) -> crate::Answer {
        let keep = json!({ "folder": folder.path().join("kept"), "call": "c" });
        let call =
            json!({ "tool": tool, "input": input, "conditions": { "known": known }, "keep": keep });
        answer(call.to_string().as_bytes(), folder.path())
    }

    fn changes(folder: &Folder) -> Vec<Value> {
        let text = std::fs::read_to_string(folder.path().join("kept/changes.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn begin(folder: &Folder) -> std::path::PathBuf {
        let path = folder.write("a.txt", "one\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        std::fs::create_dir_all(folder.path().join("kept")).unwrap();
        let seen = known(&folder.call("Read", json!({ "file_path": "a.txt" })));
        let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
        assert_eq!(call(folder, "Edit", edit, seen).error, None);
        path
    }

    fn back(folder: &Folder, number: usize, forced: bool) -> crate::Answer {
        let change = changes(folder).remove(number);
        let restore = json!({ "before": change["before"], "mode": change["mode"], "after": change["after"], "forced": forced });
        call(
            folder,
            "Write",
            json!({ "file_path": change["path"], "restore": restore }),
            Value::Null,
        )
    }

    #[test]
    fn a_change_is_taken_back_with_its_mode_and_a_new_file_goes() {
        let folder = Folder::new();
        let path = begin(&folder);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(back(&folder, 0, false).error, None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(back(&folder, 0, false).result["done"], "as before");
        let new = json!({ "file_path": "new.txt", "content": "x" });
        assert_eq!(call(&folder, "Write", new, Value::Null).error, None);
        assert_eq!(back(&folder, 2, false).result["done"], "removed");
        assert!(!folder.path().join("new.txt").exists());
        // A restore is a change, too.
        assert_eq!(back(&folder, 3, false).result["done"], "restored");
        assert_eq!(std::fs::read_to_string(folder.path().join("new.txt")).unwrap(), "x");
    }

    #[test]
    fn a_file_that_somebody_else_changed_is_left_unless_forced() {
        let folder = Folder::new();
        let path = begin(&folder);
        std::fs::write(&path, "mine\n").unwrap();
        let left = back(&folder, 0, false);
        assert!(left.error.is_some_and(|it| it.contains("changed by somebody else")));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine\n");
        assert_eq!(back(&folder, 0, true).error, None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    }

    #[test]
    fn a_file_gets_nothing_that_it_did_not_hold_before_a_change_of_the_session() {
        let folder = Folder::new();
        let path = begin(&folder);
        let change = changes(&folder).remove(0);
        let other = folder.write("other.txt", "other\n");
        let restore = |path: &std::path::Path, before: &Value, mode: &Value| {
            let wanted = json!({ "before": before, "mode": mode, "after": null, "forced": true });
            let input = json!({ "file_path": path, "restore": wanted });
            call(&folder, "Write", input, Value::Null).error
        };
        let refused = Some("the session made no such change".to_owned());
        assert_eq!(restore(&other, &change["before"], &change["mode"]), refused);
        assert_eq!(restore(&other, &Value::Null, &Value::Null), refused);
        assert_eq!(restore(&path, &change["before"], &json!(0o4777)), refused);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "other\n");
        // A change by a command is in the list of the keeper.
        let line =
            json!({ "path": other, "before": change["before"], "mode": 0o600, "after": null });
        std::fs::write(folder.path().join("kept/commands.jsonl"), format!("{line}\n")).unwrap();
        assert_eq!(restore(&other, &change["before"], &json!(0o600)), None);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "one\n");
    }

    #[test]
    fn a_content_that_is_not_what_was_kept_restores_nothing() {
        let folder = Folder::new();
        let path = begin(&folder);
        let name = changes(&folder)[0]["before"].as_str().unwrap().to_owned();
        std::fs::write(folder.path().join("kept/contents").join(&name), "other").unwrap();
        assert!(back(&folder, 0, false).error.is_some_and(|it| it.contains("not kept any more")));
        let outside =
            json!({ "before": "../changes.jsonl", "after": changes(&folder)[0]["after"] });
        let input = json!({ "file_path": "a.txt", "restore": outside });
        assert!(call(&folder, "Write", input, Value::Null).error.is_some());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn nothing_is_changed_that_cannot_be_kept() {
        let folder = Folder::new();
        let path = folder.write("a.txt", "one\n");
        folder.write("kept", "a file in the place of the folder");
        let seen = known(&folder.call("Read", json!({ "file_path": "a.txt" })));
        let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
        let failed = call(&folder, "Edit", edit, seen);
        assert!(failed.error.is_some_and(|it| it.contains("Nothing was changed")));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    }
}
