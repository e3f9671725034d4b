//! Effects of builtins on the shell that runs them.

use crate::extract::assigned::Attributes;
use crate::extract::nested::join;
use crate::extract::shell::Value;
use crate::extract::{Build, Walk};
use crate::word::build::Home;
use crate::{Assigned, CommandKind, Directory, Reason, Span, Word, WordClass};

/// Letters of `set` that leave the meaning of text alone.
const HARMLESS_SET: &[u8] = b"efunvxbhmECT";
const HARMLESS_SET_NAMES: &[&[u8]] = &[
    b"allexport_off",
    b"errexit",
    b"errtrace",
    b"hashall",
    b"monitor",
    b"noclobber",
    b"noexec",
    b"noglob",
    b"notify",
    b"nounset",
    b"pipefail",
    b"verbose",
    b"xtrace",
];
const HARMLESS_SHOPT: &[&[u8]] = &[
    b"nullglob",
    b"dotglob",
    b"globstar",
    b"nocaseglob",
    b"nocasematch",
    b"globskipdots",
    b"inherit_errexit",
    b"checkwinsize",
    b"huponexit",
    b"cmdhist",
    b"histappend",
    b"histverify",
    b"progcomp",
    b"checkjobs",
    b"gnu_errfmt",
    b"lithist",
    b"mailwarn",
    b"xpg_echo",
    b"globasciiranges",
    b"shift_verbose",
    b"no_empty_cmd_completion",
    b"direxpand",
    b"dirspell",
    b"force_fignore",
    b"hostcomplete",
];

