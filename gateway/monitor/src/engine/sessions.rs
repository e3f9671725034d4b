//! Sessions of a gateway that stays. One begins with the first call that names it, and ends when its front end says
//! so, when the connection goes that it lasted with, or when the gateway ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::Gateway;
use super::calling::Calling;
use super::due::Due;
use crate::audit::record::caller::Process;
use crate::plan::carried;
use crate::protocol::types::{Context, EventRequest, EventView};
use crate::tasks::folder::now_ms;
use crate::tasks::live::SESSION_ENDED;
use stockade_settings::UNTRUSTED;

/// Most sessions at once; of further ones no hook is told.
const MOST_SESSIONS: usize = 1024;
/// Front doors that connect anew for each call, so that a closed connection ends no session.
const BRIEF_DOORS: [&str; 4] = ["run", "check", "hook", "shell"];

/// How long after a call the process that is taken for the agent has to run on, so that it is not a helper of one call.
const LONGER_THAN_A_CALL_MS: u64 = 5_000;
/// How long a session goes on without a call when a process ended that may have been its agent, or a helper of it.
const AFTER_A_HELPER_MS: u64 = 600_000;
/// Pause between two looks at the processes of agents.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The sessions that have begun.
#[derive(Debug)]
pub(super) struct Sessions {
    begun: Mutex<BTreeMap<String, Session>>,
    /// How many connections carry calls of a session.
    held: Mutex<BTreeMap<String, usize>>,
    /// When the processes of agents are looked at.
    pub(super) look: Due,
}

impl Default for Sessions {
    fn default() -> Sessions {
        let look = Due::every(BETWEEN_LOOKS);
        Sessions { begun: Mutex::default(), held: Mutex::default(), look }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    /// Result of the hooks at the beginning of the session; a further call waits for it.
    start: Arc<OnceCell<EventView>>,
    pub(super) caller: Calling,
    pub(super) cwd: String,
    pub(super) context: Context,
    /// When it began, and when its last call did, in milliseconds since 1970.
    pub(super) began_ms: u64,
    pub(super) used_ms: u64,
    /// The process of the agent whose hooks name the session.
    pub(super) agent: Option<Agent>,
    /// Lines about files that are not trusted, of which it was told.
    told: Vec<String>,
    /// Its agent tells of its steps, and has not told of the end.
    pub(super) reports: bool,
}

/// The process that is taken for an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    pub(super) process: Process,
    /// When its last call came, in milliseconds since 1970.
    called_ms: u64,
    /// True if the process outlived a call by so long that it is no helper which hands calls on.
    pub(super) is_known: bool,
    /// True if the process made more than one call. The end of a program that only hands one on says nothing.
    calls_again: bool,
}

impl Agent {
    /// Says whether it is known by `now`, when it is alive.
    fn outlived(&self, now_ms: u64) -> bool {
        self.is_known || now_ms.saturating_sub(self.called_ms) >= LONGER_THAN_A_CALL_MS
    }
}

/// Most lines of which a session keeps that it was told.
const MOST_TOLD: usize = 256;

/// Says whether a session lasts as long as the connection of a call that names it.
pub fn lasts_with_connection(context: &Context) -> bool {
    context.session.is_some() && !BRIEF_DOORS.contains(&context.door.as_str())
}

impl Gateway {
    /// Begins the session of a call, if it names one that is new, and returns what its hooks say; nothing for a session
    /// that has begun. A hook that fails keeps no session from beginning. The command of an agent begins none: the call
    /// did that by which the agent's hook named it.
    pub(super) async fn begin(&self, caller: &Calling, cwd: &str, context: &Context) -> EventView {
        let sessions = self.sessions.as_ref().filter(|_| context.hook_session.is_none());
        let Some(session) = sessions.and_then(|it| it.take(caller, cwd, context)) else {
            return EventView::default();
        };
        let mut first = None;
        session
            .start
            .get_or_init(|| async {
                let request = request("SessionStart", "startup", &session);
                let said = self.event_for(caller.clone(), request).await.unwrap_or_default();
                first = Some(said.clone());
                said
            })
            .await;
        first.unwrap_or_default()
    }

    /// Returns the session of a call, if it has begun, so that a rule can be kept for it.
    pub(super) fn lasting_session(&self, caller: &Calling, context: &Context) -> Option<String> {
        let name = context.session.as_ref()?;
        let begun = self.sessions.as_ref()?.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = begun.get(name).is_some_and(|it| it.caller.uid() == caller.uid());
        is_own.then(|| name.clone())
    }

