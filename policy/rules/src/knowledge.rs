//! Content of `policies/` about paths, tools, variables and programs; read once.

mod brings;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::{Members, View};

/// Settings that hold without any settings file, as the text of a settings file of [`crate::Layer::Builtin`].
pub const DEFAULT_SETTINGS: &str = include_str!("../../../policies/profiles/default.json");

/// Built-in profiles by name, in JSON: each adds to [`DEFAULT_SETTINGS`].
pub const PROFILES: [(&str, &str); 5] = [
    ("default", "{}"),
    ("read-only", include_str!("../../../policies/profiles/read-only.json")),
    ("project", include_str!("../../../policies/profiles/project.json")),
    ("network", include_str!("../../../policies/profiles/network.json")),
    ("none", include_str!("../../../policies/profiles/none.json")),
];

pub use brings::{Brings, Version};

/// Where the sandbox keeps a protected name unwritable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unwritable {
    /// At any depth.
    Everywhere,
    /// Where a writable directory begins.
    AtTop,
    /// Nowhere: the rule check alone asks.
    Nowhere,
}

/// A path that may not be written without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedName {
    /// Its segments, at any depth unless `root`; a segment may hold `*`.
    pub segments: Vec<&'static str>,
    /// True if the rule covers all that is below, not the path alone.
    pub tree: bool,
    /// True if the name counts only from the root of the file system.
    pub root: bool,
    /// Where the sandbox keeps it unwritable too.
    pub kernel: Unwritable,
    /// Programs that execute it, as a clause; empty if none are named.
    pub why: &'static str,
    /// The rule check asks only where a writable directory begins.
    pub asked_at_top: bool,
    /// Beginnings of commands that write it there without naming it, each as its words.
    pub by: Vec<Vec<&'static str>>,
    /// Names directly below that are ordinary; behind `**/` at any depth.
    pub except: Vec<&'static str>,
}

/// A program that ruins its operands.
#[derive(Debug, Clone)]
pub struct Remover {
    pub names: Vec<&'static str>,
    pub operands: RemoverOperands,
    pub when: Vec<&'static str>,
    /// First operands with which nothing is lost in the project.
    pub modes: Vec<&'static str>,
    /// Options that name where things are moved, so that every operand is one of them.
    pub target: Vec<&'static str>,
    /// Search of a program that removes what it finds, as far as it is told to.
    pub search: Option<Search>,
}

/// How a program that looks for files is told which.
#[derive(Debug, Clone)]
pub struct Search {
    /// Options in front of the places where it begins.
    pub leading: Vec<&'static str>,
    /// Tests of the name of a file.
    pub names: Vec<&'static str>,
    /// Tests of its whole path.
    pub paths: Vec<&'static str>,
    /// Words that take the next test back.
    pub negations: Vec<&'static str>,
    /// Further tests, with the next word as their value.
    pub valued: Vec<&'static str>,
    /// Words that find no more than the others.
    pub plain: Vec<&'static str>,
    /// Actions that start a command.
    pub commands: Vec<&'static str>,
    /// Programs that start a command with what is found, behind a pipe.
    pub feeds: Vec<&'static str>,
    /// Their options without a value.
    pub flags: Vec<&'static str>,
    /// Those with which a name is one word whatever it holds.
    pub whole: Vec<&'static str>,
    /// Options with which a remover takes directories with all that they hold.
    pub recursive: Vec<&'static str>,
}

/// Words of a remover that are its operands.
#[derive(Debug, Clone)]
pub enum RemoverOperands {
    All,
    First,
    Last,
    BeforeOptions,
    Assigned(&'static str),
    Devices,
}

/// A program that can destroy what version control holds.
#[derive(Debug, Clone)]
pub struct Historian {
    pub names: Vec<&'static str>,
    /// Options of the program whose value is the next word.
    pub valued: Vec<&'static str>,
    pub losses: Vec<Loss>,
}

/// One way in which a program does.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Its sub-commands that do; empty: whatever it is told to do.
    pub commands: Vec<Vec<&'static str>>,
    pub when: Vec<&'static str>,
    /// None of these options may stand there.
    pub unless: Vec<&'static str>,
    /// Options of the sub-command whose value is the next word.
    pub valued: Vec<&'static str>,
    /// `when` is about the values of these options.
    pub behind: Vec<&'static str>,
    /// Loss that the command causes.
    pub lost: &'static str,
}

