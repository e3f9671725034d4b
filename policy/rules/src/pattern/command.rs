//! Patterns for simple commands, such as `npm run *` or `git log:*`.
//!
//! A pattern is a list of symbols: bytes, blanks between words, and stars. Words of a command become the
//! same symbols, so that a blank of an allow pattern is a boundary between words and nothing else.

mod lead;

use stockade_parser::{Assignment, Count, Glob, Word, WordClass};

/// A boundary between two words.
const BLANK: u16 = 256;
/// A value that only the running shell knows.
const UNKNOWN: u16 = 257;
/// `*` in a pattern.
const STAR: u16 = 258;
/// No further words, or some that only the running shell knows; a boundary stands before it.
const REST: u16 = 259;

/// Most words in all forms of a command that leave options out; beyond them any rule for the program may strike.
const LONGEST_FORMS: usize = 1 << 15;

/// Bytes that separate commands or redirect when they stand outside quotes.
const SEPARATORS: &[u8] = b";&|<>()\n`";

/// A pattern for the text of one simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    /// The pattern after quote removal.
    unquoted: Vec<u16>,
    /// The pattern as it is typed.
    typed: Vec<u16>,
    /// True if the pattern ended in ` *` or `:*`: it matches the text before that, alone or followed by further words.
    open: bool,
    /// True if the pattern holds a separator outside quotes: it is not a pattern for one command.
    compound: bool,
}

/// How surely a rule strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// The rule does not match.
    No,
    /// A word that is not known before it runs could make it match.
    Possible,
    /// The rule matches.
    Certain,
}

/// A whole text as it is typed, read for patterns.
#[derive(Debug, Clone)]
pub struct TypedText(Vec<u16>);

/// A simple command as deny and ask rules see it: each form that a rule is tried against.
#[derive(Debug, Clone, Default)]
pub struct CommandForms {
    canonical: Vec<Vec<u16>>,
    /// Forms that the command has only if words that are known later turn out so.
    perhaps: Vec<Vec<u16>>,
    raw: Vec<u16>,
}

impl CommandPattern {
    /// Reads a pattern; an empty one, or one of nothing but an ending, is an error.
    pub fn new(text: &str) -> Result<CommandPattern, &'static str> {
        let text = text.trim_matches([' ', '\t']);
        let (text, open) = match text.strip_suffix(":*") {
            Some(before) => (before, true),
            None => match text.strip_suffix('*') {
                Some(before) if before.ends_with([' ', '\t']) => {
                    (before.trim_end_matches([' ', '\t']), true)
                }
                Some(_) | None => (text, false),
            },
        };
        if text.is_empty() {
            return Err("the pattern is empty");
        }
        let (unquoted, compound) = unquote(text);
        Ok(CommandPattern { unquoted, typed: typed(text.as_bytes()), open, compound })
    }

    /// Says whether the pattern has no wildcard at all.
    pub fn is_exact(&self) -> bool {
        !self.open && !self.unquoted.contains(&STAR)
    }

    /// Says whether the pattern can match one simple command.
    pub fn is_compound(&self) -> bool {
        self.compound
    }

    /// Says whether a star stands in the first word.
    pub fn has_open_program(&self) -> bool {
        self.unquoted.iter().take_while(|symbol| **symbol != BLANK).any(|symbol| *symbol == STAR)
    }

    /// Returns how many words at the beginning are spelled out.
    pub fn literal_words(&self) -> usize {
        let words: Vec<&[u16]> = self.unquoted.split(|symbol| *symbol == BLANK).collect();
        words.iter().take_while(|word| !word.contains(&STAR)).count()
    }

    /// Returns the words without quotes, each byte by byte, none for a star.
    pub fn words(&self) -> Vec<Vec<Option<u8>>> {
        let bytes = |word: &[u16]| word.iter().map(|it| u8::try_from(*it).ok()).collect();
        self.unquoted.split(|symbol| *symbol == BLANK).map(bytes).collect()
    }

    /// Says whether the pattern goes on with further words behind those that it spells out.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the first words, as typed and unquoted, under which a command must be looked for;
    /// none when the first word is not spelled out.
    pub fn first_words(&self) -> Option<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for form in [&self.unquoted, &self.typed] {
            let word = form.iter().take_while(|symbol| **symbol != BLANK);
            let bytes: Option<Vec<u8>> = word.map(|symbol| u8::try_from(*symbol).ok()).collect();
            found.push(bytes?);
        }
        found.dedup();
        Some(found)
    }

    /// Returns the text that the pattern spells out, up to a star at its end; none with one elsewhere.
    pub fn spelled(&self) -> Option<String> {
        let bytes: Option<Vec<u8>> = self
            .unquoted
            .iter()
            .map(|symbol| if *symbol == BLANK { Some(b' ') } else { u8::try_from(*symbol).ok() })
            .collect();
        String::from_utf8(bytes?).ok()
    }

    /// Says whether an allow rule with this pattern covers the words, each of which must be known where
    /// the pattern spells it out.
    pub fn covers(&self, words: &[Word]) -> bool {
        !self.compound && self.covers_symbols(&known_symbols(&[], words))
    }

    /// Says whether an exact pattern spells out the assignments as well as the words.
    pub fn covers_with_assignments(&self, assignments: &[Assignment], words: &[Word]) -> bool {
        !self.compound
            && self.is_exact()
            && assignments.iter().all(|assignment| !assignment.array && !assignment.append)
            && self.covers_symbols(&known_symbols(assignments, words))
    }

    fn covers_symbols(&self, symbols: &[u16]) -> bool {
        if matches(&self.unquoted, symbols, Star::Known) {
            return true;
        }
        self.open && matches_open(&self.unquoted, symbols, Star::Known)
    }

    /// Says whether a deny or ask rule with this pattern strikes one of the forms.
    pub fn strikes(&self, forms: &CommandForms) -> Strike {
        if self.strikes_text(&self.typed, &forms.raw) == Strike::Certain {
            return Strike::Certain;
        }
        let mut strongest = Strike::No;
        for form in &forms.canonical {
            strongest = strongest.max(self.strikes_text(&self.unquoted, form));
            if strongest == Strike::Certain {
                return strongest;
            }
        }
        let strikes = |form: &Vec<u16>| self.strikes_text(&self.unquoted, form) != Strike::No;
        match forms.perhaps.iter().any(strikes) {
            true => Strike::Possible,
            false => strongest,
        }
    }

    /// Says whether a deny or ask rule with this pattern matches a whole text as it is typed.
    pub fn strikes_raw(&self, text: &TypedText) -> bool {
        self.strikes_certainly(&self.typed, &text.0)
    }

    fn strikes_certainly(&self, pattern: &[u16], text: &[u16]) -> bool {
        matches(pattern, text, Star::Any) || (self.open && matches_open(pattern, text, Star::Any))
    }

    fn strikes_text(&self, pattern: &[u16], text: &[u16]) -> Strike {
        if self.strikes_certainly(pattern, text) {
            return Strike::Certain;
        }
        if !text.iter().any(is_open) {
            return Strike::No;
        }
        let mut pattern = pattern.to_vec();
        let closed = intersects(&pattern, text);
        if self.open {
            pattern.extend([BLANK, STAR]);
        }
        if closed || (self.open && intersects(&pattern, text)) {
            Strike::Possible
        } else {
            Strike::No
        }
    }
}

