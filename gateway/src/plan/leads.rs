//! Where symbolic links may lead that a command makes: to tools and packages outside of the project, and where a rule says.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stockade_parser::json::view::View;
use stockade_parser::tables::{Table, view};
use stockade_policy::SandboxSettings;
use stockade_sandbox::Pattern;

use super::real;
use crate::facts::Place;

/// What `policies/paths/toolchains.jsonc` says.
#[derive(Debug, Default)]
struct Known {
    home: Vec<&'static str>,
    system: Vec<&'static str>,
}

fn known() -> &'static Known {
    // A table that cannot be read names nothing; a test reads it.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Toolchains).members()?;
    let texts = |key: &str| table.get(key).and_then(View::texts);
    Some(Known { home: texts("home")?, system: texts("system")? })
}

/// Returns the directories outside of `writable` to which links may lead.
pub(super) fn roots(
    place: &Place,
    sandbox: &SandboxSettings,
    writable: &[PathBuf],
) -> Vec<PathBuf> {
    let known = known();
    let home = known.home.iter().map(|folder| place.home.join(folder));
    let tools = known.system.iter().map(PathBuf::from).chain(home);
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
        assert!(known.home.contains(&".pyenv/versions") && known.system.contains(&"/usr/bin"));
    }
}
