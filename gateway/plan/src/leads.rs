//! Where symbolic links may lead that a command makes: to tools and packages outside of the project, and where a rule says.

use std::path::{Path, PathBuf};

use stockade_shell::toolchains;
use stockade_spec::Pattern;

use super::{Around, real};
use stockade_base::place::Place;
use stockade_scene::regions::Regions;

/// Returns the directories outside of `writable` to which links may lead.
pub(super) fn roots(around: &Around<'_>, writable: &[PathBuf]) -> Vec<PathBuf> {
    let Around { place, sandbox, .. } = *around;
    let known = toolchains::known();
    let home = known.home.iter().map(|folder| place.home.join(folder));
    let tools = known.system.iter().map(PathBuf::from).chain(home).chain(kept(around));
    let by_rule = sandbox.allow_read.iter().map(|(path, _)| path);
    let by_rule = by_rule.filter(|path| !Pattern::is(path)).map(PathBuf::from);
    let all = tools.chain(by_rule).filter(|path| path.symlink_metadata().is_ok());
    let mut found: Vec<PathBuf> = Vec::new();
    for path in all.filter(|path| !goes_through(path, writable)) {
        let path = real(&path);
        // Directories that hold the home directory hold what a person writes.
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
