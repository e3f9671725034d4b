//! Rules that would allow a write outside of the writable directories.

use std::path::Path;

use stockade_spec::Violation;

use super::{Around, Remedy, allow_write};

/// Returns the smallest path that must be writable, never one that contains the home directory or the project.
pub(super) fn remedy(found: &Violation, around: Around<'_>) -> Remedy {
    let path = Path::new(&found.object);
    let own = ["/proc", "/sys", "/dev", "/run"];
    if own.iter().any(|own| path.starts_with(own)) {
        return Remedy::Nothing("no setting makes this directory writable");
    }
    let directory = path.parent().filter(|it| around.is_narrow(it));
    let there = path.symlink_metadata();
    let is_passing = path.file_name().is_some_and(|name| is_passing(&name.to_string_lossy()));
    let (writable, first) = match (found.call.as_str(), &there, directory) {
        // An existing file can be opened by a rule of its own.
        ("open" | "truncate", Ok(there), _) if there.is_file() => (path, None),
        ("open", Err(_), Some(directory)) => (directory, None),
        // A rule for what is not there grants nothing.
        ("open", Err(_), None) if !is_passing => (path, Some("make that file")),
        ("mkdir", Err(_), _) if !is_passing => (path, Some("make that directory")),
        // To remove or rename takes the directory, and so does a name that is made for something else.
        (_, _, Some(directory)) => (directory, None),
        (_, _, None) => {
            return Remedy::Nothing(
                "the directory contains too much to be writable: run the command outside of the sandbox",
            );
        }
    };
    allow_write(writable, first)
}

/// Says whether a file of this name is there for a moment: a lock, or what is renamed when it is written.
fn is_passing(name: &str) -> bool {
    let ends = [".lock", ".lck", ".tmp", ".temp", ".swp", ".swx", ".part", ".new", "~"];
    let begins = ["tmp", ".tmp", ".#", ".goutputstream-"];
    let tail = name.rsplit(['.', '-', '_']).next().unwrap_or(name);
    let tail = tail.strip_prefix("sed").filter(|rest| rest.len() == RANDOM).unwrap_or(tail);
    ends.iter().any(|end| name.ends_with(end))
        || begins.iter().any(|begin| name.starts_with(begin))
        || is_random(tail)
}

/// How many characters `mkstemp(3)` puts at the end of a name.
const RANDOM: usize = 6;

/// Says whether a text looks like one that `mkstemp(3)` chose, or like a number: letters of both cases or digits among
/// letters, as no word has them.
fn is_random(text: &str) -> bool {
    let is = |kind: fn(&char) -> bool| text.chars().any(|it| kind(&it));
    let has_digit = is(char::is_ascii_digit);
    let has_upper = text.chars().skip(1).any(|it| it.is_ascii_uppercase());
    let has_lower = is(char::is_ascii_lowercase);
    text.len() >= RANDOM
        && text.chars().all(|it| it.is_ascii_alphanumeric())
        && (has_digit || has_upper && has_lower)
}
