//! The index of git: which of its entries are other repositories (`gitformat-index(5)`).

/// Bytes of an entry in front of the name of its object.
const BEFORE_OBJECT: usize = 40;
/// Where the mode of an entry is.
const MODE: usize = 24;
/// The mode of an entry that is another repository.
const GITLINK: u32 = 0o160_000;
/// The flag of an entry that has more flags.
const EXTENDED: u16 = 0x4000;
/// Bytes of the header: signature, version, number of entries.
const HEADER: usize = 12;

/// Returns the paths of the repositories in an index, whose objects have names of `name_bytes` bytes. `shared` reads the
/// file of this name beside the index, which holds the rest of one that is split. `None` for what is not an index.
pub fn gitlinks(
    index: &[u8],
    name_bytes: usize,
    shared: impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<Vec<Vec<u8>>> {
    let found = whole(index, name_bytes, shared, |mode, _| mode == GITLINK)?;
    Some(found.into_iter().map(|(path, _)| path).collect())
}

/// Returns the paths in an index that `is_wanted` names, each with its object.
pub fn objects(
    index: &[u8],
    name_bytes: usize,
    shared: impl Fn(&str) -> Option<Vec<u8>>,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Option<Vec<Object>> {
    whole(index, name_bytes, shared, |mode, path| mode != GITLINK && is_wanted(path))
}

/// A path with the name of its object.
type Object = (Vec<u8>, Vec<u8>);

fn whole(
    index: &[u8],
    name_bytes: usize,
    shared: impl Fn(&str) -> Option<Vec<u8>>,
    is_wanted: impl Fn(u32, &[u8]) -> bool,
) -> Option<Vec<Object>> {
    let (mut found, rest) = entries(index, name_bytes, &is_wanted)?;
    if let Some(base) = split_from(rest, name_bytes)? {
        let shared = shared(&format!("sharedindex.{base}"))?;
        found.extend(entries(&shared, name_bytes, &is_wanted)?.0);
    }
    Some(found)
}

/// Returns the wanted entries of one file, and what is behind the entries.
fn entries<'a>(
    index: &'a [u8],
    name_bytes: usize,
    is_wanted: &impl Fn(u32, &[u8]) -> bool,
) -> Option<(Vec<Object>, &'a [u8])> {
    let number =
        |at: usize| Some(u32::from_be_bytes(index.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let (mut found, mut path, mut at) = (Vec::new(), Vec::new(), HEADER);
    for _ in 0..count {
        let start = at;
        let mode = number(start + MODE)?;
        at = start + BEFORE_OBJECT + name_bytes;
        let object = index.get(start + BEFORE_OBJECT..at)?;
        let flags = u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?);
        at += if version > 2 && flags & EXTENDED != 0 { 4 } else { 2 };
        if version == 4 {
            let (cut, length) = cut_off(index.get(at..)?)?;
            at += length;
            path.truncate(path.len().checked_sub(cut)?);
        } else {
            path.clear();
        }
        let rest = index.get(at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(rest.get(..length)?);
        at += length + 1;
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
        if is_wanted(mode, &path) {
            found.push((path.clone(), object.to_vec()));
        }
    }
    Some((found, index.get(at..)?))
}

/// Returns how many bytes of the former path fall away, and how many bytes say so (`gitformat-pack(5)`, offset encoding).
fn cut_off(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (place, byte) in bytes.iter().enumerate() {
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
        value = value.checked_add(1)?;
    }
    None
}

/// Returns the name of the file that a split index begins with; none where it is whole.
fn split_from(mut extensions: &[u8], name_bytes: usize) -> Option<Option<String>> {
    while extensions.len() > name_bytes {
        let (head, rest) = extensions.split_at_checked(8)?;
        let length = u32::from_be_bytes(head.get(4..)?.try_into().ok()?);
        let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        if head.starts_with(b"link") {
            let name = body.get(..name_bytes)?;
            let hex = |byte: &u8| format!("{byte:02x}");
            let is_none = name.iter().all(|byte| *byte == 0);
            return Some((!is_none).then(|| name.iter().map(hex).collect()));
        }
        extensions = rest;
    }
    Some(None)
}

#[cfg(test)]
mod tests;
