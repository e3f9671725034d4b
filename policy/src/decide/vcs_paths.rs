//! Where version control keeps its history, by path and by the name that a search is given.

use std::path::Path;

use crate::knowledge::knowledge;
use crate::pattern::path::{Shape, ShapeSegment};
use crate::pattern::tool::NameGlob;

/// Says whether the path is one where history is kept.
pub(super) fn is_kept(path: &Path) -> bool {
    let segments: Vec<&[u8]> = path.iter().skip(1).map(|name| name.as_encoded_bytes()).collect();
    knowledge().kept.places.iter().any(|place| {
        let (names, tree) = names_of(place);
        let ends = |start: usize| tree || start + names.len() == segments.len();
        let mut runs = segments.windows(names.len()).enumerate();
        runs.any(|(start, run)| run.iter().copied().eq(names.iter().copied()) && ends(start))
    }) && !is_ordinary(path)
}

/// Says whether a directory is, or lies in, one that holds such places.
pub(super) fn is_near(path: &Path) -> bool {
    let holder = |name: &[u8]| {
        let places = knowledge().kept.places.iter();
        places.filter_map(|place| place.split('/').next()).any(|first| first.as_bytes() == name)
    };
    path.iter().any(|name| holder(name.as_encoded_bytes()))
}

/// Says whether nobody misses a file of this name.
fn is_ordinary(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    knowledge().kept.ordinary.iter().any(|wanted| NameGlob::new(wanted).matches(&name))
}

/// Says whether what a pattern, or a word with a known beginning, becomes could be a place where history is kept.
/// With `dotted` a wildcard may stand for a dot in front.
pub(super) fn may_be_kept(shape: &Shape, dotted: bool) -> bool {
    let equal = |segment: &ShapeSegment, name: &[u8]| match segment {
        ShapeSegment::Known(bytes) => bytes == name,
        ShapeSegment::Glob(symbols) => may_be(symbols, name, dotted),
    };
    let ordinary = shape.segments.last().is_some_and(|last| match last {
        ShapeSegment::Known(_) => false,
        ShapeSegment::Glob(symbols) => {
            let ends = |wanted: &str| {
                let end = wanted.strip_prefix('*').unwrap_or(wanted).as_bytes();
                let tail = symbols.iter().rev().map_while(|symbol| *symbol);
                tail.take(end.len()).eq(end.iter().rev().copied())
            };
            knowledge().kept.ordinary.iter().any(|wanted| ends(wanted))
        }
    });
    knowledge().kept.places.iter().any(|place| {
        let (names, tree) = names_of(place);
        (0..shape.segments.len()).any(|start| {
            let run = shape.segments.get(start..).unwrap_or_default();
            let pairs = run.iter().zip(&names).all(|(segment, name)| equal(segment, name));
            let whole = run.len() == names.len() || (tree && run.len() > names.len());
            // The path below a known beginning may be deeper than is seen.
            pairs && (whole || (shape.open && run.len() < names.len()))
        })
    }) && !ordinary
}

fn names_of(place: &str) -> (Vec<&[u8]>, bool) {
    let names = place.strip_suffix("/**");
    (names.unwrap_or(place).split('/').map(str::as_bytes).collect(), names.is_some())
}

/// Says whether a segment with unknown stretches could be `name`.
pub(super) fn may_be(symbols: &[Option<u8>], name: &[u8], dotted: bool) -> bool {
    let start: Vec<u8> = symbols.iter().map_while(|symbol| *symbol).collect();
    let end: Vec<u8> = symbols.iter().rev().map_while(|symbol| *symbol).collect();
    let hidden = name.starts_with(b".") && start.is_empty() && !dotted;
    !hidden && name.starts_with(&start) && name.iter().rev().copied().take(end.len()).eq(end)
}

/// Says whether a search for files of this name finds nothing but what nobody misses.
pub(super) fn finds_ordinary(pattern: &str) -> bool {
    knowledge().kept.ordinary.iter().any(|wanted| match wanted.strip_prefix('*') {
        Some(end) => pattern.ends_with(end),
        None => pattern == *wanted,
    })
}

