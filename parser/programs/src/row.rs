//! Contents of a row: option grammar, options, operands, forms, sub-commands, and the meaning of each value.

use std::sync::Arc;

use crate::{Dialect, EffectKind, Locality, Reason};

/// Entry of the tables for one program.
#[derive(Debug, Clone)]
pub struct Row {
    /// The first name.
    pub name: String,
    /// When rules look through it.
    pub strip: Strip,
    /// True if the row describes the builtin of bash; the program of the same name evaluates and starts nothing.
    pub builtin: bool,
    /// True if the command that it starts, or the shell that it is, has its own standard input and reads nothing else
    /// for it.
    pub input: bool,
    /// True if the program prints one word, in which there is no blank, or nothing.
    pub one_word: bool,
    /// True if the row tells only some of the effects of the program: they are never taken for complete.
    pub partial: bool,
    /// Options that it does not list are the word of who allows the program, as where it has no row.
    pub loose: bool,
    /// Options and operands.
    pub body: Body,
    /// Examples, each with what must come out; checked by a unit test.
    #[cfg_attr(not(test), allow(dead_code, reason = "read by the table test"))]
    pub tests: Vec<(String, String)>,
}

/// When rules look through a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strip {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When it has no option.
    WithoutOptions,
}

/// Options and operands of a program or sub-command.
#[derive(Debug, Clone)]
pub struct Body {
    /// How options are written.
    pub grammar: Grammar,
    /// True if unknown words make the command doubtful, not only its effects.
    pub strict: bool,
    /// With only known harmless words it just reads.
    pub read_only: bool,
    /// No option, known here or not, does more than the row says.
    pub pure: bool,
    /// Where the commands run that it starts.
    pub locality: Locality,
    /// The options.
    pub options: Vec<Arc<OptionRow>>,
    /// The operands, if no form says otherwise.
    pub operands: Vec<Operand>,
    /// Effects that the command has in any case.
    pub effects: Vec<Slot>,
    /// Readings that depend on the options present; the first that fits counts.
    pub forms: Vec<Form>,
    /// Sub-commands; if there are some, the first operand names one.
    pub commands: Vec<(Vec<String>, Body)>,
    /// Effects of a sub-command that is not listed.
    pub otherwise: Vec<Slot>,
    /// A missing sub-command or inner command does this.
    pub bare: Vec<Slot>,
    /// Possible effects of options (and of those of sub-commands).
    pub danger: Danger,
}

/// How the options of a program are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grammar {
    /// The family.
    pub style: Style,
    /// Options may stand behind operands.
    pub permute: bool,
    /// A long option may be shortened as far as it stays unambiguous.
    pub abbrev: bool,
    /// `-` and digits is an option.
    pub number: bool,
    /// `--end-of-options` ends the options, and only those: git.
    pub end_of_options: bool,
}

/// Families of option grammars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Short options in clusters, long ones with two dashes, `--`.
    Dashes,
    /// As `Dashes`; the first word may be a cluster without dash whose values follow.
    Tar,
    /// As `Dashes`; values of short options always stand in the next word, `+` options exist.
    Shell,
    /// One or two dashes and a name, value attached with `=` or in the next word.
    Single,
    /// The expression of find.
    Find,
    /// The expression of test.
    Test,
    /// No options at all.
    None,
}

/// One option.
#[derive(Debug, Clone)]
pub struct OptionRow {
    /// Its names with dashes.
    pub names: Vec<String>,
    /// How it takes a value.
    pub takes: Takes,
    /// Meaning: of the values for [`Takes::Values`] and [`Takes::Optional`], else of the option itself.
    pub slots: Vec<Slot>,
    /// Everything behind it is an operand.
    pub stop: bool,
}

/// How an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The option takes no value.
    Nothing,
    /// As many as there are slots; the first may be attached.
    Values,
    /// One, only attached.
    Optional,
}

/// One operand.
#[derive(Debug, Clone)]
pub struct Operand {
    /// Its meaning.
    pub slot: Slot,
    /// How often.
    pub times: Times,
}

/// How many operands a slot takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// One.
    One,
    /// One or none; those before a [`Times::Many`] are filled first.
    Optional,
    /// All that the slots around leave.
    Many,
}

/// A reading that holds when certain options are present.
#[derive(Debug, Clone)]
pub struct Form {
    /// One of these is present; empty: no condition.
    pub with: Vec<String>,
    /// None of these is present.
    pub without: Vec<String>,
    /// The operands.
    pub operands: Vec<Operand>,
    /// Effects of the command.
    pub effects: Vec<Slot>,
    /// Options whose values have another meaning in this form.
    pub values: Vec<(String, Slot)>,
    /// With only known harmless words it just reads.
    pub read_only: bool,
}

