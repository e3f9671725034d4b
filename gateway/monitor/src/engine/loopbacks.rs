//! The loopback interfaces of sessions: what one command of a session serves there, the next one reaches. Commands of other
//! sessions, those without a session, and the host do not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_sandbox::Loopback;
use tokio::sync::OnceCell;

use super::Gateway;
use super::calling::{Calling, SessionKey};
use crate::protocol::types::Context;

/// Most interfaces that are kept; the one that was used the longest time ago makes room.
const MOST_LOOPBACKS: usize = 64;

/// The interfaces, the one that was used last at the end.
#[derive(Debug, Default)]
pub(super) struct Loopbacks(Mutex<Vec<Entry>>);

type Made = Arc<OnceCell<Arc<Loopback>>>;

#[derive(Debug)]
struct Entry {
    session: SessionKey,
    /// A further call waits for it.
    made: Made,
}

impl Gateway {
    /// Returns the loopback interface of the session of a call, and has a launcher made ready there; none without a session,
    /// or where it cannot be had: then the command has one of its own.
    pub(super) async fn loopback(
        &self,
        caller: &Calling,
        context: &Context,
    ) -> Option<Arc<Loopback>> {
        // A gateway for one call has no sessions.
        self.sessions.as_ref()?;
        let session = context.session.as_deref()?;
        let (made, given_up) = self.loopbacks.take(caller.session(session));
        if let Some(given_up) = given_up {
            self.launchers.forget(&given_up);
        }
        let made = made.get_or_try_init(|| self.launchers.loopback()).await;
        let loopback = made.ok().cloned()?;
        self.launchers.foresee(&loopback);
        Some(loopback)
    }

    /// Lets go of the interface of a session that ended. What still runs there keeps it.
    pub(super) fn leave_loopback(&self, caller: &Calling, session: &str) {
        if let Some(loopback) = self.loopbacks.remove(&caller.session(session)) {
            self.launchers.forget(&loopback);
        }
    }
}

impl Loopbacks {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of the interface of a session, and the one that made room for it.
    fn take(&self, session: SessionKey) -> (Made, Option<Arc<Loopback>>) {
        let mut entries = self.entries();
        let known = entries.iter().position(|entry| entry.session == session);
        let known = known.map(|index| entries.remove(index));
        let oldest = known.is_none() && entries.len() >= MOST_LOOPBACKS;
        let given_up = oldest.then(|| entries.remove(0));
        let entry = known.unwrap_or_else(|| Entry { session, made: Arc::default() });
        let made = Arc::clone(&entry.made);
        entries.push(entry);
        (made, given_up.and_then(|entry| entry.made.get().cloned()))
    }

    fn remove(&self, session: &SessionKey) -> Option<Arc<Loopback>> {
        let mut entries = self.entries();
        let index = entries.iter().position(|entry| entry.session == *session)?;
        entries.remove(index).made.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(uid: u32, name: &str) -> SessionKey {
        SessionKey { uid, name: name.to_owned() }
    }

    #[test]
    fn a_session_has_one_place_and_the_oldest_makes_room() {
        let loopbacks = Loopbacks::default();
        let take = |uid: u32, name: &str| loopbacks.take(session(uid, name)).0;
        let first = take(7, "first");
        assert!(Arc::ptr_eq(&first, &take(7, "first")));
        assert!(!Arc::ptr_eq(&first, &take(8, "first")), "it is another caller's");
        let second = take(7, "second");
        // The first loopback is used after the other two.
        take(7, "first");
        for number in 0..MOST_LOOPBACKS - 1 {
            take(9, &number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &take(7, "first")));
        assert!(!Arc::ptr_eq(&second, &take(7, "second")));
        assert_eq!(loopbacks.entries().len(), MOST_LOOPBACKS);
    }

    #[test]
    fn a_session_that_ended_begins_anew_and_that_of_another_caller_stays() {
        let loopbacks = Loopbacks::default();
        let take = |uid: u32| loopbacks.take(session(uid, "s")).0;
        let (other, own) = (take(8), take(7));
        loopbacks.remove(&session(7, "s"));
        assert!(!Arc::ptr_eq(&own, &take(7)));
        assert!(Arc::ptr_eq(&other, &take(8)));
    }
}