/// One character of a pattern for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symbol {
    /// Any run.
    Any,
    /// Any one.
    One,
    /// A hexadecimal digit.
    Hex,
    Is(u8),
}

/// Says whether a search for names could find one of the names that version control gives to what it keeps. In any
/// case of letters; a pattern with other marks than `*` and `?` could be any.
pub(super) fn may_find_kept(pattern: &str) -> bool {
    let kept =
        |name: &&str| meet(&symbols(pattern), &name.bytes().map(kept_symbol).collect::<Vec<_>>());
    pattern.contains(['[', '\\']) || knowledge().kept.names.iter().any(kept)
}

/// Says whether version control gives this name to what it keeps, in any case of letters.
pub(super) fn is_name(name: &str) -> bool {
    let name: Vec<Symbol> =
        name.bytes().map(|byte| Symbol::Is(byte.to_ascii_lowercase())).collect();
    let kept = knowledge().kept.names.iter();
    kept.map(|kept| kept.bytes().map(kept_symbol).collect::<Vec<_>>()).any(|it| meet(&name, &it))
}

/// Returns the names that version control gives to what it keeps, but for those that are patterns.
pub(super) fn plain_names() -> impl Iterator<Item = &'static str> {
    knowledge().kept.names.iter().copied().filter(|name| !name.contains(['*', '#']))
}

/// Says whether a search for names could find `name`, in any case of letters.
pub(super) fn may_find(pattern: &str, name: &str) -> bool {
    let name: Vec<Symbol> =
        name.bytes().map(|byte| Symbol::Is(byte.to_ascii_lowercase())).collect();
    meet(&symbols(pattern), &name)
}

fn symbols(pattern: &str) -> Vec<Symbol> {
    let symbol = |byte: u8| match byte {
        b'*' => Symbol::Any,
        b'?' => Symbol::One,
        other => Symbol::Is(other.to_ascii_lowercase()),
    };
    pattern.bytes().map(symbol).collect()
}

fn kept_symbol(byte: u8) -> Symbol {
    match byte {
        b'*' => Symbol::Any,
        b'#' => Symbol::Hex,
        other => Symbol::Is(other.to_ascii_lowercase()),
    }
}

/// Says whether there is a name that both patterns match.
fn meet(left: &[Symbol], right: &[Symbol]) -> bool {
    // Says of each beginning of `right` whether it fits the beginning of `left` so far.
    let mut fits = vec![false; right.len() + 1];
    if let Some(first) = fits.first_mut() {
        *first = true;
    }
    skip_any(&mut fits, right);
    for symbol in left {
        let mut next = vec![false; right.len() + 1];
        for (at, fit) in fits.iter().enumerate().filter(|(_, fit)| **fit) {
            debug_assert!(*fit);
            if *symbol == Symbol::Any {
                next.iter_mut().skip(at).for_each(|place| *place = true);
                break;
            }
            let Some(other) = right.get(at) else { continue };
            let target = if *other == Symbol::Any { at } else { at + 1 };
            if agree(*symbol, *other)
                && let Some(place) = next.get_mut(target)
            {
                *place = true;
            }
        }
        skip_any(&mut next, right);
        fits = next;
    }
    fits.last().copied().unwrap_or(true)
}

/// A run in `right` may be empty.
fn skip_any(fits: &mut [bool], right: &[Symbol]) {
    for (at, symbol) in right.iter().enumerate() {
        if *symbol == Symbol::Any
            && fits.get(at) == Some(&true)
            && let Some(next) = fits.get_mut(at + 1)
        {
            *next = true;
        }
    }
}

fn agree(left: Symbol, right: Symbol) -> bool {
    match (left, right) {
        (Symbol::Is(a), Symbol::Is(b)) => a == b,
        (Symbol::Is(byte), Symbol::Hex) | (Symbol::Hex, Symbol::Is(byte)) => {
            byte.is_ascii_hexdigit()
        }
        (Symbol::Any | Symbol::One, _) | (_, Symbol::Any | Symbol::One) => true,
        (Symbol::Hex, Symbol::Hex) => true,
    }
}

#[cfg(test)]
mod tests;
