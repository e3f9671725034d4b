//! Words read with an option grammar: which are options, which their values, which operands.

use crate::{Count, Glob, Reason, Thin, Word, WordClass};
use stockade_programs::row::{Body, Danger, OptionRow, Slot, Style, Takes};

/// A word of the command, or a part of one, and the index of the word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    /// The value.
    pub word: Word,
    /// Index into the words of the command.
    pub index: u32,
}

/// An option that is present.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    /// Its row.
    pub option: &'a OptionRow,
    /// Its values.
    pub values: Vec<Argument>,
    /// Index of the word in which it stands.
    pub index: u32,
    /// True if the option was switched off: `+x` of a shell.
    pub off: bool,
}

impl Seen<'_> {
    /// Says whether it is the option `name`; `+x` only if it was switched off.
    pub(crate) fn is(&self, name: &str) -> bool {
        match name.strip_prefix('+') {
            Some(letter) => {
                self.off
                    && self.option.names.iter().any(|own| own.strip_prefix('-') == Some(letter))
            }
            None => self.option.names.iter().any(|own| own == name),
        }
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// An option that the row does not know.
    UnknownOption(u32, String),
    /// A word that could be an option, or become several words.
    Dynamic(Argument),
    /// Text to be split that is not plain.
    Split(u32),
}

/// Reads the words of one command or sub-command from left to right.
pub(crate) struct Scanner<'a> {
    body: &'a Body,
    arguments: Vec<Argument>,
    at: usize,
    /// `--` was seen.
    ended: bool,
    /// The options so far.
    pub seen: Vec<Seen<'a>>,
    /// Words and options that were not understood so far.
    pub troubles: Vec<Trouble>,
}

/// Kinds of a word, by its beginning.
enum Shape {
    Operand,
    End,
    Long(Vec<u8>, Option<Word>),
    Cluster(Vec<u8>, Option<Word>),
    Dynamic,
}

/// Letters of one word that are read as options; more are not understood.
const MOST_LETTERS: usize = 256;

