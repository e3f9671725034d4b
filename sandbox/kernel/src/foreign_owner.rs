//! Regions that belong to somebody else, shown to a privileged caller as its own.
//!
//! Inside, root is a user without capabilities, to whom a stranger's files are closed. A mount with mapped
//! ids (`mount_setattr(2)`, `MOUNT_ATTR_IDMAP`) shows the owner's files of one region as the caller's, and
//! what is made there belongs to the owner on disk. The caller's own files in it change places with the
//! owner's, since a map is one to one. The monitor makes these mounts, while it still has its rights.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::layout::{self, Mount, View};
use super::objects::{open, private_directories};
use super::sources::{Foreign, Sources};
use super::syscalls::{self, Fork, Ids};
use stockade_spec::Access;
use stockade_spec::SandboxSpec;

impl Foreign {
    /// Says whether a region of `spec` belongs to another user than `ids`, when that is root.
    pub fn is_needed(spec: &SandboxSpec, ids: Ids) -> bool {
        ids.user == 0 && regions(spec).values().any(|owner| owner.user != ids.user)
    }

    /// Makes the mounts of all regions of `spec` that belong to another user than `ids`, when that is root.
    ///
    /// Failures become notes: the region is then as closed as its owner made it.
    pub fn prepare(spec: &SandboxSpec, ids: Ids) -> Foreign {
        let mut foreign = Foreign::default();
        let regions = regions(spec);
        if ids.user != 0 || regions.values().all(|owner| owner.user == ids.user) {
            return foreign;
        }
        // Its failure is found again, and reported, by the process that needs it.
        let Ok(sources) = Sources::open(spec, &Foreign::default(), None) else { return foreign };
        let rules: Vec<_> = sources.rules.iter().collect();
        let Ok(planned) = layout::plan(&rules, &private_directories()) else {
            return foreign;
        };
        for (region, owner) in regions.iter().filter(|(_, owner)| owner.user != ids.user) {
            let inside = |path: &Path| nearest(&regions, path) == Some(region.as_path());
            let parts: Vec<&Mount> =
                planned.iter().filter(|mount| inside(&mount.path)).filter(is_shown).collect();
            match map_region(&sources, &parts, *owner, ids) {
                Ok(trees) => {
                    foreign.trees.extend(trees);
                    let named = sources.opened.iter().filter(|(path, _)| inside(path));
                    let copies = named.filter_map(|(path, object)| {
                        Some((path.clone(), object.try_clone().ok()?))
                    });
                    foreign.opened.extend(copies);
                }
                Err(error) => foreign.notes.push(format!(
                    "`{}` belongs to user {}, and its files cannot be shown as yours: {error}",
                    region.display(),
                    owner.user
                )),
            }
        }
        foreign
    }
}

/// Returns the writable regions that exist, with their owners.
fn regions(spec: &SandboxSpec) -> BTreeMap<PathBuf, Ids> {
    let writable = spec.files.rules.iter().filter(|rule| rule.access == Access::Write);
    let owner = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).ok()?;
        Some((path.clone(), Ids { user: found.uid(), group: found.gid() }))
    };
    writable.filter_map(|rule| owner(&rule.path)).collect()
}

/// Returns the innermost region around `path`.
fn nearest<'a>(regions: &'a BTreeMap<PathBuf, Ids>, path: &Path) -> Option<&'a Path> {
    let around = regions.keys().filter(|region| path.starts_with(region));
    around.max_by_key(|region| region.components().count()).map(PathBuf::as_path)
}

/// Says whether the host's object is shown there.
fn is_shown(mount: &&Mount) -> bool {
    match mount.view {
        View::ReadOnly | View::Writable | View::Pinned => true,
        View::Masked { .. } | View::Private => false,
    }
}

/// Copies each of `parts` and maps its ids.
fn map_region(
    sources: &Sources,
    parts: &[&Mount],
    owner: Ids,
    caller: Ids,
) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    if parts.is_empty() {
        return Err(io::Error::other("it is in a region of another owner"));
    }
    let map = user_namespace(owner, caller)?;
    let mut trees = Vec::with_capacity(parts.len());
    for part in parts {
        let opened;
        let source = match sources.opened.get(&part.path) {
            Some(source) => source,
            None => {
                opened = open(&part.path)?;
                &opened
            }
        };
        let tree = syscalls::clone_tree(source.as_fd())?;
        syscalls::map_ids(tree.as_fd(), map.as_fd())?;
        trees.push((part.path.clone(), tree));
    }
    Ok(trees)
}

/// Makes a user namespace that holds nothing but the map, by a process that ends at once.
fn user_namespace(owner: Ids, caller: Ids) -> io::Result<OwnedFd> {
    let (mut until, end) = io::pipe()?;
    let pid = match syscalls::fork(libc::CLONE_NEWUSER)? {
        Fork::Child => {
            drop(end);
            // The child ends when the other end closes, whatever comes of the reading.
            let _ = until.read(&mut [0]);
            syscalls::exit_now(0)
        }
        Fork::Parent(pid) => pid,
    };
    let made = (|| {
        fs::write(format!("/proc/{pid}/gid_map"), swap(owner.group, caller.group))?;
        fs::write(format!("/proc/{pid}/uid_map"), swap(owner.user, caller.user))?;
        let path = PathBuf::from(format!("/proc/{pid}/ns/user"));
        syscalls::open_path(&path, libc::O_RDONLY, 0)
    })();
    drop(end);
    syscalls::wait(pid, 0)?;
    made
}

/// Returns the map in which two ids have changed places and every other stays.
fn swap(one: u32, other: u32) -> String {
    let (low, high) = (one.min(other), one.max(other));
    // The number after the last one that can be mapped (`user_namespaces(7)`).
    let end = u32::MAX;
    if low == high {
        return format!("0 0 {end}\n");
    }
    let mut ranges = vec![(0, 0, low), (low, high, 1)];
    ranges.push((low + 1, low + 1, high - low - 1));
    ranges.push((high, low, 1));
    ranges.push((high.saturating_add(1), high.saturating_add(1), end.saturating_sub(high + 1)));
    let lines = ranges.into_iter().filter(|(_, _, count)| *count > 0);
    lines.map(|(inside, outside, count)| format!("{inside} {outside} {count}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_change_places_and_the_others_stay() {
        let expected = "0 12345 1\n1 1 12344\n12345 0 1\n12346 12346 4294954949\n";
        assert_eq!(swap(12345, 0), expected);
        assert_eq!(swap(0, 12345), expected);
        assert_eq!(swap(5, 6), "0 0 5\n5 6 1\n6 5 1\n7 7 4294967288\n");
        assert_eq!(swap(7, 7), "0 0 4294967295\n");
    }
}
