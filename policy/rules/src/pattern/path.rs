//! Patterns for paths, in the manner of gitignore, with the anchors of the settings files.

use std::path::{Path, PathBuf};

use stockade_pattern::{Pattern, Reached, Segment, Wild, fits};

pub use stockade_pattern::verbatim;

use crate::decision::Decision;

/// A pattern for absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    anchor: Anchor,
    /// The names behind the anchor.
    pattern: Pattern,
    /// The directory itself does not count, only what is below.
    below_only: bool,
}

/// Where a pattern begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anchor {
    /// The root of the file system.
    Root,
    /// A home directory.
    Home,
    /// The place that belongs to the settings file.
    Source(PathBuf),
    /// The working directory, for what refuses or asks the project as well.
    Cwd,
}

/// The anchors that only the call knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchors {
    /// Where what is relative begins.
    pub places: Vec<PathBuf>,
    /// Home directories that `~` stands for.
    pub homes: Vec<PathBuf>,
}

/// Known parts of a path that the text does not spell out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The segments from the root.
    pub segments: Vec<ShapeSegment>,
    /// Anything may follow, further segments included.
    pub open: bool,
}

/// One segment of a [`Shape`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShapeSegment {
    /// These bytes.
    Known(Vec<u8>),
    /// Bytes, with `None` for any run of bytes; a leading `None` makes no leading dot.
    Glob(Vec<Option<u8>>),
}

impl PathPattern {
    /// Reads a pattern of a rule with the given effect from a settings file anchored at `source`.
    pub fn new(text: &str, source: &Path, effect: Decision) -> Result<PathPattern, &'static str> {
        if text.is_empty() {
            return Err("the pattern is empty");
        }
        if text.starts_with('!') {
            return Err("a pattern cannot negate another one");
        }
        if text.contains('\0') {
            return Err("a path cannot contain a NUL byte");
        }
        let (anchor, rest) = anchored(text, source);
        let free = anchor == Anchor::Cwd;
        let trimmed = rest.trim_end_matches('/');
        let (body, below) = match trimmed.strip_suffix("/**") {
            Some(body) => (body, true),
            None if trimmed == "**" => ("", true),
            None => (trimmed, rest.ends_with('/')),
        };
        let directory_alone = below && trimmed.ends_with("/**");
        let single = !body.contains('/');
        // A bare name is meant at any depth; `name/**` only where it refuses.
        let any_depth =
            free && single && !body.is_empty() && (!directory_alone || effect != Decision::Allow);
        let mut segments: Vec<Segment> = Vec::new();
        if any_depth {
            segments.push(Segment::Across);
        }
        for part in body.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Err("`..` has no meaning in a pattern");
            }
            segments.push(segment(part));
        }
        let pattern = Pattern::new(segments);
        Ok(PathPattern { anchor, pattern, below_only: below && effect == Decision::Allow })
    }

    /// Says whether the pattern stands at the place of its settings file.
    pub fn is_source_anchored(&self) -> bool {
        matches!(self.anchor, Anchor::Source(_))
    }

    /// Says whether a segment asks for a character out of none, such as `[z-a]`.
    pub fn has_empty_class(&self) -> bool {
        self.pattern.segments().iter().any(|segment| match segment {
            Segment::Wild(wild) => wild.has_empty_class(),
            Segment::Across | Segment::Plain(_) => false,
        })
    }

    /// Says whether every matched path holds a name with a dot in front that the pattern spells out.
    pub fn names_a_hidden_file(&self) -> bool {
        self.plain().any(|bytes| bytes.starts_with(b"."))
    }

    /// Says whether the pattern names no place, only what may lie at any depth.
    pub fn is_of_any_depth(&self) -> bool {
        self.pattern.segments().first() == Some(&Segment::Across)
    }

    /// Returns the last segment, if the pattern spells it out.
    pub fn last(&self) -> Option<&[u8]> {
        match self.pattern.segments().last() {
            Some(Segment::Plain(bytes)) => Some(bytes),
            Some(Segment::Across | Segment::Wild(_)) | None => None,
        }
    }

    /// Returns a segment that every matched path holds, if there is one.
    pub fn key(&self) -> Option<&[u8]> {
        self.plain().max_by_key(|bytes| bytes.len())
    }

    /// Returns the segments that the pattern spells out.
    fn plain(&self) -> impl Iterator<Item = &[u8]> {
        self.pattern.segments().iter().filter_map(|segment| match segment {
            Segment::Plain(bytes) => Some(bytes.as_slice()),
            Segment::Across | Segment::Wild(_) => None,
        })
    }

    /// Says whether an absolute path without `.` and `..` is matched, or lies below what is.
    pub fn matches(&self, path: &Path, anchors: &Anchors) -> bool {
        self.bases(anchors).any(|base| self.matches_from(base, path))
    }

    fn matches_from(&self, base: &Path, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(base) else { return false };
        let names: Vec<&[u8]> = rest.iter().map(|name| name.as_encoded_bytes()).collect();
        let count = names.len();
        self.is_whole(&self.pattern.walk(names, |segment, name| segment.fits(name)), count)
    }

    /// Says whether a walk along so many names used the pattern up where it counts.
    fn is_whole(&self, reached: &Reached, count: usize) -> bool {
        reached.whole_with.is_some_and(|with| !self.below_only || with < count)
    }

    /// Says whether a path of this shape could be matched.
    pub fn may_match(&self, shape: &Shape, anchors: &Anchors) -> bool {
        self.bases(anchors).any(|base| self.may_match_from(base, shape))
    }

    fn may_match_from(&self, base: &Path, shape: &Shape) -> bool {
        let base: Vec<&[u8]> = names_of(base);
        let mut names = shape.segments.iter();
        for wanted in &base {
            match names.next() {
                Some(name) if name.may_be(wanted) => {}
                Some(_) => return false,
                None => return shape.open,
            }
        }
        let names: Vec<&ShapeSegment> = names.collect();
        let count = names.len();
        let reached = self.pattern.walk(names, |segment, name| match (segment, name) {
            (_, ShapeSegment::Known(bytes)) => segment.fits(bytes),
            (Segment::Across, ShapeSegment::Glob(_)) => false,
            (Segment::Plain(bytes), ShapeSegment::Glob(_)) => name.may_be(bytes),
            (Segment::Wild(_), ShapeSegment::Glob(_)) => true,
        });
        // With more names to come it is enough that all that are known fit.
        if shape.open { reached.is_alive() } else { self.is_whole(&reached, count) }
    }

    /// Returns the pattern as one absolute text for each place at which it begins, in which nothing but its wildcards is
    /// one.
    pub fn absolute(&self, anchors: &Anchors) -> Vec<String> {
        let bases: Vec<&Path> = self.bases(anchors).collect();
        let is_new = |(at, base): &(usize, &&Path)| !bases.iter().take(*at).any(|it| it == *base);
        let covers = |other: &Path, base: &Path| other != base && base.starts_with(other);
        // A pattern for any depth is covered by the directory around it.
        let is_covered =
            |base: &Path| self.is_of_any_depth() && bases.iter().any(|other| covers(other, base));
        let bases = bases.iter().enumerate().filter(is_new).map(|(_, base)| *base);
        bases.filter(|base| !is_covered(base)).map(|base| self.absolute_from(base)).collect()
    }

    fn absolute_from(&self, base: &Path) -> String {
        let mut text = verbatim(&base.to_string_lossy());
        for segment in self.pattern.segments() {
            if !text.ends_with('/') {
                text.push('/');
            }
            match segment {
                Segment::Across => text.push_str("**"),
                Segment::Plain(bytes) => text.push_str(&verbatim(&String::from_utf8_lossy(bytes))),
                Segment::Wild(wild) => text.push_str(&wild.text()),
            }
        }
        text
    }

    fn bases<'a>(&'a self, anchors: &'a Anchors) -> impl Iterator<Item = &'a Path> {
        let (one, many): (Option<&Path>, &[PathBuf]) = match &self.anchor {
            Anchor::Root => (Some(Path::new("/")), &[]),
            Anchor::Source(directory) => (Some(directory), &[]),
            Anchor::Home => (None, &anchors.homes),
            Anchor::Cwd => (None, &anchors.places),
        };
        one.into_iter().chain(many.iter().map(PathBuf::as_path))
    }
}

