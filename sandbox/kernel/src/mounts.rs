//! The run's view of the file system, made of detached mounts and attached by descriptor.
//!
//! The host's tree is cloned and made read-only as a whole; writable regions, pins and masks are put
//! on top, shorter paths first; then the old root goes away.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::copies;
use super::landlock::Rights;
use super::layout::{self, Mount, View};
use super::objects::{SAFE, beneath, failed, is_absent, open, private_directories};
use super::overlay::Overlays;
use super::sources::{Foreign, Kind, Left, Sources, Tree, exchanged, open_in};
use super::syscalls::{self, ATTRIBUTE_NO_EXECUTION, ATTRIBUTE_NO_SET_ID};
use super::syscalls::{ATTRIBUTE_READ_ONLY, NO_LINKS};
use stockade_spec::Limits;
use stockade_spec::codec::Failure;
use stockade_spec::{FileRule, SandboxSpec};

const INERT: u64 = SAFE | ATTRIBUTE_NO_EXECUTION;

/// Process numbers that the kernel keeps back when it counts around (`kernel/pid.c`).
const RESERVED_NUMBERS: u64 = 300;

/// Device nodes shown in `/dev`.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Entries of `/proc` that tell about the kernel or its keys: directories first, then files.
const PROC_MASKS: [&[&str]; 2] = [
    &["acpi", "scsi"],
    &[
        "config.gz",
        "kallsyms",
        "kcore",
        "key-users",
        "keys",
        "kmsg",
        "kpagecgroup",
        "kpagecount",
        "kpageflags",
        "latency_stats",
        "sched_debug",
        "slabinfo",
        "timer_list",
        "vmallocinfo",
    ],
];

/// Directories of `/sys` that speak for the whole machine, and no files.
const SYS_MASKS: [&[&str]; 2] = [
    &["firmware", "fs/bpf", "fs/pstore", "kernel/debug", "kernel/security", "kernel/tracing"],
    &[],
];

/// Result of building the view.
pub struct Built {
    /// Objects with what Landlock grants on them.
    pub grants: Vec<(OwnedFd, Rights)>,
    /// Rules whose path did not exist.
    pub absent: Vec<FileRule>,
    /// There is a `/proc` of the run's own.
    pub has_proc: bool,
    /// Why there is no `/proc`.
    pub proc_reason: String,
    /// The process namespace has its own highest process number.
    pub counts_processes: bool,
    /// No user namespace can be made inside.
    pub refuses_nesting: bool,
    /// Private shared memory, for measuring.
    pub shm: OwnedFd,
    /// Caches that the run changes for itself.
    pub caches: Vec<PathBuf>,
    /// Restrictions beyond the spec, for people.
    pub notes: Vec<String>,
}

/// Fails like [`failed`] for a tree that was attached. A directory goes on a directory alone, and nothing else does (`EINVAL` of
/// `move_mount(2)`): an object of the other kind came to the path after it was looked at.
fn attached(what: &str, path: &Path, result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(exchanged(path)),
        result => failed(what, path, result),
    }
}

/// Makes a `/proc` for this process namespace, before anything covers the host's.
fn new_proc() -> (Option<OwnedFd>, String) {
    match syscalls::new_file_system(c"proc", &[], INERT) {
        Ok(mount) => (Some(mount), String::new()),
        Err(error) => (None, format!("the kernel refuses a new `/proc`: {error}")),
    }
}

/// Sets a kernel setting of our own namespaces; says whether it took.
fn set(proc_mount: Option<&OwnedFd>, name: &str, value: &str) -> bool {
    let Some(mount) = proc_mount else { return false };
    let opened = syscalls::open_at(mount.as_fd(), Path::new(name), libc::O_WRONLY, NO_LINKS);
    opened.and_then(|file| std::fs::File::from(file).write_all(value.as_bytes())).is_ok()
}

/// Sets the highest process number of this process namespace; says whether it took.
///
/// Before Linux 6.14 there is one number for the whole machine, which root may set from inside as well.
fn set_highest(proc_mount: Option<&OwnedFd>, highest: u64) -> bool {
    syscalls::kernel_version() >= (6, 14)
        && set(proc_mount, "sys/kernel/pid_max", &highest.to_string())
}

