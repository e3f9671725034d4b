//! The expressions of find and test, which have grammars of their own.

use crate::nested::Reader;
use crate::nested::operand_meaning::replaced;
use crate::options::{Argument, Trouble, is_many, may_equal};
use crate::{Count, EffectKind, Glob, Reason, Word, WordClass};
use stockade_programs::row::{Body, OptionRow, Slot};

impl<'a> Reader<'a> {
    /// Reads the words of find: options, start paths, expression.
    pub(crate) fn find(&mut self, body: &'a Body, arguments: Vec<Argument>) {
        let mut words = arguments.into_iter().peekable();
        let mut starts = Vec::new();
        let mut expression = false;
        while let Some(argument) = words.next() {
            let Some(bytes) = argument.word.exact() else {
                if argument.word.may_start_with(b"-") || argument.word.may_start_with(b"(") {
                    self.trouble(body, argument.clone());
                }
                self.effect_on(EffectKind::Read, &argument);
                starts.push(argument.word);
                continue;
            };
            let Some(primary) = primary(body, bytes) else {
                let option = matches!(bytes.first(), Some(b'-')) && bytes.len() > 1;
                if option || matches!(bytes, b"(" | b")" | b"!" | b",") {
                    expression = true;
                    let operator = matches!(bytes, b"(" | b")" | b"!" | b",");
                    if !operator {
                        self.find_unknown(body, &argument);
                    }
                } else {
                    self.effect_on(EffectKind::Read, &argument);
                    starts.push(argument.word.clone());
                    if expression {
                        self.reading.effects_known = false;
                    }
                }
                continue;
            };
            let leading = matches!(bytes, b"-H" | b"-L" | b"-P");
            expression |= !leading;
            if primary.slots.is_empty() {
                continue;
            }
            if primary.slots.first() == Some(&Slot::CommandUntil) {
                self.find_command(bytes.ends_with(b"dir"), &starts, &mut words, &argument);
                continue;
            }
            self.find_primary(body, primary, &argument, &mut words);
        }
    }

    fn find_primary(
        &mut self,
        body: &'a Body,
        primary: &OptionRow,
        argument: &Argument,
        words: &mut impl Iterator<Item = Argument>,
    ) {
        if primary.takes == stockade_programs::row::Takes::Nothing {
            primary.slots.iter().for_each(|slot| self.apply_flag(slot, argument));
            return;
        }
        for slot in &primary.slots {
            // Without its value find says so and ends, before it looks at any file.
            let Some(value) = words.next() else { return };
            if is_many(&value.word) {
                self.trouble(body, value.clone());
            }
            self.apply(slot, &value);
        }
    }

    fn find_unknown(&mut self, body: &Body, argument: &Argument) {
        let name = String::from_utf8_lossy(argument.word.exact().unwrap_or_default()).into_owned();
        self.troubles(body, vec![Trouble::UnknownOption(argument.index, name)]);
    }

    fn trouble(&mut self, body: &Body, argument: Argument) {
        self.troubles(body, vec![Trouble::Dynamic(argument)]);
    }

