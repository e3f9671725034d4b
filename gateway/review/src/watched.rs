//! Paths that a run is to write down.

use std::path::{Path, PathBuf};

use stockade_spec::Watched;

use super::table::names;
use stockade_base::place::Place;

/// Returns what a run in `place` writes into `journal`: the names of the table, and where links of these names lead that are
/// there already.
pub fn watched(place: &Place, journal: PathBuf) -> Watched {
    let names = names();
    let listed = |everywhere: bool| {
        let rows = names.rows.iter().filter(|row| row.everywhere == everywhere);
        rows.map(|row| (row.name.as_ref().into(), row.tree)).collect()
    };
    let roots = [&place.project].into_iter().chain(&place.additional);
    Watched {
        names: listed(false),
        everywhere: listed(true),
        except: names.except.iter().map(Into::into).collect(),
        paths: roots.flat_map(|root| targets(root)).collect(),
        journal,
    }
}

/// Returns where the names of the table right below `root` lead that are links, or lie beneath one.
fn targets(root: &Path) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    for row in names().rows.iter().filter(|row| !row.name.contains('*')) {
        let path = root.join(&*row.name);
        let mut ways = path.ancestors().take_while(|way| *way != root);
        let is_link = |way: &Path| way.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if ways.any(is_link)
            && let Ok(target) = path.canonicalize()
            && target.is_dir() == row.tree
            && !targets.contains(&target)
        {
            targets.push(target);
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn where_links_of_the_names_lead_is_watched() {
        let folder = Folder::new();
        let file = folder.write("build/common.mk.txt", "");
        let inner = folder.write("ci/flows/a.yml", "");
        folder.write("other", "");
        symlink("build/common.mk.txt", folder.path().join("Makefile")).unwrap();
        std::fs::create_dir(folder.path().join(".github")).unwrap();
        symlink("../ci/flows", folder.path().join(".github/workflows")).unwrap();
        symlink("other", folder.path().join("link")).unwrap();
        symlink("nowhere", folder.path().join("build.rs")).unwrap();
        let mut found = targets(folder.path());
        found.sort();
        assert_eq!(found, [file, inner.parent().unwrap().to_path_buf()]);
    }
}
