//! The protected names that are there already, which the mounts of a run keep as they are.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstatfs, openat, statat};
use stockade_policy::{ProtectedName, Unwritable};
use stockade_spec::{Access, Pattern, Wild};

use super::Rules;
use super::globs::{self, Ground, Unlisted};
use super::targets::Targets;

/// Directories with more entries are not listed: to look for each name is cheaper.
const MOST_ENTRIES: usize = 256;

/// File systems whose lists of entries are whole (`linux/magic.h`): ext4, tmpfs, XFS, Btrfs, overlay. Others may have
/// names that are found and not listed, such as `.zfs` and the places of automatic mounts.
const LISTED_WHOLE: [u64; 5] = [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630];

/// Adds the protected names directly below `directory`, also those that begin with the end of its own path; deeper ones
/// are guarded by name. What is protected there alone and holds or is one of `opened` is left to the supervisor.
pub(super) fn protect(rules: &mut Rules, directory: &Path, opened: &[PathBuf]) {
    // Entries of a directory that cannot be entered are not there for the command either.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(held) = openat(CWD, directory, flags, Mode::empty()) else { return };
    let entries = entries(&held);
    for name in stockade_policy::protected_names().iter().filter(is_kept) {
        if name.root {
            continue;
        }
        let is_open = |path: &Path| {
            name.kernel == Unwritable::AtTop
                && opened.iter().any(|it| it.starts_with(path) || path.starts_with(it))
        };
        if name.segments.iter().any(|segment| segment.contains('*')) {
            // Where not all is listed the name is guarded all the same.
            for found in entries.iter().flatten().filter(|(low, _)| fits(name, low)) {
                let path = directory.join(found.1);
                if !is_open(&path) {
                    rules.follow(&path, Access::Protected, &origin(name));
                }
            }
            continue;
        }
        for rest in rests(directory, &name.segments) {
            let first = rest.first().map(|first| first.to_ascii_lowercase());
            if entries.as_ref().zip(first).is_some_and(|(all, first)| !all.contains_key(&first)) {
                continue;
            }
            let inner = rest.join("/");
            let path = directory.join(&inner);
            let there = statat(&held, &inner, AtFlags::SYMLINK_NOFOLLOW);
            if there.is_ok() && !is_open(&path) {
                rules.follow(&path, Access::Protected, &origin(name));
            }
        }
    }
}

fn is_kept(name: &&ProtectedName) -> bool {
    name.kernel != Unwritable::Nowhere
}

fn origin(name: &ProtectedName) -> String {
    format!("builtin: protected path `{}`", name.segments.join("/"))
}

/// Adds the protected names that begin at the root of the file system and lie in one of `regions`, whether they are there or
/// not. What a wildcard stands for may come to be later.
pub(super) fn protect_from_root(
    rules: &mut Rules,
    patterns: &mut Rules,
    targets: &Targets,
    regions: &[PathBuf],
) {
    let ground = Ground {
        is_needed: &|path| targets.is_needed(path),
        follows: &|link| targets.is_reached(link),
    };
    for name in stockade_policy::protected_names().iter().filter(|name| is_kept(name) && name.root)
    {
        let text = format!("/{}", name.segments.join("/"));
        let plain = Path::new(&text).ancestors().find(|it| !Pattern::is(&it.to_string_lossy()));
        if !plain.is_some_and(|plain| regions.iter().any(|region| plain.starts_with(region))) {
            continue;
        }
        let origin = format!("builtin: protected path `{text}`");
        // A pattern that could not be looked for would still be refused by its name, below.
        let found = globs::expand(&[(&text, Unlisted::Whole)], ground, globs::LIMIT);
        for path in found.unwrap_or_default().iter().flat_map(|found| &found.paths) {
            rules.follow(path, Access::Protected, &origin);
        }
        if Pattern::is(&text) {
            patterns.add(Path::new(&text), Access::ReadOnly, &origin);
        }
    }
}

