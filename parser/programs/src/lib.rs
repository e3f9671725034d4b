//! The program tables: which programs start others, and what options and operands do.
//!
//! A table is JSONC text. Loading it only finds where each row stands; a row is read when a command
//! names its program, and kept. The format of a row is in `docs/internals/programs.md`.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod index;
mod kinds;
mod load;
mod names;
mod places {
    //! Where the rows of the built-in tables stand, found when this was built.
    use super::index::{ByteRange, Places};
    use std::borrow::Cow::Borrowed;
    include!(concat!(env!("OUT_DIR"), "/places.rs"));
}
mod reason;
pub mod row;
pub mod tables;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

pub use kinds::{Dialect, EffectKind, Locality};
pub use reason::Reason;

use index::Table;
use names::Names;
use row::{Body, Row};

/// The tables that are built in, in the order in which they are looked up.
const BUILTIN: [&str; 4] = [
    include_str!("../../../policies/commands/wrappers.jsonc"),
    include_str!("../../../policies/commands/evaluators.jsonc"),
    include_str!("../../../policies/commands/effects.jsonc"),
    include_str!("../../../policies/commands/read_only.jsonc"),
];

/// The program tables: which programs run others, and what options do.
///
/// The default value knows no program at all, so every command has unknown effects.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    tables: Vec<Arc<Loaded>>,
    /// A table could not be read: every command is doubtful.
    broken: bool,
}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// Line, from 1.
    pub line: u32,
    /// Error message, in one sentence.
    pub message: String,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TableError {}

/// One table and the rows of it that were read so far.
#[derive(Debug)]
struct Loaded {
    table: Table,
    sets: OnceLock<Result<load::Sets, TableError>>,
    defaults: OnceLock<Result<Body, TableError>>,
    rows: Vec<OnceLock<Box<Result<Row, TableError>>>>,
    examples: Examples,
}

/// Says whether examples and sources of rows are read too: they are for tests and people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Examples {
    Read,
    Skipped,
}

impl Loaded {
    fn new(text: std::borrow::Cow<'static, str>) -> Result<Loaded, TableError> {
        Ok(Loaded::of(Table::new(text)?, Examples::Read))
    }

    fn of(table: Table, examples: Examples) -> Loaded {
        let rows = (0..table.count()).map(|_| OnceLock::new()).collect();
        Loaded { table, sets: OnceLock::new(), defaults: OnceLock::new(), rows, examples }
    }

    fn row(&self, number: usize) -> Option<&Result<Row, TableError>> {
        let cell = self.rows.get(number)?;
        let read = || {
            let defaults = self.defaults.get_or_init(|| load::defaults(&self.table));
            let defaults = defaults.as_ref().map_err(Clone::clone)?;
            let sets = || {
                let sets = self.sets.get_or_init(|| load::sets(&self.table));
                sets.as_ref().map_err(Clone::clone)
            };
            load::row(&self.table, number, self.examples, &sets, defaults)
        };
        Some(cell.get_or_init(|| Box::new(read())))
    }
}

/// Says whether a command of these words prints one whole number and nothing else, or nothing at all.
pub fn prints_number(words: &[&[u8]]) -> bool {
    Names::builtin().is_some_and(|names| names.prints_number(words))
}

/// Result of looking up a name in the tables.
#[derive(Clone, Copy)]
pub enum Lookup<'a> {
    /// Nothing: its effects are unknown.
    None,
    /// The table is broken: nothing may be concluded.
    Broken,
    /// A row.
    Row(&'a Row),
    /// The row of the program of which this name is a version or build, as far as names tell.
    Variant(&'a Row),
}

/// The rows that one text asks for: each name is looked up once.
pub struct Rows<'a> {
    programs: &'a Programs,
    known: HashMap<Vec<u8>, Lookup<'a>>,
    searches: u64,
}

/// Names that are remembered in [`Rows`].
const REMEMBERED: usize = 4_096;