/// Where version control keeps its history.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Paths at any depth; with `/**` all that is below, too.
    pub places: Vec<&'static str>,
    /// Names below them that nobody misses.
    pub ordinary: Vec<&'static str>,
    /// Names that a search by name must not find if its results are removed.
    pub names: Vec<&'static str>,
}

/// A program that goes through whole directories.
#[derive(Debug, Clone)]
pub struct Walker {
    pub names: Vec<&'static str>,
    pub when: Vec<&'static str>,
    /// Its sub-commands that do; empty: whatever it is told to do.
    pub commands: Vec<Vec<&'static str>>,
    /// Options of the program whose value is the next word.
    pub valued: Vec<&'static str>,
    /// True if the program goes through the whole project whatever its operands are, but for places behind `--`.
    pub whole: bool,
    /// None of these words may stand there.
    pub unless: Vec<&'static str>,
    /// True if the program shows files at any depth.
    pub deep: bool,
    pub reads: bool,
    pub writes: bool,
    /// Without an operand it begins at the working directory.
    pub bare: bool,
    /// Without one of these words names that begin with a dot are left out; none: they never are.
    pub hidden: Option<Vec<&'static str>>,
}

/// A program that can put a link somewhere.
#[derive(Debug, Clone)]
pub struct LinkMaker {
    pub names: Vec<&'static str>,
    pub when: Vec<&'static str>,
    /// Its words do not tell where.
    pub anywhere: bool,
}

/// A tool that touches files.
#[derive(Debug, Clone)]
pub struct FileTool {
    pub name: &'static str,
    pub field: &'static str,
    pub pattern: Option<&'static str>,
    /// True if the tool shows the content of files below the path.
    pub walks: bool,
    pub optional: bool,
}

/// Keys of git's configuration: each `section.name` in whatever subsection, or `section.*`.
#[derive(Debug, Clone, Default)]
pub struct GitKeys {
    /// Those that run programs or lead elsewhere.
    pub refused: Vec<&'static str>,
    /// Those that do neither, but for those above.
    pub free: Vec<&'static str>,
    /// Those that may change in a git directory that was there.
    pub changeable: Vec<&'static str>,
    /// Those that may be added there, where the variable is not set yet.
    pub addable: Vec<&'static str>,
    /// Values of refused keys that start nothing but what the person installed: key and value.
    pub known: Vec<(&'static str, Vec<&'static str>)>,
}

/// Git and what uses its repositories.
#[derive(Debug, Clone, Default)]
pub struct Git {
    pub keys: GitKeys,
    /// Programs that use the git repository of the directory in which they run.
    pub programs: Vec<&'static str>,
    /// Options of git in front of its sub-command whose value is the next word.
    pub valued: Vec<&'static str>,
    /// Sub-commands of git that write files of the working tree.
    pub brings: Vec<Brings>,
}