impl<'a> Scanner<'a> {
    /// Begins in front of `arguments`.
    pub(crate) fn new(body: &'a Body, arguments: Vec<Argument>) -> Scanner<'a> {
        let (seen, troubles) = (Vec::new(), Vec::new());
        Scanner { body, arguments, at: 0, ended: false, seen, troubles }
    }

    /// Returns the next word without stepping over it.
    pub(crate) fn peek(&self) -> Option<&Argument> {
        self.arguments.get(self.at)
    }

    /// Steps over the next word.
    pub(crate) fn next(&mut self) -> Option<Argument> {
        let argument = self.arguments.get(self.at).cloned()?;
        self.at += 1;
        Some(argument)
    }

    /// Returns how many words are left.
    pub(crate) fn left(&self) -> usize {
        self.arguments.len().saturating_sub(self.at)
    }

    /// Returns all words that are left.
    pub(crate) fn rest(&mut self) -> Vec<Argument> {
        let rest = self.arguments.split_off(self.at.min(self.arguments.len()));
        self.at = self.arguments.len();
        rest
    }

    /// Steps over options; with a grammar that allows it, over those behind operands too.
    pub(crate) fn options(&mut self) {
        let permute = self.body.grammar.permute && self.body.commands.is_empty();
        // With `permute` the operands so far are moved to the front.
        let mut operands = 0;
        if self.body.grammar.style == Style::Tar && self.at == 0 {
            self.bundle();
        }
        let no_options = matches!(self.body.grammar.style, Style::None | Style::Test);
        while !self.ended && !no_options {
            let Some(argument) = self.next() else { break };
            match self.shape(&argument.word) {
                Shape::End => self.ended = true,
                Shape::Long(name, value) => self.long(&name, value, &argument),
                Shape::Cluster(letters, value) => self.cluster(&letters, value, &argument),
                shape @ (Shape::Operand | Shape::Dynamic) => {
                    if matches!(shape, Shape::Dynamic) {
                        self.troubles.push(Trouble::Dynamic(argument.clone()));
                    }
                    if !permute {
                        self.at -= 1;
                        return;
                    }
                    self.arguments.swap(operands, self.at - 1);
                    operands += 1;
                }
            }
        }
        if permute {
            self.arguments.drain(operands..self.at);
            self.at = 0;
        }
    }

    fn shape(&self, word: &Word) -> Shape {
        let plus = self.body.grammar.style == Style::Shell;
        let Some((known, rest)) = known_part(word) else {
            let may = word.may_start_with(b"-") || (plus && word.may_start_with(b"+"));
            return if may { Shape::Dynamic } else { Shape::Operand };
        };
        match (known, &rest) {
            (b"--", None) => Shape::End,
            (b"--end-of-options", None) if self.body.grammar.end_of_options => Shape::End,
            (b"-", None) if self.named("-").is_none() => {
                if plus {
                    Shape::End
                } else {
                    Shape::Operand
                }
            }
            (b"-", None) => Shape::Long(b"-".to_vec(), None),
            (b"" | b"-" | b"--", Some(_)) => Shape::Dynamic,
            (known, _) if known.starts_with(b"--") => self.long_shape(known, rest),
            (known, _) if known.starts_with(b"-") => match self.body.grammar.style {
                Style::Single => self.long_shape(known, rest),
                Style::Shell if rest.is_none() && self.named_bytes(&doubled(known)).is_some() => {
                    Shape::Long(doubled(known), None)
                }
                Style::Shell if rest.is_some() => Shape::Dynamic,
                // An option of several letters behind one dash.
                Style::Dashes
                    if rest.is_none() && known.len() > 2 && self.named_bytes(known).is_some() =>
                {
                    Shape::Long(known.to_vec(), None)
                }
                Style::Dashes
                | Style::Tar
                | Style::Shell
                | Style::Find
                | Style::Test
                | Style::None => Shape::Cluster(known.get(1..).unwrap_or_default().to_vec(), rest),
            },
            (known, None) if plus && known.starts_with(b"+") => {
                Shape::Cluster(known.get(1..).unwrap_or_default().to_vec(), None)
            }
            (known, Some(_)) if plus && known.starts_with(b"+") => Shape::Dynamic,
            _ => Shape::Operand,
        }
    }

    fn long_shape(&self, known: &[u8], rest: Option<Word>) -> Shape {
        match (known.iter().position(|byte| *byte == b'='), rest) {
            (Some(at), rest) => {
                let value = known.get(at + 1..).unwrap_or_default();
                let value = join(value, rest);
                Shape::Long(known.get(..at).unwrap_or_default().to_vec(), Some(value))
            }
            (None, None) => Shape::Long(known.to_vec(), None),
            (None, Some(_)) => Shape::Dynamic,
        }
    }

    fn named(&self, name: &str) -> Option<&'a OptionRow> {
        let options = self.body.options.iter();
        options.map(AsRef::as_ref).find(|option| option.names.iter().any(|known| known == name))
    }

