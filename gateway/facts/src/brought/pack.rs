//! Packs of objects and their indices of version 2 (`gitformat-pack(5)`).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::Budget;
use super::objects::{Kind, LONGEST, open};

/// Bytes in front of the names in an index: signature, version and 256 counts.
const FAN: u64 = 8;
const NAMES: u64 = FAN + 256 * 4;
/// Objects that are made of one another at most (`git-pack-objects(1)`, `--depth`).
const DEEPEST: usize = 4095;
/// Bytes of a pack that are read for an object at first.
const PIECE: usize = 4096;

/// One pack.
#[derive(Debug)]
pub(super) struct Pack {
    index: File,
    pack: File,
    count: u64,
    width: usize,
}

/// How an object is stored.
enum Stored {
    Whole(Kind, Vec<u8>),
    Changed(Base, Vec<u8>),
}

/// The base of an object that is stored as a change.
enum Base {
    At(u64),
    Named(Vec<u8>),
}

impl Pack {
    /// Opens the pack of an index.
    pub(super) fn open(index: &Path, width: usize) -> Option<Pack> {
        let (pack, index) = (open(&index.with_extension("pack"))?, open(index)?);
        let mut found = Pack { index, pack, count: 0, width };
        if found.bytes(0, 8)? != b"\xfftOc\0\0\0\x02" {
            return None;
        }
        found.count = found.number(FAN + 255 * 4)?;
        Some(found)
    }

    /// Returns where an object is; `Some(None)` where the pack does not hold it.
    pub(super) fn find(&self, name: &[u8]) -> Option<Option<u64>> {
        let place = self.place(name)?;
        if place >= self.count || self.name(place)? != name {
            return Some(None);
        }
        let names = NAMES + self.count * self.width as u64;
        let short = self.number(names + self.count * 4 + place * 4)?;
        if short & 0x8000_0000 == 0 {
            return Some(Some(short));
        }
        let long = names + self.count * 8 + (short & 0x7fff_ffff).checked_mul(8)?;
        let bytes = self.bytes(long, 8)?;
        Some(Some(u64::from_be_bytes(bytes.try_into().ok()?)))
    }

    /// Returns the first names from `least` on.
    pub(super) fn from(&self, least: &[u8]) -> Option<impl Iterator<Item = Vec<u8>>> {
        let place = self.place(least)?;
        Some((place..self.count).take(2).map_while(|at| self.name(at)))
    }

