//! All that a decision may depend on besides rules and text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stockade_parser::CommandTree;
use stockade_text::json::Value;

use crate::Origin;
use crate::pattern::path::{Anchors, Shape};
use crate::{Decision, Mode};

/// The call to decide.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// A shell command.
    Bash {
        /// Its tree.
        tree: &'a CommandTree,
        /// The whole tool input.
        input: &'a Value,
    },
    /// Any other tool.
    Tool {
        /// Its name.
        name: &'a str,
        /// Its input.
        input: &'a Value,
    },
}

/// Whether the command will run confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// Confined, with all that is required.
    Enforced,
    /// Wanted, but this machine cannot; the command would run with less.
    Unavailable,
    /// Switched off, or the call is excluded from it.
    Off,
}

/// Verdict of a PreToolUse hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookVerdict {
    /// The hook says yes.
    Allow,
    /// A person decides.
    Ask,
    /// The call waits for a later run.
    Defer,
    /// The hook says no, or failed and is managed.
    Deny,
}

/// The merged outcome of the PreToolUse hooks that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookOutcome {
    /// The decision.
    pub verdict: HookVerdict,
    /// Why, as the hook said it.
    pub reason: String,
    /// Where the hook is configured.
    pub origin: Origin,
}

/// All that a decision may depend on besides rules and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Working directory, absolute and real.
    pub cwd: PathBuf,
    /// Where the session works, absolute and real, if the call chose the working directory itself.
    pub session: Option<PathBuf>,
    /// Home directory, absolute and real.
    pub home: PathBuf,
    /// Further directories that are home too, by the password database. Where there is one, `~` in what allows means
    /// neither.
    pub homes: Vec<PathBuf>,
    /// Root of the project, absolute and real.
    pub project: PathBuf,
    /// The roots around it: what is relative and refuses or asks begins there, too.
    pub roots: Vec<PathBuf>,
    /// Further directories in which the tools may work.
    pub additional_directories: Vec<PathBuf>,
    /// For each path of [`crate::paths_of`], every name that it goes through: hops of symbolic links, the
    /// final path, and for a path that does not exist yet the real path of the nearest parent with the rest.
    pub real_paths: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// For each pattern of [`crate::patterns_of`], the links among the files that it names.
    pub expanded: BTreeMap<Shape, Expanded>,
    /// For each place of [`crate::repositories_of`], the repository that git finds there.
    pub repositories: BTreeMap<GitPlace, Repository>,
    /// For each of [`crate::brought_by`], the protected paths that it would write, absolute and real.
    pub brought: BTreeMap<Bringing, Vec<PathBuf>>,
    /// Real paths of files that the call names, that hold secrets as a rule, and that no setting shows.
    pub asked: Vec<PathBuf>,
    /// The mode that was asked for; locks may change it.
    pub mode: Mode,
    /// A person can be asked.
    pub interactive: bool,
    /// The caller is uid 0.
    pub root: bool,
    /// Whether the command will run confined.
    pub sandbox: SandboxState,
    /// The command gets a terminal: what only reads elsewhere may start a pager there, and takes orders from who types.
    pub terminal: bool,
    /// Merged outcome of the hooks; none when none ran or none decided.
    pub hook: Option<HookOutcome>,
    /// Facts that may not be believed, since commands can change them.
    pub doubts: Doubts,
}

/// Where the files lead that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expanded {
    /// Each goes by its own name alone, but for these, by whose path a symbolic link is passed: every name of each.
    Links(Vec<Vec<PathBuf>>),
    /// There are too many to look at.
    TooMany,
}

/// Where a command has git look for its repository (`git(1)`). The path is absolute and as it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GitPlace {
    /// In this directory, then in those above.
    Above(PathBuf),
    /// This is the git directory itself.
    At(PathBuf),
    /// In each directory of the working tree that is found from here: git goes into those that its index names, and a command
    /// before may have added any.
    Within(PathBuf),
}

/// The reason why a command writes files that it does not name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bringing {
    /// git writes the working tree of the repository that it finds in a place.
    Git(GitPlace, TreeChange),
    /// An archive is unpacked.
    Unpacked(Unpacked),
}

/// Files of its working tree that git writes (`git(1)` and the pages of its commands). Commits are as they are typed
/// (`gitrevisions(7)`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeChange {
    /// Those in which this commit differs from the one that is checked out.
    Switch(Vec<u8>),
    /// The same if it is a commit, else the file of this name from the index.
    Checkout(Vec<u8>),
    /// Those in which this commit differs from the one that is checked out, and those that were changed since.
    Reset(Vec<u8>),
    /// Those that this commit changed since the last commit from which both were made.
    Merge(Vec<u8>),
    /// Those in which the second commit differs from the first.
    Between(Vec<u8>, Vec<u8>),
    /// Those below these absolute paths, or all, that differ from a commit, or from the index where there is none.
    Paths(Option<Vec<u8>>, Vec<PathBuf>),
}

/// An archive that is unpacked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unpacked {
    /// The archive, absolute.
    pub archive: PathBuf,
    /// The directory in which it is unpacked, absolute.
    pub into: PathBuf,
    /// Leading parts of each name that are left out.
    pub strip: usize,
    /// The names that are unpacked; all where there are none.
    pub members: Vec<Vec<u8>>,
}

/// The repository that git finds in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// The repository of the project, one whose configuration starts no program, or none at all.
    Harmless,
    /// The place does not exist.
    Missing,
    /// Its configuration may start a program, or cannot be read: why, as a clause.
    Doubtful(String),
}

/// Facts that a decision may not believe, since commands can change them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Doubts {
    /// For each word of [`crate::programs_of`] that does not tell what would run: why not.
    pub programs: BTreeMap<Vec<u8>, Doubt>,
    /// Settings files that lie where commands may write.
    pub settings: BTreeSet<PathBuf>,
    /// For each name of [`crate::builders_of`]: what changed since a person said yes to it.
    pub changed: BTreeMap<Vec<u8>, Changed>,
}

/// Changes of files that a builder may execute and to which no person has said yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The files, and who wrote them, as a clause.
    pub told: String,
    /// Differs where the files or their contents differ.
    pub mark: String,
}

/// Why the name of a program does not tell what would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// The program would be this file, which commands can write.
    Planted(PathBuf),
    /// The program is looked for in this directory first, where commands could put one.
    Exposed(PathBuf),
    /// The program is this file, which commands can write and which an unconfined command does not find.
    Absent(PathBuf),
}

impl GitPlace {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        match self {
            GitPlace::Above(path) | GitPlace::At(path) | GitPlace::Within(path) => path,
        }
    }
}

impl Facts {
    /// Returns the directory at which the rules of the call begin and in which its tools work: no call chooses it.
    pub(crate) fn anchor(&self) -> &Path {
        self.session.as_ref().unwrap_or(&self.cwd)
    }

    /// Returns where patterns of rules with this effect begin. What allows begins at one place and in one home, what
    /// refuses or asks wherever it may have been meant.
    pub(crate) fn anchors(&self, effect: Decision) -> Anchors {
        let (mut places, mut homes) = (vec![self.anchor().to_owned()], vec![self.home.clone()]);
        let other_homes = self.homes.iter().filter(|home| **home != self.home).cloned();
        if effect == Decision::Allow {
            homes.truncate(if other_homes.count() == 0 { 1 } else { 0 });
            return Anchors { places, homes };
        }
        homes.extend(other_homes);
        for place in [&self.cwd, &self.project].into_iter().chain(&self.roots) {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        Anchors { places, homes }
    }
}