impl TypedText {
    /// Reads a text for [`CommandPattern::strikes_raw`].
    pub fn new(text: &[u8]) -> TypedText {
        TypedText(typed_text(text))
    }
}

impl CommandForms {
    /// Returns the forms of one command: words, words with assignments in front, words with the program's base name and
    /// those of which it is a version, each of these without options in front, and the raw text.
    pub fn new(assignments: &[Assignment], words: &[Word], raw: &[u8]) -> CommandForms {
        let mut names = vec![None];
        names.extend(base_name(words).map(Some));
        names.extend(versions_of(words).into_iter().map(Some));
        let mut forms = CommandForms { raw: typed_text(raw), ..CommandForms::default() };
        for name in &names {
            forms.canonical.push(loose_symbols(&[], words, *name));
        }
        if !assignments.is_empty() {
            forms.canonical.push(loose_symbols(assignments, words, None));
        }
        let Some((program, _)) = words.split_first() else { return forms };
        let behind = lead::behind_options(words);
        let room = LONGEST_FORMS / names.len() / words.len().max(1);
        for (start, is_sure) in behind.iter().take(room) {
            let rest = words.get(*start..).unwrap_or_default();
            let into = if *is_sure { &mut forms.canonical } else { &mut forms.perhaps };
            for name in &names {
                into.push(symbols_of(program, rest, *name));
            }
        }
        if behind.len() > room {
            for name in &names {
                let mut any = loose_symbols(&[], std::slice::from_ref(program), *name);
                any.push(REST);
                forms.perhaps.push(any);
            }
        }
        forms
    }

    /// Adds the forms of the same command under another name.
    pub fn add(&mut self, others: CommandForms) {
        self.canonical.extend(others.canonical);
        self.perhaps.extend(others.perhaps);
    }

    /// Returns the first word of each form, none where it is not known.
    pub fn first_words(&self) -> Vec<Option<Vec<u8>>> {
        self.canonical
            .iter()
            .chain(&self.perhaps)
            .chain([&self.raw])
            .map(|form| {
                form.iter()
                    .take_while(|symbol| **symbol != BLANK)
                    .map(|symbol| u8::try_from(*symbol).ok())
                    .collect()
            })
            .collect()
    }
}

