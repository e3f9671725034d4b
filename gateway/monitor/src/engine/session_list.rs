//! Requests about sessions: which are open, and the end of one on request or because nobody uses it.

use std::time::{Duration, Instant};

use super::Gateway;
use super::calling::Calling;
use super::sessions::{Session, Sessions, lasts_with_connection};
use crate::plan::carried;
use crate::protocol::errors::{Code, Failure};
use crate::tasks::folder::now_ms;
use stockade_wire::sessions::{SessionAnswer, SessionRequest, SessionView};

/// How long the end of a session's tasks is waited for.
const LONGEST_END: Duration = Duration::from_secs(10);
/// Pause between two looks at them.
const LOOK: Duration = Duration::from_millis(5);

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
        for view in &mut sessions {
            view.tasks = self.tasks.count_ending_with(&session);
        }
        self.close_session(&session).await;
        // Callers that close a session find its tasks ended; a task that hangs is not waited for any longer.
        let until = Instant::now() + LONGEST_END;
        while self.tasks.count_ending_with(&session) > 0 && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
        Ok(SessionAnswer { sessions })
    }

    /// Ends the sessions whose agent has ended, and those that nobody has used for `idle` and in which nothing runs.
    pub async fn end_left_sessions(&self, idle: Duration) {
        let Some(sessions) = self.sessions.as_ref().filter(|sessions| sessions.look.is_due())
        else {
            return;
        };
        for name in sessions.without_agent() {
            self.close_session(&name).await;
        }
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let over = |used_ms: u64| now_ms().saturating_sub(used_ms) >= idle;
        for (name, session) in sessions.all() {
            // One that lasts with its connection is used as long as that is open; that of an agent as long as the agent runs.
            let is_held = lasts_with_connection(&session.context)
                || session.agent.is_some_and(|agent| agent.is_known || agent.process.is_alive());
            if !is_held && over(session.used_ms) && self.tasks.count_of(&name) == 0 {
                self.close_session(&name).await;
            }
        }
    }

    fn view(&self, name: String, session: &Session) -> SessionView {
        let carried = carried::read(&self.places.state, &name);
        SessionView {
            tasks: self.tasks.count_of(&name),
            session: name,
            door: session.context.door.clone(),
            agent: session.context.agent.clone(),
            cwd: carried.map_or_else(|| session.cwd.clone(), |it| it.to),
            began_ms: session.began_ms,
            used_ms: session.used_ms,
            agent_pid: session.agent.filter(|it| it.is_known).map(|it| it.process.pid),
            ends_with_connection: lasts_with_connection(&session.context),
        }
    }
}
