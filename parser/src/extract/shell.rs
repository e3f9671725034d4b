//! State of a shell at one point of its text: values, directory, and changes to the meaning of the text.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::search::{self, contains};
use crate::word::build::Home;
use crate::{Bytes, Directory, StartState, Word};

/// Knowledge about a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Exactly this.
    Exact(Bytes),
    /// One that begins so.
    Begins(Bytes),
    /// Set on the way here, to an unknown value.
    Set,
    /// Nothing: it may have been set.
    Lost,
}

#[derive(Debug, Clone)]
struct Entry {
    value: Value,
    epoch: u32,
}

/// One shell process.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    values: HashMap<Bytes, Entry>,
    /// Changed names with what was there before, to undo changes.
    journal: Vec<(Bytes, Option<Entry>)>,
    epoch: u32,
    /// Values set before this epoch are not known any more.
    horizon: u32,
    /// Functions that are surely there, and how often each was defined on the way here.
    functions: HashMap<Vec<u8>, u32>,
    /// The same in order, to undo what a scope defined.
    defined: Vec<Vec<u8>>,
    /// Names of functions anywhere before.
    perhaps: HashSet<Vec<u8>>,
    /// The text does not take functions away.
    keeps_functions: bool,
    pub directory: Directory,
    /// Counts changes of the directory.
    pub directory_changes: u32,
    /// Cause for which the text after it means something else.
    pub shaken: Option<Rc<str>>,
    /// An opaque span says so already.
    pub told: bool,
    /// Values are followed at all: nothing in the text may make that wrong.
    pub follows: bool,
    pub home: Home,
    /// Values from the start that nothing in the text changes.
    fixed: Vec<(Vec<u8>, Vec<u8>)>,
    /// `$0` and on, when they are known.
    pub positional: Option<Vec<Word>>,
    /// The text changes the directory somewhere.
    pub moves: bool,
    /// Alias expansion is on.
    aliases: bool,
    /// Aliases were defined, with or without effect.
    aliased: bool,
    /// True if variables that the text does not set are unset, but for names of the start and of bash.
    closed: bool,
    /// Following values took too much work: none is known any more.
    lost: bool,
    /// Bytes that directories may still take in the list of commands.
    directory_bytes: usize,
}

/// The longest directory that is followed.
const DIRECTORY_LENGTH: usize = 4_096;
/// Bytes that known directories may take in one list of commands.
const DIRECTORY_BYTES: usize = 4 << 20;

/// A point since which changes are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    journal: usize,
    defined: usize,
    directory_changes: u32,
}

/// A point to which a shell can go back.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub mark: Mark,
    horizon: u32,
    directory: Directory,
    shaken: Option<Rc<str>>,
}

/// Words anywhere in a text that change variables in ways that are not followed.
const UNFOLLOWED: &[&[u8]] = &[
    b"readonly",
    b"declare",
    b"typeset",
    b"local",
    b"trap",
    b"DEBUG",
    b"set -o",
    b"set -k",
    b"coproc",
];

/// Variables that bash gives a meaning: their values are never followed.
const SPECIAL: &[&[u8]] = &[
    b"_",
    b"RANDOM",
    b"SRANDOM",
    b"SECONDS",
    b"LINENO",
    b"PWD",
    b"OLDPWD",
    b"HOME",
    b"IFS",
    b"PATH",
    b"OPTIND",
    b"OPTARG",
    b"OPTERR",
    b"REPLY",
    b"PIPESTATUS",
    b"EPOCHSECONDS",
    b"EPOCHREALTIME",
    b"DIRSTACK",
    b"FUNCNAME",
    b"GROUPS",
    b"UID",
    b"EUID",
    b"PPID",
    b"SHELLOPTS",
    b"SHLVL",
    b"MAPFILE",
    b"COPROC",
    b"LANG",
    b"TMOUT",
    b"HOSTNAME",
    b"POSIXLY_CORRECT",
    b"FIGNORE",
    b"GLOBIGNORE",
    b"IGNOREEOF",
    b"INPUTRC",
    b"TEXTDOMAIN",
    b"TEXTDOMAINDIR",
    b"TIMEFORMAT",
    b"TMPDIR",
    b"EXECIGNORE",
    b"FUNCNEST",
    b"CDPATH",
    b"CHILD_MAX",
    b"ENV",
    b"MAIL",
    b"MAILCHECK",
    b"MAILPATH",
    b"PROMPT_COMMAND",
    b"PROMPT_DIRTRIM",
    b"PS0",
    b"PS1",
    b"PS2",
    b"PS3",
    b"PS4",
    b"READLINE_LINE",
    b"READLINE_MARK",
    b"READLINE_POINT",
    b"READLINE_ARGUMENT",
    b"SHELL",
    b"OSTYPE",
    b"HOSTTYPE",
    b"MACHTYPE",
    b"LINES",
    b"COLUMNS",
    b"TERM",
    b"histchars",
];

