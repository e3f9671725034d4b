//! Write: a whole file gets new content, or the content that it had before.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Known};
use crate::change::{all_known, covers, is_known, replace};
use crate::error::{Error, refuse};
use crate::found::{Found, absolute, present};
use crate::keep::Keep;
use crate::patch;
use crate::restore::{Restore, restore};
use crate::text::Text;

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    file_path: String,
    #[serde(default)]
    content: String,
    /// Instead of a content: the file becomes again what it was.
    #[serde(default)]
    restore: Option<Restore>,
}

pub(crate) fn write(
    input: &Input,
    cwd: &Path,
    (known, keep): (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    if let Some(wanted) = &input.restore {
        return restore(&input.file_path, wanted, cwd, keep);
    }
    let path = absolute(cwd, &input.file_path)?;
    let found = present(&path)?;
    let (before, bytes, verb) = match &found {
        Some(found) => {
            let text = Text::decode(&found.bytes);
            is_known(found, known)?;
            let lines = text.as_ref().map_or(0, |text| text.text.lines().count() as u64);
            if lines > 0 && !covers(known, 1, lines) {
                return refuse(format!(
                    "Only a part of {} was read. Read it whole before it is replaced, or change a part with Edit.",
                    path.display()
                ));
            }
            let bytes = text.as_ref().and_then(|text| text.encode(&input.content));
            let bytes = bytes.unwrap_or_else(|| input.content.clone().into_bytes());
            (text.map(|text| text.text), bytes, "Replaced")
        }
        None => (None, input.content.clone().into_bytes(), "Created"),
    };
    let old = found.as_ref().map(Found::before);
    let real = replace(&path, (old.as_ref(), &bytes), keep)?;
    let kind = if verb == "Created" { "create" } else { "update" };
    let result = json!({
        "type": kind, "filePath": input.file_path, "content": input.content, "originalFile": before,
        "structuredPatch": before.as_deref().map(|before| patch::hunks(before, &input.content)).unwrap_or_default(),
    });
    let mut answer = Answer::text(format!("{verb} {}.", path.display()), result);
    answer.facts = Some(all_known(real, &bytes));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, known, text};
    use serde_json::Value;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    #[test]
    fn a_new_file_is_made_with_its_directories() {
        let folder = Folder::new();
        let answer = folder.call("Write", json!({ "file_path": "a/b/c.txt", "content": "hi\n" }));
        assert_eq!(answer.error, None);
        assert_eq!(fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(), "hi\n");
        assert_eq!(answer.result["type"], "create");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_only_after_it_was_read_and_as_it_was_read() {
        let folder = Folder::new();
        let path = folder.write("a.sh", "old\r\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let input = json!({ "file_path": "a.sh", "content": "new\n" });
        let unread = folder.call("Write", input.clone());
        assert!(text(&unread).contains("has not been read"));
        let known_then = known(&folder.call("Read", json!({ "file_path": "a.sh" })));
        fs::write(&path, "other\r\n").unwrap();
        let changed = folder.call_knowing("Write", input.clone(), known_then);
        assert!(text(&changed).contains("changed since it was read"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "other\r\n");
        let now = known(&folder.call("Read", json!({ "file_path": "a.sh" })));
        let done = folder.call_knowing("Write", input, now);
        assert_eq!(done.error, None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\r\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o750);
    }

    #[test]
    fn a_part_is_not_enough_to_replace_the_whole() {
        let folder = Folder::new();
        folder.write("a.txt", "1\n2\n3\n");
        let part = folder.call("Read", json!({ "file_path": "a.txt", "limit": 2 }));
        let input = json!({ "file_path": "a.txt", "content": "" });
        let refused = folder.call_knowing("Write", input.clone(), known(&part));
        assert!(text(&refused).contains("Only a part"), "{}", text(&refused));
        let mut both = known(&part);
        both["ranges"] = json!([[3, 3], [1, 2]]);
        assert_eq!(folder.call_knowing("Write", input, both).error, None);
        assert_eq!(Value::Null, folder.call("LS", json!({"path": "."})).result["error"]);
    }

    #[test]
    fn a_link_keeps_leading_to_its_file() {
        let folder = Folder::new();
        let path = folder.write("real.txt", "old\n");
        std::os::unix::fs::symlink(&path, folder.path().join("link.txt")).unwrap();
        let read = folder.call("Read", json!({ "file_path": "link.txt" }));
        let input = json!({ "file_path": "link.txt", "content": "new\n" });
        assert_eq!(folder.call_knowing("Write", input, known(&read)).error, None);
        assert!(folder.path().join("link.txt").is_symlink());
        assert_eq!(fs::read_to_string(path).unwrap(), "new\n");
    }
}