/// Everything together.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    pub git: Git,
    pub protected: Vec<ProtectedName>,
    pub removers: Vec<Remover>,
    /// Beginnings of words that are the working directory.
    pub here: Vec<&'static str>,
    /// Beginnings of words that are the root of the repository.
    pub project_roots: Vec<&'static str>,
    /// Beginnings of words that may be a directory worked in.
    pub elsewhere: Vec<&'static str>,
    /// Rows of programs that start a command where they are.
    pub staying: Vec<&'static str>,
    /// Programs that print their operands.
    pub prints: Vec<&'static str>,
    /// Programs that do, and without operands print what the working directory holds.
    pub lists: Vec<&'static str>,
    /// Builtins that may change the directory by what a file holds.
    pub unread_movers: Vec<&'static str>,
    pub historians: Vec<Historian>,
    /// Commands that print the name of a branch.
    pub branches: Vec<&'static str>,
    pub kept: Kept,
    pub walkers: Vec<Walker>,
    pub link_makers: Vec<LinkMaker>,
    pub safe_variables: Vec<&'static str>,
    pub unsafe_variables: Vec<&'static str>,
    /// Those that are read in any case.
    pub unsafe_in_any_case: Vec<&'static str>,
    /// Variables at whose assignment bash cuts the file of its history.
    pub cutting_variables: Vec<&'static str>,
    /// Beginnings of words behind which a file is named.
    pub file_schemes: Vec<&'static str>,
    /// Builtins whose operands name variables that get a value.
    pub naming_builtins: Vec<&'static str>,
    /// Variables that mean something to one program alone, and nothing bad.
    pub own_variables: BTreeMap<&'static str, Vec<&'static str>>,
    pub known_tools: Vec<&'static str>,
    /// Tools of other agents that keep their names.
    pub agent_tools: Vec<&'static str>,
    pub read_tools: Vec<FileTool>,
    pub edit_tools: Vec<FileTool>,
    pub harmless_tools: Vec<&'static str>,
    pub primary_fields: BTreeMap<&'static str, &'static str>,
    pub accept_edits_commands: Vec<&'static str>,
    pub writers: Vec<&'static str>,
    pub repository_writers: Vec<&'static str>,
    pub judged_inside: Vec<&'static str>,
    pub version_options: Vec<&'static str>,
    pub quiet_readers: Vec<&'static str>,
    pub directory_sensitive: Vec<&'static str>,
    pub directory_changers: Vec<&'static str>,
    pub executors: Vec<&'static str>,
    pub runners: Vec<&'static str>,
    pub printing_builtins: Vec<&'static str>,
    /// Shells that a program may start for a text.
    pub shells: Vec<&'static str>,
    pub interpreters: Vec<&'static str>,
    pub option_executors: Vec<&'static str>,
    pub project_runners: Vec<&'static str>,
    pub spelled_out: Vec<&'static str>,
    /// Programs to which a word that begins with `//` is a label.
    pub label_programs: Vec<&'static str>,
    pub looked_through: Vec<&'static str>,
    pub starters: Vec<&'static str>,
    /// Programs that read names of files as patterns themselves.
    pub pattern_readers: Vec<&'static str>,
    /// Directories of which a confined command sees its own.
    pub private_directories: Vec<&'static str>,
    pub system_directories: Vec<&'static str>,
    pub foreign_directories: Vec<&'static str>,
    pub override_options: BTreeMap<&'static str, Vec<&'static str>>,
    /// The built-in tables could not be read; nothing is then known to be harmless.
    pub broken: bool,
}

static KNOWLEDGE: LazyLock<Knowledge> =
    LazyLock::new(|| read_all().unwrap_or(Knowledge { broken: true, ..Knowledge::default() }));

/// Returns what `policies/` says.
pub fn knowledge() -> &'static Knowledge {
    &KNOWLEDGE
}

/// Returns the paths that may not be written without a question; the sandbox keeps those marked
/// `kernel` unwritable too.
pub fn protected_names() -> &'static [ProtectedName] {
    &KNOWLEDGE.protected
}

/// Returns what commands may set in configurations of git. Without its table that is nothing.
pub fn git_keys() -> &'static GitKeys {
    &KNOWLEDGE.git.keys
}

/// Says whether `name` is in `list`, where an entry may end in `*`.
pub fn listed(list: &[&str], name: &[u8]) -> bool {
    let first = name.first();
    // Most entries are told by their first byte.
    let may_fit = |entry: &&&str| entry.as_bytes().first() == first || entry.starts_with('*');
    list.iter().filter(may_fit).any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => entry.as_bytes() == name,
    })
}

/// Says whether a variable decides what programs run or how.
pub fn is_unsafe(name: &[u8]) -> bool {
    let tables = knowledge();
    listed(&tables.unsafe_variables, name)
        || listed(&tables.unsafe_in_any_case, &name.to_ascii_lowercase())
}