    fn named_bytes(&self, name: &[u8]) -> Option<&'a OptionRow> {
        std::str::from_utf8(name).ok().and_then(|name| self.named(name))
    }

    /// Finds a long option by its name or an unambiguous beginning of it.
    fn find_long(&self, name: &[u8]) -> Option<&'a OptionRow> {
        if let Some(option) = self.named_bytes(name) {
            return Some(option);
        }
        if self.body.grammar.style == Style::Single {
            // Go and X tools read one dash and two alike.
            let other = match name.strip_prefix(b"--") {
                Some(bare) => [b"-", bare].concat(),
                None => doubled(name),
            };
            return self.named_bytes(&other);
        }
        if !self.body.grammar.abbrev || name.len() < 3 {
            return None;
        }
        let mut candidates =
            self.body.options.iter().filter(|option| {
                option.names.iter().any(|known| known.as_bytes().starts_with(name))
            });
        match (candidates.next(), candidates.next()) {
            (Some(option), None) => Some(option),
            _ => None,
        }
    }

    fn long(&mut self, name: &[u8], value: Option<Word>, argument: &Argument) {
        let Some(option) = self.find_long(name) else {
            self.unknown(argument.index, &String::from_utf8_lossy(name));
            return;
        };
        match (option.takes, value) {
            (Takes::Nothing, Some(_)) => {
                self.unknown(argument.index, &String::from_utf8_lossy(name));
            }
            (Takes::Nothing | Takes::Optional, None) => self.see(option, Vec::new(), argument),
            (Takes::Values | Takes::Optional, Some(word)) => {
                let first = spanned(Argument { word, index: argument.index }, argument);
                self.values(option, Some(first), argument);
            }
            (Takes::Values, None) => self.values(option, None, argument),
        }
    }

    /// Reads short options; `tail` is the part of the word whose value is not known.
    fn cluster(&mut self, letters: &[u8], tail: Option<Word>, argument: &Argument) {
        let separate = self.body.grammar.style == Style::Shell;
        let mut rest = letters;
        while let Some((letter, behind)) = rest.split_first() {
            rest = behind;
            if letters.len() - rest.len() > MOST_LETTERS {
                return self.unknown(argument.index, "too many letters");
            }
            if self.body.grammar.number && letter.is_ascii_digit() {
                continue;
            }
            let name = [b'-', *letter];
            let Some(option) = self.named_bytes(&name) else {
                self.unknown(argument.index, &format!("-{}", letter.escape_ascii()));
                return;
            };
            match option.takes {
                Takes::Nothing => {
                    self.see(option, Vec::new(), argument);
                }
                Takes::Values if separate => self.values(option, None, argument),
                Takes::Values | Takes::Optional => {
                    let many = tail.as_ref().is_some_and(is_many);
                    let needed = rest.is_empty() && tail.is_some() && option.takes == Takes::Values;
                    if needed || many {
                        // An empty value would make the next word the value, and several words more than it.
                        self.troubles.push(Trouble::Dynamic(argument.clone()));
                    }
                    let attached = (!rest.is_empty() || tail.is_some())
                        .then(|| Argument { word: join(rest, tail), index: argument.index })
                        .map(|first| spanned(first, argument));
                    if option.takes == Takes::Optional && attached.is_none() {
                        return self.see(option, Vec::new(), argument);
                    }
                    return self.values(option, attached, argument);
                }
            }
        }
        if tail.is_some() {
            self.troubles.push(Trouble::Dynamic(argument.clone()));
        }
    }

    /// Takes the values of an option: `first` if it is attached, the others from the words that follow.
    fn values(&mut self, option: &'a OptionRow, first: Option<Argument>, argument: &Argument) {
        let mut values: Vec<Argument> = first.into_iter().collect();
        if option.slots.first().is_some_and(|slot| slot.takes_rest() || *slot == Slot::CommandUntil)
        {
            values.extend(self.until_semicolon());
            self.see(option, values, argument);
            return;
        }
        while values.len() < option.slots.len() {
            let Some(value) = self.next() else {
                self.unknown(argument.index, "a missing value");
                break;
            };
            if is_many(&value.word) {
                self.troubles.push(Trouble::Dynamic(value.clone()));
            }
            values.push(value);
        }
        if option.slots.contains(&Slot::Split) {
            self.split(&values, argument.index);
        }
        self.see(option, values, argument);
    }

    fn until_semicolon(&mut self) -> Vec<Argument> {
        let mut words = Vec::new();
        while let Some(argument) = self.next() {
            if argument.word.exact() == Some(b";") {
                break;
            }
            words.push(argument);
        }
        words
    }

    fn see(&mut self, option: &'a OptionRow, values: Vec<Argument>, argument: &Argument) {
        self.ended |= option.stop;
        let off = self.body.grammar.style == Style::Shell
            && argument.word.exact().is_some_and(|word| word.starts_with(b"+"));
        self.seen.push(Seen { option, values, index: argument.index, off });
    }

    fn unknown(&mut self, index: u32, name: &str) {
        self.troubles.push(Trouble::UnknownOption(index, name.to_owned()));
    }

    /// Reads the first word of tar when it has no dash: letters, whose values are the words behind.
    fn bundle(&mut self) {
        let Some(argument) = self.peek().cloned() else { return };
        let Some(letters) = argument.word.exact().map(<[u8]>::to_vec) else { return };
        if letters.is_empty() || letters.starts_with(b"-") {
            return;
        }
        self.at += 1;
        if letters.len() > MOST_LETTERS {
            return self.unknown(argument.index, "too many letters");
        }
        for letter in letters {
            let name = [b'-', letter];
            match self.named_bytes(&name) {
                Some(option) if option.takes == Takes::Values => {
                    self.values(option, None, &argument);
                }
                Some(option) => self.see(option, Vec::new(), &argument),
                None => self.unknown(argument.index, &format!("{}", letter.escape_ascii())),
            }
        }
    }

    /// Puts the words of a text to be split (`env -S`) in front of the words that are left.
    fn split(&mut self, values: &[Argument], index: u32) {
        let words = values.first().and_then(|value| value.word.exact()).and_then(split_plain);
        let Some(words) = words else {
            self.troubles.push(Trouble::Split(index));
            return;
        };
        let span = values.first().map(|value| value.word.span).unwrap_or_default();
        let arguments =
            words.into_iter().map(|bytes| Argument { word: Word::literal(span, bytes), index });
        self.arguments.splice(self.at..self.at, arguments);
    }
}