/// Returns the part of the program word behind the last `/`, if it has one.
pub fn base_name(words: &[Word]) -> Option<&[u8]> {
    let program = words.first()?.exact()?;
    let slash = program.iter().rposition(|byte| *byte == b'/')?;
    program.get(slash + 1..)
}

/// Returns the programs of which the program is a version, as far as its name tells.
pub fn versions_of(words: &[Word]) -> Vec<&[u8]> {
    let program = base_name(words).or_else(|| words.first()?.exact());
    program.map(stockade_parser::versions_of).unwrap_or_default()
}

fn typed(text: &[u8]) -> Vec<u16> {
    text.iter().map(|byte| if *byte == b'*' { STAR } else { loose(*byte) }).collect()
}

fn typed_text(text: &[u8]) -> Vec<u16> {
    text.iter().map(|byte| loose(*byte)).collect()
}

fn loose(byte: u8) -> u16 {
    if byte == b' ' || byte == b'\t' { BLANK } else { u16::from(byte) }
}

/// Removes quotes; a star stays a wildcard wherever it stands. Says also whether a separator stands
/// outside quotes. A quote that is not closed is an ordinary character.
fn unquote(text: &str) -> (Vec<u16>, bool) {
    let bytes = text.as_bytes();
    let mut symbols = Vec::with_capacity(bytes.len());
    let mut compound = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        at += 1;
        match byte {
            b' ' | b'\t' => {
                if symbols.last() != Some(&BLANK) {
                    symbols.push(BLANK);
                }
            }
            b'\\' => {
                if let Some(next) = bytes.get(at).copied() {
                    symbols.push(wild(next));
                    at += 1;
                } else {
                    symbols.push(u16::from(b'\\'));
                }
            }
            b'\'' | b'"' => {
                let inside = bytes.get(at..).unwrap_or_default();
                match quoted(byte, inside) {
                    Some((content, length)) => {
                        symbols.extend(content);
                        at += length;
                    }
                    None => symbols.push(u16::from(byte)),
                }
            }
            other => {
                compound |= SEPARATORS.contains(&other);
                compound |= other == b'$' && bytes.get(at) == Some(&b'(');
                symbols.push(wild(other));
            }
        }
    }
    (symbols, compound)
}

/// Returns the content of a quoted text that `bytes` begins with, and how many bytes it takes.
fn quoted(quote: u8, bytes: &[u8]) -> Option<(Vec<u16>, usize)> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        if byte == quote {
            return Some((content, at));
        }
        let next = bytes.get(at).copied();
        if quote == b'"' && byte == b'\\' && matches!(next, Some(b'"' | b'\\' | b'$' | b'`')) {
            content.extend(next.map(u16::from));
            at += 1;
        } else {
            content.push(wild(byte));
        }
    }
}

fn wild(byte: u8) -> u16 {
    if byte == b'*' { STAR } else { u16::from(byte) }
}

/// The words as an allow rule sees them: a word that is not known is one symbol that no literal matches.
fn known_symbols(assignments: &[Assignment], words: &[Word]) -> Vec<u16> {
    let mut symbols = Vec::with_capacity(words.len() * 8);
    for assignment in assignments {
        symbols.extend(assignment.name.iter().map(|byte| u16::from(*byte)));
        symbols.push(u16::from(b'='));
        push_known(&mut symbols, &assignment.value);
        symbols.push(BLANK);
    }
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            symbols.push(BLANK);
        }
        push_known(&mut symbols, word);
    }
    symbols
}

fn push_known(symbols: &mut Vec<u16>, word: &Word) {
    match word.exact() {
        Some(bytes) => symbols.extend(bytes.iter().map(|byte| u16::from(*byte))),
        None => symbols.push(UNKNOWN),
    }
}

/// The words as deny and ask rules see them: blanks inside words are like those between them, and what is
/// known about the ends of a word stays.
fn loose_symbols(assignments: &[Assignment], words: &[Word], program: Option<&[u8]>) -> Vec<u16> {
    let mut symbols = Vec::with_capacity(words.len() * 8);
    for assignment in assignments {
        symbols.extend(assignment.name.iter().map(|byte| loose(*byte)));
        symbols.push(u16::from(b'='));
        push_loose(&mut symbols, &assignment.value);
        symbols.push(BLANK);
    }
    let mut joined = true;
    for (index, word) in words.iter().enumerate() {
        let vanishes = may_vanish(word);
        if !joined && !vanishes {
            symbols.push(BLANK);
        }
        joined = false;
        match program {
            Some(base) if index == 0 => symbols.extend(base.iter().map(|byte| loose(*byte))),
            // A first word that may vanish swallows the blank behind it.
            Some(_) | None if vanishes && index == 0 => {
                symbols.push(UNKNOWN);
                joined = true;
            }
            Some(_) | None if vanishes => symbols.push(REST),
            Some(_) | None => push_loose(&mut symbols, word),
        }
    }
    symbols
}

