//! Removing the output of commands that ended long ago, while a gateway stays.

use super::Gateway;
use crate::audit::GatewayMode;
use crate::tasks::store::{Retention, Store};
use stockade_settings::limits::Limits;

impl Gateway {
    /// Has a thread remove what is older or larger than `limits` say, now and then. A gateway for one call removes nothing: its
    /// caller would wait for that.
    pub(super) fn prune_output(&self, limits: &Limits) {
        match self.mode {
            GatewayMode::Embedded => return,
            GatewayMode::Daemon | GatewayMode::System => {}
        }
        if !self.pruned.is_due() {
            return;
        }
        let usual = Retention::default();
        let keep = Retention {
            age: limits.keep_age.unwrap_or(usual.age),
            bytes: limits.keep_bytes.unwrap_or(usual.bytes),
        };
        let store = Store::of(&self.places.state);
        drop(tokio::task::spawn_blocking(move || {
            // A folder that cannot be removed now is tried again later; `stockade tasks prune` says why.
            for pruned in store.outdated(keep).unwrap_or_default() {
                let _ = store.remove(&pruned.id);
            }
        }));
    }
}
