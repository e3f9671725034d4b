//! Names that one directory may not hold in large numbers: each such file costs every later run a mount.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::part::Part;
use stockade_spec::SandboxSpec;

/// Most such names in one directory.
const MOST: usize = 1_000;

/// Most directories of which the names are remembered.
const MOST_DIRECTORIES: usize = 1_000;

/// The names, and those that directories hold.
#[derive(Debug)]
pub(super) struct Numerous {
    names: Vec<Part>,
    held: RefCell<HashMap<PathBuf, HashSet<OsString>>>,
}

impl Numerous {
    pub(super) fn new(spec: &SandboxSpec) -> Numerous {
        let names = spec.files.numerous_names.iter().map(|name| Part::new(name)).collect();
        Numerous { names, held: RefCell::default() }
    }

    /// Returns the rule that keeps `path` from being made, if there is one. A name that the directory holds already is
    /// free.
    pub(super) fn refuses(&self, path: &Path) -> Option<String> {
        let (directory, name) = (path.parent()?, path.file_name()?);
        if !self.lists(name) {
            return None;
        }
        let mut held = self.held.borrow_mut();
        if held.len() >= MOST_DIRECTORIES {
            held.clear();
        }
        let known = held.entry(directory.to_path_buf()).or_insert_with(|| self.names_in(directory));
        if known.contains(name) {
            return None;
        }
        if known.len() >= MOST {
            let names =
                self.names.iter().map(|part| format!("`{}`", part.text().to_string_lossy()));
            let names = names.collect::<Vec<_>>().join(", ");
            return Some(format!("builtin: more than {MOST} files named {names} in one directory"));
        }
        known.insert(name.to_os_string());
        None
    }

    fn lists(&self, name: &OsStr) -> bool {
        self.names.iter().any(|part| part.is(name))
    }

    /// Returns the names in a directory that count, at most [`MOST`] of them; made-up ones where it cannot be listed, so
    /// that it gets no more.
    fn names_in(&self, directory: &Path) -> HashSet<OsString> {
        let Ok(entries) = directory.read_dir() else {
            return (0..MOST).map(|number| format!("/{number}").into()).collect();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter(|name| self.lists(name)).take(MOST).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_a_limited_number_of_such_names() {
        let mut numerous = Numerous {
            names: [".env", ".env.*"].map(|it| Part::new(it.as_ref())).into(),
            held: RefCell::default(),
        };
        let of = |numerous: &Numerous, name: String| {
            numerous.refuses(&Path::new("/proc/self").join(name))
        };
        let rule = Some(
            "builtin: more than 1000 files named `.env`, `.env.*` in one directory".to_owned(),
        );
        for number in 0..MOST {
            assert_eq!(of(&numerous, format!(".env.{number}")), None);
        }
        assert_eq!(of(&numerous, ".env.next".to_owned()), rule);
        assert_eq!(of(&numerous, ".ENV".to_owned()), rule);
        assert_eq!(of(&numerous, ".env.7".to_owned()), None, "it is there already");
        assert_eq!(of(&numerous, "env".to_owned()), None);
        // A directory that cannot be listed gets no new names.
        assert_eq!(numerous.refuses(Path::new("/none/.env")), rule);
        numerous.names.clear();
        assert_eq!(of(&numerous, ".env.next".to_owned()), None);
    }
}
