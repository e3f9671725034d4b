//! Reading the output of a task: from an offset or from where the last reading ended, whole or by matching lines.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};

use super::folder::{OUTPUT, READ, replace};
use super::store::unusable;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::tasks::TaskOutput;
use stockade_wire::words;

/// Most characters of one answer.
const LONGEST_TEXT: usize = 30_000;
/// Bytes that hold so many characters (RFC 3629: at most four each).
const LONGEST_BYTES: u64 = 4 * LONGEST_TEXT as u64;
/// Bytes that are looked through at once for matching lines.
const PIECE: usize = 64 << 10;
/// Longest line that is matched whole; of a longer one the first part is.
const LONGEST_LINE: usize = 1 << 20;
/// Largest compiled form of a filter, in bytes.
const LARGEST_FILTER: usize = 1 << 20;

/// Reads a filter.
pub fn filter(text: &str) -> Result<Regex, Failure> {
    RegexBuilder::new(text).size_limit(LARGEST_FILTER).build().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
        Failure::new(
            Code::InvalidRequest,
            format!("invalid filter `{}`: {reason}", text.escape_debug()),
            "write a regular expression without look-around and back-references; escape `[`, `(`, `{` with `\\`",
        )
    })
}

/// Returns the output of the task in `folder` from `offset` on, or from where the last reading without an offset ended.
///
/// The text is the end of that part, at most `LONGEST_TEXT` characters. With a filter it is made of the matching
/// lines, and ends at the last whole line while the task runs.
pub fn read(
    folder: &Path,
    offset: Option<u64>,
    filter: Option<&Regex>,
    has_ended: bool,
) -> Result<TaskOutput, Failure> {
    let broken = |error: io::Error| unusable(&folder.join(OUTPUT), &error);
    let mut file = match File::open(folder.join(OUTPUT)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::new(
                Code::TaskUnknown,
                format!("the output of task `{}` was removed", name(folder)),
                "`stockade audit show` has its digest",
            ));
        }
        Err(error) => return Err(broken(error)),
    };
    let length = file.metadata().map_err(broken)?.len();
    let start = offset.unwrap_or_else(|| last_read(folder));
    if start > length {
        return Err(Failure::new(
            Code::InvalidRequest,
            format!("offset {start} is past the end of the output ({length} bytes)"),
            format!("use an offset of at most {length}"),
        ));
    }
    file.seek(SeekFrom::Start(start)).map_err(broken)?;
    let found = match filter {
        None => whole(&mut file, start, length),
        Some(filter) => matching(&mut file, start, length, has_ended, filter),
    };
    let output = found.map_err(broken)?;
    if offset.is_none() {
        let mark = output.next_offset.to_string();
        match replace(&folder.join(READ), mark.as_bytes()) {
            // On a full disk the next reading begins where this one did: nothing is lost.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            marked => marked.map_err(broken)?,
        }
    }
    Ok(output)
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns where the last reading ended; a mark that cannot be read is the beginning.
fn last_read(folder: &Path) -> u64 {
    let mark = std::fs::read_to_string(folder.join(READ)).unwrap_or_default();
    mark.parse().unwrap_or(0)
}

fn whole(file: &mut File, start: u64, length: u64) -> io::Result<TaskOutput> {
    let skipped = (length - start).saturating_sub(LONGEST_BYTES);
    file.seek(SeekFrom::Start(start + skipped))?;
    let mut bytes = Vec::new();
    file.take(length - start - skipped).read_to_end(&mut bytes)?;
    let next_offset = start + skipped + bytes.len() as u64;
    let (text, cut) = end_of(&bytes);
    Ok(TaskOutput { text, offset: start, next_offset, left_out: skipped + cut })
}

fn matching(
    file: &mut File,
    start: u64,
    length: u64,
    has_ended: bool,
    filter: &Regex,
) -> io::Result<TaskOutput> {
    let mut lines = Lines::default();
    let (mut kept, mut left_out) = (Vec::new(), 0);
    let mut keep = |line: &[u8]| {
        if filter.is_match(line) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
            let surplus = kept.len().saturating_sub(2 * LONGEST_BYTES as usize);
            left_out += surplus as u64;
            kept.drain(..surplus);
        }
    };
    let mut input = file.take(length - start);
    let mut buffer = vec![0; PIECE];
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        lines.push(buffer.get(..count).unwrap_or_default(), &mut keep);
    }
    let mut next_offset = length - input.limit();
    match has_ended {
        true => lines.finish(&mut keep),
        // The rest of a line may still come: it is looked at next time.
        false => next_offset -= lines.rest(),
    }
    let (text, cut) = end_of(&kept);
    Ok(TaskOutput { text, offset: start, next_offset, left_out: left_out + cut })
}

/// Splits bytes that come in pieces into lines.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// Bytes of the line that were too many to keep.
    surplus: u64,
}