impl Walk<'_> {
    /// Applies the effects of the command at `index` to its shell.
    pub(crate) fn change_shell(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index as usize) else { return };
        if command.words.is_empty() {
            return;
        }
        let Some(name) = command.words.first().and_then(Word::exact) else {
            // Whatever it is, the name is opaque already.
            return self.shell.forget();
        };
        if command.kind == CommandKind::External && !self.shell.may_be_function(name) {
            return;
        }
        // Nothing below looks at the words in the list.
        let words = std::mem::take(&mut command.words);
        self.run_builtin(index, &words);
        if let Some(command) = self.commands.get_mut(index as usize) {
            command.words = words;
        }
    }

    fn run_builtin(&mut self, index: u32, words: &[Word]) {
        let (Some(command), Some((first, operands))) =
            (self.commands.get(index as usize), words.split_first())
        else {
            return;
        };
        let span = command.span;
        let at_top = command.position == crate::Position::Top && command.via.is_empty();
        let name = first.exact().unwrap_or_default();
        let function = self.shell.may_be_function(name);
        match name {
            b"cd" | b"pushd" | b"popd" => self.change_directory(name, operands),
            b"export" | b"declare" | b"typeset" | b"local" | b"readonly" => {
                self.declare(index, name, operands);
            }
            b"unset" => {
                if self.shell.unset_functions() {
                    self.shell.shake("a function may be unset".to_owned());
                }
                self.change_names(index, name, operands);
            }
            b"read" | b"mapfile" | b"readarray" | b"getopts" | b"wait" => {
                self.change_names(index, name, operands);
            }
            b"printf" if operands.first().is_some_and(|first| first.may_start_with(b"-v")) => {
                self.change_names(index, name, operands);
            }
            b"let" => {
                for word in operands {
                    let text = word.exact().unwrap_or_default().to_vec();
                    self.expression_names(&text, index, word.span);
                }
                self.shell.forget();
            }
            b"eval" | b"source" | b"." => self.shell.forget(),
            b"trap" => self.set_trap(),
            b"set" => self.set_options(operands),
            b"shopt" => {
                let at_top = at_top && self.is_seen_by_lexer(span);
                self.shopt(at_top, operands);
            }
            b"alias" if !operands.is_empty() && !self.shell.define_alias() => {}
            b"alias" if !operands.is_empty() => {
                self.doubt(Reason::Alias, span, "an alias is defined".to_owned(), String::new());
                self.shell.shake("an alias is defined".to_owned());
            }
            b"hash" if may_have(operands, b"-p") => self.shell.shake("`hash -p`".to_owned()),
            b"enable" if !operands.is_empty() => self.shell.shake("`enable`".to_owned()),
            b"shift" => self.shell.positional = None,
            _ => {}
        }
        if function {
            self.given_up = true;
            self.shell.forget();
            if self.shell.moves {
                self.shell.go(Directory::Unknown);
            }
        }
    }

    fn set_trap(&mut self) {
        self.shell.forget();
        if self.shell.follows {
            self.shell.shake("a trap that the text does not show".to_owned());
        }
        self.shell.follows = false;
    }

    fn change_directory(&mut self, name: &[u8], operands: &[Word]) {
        let mut plain = Vec::new();
        for word in operands {
            match word.exact() {
                Some(b"--" | b"-P" | b"-L" | b"-e" | b"-@") if plain.is_empty() => {}
                Some(_) | None => plain.push(word),
            }
        }
        let popd = name == b"popd";
        let directory = match plain.as_slice() {
            [] if !popd => match self.shell.home.clone() {
                Home::Known(home) => Directory::Known(home.into()),
                Home::Plain | Home::Absolute | Home::Unknown => Directory::Unknown,
            },
            [word] if !popd => match word.exact() {
                Some(path)
                    if !path.is_empty() && !path.starts_with(b"-") && !path.starts_with(b"+") =>
                {
                    join(&self.shell.directory, path)
                }
                Some(_) | None => Directory::Unknown,
            },
            _ => Directory::Unknown,
        };
        self.shell.go(directory);
    }

    /// `export` and its kin.
    fn declare(&mut self, index: u32, name: &[u8], operands: &[Word]) {
        let attributes = Attributes::of(operands);
        let option = |letters: &[u8]| {
            let options = operands.iter().filter_map(Word::exact).filter(|it| it.starts_with(b"-"));
            options.flatten().any(|letter| letters.contains(letter))
        };
        if name == b"readonly" || option(b"r") {
            self.shell.follows = false;
        }
        if option(b"fF") && option(b"x") {
            self.shell.shake("a function is exported".to_owned());
        }
        for (place, word) in operands.iter().enumerate() {
            let known = match &word.class {
                WordClass::Exact(text) => text.to_vec(),
                WordClass::Unknown { prefix, .. } if prefix.contains(&b'=') => prefix.to_vec(),
                WordClass::Pattern { .. } | WordClass::Unknown { .. } => {
                    self.shell.forget();
                    let name = String::from_utf8_lossy(name);
                    self.shell.shake(format!("`{name}` with an operand that is not known"));
                    continue;
                }
            };
            if known.starts_with(b"-") || known.starts_with(b"+") {
                if known.iter().any(|byte| b"inluc".contains(byte))
                    || (name == b"export" && known.contains(&b'f'))
                {
                    let option = String::from_utf8_lossy(&known);
                    self.shell.shake(format!("the attribute `{option}`"));
                }
                continue;
            }
            let equals = known.iter().position(|byte| *byte == b'=');
            let variable = known.get(..equals.unwrap_or(known.len())).unwrap_or_default();
            let variable = variable.strip_suffix(b"+").unwrap_or(variable).to_vec();
            let whole = without_subscript(&variable).to_vec();
            if self.array_operands.contains(&(index, place + 1)) && !attributes.integer {
                self.array_named(&variable);
            } else {
                self.declared(&variable, word, attributes);
            }
            let value =
                equals.and_then(|at| known.get(at + 1..)).filter(|_| word.exact().is_some());
            let value = value.map(|value| Word::literal(word.span, value));
            if equals.is_some() {
                self.integer_assigned(&variable, value.as_ref(), word.span);
                self.note_variable(Assigned {
                    name: whole.as_slice().into(),
                    command: Some(index),
                    read: word.exact().is_some(),
                    span: word.span,
                });
                self.history_file(&whole, value.as_ref(), Some(index), word.span);
            }
            // The options of this shell become those of the shells that it starts.
            let options = matches!(variable.as_slice(), b"BASHOPTS" | b"SHELLOPTS");
            if equals.is_some() || options || name != b"export" {
                self.variable_changes(&whole, value.as_ref(), word.span);
                self.shell.set(&whole, if equals.is_some() { Value::Set } else { Value::Lost });
            }
        }
    }

    /// Builtins whose operands name variables that they set or unset.
    fn change_names(&mut self, index: u32, builtin: &[u8], operands: &[Word]) {
        for word in operands {
            match word.exact() {
                Some(name) => {
                    let name = name.to_vec();
                    if matches!(builtin, b"mapfile" | b"readarray") {
                        // The index at which it begins is arithmetic.
                        self.expression_names(&name, index, word.span);
                    }
                    // The name may stand in one word with its option: `-vNAME`.
                    for name in names_in(&name).map(without_subscript) {
                        self.variable_changes(name, None, word.span);
                        if builtin != b"unset" {
                            self.integer_assigned(name, None, word.span);
                            self.names_variable(name, Some(index), word.span);
                            self.history_file(name, None, Some(index), word.span);
                        }
                        if matches!(builtin, b"read" | b"mapfile" | b"readarray") {
                            self.array_named(name);
                        }
                    }
                }
                None if word.may_start_with(b"P")
                    || word.may_start_with(b"I")
                    || word.may_start_with(b"L") =>
                {
                    self.shell.forget();
                    if builtin != b"printf" && builtin != b"wait" {
                        let builtin = String::from_utf8_lossy(builtin);
                        self.shell.shake(format!("`{builtin}` with a name that is not known"));
                    }
                }
                None => self.shell.forget(),
            }
        }
        if builtin != b"unset" {
            self.shell.set(b"REPLY", Value::Lost);
        }
    }

    fn set_options(&mut self, operands: &[Word]) {
        // Each `o` takes a word of its own.
        let mut named = 0_usize;
        for word in operands {
            let Some(text) = word.exact() else {
                if word.may_start_with(b"-") || word.may_start_with(b"+") || named > 0 {
                    self.shell.shake("`set` with an operand that is not known".to_owned());
                }
                self.shell.positional = None;
                return;
            };
            if named > 0 {
                named -= 1;
                if !HARMLESS_SET_NAMES.contains(&text) {
                    self.shell.shake(format!("`set -o {}`", String::from_utf8_lossy(text)));
                }
                continue;
            }
            if matches!(text, b"--" | b"-") || !matches!(text.first(), Some(b'-' | b'+')) {
                self.shell.positional = None;
                return;
            }
            let letters = text.get(1..).unwrap_or_default();
            named = letters.iter().filter(|letter| **letter == b'o').count();
            if letters.iter().any(|letter| *letter != b'o' && !HARMLESS_SET.contains(letter)) {
                self.shell.shake(format!("`set {}`", String::from_utf8_lossy(text)));
            }
        }
    }

    /// Says whether a `shopt` that surely runs is written as the lexer looks for it.
    fn is_seen_by_lexer(&self, span: Span) -> bool {
        let text = self.runs.first().map(|run| span.of(&run.text.bytes)).unwrap_or_default();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'_');
        let names = text.strip_prefix(b"shopt -s ").or_else(|| text.strip_prefix(b"shopt -u "));
        let unsure = |build: &Build| matches!(build, Build::AndOr(chain) if chain.is_unsure());
        let chained = self.builds.iter().any(unsure);
        names.is_some_and(|names| names.iter().all(plain)) && !chained
    }

    /// `at_top`: the text itself runs it, in its own list, where the lexer sees it.
    fn shopt(&mut self, at_top: bool, operands: &[Word]) {
        let sets = operands.iter().any(|word| {
            word.exact().is_none_or(|text| {
                text.starts_with(b"-") && text.iter().any(|byte| matches!(byte, b's' | b'u' | b'o'))
            })
        });
        if !sets {
            return;
        }
        for word in operands {
            match word.exact() {
                Some(text) if text.starts_with(b"-") => {
                    if text.contains(&b'o') {
                        self.shell.shake("`shopt -o`".to_owned());
                    }
                }
                Some(b"expand_aliases") => self.shell.expand_aliases(),
                // The lexer switches at the next line of the text itself; elsewhere it cannot.
                Some(b"extglob") if at_top => self.shell.lose(),
                Some(option) if HARMLESS_SHOPT.contains(&option) => {}
                Some(option) => {
                    self.shell.shake(format!("`shopt {}`", String::from_utf8_lossy(option)));
                }
                None => self.shell.shake("`shopt` with an operand that is not known".to_owned()),
            }
        }
    }
}

/// The name of the array in `name[subscript]`.
fn without_subscript(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'[').next().unwrap_or_default()
}

fn may_have(words: &[Word], option: &[u8]) -> bool {
    words.iter().any(|word| word.may_start_with(option))
}

/// Returns the names that `word` may hold: itself, or what stands behind option letters in it.
fn names_in(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    /// More letters than any builtin here has options.
    const LETTERS: usize = 16;
    let last = if word.starts_with(b"-") { LETTERS } else { 0 };
    let first = if word.starts_with(b"-") { 2 } else { 0 };
    (first..=last).filter_map(move |from| word.get(from..)).filter(|name| !name.is_empty())
}
