//! Names of files: the symbolic links that a path goes through, and the repository around a directory.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::directories::home;

/// Links that one path may go through, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Bytes of a path that the kernel takes, with the one behind its end (path_resolution(7)).
const MAX_PATH: usize = 4_096;

/// Returns the nearest directory at or above `cwd` that holds a `.git`, else `cwd`.
pub fn root_above(cwd: &Path) -> PathBuf {
    let root = cwd.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok());
    root.unwrap_or(cwd).to_path_buf()
}

/// Returns the project that `directory` lies in, unless that is the whole disk or holds the home directory.
pub fn work_around(directory: &Path) -> Option<PathBuf> {
    let root = root_above(directory);
    let home = home(|name| std::env::var_os(name)).ok();
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let is_too_wide = root == Path::new("/") || home.is_some_and(|home| home.starts_with(&root));
    (!is_too_wide).then_some(root)
}

/// Returns, for each path, every name that it goes through; `cwd` is where relative paths start.
pub fn real_paths(paths: Vec<PathBuf>, cwd: &Path) -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut names = Names::default();
    let name = |path: PathBuf| {
        let found = names.of(&cwd.join(&path), cwd);
        (path, found)
    };
    paths.into_iter().map(name).collect()
}

/// How a path leads to what it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// One name for each symbolic link, and the final one.
    pub names: Vec<PathBuf>,
    /// Each symbolic link by its real path, in order.
    pub links: Vec<PathBuf>,
    /// The links lead in a circle, or are more than the kernel follows: the path names nothing.
    pub is_endless: bool,
}

impl Way {
    /// Returns the path behind the links.
    pub fn real(&self) -> &Path {
        self.names.last().map_or(Path::new("/"), PathBuf::as_path)
    }
}

/// Looks up the names of paths. What two paths in succession begin with alike is looked at once, so this lives as long as
/// one look at the file system takes, and no longer.
#[derive(Debug, Default)]
pub struct Names {
    /// The real path that was found last: none of its parts is a link.
    last: PathBuf,
}

impl Names {
    /// Returns the path behind links, also when its last parts do not exist yet.
    pub fn real(&mut self, path: &Path) -> PathBuf {
        self.of(path, Path::new("/")).pop().unwrap_or_else(|| path.to_path_buf())
    }

    /// Returns the names that `path` goes through: one for each symbolic link, and the final one. What does
    /// not exist yet keeps its name behind the real path of its nearest parent.
    pub fn of(&mut self, path: &Path, cwd: &Path) -> Vec<PathBuf> {
        self.way(path, cwd).names
    }

    /// Returns how `path` leads to what it names.
    pub fn way(&mut self, path: &Path, cwd: &Path) -> Way {
        let path = caller_view(path, cwd);
        let (mut names, mut passed) = (Vec::new(), Vec::new());
        let mut real = PathBuf::from("/");
        let mut links = 0;
        // Below what is not there nothing is.
        let mut is_there = true;
        let mut rest: VecDeque<OsString> = pieces(&path);
        while let Some(piece) = rest.pop_front() {
            if piece == ".." {
                real.pop();
                is_there = true;
                continue;
            }
            real.push(&piece);
            let is_in_reach = links < MAX_LINKS && real.as_os_str().len() < MAX_PATH;
            let follows = is_there && is_in_reach && !is_magic(&real);
            if !follows || self.last.starts_with(&real) {
                continue;
            }
            let target = match std::fs::read_link(&real) {
                Ok(target) => target,
                // A place that the gateway cannot look into is one that the command, of the same user, cannot either.
                Err(error) => {
                    is_there = !is_missing(&error);
                    continue;
                }
            };
            passed.push(real.clone());
            real.pop();
            links += 1;
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for piece in pieces(&target).into_iter().rev() {
                rest.push_front(piece);
            }
            names.push(lexical(&real, &rest));
        }
        if links < MAX_LINKS {
            self.last.clone_from(&real);
        }
        names.push(real);
        names.dedup();
        Way { names, links: passed, is_endless: links >= MAX_LINKS }
    }
}

