//! Limits on the cost of a text with very many commands, and on how much of it a verdict lists.

use std::cmp::Reverse;

use stockade_parser::{Reason, SimpleCommand, Unread};

use super::part::Settled;
use super::shell::Shell;

/// Most commands and redirections of one text that are judged. Twice as many as fit into the longest text that a rule
/// about particular commands can allow.
pub(super) const MOST_PARTS: usize = 20_000;
/// Most parts that a verdict lists.
pub(super) const LISTED_PARTS: usize = 256;
/// Most rules that a verdict lists besides the one that decides each part.
pub(super) const LISTED_RULES: usize = 1_024;

/// Returns why the text is refused unjudged: it has too many parts, or was not read to its end.
pub(super) fn beyond(shell: &Shell<'_>) -> Option<String> {
    let parts = shell.commands.len() + shell.writes.len() + shell.reads.len();
    if parts > MOST_PARTS {
        let reason = format!(
            "the text is too long to be judged: it has {parts} commands and redirections, and at most {MOST_PARTS} are \
             judged"
        );
        return Some(reason);
    }
    let cut = |reason: &Reason| matches!(reason, Reason::LimitWork | Reason::LimitInput);
    let opaque = shell.opaque.iter().find(|opaque| cut(&opaque.reason))?;
    let why = opaque.reason.help().trim_end_matches('.');
    Some(format!("the text is too long to be judged: {why}"))
}

/// Returns which parts a verdict lists, in their order: all, or the deciding one and the strictest of the others.
pub(super) fn listed(settled: &[Settled], deciding: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..settled.len()).collect();
    if places.len() > LISTED_PARTS {
        let decision = |place: &usize| settled.get(*place).map(|outcome| outcome.decision);
        places.sort_by_key(|place| (*place != deciding, Reverse(decision(place))));
        places.truncate(LISTED_PARTS);
        places.sort_unstable();
    }
    places
}

/// Commands that a command starts, and its texts that are not read: found once for a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside {
    /// Places of a command and of one that it starts itself, sorted.
    started: Vec<(usize, usize)>,
    /// Places of a command and of a text of it that is not read, sorted.
    unread: Vec<(usize, usize)>,
}

impl Inside {
    pub fn of(commands: &[SimpleCommand], unread: &[Unread]) -> Inside {
        let outer = |(place, command): (usize, &SimpleCommand)| {
            Some((command.via.last()?.command as usize, place))
        };
        let mut started: Vec<(usize, usize)> =
            commands.iter().enumerate().filter_map(outer).collect();
        started.sort_unstable();
        let unread = unread.iter().enumerate().map(|(place, it)| (it.command as usize, place));
        let mut unread: Vec<(usize, usize)> = unread.collect();
        unread.sort_unstable();
        Inside { started, unread }
    }

    /// Returns the places of the commands that the command at `index` starts itself.
    pub fn started_by(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        of(&self.started, index)
    }

    /// Returns the place of the first text of the command at `index` that is not read.
    pub fn unread_of(&self, index: usize) -> Option<usize> {
        of(&self.unread, index).next()
    }
}

fn of(pairs: &[(usize, usize)], index: usize) -> impl Iterator<Item = usize> + '_ {
    let first = pairs.partition_point(|(outer, _)| *outer < index);
    let rest = pairs.get(first..).unwrap_or_default().iter();
    rest.take_while(move |(outer, _)| {
        #[cfg(test)]
        steps::count();
        *outer == index
    })
    .map(|(_, inner)| *inner)
}

/// Steps of lookups, counted for the tests that bound them.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::Cell;

    thread_local! {
        static TAKEN: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts one.
    pub fn count() {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
    }

    /// Returns how many were counted in this thread since the last call.
    pub fn take() -> usize {
        TAKEN.with(|taken| taken.replace(0))
    }
}

#[cfg(test)]
mod tests;
