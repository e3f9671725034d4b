//! Where symbolic links may lead that a command makes: to tools and packages outside of the project, and where a rule says.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_parser::json::view::View;
use stockade_parser::tables::{Table, view};
use stockade_sandbox::Pattern;

use super::{Around, real};
use crate::facts::Place;
use crate::regions::Regions;

/// What `policies/paths/toolchains.jsonc` says.
#[derive(Debug, Default)]
struct Known {
    home: Vec<&'static str>,
    system: Vec<&'static str>,
    /// Variables, and the folder of the home directory that each of them puts elsewhere.
    moved: Vec<(&'static str, &'static str)>,
}

fn known() -> &'static Known {
    // A table that cannot be read names nothing; a test reads it.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Toolchains).members()?;
    let texts = |key: &str| table.get(key).and_then(View::texts);
    let moved = table.get("moved")?.members()?;
    let moved = moved.iter().map(|(name, folder)| Some((name, folder.text()?)));
    Some(Known {
        home: texts("home")?,
        system: texts("system")?,
        moved: moved.collect::<Option<_>>()?,
    })
}

/// Returns the directories of tools that variables of the caller name: the person set them before the call, and no
/// command sets them.
pub(crate) fn moved(caller: &[(String, String)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (variable, value) in caller.iter().filter(|(_, value)| value.starts_with('/')) {
        for (_, folder) in known().moved.iter().filter(|(name, _)| name == variable) {
            let inside = |entry: &&str| match Path::new(entry).strip_prefix(folder) {
                Ok(rest) if rest.as_os_str().is_empty() => Some(PathBuf::from(value)),
                Ok(rest) => Some(Path::new(value).join(rest)),
                Err(_) => None,
            };
            found.extend(known().home.iter().filter_map(inside));
        }
    }
    found
}

/// Returns the directories outside of `writable` to which links may lead.
pub(super) fn roots(around: &Around<'_>, writable: &[PathBuf]) -> Vec<PathBuf> {
    let Around { place, sandbox, .. } = *around;
    let known = known();
    let home = known.home.iter().map(|folder| place.home.join(folder));
    let tools = known.system.iter().map(PathBuf::from).chain(home).chain(kept(around));
    let by_rule = sandbox.allow_read.iter().map(|(path, _)| path);
    let by_rule = by_rule.filter(|path| !Pattern::is(path)).map(PathBuf::from);
    let all = tools.chain(by_rule).filter(|path| path.symlink_metadata().is_ok());
    let mut found: Vec<PathBuf> = Vec::new();
    for path in all.filter(|path| !goes_through(path, writable)) {
        let path = real(&path);
        // What holds the home directory holds what a person writes.
        if !place.home.starts_with(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns the directories that variables of the caller name and in which no command of any project wrote.
fn kept(around: &Around<'_>) -> Vec<PathBuf> {
    if around.tools.is_empty() {
        return Vec::new();
    }
    let regions = Regions::of(around.place, around.sandbox, &around.places.state);
    let counts = |path: &&PathBuf| !regions.hold(path) && !holds_work(path, around.place);
    around.tools.iter().filter(counts).cloned().collect()
}

/// Says whether the work lies below `path`, with what a person writes beside it.
fn holds_work(path: &Path, place: &Place) -> bool {
    let path = real(path);
    place.cwd.starts_with(&path) || place.regions().iter().any(|it| real(it).starts_with(&path))
}

/// Says whether a command could choose where `path` leads.
fn goes_through(path: &Path, writable: &[PathBuf]) -> bool {
    let is_writable = |path: &Path| writable.iter().any(|it| path.starts_with(it));
    path.ancestors().any(|above| is_writable(above) || is_writable(&real(above)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_names_nothing_wide() {
        let known = read().expect("the table");
        for folder in &known.home {
            let path = Path::new(folder);
            assert!(path.is_relative() && !folder.is_empty(), "{folder}");
            assert!(path.components().all(|it| matches!(it, std::path::Component::Normal(_))));
        }
        for path in &known.system {
            assert!(Path::new(path).is_absolute(), "{path}");
            assert!(
                !["/", "/home", "/root", "/tmp", "/var", "/etc", "/dev", "/opt"].contains(path)
            );
        }
        for (variable, folder) in &known.moved {
            let entries = known.home.iter().filter(|it| Path::new(it).starts_with(folder));
            assert!(entries.count() > 0, "{variable}: {folder}");
        }
        assert!(known.home.contains(&".pyenv/versions") && known.system.contains(&"/usr/bin"));
    }
    #[test]
    fn a_variable_moves_the_parts_of_a_folder_that_hold_tools() {
        let of = |name: &str, value: &str| moved(&[(name.to_owned(), value.to_owned())]);
        let expected = ["versions", "shims"].map(|it| Path::new("/opt/py").join(it));
        assert_eq!(of("PYENV_ROOT", "/opt/py"), expected);
        assert_eq!(of("UV_CACHE_DIR", "/var/uv"), [PathBuf::from("/var/uv")]);
        for (name, value) in [("PYENV_ROOT", "py"), ("PYENV_ROOT", ""), ("HOME", "/opt")] {
            assert!(of(name, value).is_empty(), "{name}={value}");
        }
    }
}
