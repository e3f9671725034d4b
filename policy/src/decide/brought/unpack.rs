//! Programs that unpack archives: tar (`tar(1)`, `bsdtar(1)`) and unzip (`unzip(1)`).

use std::path::Path;

use stockade_parser::{SimpleCommand, Word};

use crate::facts::{Bringing, Unpacked};
use crate::paths;

use super::super::allow_cover::program;

/// Letters of tar whose value follows.
const VALUED: &[u8] = b"bCfFgHIKLNTVX";

/// Returns the archive that a command unpacks; none for another program, and where a word is not known before it runs.
pub(super) fn of(command: &SimpleCommand, directory: &Path) -> Option<Vec<Bringing>> {
    let words: Option<Vec<&[u8]>> = command.words.iter().skip(1).map(Word::exact).collect();
    let unpacked = match program(command) {
        b"tar" | b"gtar" | b"bsdtar" => tar(&words?, directory),
        b"unzip" => unzip(&words?, directory),
        _ => None,
    };
    unpacked.map(|it| vec![Bringing::Unpacked(it)])
}

fn tar(words: &[&[u8]], directory: &Path) -> Option<Unpacked> {
    let (mut extracts, mut archive) = (false, None);
    let mut found = Unpacked {
        archive: directory.into(),
        into: directory.into(),
        strip: 0,
        members: Vec::new(),
    };
    let mut words = words.iter().copied().enumerate();
    while let Some((place, word)) = words.next() {
        let mut value = |given: Option<&'_ [u8]>| match given {
            Some(given) => Some(given.to_vec()),
            None => words.next().map(|(_, word)| word.to_vec()),
        };
        if let Some(long) = word.strip_prefix(b"--") {
            let equals = long.iter().position(|byte| *byte == b'=');
            let given = equals.and_then(|at| long.get(at + 1..));
            match long.get(..equals.unwrap_or(long.len()))? {
                b"extract" | b"get" => extracts = true,
                b"file" => archive = Some(value(given)?),
                b"directory" => found.into = paths::written(&value(given)?, Some(&found.into))?,
                b"strip-components" | b"strip" => {
                    found.strip = String::from_utf8(value(given)?).ok()?.parse().ok()?;
                }
                _ => {}
            }
            continue;
        }
        let (letters, is_old) = match word.strip_prefix(b"-") {
            Some(letters) => (letters, false),
            None if place == 0 => (word, true),
            None => {
                found.members.push(word.to_vec());
                continue;
            }
        };
        for (at, letter) in letters.iter().enumerate() {
            extracts |= *letter == b'x';
            if !VALUED.contains(letter) {
                continue;
            }
            let rest = letters.get(at + 1..).filter(|rest| !is_old && !rest.is_empty());
            let text = value(rest)?;
            match letter {
                b'f' => archive = Some(text),
                b'C' => found.into = paths::written(&text, Some(&found.into))?,
                _ => {}
            }
            if !is_old {
                break;
            }
        }
    }
    found.archive = paths::written(&archive?, Some(directory))?;
    extracts.then_some(found)
}

fn unzip(words: &[&[u8]], directory: &Path) -> Option<Unpacked> {
    let mut found = Unpacked {
        archive: directory.into(),
        into: directory.into(),
        strip: 0,
        members: Vec::new(),
    };
    let (mut archive, mut words) = (None, words.iter().copied());
    while let Some(word) = words.next() {
        match word {
            b"-d" => found.into = paths::written(words.next()?, Some(directory))?,
            b"-P" => drop(words.next()?),
            // A name that is left out is a pattern: everything is looked at.
            b"-x" => break,
            [b'-', letters @ ..] if letters.iter().any(|it| b"lptvzZ".contains(it)) => return None,
            [b'-', ..] => {}
            name if archive.is_none() => archive = Some(name),
            member => found.members.push(member.to_vec()),
        }
    }
    if found.members.iter().flatten().any(|byte| b"*?[".contains(byte)) {
        found.members.clear();
    }
    found.archive = paths::written(archive?, Some(directory))?;
    Some(found)
}
