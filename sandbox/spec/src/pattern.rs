//! Patterns of paths: `*`, `?` and `[...]` within a name, `**` across directories.

use std::ffi::OsString;
use std::path::{Component, Path};

/// A pattern of absolute paths; one without any name covers everything.
#[derive(Debug, Clone, Default)]
pub struct Pattern(Vec<Segment>);

/// One name of a pattern, or any number of them.
#[derive(Debug, Clone)]
enum Segment {
    Across,
    Plain(OsString),
    Wild(Wild),
}

/// Result of matching a path against a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Of the path, or of a directory that it lies in.
    Whole,
    /// Of nothing yet, but perhaps of what lies beneath.
    Beneath,
    /// Nothing, here and beneath.
    No,
}

/// A pattern of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wild(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Any text.
    Text,
    /// Any character.
    Any,
    /// One character of these ranges, or none of them.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Character(char),
}

impl Pattern {
    /// Reads a pattern; says what is wrong with one that is none.
    pub fn parse(path: &Path) -> Result<Pattern, &'static str> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::Prefix(_) | Component::RootDir => None,
            Component::CurDir | Component::ParentDir => None,
        });
        let segment = |name: &std::ffi::OsStr| {
            let text = name.to_string_lossy();
            match text.as_ref() {
                "**" => Ok(Segment::Across),
                text if Pattern::is(text) => Wild::parse(text).map(Segment::Wild),
                _ => Ok(Segment::Plain(name.to_owned())),
            }
        };
        names.map(segment).collect::<Result<_, _>>().map(Pattern)
    }

    /// Says whether a path holds a wildcard.
    pub fn is(path: &str) -> bool {
        path.contains(['*', '?', '['])
    }

    /// Says what the pattern says of `path`.
    pub fn matches(&self, path: &Path) -> Match {
        let at = self.reached(path);
        match (at.last() == Some(&true), at.contains(&true)) {
            (true, _) => Match::Whole,
            (false, true) => Match::Beneath,
            (false, false) => Match::No,
        }
    }

    /// Says whether something beneath `path` is covered that is not when it goes by its name beneath `other`.
    pub fn covers_more(&self, path: &Path, other: &Path) -> bool {
        let (one, other) = (self.reached(path), self.reached(other));
        other.last() != Some(&true) && one.iter().zip(&other).any(|(one, other)| *one && !other)
    }

    /// Returns after how many of its segments the pattern may be when `path` is read.
    fn reached(&self, path: &Path) -> Vec<bool> {
        let Pattern(segments) = self;
        // How far it may have come, all at once: `**` goes on and stays.
        let mut at = vec![false; segments.len() + 1];
        let reach = |at: &mut [bool], mut index: usize| {
            while let Some(place) = at.get_mut(index) {
                *place = true;
                if !matches!(segments.get(index), Some(Segment::Across)) {
                    break;
                }
                index += 1;
            }
        };
        reach(&mut at, 0);
        let is_whole = |at: &[bool]| at.last() == Some(&true);
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            if is_whole(&at) {
                break;
            }
            let mut next = vec![false; at.len()];
            for (index, segment) in segments.iter().enumerate() {
                if !at.get(index).copied().unwrap_or(false) {
                    continue;
                }
                match segment {
                    Segment::Across => reach(&mut next, index),
                    Segment::Plain(plain) if plain == name => reach(&mut next, index + 1),
                    Segment::Wild(wild) if wild.fits(&name.to_string_lossy()) => {
                        reach(&mut next, index + 1);
                    }
                    Segment::Plain(_) | Segment::Wild(_) => {}
                }
            }
            at = next;
        }
        at
    }
}

