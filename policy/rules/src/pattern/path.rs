//! Patterns for paths, in the manner of gitignore, with the anchors of the settings files.

use std::path::{Path, PathBuf};

use crate::decision::Decision;

/// A pattern for absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    anchor: Anchor,
    segments: Vec<Segment>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `**`
    Deep,
    Literal(Vec<u8>),
    Glob(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Character(char),
    Star,
    Question,
    Class { negated: bool, ranges: Vec<(char, char)> },
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
            segments.push(Segment::Deep);
        }
        for part in body.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Err("`..` has no meaning in a pattern");
            }
            segments.push(segment(part));
        }
        Ok(PathPattern { anchor, segments, below_only: below && effect == Decision::Allow })
    }

    /// Says whether the pattern stands at the place of its settings file.
    pub fn is_source_anchored(&self) -> bool {
        matches!(self.anchor, Anchor::Source(_))
    }

    /// Says whether a segment asks for a character out of none, such as `[z-a]`.
    pub fn has_empty_class(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Glob(tokens) => tokens.iter().any(|token| match token {
                Token::Class { negated: false, ranges } => is_empty(ranges),
                Token::Class { .. } | Token::Character(_) | Token::Star | Token::Question => false,
            }),
            Segment::Deep | Segment::Literal(_) => false,
        })
    }

    /// Says whether every matched path holds a name with a dot in front that the pattern spells out.
    pub fn names_a_hidden_file(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::Literal(bytes) if bytes.starts_with(b".")))
    }

    /// Says whether the pattern names no place, only what may lie at any depth.
    pub fn is_of_any_depth(&self) -> bool {
        self.segments.first() == Some(&Segment::Deep)
    }

    /// Returns the last segment, if the pattern spells it out.
    pub fn last(&self) -> Option<&[u8]> {
        match self.segments.last() {
            Some(Segment::Literal(bytes)) => Some(bytes),
            Some(Segment::Deep | Segment::Glob(_)) | None => None,
        }
    }

    /// Returns a segment that every matched path holds, if there is one.
    pub fn key(&self) -> Option<&[u8]> {
        let literals = self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(bytes) => Some(bytes.as_slice()),
            Segment::Deep | Segment::Glob(_) => None,
        });
        literals.max_by_key(|bytes| bytes.len())
    }

    /// Says whether an absolute path without `.` and `..` is matched, or lies below what is.
    pub fn matches(&self, path: &Path, anchors: &Anchors) -> bool {
        self.bases(anchors).any(|base| self.matches_from(base, path))
    }

    fn matches_from(&self, base: &Path, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(base) else { return false };
        let names: Vec<&[u8]> = rest.iter().map(|name| name.as_encoded_bytes()).collect();
        self.walk(names.len(), false, |at, segment| {
            names.get(at).is_some_and(|name| segment_matches(segment, name))
        })
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
        self.walk(names.len(), shape.open, |at, segment| {
            names.get(at).is_some_and(|name| match (segment, name) {
                (Segment::Deep, _) => false,
                (_, ShapeSegment::Known(bytes)) => segment_matches(segment, bytes),
                (Segment::Literal(bytes), ShapeSegment::Glob(_)) => name.may_be(bytes),
                (Segment::Glob(_), ShapeSegment::Glob(_)) => true,
            })
        })
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
        for segment in &self.segments {
            if !text.ends_with('/') {
                text.push('/');
            }
            match segment {
                Segment::Deep => text.push_str("**"),
                Segment::Literal(bytes) => {
                    text.push_str(&verbatim(&String::from_utf8_lossy(bytes)))
                }
                Segment::Glob(tokens) => text.push_str(&glob_text(tokens)),
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

    /// Walks pattern and names; true when the pattern is used up at or above the last name. With `open`
    /// it is enough that all names fit.
    fn walk(&self, count: usize, open: bool, fits: impl Fn(usize, &Segment) -> bool) -> bool {
        let mut reached = vec![false; count + 1];
        if let Some(first) = reached.first_mut() {
            *first = true;
        }
        for segment in &self.segments {
            if open && reached.last() == Some(&true) {
                return true;
            }
            let mut next = vec![false; count + 1];
            let mut deep = false;
            for at in 0..=count {
                let here = reached.get(at) == Some(&true);
                if *segment == Segment::Deep {
                    deep |= here;
                    set(&mut next, at, deep);
                } else if here && fits(at, segment) {
                    set(&mut next, at + 1, true);
                }
            }
            reached = next;
        }
        let last = if self.below_only && !open { count } else { count + 1 };
        reached.iter().take(last).any(|here| *here)
    }
}

fn set(row: &mut [bool], at: usize, value: bool) {
    if value && let Some(slot) = row.get_mut(at) {
        *slot = true;
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
        return Segment::Deep;
    }
    if !part.contains(['*', '?', '[', '\\']) {
        return Segment::Literal(part.as_bytes().to_vec());
    }
    let tokens = tokens(part);
    let literal: Option<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Character(character) => Some(*character),
            Token::Star | Token::Question | Token::Class { .. } => None,
        })
        .collect();
    literal.map_or(Segment::Glob(tokens), |text| Segment::Literal(text.into_bytes()))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.chars();
    while let Some(first) = rest.next() {
        found.push(match first {
            '*' if found.last() == Some(&Token::Star) => continue,
            '*' => Token::Star,
            '?' => Token::Question,
            '\\' => Token::Character(rest.next().unwrap_or('\\')),
            '[' => match class(rest.as_str()) {
                Some((token, behind)) => {
                    rest = behind.chars();
                    token
                }
                None => Token::Character('['),
            },
            other => Token::Character(other),
        });
    }
    found
}

