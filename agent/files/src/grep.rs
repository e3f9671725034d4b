//! Grep: lines that match a regular expression, as ripgrep finds them.

use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::TypesBuilder;
use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::error::{Error, refuse};
use crate::found::absolute;
use crate::glob::matcher;
use crate::text::visible;
use crate::walk::{self, Entry};

/// Lines or files that are shown when the call names no limit.
const LIMIT: usize = 250;
/// Most characters of an answer.
const CHARACTERS: usize = 30_000;
/// Most characters of one line.
const LINE: usize = 500;
/// Most lines that are kept of one file.
const MOST_LINES: usize = 10_000;
/// Most lines of context.
const CONTEXT: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    output_mode: Option<String>,
    #[serde(rename = "-A")]
    after: Option<usize>,
    #[serde(rename = "-B")]
    before: Option<usize>,
    #[serde(rename = "-C", alias = "context")]
    around: Option<usize>,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-i")]
    ignore_case: bool,
    multiline: bool,
    head_limit: Option<usize>,
    offset: usize,
}

/// Kind of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Files,
    Content,
    Count,
}

/// Matches of a file.
struct Hit {
    entry: Entry,
    count: u64,
    lines: Vec<String>,
}

pub(crate) fn grep(input: &Input, cwd: &Path) -> Result<Answer, Error> {
    let mode = match input.output_mode.as_deref() {
        None | Some("files_with_matches") => Mode::Files,
        Some("content") => Mode::Content,
        Some("count") => Mode::Count,
        Some(other) => {
            return refuse(format!(
                "`output_mode` is `{}`; it is `content`, `files_with_matches` or `count`.",
                visible(other)
            ));
        }
    };
    let regex = regex(input)?;
    let root = match &input.path {
        Some(path) => absolute(cwd, path)?,
        None => cwd.to_owned(),
    };
    root.metadata().map_err(|error| Error::of("Searching", &root, &error))?;
    let mut walk = walk::builder(&root, None);
    if let Some(kind) = &input.kind {
        let mut types = TypesBuilder::new();
        types.add_defaults();
        types.select(kind);
        match types.build() {
            Ok(types) => walk.types(types),
            Err(_) => {
                return refuse(format!(
                    "`{}` is not a type of files; `rg --type-list` lists them.",
                    visible(kind)
                ));
            }
        };
    }
    let globs = input
        .glob
        .iter()
        .flat_map(|it| patterns(it))
        .map(|it| matcher(&it))
        .collect::<Result<Vec<_>, _>>()?;
    let (root_of, globs_of, regex_of) = (&root, &globs, &regex);
    let mut hits = walk::collect(&walk, || {
        let mut searcher = searcher(input, mode);
        move |path: &Path| {
            let relative = path.strip_prefix(root_of).unwrap_or(path);
            let fits = |it: &globset::GlobMatcher| it.is_match(relative) || it.is_match(path);
            let named = globs_of.is_empty() || globs_of.iter().any(fits);
            if !named { None } else { search(regex_of, &mut searcher, path, (input, mode)) }
        }
    });
    Ok(shown(&mut hits, (input, mode), cwd))
}

fn regex(input: &Input) -> Result<RegexMatcher, Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case);
    match input.multiline {
        true => builder.multi_line(true).dot_matches_new_line(true),
        false => builder.multi_line(true).line_terminator(Some(b'\n')),
    };
    match builder.build(&input.pattern) {
        Ok(regex) => Ok(regex),
        Err(error) => refuse(format!("the pattern is not a valid regular expression: {error}")),
    }
}

fn searcher(input: &Input, mode: Mode) -> Searcher {
    let context = |own: Option<usize>| match mode {
        Mode::Content => own.or(input.around).unwrap_or_default().min(CONTEXT),
        Mode::Files | Mode::Count => 0,
    };
    let mut builder = SearcherBuilder::new();
    builder
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .multi_line(input.multiline)
        .before_context(context(input.before))
        .after_context(context(input.after));
    builder.build()
}

/// Takes matches of one file.
struct Found {
    mode: Mode,
    numbers: bool,
    count: u64,
    lines: Vec<String>,
}

impl Found {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        for (index, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
            let text: String = line.chars().take(LINE).collect();
            let cut = if text.len() < line.len() { "… (cut)" } else { "" };
            let number =
                number.filter(|_| self.numbers).map(|it| format!("{}{mark}", it + index as u64));
            self.lines.push(format!("{}{}{cut}", number.unwrap_or_default(), visible(&text)));
        }
    }
}

