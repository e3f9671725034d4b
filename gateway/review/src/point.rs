//! Whether files that `stockade review` lists changed since a person said yes to a builder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stockade_parser::{CommandTree, Directory};
use stockade_policy::Changed;

use super::ledger::{Ledger, store};
use super::{Found, Held};
use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_base::names::Names;
use stockade_base::place::Place;

/// Where yeses are kept, in the state directory: one file for each project and builder.
const FOLDER: &str = "review/agreed";

/// Longest text of a command in a question.
const MOST_CHARACTERS: usize = 80;

/// Contents of the listed files of a project when a person said yes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// A digest of the content by a digest of the path.
    files: BTreeMap<String, String>,
    /// Changes that are not listed one by one.
    lost: u64,
}

/// The changes that wait for a look where a call works.
#[derive(Debug)]
pub struct Waiting {
    files: Vec<File>,
    /// Changes that are not listed one by one; none where a person has looked at all.
    lost: Option<u64>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    held: Held,
    /// Last writer of the file.
    writer: String,
}

impl Waiting {
    /// Finds what differs from what it was before commands and agents wrote it, beneath `places` or by commands of
    /// `project`; blocks on the file system. An error is to be taken for a change.
    pub fn find(state: &Path, project: &Path, places: &[PathBuf]) -> io::Result<Waiting> {
        let (ledger, _) = Ledger::with_journals(state)?;
        let is_lost = ledger.more > 0 || ledger.unseen > 0;
        let mut files = Vec::new();
        for entry in &ledger.files {
            let path = entry.path();
            let concerns = places.iter().any(|place| path.starts_with(place))
                || entry.writers.iter().any(|it| it.project == project);
            let held = if concerns { Found::at(path).held } else { continue };
            if held.is_same(&entry.before) {
                continue;
            }
            let writer = entry.writers.last().map_or_else(String::new, |writer| {
                let program = || format!("the program `{}`", short(&writer.program));
                writer.act.as_deref().map_or_else(program, |act| {
                    match act.starts_with("the tool ") {
                        true => short(act),
                        false => format!("`{}`", short(act)),
                    }
                })
            });
            files.push(File { path: path.to_path_buf(), held, writer });
        }
        Ok(Waiting { files, lost: is_lost.then_some(ledger.lost) })
    }

    /// Returns the point of now.
    pub fn point(&self) -> Point {
        let files = self.files.iter().map(|file| (key(&file.path), mark(&file.held)));
        Point { files: files.collect(), lost: self.lost.unwrap_or_default() }
    }

    /// Returns what is not as it was at `since`, with paths as seen from `project`; none where nothing is.
    pub fn since(&self, since: &Point, project: &Path) -> Option<Changed> {
        let is_new = |file: &&File| since.files.get(&key(&file.path)) != Some(&mark(&file.held));
        let changed: Vec<&File> = self.files.iter().filter(is_new).collect();
        let lost = self.lost.filter(|lost| *lost != since.lost);
        let told = match (changed.as_slice(), lost) {
            ([], None) => return None,
            ([], Some(_)) => "commands changed files that are not listed one by one".to_owned(),
            ([first, more @ ..], _) => {
                let name = first.path.strip_prefix(project).unwrap_or(&first.path);
                let name = short(&name.to_string_lossy());
                let (files, which) = match more.len() {
                    0 => (format!("`{name}` has"), "it"),
                    1 => (format!("`{name}` and one more file have"), "the first"),
                    count => (format!("`{name}` and {count} more files have"), "the first"),
                };
                format!("{files} changes that nobody has approved ({} wrote {which})", first.writer)
            }
        };
        let mut digest = Sha256::new();
        for file in changed {
            digest.update(key(&file.path));
            digest.update(mark(&file.held));
        }
        digest.update(format!("{lost:?}"));
        Some(Changed { told, mark: hex(&digest.finalize()) })
    }
}

/// Returns what it is if the changes cannot be known.
pub fn unknown(error: &io::Error) -> Changed {
    Changed {
        told: format!("the changes to its files are not known: {error}"),
        mark: "unknown".to_owned(),
    }
}

/// Returns where a call works, for [`Waiting::find`]; blocks on the file system. Words that may name a directory do.
pub fn places(place: &Place, tree: &CommandTree) -> Vec<PathBuf> {
    let mut starts = BTreeSet::from([place.cwd.clone()]);
    let mut words: BTreeSet<&str> = BTreeSet::new();
    for command in tree.commands() {
        match &command.directory {
            Directory::Start => {}
            Directory::Known(text) => {
                starts.extend(std::str::from_utf8(text).ok().map(|text| place.cwd.join(text)));
            }
            Directory::Unknown => return vec![PathBuf::from("/")],
        }
        for word in &command.words {
            let Some(word) = word.exact().and_then(|word| std::str::from_utf8(word).ok()) else {
                return vec![PathBuf::from("/")];
            };
            let attached = word.strip_prefix('-').and_then(|rest| rest.get(1..));
            let value = word.split_once('=').map(|(_, value)| value);
            words.extend([Some(word), attached, value].into_iter().flatten());
        }
    }
    let mut names = Names::default();
    let mut found: BTreeSet<PathBuf> = place.regions().into_iter().collect();
    found.extend(place.roots.iter().cloned());
    for start in &starts {
        let directories = words.iter().map(|word| start.join(word)).filter(|it| it.is_dir());
        found.extend(directories.chain([start.clone()]).map(|path| names.real(&path)));
    }
    found.into_iter().collect()
}

/// Returns the point of the last yes to `builder` in `project`; the first one where there is none that can be read.
pub fn last_yes(state: &Path, project: &Path, builder: &[u8]) -> Point {
    let text = fs::read(file(state, project, builder)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Keeps a yes to `builder` in `project`.
pub fn keep_yes(state: &Path, project: &Path, builder: &[u8], point: &Point) -> io::Result<()> {
    let path = file(state, project, builder);
    for folder in [state.join("review"), state.join(FOLDER)] {
        private_directory(&folder)?;
    }
    store(&path, &serde_json::to_vec(point)?)
}

fn file(state: &Path, project: &Path, builder: &[u8]) -> PathBuf {
    let mut digest = Sha256::new();
    let project = project.as_os_str().as_encoded_bytes();
    digest.update(project.len().to_le_bytes());
    digest.update(project);
    digest.update(builder);
    state.join(FOLDER).join(hex(&digest.finalize()))
}

/// A text of others in one line of ours.
fn short(text: &str) -> String {
    let escaped = text.chars().map(|it| match it {
        '\'' | '"' => it.to_string(),
        it => it.escape_debug().to_string(),
    });
    let short: String = escaped.take(MOST_CHARACTERS).collect();
    match text.chars().nth(MOST_CHARACTERS) {
        Some(_) => short + "…",
        None => short,
    }
}

/// A path as text, whatever its bytes are.
fn key(path: &Path) -> String {
    hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()))
}

/// A digest of what a file holds. Files that are too large to be kept are told apart by their digest or their size.
fn mark(held: &Held) -> String {
    hex(&Sha256::digest(serde_json::to_vec(held).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
