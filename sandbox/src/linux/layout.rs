//! Which mounts make the file rules true: a function from rules to a list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::spec::{Access, FileRule};

/// What the run sees at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
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
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    pub(crate) view: View,
}

/// Directories that are always the run's own; what rules say beneath them is ignored.
pub(crate) const OWN: &[&str] = &["/dev", "/proc", "/sys"];

/// Returns the mounts for `rules`, whose paths exist, with `private` directories in between.
///
/// Reading: the longest rule decides, and of equal ones the strictest. Writing: needs a `Write` rule,
/// and any rule on the way that forbids it wins.
pub(crate) fn plan(rules: &[&FileRule], private: &[PathBuf]) -> Result<Vec<Mount>, String> {
    let mut views: BTreeMap<&Path, View> = BTreeMap::new();
    for path in private {
        views.insert(path, View::Private);
    }
    for rule in rules {
        let path = rule.path.as_path();
        if path == Path::new("/") {
            match rule.access {
                Access::Write => return Err("`/` cannot be a writable region".to_owned()),
                Access::None => return Err("`/` cannot be unreadable".to_owned()),
                Access::ReadOnly | Access::Read | Access::Protected => continue,
            }
        }
        if OWN.iter().any(|own| path.starts_with(own)) {
            continue;
        }
        let view = view(path, rules);
        // A private directory stays private unless a rule shows the host's.
        let hidden = matches!(view, View::Masked { .. })
            || rules.iter().all(|other| other.path != path || other.access == Access::Protected);
        if views.get(path) == Some(&View::Private) && hidden {
            continue;
        }
        views.insert(path, view);
    }
    let mut mounts: BTreeMap<PathBuf, View> = BTreeMap::new();
    for (path, view) in &views {
        let around = enclosing(&views, path);
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

fn view(path: &Path, rules: &[&FileRule]) -> View {
    let covering: Vec<&&FileRule> =
        rules.iter().filter(|rule| path.starts_with(&rule.path)).collect();
    let readable = covering
        .iter()
        .filter(|rule| rule.access != Access::Protected)
        .max_by_key(|rule| (rule.path.components().count(), rule.access == Access::None));
    if readable.is_some_and(|rule| rule.access == Access::None) {
        return View::Masked { searchable: false };
    }
    let forbidden =
        covering.iter().any(|rule| matches!(rule.access, Access::ReadOnly | Access::Protected));
    if !forbidden && covering.iter().any(|rule| rule.access == Access::Write) {
        View::Writable
    } else {
        View::ReadOnly
    }
}

/// Returns the nearest entry above `path`.
fn enclosing<'a>(views: &BTreeMap<&'a Path, View>, path: &Path) -> Option<(&'a Path, View)> {
    path.ancestors()
        .skip(1)
        .find_map(|above| views.get_key_value(above).map(|(path, view)| (*path, *view)))
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
    let paths: Vec<PathBuf> = mounts.keys().cloned().collect();
    for (masked, view) in mounts.iter_mut() {
        if matches!(view, View::Masked { .. }) {
            let searchable = paths.iter().any(|path| path != masked && path.starts_with(masked));
            *view = View::Masked { searchable };
        }
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
}
