//! Objects of git by their names: loose ones and those in packs (`gitrepository-layout(5)`, `gitformat-pack(5)`).

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use stockade_base::files::plain;

use super::Budget;
use super::pack::Pack;

/// Longest object that is read, in bytes.
pub(super) const LONGEST: usize = 8 << 20;
/// Packs of one repository that are opened.
const MOST_PACKS: usize = 512;
/// Directories of objects that lead to one another.
const MOST_DIRECTORIES: usize = 16;

/// The name of an object, as bytes.
pub(super) type Name = Vec<u8>;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// Where objects of a repository are.
#[derive(Debug)]
pub(super) struct Objects {
    directories: Vec<PathBuf>,
    packs: Vec<Pack>,
    /// Bytes of a name.
    pub(super) width: usize,
}

impl Objects {
    /// Opens the objects of a repository whose names have `width` bytes.
    pub(super) fn open(common: &Path, width: usize) -> Option<Objects> {
        let mut directories = vec![common.join("objects")];
        let mut next = 0;
        while let Some(directory) = directories.get(next).cloned() {
            next += 1;
            let more = plain(&directory.join("info/alternates"), 1 << 16).unwrap_or_default();
            let lines = more.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            directories.extend(lines.map(|line| directory.join(super::path_of(line))));
            if directories.len() > MOST_DIRECTORIES {
                return None;
            }
        }
        let mut packs = Vec::new();
        for directory in &directories {
            for entry in std::fs::read_dir(directory.join("pack")).into_iter().flatten() {
                let path = entry.ok()?.path();
                if path.extension().is_some_and(|it| it == "idx") {
                    packs.push(Pack::open(&path, width)?);
                }
                if packs.len() > MOST_PACKS {
                    return None;
                }
            }
        }
        Some(Objects { directories, packs, width })
    }

    /// Returns an object.
    pub(super) fn read(&self, name: &[u8], budget: &mut Budget) -> Option<(Kind, Vec<u8>)> {
        for pack in &self.packs {
            if let Some(at) = pack.find(name)? {
                return pack.read(at, budget);
            }
        }
        let hex = hex(name);
        let (fan, rest) = hex.split_at_checked(2)?;
        let mut files = self.directories.iter().map(|it| it.join(fan).join(rest));
        let bytes = files.find_map(|file| plain(&file, LONGEST as u64).ok())?;
        let whole = decompress_to_vec_zlib_with_limit(&bytes, LONGEST).ok()?;
        budget.take(whole.len() as u64)?;
        let end = whole.iter().position(|byte| *byte == 0)?;
        let (head, body) = (whole.get(..end)?, whole.get(end + 1..)?);
        let kind = match head.split(|byte| *byte == b' ').next()? {
            b"commit" => Kind::Commit,
            b"tree" => Kind::Tree,
            b"blob" => Kind::Blob,
            b"tag" => Kind::Tag,
            _ => return None,
        };
        Some((kind, body.to_vec()))
    }

    /// Returns an object of this kind.
    pub(super) fn of_kind(&self, name: &[u8], kind: Kind, budget: &mut Budget) -> Option<Vec<u8>> {
        let (found, bytes) = self.read(name, budget)?;
        (found == kind).then_some(bytes)
    }

    /// Returns the one object whose name begins with these digits; none where there is no such or more than one.
    pub(super) fn abbreviated(&self, digits: &str) -> Option<Name> {
        let mut found: Vec<Name> = Vec::new();
        let even = format!("{digits:0<width$}", width = self.width * 2);
        let (least, fan) = (unhex(&even)?, digits.get(..2)?);
        for pack in &self.packs {
            found.extend(pack.from(&least)?.filter(|name| hex(name).starts_with(digits)));
        }
        for directory in &self.directories {
            for entry in std::fs::read_dir(directory.join(fan)).into_iter().flatten() {
                let name = entry.ok()?.file_name();
                let whole = format!("{fan}{}", name.to_string_lossy());
                if whole.starts_with(digits) && name.as_bytes().len() == self.width * 2 - 2 {
                    found.extend(unhex(&whole));
                }
            }
        }
        found.sort();
        found.dedup();
        (found.len() == 1).then(|| found.pop()).flatten()
    }
}

pub(super) fn open(path: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

pub(super) fn hex(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Name> {
    let bytes = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    };
    bytes.chunks(2).map(pair).collect()
}
