//! Paths as text: joined, without `.` and `..`, and under each name that they go by.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use stockade_parser::{Directory, Glob, Word, WordClass};

use stockade_rules::normal;
use stockade_rules::protected::equal;
pub(crate) use stockade_rules::protected::{kept_at_top, protected};

use crate::facts::Facts;
use crate::knowledge::{ProtectedName, Unwritable, protected_names};
use crate::pattern::path::{Shape, ShapeSegment};

/// Returns the directory in which a command runs, if the text tells.
pub(crate) fn directory(place: &Directory, facts: &Facts) -> Option<PathBuf> {
    match place {
        Directory::Start => Some(facts.cwd.clone()),
        Directory::Known(bytes) => Some(facts.cwd.join(std::str::from_utf8(bytes).ok()?)),
        Directory::Unknown => None,
    }
}

/// Returns an exact path as it is written, made absolute; none when the text does not tell it.
pub(crate) fn written(bytes: &[u8], directory: Option<&Path>) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())?;
    let path = Path::new(text);
    if path.is_absolute() { Some(path.to_owned()) } else { Some(directory?.join(path)) }
}

/// Returns every name of a written absolute path: as text, what the kernel's own links in it stand for,
/// and what the gateway resolved.
pub(crate) fn names(written: &Path, facts: &Facts, directory: Option<&Path>) -> Vec<PathBuf> {
    let mut found = vec![normal(written)];
    if let Some(behind) = through_proc(&normal(written), directory.unwrap_or(&facts.cwd)) {
        found.push(behind);
    }
    for real in facts.real_paths.get(written).into_iter().flatten() {
        let real = normal(real);
        if !found.contains(&real) {
            found.push(real);
        }
    }
    found
}

/// Returns what `/proc/N/root/...` and `/proc/N/cwd/...` stand for.
fn through_proc(path: &Path, directory: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/proc").ok()?;
    let mut parts = rest.iter().skip(1).peekable();
    if parts.peek().is_some_and(|part| *part == "task") {
        parts.next();
        parts.next();
    }
    let link = parts.next()?;
    let behind: PathBuf = parts.collect();
    if link == "root" {
        Some(normal(&Path::new("/").join(behind)))
    } else if link == "cwd" {
        Some(normal(&directory.join(behind)))
    } else {
        None
    }
}

/// How a path may go through what a process has open (proc(5): `fd`, `cwd`, `root`, `task`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The path goes through nothing that a process has open.
    No,
    /// The path is a descriptor itself, which is no passage for a program that reads it as a file.
    Descriptor,
    /// The path may lead anywhere.
    Anywhere,
}

/// Says how a word that names a path may go through what a process has open.
pub(crate) fn passage(word: &Word, directory: Option<&Path>) -> Passage {
    match &word.class {
        WordClass::Exact(bytes) => passage_of(bytes.iter().copied().map(Some).collect(), directory),
        WordClass::Pattern { glob, .. } => passage_of(glob_symbols(glob), directory),
        WordClass::Unknown { prefix, .. } => {
            passage_of(prefix.iter().copied().map(Some).collect(), directory)
        }
    }
}

/// The same for a path whose bytes are known but for those that are none.
pub(crate) fn passage_of(symbols: Vec<Option<u8>>, directory: Option<&Path>) -> Passage {
    let absolute = symbols.first() == Some(&Some(b'/'));
    let before = directory.filter(|_| !absolute).map(|it| it.as_os_str().as_encoded_bytes());
    let mut path: Vec<Option<u8>> = before.unwrap_or_default().iter().copied().map(Some).collect();
    path.push(Some(b'/'));
    path.extend(symbols);
    let parts: Vec<&[Option<u8>]> =
        path.split(|symbol| *symbol == Some(b'/')).filter(|part| *part != [Some(b'.')]).collect();
    // A trailing `/` goes into the directory.
    let (mut depth, mut climbed) = (0_usize, false);
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        if may_be(part, b"..") {
            depth = depth.saturating_sub(1);
            climbed = true;
            continue;
        }
        if depth == 0 || climbed {
            let behind = parts.get(at + 1..).unwrap_or_default();
            let found = if may_be(part, b"proc") { in_proc(behind) } else { Passage::No };
            let may_be_dev = found == Passage::No && may_be(part, b"dev");
            let found = if may_be_dev { in_dev(behind) } else { found };
            if found != Passage::No {
                return found;
            }
        }
        depth += 1;
    }
    Passage::No
}

/// Says whether a walk from this path may go on through what a process has open (proc(5)).
pub(crate) fn holds_doors(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev/fd")
}

