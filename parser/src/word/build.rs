//! A word while its pieces come in, and its classes once all are there.

use crate::word::{brace, glob};
use crate::{Bytes, Count, Reason, Span, Thin, Word, WordClass};

/// Kind of a segment of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text outside quotes.
    Plain,
    /// Literal text in quotes, or escaped.
    Quoted,
    /// An exact value that splits into words, and may hold patterns.
    Split,
    /// An extended pattern.
    Extended,
    /// Known only to the running shell.
    Unknown(Reason, Count),
    /// The value of a tilde: one word, not known.
    Tilde,
}

/// A piece of a word; its bytes are a range of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub piece: Piece,
    pub start: u32,
    pub end: u32,
}

/// Where a word stands: what is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordRole {
    /// A word of a command, or of the list of a loop: everything is done.
    Argument,
    /// The target of a redirection: as an argument, but splitting makes it an error.
    Target,
    /// The value of an assignment: no braces, splitting or patterns; tildes also behind `:`.
    Value,
    /// A here-string, a subject: no braces, splitting or patterns.
    Single,
}

/// Knowledge about the home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Home {
    /// Exactly this.
    Known(Vec<u8>),
    /// Begins with `/` and holds no blank or pattern: that of the start, which nothing in the text sets.
    Plain,
    /// Begins with `/`.
    Absolute,
    /// The text may set it.
    Unknown,
}

/// A word that is being read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Building {
    pub bytes: Vec<u8>,
    pub segments: Vec<Segment>,
    pub span: Span,
    /// A lone `$` stands outside quotes.
    pub open_dollar: bool,
    /// `$name` stands outside quotes: what braces put behind it may become a part of the name.
    pub bare_name: bool,
}

/// How much brace expansion may still make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BraceBudget {
    pub words: usize,
    pub bytes: usize,
}

/// Result of building a word.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub words: Vec<Word>,
    pub brace_limit: bool,
    pub braces: bool,
}