fn read_all() -> Option<Knowledge> {
    let permissions = view(Table::Permissions).members()?;
    let history = view(Table::History).members()?;
    let critical = view(Table::Critical).members()?;
    let texts = |key: &str| permissions.get(key)?.texts();
    Some(Knowledge {
        protected: rows(view(Table::Protected), protected)?,
        removers: rows(critical.get("removers")?, remover)?,
        here: critical.get("here")?.texts()?,
        project_roots: critical.get("project")?.texts()?,
        elsewhere: critical.get("elsewhere")?.texts()?,
        staying: critical.get("staying")?.texts()?,
        prints: critical.get("prints")?.texts()?,
        lists: critical.get("lists")?.texts()?,
        unread_movers: critical.get("movers")?.texts()?,
        historians: rows(history.get("programs")?, historian)?,
        branches: history.get("branches")?.texts()?,
        kept: kept(&history)?,
        walkers: rows(view(Table::Trees), walker)?,
        link_makers: rows(view(Table::Links), link_maker)?,
        git: git(&view(Table::Git).members()?)?,
        safe_variables: texts("safe_variables")?,
        unsafe_variables: texts("unsafe_variables")?,
        unsafe_in_any_case: texts("unsafe_in_any_case")?,
        cutting_variables: texts("cutting_variables")?,
        file_schemes: texts("file_schemes")?,
        naming_builtins: texts("naming_builtins")?,
        own_variables: by_name(permissions.get("own_variables")?, View::texts)?,
        known_tools: texts("known_tools")?,
        agent_tools: texts("agent_tools")?,
        read_tools: rows(permissions.get("read_tools")?, file_tool)?,
        edit_tools: rows(permissions.get("edit_tools")?, file_tool)?,
        harmless_tools: texts("harmless_tools")?,
        primary_fields: by_name(permissions.get("primary_fields")?, View::text)?,
        accept_edits_commands: texts("accept_edits_commands")?,
        writers: texts("writers")?,
        repository_writers: texts("repository_writers")?,
        judged_inside: texts("judged_inside")?,
        version_options: texts("version_options")?,
        quiet_readers: texts("quiet_readers")?,
        directory_sensitive: texts("directory_sensitive")?,
        directory_changers: texts("directory_changers")?,
        executors: texts("executors")?,
        runners: texts("runners")?,
        printing_builtins: texts("printing_builtins")?,
        shells: texts("shells")?,
        interpreters: texts("interpreters")?,
        option_executors: texts("option_executors")?,
        project_runners: texts("project_runners")?,
        spelled_out: texts("spelled_out")?,
        label_programs: texts("label_programs")?,
        looked_through: texts("looked_through")?,
        starters: texts("starters")?,
        pattern_readers: texts("pattern_readers")?,
        private_directories: texts("private_directories")?,
        system_directories: texts("system_directories")?,
        foreign_directories: texts("foreign_directories")?,
        override_options: by_name(permissions.get("override_options")?, View::texts)?,
        broken: false,
    })
}

type Row = Members<'static>;

fn rows<T>(table: View<'static>, row: fn(&Row) -> Option<T>) -> Option<Vec<T>> {
    let rows = table.elements()?;
    let mut read = Vec::with_capacity(rows.len());
    for it in rows {
        read.push(row(&it.members()?)?);
    }
    Some(read)
}

/// Returns what the members of a table hold, with their names.
fn by_name<T, C: FromIterator<(&'static str, T)>>(
    table: View<'static>,
    read: fn(View<'static>) -> Option<T>,
) -> Option<C> {
    table.members()?.iter().map(|(key, value)| Some((key, read(value)?))).collect()
}

/// Returns the texts of a member that may be missing.
fn texts(row: &Row, key: &str) -> Option<Vec<&'static str>> {
    row.get(key).map_or(Some(Vec::new()), View::texts)
}

fn is_set(row: &Row, key: &str) -> bool {
    row.get(key).and_then(View::boolean) == Some(true)
}

fn protected(row: &Row) -> Option<ProtectedName> {
    Some(ProtectedName {
        segments: row.get("name")?.text()?.split('/').collect(),
        tree: match row.get("covers")?.text()? {
            "tree" => true,
            "file" => false,
            _ => return None,
        },
        root: is_set(row, "root"),
        kernel: match row.get("kernel")?.text()? {
            "always" => Unwritable::Everywhere,
            "root" => Unwritable::AtTop,
            "question" => Unwritable::Nowhere,
            _ => return None,
        },
        why: row.get("why").map_or(Some(""), View::text)?,
        asked_at_top: match row.get("asked").map(View::text) {
            None => false,
            Some(Some("root")) => true,
            Some(_) => return None,
        },
        by: texts(row, "by")?.into_iter().map(|it| it.split(' ').collect()).collect(),
        except: texts(row, "except")?,
    })
}