/// Returns what is left of a name below `directory`: the whole, and what lies behind each beginning with which the path of the
/// directory ends.
fn rests<'a>(directory: &Path, name: &'a [&'static str]) -> Vec<&'a [&'static str]> {
    let ends = |begin: &[&str]| {
        let mut parts = directory.iter().rev();
        let mut wanted = begin.iter().rev();
        wanted.all(|name| parts.next().is_some_and(|part| part.eq_ignore_ascii_case(name)))
    };
    let splits = (0..name.len()).filter_map(|at| name.split_at_checked(at));
    splits.filter(|(begin, _)| ends(begin)).map(|(_, rest)| rest).collect()
}

/// Says whether an entry, in lower case, is what a name of one part with a wildcard stands for.
fn fits(name: &ProtectedName, entry: &str) -> bool {
    match name.segments.as_slice() {
        [only] => Wild::parse(&only.to_ascii_lowercase()).is_ok_and(|wild| wild.fits(entry)),
        _ => false,
    }
}

/// Returns the entries of a directory by their names in lower case since a file system may not tell the cases apart; none where
/// another name may be there all the same, so that each has to be looked for.
fn entries(directory: &OwnedFd) -> Option<BTreeMap<String, String>> {
    let kind = u64::try_from(fstatfs(directory).ok()?.f_type).ok()?;
    if !LISTED_WHOLE.contains(&kind) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = openat(directory.as_fd(), c".", flags, Mode::empty()).ok()?;
    let mut entries = BTreeMap::new();
    for entry in Dir::new(listed).ok()? {
        let entry = entry.ok()?;
        // Beyond ASCII a file system has equal names of its own (`K`, the sign of Kelvin, and `k`).
        let name = entry.file_name().to_str().ok().filter(|name| name.is_ascii())?;
        if entries.len() == MOST_ENTRIES {
            return None;
        }
        entries.insert(name.to_ascii_lowercase(), name.to_owned());
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use stockade_scratch::Folder;

    fn protected(directory: &Path) -> Vec<String> {
        let mut rules = Rules::default();
        protect(&mut rules, directory, &[]);
        let mut found: Vec<String> =
            rules.all.iter().map(|rule| rule.path.display().to_string()).collect();
        found.sort();
        found
    }

    #[test]
    fn names_that_are_there_are_protected_however_they_are_found() {
        let folder = Folder::new();
        let root = folder.path();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir(root.join("src")).unwrap();
        for name in [".bashrc", ".mcp.json", "notes.txt", "Team.code-workspace"] {
            fs::write(root.join(name), "").unwrap();
        }
        let paths = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| root.join(name).display().to_string()).collect()
        };
        let expected = paths(&[".bashrc", ".git/hooks", ".mcp.json"]);
        let whole = paths(&[".bashrc", ".git/hooks", ".mcp.json", "Team.code-workspace"]);
        let opened = || openat(CWD, root, OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(protected(root), whole);
        // A name that may equal another one, and more entries than are listed: each name is looked for.
        fs::write(root.join("\u{212a}"), "").unwrap();
        assert_eq!((entries(&opened()), protected(root)), (None, expected.clone()));
        fs::remove_file(root.join("\u{212a}")).unwrap();
        for number in 0..MOST_ENTRIES {
            fs::write(root.join(number.to_string()), "").unwrap();
        }
        assert_eq!((entries(&opened()), protected(root)), (None, expected));
    }

    #[test]
    fn the_case_of_an_entry_does_not_hide_it() {
        let folder = Folder::new();
        fs::write(folder.path().join(".BashRC"), "").unwrap();
        let opened = openat(CWD, folder.path(), OFlags::PATH, Mode::empty()).unwrap();
        let listed = entries(&opened).map(|entries| entries.contains_key(".bashrc"));
        assert!(listed != Some(false), "a file system that does not tell cases apart finds it");
        // Where no list is whole, nothing is concluded from one.
        let proc = openat(CWD, "/proc/self", OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(entries(&proc), None);
    }
}