/// The new root while it is built, over a small file system that gives masks and mount points.
pub struct Stage {
    /// The directory and the file that masks are copies of.
    masks: [OwnedFd; 2],
    /// A copy of each that found no place yet.
    spare: [Option<OwnedFd>; 2],
    root: OwnedFd,
    dev: OwnedFd,
    proc_mount: Option<OwnedFd>,
    proc_reason: String,
    /// The run's devices and terminals, with what Landlock grants on them.
    devices: Vec<(OwnedFd, Rights)>,
    /// Mounts that become read-only at the end.
    closing: Vec<OwnedFd>,
    /// Directories that the run has for its own.
    private: Vec<PathBuf>,
    /// Empty directories, for those of them that begin so.
    empty: Vec<OwnedFd>,
    /// Private shared memory, and how much it may hold.
    shm: (OwnedFd, u64),
    /// The host, if this process is not in it any more.
    left: Option<Left>,
    /// The highest process number, if it could be set.
    highest: Option<u64>,
    refuses_nesting: bool,
}

impl Stage {
    /// Makes what is the same for every run: the host's tree read-only, `/dev`, `/proc` and `/sys`.
    pub fn new() -> Result<Stage, Failure> {
        let path = Path::new("/");
        failed("make private", path, syscalls::make_private())?;
        let (proc_mount, proc_reason) = new_proc();
        let host = failed("open", path, open(path))?;
        let root = failed("clone", path, syscalls::clone_tree(host.as_fd()))?;
        // From Linux 6.15 what is attached nowhere can be copied; before, the host is left when the spec is there.
        let outside = syscalls::clone_tree(root.as_fd()).ok();
        let attributes = SAFE | ATTRIBUTE_READ_ONLY;
        failed("restrict", path, syscalls::set_tree_attributes(root.as_fd(), attributes))?;
        let staging = failed("stage", path, small_file_system(c"0755"))?;
        if outside.is_none() {
            failed("stage", path, syscalls::attach(staging.as_fd(), host.as_fd()))?;
        }
        failed("stage", path, fill_stage(staging.as_fd()))?;
        let part = |name: &str| beneath(staging.as_fd(), Path::new(name));
        let copy = |name: &str| syscalls::clone_mount(part(name)?.as_fd());
        let dev = failed("make", Path::new("/dev"), copy("dev"))?;
        let private = private_directories();
        let runs = private.iter().filter(|path| path.ends_with("run"));
        let empty = failed("make", path, runs.map(|_| copy("run")).collect::<io::Result<_>>())?;
        // Every mask is a copy of this mount, and read-only like it.
        let attributes = ATTRIBUTE_READ_ONLY;
        failed("stage", path, syscalls::set_attributes(staging.as_fd(), attributes))?;
        let masks = failed("mask", path, part("empty").and_then(|it| Ok([it, part("nothing")?])))?;
        let place = match outside {
            Some(_) => host,
            None => failed("stage", path, part("root"))?,
        };
        failed("attach", path, syscalls::attach(root.as_fd(), place.as_fd()))?;
        let left = outside.map(|host| Left { host, staging });
        let (devices, closing) = (Vec::new(), Vec::new());
        let limits = Limits::default();
        let shm = failed("make", Path::new("/dev/shm"), shared_memory(limits.shm_bytes))?;
        let highest = highest(&limits);
        let counts = set_highest(proc_mount.as_ref(), highest);
        let refuses_nesting = set(proc_mount.as_ref(), "sys/user/max_user_namespaces", "0");
        let mut stage = Stage {
            masks,
            spare: [None, None],
            root,
            dev,
            proc_mount,
            proc_reason,
            devices,
            closing,
            private,
            empty,
            shm: (shm, limits.shm_bytes),
            left,
            highest: counts.then_some(highest),
            refuses_nesting,
        };
        stage.place_devices()?;
        stage.place_proc()?;
        stage.place_sys()?;
        // Closing a copy that has no place waits for the kernel's readers: rather here than when the spec is there.
        stage.spare = [None, None];
        if stage.left.is_some() {
            stage.leave()?;
        }
        Ok(stage)
    }

    /// Returns the host, if it was left: closing it takes time unless somebody else has it, too.
    pub fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    /// Puts on top what `spec` asks for, and makes it the root of this mount namespace.
    pub fn build(mut self, spec: &SandboxSpec, foreign: Foreign) -> Result<Built, Failure> {
        let sources = Sources::open(spec, &foreign, self.left.as_ref())?;
        let is_watched = self.proc_mount.is_some();
        let is_covered = |rule: &&FileRule| !(is_watched && spec.leaves_to_supervisor(rule));
        let rules: Vec<&FileRule> = sources.rules.iter().filter(is_covered).collect();
        let mounts =
            layout::plan(&rules, &self.private).map_err(|reason| Failure::Spec { reason })?;
        let trees = sources.clone_trees(&mounts, foreign, self.left.as_ref())?;
        let mut grants = self.place_all(spec, &mounts, trees)?;
        let mut overlays = Overlays::place(spec, &mounts, &self.root, self.left.as_ref());
        grants.append(&mut overlays.grants);
        self.limit(spec)?;
        self.finish()?;
        let root = Path::new("/");
        grants.append(&mut self.devices);
        grants.push((failed("open", root, open(root))?, Rights::Read));
        let (shm, _) = self.shm;
        let shm_copy = failed("open", Path::new("/dev/shm"), shm.try_clone())?;
        grants.push((shm_copy, Rights::Write));
        Ok(Built {
            grants,
            absent: sources.absent,
            has_proc: self.proc_mount.is_some(),
            proc_reason: self.proc_reason,
            counts_processes: self.highest.is_some(),
            refuses_nesting: self.refuses_nesting,
            shm,
            caches: overlays.paths,
            notes: overlays.notes,
        })
    }