impl Wild {
    /// Reads the pattern of a name.
    pub fn parse(text: &str) -> Result<Wild, &'static str> {
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            pieces.push(match character {
                '*' => Piece::Text,
                '?' => Piece::Any,
                '[' => {
                    let negated = rest.next_if_eq(&'!').is_some();
                    let mut inner = Vec::new();
                    loop {
                        match rest.next() {
                            Some(']') if !inner.is_empty() => break,
                            Some(one) => inner.push(one),
                            None => return Err("a `[` in it has no `]`"),
                        }
                    }
                    Piece::Class { negated, ranges: ranges(&inner)? }
                }
                plain => Piece::Character(plain),
            });
        }
        Ok(Wild(pieces))
    }

    /// Returns the name, if the pattern stands for one alone.
    pub fn name(&self) -> Option<String> {
        let Wild(pieces) = self;
        let one = |piece: &Piece| match piece {
            Piece::Character(own) => Some(*own),
            Piece::Class { negated: false, ranges } => match ranges.as_slice() {
                [(from, to)] if from == to => Some(*from),
                _ => None,
            },
            Piece::Class { .. } | Piece::Text | Piece::Any => None,
        };
        pieces.iter().map(one).collect()
    }

    /// Says whether `name` is what the pattern says.
    pub fn fits(&self, name: &str) -> bool {
        let Wild(pieces) = self;
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at) = (0, 0);
        // The last `*`, and how much it has taken: the least first.
        let mut star: Option<(usize, usize)> = None;
        loop {
            match (pieces.get(piece), name.get(at)) {
                (None, None) => return true,
                (Some(Piece::Text), _) => {
                    star = Some((piece, at));
                    piece += 1;
                }
                (Some(one), Some(character)) if one.is(*character) => {
                    piece += 1;
                    at += 1;
                }
                _ => match star {
                    Some((text, taken)) if taken < name.len() => {
                        star = Some((text, taken + 1));
                        piece = text + 1;
                        at = taken + 1;
                    }
                    Some(_) | None => return false,
                },
            }
        }
    }
}

impl Piece {
    fn is(&self, character: char) -> bool {
        match self {
            Piece::Text => false,
            Piece::Any => true,
            Piece::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&character)) != *negated
            }
            Piece::Character(own) => *own == character,
        }
    }
}

fn ranges(inner: &[char]) -> Result<Vec<(char, char)>, &'static str> {
    let mut ranges = Vec::new();
    let mut rest = inner;
    while let Some((from, after)) = rest.split_first() {
        let (to, after) = match after {
            ['-', to, after @ ..] => (to, after),
            _ => (from, after),
        };
        if from > to {
            return Err("a range in it goes backwards");
        }
        ranges.push((*from, *to));
        rest = after;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, expected: Match) {
        let found = Pattern::parse(Path::new(pattern)).unwrap().matches(Path::new(path));
        assert_eq!(found, expected, "{pattern} {path}");
    }

    #[test]
    fn a_pattern_covers_what_it_names_and_all_beneath() {
        use Match::{Beneath, No, Whole};
        check("/p/*.lock", "/p/a.lock", Whole);
        check("/p/*.lock", "/p/a.lock/inner/file", Whole);
        check("/p/*.lock", "/p/.lock", Whole);
        check("/p/*.lock", "/p/a.lock2", No);
        check("/p/*.lock", "/p/d/a.lock", No);
        check("/p/*.lock", "/p", Beneath);
        check("/p/**/*.lock", "/p/a.lock", Whole);
        check("/p/**/*.lock", "/p/d/e/a.lock", Whole);
        check("/p/**/*.lock", "/p/d/e", Beneath);
        check("/p/**/*.lock", "/q/a.lock", No);
        check("/p/**/kept/*.c", "/p/kept/d/kept/x.c", Whole);
        check("/p/**/kept/*.c", "/p/kept/d", Beneath);
        check("/p/**", "/p", Whole);
        check("/p/gen?/[a-c]*", "/p/gen1/bee", Whole);
        check("/p/gen?/[!a-c]*", "/p/gen1/bee", No);
        check("/p/gen?/[!a-c]*", "/p/gen12/x", No);
    }

    #[test]
    fn names_fit_in_whatever_way_a_star_can_be_filled() {
        let fits = |wild: &str, name: &str| Wild::parse(wild).unwrap().fits(name);
        for (wild, name) in [
            ("*", ""),
            ("a*b*a*b", "abab"),
            ("*b*a", "bcbaa"),
            ("a*", "a\nb"),
            ("ssh_host_*_key", "ssh_host_x_key"),
            ("é*", "é*"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("**a", "ba"),
        ] {
            assert!(fits(wild, name), "{wild} {name}");
        }
        for (wild, name) in
            [("a*a", "a"), ("?", ""), ("?", "ab"), ("*b*a", "ab"), ("[!x]", "x"), ("", "a")]
        {
            assert!(!fits(wild, name), "{wild} {name}");
        }
        // Many stars against a long name take no time without end.
        assert!(!fits(&"*a".repeat(200), &"a".repeat(199)));
        let name = |wild: &str| Wild::parse(wild).unwrap().name();
        assert_eq!(name("a[[]b][*]").as_deref(), Some("a[b]*"));
        assert_eq!((name("[ab]"), name("[!a]"), name("a?"), name("*")), (None, None, None, None));
        for wild in ["[", "[a", "[]", "[z-a]"] {
            assert!(Wild::parse(wild).is_err(), "{wild}");
        }
    }
}
