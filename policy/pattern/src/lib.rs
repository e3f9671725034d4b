//! The one pattern of paths, for rules and for the sandbox: `*`, `?` and `[...]` within a name, `**` across directories.
//!
//! Functions on texts and paths alone. `globset` matches bytes and tells neither a directory above nor what may lie beneath, so the
//! matcher is written here and tested against it on random patterns (`policy/rules/src/pattern/path/tests.rs`).
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod wild;

use std::ffi::OsStr;
use std::path::{Component, Path};

pub use wild::{Wild, fits, verbatim};

/// A pattern of absolute paths; one without any segment covers everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern(Vec<Segment>);

/// One name of a pattern, or any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// `**`: any number of names, none included.
    Across,
    /// A name of these bytes.
    Plain(Vec<u8>),
    /// A name that the pattern fits.
    Wild(Wild),
}

/// Result of matching a path against a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The pattern matches the path or a directory above it.
    Whole,
    /// The pattern matches neither, but may match a path beneath.
    Beneath,
    /// The pattern matches neither the path nor anything beneath.
    No,
}

/// How far a pattern comes with the names of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// For each number of segments whether so many may be used up.
    after: Vec<bool>,
    /// The fewest names with which all segments are used up.
    pub whole_with: Option<usize>,
}

impl Pattern {
    /// Makes a pattern of its segments.
    pub fn new(segments: Vec<Segment>) -> Pattern {
        Pattern(segments)
    }

    /// Reads an absolute path with wildcards, as [`Wild::parse`] reads each name; says what is wrong with one that is invalid.
    pub fn parse(path: &Path) -> Result<Pattern, &'static str> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::Prefix(_) | Component::RootDir => None,
            Component::CurDir | Component::ParentDir => None,
        });
        let segment = |name: &OsStr| {
            let text = name.to_string_lossy();
            match text.as_ref() {
                "**" => Ok(Segment::Across),
                text if Pattern::is(text) => Wild::parse(text).map(Segment::Wild),
                _ => Ok(Segment::Plain(name.as_encoded_bytes().to_vec())),
            }
        };
        names.map(segment).collect::<Result<_, _>>().map(Pattern)
    }

    /// Says whether a path holds a wildcard.
    pub fn is(path: &str) -> bool {
        path.contains(['*', '?', '['])
    }

    /// Returns its segments, from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Matches `path` against the pattern.
    pub fn matches(&self, path: &Path) -> Match {
        let reached = self.reached(path);
        match (reached.whole_with, reached.is_alive()) {
            (Some(_), _) => Match::Whole,
            (None, true) => Match::Beneath,
            (None, false) => Match::No,
        }
    }

    /// Says whether something beneath `path` is covered that is not when it goes by its name beneath `other`.
    pub fn covers_more(&self, path: &Path, other: &Path) -> bool {
        let (one, other) = (self.reached(path), self.reached(other));
        other.whole_with.is_none()
            && one.after.iter().zip(&other.after).any(|(one, other)| *one && !other)
    }

    fn reached(&self, path: &Path) -> Reached {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.as_encoded_bytes()),
            Component::Prefix(_) | Component::RootDir => None,
            Component::CurDir | Component::ParentDir => None,
        });
        self.walk(names, |segment, name| segment.fits(name))
    }

    /// Walks the pattern along `names` until it is used up; `fits` says whether a name is what a segment, which is not
    /// [`Segment::Across`], says.
    pub fn walk<N>(
        &self,
        names: impl IntoIterator<Item = N>,
        fits: impl Fn(&Segment, &N) -> bool,
    ) -> Reached {
        let Pattern(segments) = self;
        let mut after = vec![false; segments.len() + 1];
        self.reach(&mut after, 0);
        let is_whole = |after: &[bool]| after.last() == Some(&true);
        let mut count = 0;
        for name in names {
            if is_whole(&after) {
                break;
            }
            let mut next = vec![false; after.len()];
            for (index, segment) in segments.iter().enumerate() {
                if after.get(index) != Some(&true) {
                    continue;
                }
                match segment {
                    Segment::Across => self.reach(&mut next, index),
                    Segment::Plain(_) | Segment::Wild(_) if fits(segment, &name) => {
                        self.reach(&mut next, index + 1);
                    }
                    Segment::Plain(_) | Segment::Wild(_) => {}
                }
            }
            after = next;
            count += 1;
        }
        Reached { whole_with: is_whole(&after).then_some(count), after }
    }

    /// Marks that `index` segments may be used up, and each `**` behind them.
    fn reach(&self, after: &mut [bool], mut index: usize) {
        while let Some(place) = after.get_mut(index) {
            *place = true;
            if !matches!(self.0.get(index), Some(Segment::Across)) {
                break;
            }
            index += 1;
        }
    }
}

impl Segment {
    /// Says whether `name` is what the segment says; `**` is not a name.
    pub fn fits(&self, name: &[u8]) -> bool {
        match self {
            Segment::Across => false,
            Segment::Plain(plain) => plain == name,
            Segment::Wild(wild) => wild.fits(&String::from_utf8_lossy(name)),
        }
    }
}

impl Reached {
    /// Says whether the names, and further ones beneath, may be covered.
    pub fn is_alive(&self) -> bool {
        self.after.contains(&true)
    }
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
    fn a_walk_tells_with_how_many_names_the_pattern_is_used_up() {
        let walked = |pattern: &str, path: &str| {
            let reached = Pattern::parse(Path::new(pattern)).unwrap().reached(Path::new(path));
            (reached.whole_with, reached.after)
        };
        assert_eq!(walked("/a/b", "/a/b/c"), (Some(2), vec![false, false, true]));
        assert_eq!(walked("/a/**", "/a/b/c"), (Some(1), vec![false, true, true]));
        assert_eq!(walked("/**/b", "/a"), (None, vec![true, true, false]));
        assert_eq!(walked("/**/b", "/a/b/c"), (Some(2), vec![true, true, true]));
        assert_eq!(walked("/a/b", "/b"), (None, vec![false, false, false]));
        assert_eq!(walked("/", "/b"), (Some(0), vec![true]));
    }

    #[test]
    fn more_is_covered_where_the_pattern_comes_further() {
        let more = |pattern: &str, path: &str, other: &str| {
            let pattern = Pattern::parse(Path::new(pattern)).unwrap();
            pattern.covers_more(Path::new(path), Path::new(other))
        };
        assert!(more("/p/a/*.key", "/p/a", "/p/b"));
        assert!(more("/p/a/**", "/p/a", "/p/b"));
        assert!(!more("/p/**/*.key", "/p/a", "/p/b"));
        assert!(!more("/p/a/*.key", "/p/b", "/p/a"));
        assert!(!more("/p/**", "/p/a", "/p/b"));
    }
}
