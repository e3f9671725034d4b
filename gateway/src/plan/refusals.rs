//! Rules of the settings that refuse, and those that lift one for reading: what they are about, and what is refused by its
//! name alone.

use stockade_policy::{Origin, SandboxSettings};
use stockade_sandbox::{Access, Pattern};

use super::globs::{self, Found, Ground, Unlisted};
use super::place_of;
use super::rules::Rules;
use super::targets::{Target, Targets, shown};
use crate::protocol::errors::{Code, Failure};

/// One entry of the settings.
type Entry<'a> = (&'a str, &'a Origin, Access);

/// Adds what the settings refuse, and what they show again, to the rules of paths and of patterns.
pub(super) fn add(
    sandbox: &SandboxSettings,
    targets: &mut Targets,
    (rules, patterns): (&mut Rules, &mut Rules),
) -> Result<(), Failure> {
    let lists = [
        (&sandbox.deny_write, Access::ReadOnly),
        (&sandbox.deny_read, Access::None),
        (&sandbox.allow_read, Access::Read),
    ];
    let entries: Vec<Entry<'_>> = lists
        .iter()
        .flat_map(|(list, access)| {
            list.iter().map(|(path, origin)| (path.as_str(), origin, *access))
        })
        .collect();
    for (entry, found) in entries.iter().zip(expanded(&entries, targets)?) {
        let (pattern, origin, access) = *entry;
        let place = place_of(pattern, origin);
        if let Some(note) = unseen(&found) {
            rules.tell(format!("{place}: {note}"));
        }
        for path in &found.paths {
            if access == Access::Read {
                rules.permit(path, access, (pattern, origin));
                continue;
            }
            match targets.of(path, access) {
                Target::There => rules.refuse(path, access, &place),
                Target::Closed(above) => rules.add(&above, access, &place),
                Target::Name(name, note) => {
                    rules.add(&name, Access::Kept, &place);
                    rules.tell(format!("{place}: {note}"));
                }
            }
        }
        if Pattern::is(pattern) && access != Access::Read {
            let path = rules.with_real_start(pattern, &place);
            patterns.add(&path, access, &place);
        }
    }
    Ok(())
}

/// Finds what patterns stand for, all at once.
fn expanded(entries: &[Entry<'_>], targets: &Targets) -> Result<Vec<Found>, Failure> {
    let asked: Vec<(&str, Unlisted)> = entries
        .iter()
        .map(|(pattern, _, access)| match access {
            Access::ReadOnly | Access::None | Access::Protected => (*pattern, Unlisted::Whole),
            Access::Read | Access::Write | Access::Kept => (*pattern, Unlisted::Nothing),
        })
        .collect();
    let ground = Ground {
        is_needed: &|path| targets.is_needed(path),
        follows: &|link| targets.is_reached(link),
    };
    let found = globs::expand(&asked, ground, globs::LIMIT);
    found.map_err(|(index, reason)| {
        let pattern = asked.get(index).map(|asked| asked.0).unwrap_or_default();
        let message =
            format!("the pattern `{}` cannot be expanded: {reason}", pattern.escape_debug());
        Failure::new(Code::SettingsRejected, message, "name fewer files in it")
    })
}

/// Says what could not be looked through for a pattern.
fn unseen(found: &Found) -> Option<String> {
    let (first, rest) = found.unseen.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let seconds = globs::LIMIT.as_secs();
    Some(format!(
        "{}{more} could not be looked through in {seconds} s and counts as a whole; move it out of the project, or write a pattern that does not reach it",
        shown(first)
    ))
}

/// Leaves out what refuses nothing because its path leads nowhere: the links on its way are kept as they are.
pub(super) fn settle(targets: &Targets, rules: &mut Rules) {
    let refuses = |access| matches!(access, Access::None | Access::ReadOnly | Access::Protected);
    rules.all.retain(|rule| !refuses(rule.access) || !targets.is_over_link(&rule.path));
}