/// Says whether nothing can lie below a path that is told of so (path_resolution(7)).
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns `path` as a process in `cwd` would see it, where the kernel's own links name "this process".
fn caller_view(path: &Path, cwd: &Path) -> PathBuf {
    for (own, seen) in [("/proc/self", cwd), ("/proc/thread-self", cwd)] {
        if let Ok(rest) = path.strip_prefix(Path::new(own).join("cwd")) {
            return seen.join(rest);
        }
        if let Ok(rest) = path.strip_prefix(Path::new(own).join("root")) {
            return Path::new("/").join(rest);
        }
    }
    path.to_path_buf()
}

/// Says whether a link names an object of the process that looks, so that our own look tells nothing.
fn is_magic(path: &Path) -> bool {
    ["/proc/self", "/proc/thread-self", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"]
        .iter()
        .any(|own| path.starts_with(own))
}

fn pieces(path: &Path) -> VecDeque<OsString> {
    let piece = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(piece).collect()
}

fn lexical(start: &Path, rest: &VecDeque<OsString>) -> PathBuf {
    let mut path = start.to_path_buf();
    for piece in rest {
        if piece == ".." {
            path.pop();
        } else {
            path.push(piece);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use stockade_scratch::Folder;

    fn names_of(path: &Path, cwd: &Path) -> Vec<PathBuf> {
        Names::default().of(path, cwd)
    }

    #[test]
    fn a_path_after_another_has_the_names_that_it_has_alone() {
        let folder = Folder::new();
        let root = folder.path();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("../link/inner", root.join("real/back")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let paths: Vec<PathBuf> = [
            "real/inner/x",
            "real/back/x",
            "real/back/../back/y",
            "link/missing/../inner/z",
            "missing/a/../../link/b",
            "loop/x",
            "loop",
            "link",
            "real",
            "link/inner",
            "real/inner/x/../../back",
        ]
        .map(|path| root.join(path))
        .into();
        let alone = |path: &PathBuf| (path.clone(), names_of(path, root));
        let expected: BTreeMap<_, _> = paths.iter().map(alone).collect();
        // In every order of two.
        for first in &paths {
            for second in &paths {
                let both = real_paths(vec![first.clone(), second.clone()], root);
                let mut names = Names::default();
                let found = [first, second].map(|path| (path.clone(), names.of(path, root)));
                for (path, found) in found.into_iter().chain(both) {
                    assert_eq!(Some(&found), expected.get(&path), "{first:?}, {second:?}");
                }
            }
        }
    }

    #[test]
    fn every_hop_of_a_link_is_a_name() {
        let folder = Folder::new();
        let root = folder.path();
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("b")).unwrap();
        symlink(root.join("b"), root.join("a")).unwrap();
        assert_eq!(
            names_of(&root.join("a/new/../x"), root),
            [root.join("b/x"), root.join("real/x")]
        );
    }

    #[test]
    fn a_circle_of_links_ends() {
        let folder = Folder::new();
        symlink("loop", folder.path().join("loop")).unwrap();
        assert_eq!(names_of(&folder.path().join("loop"), folder.path()).len(), 1);
    }

    #[test]
    fn this_process_means_the_caller() {
        let cwd = Path::new("/usr");
        assert_eq!(names_of(Path::new("/proc/self/cwd/x"), cwd), [PathBuf::from("/usr/x")]);
        assert_eq!(names_of(Path::new("/proc/self/root/usr"), cwd), [PathBuf::from("/usr")]);
    }

    #[test]
    fn the_project_is_the_repository_above() {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path().join("r/.git")).unwrap();
        std::fs::create_dir_all(folder.path().join("r/a/b")).unwrap();
        assert_eq!(root_above(&folder.path().join("r/a/b")), folder.path().join("r"));
    }
}