impl<'a> Rows<'a> {
    /// Begins with nothing remembered.
    pub fn new(programs: &'a Programs) -> Rows<'a> {
        Rows { programs, known: HashMap::new(), searches: 0 }
    }

    /// Returns how often the tables were searched since this was asked last.
    pub fn searches(&mut self) -> u64 {
        std::mem::take(&mut self.searches)
    }

    /// Looks up a program by the last component of its path.
    pub fn look_up(&mut self, name: &[u8]) -> Lookup<'a> {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        self.searches += 1;
        let found = self.programs.look_up(name);
        if self.known.len() < REMEMBERED && name.len() <= 64 {
            self.known.insert(name.to_vec(), found);
        }
        found
    }
}

impl Programs {
    /// Returns the tables that are built into this crate.
    pub fn builtin() -> &'static Programs {
        static TABLES: OnceLock<Programs> = OnceLock::new();
        TABLES.get_or_init(|| {
            let tables = BUILTIN.into_iter().zip(places::PLACES.iter().cloned());
            let examples = if cfg!(test) { Examples::Read } else { Examples::Skipped };
            let loaded = |(text, places)| Arc::new(Loaded::of(Table::with(text, places), examples));
            Programs { tables: tables.map(loaded).collect(), broken: false }
        })
    }

    /// Reads one table from JSONC text, every row of it.
    ///
    /// # Errors
    /// The first place at which the text is not a table.
    pub fn from_text(text: &str) -> Result<Programs, TableError> {
        let loaded = Loaded::new(text.to_owned().into())?;
        for number in 0..loaded.rows.len() {
            if let Some(Err(error)) = loaded.row(number) {
                return Err(error.clone());
            }
        }
        Ok(Programs { tables: vec![Arc::new(loaded)], broken: false })
    }

    /// Returns these tables with those of `first` looked up before them.
    #[must_use]
    pub fn preceded_by(&self, first: &Programs) -> Programs {
        let tables = first.tables.iter().chain(&self.tables).cloned().collect();
        Programs { tables, broken: self.broken || first.broken }
    }

    /// Returns the names of all programs that have a row.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().flat_map(|loaded| loaded.table.names())
    }

    /// Looks up a program by the last component of its path.
    pub fn look_up(&self, name: &[u8]) -> Lookup<'_> {
        if self.broken {
            return Lookup::Broken;
        }
        let Ok(name) = std::str::from_utf8(name) else { return Lookup::None };
        let exact = self.find(name);
        if !matches!(exact, Lookup::None) || !name.contains(varies) {
            return exact;
        }
        let Some(names) = Names::builtin() else { return Lookup::Broken };
        let variable = names.variable(name).map(|alike| (name.to_ascii_lowercase(), alike));
        if let Some((spelled, alike)) = variable {
            let own = self.find(&spelled);
            return if matches!(own, Lookup::None) { self.find(alike) } else { own };
        }
        let base = names.base(name);
        match base.map(|base| self.find(base)) {
            Some(Lookup::Row(row)) => Lookup::Variant(row),
            Some(other) => other,
            None => Lookup::None,
        }
    }

    /// Finds the row of exactly this name.
    fn find(&self, name: &str) -> Lookup<'_> {
        for loaded in &self.tables {
            if let Some(number) = loaded.table.find(name) {
                return match loaded.row(number) {
                    Some(Ok(row)) => Lookup::Row(row),
                    Some(Err(_)) | None => Lookup::Broken,
                };
            }
        }
        Lookup::None
    }
}

/// Says whether a character stands between the parts of a name, or in a version.
fn varies(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '-' | '.' | '_')
}

/// Says whether a path, made plain, may be any program whatever its name, such as `/proc/self/exe`.
pub fn is_nameless(path: &[u8]) -> bool {
    match (Names::builtin(), std::str::from_utf8(path)) {
        (Some(names), Ok(path)) => names.is_nameless(path),
        (None, _) => true,
        (_, Err(_)) => false,
    }
}

/// Returns every program of which `name` is a version, a build or one for a certain machine, as far as names tell,
/// the nearest first: `python3` and `python` for `python3.11`. Empty if the table cannot be read.
pub fn versions_of(name: &[u8]) -> Vec<&[u8]> {
    let names = Names::builtin().zip(std::str::from_utf8(name).ok());
    let found = names.map(|(names, name)| names.all(name)).unwrap_or_default();
    found.into_iter().map(str::as_bytes).collect()
}

#[cfg(test)]
mod tests;