impl Building {
    pub(crate) fn push(&mut self, piece: Piece, bytes: &[u8]) {
        let start = place(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
        let end = place(self.bytes.len());
        match self.segments.last_mut() {
            Some(last) if last.piece == piece && matches!(piece, Piece::Plain | Piece::Quoted) => {
                last.end = end;
            }
            Some(_) | None => self.segments.push(Segment { piece, start, end }),
        }
    }

    pub(crate) fn unknown(&mut self, reason: Reason, count: Count) {
        self.push(Piece::Unknown(reason, count), b"");
    }

    /// The value if it is exact whatever is done to the word but quote removal.
    pub(crate) fn literal(&self) -> Option<&[u8]> {
        let exact = self
            .segments
            .iter()
            .all(|segment| matches!(segment.piece, Piece::Plain | Piece::Quoted | Piece::Split));
        exact.then_some(self.bytes.as_slice())
    }

    /// The first reason for which the value is not known; arithmetic, which makes numbers, only if it is the only one.
    pub(crate) fn doubt(&self) -> Option<Reason> {
        let reason = |segment: &Segment| match segment.piece {
            Piece::Unknown(reason, _) => Some(reason),
            Piece::Tilde => Some(Reason::Tilde),
            Piece::Plain | Piece::Quoted | Piece::Split | Piece::Extended => None,
        };
        let reasons = || self.segments.iter().filter_map(reason);
        reasons().find(|reason| *reason != Reason::Arithmetic).or_else(|| reasons().next())
    }

    /// The word, if nothing is to be done but to take quotes away; else the same again.
    pub(crate) fn simple(self) -> Result<Word, Building> {
        let simple = self.segments.iter().all(|segment| match segment.piece {
            Piece::Quoted => true,
            Piece::Plain => {
                let text = self.bytes.get(segment.start as usize..segment.end as usize);
                !text.unwrap_or_default().iter().any(|byte| is_active(*byte))
            }
            Piece::Split | Piece::Extended | Piece::Unknown(..) | Piece::Tilde => false,
        });
        if !simple || self.segments.is_empty() {
            return Err(self);
        }
        Ok(Word { span: self.span, class: WordClass::Exact(self.bytes.into()) })
    }

    /// Carries out the expansions of `place` as far as the text alone tells.
    pub(crate) fn finish(
        mut self,
        at: WordRole,
        home: &Home,
        budget: &mut BraceBudget,
    ) -> Finished {
        let span = self.span;
        let mut finished = Finished::default();
        if let [Segment { piece: Piece::Plain, .. }] = self.segments.as_slice()
            && !self.bytes.iter().any(|byte| is_active(*byte))
        {
            finished.words.push(Word { span, class: WordClass::Exact(self.bytes.into()) });
            return finished;
        }
        if self.segments.is_empty() {
            // Nothing but continuations, or an empty value.
            if at != WordRole::Argument || span.start < span.end {
                finished.words.push(Word { span, class: WordClass::Exact(Bytes::EMPTY) });
            }
            return finished;
        }
        if matches!(at, WordRole::Argument | WordRole::Target) && brace::possible(&self) {
            match brace::expand(&self, budget) {
                brace::Expansion::None => {}
                brace::Expansion::Limit => {
                    finished.brace_limit = true;
                    finished.words.push(unknown_word(span, Reason::LimitBrace, Count::Any));
                    return finished;
                }
                brace::Expansion::Words(_) if self.open_dollar || self.bare_name => {
                    finished.braces = true;
                    finished.words.push(unknown_word(span, Reason::Parameter, Count::Any));
                    return finished;
                }
                brace::Expansion::Words(words) => {
                    finished.braces = true;
                    for word in words {
                        word.finish_one(at, home, &mut finished.words);
                    }
                    return finished;
                }
            }
        }
        self.span = span;
        self.finish_one(at, home, &mut finished.words);
        finished
    }

    fn finish_one(mut self, at: WordRole, home: &Home, out: &mut Vec<Word>) {
        self.tildes(at, home);
        let span = self.span;
        if let Some(reason) = self.doubt() {
            out.push(self.unknown_class(at, reason, span));
            return;
        }
        let split = self.segments.iter().any(|segment| segment.piece == Piece::Split);
        match at {
            WordRole::Value | WordRole::Single => {
                out.push(Word { span, class: WordClass::Exact(self.bytes.into()) });
            }
            // Behind a lone `$`, bash leaves the whole word in one piece.
            WordRole::Argument | WordRole::Target if split && self.open_dollar => {
                out.push(unknown_word(span, Reason::Parameter, Count::Any));
            }
            WordRole::Argument | WordRole::Target if split => self.split(out),
            WordRole::Argument | WordRole::Target => {
                let class = match glob::pattern(&self.bytes, &self.segments) {
                    Some(glob) => WordClass::Pattern { glob: glob.into(), may_stay_literal: true },
                    None => WordClass::Exact(self.bytes.into()),
                };
                out.push(Word { span, class });
            }
        }
    }

    fn unknown_class(&self, at: WordRole, reason: Reason, span: Span) -> Word {
        let mut count = Count::One;
        for segment in &self.segments {
            if matches!(segment.piece, Piece::Unknown(_, Count::Any)) {
                count = Count::Any;
            }
        }
        let splits = matches!(at, WordRole::Argument | WordRole::Target);
        if splits && glob::pattern(&self.bytes, &self.segments).is_some() {
            count = Count::Any;
        }
        if splits && self.segments.iter().any(|segment| segment.piece == Piece::Split) {
            count = Count::Any;
        }
        if !splits {
            count = Count::One;
        }
        let known = |segment: &&Segment| {
            matches!(segment.piece, Piece::Plain | Piece::Quoted | Piece::Split)
        };
        let prefix_end = self.segments.iter().take_while(known).last().map_or(0, |last| last.end);
        let suffix_start = self
            .segments
            .iter()
            .rev()
            .take_while(known)
            .last()
            .map_or(self.bytes.len(), |first| first.start as usize);
        let prefix = self.bytes.get(..prefix_end as usize).unwrap_or_default();
        let suffix = self.bytes.get(suffix_start..).unwrap_or_default();
        let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let joined = self.segments.iter().filter(known).any(|segment| {
            let (start, end) = (segment.start as usize, segment.end as usize);
            let inside = start >= prefix_end as usize && end <= suffix_start;
            inside && !self.bytes.get(start..end).unwrap_or_default().iter().all(named)
        });
        // Numbers with letters between them are no number.
        let is_mixed = self.segments.iter().filter(known).any(|segment| {
            let (start, end) = (segment.start as usize, segment.end as usize);
            start >= prefix_end as usize && end <= suffix_start && start < end
        });
        let mixed = reason == Reason::Arithmetic && is_mixed;
        let reason = if mixed { Reason::Substitution } else { reason };
        let (prefix, suffix) = (prefix.to_vec().into(), suffix.to_vec().into());
        Word { span, class: WordClass::Unknown { reason, count, prefix, suffix, joined } }
    }

    /// Replaces tildes at the start, and behind `=` and `:` where those count.
    fn tildes(&mut self, at: WordRole, home: &Home) {
        if !self.bytes.contains(&b'~') {
            return;
        }
        let starts: Vec<usize> = self.tilde_places(at);
        if starts.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.segments);
        let bytes = std::mem::take(&mut self.bytes);
        for segment in old {
            let (start, end) = (segment.start as usize, segment.end as usize);
            let mut from = start;
            let first = starts.partition_point(|tilde| *tilde < start);
            let inside = starts.iter().skip(first).copied().take_while(|tilde| *tilde < end);
            for tilde in inside {
                self.push(segment.piece, bytes.get(from..tilde).unwrap_or_default());
                let rest = bytes.get(tilde + 1..end).unwrap_or_default();
                let stop = rest.iter().position(|byte| matches!(byte, b'/' | b':'));
                let name_end = tilde + 1 + stop.unwrap_or(rest.len());
                match home {
                    Home::Known(home) if name_end == tilde + 1 => self.push(Piece::Quoted, home),
                    Home::Plain | Home::Absolute if name_end == tilde + 1 => {
                        self.push(Piece::Quoted, b"/");
                        self.push(Piece::Tilde, b"");
                    }
                    Home::Known(_) | Home::Plain | Home::Absolute | Home::Unknown => {
                        self.push(Piece::Tilde, b"");
                    }
                }
                from = name_end;
            }
            if from < end || start == end {
                self.push(segment.piece, bytes.get(from..end).unwrap_or_default());
            }
        }
    }

