//! Names in archives: tar (`tar(5)`), also compressed with gzip (RFC 1952), and zip (APPNOTE of PKWARE).

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use stockade_policy::Unpacked;

use super::objects::open;
use super::{Budget, is_protected, path_of};

/// Bytes of a block of tar.
const BLOCK: usize = 512;
/// Longest name that is read, in bytes.
const LONGEST_NAME: u64 = 1 << 16;
/// Longest list of names of a zip that is read, in bytes.
const LONGEST_LIST: u64 = 32 << 20;

/// Returns the protected paths that an archive would write; none where it cannot be read here.
pub(super) fn entries(unpacked: &Unpacked, budget: &mut Budget) -> Option<Vec<PathBuf>> {
    let mut file = open(&unpacked.archive)?;
    let mut head = [0; 4];
    file.read_exact(&mut head).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    let mut paths = Vec::new();
    let mut take = |name: &[u8]| paths.extend(written(unpacked, name));
    match head {
        [0x1f, 0x8b, ..] => tar(&mut Gzip::open(file)?, &mut take, budget),
        [b'P', b'K', ..] => zip(&file, &mut take)?,
        _ => tar(&mut io::BufReader::new(file), &mut take, budget),
    }
    Some(paths)
}

/// Returns where an entry is written if that is a protected path.
fn written(unpacked: &Unpacked, name: &[u8]) -> Option<PathBuf> {
    let named = |member: &Vec<u8>| {
        name == member.as_slice() || {
            let rest = name.strip_prefix(member.as_slice());
            rest.is_some_and(|rest| member.ends_with(b"/") || rest.starts_with(b"/"))
        }
    };
    if !unpacked.members.is_empty() && !unpacked.members.iter().any(named) {
        return None;
    }
    let parts = path_of(name).components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let inside: PathBuf = parts.skip(unpacked.strip).collect();
    let path = unpacked.into.join(&inside);
    (inside != Path::new("") && is_protected(&path)).then_some(path)
}

/// Gives the names of a tar to `take`, as many as can be read.
fn tar(archive: &mut dyn Read, take: &mut dyn FnMut(&[u8]), budget: &mut Budget) {
    let mut long: Option<Vec<u8>> = None;
    let mut block = [0; BLOCK];
    while archive.read_exact(&mut block).is_ok() {
        let Some((name, size, kind)) = header(&block) else { return };
        let Some(padded) = size.checked_next_multiple_of(BLOCK as u64) else { return };
        // An entry of a directory alone writes nothing in it.
        match kind {
            b'L' | b'x' if size <= LONGEST_NAME => {
                let mut text = Vec::new();
                let mut body = archive.take(padded);
                if body.read_to_end(&mut text).is_err() {
                    return;
                }
                text.truncate(usize::try_from(size).unwrap_or_default());
                long = if kind == b'L' { Some(until_nul(&text).to_vec()) } else { extended(&text) };
                continue;
            }
            b'L' | b'K' | b'x' | b'g' => {}
            b'5' => drop(long.take()),
            _ => take(&long.take().unwrap_or(name)),
        }
        let skipped = io::copy(&mut archive.take(padded), &mut io::sink());
        if skipped.ok() != Some(padded) || budget.take(padded).is_none() {
            return;
        }
    }
}

/// Returns name, size and kind of a header.
fn header(block: &[u8; BLOCK]) -> Option<(Vec<u8>, u64, u8)> {
    let field = |from: usize, to: usize| block.get(from..to).map(until_nul);
    let size = String::from_utf8_lossy(field(124, 136)?).trim().to_owned();
    let is_end = block.iter().all(|byte| *byte == 0);
    let size = u64::from_str_radix(&size, 8).ok().filter(|_| !is_end)?;
    let mut name = field(0, 100)?.to_vec();
    let before = field(345, 500)?;
    if block.get(257..263)? == b"ustar\0" && !before.is_empty() {
        name = [before, b"/", &name].concat();
    }
    Some((name, size, *block.get(156)?))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the name in an extended header (`pax(1)`).
fn extended(text: &[u8]) -> Option<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut paths = lines.filter_map(|line| {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        line.get(blank + 1..)?.strip_prefix(b"path=")
    });
    paths.next_back().map(<[u8]>::to_vec)
}

/// Gives the names of a zip to `take`.
fn zip(archive: &File, take: &mut dyn FnMut(&[u8])) -> Option<()> {
    let length = archive.metadata().ok()?.len();
    let tail = length.min(BLOCK as u64 + (1 << 16));
    let end = read(archive, length - tail, usize::try_from(tail).ok()?)?;
    let at = end.windows(4).rposition(|it| it == b"PK\x05\x06")?;
    let number = |bytes: &[u8], at: usize, count: usize| {
        let bytes = bytes.get(at..at + count)?;
        Some(bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)))
    };
    let (size, start) = (number(&end, at + 12, 4)?, number(&end, at + 16, 4)?);
    let list = read(archive, start, usize::try_from(size.min(LONGEST_LIST)).ok()?)?;
    let mut rest = list.as_slice();
    while rest.starts_with(b"PK\x01\x02") {
        let field = |at: usize| usize::try_from(number(rest, at, 2)?).ok();
        let (name, more) = (field(28)?, field(30)? + field(32)?);
        let text = rest.get(46..46 + name)?;
        if !text.ends_with(b"/") {
            take(text);
        }
        rest = rest.get(46 + name + more..)?;
    }
    Some(())
}

fn read(file: &File, at: u64, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// The content of a file that was compressed with gzip.
struct Gzip {
    file: File,
    state: Box<InflateState>,
    given: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl Gzip {
    /// Reads the header (RFC 1952, 2.3).
    fn open(mut file: File) -> Option<Gzip> {
        let mut head = [0; 10];
        file.read_exact(&mut head).ok()?;
        let flags = head[3];
        let mut file = io::BufReader::new(file);
        if flags & 4 != 0 {
            let mut length = [0; 2];
            file.read_exact(&mut length).ok()?;
            let length = u64::from(u16::from_le_bytes(length));
            io::copy(&mut file.by_ref().take(length), &mut io::sink()).ok()?;
        }
        for _ in 0..[8, 16].iter().filter(|flag| flags & **flag != 0).count() {
            let mut byte = [1];
            for _ in 0..LONGEST_NAME {
                file.read_exact(&mut byte).ok()?;
                if byte[0] == 0 {
                    break;
                }
            }
        }
        let given = file.buffer().get(usize::from(flags & 2)..)?.to_vec();
        let state = InflateState::new_boxed(DataFormat::Raw);
        Some(Gzip { file: file.into_inner(), state, given, at: 0, is_over: false })
    }
}

impl Read for Gzip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.is_over {
            if self.at == self.given.len() {
                self.given.resize(1 << 15, 0);
                let read = self.file.read(&mut self.given)?;
                self.given.truncate(read);
                self.at = 0;
            }
            let rest = self.given.get(self.at..).unwrap_or_default();
            let done = inflate(&mut self.state, rest, into, MZFlush::None);
            self.at += done.bytes_consumed;
            match done.status {
                Ok(MZStatus::StreamEnd) => self.is_over = true,
                Ok(_) | Err(MZError::Buf) if done.bytes_consumed + done.bytes_written > 0 => {}
                Ok(_) | Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
            if done.bytes_written > 0 {
                return Ok(done.bytes_written);
            }
        }
        Ok(0)
    }
}