fn in_proc(behind: &[&[Option<u8>]]) -> Passage {
    let names: Vec<&&[Option<u8>]> = behind.iter().filter(|part| !part.is_empty()).collect();
    if let [own, fd, number] = names.as_slice()
        && behind.last().is_some_and(|last| !last.is_empty())
        && **own == literal(b"self")
        && **fd == literal(b"fd")
        && is_number(number)
    {
        return Passage::Descriptor;
    }
    let doors: [&[u8]; 5] = [b"cwd", b"root", b"fd", b"task", b"map_files"];
    let door = |part: &&&[Option<u8>]| doors.iter().any(|door| may_be(part, door));
    let climbs = names.iter().any(|part| may_be(part, b".."));
    if climbs || names.iter().skip(1).any(door) { Passage::Anywhere } else { Passage::No }
}

fn in_dev(behind: &[&[Option<u8>]]) -> Passage {
    let Some(first) = behind.iter().position(|part| !part.is_empty()) else { return Passage::No };
    let rest = behind.get(first + 1..).unwrap_or_default();
    let Some(name) = behind.get(first) else { return Passage::No };
    let standard: [&[u8]; 3] = [b"stdin", b"stdout", b"stderr"];
    if standard.iter().any(|it| may_be(name, it)) {
        return if rest.is_empty() { Passage::Descriptor } else { Passage::Anywhere };
    }
    match rest {
        _ if !may_be(name, b"fd") => Passage::No,
        [] | [[]] => Passage::No,
        [number] if is_number(number) => Passage::Descriptor,
        _ => Passage::Anywhere,
    }
}

fn is_number(part: &[Option<u8>]) -> bool {
    part.iter().all(|symbol| symbol.is_some_and(|byte| byte.is_ascii_digit()))
}

fn literal(name: &[u8]) -> Vec<Option<u8>> {
    name.iter().copied().map(Some).collect()
}

/// Says whether a segment with unknown stretches could be `name`; what stands between two of them may be anything.
fn may_be(part: &[Option<u8>], name: &[u8]) -> bool {
    if !part.contains(&None) {
        return part.iter().copied().eq(name.iter().copied().map(Some));
    }
    let start: Vec<u8> = part.iter().map_while(|symbol| *symbol).collect();
    let mut end: Vec<u8> = part.iter().rev().map_while(|symbol| *symbol).collect();
    end.reverse();
    // No pattern stands for a dot in front that it does not spell.
    if name.starts_with(b".") && start.is_empty() {
        return false;
    }
    name.starts_with(&start) && name.ends_with(&end)
}

/// Returns the directories in which the tools may work.
pub(crate) fn working_directories<'a>(
    facts: &'a Facts,
    further: &'a [PathBuf],
) -> impl Iterator<Item = &'a Path> {
    let added = facts.additional_directories.iter().chain(further);
    [facts.anchor(), &facts.project].into_iter().chain(added.map(PathBuf::as_path))
}

/// Says whether every name lies inside a working directory.
pub(crate) fn is_inside(names: &[PathBuf], facts: &Facts, further: &[PathBuf]) -> bool {
    !names.is_empty()
        && names.iter().all(|name| {
            working_directories(facts, further).any(|directory| name.starts_with(directory))
        })
}

/// Returns the protected name that the sandbox keeps unwritable although a path below it is ordinary elsewhere: it looks
/// at what a path is called below the working directory that it lies in. Who works in such a place may write there.
pub(crate) fn guarded(
    names: &[PathBuf],
    facts: &Facts,
    further: &[PathBuf],
) -> Option<&'static ProtectedName> {
    let below = |name: &PathBuf| {
        let roots = working_directories(facts, further).chain([facts.cwd.as_path()]);
        let inside = roots.filter_map(|root| name.strip_prefix(root).ok().map(Path::to_owned));
        inside.min_by_key(|rest| rest.iter().count())
    };
    names.iter().filter_map(below).find_map(|inside| {
        let segments: Vec<Cow<'_, str>> =
            inside.iter().map(|name| name.to_string_lossy()).collect();
        protected_names()
            .iter()
            .filter(|name| name.kernel != Unwritable::Nowhere && !name.except.is_empty())
            .find(|name| {
                let mut runs = segments.windows(name.segments.len());
                runs.any(|run| {
                    run.iter().zip(&name.segments).all(|(found, wanted)| equal(found, wanted))
                })
            })
    })
}