    /// Reads the words of `-exec` and lists the command.
    ///
    /// Without an end find says so and ends, before it looks at any file: nothing runs, and nothing is in doubt.
    fn find_command(
        &mut self,
        in_directory: bool,
        starts: &[Word],
        words: &mut impl Iterator<Item = Argument>,
        primary: &Argument,
    ) {
        let prefix = if in_directory { b"./".to_vec() } else { common_start(starts) };
        let mut command: Vec<Argument> = Vec::new();
        for argument in words {
            let braces = command.last().is_some_and(|last| last.word.exact() == Some(b"{}"));
            match argument.word.exact() {
                Some(b";") => break,
                Some(b"+") if braces => {
                    command.pop();
                    let word = many(&argument.word, &prefix);
                    command.push(Argument { word, index: argument.index });
                    break;
                }
                // busybox ends the command at any `+`.
                Some(b"+") => self.unclear(argument.index, "a `+` that is not behind `{}`"),
                Some(_) => {}
                None if may_equal(&argument.word, b";") || is_many(&argument.word) => {
                    self.doubt(Reason::DynamicOption, argument.index, "could end the command");
                }
                None => {}
            }
            command.push(argument);
        }
        for argument in &mut command {
            if argument.word.exact().is_some() {
                argument.word = replaced(&argument.word, b"{}", &prefix);
            } else if !matches!(argument.word.class, WordClass::Pattern { .. }) {
                argument.word = replaced(&argument.word, b"{}", b"");
            }
        }
        if command.is_empty() {
            self.unclear(primary.index, "no command");
        }
        let outer = self.directory.take();
        if in_directory {
            self.directory = Some(crate::options::unknown(&primary.word, Count::One, b"", b""));
        }
        self.command(command);
        self.directory = outer;
    }

    /// Reads the words of test: `-v` and `-R` evaluate a subscript in the word behind them.
    pub(crate) fn test_expression(&mut self, words: &[Argument]) {
        for (at, argument) in words.iter().enumerate() {
            // A number, or nothing, is not an option.
            let number = argument.word.is_number();
            let many = is_many(&argument.word) && argument.word.may_start_with(b"-");
            if many && !number && !self.outside {
                let detail = "could be `-v`, which evaluates a subscript";
                let help = "put it in double quotes";
                self.doubt_with(Reason::Subscript, argument.index, detail, help);
            }
            let evaluates =
                !number && (may_equal(&argument.word, b"-v") || may_equal(&argument.word, b"-R"));
            if let Some(next) = words.get(at + 1).filter(|_| evaluates) {
                self.variable(next);
            }
        }
    }
}

fn primary<'a>(body: &'a Body, name: &[u8]) -> Option<&'a OptionRow> {
    let named = |option: &&OptionRow| option.names.iter().any(|known| known.as_bytes() == name);
    body.options.iter().map(AsRef::as_ref).find(named).or_else(|| {
        // Optimisation levels: `-O3`.
        let level = name.strip_prefix(b"-O")?;
        let digits = !level.is_empty() && level.iter().all(u8::is_ascii_digit);
        let level = |option: &&OptionRow| option.names.iter().any(|known| known == "-O");
        digits.then(|| body.options.iter().map(AsRef::as_ref).find(level))?
    })
}

/// Returns the bytes with which every found file begins.
fn common_start(starts: &[Word]) -> Vec<u8> {
    let mut common: Option<Vec<u8>> = None;
    for start in starts {
        let known: &[u8] = match &start.class {
            WordClass::Exact(bytes) => bytes,
            WordClass::Unknown { count: Count::One, prefix, .. } => prefix,
            WordClass::Pattern { glob, .. } => match glob.first() {
                Some(Glob::Literal(first)) => first,
                Some(Glob::Star | Glob::Question | Glob::Other(_)) | None => b"",
            },
            WordClass::Unknown { .. } => b"",
        };
        common = Some(match common {
            None => known.to_vec(),
            Some(common) => {
                // Whole segments: `.` is no beginning of `..`.
                let same = common.iter().zip(known).take_while(|(a, b)| a == b).count();
                let known = common.get(..same).unwrap_or_default();
                let end = known.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                known.get(..end).unwrap_or_default().to_vec()
            }
        });
    }
    // Without start path find begins at the working directory.
    common.unwrap_or_else(|| b".".to_vec())
}

/// Returns any number of names that begin with `prefix`.
fn many(word: &Word, prefix: &[u8]) -> Word {
    if prefix.is_empty() {
        return crate::options::unknown(word, Count::Any, b"", b"");
    }
    let glob = vec![Glob::Literal(prefix.to_vec()), Glob::Other(b"{}".to_vec())].into();
    Word { span: word.span, class: WordClass::Pattern { glob, may_stay_literal: false } }
}
