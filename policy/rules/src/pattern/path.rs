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
    Byte(u8),
    Star,
    Question,
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

/// The anchors that only the call knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchors {
    /// Where what is relative begins.
    pub places: Vec<PathBuf>,
    /// What `~` means.
    pub homes: Vec<PathBuf>,
}

/// What is known about a path that the text does not spell out.
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
            return Err("the pattern names no path");
        }
        if text.starts_with('!') {
            return Err("a pattern cannot take back what another one says");
        }
        if text.contains('\0') {
            return Err("a path holds no NUL byte");
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
                Token::Class { negated: false, ranges } => {
                    ranges.iter().all(|(low, high)| low > high)
                }
                Token::Class { .. } | Token::Byte(_) | Token::Star | Token::Question => false,
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
                Some(name) if could_equal(name, wanted) => {}
                Some(_) => return false,
                None => return shape.open,
            }
        }
        let names: Vec<&ShapeSegment> = names.collect();
        self.walk(names.len(), shape.open, |at, segment| {
            names.get(at).is_some_and(|name| match (segment, name) {
                (Segment::Deep, _) => false,
                (_, ShapeSegment::Known(bytes)) => segment_matches(segment, bytes),
                (Segment::Literal(bytes), ShapeSegment::Glob(_)) => could_equal(name, bytes),
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
        // What is meant at any depth is covered by the place around.
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
    let tokens = tokens(part.as_bytes());
    let literal: Option<Vec<u8>> = tokens
        .iter()
        .map(|token| match token {
            Token::Byte(byte) => Some(*byte),
            Token::Star | Token::Question | Token::Class { .. } => None,
        })
        .collect();
    literal.map_or(Segment::Glob(tokens), Segment::Literal)
}

fn tokens(text: &[u8]) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'*' => {
                if found.last() != Some(&Token::Star) {
                    found.push(Token::Star);
                }
            }
            b'?' => found.push(Token::Question),
            b'\\' => {
                let (byte, behind) = rest.split_first().map_or((b'\\', rest), |(b, r)| (*b, r));
                found.push(Token::Byte(byte));
                rest = behind;
            }
            b'[' => match class(rest) {
                Some((token, behind)) => {
                    found.push(token);
                    rest = behind;
                }
                None => found.push(Token::Byte(b'[')),
            },
            other => found.push(Token::Byte(*other)),
        }
    }
    found
}

fn class(text: &[u8]) -> Option<(Token, &[u8])> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut rest = if negated { text.get(1..)? } else { text };
    let mut ranges = Vec::new();
    loop {
        let (first, behind) = rest.split_first()?;
        if *first == b']' && !ranges.is_empty() {
            return Some((Token::Class { negated, ranges }, behind));
        }
        match behind {
            [b'-', end, further @ ..] if *end != b']' => {
                ranges.push((*first, *end));
                rest = further;
            }
            _ => {
                ranges.push((*first, *first));
                rest = behind;
            }
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

fn glob_matches(tokens: &[Token], name: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let byte = name.get(t).copied();
        match (tokens.get(p), byte) {
            (Some(Token::Star), _) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            (Some(token), Some(byte)) if token_matches(token, byte) => {
                p += 1;
                t += 1;
                continue;
            }
            (None, None) => return true,
            (Some(_) | None, _) => {}
        }
        match star {
            Some((at, from)) if from < name.len() => {
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
            Some(_) | None => return false,
        }
    }
}

fn token_matches(token: &Token, byte: u8) -> bool {
    match token {
        Token::Byte(wanted) => *wanted == byte,
        Token::Star | Token::Question => true,
        Token::Class { negated, ranges } => {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&byte)) != *negated
        }
    }
}