impl Shell {
    /// The shell that the text starts in.
    pub(crate) fn new(start: &StartState, text: &[u8]) -> Shell {
        let known = start.known.iter().filter(|_| start.clean_environment);
        let fixed: Vec<(Vec<u8>, Vec<u8>)> =
            known.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut shell = Shell::with(start, text, fixed);
        shell.closed = start.closed_environment && shell.follows;
        shell.positional = (start.no_operands && shell.follows).then(Vec::new);
        shell
    }

    /// A shell that this one starts, with `text`.
    pub(crate) fn child(&self, start: &StartState, text: &[u8]) -> Shell {
        let mut shell = Shell::with(start, text, self.fixed.clone());
        // Whoever starts it may give it another home: `sudo`, `su`, `ssh`, `env`.
        shell.fixed.retain(|(name, _)| name != b"HOME");
        shell.home = match (&self.home, shell.home) {
            (Home::Unknown, _) | (_, Home::Unknown) => Home::Unknown,
            (Home::Known(_) | Home::Plain | Home::Absolute, _) => Home::Absolute,
        };
        shell
    }

    fn with(start: &StartState, text: &[u8], mut fixed: Vec<(Vec<u8>, Vec<u8>)>) -> Shell {
        fixed.retain(|(name, _)| (name == b"HOME" || !is_special(name)) && only_used(text, name));
        let follows =
            start.clean_environment && !UNFOLLOWED.iter().any(|word| contains(text, word));
        let home = match start.known.get(b"HOME".as_slice()) {
            _ if !start.clean_environment || contains(text, b"HOME=") => Home::Unknown,
            Some(home) => Home::Known(home.clone()),
            None => Home::Plain,
        };
        let moves = [b"cd".as_slice(), b"pushd", b"popd"].iter().any(|word| contains(text, word));
        Shell {
            values: HashMap::new(),
            journal: Vec::new(),
            epoch: 0,
            horizon: 0,
            functions: HashMap::new(),
            defined: Vec::new(),
            perhaps: HashSet::new(),
            keeps_functions: !contains(text, b"unset"),
            directory: Directory::Start,
            directory_changes: 0,
            shaken: None,
            told: false,
            follows,
            home,
            fixed,
            positional: None,
            moves,
            aliases: false,
            aliased: false,
            closed: false,
            lost: false,
            directory_bytes: DIRECTORY_BYTES,
        }
    }

