//! Mounts that make the file rules true: a function from rules to a list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stockade_spec::{Access, FileRule};

/// View of the run on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The host's object, read-only.
    ReadOnly,
    /// The host's object, writable.
    Writable,
    /// Nothing; `searchable` if something beneath is shown.
    Masked { searchable: bool },
    /// The host's writable directory again, so that it cannot be renamed away from what it holds.
    Pinned,
    /// A place of the run's own instead of the host's.
    Private,
}

/// One mount; a list of them is in the order in which they are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub path: PathBuf,
    pub view: View,
}

/// Directories that are always the run's own; what rules say beneath them is ignored.
pub const OWN: &[&str] = &["/dev", "/proc", "/sys"];

/// Meaning of the rules of one path.
#[derive(Default)]
struct Said {
    hides: bool,
    /// A rule is about reading; a rule that only protects is not.
    reads: bool,
    forbids: bool,
    writes: bool,
}

/// Combined effect of the rules of a path and of all above it.
#[derive(Clone, Copy, Default)]
struct Covered {
    hidden: bool,
    forbidden: bool,
    written: bool,
}

/// The paths above one, shortest first, of a sorted list that is gone through: what lies beneath a path follows it.
struct Above<'a, T>(Vec<(&'a Path, T)>);

impl<'a, T: Copy> Above<'a, T> {
    /// Returns the nearest one above `path`.
    fn nearest(&mut self, path: &Path) -> Option<(&'a Path, T)> {
        while self.0.last().is_some_and(|(above, _)| !path.starts_with(above)) {
            self.0.pop();
        }
        self.0.last().copied()
    }
}

/// Returns the mounts for `rules`, whose paths exist, with `private` directories in between.
///
/// Reading: the longest rule decides, and of equal ones the strictest. Writing: needs a `Write` rule,
/// and any rule on the way that forbids it wins.
pub fn plan(rules: &[&FileRule], private: &[PathBuf]) -> Result<Vec<Mount>, String> {
    let views = views(rules, private)?;
    let mut mounts: BTreeMap<PathBuf, View> = BTreeMap::new();
    let mut above = Above(Vec::new());
    for (path, view) in &views {
        let around = above.nearest(path);
        above.0.push((path, *view));
        let shown = match (around.map(|found| found.1), view) {
            (_, View::Private) => *view != around.map_or(View::ReadOnly, |found| found.1),
            (Some(View::Private | View::Masked { .. }), View::Masked { .. }) => false,
            (None, View::ReadOnly) => false,
            (Some(outer), view) => outer != *view,
            (None, _) => true,
        };
        if !shown {
            continue;
        }
        mounts.insert(path.to_path_buf(), *view);
        if let (Some((region, View::Writable)), true) = (around, *view != View::Private) {
            pin_ancestors(&mut mounts, &views, region, path);
        }
    }
    mark_searchable(&mut mounts);
    Ok(mounts.into_iter().map(|(path, view)| Mount { path, view }).collect())
}

/// Returns what the run sees at each path that a rule or `private` names.
fn views<'a>(
    rules: &[&'a FileRule],
    private: &'a [PathBuf],
) -> Result<BTreeMap<&'a Path, View>, String> {
    let mut all: BTreeMap<&Path, Said> = BTreeMap::new();
    for rule in rules {
        if rule.path == Path::new("/") {
            match rule.access {
                Access::Write => return Err("`/` cannot be a writable region".to_owned()),
                Access::None => return Err("`/` cannot be unreadable".to_owned()),
                Access::ReadOnly | Access::Read | Access::Protected | Access::Kept => {}
            }
        }
        let said = all.entry(&rule.path).or_default();
        said.hides |= rule.access == Access::None;
        said.reads |= rule.access != Access::Protected;
        said.forbids |= matches!(rule.access, Access::ReadOnly | Access::Protected);
        said.writes |= rule.access == Access::Write;
    }
    let mut views: BTreeMap<&Path, View> =
        private.iter().map(|path| (path.as_path(), View::Private)).collect();
    let mut above = Above(Vec::new());
    for (path, said) in all {
        let outer = above.nearest(path).map_or(Covered::default(), |found| found.1);
        let here = Covered {
            hidden: if said.reads { said.hides } else { outer.hidden },
            forbidden: outer.forbidden || said.forbids,
            written: outer.written || said.writes,
        };
        above.0.push((path, here));
        if path == Path::new("/") || OWN.iter().any(|own| path.starts_with(own)) {
            continue;
        }
        // A private directory stays private unless a rule shows the host's.
        if (here.hidden || !said.reads) && views.get(path) == Some(&View::Private) {
            continue;
        }
        views.insert(path, here.view());
    }
    Ok(views)
}

impl Covered {
    fn view(self) -> View {
        match self {
            Covered { hidden: true, .. } => View::Masked { searchable: false },
            Covered { forbidden: false, written: true, .. } => View::Writable,
            Covered { .. } => View::ReadOnly,
        }
    }
}

