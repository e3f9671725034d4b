//! The meaning of a value, applied: what it starts, writes, reads, or makes doubtful.

use crate::characters::is_name;
use crate::expression::{Change, names};
use crate::lang::{self, Findings};
use crate::nested::shell::Shell;
use crate::nested::{Doubt, Inner, InnerCommand, Reader};
use crate::options::{Argument, unknown};
use crate::{
    Count, Directory, Effect, EffectKind, Glob, Locality, Object, Operator, Reason, Redirect,
    RedirectTarget, Stdin, Word, WordClass,
};
use stockade_programs::Dialect;
use stockade_programs::row::{Input, Slot};

impl Reader<'_> {
    /// Applies a meaning to an option without value, or to the command as a whole.
    pub(crate) fn apply_flag(&mut self, slot: &Slot, argument: &Argument) {
        match slot {
            Slot::Effect(kind) => self.effect(*kind, argument.index, None),
            Slot::Edit => self.effect(EffectKind::Write, argument.index, None),
            Slot::Replace => {
                let class = WordClass::Exact(b"{}".into());
                self.replace = Some(Word { span: argument.word.span, class });
            }
            Slot::StdinProgram(dialect) => self.stdin_program(*dialect, argument),
            Slot::Code => self.code(argument.index, None),
            Slot::StdinCode => self.stdin_code(argument),
            Slot::Doubt(reason) => self.doubt(*reason, argument.index, ""),
            Slot::Both(slots) => slots.iter().for_each(|slot| self.apply_flag(slot, argument)),
            Slot::Plain | Slot::Directory | Slot::Positional | Slot::Options => {}
            Slot::TextOption | Slot::Somewhere(_) | Slot::Match(_) => {}
            Slot::Assignments | Slot::AssignmentsAndOptions => {}
            Slot::Unknown
            | Slot::Command(_)
            | Slot::CommandUntil
            | Slot::CommandThroughShell
            | Slot::Text(_)
            | Slot::ForeignText
            | Slot::Eval
            | Slot::Words
            | Slot::EvalWords
            | Slot::Split
            | Slot::Program
            | Slot::Entry
            | Slot::Local(_)
            | Slot::Sed
            | Slot::Awk
            | Slot::Script
            | Slot::ProgramFile
            | Slot::NameOrCode
            | Slot::Variable
            | Slot::Arithmetic => self.unclear(argument.index, "a missing value"),
        }
    }

    /// Applies a meaning to one value.
    pub(crate) fn apply(&mut self, slot: &Slot, value: &Argument) {
        match slot {
            Slot::Plain | Slot::Positional | Slot::Options | Slot::TextOption | Slot::Split => {}
            Slot::Assignments | Slot::AssignmentsAndOptions => {}
            Slot::Unknown => self.unclear(value.index, "a word that is not known"),
            Slot::Text(dialect) => self.text(*dialect, Shell::NEW, value),
            Slot::ForeignText => {
                self.doubt(Reason::Dialect, value.index, "text of another shell");
                self.text(Dialect::Sh, Shell::NEW, value);
            }
            Slot::Eval => self.text(Dialect::Bash, Shell::Own, value),
            Slot::Command(_) | Slot::CommandThroughShell | Slot::Words | Slot::EvalWords => {
                self.rest(slot, vec![value.clone()]);
            }
            Slot::CommandUntil => self.unclear(value.index, "a command in this place"),
            Slot::Program => self.command(vec![value.clone()]),
            Slot::Both(slots) => slots.iter().for_each(|slot| self.apply(slot, value)),
            Slot::Entry => self.entry = Some(value.clone()),
            Slot::Local(slot) => {
                let locality = std::mem::replace(&mut self.locality, Locality::Here);
                self.apply(slot, value);
                self.locality = locality;
            }
            Slot::Sed => self.sed.push(value.clone()),
            Slot::Awk => self.program_text(value, lang::awk::scan),
            Slot::Script => self.script(value),
            Slot::StdinProgram(dialect) => self.stdin_program(*dialect, value),
            Slot::Code => self.code(value.index, Some(value.word.clone())),
            Slot::StdinCode => self.stdin_code(value),
            Slot::ProgramFile => self.program_file(value),
            Slot::NameOrCode => self.name_or_code(value),
            Slot::Doubt(reason) => self.doubt(*reason, value.index, ""),
            Slot::Effect(kind) => self.effect_on(*kind, value),
            Slot::Somewhere(kind) => self.effect(*kind, value.index, None),
            Slot::Edit => {
                self.effect_on(EffectKind::Read, value);
                self.effect_on(EffectKind::Write, value);
            }
            Slot::Directory => {
                self.effect_on(EffectKind::Read, value);
                self.directory = Some(match &self.directory {
                    None => value.word.clone(),
                    Some(_) => unknown(&value.word, Count::Any, b"", b""),
                });
            }
            Slot::Replace => self.replace = Some(value.word.clone()),
            Slot::Variable => self.variable(value),
            Slot::Arithmetic => self.arithmetic(value),
            Slot::Match(cases) => self.match_cases(cases, value),
        }
    }

    /// Applies a meaning that takes all the words that are left.
    pub(crate) fn rest(&mut self, slot: &Slot, words: Vec<Argument>) {
        use Slot::*;
        match slot {
            Slot::Command(Input::None) => return self.command(words),
            Slot::Command(Input::Shell) => return self.command_of_shell(words),
            Slot::Command(Input::Xargs) => return self.command_with_input(words),
            Slot::Command(Input::Found) => return self.command_with_found(words),
            Slot::CommandThroughShell => {
                if let Some(first) = words.first() {
                    let what = "the words pass through a shell after something is put in";
                    self.doubt(Reason::EvaluatorText, first.index, what);
                }
                return self.command(words);
            }
            Slot::Words => return self.words(Dialect::Sh, Shell::NEW, &words),
            Slot::EvalWords => return self.words(Dialect::Bash, Shell::Own, &words),
            Plain | Unknown | CommandUntil | Text(_) | ForeignText | Eval | Split | Program
            | Entry | Local(_) | Both(_) | Positional | Assignments | Options | TextOption
            | Sed | Awk | Code | StdinCode | ProgramFile | NameOrCode | Script
            | StdinProgram(_) | Doubt(_) | Effect(_) | Somewhere(_) | Edit | Directory
            | Replace | Variable | Arithmetic | Match(_) => {}
            AssignmentsAndOptions => {}
        }
        words.iter().for_each(|word| self.apply(slot, word));
    }

    /// Lists a command whose words are given.
    pub(crate) fn command(&mut self, words: Vec<Argument>) {
        let words: Vec<Argument> = self.entry.take().into_iter().chain(words).collect();
        let Some(first) = words.first() else { return };
        self.executes(first.index, Some(first.word.clone()));
        let inner = Inner::Command(InnerCommand {
            program: self.row.name.clone(),
            words: words.into_iter().map(|argument| argument.word).collect(),
            assignments: self.assignments.clone(),
            strip: self.strip,
            locality: self.locality,
            directory: self.directory.clone(),
            stdin: None,
            shell: std::mem::take(&mut self.shell),
        });
        self.inner_seen.add(&mut self.reading.inner, inner);
    }

    pub(crate) fn executes(&mut self, index: u32, object: Option<Word>) {
        if !self.strip {
            self.effect(EffectKind::Execute, index, object);
        }
    }

    /// Gives `$0` and on to the text that was found last.
    pub(crate) fn positional(&mut self, words: Vec<Word>) {
        if let Some(Inner::Text(text)) = self.reading.inner.last_mut() {
            text.positional = Some(words);
        }
    }

    /// Text that can start programs and is not read.
    fn code(&mut self, index: u32, object: Option<Word>) {
        self.effect(EffectKind::Execute, index, object);
        self.reading.unread.get_or_insert(index);
    }

    /// The same on standard input: counted where the command line says what is on it.
    fn stdin_code(&mut self, argument: &Argument) {
        match self.command.stdin {
            Stdin::Pipe | Stdin::Text => return self.code(argument.index, None),
            Stdin::Inherited => self.reading.reads_code = true,
            Stdin::File => {
                let redirects = self.command.redirects.iter();
                let plain = |redirect: &Redirect| match &redirect.target {
                    RedirectTarget::File(file) => !may_be_descriptor(file),
                    RedirectTarget::Text(_) | RedirectTarget::Descriptor(_) => {
                        redirect.operator != Operator::DuplicateInput
                    }
                };
                if !redirects.into_iter().all(plain) {
                    return self.code(argument.index, None);
                }
            }
        }
        self.effect(EffectKind::Execute, argument.index, None);
    }

    /// A file with the text of a program. A descriptor is not a file of the project: what is in it is not known.
    fn program_file(&mut self, value: &Argument) {
        const STDIN: [&[u8]; 4] = [b"-", b"/dev/stdin", b"/dev/fd/0", b"/proc/self/fd/0"];
        if value.word.exact().is_some_and(|file| STDIN.contains(&file)) {
            return self.stdin_code(value);
        }
        if may_be_descriptor(&value.word) {
            self.code(value.index, Some(value.word.clone()));
        }
        self.effect_on(EffectKind::Read, value);
        self.effect_on(EffectKind::Execute, value);
    }

    /// Reads a value that is pasted into a program: nothing that is made of these bytes alone starts anything.
    fn name_or_code(&mut self, value: &Argument) {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:.,=/@%-".contains(byte);
        if !value.word.exact().is_some_and(|text| text.iter().all(plain)) {
            self.code(value.index, Some(value.word.clone()));
        }
    }

    /// A file that a new shell runs: a program of its own, whose words are those that follow. Whether the text around it
    /// may have written that file is found when all of it is read.
    fn script(&mut self, file: &Argument) {
        let path = file.word.exact().filter(|path| is_script_file(&self.command.directory, path));
        let Some(path) = path else { return self.doubt(Reason::ScriptFile, file.index, "") };
        // Bash looks in the working directory first.
        let class = match path.contains(&b'/') {
            true => file.word.class.clone(),
            false => WordClass::Exact([b"./", path].concat().into()),
        };
        let program = Word { span: file.word.span, class };
        let operands = self.command.words.iter().skip(file.index as usize + 1).cloned();
        let inner = Inner::Command(InnerCommand {
            program: self.row.name.clone(),
            words: std::iter::once(program).chain(operands).collect(),
            assignments: Vec::new(),
            strip: false,
            locality: self.locality,
            directory: self.directory.clone(),
            stdin: None,
            shell: Vec::new(),
        });
        self.effect_on(EffectKind::Read, file);
        self.effect(EffectKind::Execute, file.index, Some(file.word.clone()));
        self.inner_seen.add(&mut self.reading.inner, inner);
        self.reading.script = Some(file.index);
    }

    /// xargs: the words of its command with the words that it reads.
    fn command_with_input(&mut self, words: Vec<Argument>) {
        let mut words = words;
        if words.is_empty() {
            let class = WordClass::Exact(b"echo".into());
            words.push(Argument { word: Word { span: self.command.span, class }, index: 0 });
        }
        let last = words.last().map_or(0, |argument| argument.index);
        match self.replace.clone().map(|word| word.exact().map(<[u8]>::to_vec)) {
            None => {
                let word = unknown(&self.word(last), Count::Any, b"", b"");
                words.push(Argument { word, index: last });
            }
            Some(Some(mark)) if !mark.is_empty() => {
                for argument in &mut words {
                    argument.word = replaced(&argument.word, &mark, b"");
                }
            }
            Some(_) => {
                self.doubt(Reason::DynamicOption, last, "what is replaced is not known");
            }
        }
        self.command(words);
    }

    /// A finder that puts names in place of `{}` and its kin, or at the end.
    fn command_with_found(&mut self, words: Vec<Argument>) {
        const MARKS: [&[u8]; 5] = [b"{}", b"{/}", b"{//}", b"{.}", b"{/.}"];
        let mut words = words;
        let last = words.last().map_or(0, |argument| argument.index);
        let mut marked = false;
        for argument in &mut words {
            for mark in MARKS {
                let word = replaced(&argument.word, mark, b"");
                if word != argument.word {
                    marked |= argument.word.exact().is_some();
                    // In a batch one mark stands for many names.
                    argument.word = unknown(&word, Count::Any, b"", b"");
                }
            }
        }
        if !marked {
            let word = unknown(&self.word(last), Count::Any, b"", b"");
            words.push(Argument { word, index: last });
        }
        self.command(words);
    }

    pub(crate) fn variable(&mut self, value: &Argument) {
        if self.outside {
            return;
        }
        // The name ends at `=`; what is behind it is a value and is not evaluated.
        let (known, exact) = match &value.word.class {
            WordClass::Exact(bytes) => (bytes.as_slice(), true),
            WordClass::Unknown { count: Count::One, prefix, .. } => (&**prefix, false),
            WordClass::Pattern { glob, .. } => match glob.first() {
                Some(Glob::Literal(first)) => (first.as_slice(), false),
                Some(Glob::Star | Glob::Question | Glob::Other(_)) | None => (&b""[..], false),
            },
            WordClass::Unknown { .. } => (b"".as_slice(), false),
        };
        let name = known.split(|byte| *byte == b'=').next().unwrap_or_default();
        let complete = exact || name.len() < known.len();
        let harmless = match name.iter().position(|byte| *byte == b'[') {
            None => true,
            Some(open) => {
                let inside = name.get(open + 1..).unwrap_or_default();
                let inside = inside.strip_suffix(b"+").unwrap_or(inside);
                inside.strip_suffix(b"]").is_some_and(|inside| {
                    inside == b"@" || inside == b"*" || inside.iter().all(u8::is_ascii_digit)
                })
            }
        };
        if !(complete && harmless) {
            let help = "write the name as plain text, such as `name` or `'name[0]'`";
            self.doubt_with(Reason::Subscript, value.index, "a subscript in the name", help);
        }
    }

    fn arithmetic(&mut self, value: &Argument) {
        let plain = |byte: &u8| is_name(*byte) || b" +-*/%<>=!&|^~?:(),".contains(byte);
        let Some(text) = value.word.exact().filter(|text| text.iter().all(plain)) else {
            return self.doubt(Reason::ArithName, value.index, "");
        };
        // Only a name that gets a value is not looked up, and evaluated, itself.
        for (name, change) in names(text) {
            if change != Change::Assigned {
                return self.doubt(Reason::ArithName, value.index, "");
            }
            if let Some(detail) = crate::state::effect_of(&name, None) {
                self.doubt(Reason::State, value.index, &detail);
            }
        }
    }

    fn match_cases(&mut self, cases: &[(String, Slot)], value: &Argument) {
        for (pattern, slot) in cases {
            match fits(pattern, &value.word) {
                // A case that surely does not fit is out, also behind a case that may fit.
                Fit::No => {}
                Fit::Yes(rest) => {
                    let mut rest = rest;
                    rest.span = value.word.span;
                    return self.apply(slot, &Argument { word: rest, index: value.index });
                }
                Fit::Maybe => self.apply(slot, value),
            }
        }
    }

    fn program_text(&mut self, value: &Argument, scan: fn(&[u8]) -> Findings) {
        match value.word.exact() {
            Some(text) => self.findings(&scan(text), value.index),
            None => {
                self.reading.effects_known = false;
                self.effect(EffectKind::Execute, value.index, None);
                self.doubt(Reason::DynamicOption, value.index, "the program text is not known");
            }
        }
    }

    /// Reads the sed scripts of all options together, as sed does.
    pub(crate) fn finish_sed(&mut self) {
        let scripts = std::mem::take(&mut self.sed);
        let Some(first) = scripts.first() else { return };
        let texts: Option<Vec<&[u8]>> = scripts.iter().map(|script| script.word.exact()).collect();
        let word = match texts {
            Some(texts) => {
                let class = WordClass::Exact(texts.join(&b'\n').into());
                Word { span: first.word.span, class }
            }
            None => unknown(&first.word, Count::One, b"", b""),
        };
        self.program_text(&Argument { word, index: first.index }, lang::sed::scan);
    }

    /// Adds a read of a file that the program text in word `index` names.
    fn named(&mut self, file: Option<Word>, index: u32) {
        let object = Object::Named(file.map(Box::new));
        self.reading.effects.push(Effect { kind: EffectKind::Read, word: index, object });
    }

    fn findings(&mut self, findings: &Findings, index: u32) {
        let span = self.word(index).span;
        let exact = |bytes: &Vec<u8>| Word::literal(span, bytes.as_slice());
        for file in &findings.reads {
            let word = exact(file);
            if let Some(word) = self.in_directory(&word) {
                self.named(Some(word), index);
            }
            self.named(Some(word), index);
        }
        for file in &findings.writes {
            self.effect_on(EffectKind::Write, &Argument { word: exact(file), index });
        }
        for text in &findings.executes {
            self.text(Dialect::Sh, Shell::NEW, &Argument { word: exact(text), index });
        }
        for (may, kind) in [
            (findings.may_execute, EffectKind::Execute),
            (findings.may_write, EffectKind::Write),
            (findings.network, EffectKind::Network),
        ] {
            if may {
                self.effect(kind, index, None);
            }
        }
        if findings.may_read {
            self.named(None, index);
        }
        if findings.may_execute {
            let detail = "the program text may start other programs";
            let (word, help) = (Some(index), String::new());
            let detail = detail.to_owned();
            self.reading.doubts.push(Doubt { reason: Reason::DynamicOption, word, detail, help });
        }
    }
}

