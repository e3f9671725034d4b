//! Sub-commands of git that write files of the working tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stockade_parser::{SimpleCommand, Word};

use super::super::allow_cover::program;
use crate::facts::{Bringing, GitPlace, TreeChange};
use crate::knowledge::{Brings, Version, knowledge, listed};

/// Options that matter here and are in no list of a row.
const OTHERS: [&[u8]; 5] = [b"--abort", b"--staged", b"--worktree", b"--merge", b"--keep"];

/// The words of a sub-command.
struct Words<'a> {
    row: &'static Brings,
    options: Vec<Vec<u8>>,
    operands: Vec<&'a [u8]>,
    /// Those behind `--`.
    behind: Option<Vec<&'a [u8]>>,
    /// Values of the options in [`Brings::takes`].
    taken: Vec<&'a [u8]>,
    creates: bool,
}

/// Returns what git brings into the working tree; none for another program, and where a word is not known before it runs.
pub(super) fn of(command: &SimpleCommand, directory: &Path) -> Option<Vec<Bringing>> {
    if program(command) != b"git" {
        return None;
    }
    let (place, rest) = place(command, directory)?;
    let words = Words::read(rest)?;
    let changes = changes(&words, &place)?.into_iter();
    let found = GitPlace::Above(place);
    Some(changes.map(|change| Bringing::Git(found.clone(), change)).collect())
}

/// Returns where git looks for its repository, and the words from the sub-command on (`git(1)`, Options).
fn place<'a>(command: &'a SimpleCommand, directory: &Path) -> Option<(PathBuf, &'a [Word])> {
    let mut directory = directory.to_owned();
    let mut at = 1;
    loop {
        let option = command.words.get(at)?.exact()?;
        match option {
            b"-C" => {
                let inner = command.words.get(at + 1)?.exact()?;
                directory = directory.join(OsStr::from_bytes(inner));
                at += 2;
            }
            // Another place, or a configuration that may choose one.
            b"--git-dir" | b"--work-tree" | b"--bare" => return None,
            other if other.starts_with(b"--git-dir=") || other.starts_with(b"--work-tree=") => {
                return None;
            }
            other if listed(&knowledge().git.valued, other) => at += 2,
            other if other.starts_with(b"-") => at += 1,
            _ => return Some((stockade_rules::normal(&directory), command.words.get(at..)?)),
        }
    }
}

