//! Requests about sessions: which are open, and the end of one on request or because nobody uses it.

use std::time::Duration;

use super::Gateway;
use super::calling::Calling;
use super::sessions::{Session, Sessions, lasts_with_connection};
use crate::protocol::errors::{Code, Failure};
use crate::tasks::folder::now_ms;
use stockade_wire::sessions::{SessionAnswer, SessionRequest, SessionView};

impl Gateway {
    /// Answers a request about sessions.
    pub async fn about_sessions(
        &self,
        caller: &Calling,
        request: SessionRequest,
    ) -> Result<SessionAnswer, Failure> {
        let mut sessions: Vec<SessionView> = self
            .sessions
            .iter()
            .flat_map(Sessions::all)
            .filter(|(_, session)| session.caller.uid() == caller.uid())
            .map(|(name, session)| self.view(name, &session))
            .collect();
        sessions.sort_by(|left, right| {
            (left.began_ms, &left.session).cmp(&(right.began_ms, &right.session))
        });
        let SessionRequest::Close { session } = request else {
            return Ok(SessionAnswer { sessions });
        };
        sessions.retain(|view| view.session == session);
        if sessions.is_empty() {
            return Err(Failure::new(
                Code::InvalidRequest,
                format!("no open session `{}`", session.escape_debug()),
                "`stockade sessions` lists them",
            ));
        }
        self.close_session(&session).await;
        Ok(SessionAnswer { sessions })
    }

    /// Ends the sessions that nobody has used for `idle` and in which nothing runs.
    pub async fn end_idle_sessions(&self, idle: Duration) {
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let over = |used_ms: u64| now_ms().saturating_sub(used_ms) >= idle;
        for (name, session) in self.sessions.iter().flat_map(Sessions::all) {
            // One that lasts with its connection is used as long as that is open.
            let is_held = lasts_with_connection(&session.context);
            if !is_held && over(session.used_ms) && self.tasks.count_of(&name) == 0 {
                self.close_session(&name).await;
            }
        }
    }

    fn view(&self, name: String, session: &Session) -> SessionView {
        SessionView {
            tasks: self.tasks.count_of(&name),
            session: name,
            door: session.context.door.clone(),
            agent: session.context.agent.clone(),
            cwd: session.cwd.clone(),
            began_ms: session.began_ms,
            used_ms: session.used_ms,
            ends_with_connection: lasts_with_connection(&session.context),
        }
    }
}