/// Returns `word` with the part after `mark` and before the next known end replaced by something unknown.
pub(crate) fn replaced(word: &Word, mark: &[u8], start: &[u8]) -> Word {
    match &word.class {
        WordClass::Exact(bytes) => {
            let places =
                || bytes.windows(mark.len().max(1)).enumerate().filter(|(_, part)| *part == mark);
            let Some((first, _)) = places().next() else { return word.clone() };
            let last = places().next_back().map_or(first, |(at, _)| at);
            let prefix = [bytes.get(..first).unwrap_or_default(), start].concat();
            let suffix = bytes.get(last + mark.len()..).unwrap_or_default();
            unknown(word, Count::One, &prefix, suffix)
        }
        // The mark may stand in the known ends or come from the unknown part.
        WordClass::Pattern { .. } => unknown(word, Count::Any, b"", b""),
        WordClass::Unknown { count, .. } => unknown(word, *count, b"", b""),
    }
}

/// Says whether a word may name a descriptor, such as `/dev/fd/63` of a process substitution.
pub(crate) fn may_be_descriptor(word: &Word) -> bool {
    word.may_start_with(b"/dev/") || word.may_start_with(b"/proc/")
}

/// Says whether a path of a script names a file, and surely no descriptor or device, wherever the text begins.
fn is_script_file(directory: &Directory, path: &[u8]) -> bool {
    /// Names of the devices in `/dev`.
    const DEVICES: [&[u8]; 6] = [b"stdin", b"stdout", b"stderr", b"tty", b"console", b"ptmx"];
    let (parts, absolute) = directory.parts_of(path);
    let Some((first, last)) = parts.first().zip(parts.last()) else { return false };
    let device = match *first {
        b"proc" => true,
        b"dev" => absolute || parts.len() == 2,
        first => first == b"pts" || DEVICES.contains(last),
    };
    !(device || parts.contains(&b"fd".as_slice()))
}

