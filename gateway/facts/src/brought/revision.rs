//! Names of commits (`gitrevisions(7)`), as far as files of the repository alone tell what they stand for.

use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::path::Path;

use stockade_base::files::plain;
use stockade_spec::git_variables;

use super::Budget;
use super::objects::{Kind, Name, Objects, unhex};
use crate::repository::Found;

/// Longest file with names of commits that is read, in bytes.
const LONGEST: u64 = 16 << 20;
/// References that lead to one another.
const MOST_HOPS: usize = 8;
/// Commits that are looked at to find the last common one.
const MOST_COMMITS: usize = 50_000;

/// A commit from which both were made.
const COMMON: u8 = 3;
/// One from which such a commit was made.
const STALE: u8 = 4;

fn is_stale(flags: &HashMap<Name, u8>, name: &Name) -> bool {
    flags.get(name).is_some_and(|flags| flags & STALE != 0)
}

/// A commit.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) tree: Name,
    pub(super) parents: Vec<Name>,
    /// When it was made, in seconds since 1970.
    time: u64,
}

/// A repository whose commits are looked for.
#[derive(Debug)]
pub(super) struct History<'a> {
    pub(super) found: &'a Found,
    pub(super) objects: Objects,
}

impl<'a> History<'a> {
    pub(super) fn open(found: &'a Found) -> Option<History<'a>> {
        // References in tables are not read.
        if found.common.join("reftable").exists() {
            return None;
        }
        let config = plain(&found.common.join("config"), 1 << 20).ok()?;
        let is_long = git_variables(&config)?
            .iter()
            .any(|it| it.key == "extensions.objectformat" && it.value.as_deref() != Some(b"sha1"));
        let objects = Objects::open(&found.common, if is_long { 32 } else { 20 })?;
        Some(History { found, objects })
    }

    /// Returns the commit that a text names.
    pub(super) fn commit(&self, text: &[u8], budget: &mut Budget) -> Option<Name> {
        let text = match text {
            b"-" => "@{-1}",
            text => std::str::from_utf8(text).ok()?,
        };
        let end = text.find(['~', '^']).unwrap_or(text.len());
        let (base, mut rest) = text.split_at_checked(end)?;
        let mut name = self.peeled(self.base(base)?, budget)?;
        while let Some(mark) = rest.chars().next() {
            rest = rest.get(1..)?;
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, behind) = rest.split_at_checked(digits)?;
            let number = if number.is_empty() { 1 } else { number.parse::<usize>().ok()? };
            rest = behind;
            name = match (mark, number) {
                ('^', 0) => name,
                ('^', number) => self.read(&name, budget)?.parents.get(number - 1)?.clone(),
                ('~', number) => {
                    for _ in 0..number.min(MOST_COMMITS) {
                        name = self.read(&name, budget)?.parents.first()?.clone();
                    }
                    name
                }
                _ => return None,
            };
        }
        Some(name)
    }

