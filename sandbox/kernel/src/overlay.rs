//! Caches of the host that a run sees whole and changes for itself alone: overlays (`overlayfs`, Linux 5.11).
//!
//! The lower layer is the host's directory, which nothing changes. Changes of the run go to a store, where no path of
//! the run leads. Where an overlay cannot be made, the cache stays as it is: readable.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::landlock::Rights;
use super::layout::{Mount, View};
use super::objects::{SAFE, beneath, is_absent};
use super::sources::{Kind, Left, open_in};
use super::syscalls::{self, NO_LINKS, ONE_MOUNT};
use stockade_spec::{Access, Cache};
use stockade_spec::{FileRule, SandboxSpec};
use stockade_spec::{Match, Pattern};

/// Overlays that are in their places.
#[derive(Default)]
pub(super) struct Overlays {
    /// Each with what Landlock grants on it.
    pub(super) grants: Vec<(OwnedFd, Rights)>,
    /// Where they are.
    pub(super) paths: Vec<PathBuf>,
    /// Overlays that could not be made, for people.
    pub(super) notes: Vec<String>,
}

/// Possibility of an overlay at the place of a cache.
#[derive(Debug, PartialEq, Eq)]
enum Possibility {
    /// Nothing is against it.
    Free,
    /// The cache is not seen, or can be written anyway.
    Needless,
    /// This is against it.
    Taken(String),
}

impl Overlays {
    /// Puts an overlay over each cache of `spec` in the view beneath `root`, which `mounts` made.
    pub(super) fn place(
        spec: &SandboxSpec,
        mounts: &[Mount],
        root: &OwnedFd,
        left: Option<&Left>,
    ) -> Overlays {
        let mut overlays = Overlays::default();
        let mut memory = Memory { bytes: spec.limits.shm_bytes, mount: None, stores: 0 };
        for cache in &spec.files.caches {
            let why = match place_of(cache, &spec.files.rules, &spec.files.patterns, mounts) {
                Possibility::Free => match attach(cache, root, left, &mut memory) {
                    Ok(mount) => {
                        overlays.grants.push((mount, Rights::Write));
                        overlays.paths.push(cache.path.clone());
                        continue;
                    }
                    Err(error) if is_absent(&error) => continue,
                    Err(error) => error.to_string(),
                },
                Possibility::Needless => continue,
                Possibility::Taken(why) => why,
            };
            let path = cache.path.display();
            overlays.notes.push(format!("the cache `{path}` can be read and not written: {why}"));
        }
        overlays
    }
}

/// Says whether anything is against an overlay at the place of `cache`.
///
/// A rule that forbids on the way, or any rule about what lies inside, would have to hold in the overlay as well: there
/// is none then.
fn place_of(
    cache: &Cache,
    rules: &[FileRule],
    patterns: &[FileRule],
    mounts: &[Mount],
) -> Possibility {
    let Cache { path, store } = cache;
    let view = |path: &Path| {
        let above = mounts.iter().filter(|mount| path.starts_with(&mount.path));
        let nearest = above.max_by_key(|mount| mount.path.components().count());
        nearest.map_or(View::ReadOnly, |mount| mount.view)
    };
    match view(path) {
        View::ReadOnly => {}
        View::Writable | View::Pinned | View::Private => return Possibility::Needless,
        View::Masked { .. } => return Possibility::Taken("it is hidden".to_owned()),
    }
    let speaks = |rule: &&FileRule| match rule.access {
        Access::ReadOnly | Access::None | Access::Protected => {
            path.starts_with(&rule.path) || rule.path.starts_with(path)
        }
        Access::Write => rule.path.starts_with(path),
        Access::Read | Access::Kept => false,
    };
    if let Some(rule) = rules.iter().find(speaks) {
        return Possibility::Taken(format!(
            "a rule matches it or a path below it: {}",
            rule.origin
        ));
    }
    // One that cannot be read covers everything.
    let covers = |rule: &&FileRule| {
        Pattern::parse(&rule.path).unwrap_or_default().matches(path) != Match::No
    };
    if let Some(pattern) = patterns.iter().find(covers) {
        return Possibility::Taken(format!(
            "a pattern may match a path below it: {}",
            pattern.origin
        ));
    }
    if mounts.iter().any(|mount| mount.path.starts_with(path)) {
        return Possibility::Taken("something else is shown in it".to_owned());
    }
    // A process that can write to the store decides what the overlay shows.
    match view(store) {
        View::ReadOnly | View::Masked { .. } => Possibility::Free,
        View::Writable | View::Pinned | View::Private => {
            Possibility::Taken("the command could change its store".to_owned())
        }
    }
}

