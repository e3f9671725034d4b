//! What `policies/` says about paths, tools, variables and programs; read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use stockade_parser::json::Value;
use stockade_parser::tables::{Table, table};

/// What holds without any settings file, as the text of a settings file of [`crate::Layer::Builtin`].
pub const DEFAULT_SETTINGS: &str = include_str!("../../policies/profiles/default.json");

/// A path that may not be written without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedName {
    /// Its segments, at any depth unless `root`; a segment may hold `*`.
    pub segments: Vec<String>,
    /// It covers all that is below, not the path alone.
    pub tree: bool,
    /// It counts only from the root of the file system.
    pub root: bool,
    /// The sandbox keeps it unwritable too.
    pub kernel: bool,
    /// Names directly below that are ordinary.
    pub except: Vec<String>,
}

/// A program that ruins its operands.
#[derive(Debug, Clone)]
pub(crate) struct Remover {
    pub names: Vec<String>,
    pub operands: RemoverOperands,
    pub when: Vec<String>,
}

/// Which words of a remover are its operands.
#[derive(Debug, Clone)]
pub(crate) enum RemoverOperands {
    All,
    First,
    BeforeOptions,
    Assigned(String),
    Devices,
}

/// A program that goes through whole directories.
#[derive(Debug, Clone)]
pub(crate) struct Walker {
    pub names: Vec<String>,
    pub when: Vec<String>,
    pub reads: bool,
    pub writes: bool,
    /// Without an operand it begins at the working directory.
    pub bare: bool,
    /// Without one of these words names that begin with a dot are left out; none: they never are.
    pub hidden: Option<Vec<String>>,
}

/// A program that can put a link somewhere.
#[derive(Debug, Clone)]
pub(crate) struct LinkMaker {
    pub names: Vec<String>,
    pub when: Vec<String>,
    /// Its words do not tell where.
    pub anywhere: bool,
}

/// A tool that touches files.
#[derive(Debug, Clone)]
pub(crate) struct FileTool {
    pub name: String,
    pub field: String,
    pub pattern: Option<String>,
    pub optional: bool,
}

/// Everything together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Knowledge {
    /// Keys of git that run programs or lead elsewhere.
    pub git_keys: Vec<String>,
    /// Keys of git that do neither, but for those above.
    pub free_git_keys: Vec<String>,
    pub protected: Vec<ProtectedName>,
    pub removers: Vec<Remover>,
    pub walkers: Vec<Walker>,
    pub link_makers: Vec<LinkMaker>,
    pub safe_variables: Vec<String>,
    pub unsafe_variables: Vec<String>,
    pub known_tools: Vec<String>,
    pub read_tools: Vec<FileTool>,
    pub edit_tools: Vec<FileTool>,
    pub harmless_tools: Vec<String>,
    pub primary_fields: BTreeMap<String, String>,
    pub accept_edits_commands: Vec<String>,
    pub writers: Vec<String>,
    pub directory_sensitive: Vec<String>,
    pub directory_changers: Vec<String>,
    pub executors: Vec<String>,
    pub option_executors: Vec<String>,
    pub project_runners: Vec<String>,
    pub spelled_out: Vec<String>,
    /// Programs to which a word that begins with `//` is a label.
    pub label_programs: Vec<String>,
    pub looked_through: Vec<String>,
    pub starters: Vec<String>,
    pub system_directories: Vec<String>,
    pub foreign_directories: Vec<String>,
    pub override_options: BTreeMap<String, Vec<String>>,
    /// The built-in tables could not be read; nothing is then known to be harmless.
    pub broken: bool,
}

static KNOWLEDGE: LazyLock<Knowledge> =
    LazyLock::new(|| read_all().unwrap_or(Knowledge { broken: true, ..Knowledge::default() }));

/// Returns what `policies/` says.
pub(crate) fn knowledge() -> &'static Knowledge {
    &KNOWLEDGE
}

/// Returns the paths that may not be written without a question; the sandbox keeps those marked
/// `kernel` unwritable too.
pub fn protected_names() -> &'static [ProtectedName] {
    &KNOWLEDGE.protected
}

/// Returns the keys that the configuration of a git directory made by a command may not hold: `section.name`
/// or `section.*`. Without its table every key is refused.
pub fn refused_git_keys() -> &'static [String] {
    static EVERY: LazyLock<[String; 1]> = LazyLock::new(|| ["*".to_owned()]);
    if KNOWLEDGE.git_keys.is_empty() { EVERY.as_slice() } else { &KNOWLEDGE.git_keys }
}

/// Returns the keys that it may hold unless they are refused; every other one is refused, too.
pub fn free_git_keys() -> &'static [String] {
    &KNOWLEDGE.free_git_keys
}

/// Says whether `name` is in `list`, where an entry may end in `*`.
pub(crate) fn listed(list: &[String], name: &[u8]) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => entry.as_bytes() == name,
    })
}