enum Fit {
    Yes(Word),
    No,
    Maybe,
}

/// Matches a word with a pattern of a `match`: `*` is any bytes, a final `$` the end, `\s` at the beginning any blanks;
/// letters without case, but those of a pattern that begins with a dash.
fn fits(pattern: &str, word: &Word) -> Fit {
    if pattern == "*" {
        return Fit::Yes(word.clone());
    }
    if let Some(pattern) = pattern.strip_prefix("\\s") {
        return fits_behind_blanks(pattern, word);
    }
    let of_number = |it: char| it.is_ascii_digit() || matches!(it, '-' | '*');
    if word.is_number() && !pattern.strip_suffix('$').unwrap_or(pattern).chars().all(of_number) {
        return Fit::No;
    }
    let pattern = pattern.as_bytes();
    let (pattern, anchored) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let (known, exact) = match &word.class {
        WordClass::Exact(bytes) => (bytes.as_slice(), true),
        WordClass::Unknown { count: Count::One, prefix, .. } => (&**prefix, false),
        WordClass::Unknown { .. } | WordClass::Pattern { .. } => return Fit::Maybe,
    };
    // Options are told apart by case, values are not.
    let option = pattern.starts_with(b"-");
    let same = |a: &[u8], b: &[u8]| if option { a == b } else { a.eq_ignore_ascii_case(b) };
    let mut at = 0;
    let last = pattern.iter().filter(|byte| **byte == b'*').count();
    for (number, piece) in pattern.split(|byte| *byte == b'*').enumerate() {
        let behind = known.get(at..).unwrap_or_default();
        let ends = exact && anchored && number == last && number > 0;
        let place = if ends {
            let place = behind.len().checked_sub(piece.len());
            place.filter(|place| behind.get(*place..).is_some_and(|end| same(end, piece)))
        } else if number == 0 {
            behind.get(..piece.len()).filter(|start| same(start, piece)).map(|_| 0)
        } else if piece.is_empty() {
            Some(0)
        } else {
            behind.windows(piece.len()).position(|part| same(part, piece))
        };
        match place {
            Some(place) => at += place + piece.len(),
            None if exact => return Fit::No,
            None if number == 0 => {
                let common = behind.len().min(piece.len());
                let alike =
                    behind.get(..common).zip(piece.get(..common)).is_some_and(|(a, b)| same(a, b));
                return if alike && behind.len() < piece.len() { Fit::Maybe } else { Fit::No };
            }
            None => return Fit::Maybe,
        }
    }
    match (exact, anchored) {
        (true, true) if at == known.len() => Fit::Yes(word.clone()),
        (true, true) => Fit::No,
        (false, true) => Fit::Maybe,
        (_, false) => Fit::Yes(rest_of(word, at)),
    }
}