/// Says whether a word may become none, or more than one argument.
pub(crate) fn is_many(word: &Word) -> bool {
    match word.class {
        WordClass::Exact(_) | WordClass::Unknown { count: Count::One, .. } => false,
        WordClass::Pattern { .. } | WordClass::Unknown { count: Count::Any, .. } => true,
    }
}

/// Returns the bytes with which each argument made from `word` begins, and the part behind them if it is not known.
fn known_part(word: &Word) -> Option<(&[u8], Option<Word>)> {
    match &word.class {
        WordClass::Exact(bytes) => Some((bytes, None)),
        WordClass::Unknown { count: Count::Any, .. } => None,
        WordClass::Unknown { reason, count: Count::One, prefix, suffix, joined } => {
            let class = WordClass::Unknown {
                reason: *reason,
                count: Count::One,
                prefix: Thin::EMPTY,
                suffix: suffix.clone(),
                joined: *joined,
            };
            Some((prefix, Some(Word { span: word.span, class })))
        }
        WordClass::Pattern { glob, may_stay_literal } => {
            let Some((Glob::Literal(first), rest)) = glob.split_first() else { return None };
            let class = WordClass::Pattern {
                glob: rest.to_vec().into(),
                may_stay_literal: *may_stay_literal,
            };
            Some((first, Some(Word { span: word.span, class })))
        }
    }
}

/// Returns the word made of `known` and the part behind it.
fn join(known: &[u8], rest: Option<Word>) -> Word {
    match rest {
        None => Word::literal(crate::Span::default(), known),
        Some(Word { span, class }) => {
            let class = match class {
                WordClass::Exact(bytes) => WordClass::Exact([known, &*bytes].concat().into()),
                WordClass::Unknown { reason, count, prefix, suffix, joined } => {
                    let prefix = [known, &*prefix].concat().into();
                    WordClass::Unknown { reason, count, prefix, suffix, joined }
                }
                WordClass::Pattern { glob, may_stay_literal } if known.is_empty() => {
                    WordClass::Pattern { glob, may_stay_literal }
                }
                WordClass::Pattern { glob, may_stay_literal } => {
                    let first = [Glob::Literal(known.to_vec())];
                    let glob = [first.as_slice(), &*glob].concat().into();
                    WordClass::Pattern { glob, may_stay_literal }
                }
            };
            Word { span, class }
        }
    }
}

fn spanned(mut value: Argument, argument: &Argument) -> Argument {
    value.word.span = argument.word.span;
    value
}

fn doubled(name: &[u8]) -> Vec<u8> {
    [b"-", name].concat()
}

/// Splits text at blanks; none if it holds a quote, an escape, a comment or a variable.
fn split_plain(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let plain = |byte: &u8| !matches!(byte, b'\\' | b'\'' | b'"' | b'$' | b'#') && *byte >= b' ';
    if !text.iter().all(plain) {
        return None;
    }
    let words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    Some(words.map(<[u8]>::to_vec).collect())
}

