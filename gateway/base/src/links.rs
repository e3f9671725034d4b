//! Symbolic links that a command could have made: none leads to what a gateway keeps.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stockade_wire::errors::{Code, Failure};

use crate::names::{Names, work_around};

/// Returns the directories in which commands could write before, as the state remembers them.
pub fn remembered(state: &Path) -> Vec<PathBuf> {
    // A file that cannot be read cannot be added to either, and that is told.
    let bytes = std::fs::read(state.join("regions")).unwrap_or_default();
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect()
}

/// Refuses a path that goes over a symbolic link in one of `regions`.
pub fn check_way(
    what: &str,
    path: &Path,
    names: &mut Names,
    regions: &[PathBuf],
) -> Result<(), Failure> {
    let way = names.way(path, Path::new("/"));
    for link in &way.links {
        let above = link.parent().unwrap_or(link);
        if let Some(region) = regions.iter().find(|it| above.starts_with(it)) {
            return Err(led(what, &path.display().to_string(), link, way.real(), region));
        }
    }
    Ok(())
}

/// Refuses paths of the gateway's own that go over a symbolic link which a command could have made: below the project of
/// the working directory, or where one of `states` remembers that commands could write. Blocks on the file system.
pub fn check_links<'a>(
    given: &[(&'static str, PathBuf)],
    states: impl Iterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let mut names = Names::default();
    let mut goes_over_links = |path: &Path| !names.way(path, Path::new("/")).links.is_empty();
    if !given.iter().any(|(_, path)| goes_over_links(path)) {
        return Ok(());
    }
    let mut regions: Vec<PathBuf> = states.flat_map(remembered).collect();
    let here = std::env::current_dir().ok();
    regions.extend(here.and_then(|here| work_around(&here)));
    given.iter().try_for_each(|(what, path)| check_way(what, path, &mut names, &regions))
}

/// Returns the refusal of a path that goes over `link`, which a command that works in `region` could have made.
pub fn led(what: &str, text: &str, link: &Path, real: &Path, region: &Path) -> Failure {
    let message = format!(
        "the {what} `{}` contains the symbolic link `{}`, which a command that works in `{}` could have made",
        text.escape_debug(),
        link.display(),
        region.display()
    );
    let help = format!("use the real path `{}`, or remove the link", real.display());
    Failure::new(Code::DirectoryUnusable, message, help)
}
