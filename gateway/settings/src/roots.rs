//! Where what refuses or asks begins besides the working directory: the roots around it.
//!
//! A `.git` does not tell who made it, a command that ran confined perhaps. So each project in which calls were made is
//! remembered in the state, which no confined command reaches, and stays a root for all that lies below.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_base::place::Place;

/// Returns the roots at and above the directories of a call but for its project, nearest first: projects that are remembered, and what has
/// settings. The home directory, what holds it and the root of the file system are no project.
pub fn around(state: &Path, place: &Place) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for directory in
        [place.anchor(), &place.cwd, &place.project].iter().flat_map(|it| it.ancestors())
    {
        let is_root = || has_settings(directory) || mark(state, directory).exists();
        let is_known = directory == place.project || found.iter().any(|known| known == directory);
        if !is_known && !holds_all(directory, &place.home) && is_root() {
            found.push(directory.to_path_buf());
        }
    }
    found
}

/// Remembers the project of a call. Without a mark of its own it is just where somebody happens to be: then a root that
/// is known around it is enough.
pub fn remember(state: &Path, place: &Place) {
    let project = &place.project;
    let is_marked = || {
        let git = project.join(".git");
        has_settings(project) || (git.symlink_metadata().is_ok() && !is_anybodys(project, &git))
    };
    let is_open = || project.metadata().is_ok_and(|it| it.permissions().mode() & 0o002 != 0);
    if holds_all(project, &place.home) || mark(state, project).exists() {
        return;
    }
    if is_marked() || (place.roots.is_empty() && !is_open()) {
        // Where the state cannot be written nothing runs, which is told then.
        let _: Option<File> = private_directory(&state.join(FOLDER)).ok().and_then(|()| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(mark(state, project)).ok()
        });
    }
}

/// The folder of the marks.
const FOLDER: &str = "roots";

fn mark(state: &Path, directory: &Path) -> PathBuf {
    state.join(FOLDER).join(hex(&Sha256::digest(directory.as_os_str().as_encoded_bytes())))
}

fn has_settings(directory: &Path) -> bool {
    let folder = directory.join(".stockade");
    folder.symlink_metadata().is_ok() && !is_anybodys(directory, &folder)
}

/// Says whether a directory holds all that the user has.
fn holds_all(directory: &Path, home: &Path) -> bool {
    directory == Path::new("/") || home.starts_with(directory)
}

/// Says whether what lies in `directory` may be of anybody: all can write there, and `inner` is a stranger's.
pub fn is_anybodys(directory: &Path, inner: &Path) -> bool {
    let is_open = directory.metadata().is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    let owner = inner.symlink_metadata().map(|found| found.uid());
    is_open && owner.is_ok_and(|uid| uid != 0 && uid != rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;

    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_root_is_what_has_settings_or_was_worked_in_up_to_the_home_directory() {
        let folder = Folder::new();
        let (home, state) = (folder.path().join("home"), folder.path().join("state"));
        for made in [".stockade", "work/.stockade", "work/p/.git", "work/p/src/sub/.git"] {
            create_dir_all(home.join(made)).unwrap();
        }
        let deep = home.join("work/p/src/sub/deep");
        create_dir_all(&deep).unwrap();
        let at = |cwd: &Path, project: &str| {
            let (cwd, project) = (cwd.to_path_buf(), home.join(project));
            let (roots, homes, additional) = (Vec::new(), Vec::new(), Vec::new());
            let mut place =
                Place { cwd, session: None, project, roots, home: home.clone(), homes, additional };
            place.roots = around(&state, &place);
            place
        };
        let all = |names: &[&str]| names.iter().map(|it| home.join(it)).collect::<Vec<_>>();
        assert_eq!(at(&deep, "work/p/src/sub").roots, all(&["work"]));
        for project in ["work/p", "work/p/src/sub", "work/p/src", ""] {
            let cwd = home.join(project);
            remember(&state, &at(&cwd, project));
        }
        let expected = all(&["work/p", "work"]);
        assert_eq!(at(&deep, "work/p/src/sub").roots, expected, "none without a mark of its own");
        assert_eq!(at(&home, "").roots, all(&[]));
        let unmarked = folder.path().join("plain");
        create_dir_all(unmarked.join("sub")).unwrap();
        let place = |cwd: PathBuf| at(&cwd, cwd.to_str().unwrap());
        remember(&state, &place(unmarked.clone()));
        remember(&state, &place(unmarked.join("sub")));
        assert_eq!(place(unmarked.join("sub/x")).roots, [unmarked]);
    }
}
