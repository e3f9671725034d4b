//! Whether a hook is the person's own: what it starts and what it names lies where no command can write. Such a hook runs
//! unconfined, apart from the project. Any other one may be what a command wrote, and runs like a command.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stockade_parser::{Limits, StartState};
use stockade_policy::{CommandHook, Doubt, Hook, Named};

use super::Around;
use stockade_scene::known;
use stockade_scene::regions::Regions;

/// Variables by which a hook finds the project.
const PROJECT: [&str; 2] = ["CLAUDE_PROJECT_DIR", "STOCKADE_PROJECT_DIR"];
/// Bytes that are read of a program to find its interpreter (execve(2)).
const FIRST_LINE: u64 = 256;

/// Kind of a hook: the person's own, or one that a command may have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// The person's own; the search path that it gets.
    Own(String),
    /// A command may have written the hook, for this reason.
    Bound(String),
}

/// Finds out what a hook is that gets `variables`.
pub(super) async fn of(
    hook: &Hook,
    command: &CommandHook,
    variables: &BTreeMap<String, String>,
    Around { scene, scanner }: Around<'_>,
) -> Standing {
    let text = match &command.arguments {
        Some(arguments) => {
            let words = std::iter::once(&command.command).chain(arguments);
            let filled = words.map(|word| quoted(&super::process::filled(word, variables)));
            filled.collect::<Vec<_>>().join(" ")
        }
        None => command.command.clone(),
    };
    let known = ["HOME"].iter().chain(&PROJECT).filter_map(|name| {
        Some((name.as_bytes().to_vec(), variables.get(*name)?.clone().into_bytes()))
    });
    let start = StartState {
        version: scene.shell.version,
        known: known.collect(),
        present: variables.keys().map(|name| name.as_bytes().to_vec()).collect(),
        ..StartState::default()
    };
    let tree = scanner.parse(text.as_bytes(), &start, &Limits::default()).await;
    let named = match stockade_policy::named_by(&tree) {
        Ok(named) => named,
        Err(reason) => return Standing::Bound(reason),
    };
    let (scene, search) = (scene.clone(), variables.get("PATH").cloned().unwrap_or_default());
    let above = hook.above.clone();
    let look = move || {
        // Commands of the project that lies around this one write there.
        let regions = scene.regions().with(above.as_deref());
        look(&regions, &search, &scene.place.cwd, &named)
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|_| Standing::Bound("its path cannot be resolved".to_owned()))
}

/// Returns a word as a shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Looks where the words of a hook lead.
fn look(regions: &Regions, search: &str, cwd: &Path, named: &Named) -> Standing {
    for program in &named.programs {
        if let Some(reason) = program_in_region(regions, search, cwd, program) {
            return Standing::Bound(reason);
        }
    }
    for word in &named.words {
        let text = String::from_utf8_lossy(word);
        if leads_into(regions, &text) {
            let text = text.escape_debug();
            return Standing::Bound(format!("`{text}` leads to where commands can write"));
        }
    }
    Standing::Own(regions.clean(search).kept)
}

fn program_in_region(regions: &Regions, search: &str, cwd: &Path, word: &[u8]) -> Option<String> {
    let Ok(name) = std::str::from_utf8(word) else {
        return Some("its name is not UTF-8".to_owned());
    };
    let file = match known::outside(regions, search, cwd, name) {
        Ok(None) => return None,
        Ok(Some(file)) => file,
        Err(Doubt::Planted(file) | Doubt::Exposed(file) | Doubt::Absent(file)) => {
            return Some(format!("commands can write `{}`", file.display()));
        }
    };
    let interpreter = interpreter(&file)?;
    let held = !interpreter.is_absolute() || regions.hold(&interpreter);
    held.then(|| format!("commands can write `{}`, its interpreter", interpreter.display()))
}

/// Returns the interpreter that a script names in its first line.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let text = String::from_utf8_lossy(line);
    text.split_ascii_whitespace().next().map(PathBuf::from)
}

/// Says whether a word names a place where commands may write, or the project in whatever way. INVARIANT: what lies in the
/// directory of the call does not matter; else a command could make a hook of the person one whose word counts less.
fn leads_into(regions: &Regions, word: &str) -> bool {
    let value = word.split_once('=').map(|(_, value)| value);
    let held = |text: &str| text.starts_with('/') && regions.hold(Path::new(text));
    PROJECT.iter().any(|name| word.contains(name))
        || regions.are_named_in(word)
        || held(word)
        || value.is_some_and(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("it's $x"), r"'it'\''s $x'");
    }
}
