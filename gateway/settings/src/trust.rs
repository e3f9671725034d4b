//! Settings files of a project that this person has trusted, by their content.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use stockade_base::directories::private_directory;
use stockade_base::files::plain;
use stockade_base::hex;

/// Says whether exactly this content of `file` was trusted.
pub fn is_trusted(state: &Path, file: &Path, text: &[u8]) -> bool {
    let mark = fs::read_to_string(mark(state, file)).unwrap_or_default();
    mark.trim() == hex(&Sha256::digest(text))
}

/// Trusts this content of `file`; content that it held before is trusted no more.
pub fn trust(state: &Path, file: &Path, text: &[u8]) -> io::Result<()> {
    let mark = mark(state, file);
    private_directory(&state.join("trust"))?;
    let new = mark.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(opened, "{}", hex(&Sha256::digest(text)))?;
    opened.sync_all()?;
    fs::rename(&new, &mark)
}

fn mark(state: &Path, file: &Path) -> PathBuf {
    state.join("trust").join(hex(&Sha256::digest(file.as_os_str().as_encoded_bytes())))
}

/// Returns the git directory of the repository at `project`: its `.git`, or where a `.git` file points when
/// that place is a git directory of its kind and points back. A pointer alone is not believed: anyone who made
/// the project can write one.
pub fn git_directory(project: &Path) -> Option<PathBuf> {
    let entry = project.join(".git");
    let found = entry.symlink_metadata().ok()?;
    if found.is_dir() {
        return Some(entry);
    }
    let text = small(&entry)?;
    let target = text.strip_prefix("gitdir: ")?.trim_end_matches('\n');
    let directory = project.join(target).canonicalize().ok().filter(|path| path.is_dir())?;
    let back = match directory.join("commondir").symlink_metadata() {
        Ok(_) => {
            shared_by(project, &directory)?;
            directory.join(small(&directory.join("gitdir"))?.trim_end())
        }
        Err(_) => {
            let is_module =
                |inner: &Path| inner.ends_with("modules") && inner.parent().is_some_and(has_head);
            let is_submodule = is_whole(&directory) && directory.ancestors().any(is_module);
            let config = is_submodule.then(|| small(&directory.join("config")))??;
            let value = config.lines().find_map(|line| line.trim().strip_prefix("worktree = "))?;
            directory.join(value).join(".git")
        }
    };
    let back = back.canonicalize().ok()?;
    (Some(back) == entry.canonicalize().ok()).then_some(directory)
}

/// Returns the directory that all worktrees of the repository at `project` share.
pub fn common_directory(project: &Path) -> Option<PathBuf> {
    let directory = git_directory(project)?;
    if directory.join("commondir").symlink_metadata().is_err() {
        return Some(directory);
    }
    // Git makes a link to another repository in linked worktrees alone, never in a `.git` directory.
    (directory != project.join(".git")).then(|| shared_by(project, &directory))?
}

/// Returns the repository of the linked worktree at `project` whose git directory is `directory`: a whole one, in
/// whose `worktrees` that one lies. What lies in the project may have been made by a run, so it leads to nothing
/// outside.
fn shared_by(project: &Path, directory: &Path) -> Option<PathBuf> {
    let common = small(&directory.join("commondir"))?;
    let common = directory.join(common.trim_end()).canonicalize().ok()?;
    let lies_there = directory.parent() == Some(common.join("worktrees").as_path());
    let leads_out = directory.starts_with(project) && !common.starts_with(project);
    (lies_there && !leads_out && has_head(directory) && is_whole(&common)).then_some(common)
}

/// Says whether `directory` holds what every git directory does (`gitrepository-layout(5)`), none of it a link.
fn is_whole(directory: &Path) -> bool {
    let is_directory = |name: &str| {
        directory.join(name).symlink_metadata().is_ok_and(|found| found.file_type().is_dir())
    };
    has_head(directory) && is_directory("objects") && is_directory("refs")
}