    /// Returns the place of the first name that is not below this one.
    fn place(&self, name: &[u8]) -> Option<u64> {
        let first = u64::from(*name.first()?);
        let mut low = if first == 0 { 0 } else { self.number(FAN + (first - 1) * 4)? };
        let mut high = self.number(FAN + first * 4)?.min(self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.name(middle)?.as_slice() < name {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn name(&self, place: u64) -> Option<Vec<u8>> {
        self.bytes(NAMES.checked_add(place.checked_mul(self.width as u64)?)?, self.width)
    }

    fn number(&self, at: u64) -> Option<u64> {
        Some(u64::from(u32::from_be_bytes(self.bytes(at, 4)?.try_into().ok()?)))
    }

    fn bytes(&self, at: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.index.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// Returns the object that begins at a place.
    pub(super) fn read(&self, at: u64, budget: &mut Budget) -> Option<(Kind, Vec<u8>)> {
        let (mut at, mut changes) = (at, Vec::new());
        let (kind, mut bytes) = loop {
            match self.stored(at, budget)? {
                Stored::Whole(kind, bytes) => break (kind, bytes),
                Stored::Changed(Base::At(base), change) => {
                    changes.push(change);
                    at = base;
                }
                Stored::Changed(Base::Named(name), change) => {
                    changes.push(change);
                    // A pack on disk holds what its objects are made of.
                    at = self.find(&name)??;
                }
            }
            if changes.len() > DEEPEST {
                return None;
            }
        };
        for change in changes.iter().rev() {
            bytes = changed(&bytes, change)?;
            budget.take(bytes.len() as u64)?;
        }
        Some((kind, bytes))
    }

    fn stored(&self, at: u64, budget: &mut Budget) -> Option<Stored> {
        let head = self.piece(at, PIECE)?;
        let first = *head.first()?;
        let (mut size, mut used) = (u64::from(first & 0x0f), 1);
        let (mut shift, mut more) = (4, first & 0x80 != 0);
        while more {
            let byte = *head.get(used)?;
            size |= u64::from(byte & 0x7f).checked_shl(shift)?;
            (shift, used, more) = (shift + 7, used + 1, byte & 0x80 != 0);
            if shift > 57 {
                return None;
            }
        }
        let base = match first >> 4 & 7 {
            6 => {
                let (back, length) = distance(head.get(used..)?)?;
                used += length;
                Some(Base::At(at.checked_sub(back).filter(|base| *base < at)?))
            }
            7 => {
                let name = head.get(used..used + self.width)?.to_vec();
                used += self.width;
                Some(Base::Named(name))
            }
            _ => None,
        };
        let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST)?;
        budget.take(size as u64)?;
        // Compression makes what is not compressible a little longer (RFC 1951).
        let most = size + size / 1000 + 64;
        let body = match used + most <= head.len() {
            true => head.get(used..)?.to_vec(),
            false => self.piece(at + used as u64, most)?,
        };
        let bytes = decompress_to_vec_zlib_with_limit(&body, size.max(1)).ok()?;
        if bytes.len() != size {
            return None;
        }
        match (first >> 4 & 7, base) {
            (_, Some(base)) => Some(Stored::Changed(base, bytes)),
            (1, None) => Some(Stored::Whole(Kind::Commit, bytes)),
            (2, None) => Some(Stored::Whole(Kind::Tree, bytes)),
            (3, None) => Some(Stored::Whole(Kind::Blob, bytes)),
            (4, None) => Some(Stored::Whole(Kind::Tag, bytes)),
            _ => None,
        }
    }

    /// Returns at most `count` bytes of the pack.
    fn piece(&self, at: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.pack.read_at(rest, at.checked_add(filled as u64)?).ok()? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Some(bytes)
    }
}

/// Returns how far back something is, and how many bytes say so.
fn distance(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().enumerate() {
        value = value.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
        value = value.checked_add(1)?;
    }
    None
}

/// Returns what a change makes of an object.
fn changed(base: &[u8], change: &[u8]) -> Option<Vec<u8>> {
    let (of, first) = size(change)?;
    let (to, second) = size(change.get(first..)?)?;
    if of != base.len() || to > LONGEST {
        return None;
    }
    let (mut made, mut at) = (Vec::with_capacity(to), first + second);
    while let Some(order) = change.get(at) {
        at += 1;
        if order & 0x80 == 0 {
            let count = usize::from(*order);
            made.extend_from_slice(change.get(at..at + count).filter(|it| !it.is_empty())?);
            at += count;
        } else {
            let (mut offset, mut count) = (0_usize, 0_usize);
            for bit in 0..7 {
                if order & 1 << bit != 0 {
                    let byte = usize::from(*change.get(at)?);
                    at += 1;
                    if bit < 4 {
                        offset |= byte << (8 * bit);
                    } else {
                        count |= byte << (8 * (bit - 4));
                    }
                }
            }
            let count = if count == 0 { 0x1_0000 } else { count };
            made.extend_from_slice(base.get(offset..offset.checked_add(count)?)?);
        }
        if made.len() > to {
            return None;
        }
    }
    (made.len() == to).then_some(made)
}

/// Returns a size in front of a change, and how many bytes say so.
fn size(bytes: &[u8]) -> Option<(usize, usize)> {
    let (mut value, mut shift) = (0_usize, 0_u32);
    for (place, byte) in bytes.iter().enumerate() {
        if shift > 49 {
            return None;
        }
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
        shift += 7;
    }
    None
}
