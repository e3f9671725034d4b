//! Read: lines of a text with their numbers, pictures, pages of a PDF, cells of a notebook.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Facts};
use crate::error::{Error, refuse};
use crate::found::{Found, absolute, load};
use crate::text::{LINE, Text, digest, numbered};
use crate::{media, notebook};

/// Lines that are shown when the call names no limit.
const LINES: u64 = 2_000;
/// Most characters of an answer: 25,000 tokens of four characters.
const CHARACTERS: usize = 100_000;
#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    file_path: String,
    #[serde(default)]
    offset: Option<u64>,
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    pages: Option<String>,
}

pub(crate) fn read(input: &Input, cwd: &Path) -> Result<Answer, Error> {
    let path = absolute(cwd, &input.file_path)?;
    let found = load(&path)?;
    if let Some(kind) = media::picture(&found.bytes) {
        return media::shown(&found, kind);
    }
    if found.bytes.starts_with(b"%PDF-") {
        return media::pages(&found, input.pages.as_deref());
    }
    if path.extension().is_some_and(|it| it == "ipynb")
        && let Some(answer) = notebook::shown(&found)
    {
        return Ok(answer);
    }
    let Some(text) = Text::decode(&found.bytes) else {
        let kind = media::kind(&found.bytes);
        return refuse(format!(
            "{} is not text but {kind}. Read shows text, images, PDF and notebooks.",
            path.display()
        ));
    };
    lines(&found, &text, input)
}

fn lines(found: &Found, text: &Text, input: &Input) -> Result<Answer, Error> {
    let first = input.offset.unwrap_or(1).max(1);
    let limit = input.limit.unwrap_or(LINES);
    let all: Vec<&str> = text.text.lines().collect();
    let total = all.len() as u64;
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(limit).unwrap_or(usize::MAX);
    let part: Vec<&str> = all.iter().skip(skipped).take(count).copied().collect();
    let last = first.saturating_add(part.len() as u64).saturating_sub(1);
    let mut shown = numbered(&part, first);
    if shown.chars().count() > CHARACTERS {
        return refuse(format!(
            "These lines of {} are more than {CHARACTERS} characters. Read a part with `offset` and `limit`, or search with Grep.",
            found.path.display()
        ));
    }
    if total == 0 {
        shown = "The file is empty.".into();
    } else if part.is_empty() {
        shown = format!("The file has {total} lines, so there is none from line {first} on.");
    } else if last < total && input.limit.is_none() {
        shown.push_str(&format!("\n(Lines {first} to {last} of {total}. Read on with `offset`.)"));
    }
    shown.extend(text.note().map(|note| format!("\n({note})")));
    let file = json!({
        "filePath": input.file_path, "content": part.join("\n"), "numLines": part.len(), "startLine": first,
        "totalLines": total,
    });
    let mut answer = Answer::text(shown, json!({ "type": "text", "file": file }));
    let ranges = if part.is_empty() && total > 0 { Vec::new() } else { vec![(first, last)] };
    // Of a line that was cut the rest is not known.
    let is_cut = part.iter().any(|line| line.chars().count() > LINE);
    let ranges = if is_cut { Vec::new() } else { ranges };
    answer.facts = Some(Facts { path: found.path.clone(), digest: digest(&found.bytes), ranges });
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, known, text};

    #[test]
    fn lines_have_numbers() {
        let folder = Folder::new();
        folder.write("a.txt", "one\ntwo\nthree\n");
        let all = folder.call("Read", json!({ "file_path": "a.txt" }));
        assert_eq!(text(&all), "     1\tone\n     2\ttwo\n     3\tthree");
        assert_eq!(all.result["file"]["totalLines"], 3);
        assert_eq!(known(&all)["ranges"], json!([[1, 3]]));
        let part = folder.call("Read", json!({ "file_path": "a.txt", "offset": 2, "limit": 1 }));
        assert_eq!(text(&part), "     2\ttwo");
        assert_eq!(known(&part)["ranges"], json!([[2, 2]]));
    }

    #[test]
    fn a_long_file_says_what_is_not_shown() {
        let folder = Folder::new();
        folder.write("a.txt", "x\n".repeat(2_001));
        let answer = folder.call("Read", json!({ "file_path": "a.txt" }));
        assert!(text(&answer).ends_with("(Lines 1 to 2000 of 2001. Read on with `offset`.)"));
        folder.write("wide.txt", format!("{}\n", "y".repeat(1_500)).repeat(100));
        let wide = folder.call("Read", json!({ "file_path": "wide.txt" }));
        assert!(text(&wide).contains("more than 100000 characters"));
    }

    #[test]
    fn what_is_not_text_is_refused_by_its_type() {
        let folder = Folder::new();
        folder.write("a.bin", b"\x7fELF\x02\x01\x01\0");
        folder.write("empty", "");
        let binary = folder.call("Read", json!({ "file_path": "a.bin" }));
        assert!(text(&binary).contains("not text but an ELF executable"));
        assert_eq!(
            text(&folder.call("Read", json!({ "file_path": "empty" }))),
            "The file is empty."
        );
        assert!(text(&folder.call("Read", json!({ "file_path": "." }))).contains("is a directory"));
        let missing = folder.call("Read", json!({ "file_path": "none" }));
        assert!(text(&missing).contains("does not exist"));
    }
}
