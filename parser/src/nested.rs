//! Commands inside commands: what a program starts because of its words, from the program tables.

mod assignment;
mod effects;
mod find;
pub(crate) mod operand_meaning;
pub(crate) mod shell;

use std::collections::HashSet;

use crate::EffectKind;
use crate::distinct::Distinct;
use crate::nested::assignment::{AssignmentShape, assignment};
use crate::options::{Argument, Scanner, Seen, Trouble, is_many, reachable};
use crate::{
    Assignment, CommandKind, Count, Effect, Locality, Reason, SimpleCommand, Stdin, Thin, Word,
    WordClass,
};
use stockade_programs::row::{Body, Danger, Input, Operand, Row, Slot, Strip, Style, Takes, Times};
use stockade_programs::{Dialect, Lookup, Rows};

/// Reading of one command by the tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// Commands and texts that it starts, in the order of its words.
    pub inner: Vec<Inner>,
    /// Effects of its options and operands.
    pub effects: Vec<Effect>,
    /// A row covers the program and knew every option and operand.
    pub effects_known: bool,
    /// Why it could start something that is not in `inner`.
    pub doubts: Vec<Doubt>,
    /// The word with text that can start programs and is not read.
    pub unread: Option<u32>,
    /// The word with the file of a script that it runs; the first of `inner` that has its words is that script.
    pub script: Option<u32>,
    /// True if the command that it starts, or the shell that it is, has its own standard input.
    pub same_input: bool,
    /// True if it reads such a text from the standard input of the shell.
    pub reads_code: bool,
}

/// A part of a command that could start something that is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Why.
    pub reason: Reason,
    /// The word that causes it, as index into the words; the whole command if none.
    pub word: Option<u32>,
    /// Exact cause, for people.
    pub detail: String,
    /// How to write it so that it is understood; empty when there is no such way.
    pub help: String,
}

/// Something that a command starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Inner {
    /// A command, given as words.
    Command(InnerCommand),
    /// Text that a shell evaluates.
    Text(InnerText),
}

/// A command that another one starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InnerCommand {
    /// Name of the row of the wrapper.
    pub program: String,
    /// The words of the inner command.
    pub words: Vec<Word>,
    /// Variables that the wrapper sets for it.
    pub assignments: Vec<Assignment>,
    /// Rules look through the wrapper.
    pub strip: bool,
    /// Where it runs.
    pub locality: Locality,
    /// The directory into which the wrapper changes first.
    pub directory: Option<Word>,
    /// Where its standard input comes from, if the wrapper decides that.
    pub stdin: Option<Stdin>,
    /// The words of the shell in between; none if the program starts it itself.
    pub shell: Vec<Word>,
}

/// Text that a command has evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InnerText {
    /// Name of the row of the evaluator.
    pub program: String,
    /// Index of the word that holds the text, or of its first word.
    pub word: u32,
    /// The text.
    pub bytes: Vec<u8>,
    /// The language.
    pub dialect: Dialect,
    /// `$0` and on, where the row says which words they are.
    pub positional: Option<Vec<Word>>,
    /// Rules look through the evaluator.
    pub strip: bool,
    /// Where it runs.
    pub locality: Locality,
    /// A new shell process, such as `bash -c`, not this shell, such as `eval`.
    pub child: bool,
    /// The words of the shell that the program starts for it; none if the program is that shell.
    pub shell: Vec<Word>,
}

/// Reads one command with the tables.
pub(crate) fn read(rows: &mut Rows, command: &SimpleCommand) -> Reading {
    let Some(first) = command.words.first().and_then(Word::exact) else {
        return Reading::default();
    };
    let (directory, name) = match first.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (first.get(..at), first.get(at + 1..).unwrap_or_default()),
        None => (None, first),
    };
    let (row, named) = match rows.look_up(name) {
        Lookup::None => return Reading::default(),
        Lookup::Broken => {
            let doubt = Doubt {
                reason: Reason::UnknownWrapperForm,
                word: Some(0),
                detail: "the table of programs cannot be read".into(),
                help: String::new(),
            };
            return Reading { doubts: vec![doubt], ..Reading::default() };
        }
        Lookup::Row(row) => (row, true),
        Lookup::Variant(row) => (row, false),
    };
    let trusted = named
        && directory.is_none_or(|path| SYSTEM_DIRECTORIES.contains(&path))
        && command.kind != CommandKind::Function;
    let mut reader = Reader::new(row, command, trusted);
    let arguments = command.words.iter().skip(1).zip(1_u32..);
    let arguments = arguments.map(|(word, index)| Argument { word: word.clone(), index }).collect();
    reader.body(&row.body, arguments);
    reader.finish()
}

