//! Where files of the home directory lie for a caller besides there: what variables say, after `moved` and `named` of
//! `policies/credentials.jsonc`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::View;

use stockade_base::place::Place;

/// The rows of the table about variables.
#[derive(Debug, Default)]
struct Known {
    moved: Vec<(&'static str, &'static str)>,
    renamed: Vec<(&'static str, &'static str)>,
    named: Vec<&'static str>,
}

fn known() -> &'static Known {
    // A test reads the table.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Credentials).members()?;
    let pairs = |key: &str| {
        let pairs = table.get(key)?.members()?;
        pairs.iter().map(|(name, folder)| Some((name, folder.text()?))).collect::<Option<_>>()
    };
    Some(Known {
        moved: pairs("moved")?,
        renamed: pairs("renamed")?,
        named: table.get("named").and_then(View::texts)?,
    })
}

/// Where files of the home directory lie for this caller besides there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Folders and files of the home directory, with what a variable says.
    moved: Vec<(&'static str, PathBuf)>,
    /// Files that variables name.
    pub named: Vec<PathBuf>,
}

impl Elsewhere {
    /// Finds it from the variables of the caller, and those of the command.
    pub fn find(
        caller: &[(String, String)],
        command: &BTreeMap<String, String>,
        place: &Place,
    ) -> Elsewhere {
        let of_command = command.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let of_caller = caller.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut found = Elsewhere::default();
        for (variable, value) in of_caller.chain(of_command) {
            for (_, file) in known().renamed.iter().filter(|(name, _)| *name == variable) {
                // The value is one name: with more parts it means nothing to the program that reads it.
                let homes = std::iter::once(&place.home).chain(&place.homes);
                let there = homes.map(|home| (*file, home.join(value)));
                found.moved.extend(there.filter(|(_, path)| !value.is_empty() && path.is_file()));
            }
            let values =
                std::iter::once(value).chain(value.split(':').filter(|_| value.contains(':')));
            for value in values.filter(|value| !value.is_empty()) {
                let path = place.cwd.join(value);
                if is_too_much(&path, place) {
                    continue;
                }
                let moved = known().moved.iter().filter(|(name, _)| *name == variable);
                found.moved.extend(moved.map(|(_, folder)| (*folder, path.clone())));
                if known().named.contains(&variable) {
                    found.named.push(path);
                }
            }
        }
        found.moved.sort();
        found.moved.dedup();
        found
    }

    /// Returns where `name` of the home directory lies besides there.
    pub fn places_of(&self, name: &str, place: &Place) -> Vec<PathBuf> {
        let moved = self.moved.iter().filter_map(|(folder, path)| {
            let inside = Path::new(name).strip_prefix(folder).ok();
            match inside {
                Some(inside) if inside.as_os_str().is_empty() => Some(path.clone()),
                Some(inside) => Some(path.join(inside)),
                // All of what it was in is hidden.
                None => Path::new(folder).starts_with(name).then(|| path.clone()),
            }
        });
        let homes = place.homes.iter().map(|home| home.join(name));
        homes.chain(moved).filter(|path| !holds_work(path, place)).collect()
    }
}

/// Says whether a variable names what is not a folder or file of settings.
fn is_too_much(path: &Path, place: &Place) -> bool {
    let own = ["/dev", "/proc", "/sys"];
    path == Path::new("/")
        || own.iter().any(|own| path.starts_with(own))
        || place.cwd.as_os_str().is_empty()
}

/// Says whether hiding `path` would hide the work.
pub fn holds_work(path: &Path, place: &Place) -> bool {
    let all = [&place.home, &place.project, &place.cwd];
    all.into_iter().chain(&place.additional).any(|it| it.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_variables_mean() {
        let known = read().expect("the table");
        assert!(!known.moved.is_empty() && !known.named.is_empty());
    }
}
