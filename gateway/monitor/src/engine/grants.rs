//! Allow rules that a person gave for a while: for a session, some minutes or some calls. They are in memory alone, so none
//! outlives the gateway, and a further call is judged with those that hold at that moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use stockade_base::hex;
use stockade_policy::{Decision, Verdict};
use stockade_wire::approvals::{GrantAnswer, GrantRequest, GrantView};
use tokio::sync::OnceCell;

use super::Gateway;
use super::calling::Calling;
use super::sessions::Sessions;
use crate::approve::Kept;
use crate::audit::Log;
use crate::audit::record::{self, Body};
use crate::failures::unrecorded;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CommandRequest, EventView, Lasting};
use crate::tasks::folder::now_ms;

/// Most grants at once; of a further one the call itself is allowed, and no other.
const MOST: usize = 1024;

/// The grants of a gateway, and whether it leaves its place, so that no further one holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants(Arc<Mutex<Vec<Held>>>, Arc<AtomicBool>);

#[derive(Debug)]
struct Held {
    view: GrantView,
    uid: u32,
    /// The beginning of its session, which another session of the same name does not have.
    session: Option<Weak<OnceCell<EventView>>>,
    /// When it ends, by a clock that nobody sets.
    ends: Option<Instant>,
    /// Calls that are judged with it and may use it up.
    lent: u32,
}

impl Held {
    fn is_over(&self, sessions: &Sessions) -> bool {
        let is_late = self.ends.is_some_and(|end| Instant::now() >= end)
            || self.view.expires_ms.is_some_and(|end| now_ms() >= end);
        let named = self.view.session.as_deref().zip(self.session.as_ref());
        let is_left = named.is_some_and(|(name, begun)| !sessions.is_open(name, begun));
        is_late || is_left || self.view.uses_left == Some(0)
    }

    fn is_for(&self, uid: u32, request: &CommandRequest) -> bool {
        let is_place = self.view.cwd.as_ref().is_none_or(|cwd| *cwd == request.cwd);
        self.uid == uid && self.view.session == request.context.session && is_place
    }
}

impl Grants {
    /// Returns those that hold.
    fn all(&self, sessions: &Sessions) -> MutexGuard<'_, Vec<Held>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| !held.is_over(sessions));
        all
    }

    /// Takes those of a user away for which `is_meant` holds.
    fn take(&self, sessions: &Sessions, is_meant: impl Fn(&Held) -> bool) -> Vec<GrantView> {
        let mut all = self.all(sessions);
        all.extract_if(.., |held| is_meant(held)).map(|held| held.view).collect()
    }
}

/// The grants with which one call is judged. Those for a number of calls serve no other call meanwhile.
#[derive(Debug, Default)]
pub(super) struct Lent {
    grants: Grants,
    /// Identity and rule.
    taken: Vec<(String, String)>,
}

impl Lent {
    /// Counts a call that runs because of `verdict`, and returns the rules that are used up by it.
    pub(super) fn spend(&self, verdict: &Verdict) -> Vec<String> {
        if verdict.decision != Decision::Allow {
            return Vec::new();
        }
        // Where not every part is listed, each may have been the reason.
        let is_used =
            |rule: &str| verdict.unlisted > 0 || verdict.rules.iter().any(|it| it.text == rule);
        let mut all = self.grants.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut over = Vec::new();
        for (id, rule) in self.taken.iter().filter(|(_, rule)| is_used(rule)) {
            let Some(held) = all.iter_mut().find(|held| held.view.id == *id) else { continue };
            let left = held.view.uses_left.map(|left| left.saturating_sub(1));
            held.view.uses_left = left;
            if left == Some(0) {
                over.push(rule.clone());
            }
        }
        over
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut all = self.grants.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, _) in &self.taken {
            if let Some(held) = all.iter_mut().find(|held| held.view.id == *id) {
                held.lent = held.lent.saturating_sub(1);
            }
        }
    }
}

impl Gateway {
    /// Adds the rules that a person gave for a while to the rules of a call.
    pub(super) fn lend_rules(&self, caller: &Calling, request: &mut CommandRequest) -> Lent {
        let mut lent = Lent { grants: self.grants.clone(), taken: Vec::new() };
        let Some(sessions) = &self.sessions else { return lent };
        let mut rules = Vec::new();
        let mut all = self.grants.all(sessions);
        for held in all.iter_mut().filter(|held| held.is_for(caller.uid(), request)) {
            if let Some(left) = held.view.uses_left {
                if held.lent >= left {
                    continue;
                }
                held.lent += 1;
                lent.taken.push((held.view.id.clone(), held.view.rule.clone()));
            }
            rules.push(held.view.rule.clone());
        }
        drop(all);
        request.context.allowed_tools.extend(rules);
        lent
    }

