//! Results of the launcher's steps, collected as they succeed.

use std::collections::BTreeMap;

use crate::{Enforced, Protection, State};

/// The record of steps; a protection that no step covers is missing.
#[derive(Debug, Default)]
pub struct Steps {
    states: BTreeMap<Protection, State>,
    /// Differences from what the caller may expect, for people.
    pub notes: Vec<String>,
}

impl Steps {
    /// Notes that `layer` now enforces each of `protections`.
    pub fn layer(&mut self, layer: &str, protections: &[Protection]) {
        for protection in protections {
            match self.states.get_mut(protection) {
                Some(State::Enforced(layers)) => layers.push(layer.to_owned()),
                // A protection that is partial or off stays so, whatever else helps.
                Some(State::Partial(_) | State::Off(_)) => {}
                Some(State::Missing(_)) | None => {
                    let state = State::Enforced(vec![layer.to_owned()]);
                    self.states.insert(*protection, state);
                }
            }
        }
    }

    /// Notes what is open in `protection`.
    pub fn partial(&mut self, protection: Protection, open: &str) {
        self.states.insert(protection, State::Partial(open.to_owned()));
    }

    /// Notes why `protection` is not there.
    pub fn missing(&mut self, protection: Protection, reason: &str) {
        self.states.insert(protection, State::Missing(reason.to_owned()));
    }

    /// Notes that the run was let out.
    pub fn all_off(&mut self) {
        for protection in Protection::ALL {
            let state = State::Off("this call runs unsandboxed".to_owned());
            self.states.insert(*protection, state);
        }
    }

    /// Returns the state of every protection.
    pub fn finish(&self) -> Enforced {
        let states = Protection::ALL.iter().map(|protection| {
            let state = self.states.get(protection).cloned();
            (*protection, state.unwrap_or_else(|| State::Missing("no step enforces it".to_owned())))
        });
        Enforced { states: states.collect(), notes: self.notes.clone() }
    }
}
