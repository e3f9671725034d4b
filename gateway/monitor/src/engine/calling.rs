//! Lookup of the caller: a call is judged meanwhile, and waits for the result before anything is recorded.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::audit::record::caller::Caller;
use crate::judge;
use crate::protocol::errors::Failure;
use stockade_approvals::elsewhere::Peer;

/// The process that called. Its number is known at once, the rest as soon as it was looked up.
#[derive(Debug, Clone)]
pub struct Calling {
    /// Its number, as the kernel told it.
    pub pid: u32,
    uid: u32,
    gid: u32,
    found: Arc<OnceCell<Caller>>,
}

/// A session: who calls, and the name that the caller gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionKey {
    pub(super) uid: u32,
    pub(super) name: String,
}

impl Calling {
    /// Returns the process that started this one: the caller of a gateway that lives for one call.
    pub fn parent() -> Calling {
        let caller = Caller::parent();
        let Caller { pid, uid, gid, .. } = caller;
        Calling { pid, uid, gid, found: Arc::new(OnceCell::from(caller)) }
    }

    /// Returns process `pid` of `uid` and `gid`, from the peer's credentials. What else is known about it has yet to be looked up.
    pub fn peer(pid: u32, uid: u32, gid: u32) -> Calling {
        Calling { pid, uid, gid, found: Arc::default() }
    }

    /// Returns the user whose process it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns what is known of it at once.
    pub(super) fn as_peer(&self) -> Peer {
        Peer { pid: self.pid, uid: self.uid }
    }

    /// Returns the session that it names so.
    pub(super) fn session(&self, name: &str) -> SessionKey {
        SessionKey { uid: self.uid, name: name.to_owned() }
    }

    /// Has it looked up beside what is being done. Needs a runtime.
    pub fn look_up(&self) {
        let calling = self.clone();
        tokio::spawn(async move { drop(calling.caller().await) }); // whoever asks for it looks again
    }

    /// Returns all that is known about the caller.
    pub async fn caller(&self) -> Result<Caller, Failure> {
        let (pid, uid, gid) = (self.pid, self.uid, self.gid);
        let look = || async move {
            let found = tokio::task::spawn_blocking(move || Caller::of(pid, uid, gid)).await;
            found.map_err(|_| judge::broken("the caller could not be looked up"))
        };
        self.found.get_or_try_init(look).await.cloned()
    }
}
