//! Changes in the files that a builder outside of the sandbox would execute.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stockade_policy::SandboxState;

use super::{Reading, Scene, broken};
use crate::protocol::errors::Failure;
use crate::review::point::{self, Point, Waiting};

/// The builders of a call that leave the sandbox, and what a yes to them is about.
#[derive(Debug, Clone, Default)]
pub struct Builders {
    names: BTreeSet<Vec<u8>>,
    /// None where the changes cannot be known: such a yes serves once.
    point: Option<Point>,
}

impl Reading {
    /// Finds out what changed since the last yes to each builder that leaves the sandbox.
    pub(super) async fn look_for_changes(
        &mut self,
        scene: &Scene,
        tool: &str,
    ) -> Result<(), Failure> {
        let names = stockade_policy::builders_of(&self.call(tool), &self.facts);
        let leaves = self.facts.sandbox == SandboxState::Off
            && scene.snapshot.rules.settings().sandbox.enabled;
        let tree = self.tree.clone().filter(|_| leaves && !scene.is_written && !names.is_empty());
        let Some(tree) = tree else { return Ok(()) };
        let (state, place) = (scene.state.clone(), scene.place.clone());
        let look = move || {
            let places = point::places(&place, &tree);
            let found = Waiting::find(&state, &place.project, &places);
            let changed = |name: &Vec<u8>| {
                let changed = match &found {
                    Ok(waiting) => {
                        let since = point::last_yes(&state, &place.project, name);
                        waiting.since(&since, &place.project)
                    }
                    Err(error) => Some(point::unknown(error)),
                };
                Some((name.clone(), changed?))
            };
            let changed: BTreeMap<_, _> = names.iter().filter_map(changed).collect();
            let point = found.as_ref().ok().map(Waiting::point);
            (changed, Builders { names, point })
        };
        let looked = tokio::task::spawn_blocking(look).await;
        (self.facts.doubts.changed, self.builders) =
            looked.map_err(|_| broken("cannot look up the changes for a review"))?;
        Ok(())
    }
}

impl Builders {
    /// Keeps the yes of a person to them; blocks on the file system. One that cannot be kept is asked for again.
    pub fn keep_yes(&self, state: &Path, project: &Path) {
        let Some(point) = &self.point else { return };
        for name in &self.names {
            let _ = point::keep_yes(state, project, name, point);
        }
    }
}
