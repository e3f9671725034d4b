//! Finds the files that the names of programs lead to. A name counts only for a file that commands cannot change, so
//! each is looked for as the shell that runs the text would look for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stockade_policy::{Doubt, Doubts, Facts, Layer, SandboxState};

use crate::regions::Regions;
use crate::scene::Scene;
use stockade_shell as shell;

/// Findings about the programs of a text.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Doubts that apply if the text runs unconfined.
    pub outside: Doubts,
    /// Doubts that apply if the text runs as its sandbox says.
    pub inside: Doubts,
    /// Programs that an unconfined text does not get, one line each.
    pub notices: Vec<String>,
}

/// Looks for programs.
struct Lookup<'a> {
    regions: &'a Regions,
    /// The whole search path, each entry with whether it leads where commands may write.
    entries: Vec<(PathBuf, bool)>,
    cwd: &'a Path,
}

/// Finds out what the programs of a text are; blocks on the file system.
pub fn look(scene: &Scene, names: &BTreeSet<Vec<u8>>) -> Found {
    let regions = scene.regions();
    let flags = scene.snapshot.texts.iter().filter(|text| text.layer == Layer::Flag);
    let files = flags.map(|text| text.file.clone());
    let settings: BTreeSet<PathBuf> =
        files.filter(|file| file.is_absolute() && regions.hold(file)).collect();
    let lookup = Lookup::new(&regions, &scene.search, &scene.place.cwd);
    let mut found = Found::default();
    let (mut outside, mut inside) = (BTreeMap::new(), BTreeMap::new());
    for word in names {
        let Ok(name) = std::str::from_utf8(word) else { continue };
        inside.extend(lookup.inside(name).map(|doubt| (word.clone(), doubt)));
        outside.extend(lookup.outside(name).map(|doubt| (word.clone(), doubt)));
        found.notices.extend(lookup.passed_over(name));
    }
    found.outside = Doubts { programs: outside, settings: settings.clone(), ..Doubts::default() };
    found.inside = Doubts { programs: inside, settings, ..Doubts::default() };
    found
}

/// Says whether the programs of a call have to be looked for.
pub fn is_needed(scene: &Scene, facts: &Facts, may_leave: bool) -> bool {
    match facts.sandbox {
        SandboxState::Off | SandboxState::Unavailable => true,
        SandboxState::Enforced => {
            may_leave || stockade_policy::names_count(&scene.snapshot.rules, facts)
        }
    }
}

/// Returns the file to which a name leads what runs unconfined, if there is one; blocks on the file system.
pub fn outside(
    regions: &Regions,
    search: &str,
    cwd: &Path,
    name: &str,
) -> Result<Option<PathBuf>, Doubt> {
    let lookup = Lookup::new(regions, search, cwd);
    match lookup.outside(name) {
        Some(doubt) => Err(doubt),
        None if name.contains('/') => Ok(Some(lookup.cwd.join(name))),
        None => Ok(lookup.kept(name)),
    }
}

impl<'a> Lookup<'a> {
    fn new(regions: &'a Regions, search: &str, cwd: &'a Path) -> Lookup<'a> {
        let entry = |entry: &str| (cwd.join(entry), regions.hold_entry(entry));
        Lookup { regions, entries: search.split(':').map(entry).collect(), cwd }
    }

    /// Where a confined text, or one that the caller runs, finds a program.
    fn inside(&self, name: &str) -> Option<Doubt> {
        if name.contains('/') {
            return self.spelled(name);
        }
        let mut exposed = None;
        for (entry, held) in &self.entries {
            let file = entry.join(name);
            if shell::is_program(&file) {
                return match *held || self.regions.hold(&file) {
                    true => Some(Doubt::Planted(file)),
                    false => exposed.map(Doubt::Exposed),
                };
            }
            if *held && exposed.is_none() {
                exposed = Some(entry.clone());
            }
        }
        None
    }

    /// Where an unconfined text finds a program.
    fn outside(&self, name: &str) -> Option<Doubt> {
        if name.contains('/') {
            return self.spelled(name);
        }
        match (self.kept(name), self.passed(name)) {
            (Some(file), _) => self.regions.hold(&file).then_some(Doubt::Planted(file)),
            (None, passed) => passed.map(Doubt::Absent),
        }
    }

    fn spelled(&self, name: &str) -> Option<Doubt> {
        let file = self.cwd.join(name);
        (name.starts_with('/') && self.regions.hold(&file)).then_some(Doubt::Planted(file))
    }

    fn kept(&self, name: &str) -> Option<PathBuf> {
        let kept = self.entries.iter().filter(|(_, held)| !held);
        kept.map(|(entry, _)| entry.join(name)).find(|file| shell::is_program(file))
    }

    /// Returns the file that the whole search path leads to, if an unconfined text does not look there.
    fn passed(&self, name: &str) -> Option<PathBuf> {
        let mut files = self.entries.iter().map(|(entry, held)| (entry.join(name), *held));
        let (file, held) = files.find(|(file, _)| shell::is_program(file))?;
        held.then_some(file)
    }

    fn passed_over(&self, name: &str) -> Option<String> {
        let passed = if name.contains('/') { None } else { self.passed(name) }?;
        let kept = self.kept(name);
        let passed = passed.display().to_string();
        let (name, passed) = (name.escape_debug(), passed.escape_debug());
        Some(match kept {
            Some(kept) => format!(
                "`{name}` is `{}` here and not `{passed}`: commands can write there, and this command runs unsandboxed",
                kept.display()
            ),
            None => format!(
                "`{name}` is not found: `{passed}` is where commands can write, and this command runs unsandboxed; use its path"
            ),
        })
    }
}