/// Returns what is known about the path that a word names; none when nothing is.
pub(crate) fn shape(word: &Word, directory: Option<&Path>) -> Option<Shape> {
    let (symbols, open): (Vec<Option<u8>>, bool) = match &word.class {
        WordClass::Exact(bytes) => (bytes.iter().copied().map(Some).collect(), false),
        // Segments that a finder puts behind the place where it begins are further segments.
        WordClass::Pattern { glob, .. } => match &**glob {
            [Glob::Literal(start), Glob::Other(mark)] if mark == b"{}" => {
                (start.iter().copied().map(Some).collect(), true)
            }
            glob => (glob_symbols(glob), false),
        },
        WordClass::Unknown { count: stockade_parser::Count::Any, .. } => return None,
        WordClass::Unknown { prefix, .. } => {
            // The text behind the last `/` of the known beginning is open.
            let end = prefix.iter().rposition(|byte| *byte == b'/')?;
            (prefix.get(..=end)?.iter().copied().map(Some).collect(), true)
        }
    };
    let absolute = symbols.first() == Some(&Some(b'/'));
    let mut segments: Vec<ShapeSegment> = Vec::new();
    if !absolute {
        for part in normal(directory?).iter().skip(1) {
            segments.push(ShapeSegment::Known(part.as_encoded_bytes().to_vec()));
        }
    }
    for part in symbols.split(|symbol| *symbol == Some(b'/')) {
        let literal: Option<Vec<u8>> = part.iter().copied().collect();
        if literal.is_none() && may_be_parent(part) {
            segments.pop();
            return Some(Shape { segments, open: true });
        }
        match literal.as_deref() {
            Some(b"" | b".") => {}
            Some(b"..") => match segments.pop() {
                // A link by such a name leads above any place.
                Some(ShapeSegment::Glob(_)) => return None,
                Some(ShapeSegment::Known(_)) | None => {}
            },
            Some(bytes) => segments.push(ShapeSegment::Known(bytes.to_vec())),
            None => segments.push(ShapeSegment::Glob(part.to_vec())),
        }
    }
    Some(Shape { segments, open })
}

/// Returns what a word can name when the program itself reads it as a pattern (`git diff -- '*.env'`); none when it is none.
pub(crate) fn quoted_shape(bytes: &[u8], directory: Option<&Path>) -> Option<Shape> {
    if !bytes.iter().any(|byte| b"*?[\\".contains(byte)) {
        return None;
    }
    let mut segments: Vec<ShapeSegment> = Vec::new();
    if !bytes.starts_with(b"/") {
        let start = normal(directory?);
        let known = |part: &std::ffi::OsStr| ShapeSegment::Known(part.as_encoded_bytes().to_vec());
        segments.extend(start.iter().skip(1).map(known));
    }
    for part in bytes.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")) {
        let end = part.iter().position(|byte| b"*?[\\".contains(byte));
        let last = part.iter().rposition(|byte| b"*?]\\".contains(byte));
        segments.push(match (end, last) {
            (Some(end), last) => {
                let start = part.get(..end).unwrap_or_default().iter().copied().map(Some);
                let rest = part.get(last.unwrap_or(part.len()) + 1..).unwrap_or_default();
                let rest = rest.iter().copied().map(Some);
                ShapeSegment::Glob(start.chain([None]).chain(rest).collect())
            }
            (None, _) if part == b".." => {
                segments.pop();
                continue;
            }
            (None, _) => ShapeSegment::Known(part.to_vec()),
        });
    }
    Some(Shape { segments, open: false })
}

/// Says whether a segment of a pattern could be `..`, as `.*` can.
fn may_be_parent(part: &[Option<u8>]) -> bool {
    part.first() == Some(&Some(b'.')) && part.iter().flatten().all(|byte| *byte == b'.')
}

fn glob_symbols(glob: &[Glob]) -> Vec<Option<u8>> {
    let mut symbols = Vec::new();
    for piece in glob {
        match piece {
            Glob::Literal(bytes) => symbols.extend(bytes.iter().copied().map(Some)),
            Glob::Star | Glob::Question | Glob::Other(_) => symbols.push(None),
        }
    }
    symbols
}

/// Returns the directory that holds whatever the shape becomes; none when the text does not tell.
pub(crate) fn fixed_directory(shape: &Shape) -> PathBuf {
    let mut path = PathBuf::from("/");
    for segment in &shape.segments {
        match segment {
            ShapeSegment::Known(bytes) => path.push(String::from_utf8_lossy(bytes).as_ref()),
            ShapeSegment::Glob(_) => break,
        }
    }
    path
}