/// The meaning of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// Harmless.
    Plain,
    /// Not known what it does.
    Unknown,
    /// The rest is the words of a command.
    Command(Input),
    /// The words up to `;` or `+` are a command, in which `{}` is a found file.
    CommandUntil,
    /// The rest is a command whose words pass through a shell after something is put in.
    CommandThroughShell,
    /// Shell text in a new shell.
    Text(Dialect),
    /// Text of a shell with another language.
    ForeignText,
    /// Text in this shell.
    Eval,
    /// The rest, joined by blanks, is shell text in a new shell.
    Words,
    /// The rest, joined by blanks, is shell text in this shell.
    EvalWords,
    /// Text that is split into words which stand in for this one.
    Split,
    /// One word that names a program.
    Program,
    /// One word that stands in front of the inner command.
    Entry,
    /// As the slot within, on this machine although the command runs elsewhere.
    Local(Box<Slot>),
    /// Several meanings at once.
    Both(Vec<Slot>),
    /// `$0` and on of the text before.
    Positional,
    /// Assignments up to the first word that is none.
    Assignments,
    /// As `Assignments`, and options may stand between them.
    AssignmentsAndOptions,
    /// Options may stand here again.
    Options,
    /// The same, but only for an option whose value is a shell text.
    TextOption,
    /// A sed program.
    Sed,
    /// An awk program.
    Awk,
    /// Text of a program that can start others; it is not read.
    Code,
    /// The same on standard input, when the command says what is there.
    StdinCode,
    /// A file with the text of a program: read and run; not read if the text does not tell which file it is.
    ProgramFile,
    /// Part of a program's text: harmless as a plain name, else it is not read.
    NameOrCode,
    /// A file with shell text, which a new shell runs with the words behind it.
    Script,
    /// Standard input is the program.
    StdinProgram(Dialect),
    /// This makes the command doubtful.
    Doubt(Reason),
    /// An effect on what the value names.
    Effect(EffectKind),
    /// An effect on something that the value only hints at; none without a value.
    Somewhere(EffectKind),
    /// A file that is read and written.
    Edit,
    /// The directory into which it changes first.
    Directory,
    /// Text that xargs replaces in the words of its command.
    Replace,
    /// A variable name whose subscript is evaluated.
    Variable,
    /// An expression.
    Arithmetic,
    /// The first pattern that fits the value decides.
    Match(Vec<(String, Slot)>),
}

/// Words that a wrapper adds to those of its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    None,
    /// Words that it reads, at the end or where they replace something; without words, `echo` runs.
    Xargs,
    /// File names that it finds, where `{}` stands or at the end.
    Found,
    /// Nothing; a shell in between starts it, for which its words are quoted.
    Shell,
}

/// Kinds of things that options could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Danger {
    /// Something makes an inner command, or code runs.
    pub execute: bool,
    /// Loads code, or runs code of the project.
    pub load: bool,
    /// Writes files.
    pub write: bool,
    /// Uses the network.
    pub network: bool,
    /// Changes settings.
    pub settings: bool,
}

impl Slot {
    /// Adds what a value of this meaning does to `danger`.
    pub fn add_to(&self, danger: &mut Danger) {
        match self {
            Slot::Plain
            | Slot::Unknown
            | Slot::Positional
            | Slot::Options
            | Slot::TextOption
            | Slot::Replace => {}
            Slot::Assignments | Slot::AssignmentsAndOptions | Slot::Directory => {}
            Slot::Effect(kind) | Slot::Somewhere(kind) => match kind {
                EffectKind::ReadOnly | EffectKind::Read => {}
                EffectKind::Execute => danger.execute = true,
                EffectKind::LoadCode | EffectKind::ProjectCode => danger.load = true,
                EffectKind::Write => danger.write = true,
                EffectKind::Network => danger.network = true,
                EffectKind::Settings => danger.settings = true,
            },
            Slot::Edit => danger.write = true,
            Slot::Both(slots) => slots.iter().for_each(|slot| slot.add_to(danger)),
            Slot::Match(cases) => cases.iter().for_each(|(_, slot)| slot.add_to(danger)),
            Slot::Command(_)
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
            | Slot::StdinProgram(_)
            | Slot::Code
            | Slot::StdinCode
            | Slot::ProgramFile
            | Slot::NameOrCode
            | Slot::Doubt(_)
            | Slot::Variable
            | Slot::Arithmetic => danger.execute = true,
        }
    }

    /// Says whether this meaning takes all the words that are left.
    pub fn takes_rest(&self) -> bool {
        matches!(self, Slot::Command(_) | Slot::CommandThroughShell | Slot::Words | Slot::EvalWords)
    }
}

impl Danger {
    /// Returns what either of the two does.
    pub fn or(self, other: Danger) -> Danger {
        Danger {
            execute: self.execute || other.execute,
            load: self.load || other.load,
            write: self.write || other.write,
            network: self.network || other.network,
            settings: self.settings || other.settings,
        }
    }

    /// Returns the kinds as effects.
    pub fn kinds(self) -> impl Iterator<Item = EffectKind> {
        [
            (self.execute, EffectKind::Execute),
            (self.load, EffectKind::LoadCode),
            (self.write, EffectKind::Write),
            (self.network, EffectKind::Network),
            (self.settings, EffectKind::Settings),
        ]
        .into_iter()
        .filter_map(|(present, kind)| present.then_some(kind))
    }
}