    /// Keeps a rule that a person gave for a while. It is on record already.
    pub(super) fn keep_grant(&self, caller: &Calling, request: &CommandRequest, kept: &Kept) {
        let (rule, lasting) = match kept {
            Kept::Session(rule) => (rule, None),
            Kept::For(rule, lasting) => (rule, Some(*lasting)),
            Kept::Nothing | Kept::Always(_) | Kept::Not(..) => return,
        };
        let Some(sessions) = &self.sessions else { return };
        let session = request.context.session.as_ref();
        let begun = session.map(|name| sessions.beginning(name, caller.uid()));
        let mut random = [0; 4];
        // Without a session that has begun there is nothing that the rule could end with.
        if begun.as_ref().is_some_and(Option::is_none)
            || (lasting.is_none() && begun.is_none())
            || stockade_base::random::fill(&mut random).is_err()
        {
            return;
        }
        let minutes = match lasting {
            Some(Lasting::Minutes(count)) => Some(Duration::from_secs(60 * u64::from(count))),
            Some(Lasting::Uses(_)) | None => None,
        };
        let made_ms = now_ms();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let view = GrantView {
            id: hex(&random),
            rule: rule.clone(),
            session: session.cloned(),
            cwd: session.is_none().then(|| request.cwd.clone()),
            made_ms,
            expires_ms: minutes.map(|time| made_ms.saturating_add(milliseconds(time))),
            uses_left: match lasting {
                Some(Lasting::Uses(count)) => Some(count.saturating_sub(1)),
                Some(Lasting::Minutes(_)) | None => None,
            },
        };
        let ends = minutes.and_then(|time| Instant::now().checked_add(time));
        let mut all = self.grants.all(sessions);
        // Looked at under the lock under which they are taken away.
        if all.len() < MOST && !self.grants.1.load(Ordering::Relaxed) {
            let (uid, session) = (caller.uid(), begun.flatten());
            all.push(Held { view, uid, session, ends, lent: 0 });
        }
    }

    /// Takes all grants away, and makes none from now on: the gateway leaves its place to another one, or ends. A call
    /// that is under way is asked about as if there had never been one.
    pub async fn drop_grants(&self) {
        self.grants.1.store(true, Ordering::Relaxed);
        let dropped: Vec<String> = {
            let mut all = self.grants.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.drain(..).map(|held| held.view.rule).collect()
        };
        let Ok(log) = self.log.log().await else { return };
        for rule in dropped {
            // They are gone whether or not that can be recorded.
            let _ = note(&log, &rule, "revoked", None).await;
        }
    }

    /// Answers a request about grants. Whoever revokes one makes rules stricter, so each process of the user may.
    pub async fn about_grants(
        &self,
        caller: &Calling,
        request: GrantRequest,
    ) -> Result<GrantAnswer, Failure> {
        let Some(sessions) = &self.sessions else { return Ok(GrantAnswer { grants: Vec::new() }) };
        let uid = caller.uid();
        let grants = match request {
            GrantRequest::List => {
                let all = self.grants.all(sessions);
                let own = all.iter().filter(|held| held.uid == uid);
                return Ok(GrantAnswer { grants: own.map(|held| held.view.clone()).collect() });
            }
            GrantRequest::Revoke { id } => {
                let found =
                    self.grants.take(sessions, |held| held.uid == uid && held.view.id == id);
                if found.is_empty() {
                    let message = format!("no grant `{}`", id.escape_debug());
                    let help = "`stockade grants` lists them";
                    return Err(Failure::new(Code::InvalidRequest, message, help));
                }
                found
            }
            GrantRequest::RevokeAll => self.grants.take(sessions, |held| held.uid == uid),
        };
        let log = self.log.log().await?;
        for view in &grants {
            note(&log, &view.rule, "revoked", Some(record::who())).await?;
        }
        Ok(GrantAnswer { grants })
    }
}

/// Records the end of a grant.
pub(super) async fn note(
    log: &Log,
    rule: &str,
    action: &'static str,
    who: Option<record::Who>,
) -> Result<(), Failure> {
    let grant =
        record::GrantRecord { rule: rule.into(), layer: "flag", action, who, expires: None };
    log.record(Body::Grant(grant)).await.map(drop).map_err(|error| unrecorded(&error))
}
