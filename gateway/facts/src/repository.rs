//! Looks up the repository that git finds in a place, and whether its configuration may start programs (`git-config(1)`,
//! `gitrepository-layout(5)`).
//!
//! The project's own configuration is the person's. That of any other repository may have come with a download: it is
//! harmless only if each of its variables is known to be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use stockade_policy::{GitPlace, Repository};
use stockade_spec::{GitVariable, git_variables};

use crate::git_index::gitlinks;
use stockade_base::files::plain;
use stockade_base::place::Place;

/// Submodules of submodules that are followed.
const MOST_LEVELS: usize = 8;
/// Submodules that are looked at for one place.
const MOST_SUBMODULES: usize = 256;
/// How long a working tree is looked through, and how many entries of it.
const LIMIT: Duration = Duration::from_secs(2);
const MOST_ENTRIES: usize = 1_000_000;
/// Longest configuration and longest pointer that are read, in bytes.
const LONGEST_TEXT: u64 = 1 << 16;
/// Longest index that is read, in bytes.
const LONGEST_INDEX: u64 = 64 << 20;

/// A git directory that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Directory of this working tree alone.
    pub(super) git: PathBuf,
    /// Directory that all working trees share, with the configuration.
    pub(super) common: PathBuf,
    /// Where it was found: the root of the working tree, if it has one.
    pub(super) tree: PathBuf,
}

/// Looks at repositories.
struct Look {
    /// Directory that the working trees of the project share.
    own: Option<PathBuf>,
    /// Findings by directory in which the search began.
    known: HashMap<PathBuf, Repository>,
    submodules: usize,
}

/// Returns what git finds in each place; blocks on the file system.
pub fn look(places: &BTreeSet<GitPlace>, place: &Place) -> BTreeMap<GitPlace, Repository> {
    let mut look = Look { own: own(place), known: HashMap::new(), submodules: 0 };
    let judged = places.iter().map(|sought| (sought.clone(), look.judge_place(sought)));
    judged.collect()
}

/// Returns the git directory of the project: of the outermost of the roots that lies in a repository. One further in may
/// have been made by a command, and is judged like any other.
fn own(place: &Place) -> Option<PathBuf> {
    let roots = place.roots.iter().rev().chain([&place.project]);
    roots.filter_map(|root| above(&root.canonicalize().ok()?).ok()?).map(|it| it.common).next()
}