fn has_head(directory: &Path) -> bool {
    directory.join("HEAD").symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Returns the text of a small plain file.
pub fn small(file: &Path) -> Option<String> {
    String::from_utf8(plain(file, 1 << 16).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, Mode};

    use super::*;
    use stockade_scratch::Folder;

    /// Makes a git directory.
    fn whole(folder: &Folder, name: &str) -> PathBuf {
        folder.write(&format!("{name}/HEAD"), "ref: refs/heads/main\n");
        let path = folder.path().join(name);
        fs::create_dir_all(path.join("objects")).unwrap();
        fs::create_dir_all(path.join("refs")).unwrap();
        path
    }

    /// Makes the pointers of a linked worktree at `project`, whose git directory is `inner` and names `common`.
    fn link(folder: &Folder, project: &str, inner: &str, common: &str) -> PathBuf {
        let path = folder.path();
        let pointer = format!("gitdir: {}\n", path.join(inner).display());
        let back = folder.write(&format!("{project}/.git"), pointer);
        folder.write(&format!("{inner}/gitdir"), format!("{}\n", back.display()));
        folder.write(&format!("{inner}/commondir"), format!("{common}\n"));
        folder.write(&format!("{inner}/HEAD"), "ref: refs/heads/w\n");
        path.join(project)
    }

    #[test]
    fn a_linked_worktree_shares_the_repository_that_holds_it() {
        let folder = Folder::new();
        let main = whole(&folder, "main/.git");
        let project = link(&folder, "linked", "main/.git/worktrees/w", "../..");
        assert_eq!(git_directory(&project), Some(main.join("worktrees/w")));
        assert_eq!(common_directory(&project), Some(main.clone()));
        fs::remove_dir(main.join("refs")).unwrap();
        assert_eq!((git_directory(&project), common_directory(&project)), (None, None));
        symlink("objects", main.join("refs")).unwrap();
        assert_eq!((git_directory(&project), common_directory(&project)), (None, None));
    }

    #[test]
    fn a_directory_worktrees_makes_no_repository_of_what_holds_it() {
        let folder = Folder::new();
        let home = folder.path().join("home");
        let inner = "home/worktrees/p/sub/g";
        let project = link(&folder, "home/worktrees/p/sub", inner, &home.display().to_string());
        assert_eq!((git_directory(&project), common_directory(&project)), (None, None));
        // Not even where it is one: the worktree does not lie in its `worktrees` itself.
        whole(&folder, "home");
        assert_eq!((git_directory(&project), common_directory(&project)), (None, None));
    }

    #[test]
    fn what_lies_in_a_project_leads_to_no_repository_outside() {
        let folder = Folder::new();
        whole(&folder, "out");
        let project = link(&folder, "out/worktrees", "out/worktrees/g", "../..");
        assert_eq!((git_directory(&project), common_directory(&project)), (None, None));
        let own = Folder::new();
        whole(&own, "p/r");
        let project = link(&own, "p", "p/r/worktrees/g", "../..");
        assert_eq!(common_directory(&project), Some(own.path().join("p/r")));
    }

    #[test]
    fn a_submodule_lies_among_the_modules_of_a_repository() {
        let folder = Folder::new();
        whole(&folder, "main/.git");
        for (inner, is_one) in [("main/.git/modules/a/b", true), ("elsewhere", false)] {
            let directory = whole(&folder, inner);
            let project = folder.path().join("main/sub");
            folder.write("main/sub/.git", format!("gitdir: {}\n", directory.display()));
            let config = format!("[core]\n\tworktree = {}\n", project.display());
            folder.write(&format!("{inner}/config"), config);
            assert_eq!(git_directory(&project), is_one.then_some(directory), "{inner}");
        }
    }

    #[test]
    fn a_pointer_that_is_no_plain_file_is_not_read() {
        let folder = Folder::new();
        let pipe = folder.path().join(".git");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(git_directory(folder.path()), None);
        for target in ["/dev/zero", "/proc/kmsg", "missing"] {
            fs::remove_file(&pipe).unwrap();
            symlink(target, &pipe).unwrap();
            assert_eq!(git_directory(folder.path()), None, "{target}");
        }
    }
}
