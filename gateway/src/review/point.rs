//! Whether files that `stockade review` lists changed since a point in time: for who asks again then.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ledger::Ledger;
use super::{Found, Held};
use crate::places::hex;

/// What the listed files of a project held when it was taken. Plain data, to be kept with a yes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point(BTreeMap<String, String>);

/// Returns the point of now.
pub(crate) fn point(state: &Path, project: &Path) -> io::Result<Point> {
    let listed = listed(state, project)?.into_iter();
    Ok(Point(listed.map(|(path, held)| (key(&path), mark(&held))).collect()))
}

/// Returns the files that wait for a look in `project` and are not what they were at `since`. Empty when nothing that commands or
/// agents wrote there since is still to be looked at; an error is to be taken for a change.
pub(crate) fn changed_since(
    state: &Path,
    project: &Path,
    since: &Point,
) -> io::Result<Vec<PathBuf>> {
    let mut changed = listed(state, project)?;
    changed.retain(|(path, held)| since.0.get(&key(path)) != Some(&mark(held)));
    Ok(changed.into_iter().map(|(path, _)| path).collect())
}

/// Returns what differs from what it was before commands and agents wrote it, in `project` or by commands of it.
fn listed(state: &Path, project: &Path) -> io::Result<Vec<(PathBuf, Held)>> {
    let (ledger, _) = Ledger::with_journals(state)?;
    let concerns = ledger.files.iter().filter(|entry| {
        entry.path().starts_with(project) || entry.writers.iter().any(|it| it.project == project)
    });
    let now = concerns.map(|entry| (entry, Found::at(entry.path()).held));
    let changed = now.filter(|(entry, held)| !held.is_same(&entry.before));
    Ok(changed.map(|(entry, held)| (entry.path().to_path_buf(), held)).collect())
}

/// A path as text, whatever its bytes are.
fn key(path: &Path) -> String {
    hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()))
}

/// A digest of what a file holds. Files that are too large to be kept are told apart by their size.
fn mark(held: &Held) -> String {
    hex(&Sha256::digest(serde_json::to_vec(held).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn what_was_written_since_a_point_is_changed_until_a_person_looks() {
        let folder = Folder::new();
        let (state, project) = (folder.path().join("state"), folder.path().join("project"));
        let file = folder.write("project/Makefile", "one");
        let of = |project: &Path, since: &Point| changed_since(&state, project, since).unwrap();
        // Whether it is the one file that changed.
        let changed = |since: &Point| match of(&project, since).as_slice() {
            [] => false,
            [one] if *one == file => true,
            other => panic!("{other:?}"),
        };
        let start = point(&state, &project).unwrap();
        assert!(start == Point::default() && !changed(&start));
        let note = |text: &str| {
            let before = Found::at(&file);
            let writer = super::super::Writer {
                decision: "d".into(),
                act: None,
                project: project.clone(),
                call: "open".into(),
                program: "sh".into(),
                at: 1,
            };
            Ledger::change(&state, |ledger| {
                ledger.note(&file, before, (writer, 1), 0);
                std::fs::write(&file, text)
            })
            .unwrap();
        };
        note("two");
        assert!(changed(&start));
        let yes = point(&state, &project).unwrap();
        assert!(!changed(&yes));
        assert!(of(Path::new("/elsewhere"), &start).is_empty());
        note("three");
        assert!(changed(&yes));
        Ledger::change(&state, |ledger| {
            ledger.looked(&file, Found::at(&file), false);
            Ok(())
        })
        .unwrap();
        // Whoever looked needs no question about it.
        assert!(!changed(&yes) && !changed(&start));
        note("four");
        assert!(changed(&yes) && changed(&start));
        // The same bytes as at the beginning are no change.
        note("three");
        assert!(!changed(&start));
    }
}