/// Returns what those options of `body` do that an argument made from `word` could be.
pub(crate) fn reachable(word: &Word, body: &Body) -> Danger {
    let style = body.grammar.style;
    if style == Style::None {
        return Danger::default();
    }
    if style != Style::Find && !body.commands.is_empty() {
        return body.danger;
    }
    let is_number = word.is_number();
    let could_be = |option: &OptionRow| {
        option.names.iter().any(|name| match style {
            _ if is_number => word.may_equal(name.as_bytes()),
            Style::Find => may_equal(word, name.as_bytes()),
            Style::Dashes if option.takes == Takes::Nothing && name.starts_with("--") => {
                may_be_flag(word, name, body.grammar.abbrev)
            }
            Style::Dashes
            | Style::Tar
            | Style::Shell
            | Style::Single
            | Style::Test
            | Style::None => may_begin(word, name),
        })
    };
    let mut danger = Danger::default();
    for option in body.options.iter().filter(|option| could_be(option)) {
        option.slots.iter().for_each(|slot| slot.add_to(&mut danger));
    }
    danger
}

/// Says whether `word` could be the long option `name`, perhaps shortened. It takes no value: nothing is attached to it.
fn may_be_flag(word: &Word, name: &str, abbrev: bool) -> bool {
    if matches!(word.class, WordClass::Unknown { count: Count::One, joined: true, .. }) {
        return false;
    }
    let shortest = if abbrev { "--".len() + 1 } else { name.len() };
    (shortest..=name.len())
        .any(|end| name.as_bytes().get(..end).is_some_and(|beginning| may_equal(word, beginning)))
}

/// Says whether `word` could be the option `name`, perhaps shortened or with a value attached.
fn may_begin(word: &Word, name: &str) -> bool {
    match known_part(word) {
        None => true,
        Some((known, _)) if known.len() < 2 || !known.starts_with(b"--") => {
            known.starts_with(b"-") || known.is_empty()
        }
        Some((known, _)) => {
            let name = name.as_bytes();
            let stem = known.split(|byte| *byte == b'=').next().unwrap_or_default();
            name.starts_with(stem) || stem.starts_with(name)
        }
    }
}

/// As [`Word::may_equal`], with the whole pattern looked at.
pub(crate) fn may_equal(word: &Word, bytes: &[u8]) -> bool {
    match &word.class {
        WordClass::Pattern { glob, .. } => glob_may_equal(glob, bytes),
        WordClass::Exact(_) | WordClass::Unknown { .. } => word.may_equal(bytes),
    }
}

fn glob_may_equal(glob: &[Glob], bytes: &[u8]) -> bool {
    // The set of places in `bytes` that the pieces so far can reach.
    let mut reached = vec![false; bytes.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for piece in glob {
        let mut next = vec![false; bytes.len() + 1];
        for start in reached.iter().enumerate().filter_map(|(at, yes)| yes.then_some(at)) {
            let behind = bytes.get(start..).unwrap_or_default();
            let ends = match piece {
                Glob::Literal(text) if behind.starts_with(text) => {
                    start + text.len()..start + text.len() + 1
                }
                Glob::Literal(_) => continue,
                // Option names are ASCII, in which a character is one byte.
                Glob::Question if behind.first().is_some_and(u8::is_ascii) => start + 1..start + 2,
                Glob::Question => start + 1..(start + 5).min(bytes.len() + 1),
                Glob::Other(text) if excludes(text, behind) => continue,
                Glob::Star | Glob::Other(_) => start..bytes.len() + 1,
            };
            next.iter_mut().take(ends.end).skip(ends.start).for_each(|place| *place = true);
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(true)
}

/// Says whether a pattern that begins with a bracket surely makes nothing that begins as `bytes` does, an option.
fn excludes(pattern: &[u8], bytes: &[u8]) -> bool {
    // Without a dash, a negation or a class in it, no bracket matches a dash. Quotes are gone here, so
    // all that follows is looked at.
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"[]*?._".contains(byte);
    pattern.starts_with(b"[") && pattern.iter().all(plain) && bytes.starts_with(b"-")
}

/// Returns a word of which nothing is known but its ends.
pub(crate) fn unknown(word: &Word, count: Count, prefix: &[u8], suffix: &[u8]) -> Word {
    let class = WordClass::Unknown {
        reason: Reason::Substitution,
        count,
        prefix: prefix.to_vec().into(),
        suffix: suffix.to_vec().into(),
        joined: false,
    };
    Word { span: word.span, class }
}
