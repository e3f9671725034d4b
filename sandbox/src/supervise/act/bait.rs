//! Symbolic links that a run makes or moves into place are judged by where they lead from there.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::super::Refused;
use super::super::guard::violation;
use super::super::resolve::{self, Named};
use super::Performer;

/// Most entries of a directory that are looked at before it is moved.
const MOST_ENTRIES: usize = 100_000;

/// Beginning of the rule that refuses to move what cannot be looked through.
const RULE: &str = "builtin: directory with unknown links";

impl Performer<'_> {
    /// Judges a symbolic link at `path` by where it leads. One in a directory of the run's own leads where it likes.
    pub(super) fn permit_lead(&self, call: &str, path: &Path, text: &Path) -> Result<(), Refused> {
        let (leads, guard) = (&self.supervisor.leads, &self.supervisor.guard);
        let above = path.parent().unwrap_or(path);
        match guard.is_in_region(path).then(|| leads.refuses(guard, above, text)).flatten() {
            Some(rule) => Err(Refused::Rule(violation("write", call, path, rule))),
            None => Ok(()),
        }
    }

    /// Judges a link again that was made, if its directory was moved meanwhile.
    pub(super) fn settle_lead(
        &self,
        call: &str,
        before: &Path,
        named: &Named,
        text: &Path,
    ) -> Result<(), Refused> {
        let now = named.path()?;
        if now == before { Ok(()) } else { self.permit_lead(call, &now, text) }
    }

    /// Judges the links that `from` is or holds by where they would lead from `to`.
    pub(super) fn permit_leads(&self, from: &Named, to: &Named) -> Result<(), Refused> {
        let path = to.path()?;
        if !self.supervisor.guard.is_in_region(&path) {
            return Ok(());
        }
        let base = resolve::own_path(from.parent.as_fd()).join(from.name());
        let found = match fs::symlink_metadata(&base) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if found.is_symlink() {
            return self.permit_lead("rename", &path, &fs::read_link(&base)?);
        }
        if !found.is_dir() {
            return Ok(());
        }
        let refused = |why: String| {
            Refused::Rule(violation("write", "rename", &path, format!("{RULE}: {why}")))
        };
        let links = links_in(&base).map_err(|error| refused(error.to_string()))?;
        let links = links.ok_or_else(|| refused(format!("more than {MOST_ENTRIES} entries")))?;
        links
            .iter()
            .try_for_each(|(inside, text)| self.permit_lead("rename", &path.join(inside), text))
    }
}

/// Returns the symbolic links in a directory and below, each with its text; none where there are too many entries.
fn links_in(base: &Path) -> io::Result<Option<Vec<(PathBuf, PathBuf)>>> {
    let (mut found, mut seen) = (Vec::new(), 0_usize);
    let mut rest = vec![PathBuf::new()];
    while let Some(inside) = rest.pop() {
        let entries = match fs::read_dir(base.join(&inside)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            seen = seen.saturating_add(1);
            if seen > MOST_ENTRIES {
                return Ok(None);
            }
            let (kind, inside) = (entry.file_type()?, inside.join(entry.file_name()));
            if kind.is_dir() {
                rest.push(inside);
            } else if kind.is_symlink() {
                match fs::read_link(base.join(&inside)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    text => found.push((inside, text?)),
                }
            }
        }
    }
    Ok(Some(found))
}