impl<'a> Words<'a> {
    fn read(words: &'a [Word]) -> Option<Words<'a>> {
        let mut words = words.iter().map(Word::exact);
        let name = words.next()??;
        let row = knowledge().git.brings.iter().find(|row| row.command.as_bytes() == name)?;
        let mut read = Words {
            row,
            options: Vec::new(),
            operands: Vec::new(),
            behind: None,
            taken: Vec::new(),
            creates: false,
        };
        while let Some(word) = words.next() {
            let word = word?;
            if let Some(behind) = &mut read.behind {
                behind.push(word);
            } else if word == b"--" {
                read.behind = Some(Vec::new());
            } else if word.starts_with(b"-") && word.len() > 1 {
                read.option(word, &mut words)?;
            } else {
                read.operands.push(word);
            }
        }
        Some(read)
    }

    /// Reads a word of options: `--name`, `--name=value`, a shortened name, or letters in one word (`gitcli(7)`).
    fn option(
        &mut self,
        word: &'a [u8],
        words: &mut impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Option<()> {
        if word.starts_with(b"--") {
            let equals = word.iter().position(|byte| *byte == b'=').unwrap_or(word.len());
            let (name, value) = word.split_at(equals);
            return self.take(self.whole_name(name), value.get(1..), words);
        }
        for (at, letter) in word.iter().enumerate().skip(1) {
            let name = [b'-', *letter];
            let behind = word.get(at + 1..).filter(|behind| !behind.is_empty());
            if self.has_value(&name) {
                return self.take(name.to_vec(), behind, words);
            }
            self.options.push(name.to_vec());
        }
        Some(())
    }

    /// Returns the name that a shortened one stands for; git refuses one that could stand for two.
    fn whole_name(&self, name: &[u8]) -> Vec<u8> {
        let row = self.row;
        let lists = [&row.valued, &row.takes, &row.creates, &row.whole, &row.unless];
        let all = || lists.into_iter().flatten().map(|it| it.as_bytes()).chain(OTHERS);
        let is_whole = all().any(|it| it == name);
        let found = all().find(|it| !is_whole && it.starts_with(name));
        found.unwrap_or(name).to_vec()
    }

    fn has_value(&self, name: &[u8]) -> bool {
        [&self.row.takes, &self.row.creates, &self.row.valued]
            .into_iter()
            .any(|it| listed(it, name))
    }

    fn take(
        &mut self,
        name: Vec<u8>,
        value: Option<&'a [u8]>,
        words: &mut impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Option<()> {
        self.creates |= listed(&self.row.creates, &name);
        if self.has_value(&name) {
            let value = match value {
                Some(value) => value,
                None => words.next()??,
            };
            self.taken.extend(listed(&self.row.takes, &name).then_some(value));
        }
        self.options.push(name);
        Some(())
    }

    fn has(&self, options: &[&str]) -> bool {
        self.options.iter().any(|option| listed(options, option))
    }

    /// Returns the first operand, in front of `--` or behind.
    fn version(&self) -> Option<Vec<u8>> {
        let behind = self.behind.as_ref().and_then(|it| it.first());
        self.operands.first().or(behind).map(|it| it.to_vec())
    }

    fn is(&self, option: &str) -> bool {
        self.has(&[option])
    }
}

/// Returns which files a sub-command writes.
fn changes(words: &Words<'_>, place: &Path) -> Option<Vec<TreeChange>> {
    if words.has(&words.row.unless) {
        return None;
    }
    let first = words.operands.first().map(|it| it.to_vec());
    let head = || b"HEAD".to_vec();
    let upstream = || b"@{u}".to_vec();
    if words.is("--abort") {
        let back: &[u8] = if words.row.version == Version::Base { b"ORIG_HEAD" } else { b"HEAD" };
        return Some(vec![TreeChange::Reset(back.to_vec())]);
    }
    let whole = words.has(&words.row.whole);
    let to = |rev: Vec<u8>| match whole {
        true => TreeChange::Reset(rev),
        false => TreeChange::Switch(rev),
    };
    let places = |words: &[&[u8]]| places(words, place);
    match words.row.version {
        Version::Operand => Some(vec![to(words.version()?)]),
        Version::OperandOrPaths => {
            let behind = words.behind.as_deref();
            Some(match (first, behind) {
                (rev, Some(behind @ [_, ..])) => vec![TreeChange::Paths(rev, places(behind))],
                (Some(rev), _) if words.creates || whole => vec![to(rev)],
                (Some(rev), _) if words.operands.len() == 1 => vec![TreeChange::Checkout(rev)],
                (Some(rev), _) => vec![
                    TreeChange::Paths(None, places(&words.operands)),
                    TreeChange::Paths(Some(rev), places(words.operands.get(1..)?)),
                ],
                (None, _) if whole => vec![to(head())],
                (None, _) => return None,
            })
        }
        Version::Paths => {
            let only_index = words.has(&["-S", "--staged"]) && !words.has(&["-W", "--worktree"]);
            let behind = words.behind.as_deref().unwrap_or_default();
            let named = [words.operands.as_slice(), behind].concat();
            let rev = words.taken.last().map(|it| it.to_vec());
            (!only_index).then(|| vec![TreeChange::Paths(rev, places(&named))])
        }
        Version::Hard => {
            let kept = words.has(&["--merge", "--keep"]);
            (whole || kept).then(|| vec![to(first.unwrap_or_else(head))])
        }
        Version::Merged if words.operands.is_empty() => Some(vec![TreeChange::Merge(upstream())]),
        Version::Merged => {
            let all = words.operands.iter().map(|it| TreeChange::Merge(it.to_vec()));
            Some(all.collect())
        }
        Version::Pulled => Some(vec![TreeChange::Merge(match words.operands.as_slice() {
            [] => upstream(),
            [remote, branch] => [remote, &b"/"[..], branch].concat(),
            _ => return None,
        })]),
        Version::Base => {
            let onto = words.taken.last().map(|it| it.to_vec()).or(first);
            Some(vec![TreeChange::Switch(onto.unwrap_or_else(upstream))])
        }
        Version::Picked => Some(words.operands.iter().flat_map(|it| picked(it)).collect()),
        Version::Stashed => stashed(words),
    }
}

/// Returns what picking a commit, a range of them, or those of two sides writes (`gitrevisions(7)`).
fn picked(text: &[u8]) -> Vec<TreeChange> {
    let or_head = |rev: &[u8]| if rev.is_empty() { b"HEAD".to_vec() } else { rev.to_vec() };
    let Some(at) = text.windows(2).position(|it| it == b"..") else {
        return vec![TreeChange::Between([text, b"^"].concat(), text.to_vec())];
    };
    let (from, to) = text.split_at(at);
    match (to.strip_prefix(b"..."), to.strip_prefix(b"..")) {
        (Some(to), _) => vec![TreeChange::Merge(or_head(from)), TreeChange::Merge(or_head(to))],
        (None, to) => vec![TreeChange::Between(or_head(from), or_head(to.unwrap_or_default()))],
    }
}

/// Returns what `git stash` writes: what was put away, or what stands there instead of it (`git-stash(1)`).
fn stashed(words: &Words<'_>) -> Option<Vec<TreeChange>> {
    let (what, rest) = match words.operands.split_first() {
        Some((what, rest)) => (*what, rest),
        None => (&b"push"[..], &[][..]),
    };
    let entry = match what {
        b"push" | b"save" => return Some(vec![TreeChange::Reset(b"HEAD".to_vec())]),
        b"pop" | b"apply" => rest.first(),
        b"branch" => rest.get(1),
        _ => return None,
    };
    let entry = match entry {
        None => b"stash@{0}".to_vec(),
        Some(number) if number.iter().all(u8::is_ascii_digit) => {
            [b"stash@{", *number, b"}"].concat()
        }
        Some(name) => name.to_vec(),
    };
    Some(vec![TreeChange::Between([entry.as_slice(), b"^"].concat(), entry)])
}

/// Returns paths as far as they are spelled out; what git matches itself stands for all files.
fn places(words: &[&[u8]], directory: &Path) -> Vec<PathBuf> {
    if words.concat().iter().any(|byte| b"*?[:".contains(byte)) {
        return Vec::new();
    }
    words
        .iter()
        .map(|word| stockade_rules::normal(&directory.join(OsStr::from_bytes(word))))
        .collect()
}
