//! Who called, while that is being looked up: a call is judged meanwhile, and waits for it before anything is recorded.

use tokio::sync::watch;

use crate::audit::record::caller::Caller;
use crate::judge;
use crate::protocol::errors::Failure;

/// The process that called. Its number is known at once, the rest as soon as it was looked up.
#[derive(Debug, Clone)]
pub(crate) struct Calling {
    /// Its number, as the kernel told it.
    pub(crate) pid: u32,
    found: watch::Receiver<Option<Caller>>,
}

impl Calling {
    /// Returns the process that started this one: the caller of a gateway that lives for one call.
    pub(crate) fn parent() -> Calling {
        let caller = Caller::parent();
        Calling { pid: caller.pid, found: watch::channel(Some(caller)).1 }
    }

    /// Has a thread look up what is known about process `pid` of `uid` and `gid` (from the peer's credentials). Needs a
    /// runtime.
    pub(crate) fn look_up(pid: u32, uid: u32, gid: u32) -> Calling {
        let (told, found) = watch::channel(None);
        tokio::task::spawn_blocking(move || told.send_replace(Some(Caller::of(pid, uid, gid))));
        Calling { pid, found }
    }

    /// Returns all that is known about the caller.
    pub(crate) async fn caller(&self) -> Result<Caller, Failure> {
        let mut found = self.found.clone();
        let broken = || judge::broken("looking up the caller broke off");
        let found = found.wait_for(Option::is_some).await.map_err(|_| broken())?;
        found.clone().ok_or_else(broken)
    }
}
