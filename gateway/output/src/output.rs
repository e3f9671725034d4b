//! Output of a command: counted, digested, kept whole in a file when it is long, and shortened for people.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::budget::Budget;
use stockade_base::directories::private_directory;
use stockade_settings::limits::Kept;
use stockade_wire::types::Stream;

/// Bytes that are kept of each stream: a short one gets a keyed digest, which needs its bytes.
pub const SHORT_BYTES: usize = 1 << 10;

/// Message for a command that was stopped because of its output.
const STOPPED: &str = ", so the command was stopped";

/// Content that one stream carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The stream.
    pub stream: Stream,
    /// Number of bytes.
    pub bytes: u64,
    /// The first of them, up to [`SHORT_BYTES`].
    pub first: Vec<u8>,
    /// SHA-256 of all of them.
    pub sha256: [u8; 32],
}

/// The output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Both streams in the order read, shortened to the limit, with replacement characters for what is not text.
    pub text: String,
    /// Bytes of both streams.
    pub bytes: u64,
    /// Lines of both streams.
    pub lines: u64,
    /// The file that holds the whole output.
    pub spill: Option<PathBuf>,
    /// `text` is shortened.
    pub truncated: bool,
    /// The file does not hold everything, and why.
    pub cut: Option<String>,
    /// Standard output, then standard error.
    pub streams: [Carried; 2],
}

/// Content that one stream has carried so far.
#[derive(Debug, Default)]
struct Counted {
    bytes: u64,
    first: Vec<u8>,
    digest: Sha256,
}

impl Counted {
    fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
        let room = SHORT_BYTES.saturating_sub(self.first.len());
        self.first.extend(bytes.iter().take(room));
    }

    fn carried(self, stream: Stream) -> Carried {
        let sha256 = self.digest.finalize().into();
        Carried { stream, bytes: self.bytes, first: self.first, sha256 }
    }
}

/// Takes in output as it comes.
#[derive(Debug)]
pub struct Collector {
    /// Where the file goes, if it is needed.
    directory: PathBuf,
    kept: Kept,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    newlines: u64,
    last: Option<u8>,
    streams: [Counted; 2],
    spill: Option<(PathBuf, File)>,
    spilled: u64,
    /// Budget for the output that all commands of the session keep together.
    budget: Option<Arc<Budget>>,
    /// The session has no room for more.
    is_full: bool,
    cut: Option<String>,
}

impl Collector {
    /// Returns a collector that makes a file in `directory` when the output is long.
    pub fn new(directory: PathBuf, kept: Kept) -> Collector {
        Collector {
            directory,
            kept,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            newlines: 0,
            last: None,
            streams: [Counted::default(), Counted::default()],
            spill: None,
            spilled: 0,
            budget: None,
            is_full: false,
            cut: None,
        }
    }

    /// Returns one that keeps no more than its session may.
    #[must_use]
    pub fn within(self, budget: Option<Arc<Budget>>) -> Collector {
        Collector { budget, ..self }
    }

    /// Takes in what one stream carried.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let [stdout, stderr] = &mut self.streams;
        match stream {
            Stream::Stdout => stdout.count(bytes),
            Stream::Stderr => stderr.count(bytes),
        }
        self.bytes += length;
        self.newlines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.last = bytes.last().copied().or(self.last);
        let room = self.kept.head_bytes().saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        let had_file = self.spill.is_some();
        self.head.extend_from_slice(first);
        match (had_file, rest.is_empty()) {
            (true, _) => self.keep(bytes),
            (false, true) => return,
            (false, false) => {
                self.keep_all();
                self.keep(rest);
            }
        }
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.kept.tail_bytes());
        self.tail.drain(..surplus);
    }

    /// Keeps everything in the file from now on, however short it is, with what came so far.
    pub fn keep_all(&mut self) {
        if self.spill.is_none() && self.cut.is_none() {
            self.open();
        }
    }

    /// Opens the file and puts into it what came so far.
    fn open(&mut self) {
        let path = self.directory.join("output");
        // A task has made an empty one.
        let opened = private_directory(&self.directory)
            .and_then(|()| File::options().append(true).create(true).mode(0o600).open(&path));
        match opened {
            Ok(file) => {
                if let Some(budget) = &self.budget {
                    budget.opened(&path);
                }
                self.spill = Some((path, file));
                let head = std::mem::take(&mut self.head);
                self.keep(&head);
                self.head = head;
            }
            Err(error) => self.cut = Some(unkept(&self.directory, &error)),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.cut.is_some() {
            return;
        }
        self.spilled += bytes.len() as u64;
        if self.is_over() {
            let (most, stopped) = (self.kept.bytes, if self.kept.stops { STOPPED } else { "" });
            self.cut = Some(format!("it is larger than {most} bytes{stopped}"));
        } else if let Some(budget) = self.budget.as_ref().filter(|it| !it.take(bytes.len() as u64))
        {
            let (most, stopped) = (budget.most(), if self.kept.stops { STOPPED } else { "" });
            self.is_full = true;
            self.cut = Some(format!(
                "its session keeps {most} bytes of output already (`limits.sessionOutputBytes`){stopped}"
            ));
        } else if let Some((_, file)) = &mut self.spill {
            self.cut = file.write_all(bytes).err().map(|error| unkept(&self.directory, &error));
        }
    }

    /// Says whether the command wrote more than is kept.
    pub fn is_over(&self) -> bool {
        self.is_full || self.spilled > self.kept.bytes
    }

    /// Returns what was taken in.
    pub fn finish(mut self) -> Output {
        let whole = self.tail.is_empty();
        let text = String::from_utf8_lossy(&self.head).into_owned();
        let truncated = !whole || text.chars().nth(self.kept.characters).is_some();
        if truncated && self.spill.is_none() && self.cut.is_none() {
            self.open();
        }
        let spill = self.spill.as_ref().map(|(path, _)| path.clone());
        let text = match truncated {
            false => text,
            true => self.shortened(&text, whole),
        };
        let [stdout, stderr] = self.streams;
        Output {
            text,
            bytes: self.bytes,
            lines: self.newlines + u64::from(self.last.is_some_and(|last| last != b'\n')),
            spill,
            truncated,
            cut: self.cut,
            streams: [stdout.carried(Stream::Stdout), stderr.carried(Stream::Stderr)],
        }
    }

    /// Returns the first and the last part, with a line between them that says what is left out.
    fn shortened(&mut self, head: &str, whole: bool) -> String {
        let first: String = head.chars().take(self.kept.part()).collect();
        let end = match whole {
            true => head.to_string(),
            // Near the limit the last part reaches back into the first bytes.
            false => {
                let kept = self.head.len().saturating_sub(self.kept.tail_bytes());
                let back = self.head.get(kept..).unwrap_or_default().to_vec();
                String::from_utf8_lossy(&[&back, &*self.tail.make_contiguous()].concat())
                    .into_owned()
            }
        };
        let skip = end.chars().count().saturating_sub(self.kept.part());
        let last: String = end.chars().skip(skip).collect();
        let left_out = self.bytes.saturating_sub((first.len() + last.len()) as u64);
        let place = match &self.spill {
            Some((path, _)) => format!("the whole output is in {}", path.display()),
            None => "the whole output could not be kept".to_string(),
        };
        format!("{first}\n[... {left_out} bytes left out; {place} ...]\n{last}")
    }
}