impl Lines {
    /// Takes a piece, and hands each line that ends in it to `each`, without its line feed.
    pub fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        let mut pieces = bytes.split_inclusive(|byte| *byte == b'\n');
        for piece in pieces.by_ref() {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                Some(_) | None => (piece, false),
            };
            let room = LONGEST_LINE.saturating_sub(self.line.len()).min(text.len());
            let (first, rest) = text.split_at(room);
            self.line.extend_from_slice(first);
            self.surplus += rest.len() as u64;
            if ends {
                self.finish_line(each);
            }
        }
    }

    /// Hands over a last line that no line feed ended.
    pub fn finish(&mut self, each: &mut impl FnMut(&[u8])) {
        if self.rest() > 0 {
            self.finish_line(each);
        }
    }

    fn finish_line(&mut self, each: &mut impl FnMut(&[u8])) {
        each(self.line.strip_suffix(b"\r").unwrap_or(&self.line));
        self.line.clear();
        self.surplus = 0;
    }

    /// Returns the bytes of a line that has not ended.
    fn rest(&self) -> u64 {
        self.line.len() as u64 + self.surplus
    }
}

/// Returns the end of `bytes` as text that is safe to show, and how many bytes come before it.
fn end_of(bytes: &[u8]) -> (String, u64) {
    let text = String::from_utf8_lossy(bytes);
    let surplus = text.chars().count().saturating_sub(LONGEST_TEXT);
    let cut: usize = text.chars().take(surplus).map(char::len_utf8).sum();
    (shown(text.get(cut..).unwrap_or_default()), cut as u64)
}

/// Returns output as text that is safe to show; where a program went back to the start of its line, a new one begins.
fn shown(text: &str) -> String {
    words::lines(&text.replace("\r\n", "\n").replace('\r', "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    fn of(text: &[u8]) -> Folder {
        let folder = Folder::new();
        folder.write(OUTPUT, text);
        folder
    }

    fn read_text(
        folder: &Folder,
        offset: Option<u64>,
        by: Option<&str>,
        ended: bool,
    ) -> TaskOutput {
        let by = by.map(|by| filter(by).unwrap());
        read(folder.path(), offset, by.as_ref(), ended).unwrap()
    }

    #[test]
    fn the_next_reading_begins_where_the_last_one_ended() {
        let folder = of(b"one\ntwo\n");
        assert_eq!(read_text(&folder, None, None, false).text, "one\ntwo\n");
        assert_eq!(read_text(&folder, None, None, false).text, "");
        folder.write(OUTPUT, b"one\ntwo\nthree\n");
        let third = read_text(&folder, None, None, false);
        assert_eq!((third.text.as_str(), third.offset, third.next_offset), ("three\n", 8, 14));
        // A reading with an offset moves nothing.
        assert_eq!(read_text(&folder, Some(4), None, false).text, "two\nthree\n");
        assert_eq!(read_text(&folder, None, None, false).text, "");
    }

    #[test]
    fn an_offset_past_the_end_is_an_error() {
        let failure = read(of(b"abc").path(), Some(4), None, true).unwrap_err();
        assert_eq!(failure.message, "offset 4 is past the end of the output (3 bytes)");
    }

    #[test]
    fn a_filter_keeps_matching_lines_and_leaves_the_unfinished_one_for_later() {
        let folder = of(b"ok 1\nerror 2\r\nok 3\nerr");
        let found = read_text(&folder, None, Some("^err"), false);
        assert_eq!((found.text.as_str(), found.next_offset), ("error 2\n", 19));
        assert_eq!(read_text(&folder, None, Some("^err"), true).text, "err\n");
    }

    #[test]
    fn long_output_is_shown_from_its_end() {
        let text: String = (0..20_000).map(|n| format!("{n:05}\n")).collect();
        let found = read_text(&of(text.as_bytes()), Some(0), None, true);
        assert_eq!(found.text.len(), LONGEST_TEXT);
        assert!(text.ends_with(&found.text));
        assert_eq!(found.left_out, (text.len() - LONGEST_TEXT) as u64);
        let all = read_text(&of(text.as_bytes()), Some(0), Some("."), true);
        assert_eq!((all.text == found.text, all.left_out), (true, found.left_out));
    }

    #[test]
    fn what_a_terminal_would_obey_is_made_visible() {
        let found = read_text(&of(b"\x1b[31mred\xff\x07\n\t1%\r2%\r\n"), Some(0), None, true);
        assert_eq!(found.text, "\\u{1b}[31mred\u{fffd}\\u{7}\n\t1%\n2%\n");
    }

    #[test]
    fn an_invalid_filter_says_where() {
        let failure = filter("a(").unwrap_err();
        assert!(failure.message.starts_with("invalid filter `a(`"), "{}", failure.message);
        assert!(filter("(a{1000}){1000}").is_err());
    }
}
