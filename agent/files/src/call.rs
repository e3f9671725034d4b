//! One call: its line of JSON in, its line of JSON out.

use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Known};
use crate::error::{Error, refuse};
use crate::keep::Keep;
use crate::{edit, glob, grep, list, notebook, read, write};

/// Most bytes of a call.
const MAX_CALL: u64 = 16 << 20;

/// A call as the gateway gives it.
#[derive(Debug, Deserialize)]
struct Call {
    tool: String,
    input: Value,
    #[serde(default)]
    conditions: Option<Conditions>,
    /// Where the gateway wants the old content of a file kept.
    #[serde(default)]
    keep: Option<Keep>,
}

/// Conditions of the front end: a call that does not meet them is refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    /// Facts that the session knows of the file that the call changes; none for a file that it has not read.
    pub(crate) known: Option<Known>,
}

/// Does the call in `line`, with relative paths below `cwd`.
#[must_use]
pub fn answer(line: &[u8], cwd: &Path) -> Answer {
    done(line, cwd).unwrap_or_else(|error| Answer {
        error: Some(error.to_string()),
        result: json!(format!("Error: {error}")),
        ..Answer::default()
    })
}

fn done(line: &[u8], cwd: &Path) -> Result<Answer, Error> {
    let call: Call = serde_json::from_slice(line)
        .map_err(|error| Error::Call(format!("the call cannot be read: {error}")))?;
    let known = call.conditions.as_ref().and_then(|conditions| conditions.known.as_ref());
    let keep = call.keep.as_ref();
    match call.tool.as_str() {
        "Read" => read::read(&input(&call)?, cwd),
        "Write" => write::write(&input(&call)?, cwd, (known, keep)),
        "Edit" => edit::edit(&input(&call)?, cwd, (known, keep)),
        "MultiEdit" => edit::edits(&input(&call)?, cwd, (known, keep)),
        "Glob" => glob::glob(&input(&call)?, cwd),
        "Grep" => grep::grep(&input(&call)?, cwd),
        "LS" => list::list(&input(&call)?, cwd),
        "NotebookEdit" => notebook::edit(&input(&call)?, cwd, (known, keep)),
        other => refuse(format!("`{}` is not a file tool", other.escape_debug())),
    }
}

fn input<T: for<'de> Deserialize<'de>>(call: &Call) -> Result<T, Error> {
    T::deserialize(&call.input)
        .map_err(|error| Error::Call(format!("the input of {} is invalid: {error}", call.tool)))
}

/// Is the process of one call: standard input to standard output. Returns the exit status: 0 done, 1 the call failed.
pub fn serve() -> u8 {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().take(MAX_CALL).read_to_end(&mut line);
    let cwd = std::env::current_dir();
    let answer = match (read, cwd) {
        (Ok(_), Ok(cwd)) => answer(&line, &cwd),
        (Err(error), _) | (_, Err(error)) => Answer {
            error: Some(format!("the file worker cannot start: {error}")),
            ..Answer::default()
        },
    };
    let failed = answer.error.is_some();
    let mut line = serde_json::to_vec(&answer).unwrap_or_default();
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(&line).and_then(|()| stdout.flush());
    u8::from(failed || written.is_err())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::answer::Content;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own for one test.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn new() -> Folder {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path =
                std::env::temp_dir().join(format!("stockade-files-{}-{count}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path.canonicalize().unwrap())
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }

        pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        }

        pub(crate) fn call(&self, tool: &str, input: Value) -> Answer {
            self.call_knowing(tool, input, Value::Null)
        }

        pub(crate) fn call_knowing(&self, tool: &str, input: Value, known: Value) -> Answer {
            let call = json!({ "tool": tool, "input": input, "conditions": { "known": known } });
            answer(call.to_string().as_bytes(), &self.0)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// The text of an answer.
    pub(crate) fn text(answer: &Answer) -> &str {
        match answer.content.as_slice() {
            [Content::Text { text }] => text,
            _ => answer.error.as_deref().unwrap_or("?"),
        }
    }

    /// The state of a session after an answer.
    pub(crate) fn known(answer: &Answer) -> Value {
        let facts = answer.facts.as_ref().expect("facts");
        json!({ "digest": facts.digest, "ranges": facts.ranges })
    }

    #[test]
    fn what_is_not_a_call_is_told() {
        let folder = Folder::new();
        for line in ["", "[]", "{\"tool\":1}", "{\"tool\":\"Read\",\"input\":{}}"] {
            assert!(answer(line.as_bytes(), folder.path()).error.is_some(), "{line}");
        }
        let seed = br#"{"tool":"Grep","input":{"pattern":"x","path":"."},"conditions":{"known":{"digest":"0","ranges":[[1,2]]}}}"#;
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let mut bytes = seed.to_vec();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] = state.to_le_bytes()[3];
            let _ = answer(&bytes, folder.path()); // whatever it is, it does not panic
        }
        let unknown = folder.call("Bash", json!({}));
        assert_eq!(unknown.error.as_deref(), Some("`Bash` is not a file tool"));
    }
}