fn pin_ancestors(
    mounts: &mut BTreeMap<PathBuf, View>,
    views: &BTreeMap<&Path, View>,
    region: &Path,
    path: &Path,
) {
    for above in path.ancestors().skip(1).take_while(|above| *above != region) {
        if !views.contains_key(above) {
            mounts.insert(above.to_path_buf(), View::Pinned);
        }
    }
}

fn mark_searchable(mounts: &mut BTreeMap<PathBuf, View>) {
    // Paths beneath a path follow it.
    let mut next: Option<&PathBuf> = None;
    for (path, view) in mounts.iter_mut().rev() {
        if let View::Masked { searchable } = view {
            *searchable = next.is_some_and(|next| next.starts_with(path));
        }
        next = Some(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[(&str, Access)], expected: &[&str]) {
        let rules: Vec<FileRule> = rules
            .iter()
            .map(|(path, access)| FileRule {
                path: path.into(),
                access: *access,
                origin: String::new(),
            })
            .collect();
        let private: Vec<PathBuf> = ["/run", "/tmp"].iter().map(PathBuf::from).collect();
        let seen = match plan(&rules.iter().collect::<Vec<_>>(), &private) {
            Err(reason) => vec![reason],
            Ok(mounts) => mounts
                .iter()
                .filter(|mount| mount.view != View::Private)
                .map(|mount| format!("{:?} {}", mount.view, mount.path.display()))
                .collect(),
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_root_is_neither_writable_nor_unreadable() {
        check(&[("/", Access::Write)], &["`/` cannot be a writable region"]);
        check(&[("/", Access::None)], &["`/` cannot be unreadable"]);
    }

    #[test]
    fn a_protected_file_pins_the_directories_above_it() {
        check(
            &[("/p", Access::Write), ("/p/.git/hooks", Access::Protected)],
            &["Writable /p", "Pinned /p/.git", "ReadOnly /p/.git/hooks"],
        );
    }

    #[test]
    fn a_write_rule_does_not_lift_a_refusal_above_or_on_it() {
        check(&[("/p", Access::ReadOnly), ("/p/q", Access::Write)], &[]);
        check(&[("/p", Access::Protected), ("/p", Access::Write)], &[]);
    }

    #[test]
    fn the_longest_rule_decides_reading_and_none_wins_a_tie() {
        check(
            &[("/h", Access::None), ("/h/p", Access::Write), ("/h/p/s", Access::None)],
            &[
                "Masked { searchable: true } /h",
                "Writable /h/p",
                "Masked { searchable: false } /h/p/s",
            ],
        );
        check(&[("/h", Access::None), ("/h", Access::Read)], &["Masked { searchable: false } /h"]);
    }

    #[test]
    fn private_directories_show_only_what_a_rule_names() {
        check(
            &[("/tmp/p", Access::Write), ("/run/x", Access::Read), ("/tmp/s", Access::None)],
            &["ReadOnly /run/x", "Writable /tmp/p"],
        );
        check(&[("/tmp", Access::Write)], &["Writable /tmp"]);
        check(&[("/", Access::Read), ("/tmp", Access::None)], &[]);
    }

    #[test]
    fn rules_beneath_the_own_directories_grant_nothing() {
        check(&[("/proc/sys", Access::Write), ("/dev/null", Access::Write)], &[]);
    }

    /// Returns the view by the definition in the documentation: every rule is compared with the path.
    fn by_definition(path: &Path, rules: &[FileRule]) -> View {
        let covering: Vec<_> = rules.iter().filter(|it| path.starts_with(&it.path)).collect();
        let readable = covering
            .iter()
            .filter(|rule| rule.access != Access::Protected)
            .max_by_key(|rule| (rule.path.components().count(), rule.access == Access::None));
        if readable.is_some_and(|rule| rule.access == Access::None) {
            return View::Masked { searchable: false };
        }
        let has = |access: Access| covering.iter().any(|rule| rule.access == access);
        match has(Access::Write) && !has(Access::ReadOnly) && !has(Access::Protected) {
            true => View::Writable,
            false => View::ReadOnly,
        }
    }

    #[test]
    fn going_through_the_paths_in_order_says_what_holding_every_rule_against_each_says() {
        let accesses =
            [Access::None, Access::Read, Access::ReadOnly, Access::Write, Access::Protected];
        let mut state = 7_usize;
        let mut next = |below: usize| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % below
        };
        for round in 0..3000 {
            let rules: Vec<FileRule> = (0..=next(9))
                .map(|_| {
                    let parts = (0..=next(3)).map(|_| ["a", "a.b", "ab", "b"][next(4)]);
                    let path = parts.fold(PathBuf::from("/"), |path, part| path.join(part));
                    FileRule { path, access: accesses[next(5)], origin: String::new() }
                })
                .collect();
            let seen = views(&rules.iter().collect::<Vec<_>>(), &[]).unwrap();
            let expected: BTreeMap<&Path, View> = rules
                .iter()
                .map(|rule| (rule.path.as_path(), by_definition(&rule.path, &rules)))
                .collect();
            assert_eq!(seen, expected, "round {round}: {rules:?}");
        }
    }
}