/// Matches what stands behind the blanks that a word begins with.
fn fits_behind_blanks(pattern: &str, word: &Word) -> Fit {
    let blanks = |bytes: &[u8]| bytes.iter().take_while(|it| it.is_ascii_whitespace()).count();
    match &word.class {
        WordClass::Exact(bytes) => fits(pattern, &rest_of(word, blanks(bytes))),
        WordClass::Unknown { count: Count::One, prefix, .. } => {
            fits(pattern, &rest_of(word, blanks(prefix)))
        }
        WordClass::Unknown { .. } | WordClass::Pattern { .. } => Fit::Maybe,
    }
}

/// Returns the part of a word behind its first `at` known bytes.
fn rest_of(word: &Word, at: usize) -> Word {
    let cut = |bytes: &[u8]| bytes.get(at..).unwrap_or_default().to_vec();
    let class = match &word.class {
        WordClass::Exact(bytes) => WordClass::Exact(cut(bytes).into()),
        WordClass::Unknown { reason, count, prefix, suffix, joined } => WordClass::Unknown {
            joined: *joined,
            reason: *reason,
            count: *count,
            prefix: cut(prefix).into(),
            suffix: suffix.clone(),
        },
        WordClass::Pattern { .. } => word.class.clone(),
    };
    Word { span: word.span, class }
}