impl Sink for Found {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        self.count += 1;
        if self.mode == Mode::Content {
            self.line(found.line_number(), ':', found.bytes());
        }
        Ok(self.mode != Mode::Files && self.lines.len() < MOST_LINES)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, std::io::Error> {
        self.line(found.line_number(), '-', found.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, std::io::Error> {
        self.lines.push("--".into());
        Ok(true)
    }
}

fn search(
    regex: &RegexMatcher,
    searcher: &mut Searcher,
    path: &Path,
    (input, mode): (&Input, Mode),
) -> Option<Hit> {
    let numbers = input.numbers.unwrap_or(true);
    let mut found = Found { mode, numbers, count: 0, lines: Vec::new() };
    // A file that cannot be read is left out, as with ripgrep.
    searcher.search_path(regex, path, &mut found).ok()?;
    (found.count > 0).then(|| Hit {
        entry: walk::entry(path),
        count: found.count,
        lines: found.lines,
    })
}

/// Splits a list of patterns at commas and blanks outside of braces.
fn patterns(list: &str) -> Vec<String> {
    let (mut found, mut depth) = (vec![String::new()], 0_u32);
    for it in list.chars() {
        match it {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' | ' ' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = found.last_mut() {
            last.push(it);
        }
    }
    found.retain(|it| !it.is_empty());
    found
}

/// Returns the lines that show what was found.
fn lines_of(hits: &[Hit], mode: Mode, cwd: &Path) -> Vec<String> {
    let name =
        |path: &PathBuf| visible(&path.strip_prefix(cwd).unwrap_or(path).display().to_string());
    match mode {
        Mode::Files => hits.iter().map(|hit| name(&hit.entry.path)).collect(),
        Mode::Count => {
            hits.iter().map(|hit| format!("{}:{}", name(&hit.entry.path), hit.count)).collect()
        }
        Mode::Content => hits
            .iter()
            .flat_map(|hit| {
                let path = name(&hit.entry.path);
                hit.lines.iter().map(move |line| match line.as_str() {
                    "--" => line.clone(),
                    line => format!("{path}:{line}"),
                })
            })
            .collect(),
    }
}

fn shown(hits: &mut [Hit], (input, mode): (&Input, Mode), cwd: &Path) -> Answer {
    match mode {
        Mode::Files => hits.sort_by(|a, b| {
            b.entry.changed.cmp(&a.entry.changed).then_with(|| a.entry.path.cmp(&b.entry.path))
        }),
        Mode::Content | Mode::Count => hits.sort_by(|a, b| a.entry.path.cmp(&b.entry.path)),
    }
    let matches: u64 = hits.iter().map(|hit| hit.count).sum();
    let lines = lines_of(hits, mode, cwd);
    let limit = match input.head_limit {
        None => LIMIT,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let total = lines.len();
    let (mut part, mut length) = (Vec::new(), 0);
    for line in lines.into_iter().skip(input.offset).take(limit) {
        length += line.len() + 1;
        if length > CHARACTERS {
            break;
        }
        part.push(line);
    }
    let rest = total.saturating_sub(input.offset).saturating_sub(part.len());
    let content = part.join("\n");
    let mut text = if part.is_empty() { "No matches found.".to_owned() } else { content.clone() };
    if rest > 0 {
        text.push_str(&format!(
            "\n({rest} more lines; narrow the search, or go on with `offset`.)"
        ));
    }
    let mut result = json!({ "numFiles": hits.len(), "numMatches": matches });
    if let Some(fields) = result.as_object_mut() {
        match mode {
            Mode::Files => {
                fields.insert("mode".into(), json!("files_with_matches"));
                fields.insert("filenames".into(), json!(part));
            }
            Mode::Content | Mode::Count => {
                fields.insert(
                    "mode".into(),
                    json!(if mode == Mode::Content { "content" } else { "count" }),
                );
                fields.insert("filenames".into(), json!([]));
                fields.insert("numLines".into(), json!(part.len()));
                fields.insert("content".into(), json!(content));
            }
        }
    }
    Answer::text(text, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, text};

    fn folder() -> Folder {
        let folder = Folder::new();
        folder.write("a.rs", "fn one() {}\nfn two() {\n}\n// Fn\n");
        folder.write("b/c.txt", "fn three\n");
        folder.write("bin", b"fn \0");
        folder
    }

    #[test]
    fn files_lines_and_counts_are_found() {
        let folder = folder();
        let find = |input| text(&folder.call("Grep", input)).to_owned();
        let files = find(json!({ "pattern": "fn t" }));
        let mut files: Vec<&str> = files.lines().collect();
        files.sort();
        assert_eq!(files, ["a.rs", "b/c.txt"]);
        let content =
            json!({ "pattern": "^fn t", "output_mode": "content", "glob": "*.rs", "-A": 1 });
        assert_eq!(find(content), "a.rs:2:fn two() {\na.rs:3-}");
        let count = json!({ "pattern": "fn", "output_mode": "count", "-i": true, "type": "rust" });
        assert_eq!(find(count), "a.rs:3");
        let many =
            json!({ "pattern": r"one.*\n.*two", "multiline": true, "output_mode": "content" });
        assert_eq!(find(many), "a.rs:1:fn one() {}\na.rs:2:fn two() {");
        assert_eq!(find(json!({ "pattern": "nowhere" })), "No matches found.");
    }

    #[test]
    fn limits_and_mistakes_are_told() {
        let folder = folder();
        let find = |input| text(&folder.call("Grep", input)).to_owned();
        let limited = json!({ "pattern": "fn", "output_mode": "content", "-n": false, "head_limit": 1, "glob": "*.rs" });
        assert_eq!(
            find(limited),
            "a.rs:fn one() {}\n(1 more lines; narrow the search, or go on with `offset`.)"
        );
        assert!(find(json!({ "pattern": "(" })).contains("not a valid regular expression"));
        assert!(find(json!({ "pattern": "x", "type": "nope" })).contains("not a type of files"));
        assert!(
            find(json!({ "pattern": "x", "output_mode": "y" })).contains("`output_mode` is `y`")
        );
        assert_eq!(patterns("*.{ts,tsx}, *.rs"), ["*.{ts,tsx}", "*.rs"]);
    }
}