    /// Takes the lines about files that are not trusted out of `warnings`, if the session was told of them before.
    pub(super) fn tell_once(&self, context: &Context, warnings: &mut Vec<String>) {
        let (Some(sessions), Some(name)) = (&self.sessions, &context.session) else { return };
        let mut begun = sessions.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = begun.get_mut(name) else { return };
        warnings.retain(|line| {
            let is_new = !session.told.contains(line);
            if is_new && line.contains(UNTRUSTED) && session.told.len() < MOST_TOLD {
                session.told.push(line.clone());
            }
            is_new
        });
    }

    /// Notes what a front end says of its session: one that it began or ended is not begun or ended here once more.
    pub(super) fn note_session(&self, caller: &Calling, told: &EventRequest) {
        let Some(sessions) = &self.sessions else { return };
        match (told.event.as_str(), &told.context.session) {
            ("SessionStart", Some(_)) => {
                if let Some(session) = sessions.take(caller, &told.cwd, &told.context) {
                    // One that has begun stays as it is.
                    let _ = session.start.set(EventView::default());
                }
            }
            ("SessionEnd", Some(name)) => {
                drop(sessions.remove(name));
                self.leave_loopback(caller, name);
                self.quotas.forget(caller.uid(), name);
                carried::forget(&self.places.state, name);
            }
            (_, _) => {}
        }
    }

    /// Notes that one more connection carries calls of a session.
    pub fn hold_session(&self, name: &str) {
        if let Some(sessions) = &self.sessions {
            *sessions.held().entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Notes that a connection is gone that carried calls of a session. One that began on such a connection ends with the
    /// last of them; any other is none of theirs.
    pub async fn leave_session(&self, name: &str) {
        let ended = self.sessions.as_ref().and_then(|sessions| sessions.leave(name));
        self.end_session(name, ended).await;
    }

    /// Ends a session, whoever began it.
    pub(super) async fn close_session(&self, name: &str) {
        let ended = self.sessions.as_ref().and_then(|sessions| sessions.remove(name));
        self.end_session(name, ended).await;
    }

    async fn end_session(&self, name: &str, ended: Option<Session>) {
        if let Some(session) = ended {
            self.leave_loopback(&session.caller, name);
            self.quotas.forget(session.caller.uid(), name);
            self.bid_farewell(session).await;
        }
    }

    /// Ends all sessions.
    pub async fn end_sessions(self: Arc<Self>) {
        let Some(sessions) = &self.sessions else { return };
        let left =
            std::mem::take(&mut *sessions.begun.lock().unwrap_or_else(PoisonError::into_inner));
        let mut farewells = JoinSet::new();
        for session in left.into_values() {
            let gateway = Arc::clone(&self);
            farewells.spawn(async move { gateway.bid_farewell(session).await });
        }
        while farewells.join_next().await.is_some() {}
    }

    async fn bid_farewell(&self, session: Session) {
        let name = session.context.session.clone();
        if let Some(name) = &name {
            self.tasks.stop_all(Some(name), SESSION_ENDED).await;
            carried::forget(&self.places.state, name);
        }
        self.record_end(&session).await;
        let request = request("SessionEnd", "other", &session);
        // Nobody is left to be told of what the hooks say, or that they cannot run.
        drop(self.event_for(session.caller, request).await);
    }
}

impl Sessions {
    /// Says whether a session has begun and not ended.
    pub(super) fn are_open(&self) -> bool {
        !self.begun.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the beginning of a session of this user, by which it is told from a later one of its name.
    pub(super) fn beginning(&self, name: &str, uid: u32) -> Option<Weak<OnceCell<EventView>>> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let own = begun.get(name).filter(|session| session.caller.uid() == uid);
        own.map(|session| Arc::downgrade(&session.start))
    }

    /// Says whether the session that began so has not ended.
    pub(super) fn is_open(&self, name: &str, beginning: &Weak<OnceCell<EventView>>) -> bool {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(name).is_some_and(|it| Weak::ptr_eq(&Arc::downgrade(&it.start), beginning))
    }

    /// Returns all of them, by name.
    pub(super) fn all(&self) -> Vec<(String, Session)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.iter().map(|(name, session)| (name.clone(), session.clone())).collect()
    }

    /// Returns the session of a call, new or known; none when the call names none.
    fn take(&self, caller: &Calling, cwd: &str, context: &Context) -> Option<Session> {
        let name = context.session.clone()?;
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !begun.contains_key(&name) && begun.len() >= MOST_SESSIONS {
            return None;
        }
        let new = || Session {
            start: Arc::default(),
            caller: caller.clone(),
            cwd: cwd.to_owned(),
            context: context.clone(),
            began_ms: now_ms(),
            used_ms: 0,
            agent: None,
            told: Vec::new(),
            reports: false,
        };
        let session = begun.entry(name).or_insert_with(new);
        session.used_ms = now_ms();
        Some(session.clone())
    }

    /// Notes whether the agent of a session, new or known, has yet to tell of its end.
    pub(super) fn reports(&self, caller: &Calling, cwd: &str, context: &Context, goes_on: bool) {
        let is_known = goes_on && self.take(caller, cwd, context).is_some();
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = context.session.as_ref().and_then(|name| begun.get_mut(name)) {
            session.reports = is_known;
        }
    }

    /// Notes which process is behind the hook that names a session.
    pub(super) fn called_by(&self, name: &str, process: Process) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = begun.get_mut(name) {
            let same = session.agent.filter(|agent| agent.process == process);
            let (now, is_known) = (now_ms(), same.is_some_and(|agent| agent.outlived(now_ms())));
            let calls_again = same.is_some();
            session.agent = Some(Agent { process, called_ms: now, is_known, calls_again });
        }
    }