    /// Bytes that what is known about variables takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // A table doubles when it is full.
        let values = self.values.len() * 2 * size_of::<(Bytes, Entry)>();
        values + self.journal.len() * size_of::<(Bytes, Option<Entry>)>()
    }

    /// Sets what is known about a variable; says whether nothing was known about it.
    pub(crate) fn set(&mut self, name: &[u8], value: Value) -> bool {
        let value = if self.follows && !is_special(name) {
            value
        } else {
            match value {
                Value::Exact(_) | Value::Begins(_) | Value::Set => Value::Set,
                Value::Lost => Value::Lost,
            }
        };
        if name == b"HOME" {
            self.home = Home::Unknown;
        }
        if self.lost {
            return false;
        }
        let entry = Entry { value, epoch: self.epoch };
        let name = Bytes::from(name);
        let old = self.values.insert(name.clone(), entry);
        let new = old.is_none();
        self.journal.push((name, old));
        new
    }

    /// The exact value of a variable, if it is known.
    pub(crate) fn exact(&self, name: &[u8]) -> Option<&[u8]> {
        if self.lost {
            return None;
        }
        let Some(entry) = self.values.get(name) else {
            return self
                .fixed
                .iter()
                .find(|(fixed, _)| fixed == name)
                .map(|(_, value)| value.as_slice());
        };
        match &entry.value {
            Value::Exact(value) if entry.epoch >= self.horizon => Some(value),
            Value::Exact(_) | Value::Begins(_) | Value::Set | Value::Lost => None,
        }
    }

    /// How the value of a variable begins, if that is known.
    pub(crate) fn beginning(&self, name: &[u8]) -> Option<&[u8]> {
        let entry = self.values.get(name).filter(|entry| entry.epoch >= self.horizon)?;
        match &entry.value {
            Value::Begins(beginning) if !self.lost => Some(beginning),
            Value::Begins(_) | Value::Exact(_) | Value::Set | Value::Lost => None,
        }
    }

    /// Says whether a variable is unset, if the text does not set it anywhere.
    pub(crate) fn may_be_unset(&self, name: &[u8]) -> bool {
        let known = self.values.contains_key(name) || self.fixed.iter().any(|(it, _)| it == name);
        self.closed && !self.lost && !known && !is_special(name)
    }

    /// Says whether the text surely set the variable before.
    pub(crate) fn is_set(&self, name: &[u8]) -> bool {
        !self.lost && self.values.get(name).is_some_and(|entry| entry.value != Value::Lost)
    }

    /// Stops following values.
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns the directory for an entry of the list of commands; not known when the list holds too much already.
    pub(crate) fn directory_for_list(&mut self) -> Directory {
        if let Directory::Known(path) = &self.directory {
            match self.directory_bytes.checked_sub(path.len()) {
                Some(left) => self.directory_bytes = left,
                None => self.go(Directory::Unknown),
            }
        }
        self.directory.clone()
    }

    /// Forgets all exact values: what ran may have changed any.
    pub(crate) fn forget(&mut self) {
        // A name may be written in pieces, so that the search for it finds nothing; a command further
        // down in a loop may then have changed it.
        self.fixed.clear();
        self.closed = false;
        self.home = Home::Unknown;
        self.positional = None;
        self.epoch = self.epoch.saturating_add(1);
        self.horizon = self.epoch;
    }

    /// Forgets how to go back: no scope is open, and no mark will be asked about.
    pub(crate) fn settle(&mut self) {
        self.journal.clear();
    }

    pub(crate) fn mark(&self) -> Mark {
        let (journal, defined) = (self.journal.len(), self.defined.len());
        Mark { journal, defined, directory_changes: self.directory_changes }
    }

    pub(crate) fn point(&self) -> Point {
        Point {
            mark: self.mark(),
            horizon: self.horizon,
            directory: self.directory.clone(),
            shaken: self.shaken.clone(),
        }
    }

    /// Undoes all changes since `point`: they were those of another process.
    pub(crate) fn undo(&mut self, point: Point) {
        self.undo_values(&point);
        self.directory = point.directory;
        self.directory_changes = point.mark.directory_changes;
        self.shaken = point.shaken;
    }

    /// Undoes the values, but not what shook the ground: a body that may run later.
    pub(crate) fn undo_body(&mut self, point: Point) {
        self.undo_values(&point);
        self.directory = point.directory;
        self.directory_changes = point.mark.directory_changes;
    }

    fn undo_values(&mut self, point: &Point) {
        self.undo_functions(point.mark);
        while self.journal.len() > point.mark.journal {
            let Some((name, old)) = self.journal.pop() else { break };
            match old {
                Some(entry) => self.values.insert(name, entry),
                None => self.values.remove(&name),
            };
        }
        self.horizon = point.horizon;
    }

    /// Forgets what changed since `mark`: it may or may not have happened. Returns the work done.
    pub(crate) fn blur(&mut self, mark: Mark) -> u64 {
        self.blur_directory(mark);
        self.undo_functions(mark);
        if self.lost {
            return 0;
        }
        let changed = self.journal.get(mark.journal..).unwrap_or_default();
        // The oldest change of a name comes last: what was before it decides.
        for (name, old) in changed.iter().rev() {
            let set = old.as_ref().is_some_and(|entry| entry.value != Value::Lost);
            if let Some(entry) = self.values.get_mut(name) {
                entry.value = if set { Value::Set } else { Value::Lost };
            }
        }
        changed.len() as u64
    }

    /// A function is defined, surely under the name that is told.
    pub(crate) fn define(&mut self, name: &[u8]) {
        self.may_define(name);
        *self.functions.entry(name.to_vec()).or_default() += 1;
        self.defined.push(name.to_vec());
    }

    /// A function may be defined under this name.
    pub(crate) fn may_define(&mut self, name: &[u8]) {
        self.perhaps.insert(name.to_vec());
    }

    /// Says whether the name is surely that of a function here, which nothing takes away.
    pub(crate) fn is_function(&self, name: &[u8]) -> bool {
        self.keeps_functions && self.functions.contains_key(name)
    }

    /// Says whether the name may be that of a function.
    pub(crate) fn may_be_function(&self, name: &[u8]) -> bool {
        self.perhaps.contains(name)
    }

    /// Functions may be taken away; says whether that was not to be seen in the text.
    pub(crate) fn unset_functions(&mut self) -> bool {
        std::mem::replace(&mut self.keeps_functions, false) && !self.perhaps.is_empty()
    }

    /// Forgets the functions that were defined since `mark`, which may not be there.
    fn undo_functions(&mut self, mark: Mark) {
        while self.defined.len() > mark.defined {
            let Some(name) = self.defined.pop() else { break };
            match self.functions.get_mut(&name) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) | None => drop(self.functions.remove(&name)),
            }
        }
    }

    /// The directory is not known any more if it changed since `mark`.
    pub(crate) fn blur_directory(&mut self, mark: Mark) {
        if self.directory_changes != mark.directory_changes {
            self.directory = Directory::Unknown;
        }
    }

    /// The directory changes.
    pub(crate) fn go(&mut self, directory: Directory) {
        self.directory = match directory {
            Directory::Known(path) if path.len() > DIRECTORY_LENGTH => Directory::Unknown,
            Directory::Known(_) | Directory::Start | Directory::Unknown => directory,
        };
        self.directory_changes = self.directory_changes.saturating_add(1);
    }

    /// Aliases are expanded from the next line on, also those that were defined before.
    pub(crate) fn expand_aliases(&mut self) {
        self.aliases = true;
        if self.aliased {
            self.shake("aliases count that were defined before".to_owned());
        }
    }

    /// An alias is defined; says whether it counts.
    pub(crate) fn define_alias(&mut self) -> bool {
        self.aliased = true;
        self.aliases
    }

    /// From here on, text may mean something else.
    pub(crate) fn shake(&mut self, detail: String) {
        if self.shaken.is_none() {
            self.shaken = Some(detail.into());
        }
    }
}

/// Says whether the text mentions a variable only behind `$` or `${`, and surely not to set it there.
pub(crate) fn only_used(text: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| search::word(rest, name)) {
        let (start, end) = (at + found, at + found + name.len());
        let before = text.get(..start).unwrap_or_default();
        let after = text.get(end..).unwrap_or_default();
        let sets = [b"=".as_slice(), b":=", b"[", b"\\"].iter().any(|it| after.starts_with(it));
        let braced = before.ends_with(b"${") && !sets;
        if !(before.ends_with(b"$") || braced) {
            return false;
        }
        at = end;
    }
    true
}

pub(crate) fn is_special(name: &[u8]) -> bool {
    // All of them begin with one of these.
    let candidate = |first: &u8| first.is_ascii_uppercase() || matches!(first, b'_' | b'h');
    name.first().is_some_and(candidate) && is_listed_or_prefixed(name)
}

fn is_listed_or_prefixed(name: &[u8]) -> bool {
    SPECIAL.contains(&name)
        || [b"BASH".as_slice(), b"HIST", b"COMP", b"LC_", b"LD_"]
            .iter()
            .any(|p| name.starts_with(p))
}
