//! Files of which this run knows every name: it gave them all but the first, and that lay in a directory where it may write.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::repository::{self, Identity};

/// Most files that are remembered. One that is not counts as one with names elsewhere.
const MOST_KNOWN: usize = 100_000;

/// Each file with how many names it has, all of them known.
#[derive(Debug, Default)]
pub(super) struct Shared(RefCell<BTreeMap<Identity, u64>>);

/// How many names an object had before it got another one, if all of them were known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before(pub(super) Option<u64>);

impl Shared {
    /// Remembers that a file has just got another name from the run.
    pub(super) fn linked(&self, Before(before): Before, found: &Metadata) {
        let mut known = self.0.borrow_mut();
        let is_counted = before.is_some_and(|names| names.checked_add(1) == Some(found.nlink()));
        if is_counted
            && (known.len() < MOST_KNOWN || known.contains_key(&repository::identity(found)))
        {
            known.insert(repository::identity(found), found.nlink());
        }
    }

    /// Notes that a file has lost a name; `found` is what it was before. One of which not all names were known is forgotten.
    pub(super) fn unlinked(&self, found: &Metadata) {
        let mut known = self.0.borrow_mut();
        let identity = repository::identity(found);
        match known.get_mut(&identity) {
            Some(names) if *names == found.nlink() && *names > 1 => *names -= 1,
            Some(_) => drop(known.remove(&identity)),
            None => {}
        }
    }

    /// Says whether every name of a file is known.
    pub(super) fn holds(&self, found: &Metadata) -> bool {
        self.0.borrow().get(&repository::identity(found)) == Some(&found.nlink())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_known_as_long_as_nobody_else_gives_it_a_name() {
        let base = std::env::temp_dir().join(format!("stockade-shared-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let at = |name: &str| base.join(name);
        let found = || fs::metadata(at("a")).unwrap();
        let shared = Shared::default();
        fs::write(at("a"), "x").unwrap();
        let mut seen = Vec::new();
        fs::hard_link(at("a"), at("b")).unwrap();
        shared.linked(Before(Some(1)), &found());
        seen.push(shared.holds(&found()));
        fs::hard_link(at("a"), at("stranger")).unwrap();
        seen.push(shared.holds(&found()));
        let before = found();
        fs::remove_file(at("b")).unwrap();
        shared.unlinked(&before);
        // Two names again, and one of them is a stranger's.
        seen.push(shared.holds(&found()));
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(seen, [true, false, false]);
    }
}