/// Returns the symbols of a command of which words between the program and `rest` are left out.
fn symbols_of(program: &Word, rest: &[Word], name: Option<&[u8]>) -> Vec<u16> {
    let words: Vec<Word> = std::iter::once(program).chain(rest).cloned().collect();
    loose_symbols(&[], &words, name)
}

/// Says whether the word may become no argument at all.
fn may_vanish(word: &Word) -> bool {
    match &word.class {
        WordClass::Exact(_) | WordClass::Unknown { count: Count::One, .. } => false,
        WordClass::Pattern { may_stay_literal, .. } => !may_stay_literal,
        WordClass::Unknown { count: Count::Any, .. } => true,
    }
}

fn push_loose(symbols: &mut Vec<u16>, word: &Word) {
    match &word.class {
        WordClass::Exact(bytes) => symbols.extend(bytes.iter().map(|byte| loose(*byte))),
        WordClass::Unknown { count: Count::One, prefix, suffix, .. } => {
            symbols.extend(prefix.iter().map(|byte| loose(*byte)));
            symbols.push(UNKNOWN);
            symbols.extend(suffix.iter().map(|byte| loose(*byte)));
        }
        WordClass::Unknown { count: Count::Any, .. } => symbols.push(UNKNOWN),
        // The names that match begin and end like the pattern; there may be several.
        WordClass::Pattern { glob, .. } => {
            for piece in glob {
                match piece {
                    Glob::Literal(bytes) => symbols.extend(bytes.iter().map(|byte| loose(*byte))),
                    Glob::Star | Glob::Question | Glob::Other(_) => symbols.push(UNKNOWN),
                }
            }
            symbols.push(UNKNOWN);
        }
    }
}

/// Text that a star may stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    /// Values that are known.
    Known,
    /// Any value.
    Any,
}

/// Matches a whole text.
fn matches(pattern: &[u16], text: &[u16], stars: Star) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let symbol = text.get(t).copied();
        match pattern.get(p).copied() {
            Some(STAR) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(wanted) if Some(wanted) == symbol && wanted != UNKNOWN => {
                p += 1;
                t += 1;
                continue;
            }
            None if symbol.is_none() => return true,
            Some(_) | None => {}
        }
        let Some((at, from)) = star else { return false };
        match text.get(from).copied() {
            Some(UNKNOWN) if stars == Star::Known => return false,
            Some(_) => {
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
            None => return false,
        }
    }
}

/// Matches the pattern against some words at the beginning, whatever the words behind are.
fn matches_open(pattern: &[u16], text: &[u16], stars: Star) -> bool {
    boundaries(text).any(|end| matches(pattern, text.get(..end).unwrap_or_default(), stars))
}

fn boundaries(text: &[u16]) -> impl Iterator<Item = usize> + '_ {
    text.iter()
        .enumerate()
        .filter(|(_, symbol)| **symbol == BLANK || **symbol == REST)
        .map(|(at, _)| at)
}

/// Says whether some text that the symbols could stand for is matched by the pattern.
fn intersects(pattern: &[u16], text: &[u16]) -> bool {
    // reachable[t]: the pattern so far can have consumed the first t symbols of the text.
    let mut reachable = vec![false; text.len() + 1];
    if let Some(first) = reachable.first_mut() {
        *first = true;
    }
    close_over(&mut reachable, text);
    for symbol in pattern {
        let mut next = vec![false; text.len() + 1];
        for (t, reached) in reachable.iter().enumerate() {
            if !reached {
                continue;
            }
            if *symbol == STAR || text.get(t).is_some_and(is_open) {
                mark(&mut next, t);
            }
            if text.get(t) == Some(symbol) {
                mark(&mut next, t + 1);
            }
        }
        if *symbol == STAR {
            let mut on = false;
            for slot in &mut next {
                on |= *slot;
                *slot = on;
            }
        }
        close_over(&mut next, text);
        reachable = next;
    }
    reachable.last() == Some(&true)
}

fn mark(row: &mut [bool], at: usize) {
    if let Some(slot) = row.get_mut(at) {
        *slot = true;
    }
}

/// Says whether the symbol may stand for any text, none included.
fn is_open(symbol: &u16) -> bool {
    *symbol == UNKNOWN || *symbol == REST
}

/// An unknown may be empty: what is reachable before it is reachable behind it.
fn close_over(row: &mut [bool], text: &[u16]) {
    for (t, symbol) in text.iter().enumerate() {
        if is_open(symbol) && row.get(t) == Some(&true) {
            mark(row, t + 1);
        }
    }
}

#[cfg(test)]
mod tests;