/// Makes the overlay of `cache` and attaches it beneath `root`.
fn attach(
    cache: &Cache,
    root: &OwnedFd,
    left: Option<&Left>,
    memory: &mut Memory,
) -> io::Result<OwnedFd> {
    let lower = layer(&cache.path, left)?;
    if Kind::of(&lower)? != Kind::Directory {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let store = layer(&cache.store, left).map_err(no_store)?;
    let on_disk = over(&lower, &store, Path::new("")).map_err(no_store);
    let mount = on_disk.or_else(|error| memory.over(&lower).map_err(|_| error))?;
    let target = beneath(root.as_fd(), cache.path.strip_prefix("/").unwrap_or(&cache.path))?;
    syscalls::attach(mount.as_fd(), target.as_fd())?;
    Ok(mount)
}

/// Makes an overlay of `lower` whose changes go to the directory `name` of `store`, both parts of it on one mount as they
/// have to be.
fn over(lower: &OwnedFd, store: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let part = |part: &str| beneath(store.as_fd(), &name.join(part));
    let (upper, work) = (part("upper")?, part("work")?);
    syscalls::new_overlay([lower, &upper, &work].map(AsFd::as_fd), SAFE)
}

/// Opens a directory of the host, so that an overlay can have it as a layer.
fn layer(path: &Path, left: Option<&Left>) -> io::Result<OwnedFd> {
    let Some(Left { host, .. }) = left else { return open_in(None, path) };
    // Of what is attached nowhere, an overlay takes only what lies on the topmost mount (`clone_private_mount`, Linux
    // 6.15). A copy is that, and whoever closes one waits for the kernel's readers.
    let relative = path.strip_prefix("/").unwrap_or(path);
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    match syscalls::open_at(host.as_fd(), relative, flags, NO_LINKS | ONE_MOUNT) {
        Ok(object) => Ok(object),
        Err(_) => syscalls::clone_mount(open_in(left, path)?.as_fd()),
    }
}

/// Stores that end with the run, for where that on the disk cannot be one: it may lie on an overlay itself, as in a container.
struct Memory {
    bytes: u64,
    mount: Option<OwnedFd>,
    stores: u32,
}

impl Memory {
    /// Makes an overlay of `lower` whose changes go here (Linux 6.6).
    fn over(&mut self, lower: &OwnedFd) -> io::Result<OwnedFd> {
        let mount = match self.mount.take() {
            Some(mount) => mount,
            None => {
                let size = std::ffi::CString::new(self.bytes.to_string()).unwrap_or_default();
                let options =
                    [(c"mode", c"0700"), (c"size", size.as_c_str()), (c"nr_inodes", c"200000")];
                syscalls::new_file_system(c"tmpfs", &options, SAFE)?
            }
        };
        self.stores += 1;
        let name = PathBuf::from(self.stores.to_string());
        for (part, mode) in [("", 0o700), ("upper", 0o755), ("work", 0o700)] {
            syscalls::make_directory_at(mount.as_fd(), &name.join(part), mode)?;
        }
        over(lower, self.mount.insert(mount), &name)
    }
}

/// A store that is not there says nothing about the cache.
fn no_store(error: io::Error) -> io::Error {
    match is_absent(&error) {
        true => io::Error::other("there is no store for the changes of the command"),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    fn rule(path: &str, access: Access) -> FileRule {
        FileRule { path: path.into(), access, origin: format!("rule {path}") }
    }

    fn check(rules: &[(&str, Access)], patterns: &[&str], expected: &str) {
        let rules: Vec<FileRule> = rules.iter().map(|it| rule(it.0, it.1)).collect();
        let patterns: Vec<FileRule> = patterns.iter().map(|it| rule(it, Access::None)).collect();
        let private = [PathBuf::from("/tmp")];
        let mounts = layout::plan(&rules.iter().collect::<Vec<_>>(), &private).unwrap();
        let cache = Cache { path: "/h/.npm".into(), store: "/h/state/s".into() };
        let said = match place_of(&cache, &rules, &patterns, &mounts) {
            Possibility::Free => "free".to_owned(),
            Possibility::Needless => "needless".to_owned(),
            Possibility::Taken(why) => why,
        };
        assert_eq!(said, expected, "{rules:?} {patterns:?}");
    }

    #[test]
    fn rules_that_say_nothing_of_the_cache_leave_it_free() {
        use Access::{None, Read, ReadOnly, Write};
        check(&[], &[], "free");
        check(&[("/h/p", Write), ("/h/.ssh", None), ("/h/state", None)], &["/h/p/**/.env"], "free");
        check(&[("/h/.npmrc", ReadOnly), ("/h", Read)], &[], "free");
    }

    #[test]
    fn a_rule_at_above_or_beneath_the_cache_keeps_it_closed() {
        let said = |path: &str| format!("a rule matches it or a path below it: rule {path}");
        for access in [Access::ReadOnly, Access::Protected] {
            for path in ["/h", "/h/.npm", "/h/.npm/a/b"] {
                check(&[(path, access)], &[], &said(path));
            }
        }
        check(&[("/h/.npm/a", Access::None)], &[], &said("/h/.npm/a"));
        check(&[("/h/.npm/a", Access::Write)], &[], &said("/h/.npm/a"));
        check(&[("/h", Access::None), ("/h/.npm", Access::Read)], &[], &said("/h"));
        check(&[("/h", Access::None)], &[], "it is hidden");
        for pattern in ["/h/**/.env", "/h/.n*", "/h/*/a"] {
            let said = format!("a pattern may match a path below it: rule {pattern}");
            check(&[], &[pattern], &said);
        }
    }

    #[test]
    fn what_can_be_written_needs_no_overlay_and_a_store_within_reach_is_none() {
        check(&[("/h", Access::Write)], &[], "needless");
        check(&[("/h/.npm", Access::Write)], &[], "needless");
        check(&[("/h/state", Access::Write)], &[], "the command could change its store");
    }
}