fn read_all() -> Option<Knowledge> {
    let permissions = table(Table::Permissions)?;
    let git = table(Table::Git)?;
    Some(Knowledge {
        protected: rows(&table(Table::Protected)?, protected)?,
        removers: rows(&table(Table::Critical)?, remover)?,
        walkers: rows(&table(Table::Trees)?, walker)?,
        link_makers: rows(&table(Table::Links)?, link_maker)?,
        git_keys: strings(git.get("refused")?)?,
        free_git_keys: strings(git.get("free")?)?,
        safe_variables: strings(permissions.get("safe_variables")?)?,
        unsafe_variables: strings(permissions.get("unsafe_variables")?)?,
        known_tools: strings(permissions.get("known_tools")?)?,
        read_tools: rows(permissions.get("read_tools")?, file_tool)?,
        edit_tools: rows(permissions.get("edit_tools")?, file_tool)?,
        harmless_tools: strings(permissions.get("harmless_tools")?)?,
        primary_fields: permissions
            .get("primary_fields")?
            .members()?
            .iter()
            .map(|member| Some((member.key.clone(), member.value.text()?.to_owned())))
            .collect::<Option<_>>()?,
        accept_edits_commands: strings(permissions.get("accept_edits_commands")?)?,
        writers: strings(permissions.get("writers")?)?,
        directory_sensitive: strings(permissions.get("directory_sensitive")?)?,
        directory_changers: strings(permissions.get("directory_changers")?)?,
        executors: strings(permissions.get("executors")?)?,
        option_executors: strings(permissions.get("option_executors")?)?,
        project_runners: strings(permissions.get("project_runners")?)?,
        spelled_out: strings(permissions.get("spelled_out")?)?,
        label_programs: strings(permissions.get("label_programs")?)?,
        looked_through: strings(permissions.get("looked_through")?)?,
        starters: strings(permissions.get("starters")?)?,
        system_directories: strings(permissions.get("system_directories")?)?,
        foreign_directories: strings(permissions.get("foreign_directories")?)?,
        override_options: permissions
            .get("override_options")?
            .members()?
            .iter()
            .map(|member| Some((member.key.clone(), strings(&member.value)?)))
            .collect::<Option<_>>()?,
        broken: false,
    })
}

fn rows<T>(value: &Value, row: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.elements()?.iter().map(row).collect()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    rows(value, |element| element.text().map(str::to_owned))
}

fn protected(row: &Value) -> Option<ProtectedName> {
    Some(ProtectedName {
        segments: row.get("name")?.text()?.split('/').map(str::to_owned).collect(),
        tree: match row.get("covers")?.text()? {
            "tree" => true,
            "file" => false,
            _ => return None,
        },
        root: row.get("root").is_some_and(|value| value.boolean() == Some(true)),
        kernel: match row.get("kernel")?.text()? {
            "always" => true,
            "question" => false,
            _ => return None,
        },
        except: row.get("except").map_or(Some(Vec::new()), strings)?,
    })
}

fn remover(row: &Value) -> Option<Remover> {
    Some(Remover {
        names: strings(row.get("names")?)?,
        operands: match row.get("operands")?.text()? {
            "all" => RemoverOperands::All,
            "first" => RemoverOperands::First,
            "before-options" => RemoverOperands::BeforeOptions,
            "assigned" => RemoverOperands::Assigned(row.get("key")?.text()?.to_owned()),
            "devices" => RemoverOperands::Devices,
            _ => return None,
        },
        when: row.get("when").map_or(Some(Vec::new()), strings)?,
    })
}

fn walker(row: &Value) -> Option<Walker> {
    let (reads, writes) = match row.get("does")?.text()? {
        "read" => (true, false),
        "write" => (false, true),
        "both" => (true, true),
        _ => return None,
    };
    Some(Walker {
        names: strings(row.get("names")?)?,
        when: row.get("when").map_or(Some(Vec::new()), strings)?,
        reads,
        writes,
        bare: row.get("bare").is_some_and(|value| value.boolean() == Some(true)),
        hidden: match row.get("hidden") {
            Some(words) => Some(strings(words)?),
            None => None,
        },
    })
}

fn link_maker(row: &Value) -> Option<LinkMaker> {
    Some(LinkMaker {
        names: strings(row.get("names")?)?,
        when: row.get("when").map_or(Some(Vec::new()), strings)?,
        anywhere: match row.get("places")?.text()? {
            "written" => false,
            "anywhere" => true,
            _ => return None,
        },
    })
}

fn file_tool(row: &Value) -> Option<FileTool> {
    Some(FileTool {
        name: row.get("name")?.text()?.to_owned(),
        field: row.get("field")?.text()?.to_owned(),
        pattern: row.get("pattern").and_then(|value| value.text().map(str::to_owned)),
        optional: row.get("optional").is_some_and(|value| value.boolean() == Some(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_tables_are_read() {
        assert!(!knowledge().broken);
        assert!(
            protected_names().iter().any(|name| name.segments == [".git", "hooks"] && name.kernel)
        );
        assert!(listed(&knowledge().safe_variables, b"LC_ALL"));
        assert!(!listed(&knowledge().safe_variables, b"LD_PRELOAD"));
    }
}