    /// Returns the sessions whose agent has ended. Needs a look at each agent's process.
    pub(super) fn without_agent(&self) -> Vec<String> {
        let now = now_ms();
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::new();
        for (name, session) in begun.iter_mut() {
            let Some(agent) = &mut session.agent else { continue };
            let since_call = now.saturating_sub(agent.called_ms);
            match (agent.process.is_alive(), agent.is_known, agent.calls_again) {
                (true, _, _) => agent.is_known = agent.outlived(now),
                (false, true, _) => left.push(name.clone()),
                (false, false, true) if since_call >= AFTER_A_HELPER_MS => left.push(name.clone()),
                (false, false, true) => {}
                (false, false, false) => session.agent = None,
            }
        }
        left
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session that a connection was the last to hold.
    fn leave(&self, name: &str) -> Option<Session> {
        let mut held = self.held();
        let others = held.get(name).copied().unwrap_or_default().saturating_sub(1);
        if others > 0 {
            held.insert(name.to_owned(), others);
            return None;
        }
        held.remove(name);
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(name).filter(|session| lasts_with_connection(&session.context))?;
        begun.remove(name)
    }

    fn remove(&self, name: &str) -> Option<Session> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }
}

fn request(event: &str, subject: &str, session: &Session) -> EventRequest {
    EventRequest {
        event: event.into(),
        subject: subject.into(),
        cwd: session.cwd.clone(),
        context: session.context.clone(),
        ..EventRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has ended, or never was.
    const GONE: Process = Process { pid: u32::MAX, start: 1 };

    /// Returns which sessions end, and whether the process is kept in mind, when it made `calls` calls of a session, the last
    /// of them `ago_ms` ago, and lived on between them or not.
    fn left(calls: u32, ago_ms: u64, lived_on: bool) -> (Vec<String>, bool) {
        let sessions = Sessions::default();
        let context = Context { session: Some("s".to_owned()), ..Context::default() };
        sessions.take(&Calling::parent(), "/", &context).unwrap();
        let earlier = |by_ms: u64| {
            let mut begun = sessions.begun.lock().unwrap();
            if let Some(agent) = &mut begun.get_mut("s").unwrap().agent {
                agent.called_ms -= by_ms;
            }
        };
        for _ in 0..calls {
            earlier(if lived_on { 5_000 } else { 0 });
            sessions.called_by("s", GONE);
        }
        earlier(ago_ms);
        let left = sessions.without_agent();
        let is_kept = sessions.begun.lock().unwrap().get("s").unwrap().agent.is_some();
        (left, is_kept)
    }

    #[test]
    fn the_end_of_a_helper_is_not_that_of_the_session_and_the_end_of_an_agent_is() {
        let own = || vec!["s".to_owned()];
        assert_eq!(left(1, 0, false), (vec![], false), "one call was handed on");
        assert_eq!(left(2, 0, false), (vec![], true), "two were, one after the other");
        assert_eq!(left(2, 599_000, false), (vec![], true));
        assert_eq!(left(2, 600_000, false), (own(), true), "it may have been the agent");
        assert_eq!(left(2, 0, true), (own(), true), "it lived on between its calls");
    }
}