    /// Where a tilde counts: unquoted, at a start, its name unquoted to the next `/`.
    fn tilde_places(&self, at: WordRole) -> Vec<usize> {
        let mut places = Vec::new();
        let mut assignment = at == WordRole::Value;
        // The `=` behind a name at the start of an argument.
        let mut equals = None;
        let mut previous: Option<u8> = None;
        for (number, segment) in self.segments.iter().enumerate() {
            if segment.piece != Piece::Plain {
                previous = Some(0);
                continue;
            }
            let (start, end) = (segment.start as usize, segment.end as usize);
            let text = self.bytes.get(start..end).unwrap_or_default();
            for (offset, byte) in text.iter().enumerate() {
                let begins = match previous {
                    None => true,
                    Some(b'=') => equals.is_some_and(|equals| equals + 1 == start + offset),
                    Some(b':') => assignment,
                    Some(_) => false,
                };
                if *byte == b'=' && number == 0 && at == WordRole::Argument && !assignment {
                    let name = text.get(..offset).unwrap_or_default();
                    let name = name.strip_suffix(b"+").unwrap_or(name);
                    assignment = is_name(name);
                    equals = assignment.then_some(start + offset);
                }
                if *byte == b'~' && begins {
                    let rest = text.get(offset + 1..).unwrap_or_default();
                    let ends = rest.iter().any(|byte| matches!(byte, b'/' | b':'));
                    let last = self.segments.len() == number + 1;
                    // A tilde whose name goes on in quotes stays as it is; doubt says it may not.
                    if ends || last || !rest.is_empty() {
                        places.push(start + offset);
                    }
                }
                previous = Some(*byte);
            }
        }
        places
    }

    /// Splits at blanks that come from values; each part may hold patterns.
    fn split(self, out: &mut Vec<Word>) {
        let mut part = Building { span: self.span, ..Building::default() };
        let mut any = false;
        let flush = |part: &mut Building, any: &mut bool, out: &mut Vec<Word>| {
            if *any {
                let done =
                    std::mem::replace(part, Building { span: part.span, ..Building::default() });
                let class = match glob::pattern(&done.bytes, &done.segments) {
                    Some(glob) => WordClass::Pattern { glob: glob.into(), may_stay_literal: true },
                    None => WordClass::Exact(done.bytes.into()),
                };
                out.push(Word { span: part.span, class });
            }
            *any = false;
        };
        for segment in &self.segments {
            let text =
                self.bytes.get(segment.start as usize..segment.end as usize).unwrap_or_default();
            if segment.piece != Piece::Split {
                part.push(segment.piece, text);
                any = true;
                continue;
            }
            for byte in text {
                if matches!(byte, b' ' | b'\t' | b'\n') {
                    flush(&mut part, &mut any, out);
                } else {
                    part.push(Piece::Plain, &[*byte]);
                    any = true;
                }
            }
        }
        flush(&mut part, &mut any, out);
    }
}

/// Says whether a plain byte may make something else of its word.
pub(crate) fn is_active(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'{' | b'~')
}

fn is_name(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| crate::characters::is_name_start(*byte))
        && text.iter().all(|byte| crate::characters::is_name(*byte))
}

/// Returns a word of which nothing is known.
pub(crate) fn unknown_word(span: Span, reason: Reason, count: Count) -> Word {
    Word {
        span,
        class: WordClass::Unknown {
            reason,
            count,
            prefix: Thin::EMPTY,
            suffix: Thin::EMPTY,
            joined: false,
        },
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
