//! Expands the patterns of file lists: `*`, `?` and `[...]` within a name, `**` across directories.
//!
//! All patterns of a plan are looked for together, so each directory is listed once. Nothing that lies in a directory
//! stops a command: what cannot be looked through in time counts as a whole for what refuses.

mod walk;
mod whole;

use std::path::{Path, PathBuf};
use std::time::Duration;

use stockade_spec::{Pattern, Wild};

use self::walk::Walk;
pub(super) use self::whole::{counts, gather};

/// How long directories are looked through for one command.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// Treatment of a directory that cannot be looked through, although a command could reach its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// All of it, for what refuses.
    Whole,
    /// Nothing, for what permits.
    Nothing,
}

/// Paths that a pattern stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// Existing paths, and directories that are refused as a whole.
    pub(super) paths: Vec<PathBuf>,
    /// Those of them that would have to be looked through for longer, or lie too deep.
    pub(super) unseen: Vec<PathBuf>,
}

/// Facts about the place of a command.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// Names the directories that no command can do without: they are never refused as a whole.
    pub(super) is_needed: &'a dyn Fn(&Path) -> bool,
    /// Says whether a pattern reaches over a link.
    pub(super) follows: &'a dyn Fn(&Path) -> bool,
}

/// One name of a pattern, or any number of them.
#[derive(Debug)]
enum Segment {
    Across,
    Plain(String),
    Wild(Wild),
}

/// Returns the existing paths that each of these absolute patterns stands for; a path without wildcard stands for
/// itself.
pub(super) fn expand(
    patterns: &[(&str, Unlisted)],
    ground: Ground<'_>,
    limit: Duration,
) -> Result<Vec<Found>, (usize, &'static str)> {
    let mut sought = Vec::with_capacity(patterns.len());
    for (index, (pattern, _)) in patterns.iter().enumerate() {
        sought.push(match Pattern::is(pattern) {
            true => segments(pattern).map_err(|reason| (index, reason))?,
            false => Vec::new(),
        });
    }
    let mut walk = Walk::new(&sought, ground, limit);
    walk.run();
    let answers = walk.answers().into_iter().zip(patterns);
    let found = answers.map(|(answer, (pattern, unlisted))| {
        if !Pattern::is(pattern) {
            return Found { paths: vec![PathBuf::from(pattern)], unseen: Vec::new() };
        }
        whole::settle(answer, *unlisted, ground.is_needed)
    });
    Ok(found.collect())
}

fn segments(pattern: &str) -> Result<Vec<Segment>, &'static str> {
    let names = pattern.split('/').filter(|segment| !segment.is_empty());
    let segment = |name: &str| {
        Ok(match name {
            "**" => Segment::Across,
            plain if !Pattern::is(plain) => Segment::Plain(plain.to_owned()),
            wild => {
                let wild = Wild::parse(wild)?;
                wild.name().map_or(Segment::Wild(wild), Segment::Plain)
            }
        })
    };
    names.map(segment).collect()
}

#[cfg(test)]
mod tests;