impl Look {
    fn judge_place(&mut self, sought: &GitPlace) -> Repository {
        self.submodules = 0;
        let real = match sought.path().canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => return Repository::Missing,
            Err(error) => return unreadable(sought.path(), &error.to_string()),
        };
        if let GitPlace::Within(_) = sought {
            return self.judge_tree(&real);
        }
        if let GitPlace::Above(_) = sought {
            if let Some(known) = self.known.get(&real) {
                return known.clone();
            }
            let judged = self.judge_found(above(&real));
            self.known.insert(real, judged.clone());
            return judged;
        }
        let directory = match real.is_dir() {
            true => Ok(real.clone()),
            false => pointed(&real),
        };
        let tree = real.parent().unwrap_or(&real).to_path_buf();
        self.judge_found(directory.and_then(|git| found(git, tree)).map(Some))
    }

    /// Says whether one of the repositories below the root of a working tree may start programs, whether git knows it or not.
    fn judge_tree(&mut self, directory: &Path) -> Repository {
        let root = match above(directory) {
            Ok(Some(found)) => found.tree,
            Ok(None) => return Repository::Harmless,
            Err(why) => return Repository::Doubtful(why),
        };
        let until = Instant::now() + LIMIT;
        let (mut rest, mut seen) = (vec![root.clone()], 0_usize);
        while let Some(directory) = rest.pop() {
            // Git does not list a directory that cannot be read either.
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST_ENTRIES || Instant::now() >= until {
                    let root = root.display();
                    return Repository::Doubtful(format!(
                        "`{root}` is too large to search for repositories"
                    ));
                }
                let is_git = entry.file_name() == ".git";
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_git {
                    rest.push(entry.path());
                } else if is_git && directory != root {
                    let judged = here(&directory).and_then(|found| match found {
                        Some(found) => self.judge(&found, 1),
                        None => Ok(()),
                    });
                    if let Err(why) = judged {
                        return Repository::Doubtful(why);
                    }
                }
            }
        }
        Repository::Harmless
    }

    fn judge_found(&mut self, found: Result<Option<Found>, String>) -> Repository {
        let judged = match found {
            Ok(None) => Ok(()),
            Ok(Some(found)) => self.judge(&found, 0),
            Err(why) => Err(why),
        };
        judged.map_or_else(Repository::Doubtful, |()| Repository::Harmless)
    }

    /// Says why a repository or one of its submodules may start programs.
    fn judge(&mut self, found: &Found, level: usize) -> Result<(), String> {
        let is_own = self.own.as_ref().is_some_and(|own| found.common.starts_with(own));
        // A directory of somebody's may share the project's configuration and add to it.
        let adds = !self.own.as_ref().is_some_and(|own| found.git.starts_with(own));
        let mut sha256 = false;
        if !is_own {
            let variables = read(&found.common.join("config"))?;
            sha256 = variables.iter().any(|it| {
                it.key == "extensions.objectformat" && it.value.as_deref() == Some(b"sha256")
            });
            harmless(&variables, found)?;
            without_hooks(&found.common.join("hooks"))?;
        } else if let Ok(variables) = read(&found.common.join("config")) {
            sha256 = variables.iter().any(|it| it.key == "extensions.objectformat")
                && variables.iter().any(|it| it.value.as_deref() == Some(b"sha256"));
        }
        if adds {
            harmless(&read(&found.git.join("config.worktree"))?, found)?;
        }
        self.judge_submodules(found, level, sha256)
    }

    /// The same for the submodules: git runs in each, with its configuration, for `git status` and others.
    fn judge_submodules(&mut self, of: &Found, level: usize, sha256: bool) -> Result<(), String> {
        let index = of.git.join("index");
        let bytes = match plain(&index, LONGEST_INDEX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unread(&index, &error.to_string())),
        };
        let shared = |name: &str| plain(&of.git.join(name), LONGEST_INDEX).ok();
        let paths = gitlinks(&bytes, if sha256 { 32 } else { 20 }, shared)
            .ok_or_else(|| unread(&index, "it is not an index of git"))?;
        for path in paths {
            let tree = of.tree.join(OsStr::from_bytes(&path));
            let Some(inner) = here(&tree)? else { continue };
            self.submodules += 1;
            if level >= MOST_LEVELS || self.submodules > MOST_SUBMODULES {
                return Err(format!("`{}` has too many submodules", of.tree.display()));
            }
            self.judge(&inner, level + 1)?;
        }
        Ok(())
    }
}

/// Returns the repository that git finds from a real directory upwards (`git(1)`, Discussion of `GIT_DIR`).
pub(super) fn above(directory: &Path) -> Result<Option<Found>, String> {
    for tree in directory.ancestors() {
        if let Some(found) = here(tree)? {
            return Ok(Some(found));
        }
        // The directory itself may be a git directory, also one that came as files of another repository.
        if is_git_directory(tree) {
            return found(tree.to_path_buf(), tree.to_path_buf()).map(Some);
        }
    }
    Ok(None)
}

/// Returns the repository whose working tree begins in a directory.
fn here(tree: &Path) -> Result<Option<Found>, String> {
    let entry = tree.join(".git");
    let kind = match entry.metadata() {
        Ok(kind) => kind,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unread(&entry, &error.to_string())),
    };
    if kind.is_dir() {
        let real = entry.canonicalize().map_err(|error| unread(&entry, &error.to_string()))?;
        return is_git_directory(&real).then(|| found(real, tree.to_path_buf())).transpose();
    }
    found(pointed(&entry)?, tree.to_path_buf()).map(Some)
}

/// Returns the git directory to which a `.git` file points.
fn pointed(file: &Path) -> Result<PathBuf, String> {
    let text = plain(file, LONGEST_TEXT).map_err(|error| unread(file, &error.to_string()))?;
    let target = text.strip_prefix(b"gitdir: ").ok_or_else(|| unread(file, "it is empty"))?;
    let end = target.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    let target = Path::new(OsStr::from_bytes(target.get(..end).unwrap_or_default()));
    let from = file.parent().unwrap_or(file);
    let real = from.join(target).canonicalize();
    real.map_err(|error| unread(file, &error.to_string()))
}