    /// Sets the limits that belong to mounts, where they are not what was assumed.
    fn limit(&mut self, spec: &SandboxSpec) -> Result<(), Failure> {
        let highest = highest(&spec.limits);
        if self.highest.is_some_and(|set| set != highest) {
            let took = set_highest(self.proc_mount.as_ref(), highest);
            self.highest = took.then_some(highest);
        }
        let (shm, size) = &self.shm;
        if *size != spec.limits.shm_bytes {
            let size = spec.limits.shm_bytes.to_string();
            let size = std::ffi::CString::new(size).unwrap_or_default();
            let changed = syscalls::reconfigure(shm.as_fd(), c"size", &size);
            failed("make", Path::new("/dev/shm"), changed)?;
        }
        Ok(())
    }

    /// Attaches everything that rules and private directories ask for, shorter paths first.
    fn place_all(
        &mut self,
        spec: &SandboxSpec,
        mounts: &[Mount],
        mut trees: BTreeMap<PathBuf, Tree>,
    ) -> Result<Vec<(OwnedFd, Rights)>, Failure> {
        let mut grants = Vec::new();
        for Mount { path, view } in mounts {
            if *view == View::Private {
                self.place_private(spec, path, &mut grants)?;
                continue;
            }
            let Some(Tree { mount, kind }) = trees.remove(path) else { continue };
            let target = self.target(path, kind)?;
            match (mount, view) {
                (Some(tree), _) => {
                    attached("attach", path, syscalls::attach(tree.as_fd(), target.as_fd()))?;
                    if *view == View::Writable {
                        let grant = match kind {
                            Kind::Directory => Rights::Write,
                            Kind::File => Rights::File,
                        };
                        grants.push((tree, grant));
                    }
                }
                (None, View::Masked { searchable: true }) => {
                    let mask = failed("mask", path, small_file_system(c"0111"))?;
                    failed("mask", path, syscalls::attach(mask.as_fd(), target.as_fd()))?;
                    self.closing.push(mask);
                }
                (None, _) => match copies::of(spec, path).filter(|_| kind == Kind::File) {
                    Some(copy) => {
                        failed("copy", path, copies::place(copy, self.dev.as_fd(), &target))?;
                    }
                    None => self.mask(path, &target, kind)?,
                },
            }
        }
        Ok(grants)
    }

