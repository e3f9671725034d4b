//! Reading records in the order in which they were written.

use std::path::{Path, PathBuf};

use super::super::error::{Error, Scene};
use super::super::files;
use super::super::hash::{Hash, sha256};
use super::super::line::{self, Head, Lines, Step};
use super::Record;

/// Treatment of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// The line is read as a record.
    Read,
    /// The line is skipped.
    Pass,
    /// Nothing from here on is of use.
    End,
}

/// The last record that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) sequence: u64,
    pub(super) hash: Hash,
}

/// Reads records in order, over all segments, and watches the chain.
#[derive(Debug)]
pub(super) struct Reader {
    directory: PathBuf,
    segment: u64,
    offset: u64,
    open: Option<Lines<std::io::BufReader<std::fs::File>>>,
    last: Option<Last>,
    pub(super) broken: Option<String>,
}

impl Reader {
    /// Begins with the first segment.
    pub(super) fn new(directory: &Path) -> Reader {
        Reader::at(directory, 0)
    }

    /// Returns the folder of the log.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns its segment and offset, with the number of the preceding record; none before the first segment.
    pub(super) fn stands(&self) -> Option<((u64, u64), Option<u64>)> {
        let last = self.last.map(|last| last.sequence);
        (self.segment > 0).then_some(((self.segment, self.offset), last))
    }

    /// Begins with `segment`; 0 is the first that is there.
    pub(super) fn at(directory: &Path, segment: u64) -> Reader {
        let directory = directory.to_owned();
        Reader { directory, segment, offset: 0, open: None, last: None, broken: None }
    }

    /// Begins behind a record of `segment` that ends before byte `offset`, the `last` one.
    pub(super) fn behind(
        directory: &Path,
        segment: u64,
        offset: u64,
        last: Option<Last>,
    ) -> Reader {
        Reader { segment, offset, last, ..Reader::at(directory, segment) }
    }

    /// Returns the next record; none at the end, which may be asked again later.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        self.next_of(|_| Wish::Read, |_| true)
    }

    /// Returns the next record whose line is wished for, and passes over whole segments that are not `wanted`. What is
    /// passed over is neither read nor compared with the chain.
    pub(super) fn next_of(
        &mut self,
        wish: impl Fn(&[u8]) -> Wish,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<Record>, Error> {
        let scene = Scene { directory: self.directory.clone() };
        loop {
            let path = self.directory.join(files::segment_name(self.segment.max(1)));
            if self.open.is_none() && !self.enter().map_err(scene.read(&path))? {
                return Ok(None);
            }
            let Some(lines) = &mut self.open else { return Ok(None) };
            match lines.next().map_err(scene.read(&path))? {
                Step::Line(content) => {
                    self.offset = lines.offset;
                    match wish(&content) {
                        Wish::Read => {
                            if let Some(record) = self.take(content) {
                                return Ok(Some(record));
                            }
                        }
                        Wish::Pass => self.last = None,
                        Wish::End => return Ok(None),
                    }
                }
                Step::End | Step::Torn(_) | Step::Rubbish => {
                    self.open = None;
                    if !self.exists(self.segment + 1) {
                        return Ok(None);
                    }
                    self.segment += 1;
                    self.offset = 0;
                    // The open segment, behind which there is none yet, is always read.
                    while self.exists(self.segment + 1) && !wanted(self.segment) {
                        self.segment += 1;
                        self.last = None;
                    }
                }
            }
        }
    }

    fn exists(&self, segment: u64) -> bool {
        self.directory.join(files::segment_name(segment)).exists()
    }

    /// Opens the current segment where it was left; says whether there is one.
    fn enter(&mut self) -> std::io::Result<bool> {
        use std::io::Seek as _;
        if self.segment == 0 {
            let Some(first) = files::segments(&self.directory)?.first().copied() else {
                return Ok(false);
            };
            self.segment = first;
        }
        let mut file = std::fs::File::open(self.directory.join(files::segment_name(self.segment)))?;
        file.seek(std::io::SeekFrom::Start(self.offset))?;
        let reader = std::io::BufReader::with_capacity(1 << 16, file);
        self.open = Some(Lines::new(reader, self.offset));
        Ok(true)
    }

    fn take(&mut self, bytes: Vec<u8>) -> Option<Record> {
        let place = format!("{} before byte {}", files::segment_name(self.segment), self.offset);
        let hash = sha256(&[&bytes]);
        let (record, previous) = match read(bytes) {
            Ok(read) => read,
            Err(reason) => {
                self.broken.get_or_insert(format!("{place}: not a record: {reason}"));
                self.last = None;
                return None;
            }
        };
        let sequence = record.sequence;
        if self.last.is_some_and(|it| it.sequence + 1 != sequence || it.hash != previous) {
            self.broken
                .get_or_insert(format!("{place}: the record does not follow the one before"));
        }
        self.last = Some(Last { sequence, hash });
        Some(record)
    }
}

/// Reads a line as a record, with the digest of the line before that it names.
pub(super) fn read(bytes: Vec<u8>) -> Result<(Record, Hash), String> {
    let (head, value) = line::read(&bytes)?;
    let Head { sequence, previous, id, kind, reference, .. } = head;
    Ok((Record { bytes, sequence, id, kind, reference, value }, previous))
}