/// Directories whose programs are those of the system; elsewhere a name says nothing.
const SYSTEM_DIRECTORIES: [&[u8]; 4] = [b"/bin", b"/usr/bin", b"/sbin", b"/usr/sbin"];

/// Says whether a path names a program in a directory of the system.
pub(crate) fn is_of_the_system(path: &[u8]) -> bool {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..end).is_some_and(|directory| SYSTEM_DIRECTORIES.contains(&directory))
}

/// Collects what one command does.
pub(crate) struct Reader<'a> {
    pub(crate) row: &'a Row,
    pub(crate) command: &'a SimpleCommand,
    pub(crate) reading: Reading,
    /// The first word names a program of the system.
    trusted: bool,
    /// Rules look through it.
    pub(crate) strip: bool,
    /// True if unknown words are a doubt.
    pub(crate) strict: bool,
    /// Words that are not known do no more than what the row says.
    pure: bool,
    /// Words that the row does not know say nothing: it is that of a builtin, and the command is the harmless program of the
    /// same name; or it tells of a few options alone.
    pub(crate) outside: bool,
    /// True if the command just reads, as far as its form tells.
    read_only: bool,
    pub(crate) locality: Locality,
    /// The directory into which it changes first.
    pub(crate) directory: Option<Word>,
    /// Text that xargs replaces; an inexact word if that is not known.
    pub(crate) replace: Option<Word>,
    pub(crate) assignments: Vec<Assignment>,
    /// Meanings of option values in the form that holds.
    values: &'a [(String, Slot)],
    /// The word that names the program or sub-command that is being read.
    pub(crate) at: u32,
    /// A word that an option puts in front of the inner command.
    pub(crate) entry: Option<Argument>,
    /// The words of the shell that starts the inner command.
    pub(crate) shell: Vec<Word>,
    /// The sed scripts, which are one program.
    pub(crate) sed: Vec<Argument>,
    pub(crate) inner_seen: Distinct,
    doubts_seen: HashSet<(Reason, u32)>,
}

