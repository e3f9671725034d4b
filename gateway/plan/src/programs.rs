//! The directories of programs that the person starts: they stay as they are, wherever they lie.

use std::path::{Path, PathBuf};

use stockade_spec::Access;

use super::Around;
use super::rules::Rules;
use stockade_settings::bounds;

/// Keeps the directories of programs below the home directory that lie in one of `writable`.
pub(super) fn keep(rules: &mut Rules, writable: &[PathBuf], around: &Around<'_>) {
    let known = bounds::known();
    let homes: Vec<&PathBuf> = bounds::homes(around.place).collect();
    let search = around.environment.variables.get("PATH").map(String::as_str).unwrap_or_default();
    let listed = search.split(':').map(PathBuf::from).filter(|it| it.is_absolute());
    let listed: Vec<PathBuf> = listed.filter(|it| !is_work(it, around)).collect();
    let usual = homes.iter().flat_map(|home| known.programs.iter().map(|name| home.join(name)));
    for directory in usual.chain(listed) {
        let is_personal =
            |it: &Path| homes.iter().any(|home| it.starts_with(home) && it != home.as_path());
        let is_writable = |it: &Path| writable.iter().any(|region| it.starts_with(region));
        // A link to such a directory stays, too.
        let passed = rules.passed(&directory);
        if passed.iter().any(|it| is_personal(it) && is_writable(it)) {
            rules.follow(&directory, Access::Protected, "builtin: directory of programs");
        }
    }
}

/// Says whether a directory of the search path is a part of the work, such as the environment that is active.
fn is_work(directory: &Path, around: &Around<'_>) -> bool {
    let known = bounds::known();
    let is_active = |name: &&str| {
        let active = around.environment.variables.get(*name).filter(|it| it.starts_with('/'));
        active.is_some_and(|active| directory == Path::new(active).join("bin"))
    };
    let is_within =
        around.place.regions().iter().any(|it| directory.starts_with(it) && directory != it);
    is_within
        && (known.ends.iter().any(|end| directory.ends_with(end))
            || known.variables.iter().any(is_active))
}