/// Returns why output is not in its file, for people.
fn unkept(directory: &Path, error: &std::io::Error) -> String {
    let place = directory.parent().unwrap_or(directory).display();
    match error.kind() {
        ErrorKind::StorageFull => format!("the disk of `{place}` is full"),
        ErrorKind::QuotaExceeded => format!("the disk quota at `{place}` is used up"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_CHARACTERS: usize = 30_000;
    const PART_CHARACTERS: usize = LIMIT_CHARACTERS / 2;
    const HEAD_BYTES: usize = LIMIT_CHARACTERS * 4;
    use stockade_scratch::Folder;

    fn output(folder: &Folder, chunks: &[(Stream, &[u8])]) -> Output {
        let mut collector = Collector::new(folder.path().join("tasks/1"), Kept::default());
        for (stream, bytes) in chunks {
            collector.push(*stream, bytes);
        }
        collector.finish()
    }

    #[test]
    fn short_output_is_given_whole() {
        let folder = Folder::new();
        let found = output(&folder, &[(Stream::Stdout, b"a\nb"), (Stream::Stderr, b"\xff\n")]);
        assert_eq!((found.text.as_str(), found.bytes, found.lines), ("a\nb\u{fffd}\n", 5, 2));
        assert_eq!((found.truncated, found.spill), (false, None));
        assert_eq!(found.streams.each_ref().map(|carried| carried.bytes), [3, 2]);
        assert_eq!(found.streams[1].sha256, <[u8; 32]>::from(Sha256::digest(b"\xff\n")));
        assert!(!folder.path().join("tasks").exists());
    }

    #[test]
    fn the_limit_itself_is_not_shortened() {
        let folder = Folder::new();
        let text = "ü".repeat(LIMIT_CHARACTERS);
        assert_eq!(output(&folder, &[(Stream::Stdout, text.as_bytes())]).text, text);
    }

    fn check_long(text: &str, chunk: usize) {
        let folder = Folder::new();
        let chunks: Vec<(Stream, &[u8])> =
            text.as_bytes().chunks(chunk).map(|bytes| (Stream::Stdout, bytes)).collect();
        let found = output(&folder, &chunks);
        let spill = found.spill.unwrap();
        assert_eq!(std::fs::read(&spill).unwrap(), text.as_bytes());
        let first: String = text.chars().take(PART_CHARACTERS).collect();
        let count = text.chars().count();
        let last: String = text.chars().skip(count - PART_CHARACTERS).collect();
        let left = text.len() - first.len() - last.len();
        let between = format!(
            "\n[... {left} bytes left out; the whole output is in {} ...]\n",
            spill.display()
        );
        assert_eq!(found.text, format!("{first}{between}{last}"));
        assert!(found.truncated && found.cut.is_none() && found.bytes == text.len() as u64);
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(spill.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn long_output_is_kept_in_a_file_with_both_ends_shown() {
        let digits: String = (0..200_000).map(|n| char::from(b'0' + (n % 10) as u8)).collect();
        check_long(&digits, 1_000);
        check_long(&digits, 7_777);
        check_long(digits.get(..LIMIT_CHARACTERS + 1).unwrap(), 65_536);
        check_long(digits.get(..HEAD_BYTES + 3).unwrap(), 65_536);
        let wide: String = (0..100_000).map(|n| if n % 3 == 0 { '界' } else { 'a' }).collect();
        check_long(&wide, 4_099);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        let folder = Folder::new();
        folder.write("tasks", "in the way");
        let found = output(&folder, &[(Stream::Stdout, &[b'x'; HEAD_BYTES + 1])]);
        assert!(found.truncated && found.spill.is_none() && found.cut.is_some());
        assert!(found.text.contains("the whole output could not be kept"));
    }
}