fn class(text: &str) -> Option<(Token, &str)> {
    let behind = text.strip_prefix(['!', '^']);
    let (negated, mut rest) = (behind.is_some(), behind.unwrap_or(text).chars());
    let mut ranges = Vec::new();
    loop {
        let first = rest.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some((Token::Class { negated, ranges }, rest.as_str()));
        }
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(end)) if end != ']' => {
                ranges.push((first, end));
                rest = ahead;
            }
            _ => ranges.push((first, first)),
        }
    }
}

fn segment_matches(segment: &Segment, name: &[u8]) -> bool {
    match segment {
        Segment::Deep => false,
        Segment::Literal(bytes) => bytes == name,
        Segment::Glob(tokens) => glob_matches(tokens, name),
    }
}

/// Matches the characters of a name; of a name that is not UTF-8, what is none counts as one unknown character.
fn glob_matches(tokens: &[Token], name: &[u8]) -> bool {
    let name: Vec<char> = String::from_utf8_lossy(name).chars().collect();
    fits(tokens, &name, |token| *token == Token::Star, |token, it| token_matches(token, *it))
}

/// Says whether the pieces of a pattern make up `text`, where a star takes any run.
fn fits<P, T>(
    pieces: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    is: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pieces.get(p), text.get(t)) {
            (Some(piece), _) if is_star(piece) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            (Some(piece), Some(one)) if is(piece, one) => {
                p += 1;
                t += 1;
                continue;
            }
            (None, None) => return true,
            (Some(_) | None, _) => {}
        }
        match star {
            Some((at, from)) if from < text.len() => {
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
            Some(_) | None => return false,
        }
    }
}

fn token_matches(token: &Token, character: char) -> bool {
    match token {
        Token::Character(wanted) => *wanted == character,
        Token::Star | Token::Question => true,
        Token::Class { negated, ranges } => {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
        }
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

/// Returns `text` so that it stands for itself alone in a pattern: each wildcard becomes a class of one character.
pub fn verbatim(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '*' | '?' | '[' => result.extend(['[', character, ']']),
            plain => result.push(plain),
        }
    }
    result
}

/// Returns tokens as the text that the sandbox reads: without escapes, and a wildcard that is none in brackets.
fn glob_text(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Character(one) => text.push_str(&verbatim(one.encode_utf8(&mut [0; 4]))),
            Token::Star => text.push('*'),
            Token::Question => text.push('?'),
            // Nothing is excluded.
            Token::Class { negated: true, ranges } if is_empty(ranges) => text.push('?'),
            Token::Class { negated, ranges } => {
                text.push_str(if *negated { "[!" } else { "[" });
                text.push_str(&class_text(ranges));
                text.push(']');
            }
        }
    }
    text
}

/// Says whether no range of a class holds a character: each ends before it begins.
fn is_empty(ranges: &[(char, char)]) -> bool {
    ranges.iter().all(|(first, last)| first > last)
}

/// Returns the inside of a class: a `]` first, where it ends no class, and a `-` where no character before it makes it a range.
fn class_text(ranges: &[(char, char)]) -> String {
    let kept = |(first, last): &&(char, char)| first <= last || is_empty(ranges);
    let ranges: Vec<(char, char)> = ranges.iter().filter(kept).copied().collect();
    let closes = ranges.first().is_some_and(|(first, _)| *first == ']');
    let dash = if ranges.iter().any(|(first, _)| *first == '-') { "-" } else { "" };
    let mut text = String::from(if closes { "" } else { dash });
    for range in ranges {
        match range {
            (']', ']') => text.push(']'),
            ('-', '-') => {}
            ('-', last) => text.extend(['.', '-', last]),
            (first, last) => text.extend([first, '-', last]),
        }
    }
    text.push_str(if closes { dash } else { "" });
    text
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