/// Returns a git directory with what it shares.
fn found(git: PathBuf, tree: PathBuf) -> Result<Found, String> {
    let pointer = git.join("commondir");
    let common = match plain(&pointer, LONGEST_TEXT) {
        Ok(text) => {
            let target = Path::new(OsStr::from_bytes(text.trim_ascii_end()));
            git.join(target).canonicalize().map_err(|it| unread(&pointer, &it.to_string()))?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => git.clone(),
        Err(error) => return Err(unread(&pointer, &error.to_string())),
    };
    Ok(Found { git, common, tree })
}

/// Says whether git could take a directory for a git directory: what it needs is there, whatever it holds.
fn is_git_directory(directory: &Path) -> bool {
    let there = |name: &str| directory.join(name).symlink_metadata().is_ok();
    there("HEAD") && (there("commondir") || (there("objects") && there("refs")))
}

/// Returns the variables of a configuration file; none if there is no such file.
fn read(file: &Path) -> Result<Vec<GitVariable>, String> {
    let text = match plain(file, LONGEST_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(file, &error.to_string())),
    };
    git_variables(&text).ok_or_else(|| unread(file, "git could not read it"))
}

/// Says which variable of a configuration may start a program or leads elsewhere.
fn harmless(variables: &[GitVariable], of: &Found) -> Result<(), String> {
    let keys = stockade_policy::git_keys();
    let in_list = |list: &[&str], key: &str| {
        list.iter().any(|pattern| {
            let pattern = pattern.to_ascii_lowercase();
            match pattern.strip_suffix('*') {
                Some(section) => key.starts_with(section),
                None => key == pattern,
            }
        })
    };
    let is_known = |it: &GitVariable| {
        keys.known.iter().any(|(key, values)| {
            *key == it.key
                && values.iter().any(|value| Some(value.as_bytes()) == it.value.as_deref())
        })
    };
    let is_fine = |it: &&GitVariable| {
        let is_free = in_list(&keys.free, &it.key) && !in_list(&keys.refused, &it.key);
        (is_free && !names_helper(it)) || is_known(it) || leads_back(it, of)
    };
    match variables.iter().find(|it| !is_fine(it)) {
        None => Ok(()),
        Some(bad) => Err(format!(
            "the configuration of the git repository `{}` sets `{}`, which can start a program or redirect git",
            of.common.display(),
            String::from_utf8_lossy(&bad.full).escape_debug()
        )),
    }
}

/// Says whether the address of a remote names a program, as in `ext::COMMAND` (`gitremote-helpers(7)`).
fn names_helper(variable: &GitVariable) -> bool {
    let value = variable.value.as_deref().unwrap_or_default();
    let name = value.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    variable.key.starts_with("remote.") && value.get(name..).is_some_and(|it| it.starts_with(b"::"))
}

/// Says whether a variable only leads the git directory of a submodule back to its files.
fn leads_back(variable: &GitVariable, of: &Found) -> bool {
    let ("core.worktree", Some(value)) = (&*variable.key, &variable.value) else { return false };
    let mut there = PathBuf::new();
    for part in of.git.join(OsStr::from_bytes(value)).components() {
        match part {
            Component::ParentDir => drop(there.pop()),
            Component::CurDir => {}
            part => there.push(part),
        }
    }
    there == of.tree && of.tree != of.git
}

/// Says which hook a repository has.
fn without_hooks(directory: &Path) -> Result<(), String> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unread(directory, &error.to_string())),
    };
    for entry in entries {
        let entry = entry.map_err(|error| unread(directory, &error.to_string()))?;
        if !entry.file_name().as_bytes().ends_with(b".sample") {
            let hook = entry.path();
            return Err(format!("the git repository has the hook `{}`", hook.display()));
        }
    }
    Ok(())
}

fn unread(path: &Path, why: &str) -> String {
    format!("`{}` cannot be read: {why}", path.display())
}

fn unreadable(path: &Path, why: &str) -> Repository {
    Repository::Doubtful(unread(path, why))
}

#[cfg(test)]
mod tests;