    /// Returns the mount point, made first where it lies in a directory of the run's own.
    fn target(&self, path: &Path, kind: Kind) -> Result<OwnedFd, Failure> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        match beneath(self.root.as_fd(), relative) {
            Err(error) if is_absent(&error) => {}
            result => return failed("find the mount point", path, result),
        }
        let made = make_target(self.root.as_fd(), relative, kind);
        failed("make the mount point", path, made)
    }

    fn place_private(
        &mut self,
        spec: &SandboxSpec,
        path: &Path,
        grants: &mut Vec<(OwnedFd, Rights)>,
    ) -> Result<(), Failure> {
        let target = self.target(path, Kind::Directory)?;
        if path.ends_with("run") {
            let mount = failed("make", path, self.empty.pop().ok_or_else(no_more))?;
            failed("attach", path, syscalls::attach(mount.as_fd(), target.as_fd()))?;
            self.closing.push(mount);
            return Ok(());
        }
        let tree = match &spec.files.private_tmp {
            Some(directory) => {
                let source = failed("open", directory, open_in(self.left.as_ref(), directory))?;
                let tree = failed("clone", directory, syscalls::clone_mount(source.as_fd()))?;
                failed("restrict", path, syscalls::set_attributes(tree.as_fd(), SAFE))?;
                tree
            }
            None => {
                let size = spec.limits.shm_bytes.to_string();
                let size = std::ffi::CString::new(size).unwrap_or_default();
                let options =
                    [(c"mode", c"1777"), (c"size", size.as_c_str()), (c"nr_inodes", c"200000")];
                failed("make", path, syscalls::new_file_system(c"tmpfs", &options, SAFE))?
            }
        };
        failed("attach", path, syscalls::attach(tree.as_fd(), target.as_fd()))?;
        grants.push((tree, Rights::Write));
        Ok(())
    }

    /// Covers `target` with an empty object of ours that nobody may open.
    fn mask(&mut self, path: &Path, target: &OwnedFd, kind: Kind) -> Result<(), Failure> {
        let tree = self.take_mask(path, kind)?;
        attached("mask", path, syscalls::attach(tree.as_fd(), target.as_fd()))
    }

    fn place_devices(&mut self) -> Result<(), Failure> {
        let path = Path::new("/dev");
        let mut nodes = Vec::new();
        let host = failed("open", path, open(path))?;
        for name in DEVICES {
            let device = || path.join(name);
            let source = match beneath(host.as_fd(), Path::new(name)) {
                Err(error) if is_absent(&error) => continue,
                result => failed("open", &device(), result)?,
            };
            let tree = failed("clone", &device(), syscalls::clone_mount(source.as_fd()))?;
            let attributes = ATTRIBUTE_READ_ONLY | ATTRIBUTE_NO_SET_ID | ATTRIBUTE_NO_EXECUTION;
            let restricted = syscalls::set_attributes(tree.as_fd(), attributes);
            failed("restrict", &device(), restricted)?;
            nodes.push((name, tree));
        }
        let target = self.target(path, Kind::Directory)?;
        let dev = self.dev.as_fd();
        failed("attach", path, syscalls::attach(dev, target.as_fd()))?;
        for (name, tree) in nodes {
            let name = Path::new(name);
            failed("make", path, syscalls::make_node_at(dev, name, libc::S_IFREG | 0o600))?;
            failed("attach", path, syscalls::attach_at(tree.as_fd(), dev, name))?;
            self.devices.push((tree, Rights::Device));
        }
        let options = [(c"mode", c"0620"), (c"ptmxmode", c"0666")];
        let attributes = ATTRIBUTE_NO_SET_ID | ATTRIBUTE_NO_EXECUTION;
        let terminals = syscalls::new_file_system(c"devpts", &options, attributes);
        let terminals = failed("make", &path.join("pts"), terminals)?;
        for (name, mount) in [("pts", &terminals), ("shm", &self.shm.0)] {
            let name = Path::new(name);
            failed("make", path, syscalls::make_directory_at(dev, name, 0o755))?;
            failed("attach", path, syscalls::attach_at(mount.as_fd(), dev, name))?;
        }
        self.devices.push((terminals, Rights::Device));
        for (name, text) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            let made = syscalls::symlink_at(Path::new(text), dev, Path::new(name));
            failed("make", path, made)?;
        }
        Ok(())
    }

    /// Puts the new `/proc` in place, without what tells of the kernel.
    fn place_proc(&mut self) -> Result<(), Failure> {
        let path = Path::new("/proc");
        let target = self.target(path, Kind::Directory)?;
        let Some(mount) = self.proc_mount.take() else {
            return self.mask(path, &target, Kind::Directory);
        };
        let placed = failed("attach", path, syscalls::attach(mount.as_fd(), target.as_fd()))
            .and_then(|()| self.mask_each(&mount, path, &PROC_MASKS));
        self.proc_mount = Some(mount);
        placed
    }

    fn place_sys(&mut self) -> Result<(), Failure> {
        let path = Path::new("/sys");
        match beneath(self.root.as_fd(), Path::new("sys")) {
            Ok(sys) => self.mask_each(&sys, path, &SYS_MASKS),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => failed("open", path, Err(error)),
        }
    }

    /// Masks what is there of the directories and files that have these names.
    fn mask_each(
        &mut self,
        mount: &OwnedFd,
        path: &Path,
        names: &[&[&str]; 2],
    ) -> Result<(), Failure> {
        for (kind, names) in [Kind::Directory, Kind::File].into_iter().zip(names) {
            for name in *names {
                let mask = self.take_mask(path, kind)?;
                match syscalls::attach_at(mask.as_fd(), mount.as_fd(), Path::new(name)) {
                    // The mask is good for the next name.
                    Err(error) if is_absent(&error) => self.keep_mask(mask, kind),
                    // The object may be a directory where a file was expected, or the other way around.
                    Err(_) => {
                        self.keep_mask(mask, kind);
                        self.mask_any(mount, path, name)?;
                    }
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    /// Returns a copy of the directory or the file that masks.
    fn take_mask(&mut self, path: &Path, kind: Kind) -> Result<OwnedFd, Failure> {
        let ([directory, file], [spare_directory, spare_file]) = (&self.masks, &mut self.spare);
        let (object, spare) = match kind {
            Kind::Directory => (directory, spare_directory),
            Kind::File => (file, spare_file),
        };
        let copied = spare.take().map_or_else(|| syscalls::clone_mount(object.as_fd()), Ok);
        failed("mask", path, copied)
    }

    fn keep_mask(&mut self, mask: OwnedFd, kind: Kind) {
        let [directory, file] = &mut self.spare;
        *(if kind == Kind::Directory { directory } else { file }) = Some(mask);
    }

    /// Masks what has this name, whatever it is.
    fn mask_any(&mut self, mount: &OwnedFd, path: &Path, name: &str) -> Result<(), Failure> {
        let entry = path.join(name);
        match beneath(mount.as_fd(), Path::new(name)) {
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => failed("open", &entry, Err(error)),
            Ok(object) => {
                let kind = failed("look at", &entry, Kind::of(&object))?;
                self.mask(&entry, &object, kind)
            }
        }
    }

    /// Closes what was open for mount points, and leaves the host.
    fn finish(&mut self) -> Result<(), Failure> {
        let path = Path::new("/");
        for mount in self.closing.iter().chain([&self.dev]).chain(&self.proc_mount) {
            let result = syscalls::set_attributes(mount.as_fd(), ATTRIBUTE_READ_ONLY);
            failed("close", path, result)?;
        }
        match self.left.take() {
            Some(left) => drop(left),
            None => self.leave()?,
        }
        Ok(())
    }

    /// Makes the new root the root of this mount namespace, and detaches the host's.
    fn leave(&self) -> Result<(), Failure> {
        let path = Path::new("/");
        failed("enter", path, syscalls::change_directory(self.root.as_fd()))?;
        failed("pivot to", path, syscalls::pivot_here())?;
        // The host's lies on top of the new root now, and on that one the stage, if it had to be attached.
        if self.left.is_none() {
            failed("detach the stage on", path, syscalls::detach_here())?;
        }
        failed("detach the old", path, syscalls::detach_here())?;
        // Whatever were left on top would be reached by `/..`.
        let above = syscalls::open_path(Path::new("/.."), libc::O_PATH, syscalls::ONE_MOUNT);
        failed("leave the host's", path, above.map(drop))?;
        let root = failed("open", path, open(path))?;
        failed("enter", path, syscalls::change_directory(root.as_fd()))
    }
}

/// Returns the highest process number of a run.
fn highest(limits: &Limits) -> u64 {
    // The numbers below this one are not given again once the highest was reached.
    limits.processes.saturating_add(RESERVED_NUMBERS)
}

fn no_more() -> io::Error {
    io::Error::other("there are more private directories than when it began")
}

/// Makes the private shared memory of a run.
fn shared_memory(bytes: u64) -> io::Result<OwnedFd> {
    let size = std::ffi::CString::new(bytes.to_string()).unwrap_or_default();
    let options = [(c"mode", c"1777"), (c"size", size.as_c_str()), (c"nr_inodes", c"200000")];
    syscalls::new_file_system(c"tmpfs", &options, INERT)
}

/// Makes the objects that masks are cloned from, the place of the new root, and the directories of the run's own.
fn fill_stage(staging: BorrowedFd<'_>) -> io::Result<()> {
    for (name, mode) in [("root", 0o755), ("dev", 0o755), ("run", 0o755), ("empty", 0)] {
        syscalls::make_directory_at(staging, Path::new(name), mode)?;
    }
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    syscalls::create_at(staging, Path::new("nothing"), flags, 0).map(drop)
}

/// A file system for directories and mount points alone, read-only before a command sees it.
fn small_file_system(mode: &std::ffi::CStr) -> io::Result<OwnedFd> {
    syscalls::new_file_system(c"tmpfs", &[(c"mode", mode)], INERT)
}

/// Makes what is missing of `path`, one component at a time, following nothing.
fn make_target(root: BorrowedFd<'_>, path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    let mut at = root.try_clone_to_owned()?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let part: &Path = part.as_ref();
        let last = parts.peek().is_none();
        let made = if last && kind == Kind::File {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
            syscalls::create_at(at.as_fd(), part, flags, 0o600).map(drop)
        } else {
            syscalls::make_directory_at(at.as_fd(), part, 0o755)
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Where the parent is read-only the entry may exist all the same.
            Err(error) if error.raw_os_error() == Some(libc::EROFS) => {}
            result => result?,
        }
        at = beneath(at.as_fd(), part)?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests;
