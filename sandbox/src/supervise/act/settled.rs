//! Looking again after an act: another run may have moved the directory meanwhile, or made its part of a git directory. Of
//! two that do so in the same instant, the one whose act was later sees both, and takes its own back.

use std::path::{Path, PathBuf};

use super::super::guard::{Act, violation};
use super::super::resolve::Named;
use super::super::{Refused, repository};
use super::Performer;

/// Findings before an act.
pub(in crate::supervise) struct Judged {
    act: Act,
    call: &'static str,
    path: PathBuf,
    /// Names that count in git directories: the directory was one.
    was_git: bool,
}

impl Performer<'_> {
    /// Judges an act at a name that is held by its directory.
    pub(in crate::supervise) fn permit_at(
        &self,
        act: Act,
        call: &'static str,
        named: &Named,
    ) -> Result<Judged, Refused> {
        let path = named.path()?;
        let was_git = self.counts_in_git(&path) && repository::holds_git(&named.parent)?;
        self.permit(act, call, &path, &named.parent)?;
        self.permit_in_repository(act, call, &named.parent, &path)?;
        Ok(Judged { act, call, path, was_git })
    }

    /// Judges an act again that was performed; calls `undo` if it is not to stay.
    pub(in crate::supervise) fn settle(
        &self,
        judged: &Judged,
        named: &Named,
        undo: impl FnOnce(),
    ) -> Result<(), Refused> {
        self.look_again(judged, named).inspect_err(|_| undo())
    }

    fn look_again(&self, judged: &Judged, named: &Named) -> Result<(), Refused> {
        let Judged { act, call, path, was_git } = judged;
        let counts = self.counts_in_git(path);
        if !counts && !self.supervisor.guard.has_patterns() {
            return Ok(());
        }
        let now = named.path()?;
        if now != *path {
            return self.permit_at(*act, call, named).map(drop);
        }
        if !counts {
            return Ok(());
        }
        self.permit_in_repository(*act, call, &named.parent, path)?;
        let made = &self.supervisor.made;
        if !was_git
            && repository::holds_git(&named.parent)?
            && (!made.holds_repository(&named.parent)?
                || repository::is_prepared(made, &named.parent)?)
        {
            let rule = "builtin: git directory".to_owned();
            return Err(Refused::Rule(violation("write", call, path, rule)));
        }
        Ok(())
    }

    fn counts_in_git(&self, path: &Path) -> bool {
        repository::concerns(path) && self.supervisor.guard.is_in_region(path)
    }
}
