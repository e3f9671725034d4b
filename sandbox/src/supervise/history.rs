//! The history of a project: objects of git that were there before the run are neither removed, moved nor written.
//!
//! Changes of a command to files can be undone by version control; so no command takes that away. References can be
//! lost, and the objects that they named are found again (`git-fsck(1)`, `--lost-found`).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use stockade_spec::SandboxSpec;

/// The rule that refuses.
pub(super) const RULE: &str = "builtin: git objects";

/// Directories of objects, and since when the run is there.
#[derive(Debug)]
pub(super) struct History {
    directories: Vec<PathBuf>,
    begun: SystemTime,
}

impl History {
    /// Remembers that the run begins now.
    pub(super) fn new(spec: &SandboxSpec) -> History {
        let now = SystemTime::now();
        // A new file may have a time before that of the clock.
        let begun = now.checked_sub(super::names::TICK).unwrap_or(now);
        History { directories: spec.files.kept_objects.clone(), begun }
    }

    /// Says whether the file at `path` is an object that was there before the run. One whose age the file system does not
    /// know counts as that.
    pub(super) fn holds(&self, path: &Path, found: &Metadata) -> bool {
        let is_old = || found.created().map_or(true, |born| born < self.begun);
        found.is_file()
            && (self.inside(path).is_some_and(is_object) && is_old() || self.is_same(path, found))
    }

    /// Says whether the file at `path` is an object of a repository beside, which shares it with the project (`git-clone(1)`, `--local`).
    fn is_same(&self, path: &Path, found: &Metadata) -> bool {
        let mut parts = path.iter().rev();
        let (Some(name), Some(directory)) = (parts.next(), parts.next()) else { return false };
        let inside = Path::new(directory).join(name);
        found.nlink() > 1
            && is_object(&inside)
            && self.directories.iter().any(|objects| {
                let there = objects.join(&inside).symlink_metadata();
                there.is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
            })
    }

    /// Says whether `path` is a part without which a repository is none, or holds one.
    pub(super) fn is_part(&self, path: &Path) -> bool {
        self.directories.iter().any(|objects| {
            let git = objects.parent().unwrap_or(objects);
            let is_in_it = ["HEAD", "refs"].iter().any(|name| {
                path.parent() == Some(git)
                    && path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(name))
            });
            is_in_it || objects.starts_with(path)
        })
    }

    /// Says whether `path` is a directory that objects lie in.
    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.inside(path).is_some_and(|inside| {
            let name = inside.as_os_str().as_encoded_bytes();
            name.eq_ignore_ascii_case(b"pack") || name.len() == 2 && is_number(name)
        })
    }

    fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.directories.iter().find_map(|directory| path.strip_prefix(directory).ok())
    }
}

/// Says whether a path in a directory of objects is that of one, or of a pack or its index (`gitrepository-layout(5)`).
fn is_object(inside: &Path) -> bool {
    let mut parts = inside.iter().map(|part| part.as_encoded_bytes().to_ascii_lowercase());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(directory), Some(name), None) if directory == b"pack" => {
            name.starts_with(b"pack-") && (name.ends_with(b".pack") || name.ends_with(b".idx"))
        }
        (Some(directory), Some(name), None) => {
            directory.len() == 2 && is_number(&directory) && is_number(&name)
        }
        _ => false,
    }
}

fn is_number(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_known_by_their_names() {
        let check =
            |path: &str, expected: bool| assert_eq!(is_object(Path::new(path)), expected, "{path}");
        check("ab/0123456789abcdef0123456789abcdef012345", true);
        check("AB/0123456789ABCDEF0123456789abcdef012345", true);
        check("pack/pack-01.pack", true);
        check("pack/pack-01.idx", true);
        check("pack/Pack-01.IDX", true);
        check("pack/pack-01.rev", false);
        check("pack/tmp_pack_x", false);
        check("ab/tmp_obj_x", false);
        check("info/packs", false);
        check("info/ab", false);
        check("abc/ab", false);
        check("ab", false);
        check("ab/cd/ef", false);
    }
}
