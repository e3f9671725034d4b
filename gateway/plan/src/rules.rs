//! The file rules of a plan while they are put together. What refuses follows links and keeps them; what permits goes
//! over none that a command could have made.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_policy::Origin;
use stockade_spec::{Access, FileRule, Pattern, Wild};

use super::place_of;
use stockade_base::names::{Names, Way};

/// Most links and paths that are told of as granting nothing.
const MOST_TOLD: usize = 20;

/// The rules, and what is to be said of them.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Rules for real paths, and for the links and directories over which refusals lead: those stay where they are.
    pub(super) all: Vec<FileRule>,
    /// Links and paths that grant nothing, and why.
    pub(super) withheld: Vec<String>,
    /// Where commands write, or did: links there may be theirs.
    regions: Vec<PathBuf>,
    names: Names,
    /// Path and access of each rule in the list: a pattern may stand for thousands of paths.
    known: HashSet<(PathBuf, Access)>,
}

impl Rules {
    /// Makes an empty list, where links in `regions` may be those of commands.
    pub(super) fn within(regions: Vec<PathBuf>) -> Rules {
        Rules { regions, ..Rules::default() }
    }

    /// Adds a rule for a real path.
    pub(super) fn add(&mut self, path: &Path, access: Access, origin: &str) {
        self.put(path, access, origin);
    }

    /// Adds what refuses `path`, wherever it leads. The links on the way stay as they are.
    pub(super) fn follow(&mut self, path: &Path, access: Access, origin: &str) {
        let way = self.names.way(path, Path::new("/"));
        for link in &way.links {
            self.put(link, Access::Kept, origin);
        }
        // A path that leads nowhere does so as long as its links stay.
        if !way.is_endless {
            self.put(way.real(), access, origin);
        }
    }

    /// The same for a rule of the settings: where it names what is not there, the directory in which that would be stays, too.
    pub(super) fn refuse(&mut self, path: &Path, access: Access, origin: &str) {
        self.follow(path, access, origin);
        let real = self.names.real(path);
        if real.symlink_metadata().is_ok() {
            return;
        }
        let there = real.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
        if let Some(there) = there {
            self.put(there, Access::Kept, origin);
        }
    }

    /// Adds what permits `path`, which the rule `pattern` of the settings names, and returns where it leads.
    pub(super) fn permit(
        &mut self,
        path: &Path,
        access: Access,
        pattern: &str,
        origin: &Origin,
    ) -> Option<PathBuf> {
        let way = self.names.way(path, Path::new("/"));
        let place = place_of(pattern, origin);
        match barred(&way, &self.regions) {
            Some(bar) => {
                self.tell(format!("{place} grants nothing: {bar}"));
                None
            }
            None => {
                self.add(way.real(), access, &place);
                Some(way.real().to_path_buf())
            }
        }
    }

    /// Returns where the writable places of the settings lead that no command can have led there. Each is a region for all
    /// others, too.
    pub(super) fn settled<'a>(
        &mut self,
        named: &'a [(String, Origin)],
    ) -> Vec<(PathBuf, (&'a str, &'a Origin))> {
        let plain = named.iter().filter(|(path, _)| !Pattern::is(path));
        let mut free: Vec<(Way, (&str, &Origin))> = plain
            .map(|(path, origin)| {
                (self.names.way(Path::new(path), Path::new("/")), (path.as_str(), origin))
            })
            .collect();
        loop {
            let opened = free.iter().map(|(way, _)| way.real().to_path_buf());
            let regions: Vec<PathBuf> = self.regions.iter().cloned().chain(opened).collect();
            let before = free.len();
            free.retain(|(way, (pattern, origin))| match barred(way, &regions) {
                Some(bar) => {
                    let place = place_of(pattern, origin);
                    self.tell(format!("{place} grants nothing: {bar}"));
                    false
                }
                None => true,
            });
            if free.len() == before {
                self.regions = regions;
                return free.into_iter().map(|(way, it)| (way.real().to_path_buf(), it)).collect();
            }
        }
    }

    /// Returns the links over which `path` leads, and the path behind them.
    pub(super) fn passed(&mut self, path: &Path) -> Vec<PathBuf> {
        let way = self.names.way(path, Path::new("/"));
        let real = way.real().to_path_buf();
        way.links.into_iter().chain([real]).collect()
    }

    /// Returns where `path` leads, if no command can have led it there.
    pub(super) fn led(&mut self, path: &Path) -> Option<PathBuf> {
        let way = self.names.way(path, Path::new("/"));
        barred(&way, &self.regions).is_none().then(|| way.real().to_path_buf())
    }

    /// Returns `pattern` with the real path of the directories before its first wildcard, and keeps the links among them.
    pub(super) fn with_real_start(&mut self, pattern: &str, origin: &str) -> PathBuf {
        let (mut start, mut rest) = (PathBuf::new(), PathBuf::new());
        for name in Path::new(pattern).components() {
            let text = name.as_os_str().to_string_lossy();
            let plain = match Pattern::is(&text) {
                true => Wild::parse(&text).ok().and_then(|wild| wild.name()).map(OsString::from),
                false => Some(name.as_os_str().to_owned()),
            };
            match plain.filter(|_| rest.as_os_str().is_empty()) {
                Some(plain) => start.push(plain),
                None => rest.push(name),
            }
        }
        let way = self.names.way(&start, Path::new("/"));
        for link in &way.links {
            self.put(link, Access::Kept, origin);
        }
        let names = way.real().iter().map(|name| match name.to_str() {
            Some(text) => OsString::from(stockade_policy::verbatim(text)),
            None => name.to_owned(),
        });
        names.collect::<PathBuf>().join(rest)
    }

    fn put(&mut self, path: &Path, access: Access, origin: &str) {
        if self.known.insert((path.to_path_buf(), access)) {
            let (path, origin) = (path.to_path_buf(), origin.to_string());
            self.all.push(FileRule { path, access, origin });
        }
    }

    /// Keeps in mind what a person is to be told of.
    pub(super) fn tell(&mut self, told: String) {
        if self.withheld.len() < MOST_TOLD && !self.withheld.contains(&told) {
            self.withheld.push(told);
        }
    }
}

/// Says why `way` grants nothing where commands may write in `regions`.
fn barred(way: &Way, regions: &[PathBuf]) -> Option<String> {
    if way.is_endless {
        return Some("its symbolic links form a loop; use a real path in the rule".into());
    }
    let is_theirs = |link: &&PathBuf| {
        let above = link.parent().unwrap_or(link);
        regions.iter().any(|region| above.starts_with(region))
    };
    let link = way.links.iter().find(is_theirs)?.display();
    Some(format!(
        "it contains the symbolic link `{link}`, which is where commands can write, so one of them could have made it; use the real path in the rule: `{}`",
        way.real().display()
    ))
}
