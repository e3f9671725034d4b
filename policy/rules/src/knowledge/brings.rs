//! Sub-commands of git that write files of the working tree: `brings` in `policies/paths/git.jsonc`.

use super::{Row, texts};
/// A sub-command of git that writes files of the working tree.
#[derive(Debug, Clone)]
pub struct Brings {
    pub command: &'static str,
    /// How its words tell what is written.
    pub version: Version,
    /// Options whose value is the next word.
    pub valued: Vec<&'static str>,
    /// Those whose value is the version.
    pub takes: Vec<&'static str>,
    /// Those whose value is a new branch.
    pub creates: Vec<&'static str>,
    /// Options with which files that were changed are written as well.
    pub whole: Vec<&'static str>,
    /// Options with which it writes no file.
    pub unless: Vec<&'static str>,
}

/// How the words of a sub-command of git tell which version it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The operand.
    Operand,
    /// The operand, or paths of it or of the index.
    OperandOrPaths,
    /// Paths of the index or of a version that an option names.
    Paths,
    /// The operand or what is checked out, with some options alone.
    Hard,
    /// The changes of each operand.
    Merged,
    /// The changes of the branch that is fetched.
    Pulled,
    /// The commit on which others are put.
    Base,
    /// The changes of each operand against its parent.
    Picked,
    /// The changes that were put away.
    Stashed,
}

/// Reads one row.
pub(super) fn read(row: &Row) -> Option<Brings> {
    Some(Brings {
        command: row.get("command")?.text()?,
        version: match row.get("version")?.text()? {
            "operand" => Version::Operand,
            "operand or paths" => Version::OperandOrPaths,
            "paths" => Version::Paths,
            "hard" => Version::Hard,
            "merged" => Version::Merged,
            "pulled" => Version::Pulled,
            "base" => Version::Base,
            "picked" => Version::Picked,
            "stashed" => Version::Stashed,
            _ => return None,
        },
        valued: texts(row, "valued")?,
        takes: texts(row, "takes")?,
        creates: texts(row, "creates")?,
        whole: texts(row, "whole")?,
        unless: texts(row, "unless")?,
    })
}