fn could_equal(name: &ShapeSegment, wanted: &[u8]) -> bool {
    match name {
        ShapeSegment::Known(bytes) => bytes == wanted,
        ShapeSegment::Glob(pieces) => {
            if wanted.first() == Some(&b'.') && pieces.first() == Some(&None) {
                return false;
            }
            let tokens: Vec<Token> =
                pieces.iter().map(|piece| piece.map_or(Token::Star, Token::Byte)).collect();
            glob_matches(&tokens, wanted)
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

fn glob_text(tokens: &[Token]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        match token {
            Token::Byte(byte @ (b'*' | b'?' | b'[')) => bytes.extend([b'[', *byte, b']']),
            Token::Byte(byte) => bytes.push(*byte),
            // One of single bytes of a longer character has no text, so more is covered.
            Token::Class { ranges, .. } if ranges.iter().any(|(_, last)| !last.is_ascii()) => {
                bytes.push(b'*');
            }
            Token::Star => bytes.push(b'*'),
            Token::Question => bytes.push(b'?'),
            Token::Class { negated, ranges } => {
                bytes.push(b'[');
                if *negated {
                    bytes.push(b'!');
                }
                for (first, last) in ranges {
                    bytes.extend([*first, b'-', *last]);
                }
                bytes.push(b']');
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
mod tests {
    use super::*;

    const ANCHORS: fn() -> Anchors =
        || Anchors { places: vec!["/p/sub".into()], homes: vec!["/h".into()] };

    fn check(text: &str, effect: Decision, matched: &[&str], missed: &[&str]) {
        let pattern = PathPattern::new(text, Path::new("/p"), effect).unwrap();
        for path in matched {
            assert!(pattern.matches(Path::new(path), &ANCHORS()), "{text} matches {path}");
        }
        for path in missed {
            assert!(!pattern.matches(Path::new(path), &ANCHORS()), "{text} misses {path}");
        }
    }

    #[test]
    fn anchors_are_root_home_source_and_working_directory() {
        check("//opt/data/**", Decision::Allow, &["/opt/data/a/b"], &["/opt/data", "/opt/datax"]);
        check("~/notes", Decision::Allow, &["/h/notes", "/h/notes/a"], &["/h/x/notes"]);
        check(
            "/opt/data",
            Decision::Allow,
            &["/p/opt/data/a"],
            &["/opt/data/a", "/p/sub/opt/data"],
        );
        check("a/b", Decision::Allow, &["/p/sub/a/b"], &["/p/a/b", "/p/sub/x/a/b"]);
        check("./a/b", Decision::Allow, &["/p/sub/a/b"], &["/p/a/b"]);
    }

    #[test]
    fn a_bare_name_is_meant_at_any_depth_under_its_anchor() {
        for effect in [Decision::Allow, Decision::Deny] {
            check(
                ".env",
                effect,
                &["/p/sub/.env", "/p/sub/a/.env/x"],
                &["/p/.env", "/p/sub/.envx"],
            );
            check("*.ts", effect, &["/p/sub/a/b.ts"], &["/p/sub/a/b.tsx"]);
        }
    }

    #[test]
    fn a_directory_of_one_segment_is_anchored_in_allow_only() {
        check("src/**", Decision::Allow, &["/p/sub/src/a"], &["/p/sub/x/src/a", "/p/sub/src"]);
        check(
            "src/**",
            Decision::Deny,
            &["/p/sub/src/a", "/p/sub/x/src/a", "/p/sub/src"],
            &["/p/src/a"],
        );
        check("a/src/**", Decision::Deny, &["/p/sub/a/src/x"], &["/p/sub/x/a/src/x"]);
    }

    #[test]
    fn stars_stay_in_a_segment_and_double_stars_cross() {
        check("a/*/c", Decision::Allow, &["/p/sub/a/b/c"], &["/p/sub/a/b/b/c"]);
        check("a/**/c", Decision::Allow, &["/p/sub/a/c", "/p/sub/a/b/b/c"], &["/p/sub/a/b"]);
        check("//**/x[0-9]?", Decision::Deny, &["/q/x1a"], &["/q/xa1"]);
        check("**", Decision::Allow, &["/p/sub/a"], &["/p/a"]);
    }

    #[test]
    fn negation_and_parents_are_refused() {
        for text in ["!a", "a/../b", ""] {
            assert!(PathPattern::new(text, Path::new("/p"), Decision::Deny).is_err(), "{text}");
        }
    }

    #[test]
    fn a_shape_may_match_what_it_could_become() {
        let known = |text: &str| ShapeSegment::Known(text.as_bytes().to_vec());
        let glob = |text: &str| {
            ShapeSegment::Glob(
                text.bytes().map(|b| if b == b'*' { None } else { Some(b) }).collect(),
            )
        };
        let pattern = PathPattern::new(".env", Path::new("/p"), Decision::Deny).unwrap();
        for (last, open, expected) in [
            (glob(".en*"), false, true),
            (glob("*"), false, false),
            (glob("*.c"), false, false),
            (known("a"), true, true),
            (known("a"), false, false),
        ] {
            let shape = Shape { segments: vec![known("p"), known("sub"), last.clone()], open };
            assert_eq!(pattern.may_match(&shape, &ANCHORS()), expected, "{last:?} {open}");
        }
    }

    #[test]
    fn what_is_no_wildcard_in_a_rule_is_none_in_its_text() {
        let anchors = Anchors { places: vec!["/p [1]".into()], homes: vec!["/h*".into()] };
        let text = |rule: &str| {
            let pattern = PathPattern::new(rule, Path::new("/s?"), Decision::Deny).unwrap();
            pattern.absolute(&anchors).concat()
        };
        assert_eq!(text("./a/\\[id\\]"), "/p [[]1]/a/[[]id]");
        assert_eq!(text("~/x"), "/h[*]/x");
        assert_eq!(text("/\\**"), "/s[?]/[*]*");
        assert_eq!(text("//\\*\\*/[^a]?"), "/[*][*]/[!a-a]?");
        assert_eq!(text("//[é]x"), "/*x");
    }

    #[test]
    fn a_text_for_each_place_and_none_for_what_lies_in_another_at_any_depth() {
        let places = ["/p/src", "/p/src", "/p", "/q"].map(PathBuf::from).to_vec();
        let anchors = Anchors { places, homes: Vec::new() };
        let texts = |rule: &str| {
            let pattern = PathPattern::new(rule, Path::new("/s"), Decision::Deny).unwrap();
            pattern.absolute(&anchors)
        };
        assert_eq!(texts("./a/b"), ["/p/src/a/b", "/p/a/b", "/q/a/b"]);
        assert_eq!(texts(".env"), ["/p/**/.env", "/q/**/.env"]);
        assert_eq!(texts("//a"), ["/a"]);
        assert_eq!(texts("~/a"), [] as [&str; 0]);
    }
}