fn anchored<'a>(text: &'a str, source: &Path) -> (Anchor, &'a str) {
    if let Some(rest) = text.strip_prefix("//") {
        return (Anchor::Root, rest);
    }
    if let Some(rest) = text.strip_prefix("~/") {
        return (Anchor::Home, rest);
    }
    if text == "~" {
        return (Anchor::Home, "");
    }
    if let Some(rest) = text.strip_prefix('/') {
        return (Anchor::Source(source.to_owned()), rest);
    }
    (Anchor::Cwd, text.strip_prefix("./").unwrap_or(text))
}

fn segment(part: &str) -> Segment {
    if part == "**" {
        return Segment::Across;
    }
    if !part.contains(['*', '?', '[', '\\']) {
        return Segment::Plain(part.as_bytes().to_vec());
    }
    let wild = Wild::of_rule(part);
    match wild.literal() {
        Some(text) => Segment::Plain(text.into_bytes()),
        None => Segment::Wild(wild),
    }
}

impl ShapeSegment {
    /// Says whether the segment may stand for `name`.
    pub fn may_be(&self, name: &[u8]) -> bool {
        match self {
            ShapeSegment::Known(bytes) => bytes == name,
            ShapeSegment::Glob(pieces) => {
                let hidden = name.first() == Some(&b'.') && pieces.first() == Some(&None);
                !hidden && fits(pieces, name, Option::is_none, |piece, byte| *piece == Some(*byte))
            }
        }
    }
}

fn names_of(path: &Path) -> Vec<&[u8]> {
    path.components()
        .filter_map(|component| match component {
            std::path::Component::Normal(name) => Some(name.as_encoded_bytes()),
            std::path::Component::Prefix(_)
            | std::path::Component::RootDir
            | std::path::Component::CurDir
            | std::path::Component::ParentDir => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