    /// Returns a commit.
    pub(super) fn read(&self, name: &[u8], budget: &mut Budget) -> Option<Commit> {
        let bytes = self.objects.of_kind(name, Kind::Commit, budget)?;
        let (mut tree, mut parents, mut time) = (None, Vec::new(), 0);
        for line in bytes.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
            let line = String::from_utf8_lossy(line);
            match line.split_once(' ') {
                Some(("tree", name)) => tree = unhex(name),
                Some(("parent", name)) => parents.push(unhex(name)?),
                Some(("committer", who)) => {
                    time = who.rsplit(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
        Some(Commit { tree: tree?, parents, time })
    }

    /// Returns the last commit from which both were made.
    pub(super) fn common(&self, one: &[u8], other: &[u8], budget: &mut Budget) -> Option<Name> {
        let mut flags: HashMap<Name, u8> = HashMap::new();
        let (mut next, mut both) = (BinaryHeap::new(), Vec::new());
        for (name, side) in [(one, 1), (other, 2)] {
            *flags.entry(name.to_vec()).or_default() |= side;
            next.push((self.read(name, budget)?.time, name.to_vec()));
        }
        while let Some((_, name)) = next.pop() {
            let mut own = flags.get(&name).copied().unwrap_or_default();
            if own == COMMON {
                both.push(name.clone());
                own |= STALE;
            } else if own & STALE != 0 && next.iter().all(|(_, it)| is_stale(&flags, it)) {
                break;
            }
            if flags.len() > MOST_COMMITS {
                return None;
            }
            for parent in self.read(&name, budget)?.parents {
                let known = flags.entry(parent.clone()).or_default();
                if *known | own != *known {
                    *known |= own;
                    next.push((self.read(&parent, budget)?.time, parent));
                }
            }
        }
        both.into_iter().find(|name| !is_stale(&flags, name))
    }

    /// Returns the commit of a tag that bears a text, or the commit itself.
    fn peeled(&self, name: Name, budget: &mut Budget) -> Option<Name> {
        let mut name = name;
        for _ in 0..MOST_HOPS {
            match self.objects.read(&name, budget)? {
                (Kind::Commit, _) => return Some(name),
                (Kind::Tag, bytes) => {
                    let line = bytes.split(|byte| *byte == b'\n').next()?;
                    let hex = line.strip_prefix(b"object ")?;
                    name = unhex(std::str::from_utf8(hex).ok()?)?;
                }
                (Kind::Tree | Kind::Blob, _) => return None,
            }
        }
        None
    }

    /// Returns what a text without `~` and `^` stands for.
    fn base(&self, text: &str) -> Option<Name> {
        if let Some((before, inside)) = text.split_once("@{") {
            return self.logged(before, inside.strip_suffix('}')?);
        }
        let text = if text == "@" { "HEAD" } else { text };
        let is_name = text.bytes().all(|byte| byte > b' ' && !b"\\:?*[\x7f".contains(&byte));
        if text.is_empty() || !is_name || text.contains("..") || text.starts_with('/') {
            return None;
        }
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits && text.len() == self.objects.width * 2 {
            return unhex(&text.to_ascii_lowercase());
        }
        let places = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
        let found = places.iter().find_map(|place| self.reference(&format!("{place}{text}")));
        found
            .or_else(|| self.reference(&format!("refs/remotes/{text}/HEAD")))
            .or_else(|| match digits && text.len() >= 4 {
                true => self.objects.abbreviated(&text.to_ascii_lowercase()),
                false => None,
            })
            .or_else(|| self.remote(text))
    }

    /// Returns the branch of this name that exactly one of the remotes has: `git switch NAME` follows it.
    fn remote(&self, branch: &str) -> Option<Name> {
        let mut remotes: BTreeSet<String> = BTreeSet::new();
        let directory = std::fs::read_dir(self.found.common.join("refs/remotes"));
        for entry in directory.into_iter().flatten().flatten().take(64) {
            remotes.insert(entry.file_name().to_string_lossy().into_owned());
        }
        for (name, _) in self.packed()? {
            let remote = name.strip_prefix("refs/remotes/").and_then(|it| it.split('/').next());
            remotes.extend(remote.map(str::to_owned));
        }
        let place = |remote: &String| self.reference(&format!("refs/remotes/{remote}/{branch}"));
        let mut found: Vec<Name> = remotes.iter().filter_map(place).collect();
        (found.len() == 1).then(|| found.pop()).flatten()
    }

    /// Returns what `@{N}`, `@{-N}` and `@{upstream}` stand for.
    fn logged(&self, before: &str, inside: &str) -> Option<Name> {
        if matches!(inside, "u" | "upstream") && matches!(before, "" | "HEAD" | "@") {
            return self.upstream();
        }
        if let Some(number) = inside.strip_prefix('-') {
            let number: usize = number.parse().ok().filter(|it| *it > 0 && before.is_empty())?;
            let log = plain(&self.found.git.join("logs/HEAD"), LONGEST).ok()?;
            let log = String::from_utf8_lossy(&log);
            let moves = log.lines().rev().filter_map(|line| {
                let (from, _) =
                    line.split_once("\tcheckout: moving from ")?.1.split_once(" to ")?;
                Some(from)
            });
            return self.base(moves.take(number).nth(number - 1)?);
        }
        let number: usize = inside.parse().ok()?;
        let name = match before {
            "stash" => "refs/stash",
            _ => return None,
        };
        let log = plain(&self.found.common.join("logs").join(name), LONGEST).ok()?;
        let log = String::from_utf8_lossy(&log);
        unhex(log.lines().rev().nth(number)?.split(' ').nth(1)?)
    }

    fn upstream(&self) -> Option<Name> {
        let head = plain(&self.found.git.join("HEAD"), 4096).ok()?;
        let head = String::from_utf8(head).ok()?;
        let branch = head.trim_end().strip_prefix("ref: refs/heads/")?;
        let config = plain(&self.found.common.join("config"), 1 << 20).ok()?;
        let variables = git_variables(&config)?;
        let value = |name: &str| {
            // The full name of a key holds its subsection, which tells the cases apart.
            let full = format!("branch.{branch}.{name}");
            let found = variables.iter().rev().find(|it| it.full == full.as_bytes());
            String::from_utf8(found?.value.clone()?).ok()
        };
        let merged = value("merge")?;
        let merged = merged.strip_prefix("refs/heads/")?;
        match value("remote")?.as_str() {
            "." => self.reference(&format!("refs/heads/{merged}")),
            remote => self.reference(&format!("refs/remotes/{remote}/{merged}")),
        }
    }

    /// Returns the object to which a reference leads.
    fn reference(&self, name: &str) -> Option<Name> {
        let mut name = name.to_owned();
        for _ in 0..MOST_HOPS {
            let is_own = !name.starts_with("refs/") || name.starts_with("refs/bisect/");
            let directory: &Path = if is_own { &self.found.git } else { &self.found.common };
            let Ok(text) = plain(&directory.join(&name), 4096) else {
                let packed = self.packed()?;
                return packed.into_iter().find(|(it, _)| *it == name).map(|(_, found)| found);
            };
            let text = String::from_utf8(text).ok()?;
            match text.trim_end().strip_prefix("ref: ") {
                Some(next) if !next.contains("..") => next.trim().clone_into(&mut name),
                Some(_) => return None,
                None => return unhex(text.trim_end().get(..self.objects.width * 2)?),
            }
        }
        None
    }

    /// Returns the references in `packed-refs` (`git-pack-refs(1)`).
    fn packed(&self) -> Option<Vec<(String, Name)>> {
        let Ok(text) = plain(&self.found.common.join("packed-refs"), LONGEST) else {
            return Some(Vec::new());
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| !line.starts_with(['#', '^']));
        Some(
            lines
                .filter_map(|line| {
                    let (name, reference) = line.split_once(' ')?;
                    Some((reference.to_owned(), unhex(name)?))
                })
                .collect(),
        )
    }
}