fn remover(row: &Row) -> Option<Remover> {
    Some(Remover {
        names: row.get("names")?.texts()?,
        operands: match row.get("operands")?.text()? {
            "all" => RemoverOperands::All,
            "first" => RemoverOperands::First,
            "last" => RemoverOperands::Last,
            "before-options" => RemoverOperands::BeforeOptions,
            "assigned" => RemoverOperands::Assigned(row.get("key")?.text()?),
            "devices" => RemoverOperands::Devices,
            _ => return None,
        },
        when: texts(row, "when")?,
        modes: texts(row, "modes")?,
        target: texts(row, "target")?,
        search: match row.get("search") {
            Some(view) => Some(search(&view.members()?)?),
            None => None,
        },
    })
}

fn search(row: &Row) -> Option<Search> {
    Some(Search {
        leading: texts(row, "leading")?,
        names: texts(row, "names")?,
        paths: texts(row, "paths")?,
        negations: texts(row, "negations")?,
        valued: texts(row, "valued")?,
        plain: texts(row, "plain")?,
        commands: texts(row, "commands")?,
        feeds: texts(row, "feeds")?,
        flags: texts(row, "flags")?,
        whole: texts(row, "whole")?,
        recursive: texts(row, "recursive")?,
    })
}

fn git(table: &Row) -> Option<Git> {
    let keys = GitKeys {
        refused: table.get("refused")?.texts()?,
        free: table.get("free")?.texts()?,
        changeable: table.get("changeable")?.texts()?,
        addable: table.get("addable")?.texts()?,
        known: by_name(table.get("known")?, View::texts)?,
    };
    Some(Git {
        keys,
        programs: table.get("programs")?.texts()?,
        valued: table.get("valued")?.texts()?,
        brings: rows(table.get("brings")?, brings::read)?,
    })
}

fn kept(table: &Row) -> Option<Kept> {
    Some(Kept {
        places: table.get("places")?.texts()?,
        ordinary: table.get("ordinary")?.texts()?,
        names: table.get("names")?.texts()?,
    })
}

fn historian(row: &Row) -> Option<Historian> {
    Some(Historian {
        names: row.get("names")?.texts()?,
        valued: texts(row, "valued")?,
        losses: rows(row.get("rows")?, loss)?,
    })
}

fn loss(row: &Row) -> Option<Loss> {
    Some(Loss {
        commands: commands(row)?,
        when: texts(row, "when")?,
        unless: texts(row, "unless")?,
        valued: texts(row, "valued")?,
        behind: texts(row, "behind")?,
        lost: row.get("lost")?.text()?,
    })
}

/// Returns the sub-commands that a row names, each as its words.
fn commands(row: &Row) -> Option<Vec<Vec<&'static str>>> {
    Some(texts(row, "commands")?.iter().map(|it| it.split(' ').collect()).collect())
}

fn walker(row: &Row) -> Option<Walker> {
    let (reads, writes) = match row.get("does")?.text()? {
        "read" => (true, false),
        "write" => (false, true),
        "both" => (true, true),
        _ => return None,
    };
    Some(Walker {
        names: row.get("names")?.texts()?,
        when: texts(row, "when")?,
        commands: commands(row)?,
        valued: texts(row, "valued")?,
        whole: is_set(row, "whole"),
        unless: texts(row, "unless")?,
        deep: !is_set(row, "flat"),
        reads,
        writes,
        bare: is_set(row, "bare"),
        hidden: match row.get("hidden") {
            Some(words) => Some(words.texts()?),
            None => None,
        },
    })
}

fn link_maker(row: &Row) -> Option<LinkMaker> {
    Some(LinkMaker {
        names: row.get("names")?.texts()?,
        when: texts(row, "when")?,
        anywhere: match row.get("places")?.text()? {
            "written" => false,
            "anywhere" => true,
            _ => return None,
        },
    })
}

fn file_tool(row: &Row) -> Option<FileTool> {
    Some(FileTool {
        name: row.get("name")?.text()?,
        field: row.get("field")?.text()?,
        pattern: match row.get("pattern") {
            Some(pattern) => Some(pattern.text()?),
            None => None,
        },
        walks: is_set(row, "walks"),
        optional: is_set(row, "optional"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_tables_are_read() {
        assert!(!knowledge().broken);
        assert!(protected_names().iter().any(
            |name| name.segments == [".git", "hooks"] && name.kernel == Unwritable::Everywhere
        ));
        assert!(listed(&knowledge().safe_variables, b"LC_ALL"));
        assert!(!listed(&knowledge().safe_variables, b"LD_PRELOAD"));
    }
}
