//! Files that a pattern in a command names: a symbolic link among them leads elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stockade_policy::{Expanded, Shape, ShapeSegment};

use stockade_base::names::Names;

/// Directory entries that are looked at for one pattern.
const MOST_ENTRIES: usize = 20_000;

/// Returns what each pattern leads to; `cwd` is where the text starts. Blocks on the file system.
pub fn expand(shapes: BTreeSet<Shape>, cwd: &Path) -> BTreeMap<Shape, Expanded> {
    let expand = |shape: Shape| {
        let mut walk = Walk { names: Names::default(), cwd, left: MOST_ENTRIES, links: Vec::new() };
        let found = match walk.through(Path::new("/"), &shape.segments, 0) {
            Some(()) => Expanded::Links(walk.links),
            None => Expanded::TooMany,
        };
        (shape, found)
    };
    shapes.into_iter().map(expand).collect()
}

struct Walk<'a> {
    names: Names,
    cwd: &'a Path,
    /// Entries that may still be looked at.
    left: usize,
    links: Vec<Vec<PathBuf>>,
}

impl Walk<'_> {
    /// Goes through what the segments name below `path`, on the way to which are `links`; none once that is too much.
    fn through(&mut self, path: &Path, segments: &[ShapeSegment], links: usize) -> Option<()> {
        let Some((first, rest)) = segments.split_first() else {
            if links > 0 {
                self.links.push(self.names.of(path, self.cwd));
            }
            return Some(());
        };
        match first {
            ShapeSegment::Known(name) => {
                let below = path.join(OsStr::from_bytes(name));
                match below.symlink_metadata() {
                    Ok(found) => {
                        self.through(&below, rest, links + usize::from(found.is_symlink()))
                    }
                    Err(_) => Some(()),
                }
            }
            ShapeSegment::Glob(_) => {
                // The shell cannot look into such a directory either.
                let Ok(entries) = std::fs::read_dir(path) else { return Some(()) };
                for entry in entries.flatten() {
                    self.left = self.left.checked_sub(1)?;
                    let name = entry.file_name();
                    if first.may_be(name.as_bytes()) {
                        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                        self.through(&path.join(name), rest, links + usize::from(is_link))?;
                    }
                }
                Some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use stockade_scratch::Folder;

    fn glob(text: &str) -> Vec<Option<u8>> {
        text.bytes().map(|byte| (byte != b'*').then_some(byte)).collect()
    }

    fn shape(root: &Path, rest: &str) -> Shape {
        let known = |part: &OsStr| ShapeSegment::Known(part.as_bytes().to_vec());
        let mut segments: Vec<ShapeSegment> = root.iter().skip(1).map(known).collect();
        segments.extend(rest.split('/').map(|part| match part.contains('*') {
            true => ShapeSegment::Glob(glob(part)),
            false => ShapeSegment::Known(part.as_bytes().to_vec()),
        }));
        Shape { segments, open: false }
    }

    fn links(root: &Path, rest: &str) -> Expanded {
        let shape = shape(root, rest);
        expand([shape.clone()].into(), root).remove(&shape).unwrap()
    }

    #[test]
    fn a_segment_stands_for_what_the_shell_puts_there() {
        for (pattern, name, expected) in [
            ("z*", "z", true),
            ("z*", "za.b", true),
            ("z*", "az", false),
            ("*", ".a", false),
            (".*", ".a", true),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXbYcb", false),
            ("*.rs", "a.rs", true),
            ("*.rs", "a.rs.x", false),
        ] {
            let segment = ShapeSegment::Glob(glob(pattern));
            assert_eq!(segment.may_be(name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn links_among_the_files_of_a_pattern_are_found_wherever_they_stand() {
        let folder = Folder::new();
        let root = folder.path().canonicalize().unwrap();
        for name in ["d/z1", "d/plain", "deep/in/z3"] {
            folder.write(name, b"x");
        }
        symlink("../secret", root.join("d/z2")).unwrap();
        symlink("/elsewhere", root.join("zdir")).unwrap();
        symlink("deep", root.join("zdeep")).unwrap();
        let one = |to: PathBuf| Expanded::Links(vec![vec![to]]);
        assert_eq!(links(&root, "d/z*"), one(root.join("secret")));
        assert_eq!(links(&root, "*/z2"), one(root.join("secret")));
        assert_eq!(links(&root, "d/p*"), Expanded::Links(Vec::new()));
        assert_eq!(links(&root, "zdi*"), one("/elsewhere".into()));
        assert_eq!(links(&root, "zd*/in/z*"), one(root.join("deep/in/z3")));
        assert_eq!(links(&root, "zdeep/*/z3"), one(root.join("deep/in/z3")));
        assert_eq!(links(&root, "none/*"), Expanded::Links(Vec::new()));
    }

    #[test]
    fn what_is_too_much_to_look_at_is_not_known() {
        let folder = Folder::new();
        let root = folder.path().canonicalize().unwrap();
        for name in 0..200 {
            folder.write(&format!("{name}"), b"x");
        }
        let shape = shape(&root, "*");
        let mut walk = Walk { names: Names::default(), cwd: &root, left: 199, links: Vec::new() };
        assert_eq!(walk.through(Path::new("/"), &shape.segments, 0), None);
        walk.left = 200;
        assert_eq!(walk.through(Path::new("/"), &shape.segments, 0), Some(()));
    }
}
