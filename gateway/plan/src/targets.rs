//! Targets of the paths in rules. Files in a writable region may be the work of an earlier command, so nothing
//! there stops the next one: a path that leads nowhere grants nothing, and what it refuses is refused by its name.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use stockade_spec::Access;

use stockade_base::names::Names;

/// Where programs and their libraries lie, without which no command starts.
const PROGRAMS: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix"];

/// Result of following the path of a rule that refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The rule is about what is, or comes to be, where the path leads.
    There,
    /// The path is in this directory, which is closed to its owner and counts as a whole.
    Closed(PathBuf),
    /// The rule cannot be about anything there: it keeps this name alone.
    Name(PathBuf, String),
}

/// Finds what rules lead to.
#[derive(Debug)]
pub(super) struct Targets {
    names: Names,
    /// Regions that commands can write.
    regions: Vec<PathBuf>,
    /// Directories that no command can do without, with all directories above.
    needed: HashSet<PathBuf>,
}

impl Targets {
    /// Knows what commands can write, and what they need besides.
    pub(super) fn new(regions: &[PathBuf], needed: &[PathBuf]) -> Targets {
        let all = regions.iter().chain(needed).flat_map(|path| path.ancestors());
        let needed = all.map(Path::to_path_buf).collect();
        Targets { names: Names::default(), regions: regions.to_vec(), needed }
    }

    /// Says whether `path` is a symbolic link, or goes over one.
    pub(super) fn is_over_link(&self, path: &Path) -> bool {
        matches!(look(path), Look::Nowhere)
    }

    /// Says whether no command can do without `path`, or something in it.
    pub(super) fn is_needed(&self, path: &Path) -> bool {
        self.needed.contains(path)
    }

    /// Says whether a pattern reaches what a link leads to: not one to what no command can do without, which anybody can
    /// make and which would have the whole disk looked through.
    pub(super) fn is_reached(&self, link: &Path) -> bool {
        let real = Names::default().real(link);
        !self.is_too_much(&real, Access::None)
    }

    /// Returns what a rule that refuses `path` comes to.
    pub(super) fn of(&mut self, path: &Path, access: Access) -> Target {
        let real = self.names.real(path);
        match look(&real) {
            Look::There | Look::Absent if self.is_too_much(&real, access) => {
                let Some(link) = self.link_in_region(path) else { return Target::There };
                let note = format!(
                    "{} leads to {}, which every command needs, so only the link is protected; remove it",
                    shown(&link),
                    shown(&real)
                );
                Target::Name(link, note)
            }
            Look::There | Look::Absent => Target::There,
            Look::Closed => self.closed_above(&real).map_or(Target::There, Target::Closed),
            Look::Nowhere => {
                let name = self.link_in_region(path).unwrap_or(real);
                let note =
                    format!("{} is a broken link, so only the name is protected", shown(&name));
                Target::Name(name, note)
            }
        }
    }

    /// Says whether no command would start if `real` were refused.
    fn is_too_much(&self, real: &Path, access: Access) -> bool {
        match access {
            Access::None => {
                self.is_needed(real) || PROGRAMS.iter().any(|programs| real.starts_with(programs))
            }
            Access::Write | Access::ReadOnly | Access::Read | Access::Protected | Access::Kept => {
                self.regions.iter().any(|region| region.starts_with(real))
            }
        }
    }

    /// Returns the first symbolic link on the way of `path` that a command could have made.
    fn link_in_region(&self, path: &Path) -> Option<PathBuf> {
        let hops = Names::default().of(path, Path::new("/"));
        let lies_in = |real: &Path| {
            self.regions.iter().any(|region| real != region && real.starts_with(region))
        };
        std::iter::once(path.to_path_buf()).chain(hops).find_map(|hop| {
            let mut above: Vec<&Path> = hop.ancestors().collect();
            above.reverse();
            above.into_iter().find_map(|step| {
                let name: OsString = step.file_name()?.to_owned();
                let place = Names::default().real(step.parent()?).join(name);
                let is_link = place.symlink_metadata().is_ok_and(|found| found.is_symlink());
                (is_link && lies_in(&place)).then_some(place)
            })
        })
    }

    /// Returns the directory above `real` that is closed to its owner, who can open it again: a command may have closed
    /// it so that nobody sees what lies there.
    fn closed_above(&self, real: &Path) -> Option<PathBuf> {
        let own = rustix::process::geteuid().as_raw();
        let closed = real.ancestors().skip(1).find_map(|above| {
            above.symlink_metadata().ok().map(|found| (above.to_path_buf(), found))
        });
        let (path, _) = closed.filter(|(_, found)| found.is_dir() && found.uid() == own)?;
        (!self.is_needed(&path)).then_some(path)
    }
}

/// State of a path, as the kernel reports it.
enum Look {
    There,
    Absent,
    /// Its directory cannot be entered.
    Closed,
    Nowhere,
}

fn look(real: &Path) -> Look {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat2(CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A kernel or a filter without this call.
        Err(Errno::NOSYS | Errno::PERM) => return look_by_name(real),
        opened => opened,
    };
    match opened {
        Ok(object) => {
            let kind = fstat(&object).map(|found| FileType::from_raw_mode(found.st_mode));
            match kind {
                Ok(FileType::Symlink) | Err(_) => Look::Nowhere,
                Ok(_) => Look::There,
            }
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Look::Absent,
        Err(Errno::ACCESS) => Look::Closed,
        Err(Errno::LOOP | Errno::NAMETOOLONG) => Look::Nowhere,
        // Other errors are reported when the path is opened for the command.
        Err(_) => Look::There,
    }
}

fn look_by_name(real: &Path) -> Look {
    match real.symlink_metadata() {
        Ok(found) if found.is_symlink() => Look::Nowhere,
        Ok(_) => Look::There,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Look::Absent,
            io::ErrorKind::PermissionDenied => Look::Closed,
            _ => Look::Nowhere,
        },
    }
}

/// Returns a path as people can read it, however long and odd it is.
pub(super) fn shown(path: &Path) -> String {
    const LONGEST: usize = 200;
    let text = path.to_string_lossy().escape_debug().to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}…`", text.get(..end).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}
