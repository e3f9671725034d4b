//! The sessions that hooks of agents named for commands.
//!
//! A hook that has a command run through the gate writes the session of its agent into the line. Our shell, which runs
//! that line too, finds it in a text that may as well be the model's. So there the name counts only if a hook of the
//! same agent gave it to the same command. Text and environment of a command have no part in that.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use stockade_policy::Decision;

use super::Gateway;
use super::calling::Calling;
use super::steps::SHELL;
use crate::audit::record::caller::Process;
use crate::judge::{self, Judged};
use crate::protocol::errors::Failure;
use crate::protocol::types::{CheckRequest, CommandRequest, CommandText};
use stockade_approvals::asked;

/// Most commands that are kept in mind; the oldest makes room.
const MOST: usize = 1024;
/// The front door through which a hook comes.
const HOOK: &str = "hook";
/// The front door of a line that an agent's own shell runs.
const RUN: &str = "run";

/// The commands for which hooks named a session, the newest at the end.
#[derive(Debug, Default)]
pub(super) struct Hooked(Mutex<VecDeque<Named>>);

#[derive(Debug, PartialEq, Eq)]
struct Named {
    agent: Vec<Process>,
    what: What,
}

/// A session and a command of it, as a digest: both may be long.
type What = [u8; 32];

fn what(session: &str, command: &str) -> What {
    let mut digest = Sha256::new();
    digest.update(session.len().to_le_bytes());
    digest.update(session);
    digest.update(command);
    digest.finalize().into()
}

impl Gateway {
    /// Finds the session of a command that a hook is said to have named.
    pub(super) async fn find_session(
        &self,
        caller: &Calling,
        request: &mut CommandRequest,
    ) -> Result<(), Failure> {
        let Some(name) = request.context.hook_session.take() else { return Ok(()) };
        if request.context.session.is_some() {
            return Ok(());
        }
        let counts = match (request.context.door.as_str(), &request.command) {
            // The caller of `run` is unconfined, and could name any session with `--session` anyway.
            (RUN, _) => true,
            (SHELL, CommandText::Shell(command)) if self.sessions.is_some() => {
                let (what, pid) = (what(&name, command), caller.pid);
                let near = self.blocking(move || Ok(asked::near(pid))).await?;
                self.hooked.has(&near, what)
            }
            (_, _) => false,
        };
        if counts {
            // A gateway for one call shares what lies on the disk: `/tmp` and caches of the session.
            request.context.session = Some(name.clone());
            request.context.hook_session = Some(name);
        }
        Ok(())
    }

    /// Returns the processes that are the agent whose hook asks about a command that is to come through the gate.
    pub(super) async fn agent_of_hook(
        &self,
        caller: &Calling,
        request: &CheckRequest,
    ) -> Result<Vec<Process>, Failure> {
        let context = &request.context;
        let is_hook = context.door == HOOK && request.record && !request.caller_runs;
        if self.sessions.is_none() || !is_hook || context.session.is_none() {
            return Ok(Vec::new());
        }
        let pid = caller.pid;
        self.blocking(move || Ok(asked::agent_above(pid))).await
    }

    /// Keeps in mind which session the hook of `agent` names for a command: it does so for one that may run.
    pub(super) fn keep_named(&self, agent: Vec<Process>, request: &CheckRequest, judged: &Judged) {
        let sessions = self.sessions.as_ref().zip(request.context.session.as_ref());
        if let (Some((sessions, name)), Some(process)) = (sessions, agent.last()) {
            sessions.called_by(name, *process);
        }
        let may_run = judged.verdict.decision == Decision::Allow && !agent.is_empty();
        let command = judge::command_of(&judged.input).ok().filter(|_| may_run);
        if let (Some(session), Some(command)) = (&request.context.session, command) {
            self.hooked.keep(Named { agent, what: what(session, &command) });
        }
    }
}

impl Hooked {
    fn named(&self) -> MutexGuard<'_, VecDeque<Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, new: Named) {
        let mut named = self.named();
        named.retain(|known| *known != new);
        if named.len() >= MOST {
            named.pop_front();
        }
        named.push_back(new);
    }

    /// Says whether a hook of an agent that is one of `near` named this.
    fn has(&self, near: &[Process], what: What) -> bool {
        let is_from = |named: &Named| named.agent.iter().any(|process| near.contains(process));
        self.named().iter().any(|named| named.what == what && is_from(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: Process = Process { pid: 7, start: 100 };

    #[test]
    fn a_name_counts_for_the_command_and_the_agent_of_the_hook_that_gave_it() {
        let hooked = Hooked::default();
        hooked.keep(Named { agent: vec![AGENT], what: what("s", "ls") });
        let above = Process { pid: 3, start: 1 };
        assert!(hooked.has(&[AGENT, above], what("s", "ls")));
        assert!(hooked.has(&[above, AGENT], what("s", "ls")), "a shell of the agent is between");
        assert!(!hooked.has(&[AGENT], what("t", "ls")), "another session");
        assert!(!hooked.has(&[AGENT], what("s", "ls -l")), "another command");
        assert!(!hooked.has(&[AGENT], what("sl", "s")), "cut elsewhere");
        assert!(!hooked.has(&[above], what("s", "ls")), "another agent");
        let later = Process { start: 101, ..AGENT };
        assert!(!hooked.has(&[later], what("s", "ls")), "a later process of the same number");
        assert!(!hooked.has(&[], what("s", "ls")), "nobody knows who calls");
    }

    #[test]
    fn the_oldest_makes_room_and_what_is_named_again_is_the_newest() {
        let hooked = Hooked::default();
        let keep = |command: &str| {
            hooked.keep(Named { agent: vec![AGENT], what: what("s", command) });
        };
        keep("first");
        keep("second");
        keep("first");
        for number in 0..MOST - 1 {
            keep(&number.to_string());
        }
        assert!(hooked.has(&[AGENT], what("s", "first")));
        assert!(!hooked.has(&[AGENT], what("s", "second")));
        assert_eq!(hooked.named().len(), MOST);
    }
}