impl<'a> Reader<'a> {
    fn new(row: &'a Row, command: &'a SimpleCommand, trusted: bool) -> Reader<'a> {
        Reader {
            row,
            command,
            reading: Reading { effects_known: true, ..Reading::default() },
            trusted,
            strip: trusted && row.strip == Strip::Always,
            strict: row.body.strict,
            pure: row.body.pure,
            outside: row.loose || (row.builtin && command.kind == CommandKind::External),
            read_only: false,
            locality: Locality::Here,
            directory: None,
            replace: None,
            assignments: Vec::new(),
            values: &[],
            at: 0,
            entry: None,
            shell: Vec::new(),
            sed: Vec::new(),
            inner_seen: Distinct::default(),
            doubts_seen: HashSet::new(),
        }
    }

    /// Reads options and operands of a program or sub-command.
    fn body(&mut self, body: &'a Body, arguments: Vec<Argument>) {
        let (mut body, mut arguments) = (body, arguments);
        // Sub-commands are nested as deeply as the table has them.
        loop {
            self.strict = body.strict;
            self.pure = body.pure;
            self.locality = body.locality;
            body.effects.iter().for_each(|slot| self.effect_of_command(slot));
            if body.grammar.style == Style::Find {
                self.read_only |= body.read_only;
                return self.find(body, arguments);
            }
            let mut scanner = Scanner::new(body, arguments);
            scanner.options();
            if body.commands.is_empty() || begins_with_operand(body, scanner.peek()) {
                return self.form(body, scanner);
            }
            self.options_seen(body, &mut scanner, 0);
            let Some(name) = scanner.next() else {
                if self.read_only {
                    return;
                }
                body.bare.iter().for_each(|slot| self.effect_of_command(slot));
                if body.bare.is_empty() {
                    self.unclear(0, "no sub-command");
                }
                return;
            };
            let found = name.word.exact().and_then(|name| sub_command(body, name));
            match found {
                Some(inner) => {
                    self.at = name.index;
                    (body, arguments) = (inner, scanner.rest());
                }
                None => return self.other_command(body, &name, &scanner.rest()),
            }
        }
    }

    fn other_command(&mut self, body: &'a Body, name: &Argument, rest: &[Argument]) {
        let Some(exact) = name.word.exact() else { return self.dynamic(body, name) };
        // Behind an option that no table has, a sub-command that starts programs may still come.
        let starts = |word: &Argument| match word.word.exact() {
            Some(word) => sub_command(body, word).is_some_and(|inner| inner.strict),
            None => body.commands.iter().any(|(_, inner)| inner.strict),
        };
        if exact.starts_with(b"-") && rest.iter().any(starts) && !self.outside {
            self.reading.effects_known = false;
            let detail = format!("an option that is not known, in `{}`", self.row.name);
            self.doubt(Reason::UnknownWrapperForm, name.index, &detail);
        } else if body.otherwise.is_empty() {
            self.unclear(name.index, "a sub-command that is not known");
        } else {
            self.reading.effects_known = false;
            body.otherwise.iter().for_each(|slot| self.apply_flag(slot, name));
        }
    }

    fn form(&mut self, body: &'a Body, mut scanner: Scanner<'a>) {
        if self.row.strip == Strip::WithoutOptions {
            self.strip = self.trusted && scanner.seen.is_empty() && scanner.troubles.is_empty();
        }
        let form = body.forms.iter().find(|form| {
            let seen = |name: &String| scanner.seen.iter().any(|seen| seen.is(name));
            (form.with.is_empty() || form.with.iter().any(seen)) && !form.without.iter().any(seen)
        });
        self.values = form.map(|form| form.values.as_slice()).unwrap_or_default();
        self.options_seen(body, &mut scanner, 0);
        if body.grammar.style == Style::Test {
            self.test_expression(&scanner.rest());
        }
        match form {
            Some(form) => {
                self.read_only |= form.read_only;
                form.effects.iter().for_each(|slot| self.effect_of_command(slot));
                self.operands(body, &form.operands, &mut scanner);
            }
            None => {
                self.read_only |= body.read_only;
                self.operands(body, &body.operands, &mut scanner);
            }
        }
    }

    /// Applies the options that were seen from number `from` on, and says what was not understood.
    fn options_seen(&mut self, body: &Body, scanner: &mut Scanner<'a>, from: usize) {
        self.troubles(body, std::mem::take(&mut scanner.troubles));
        let seen: Vec<Seen<'a>> = scanner.seen.iter().skip(from).cloned().collect();
        for seen in seen {
            self.option(&seen);
        }
    }

    /// Says what was not understood.
    pub(crate) fn troubles(&mut self, body: &Body, troubles: Vec<Trouble>) {
        for trouble in troubles {
            match trouble {
                Trouble::UnknownOption(index, name) => self.unknown_option(body, index, &name),
                Trouble::Dynamic(argument) => self.dynamic(body, &argument),
                Trouble::Split(index) => {
                    self.doubt(Reason::EvaluatorText, index, "the text to be split is not plain");
                }
            }
        }
    }

    fn option(&mut self, seen: &Seen<'a>) {
        let here = |index| Argument { word: self.word(index), index };
        match seen.option.takes {
            Takes::Nothing => {
                let option = here(seen.index);
                seen.option.slots.iter().for_each(|slot| self.apply_flag(slot, &option));
            }
            Takes::Optional if seen.values.is_empty() => {
                let option = here(seen.index);
                seen.option.slots.iter().for_each(|slot| self.apply_flag(slot, &option));
            }
            Takes::Values | Takes::Optional => {
                if let Some(slot @ (Slot::Command(_) | Slot::CommandThroughShell)) =
                    seen.option.slots.first()
                {
                    return self.rest(slot, seen.values.clone());
                }
                let named = |(name, _): &&(String, Slot)| seen.option.names.contains(name);
                let other = self.values.iter().find(named).map(|(_, slot)| slot);
                for (slot, value) in seen.option.slots.iter().zip(&seen.values) {
                    self.apply(other.unwrap_or(slot), value);
                }
            }
        }
    }

    /// Returns a word of the command.
    pub(crate) fn word(&self, index: u32) -> Word {
        let word = usize::try_from(index).ok().and_then(|at| self.command.words.get(at));
        word.cloned().unwrap_or_else(|| Word { span: self.command.span, class: nothing_known() })
    }

    fn operands(&mut self, body: &'a Body, operands: &'a [Operand], scanner: &mut Scanner<'a>) {
        for (at, operand) in operands.iter().enumerate() {
            let after: usize =
                operands.iter().skip(at + 1).filter(|next| next.times == Times::One).count();
            match (&operand.slot, operand.times) {
                (slot @ (Slot::Options | Slot::TextOption), _) => {
                    let from = scanner.seen.len();
                    scanner.options();
                    // Some programs know only the option with the text here, and take another for the command.
                    let mut seen = scanner.seen.iter().skip(from);
                    let only_text =
                        seen.all(|seen| matches!(seen.option.slots.first(), Some(Slot::Text(_))));
                    self.options_seen(body, scanner, from);
                    if *slot == Slot::TextOption && !only_text {
                        self.unclear(0, "an option after an operand");
                    }
                }
                (Slot::Assignments | Slot::AssignmentsAndOptions, _) => {
                    self.assignment_operands(body, &operand.slot, scanner);
                }
                (slot, _) if slot.takes_rest() => {
                    if scanner.left() == 0 && *slot != Slot::Command(Input::Xargs) {
                        return self.without_command(body, slot);
                    }
                    return self.rest(slot, scanner.rest());
                }
                (slot, Times::One | Times::Optional) => {
                    if operand.times == Times::Optional && scanner.left() <= after {
                        continue;
                    }
                    let Some(argument) = scanner.next() else {
                        if !self.reading.inner.is_empty() {
                            continue;
                        }
                        body.bare.iter().for_each(|slot| self.effect_of_command(slot));
                        continue;
                    };
                    if is_many(&argument.word) && operands.len() > 1 {
                        return self.shifted(operands, &argument, scanner);
                    }
                    self.apply(slot, &argument);
                }
                (Slot::Positional, Times::Many) => {
                    let words = scanner.rest().into_iter().map(|argument| argument.word).collect();
                    self.positional(words);
                }
                (slot, Times::Many) => {
                    while scanner.left() > after {
                        let Some(argument) = scanner.next() else { break };
                        self.apply(slot, &argument);
                    }
                }
            }
        }
        if let Some(argument) = scanner.next() {
            self.unclear(argument.index, "an operand too many");
        }
    }

    /// No word is left for the command of a wrapper.
    fn without_command(&mut self, body: &Body, slot: &Slot) {
        let entered = self.entry.is_some() && !self.strict;
        self.command(Vec::new());
        if entered {
            return;
        }
        body.bare.iter().for_each(|slot| self.effect_of_command(slot));
        if body.bare.is_empty() && !matches!(slot, Slot::EvalWords) {
            self.unclear(0, "no command");
        }
    }

    /// An operand may be any number of words: each slot may hold each of the words that are left.
    fn shifted(&mut self, operands: &[Operand], first: &Argument, scanner: &mut Scanner<'a>) {
        let mut rest = vec![first.clone()];
        rest.extend(scanner.rest());
        for operand in operands {
            let mut danger = Danger::default();
            operand.slot.add_to(&mut danger);
            if danger.execute {
                self.doubt(Reason::DynamicOption, first.index, "may become several words");
                if operand.slot.takes_rest() {
                    self.rest(&operand.slot, rest.clone());
                }
                continue;
            }
            for argument in &rest {
                self.apply(&operand.slot, argument);
            }
        }
    }

    fn assignment_operands(&mut self, body: &'a Body, slot: &Slot, scanner: &mut Scanner<'a>) {
        loop {
            if *slot == Slot::AssignmentsAndOptions {
                let from = scanner.seen.len();
                scanner.options();
                self.options_seen(body, scanner, from);
            }
            let Some(argument) = scanner.peek() else { return };
            match assignment(&argument.word) {
                AssignmentShape::Yes(assignment) => self.assignments.push(assignment),
                AssignmentShape::No => return,
                AssignmentShape::Maybe => {
                    let argument = argument.clone();
                    return self.dynamic(body, &argument);
                }
            }
            let _ = scanner.next();
        }
    }

    fn unknown_option(&mut self, body: &Body, index: u32, name: &str) {
        self.reading.effects_known = false;
        if self.outside {
            return;
        }
        if self.strict {
            let detail = format!("`{name}` of `{}`", self.row.name);
            self.doubt(Reason::UnknownOption, index, &detail);
        } else {
            self.anything(index);
            body.danger.kinds().for_each(|kind| self.effect(kind, index, None));
        }
    }

    /// Adds the effect of an unknown word, which could start a program, unless the row says that it does not.
    fn anything(&mut self, index: u32) {
        if !self.pure {
            self.effect(EffectKind::Execute, index, None);
        }
    }

    /// A word could be an option, or several words.
    fn dynamic(&mut self, body: &Body, argument: &Argument) {
        if self.outside {
            self.reading.effects_known = false;
            return;
        }
        let find = body.grammar.style == Style::Find;
        if self.strict && !find {
            self.reading.effects_known = false;
            return self.doubt(Reason::DynamicOption, argument.index, "could be an option");
        }
        let danger = reachable(&argument.word, body);
        if danger.kinds().next().is_none() {
            self.reading.effects_known &= body.pure || find;
            if !find {
                self.anything(argument.index);
            }
            return;
        }
        self.reading.effects_known = false;
        if danger.execute {
            let detail = "could be an option that runs a program";
            let help = match body.grammar.end_of_options {
                true => "put `--end-of-options` before it",
                false => "",
            };
            self.doubt_with(Reason::DynamicOption, argument.index, detail, help);
        }
        danger.kinds().for_each(|kind| self.effect(kind, argument.index, None));
    }

    pub(crate) fn unclear(&mut self, index: u32, what: &str) {
        self.reading.effects_known = false;
        if self.strict {
            let detail = format!("{what}, in `{}`", self.row.name);
            self.doubt(Reason::UnknownWrapperForm, index, &detail);
        } else if !self.outside {
            self.anything(index);
        }
    }

    pub(crate) fn doubt(&mut self, reason: Reason, index: u32, detail: &str) {
        self.doubt_with(reason, index, detail, "");
    }

    /// Notes a doubt that has a help of its own.
    pub(crate) fn doubt_with(&mut self, reason: Reason, index: u32, detail: &str, help: &str) {
        if self.doubts_seen.insert((reason, index)) {
            let (detail, help) = (detail.to_owned(), help.to_owned());
            self.reading.doubts.push(Doubt { reason, word: Some(index), detail, help });
        }
    }

    /// Marks the command as one that only reads, unless something says otherwise.
    pub(crate) fn claim_read_only(&mut self) {
        self.read_only = true;
    }

    fn finish(mut self) -> Reading {
        self.finish_sed();
        effects::conclude(&mut self.reading, self.read_only && self.trusted);
        self.reading.same_input = self.trusted && self.row.input;
        if !self.trusted || self.row.partial {
            self.reading.effects_known = false;
        }
        self.reading
    }
}

/// Says whether a row with sub-commands and operands is used without a sub-command.
fn begins_with_operand(body: &Body, first: Option<&Argument>) -> bool {
    let named = |word: &[u8]| sub_command(body, word).is_some();
    !body.operands.is_empty()
        && body.otherwise.is_empty()
        && first.is_none_or(|first| first.word.exact().is_some_and(|it| !named(it)))
}

fn sub_command<'a>(body: &'a Body, name: &[u8]) -> Option<&'a Body> {
    let named = |names: &Vec<String>| names.iter().any(|known| known.as_bytes() == name);
    body.commands.iter().find(|(names, _)| named(names)).map(|(_, inner)| inner)
}

fn nothing_known() -> WordClass {
    WordClass::Unknown {
        reason: Reason::Substitution,
        count: Count::Any,
        prefix: Thin::EMPTY,
        suffix: Thin::EMPTY,
        joined: false,
    }
}

#[cfg(test)]
mod tests;
