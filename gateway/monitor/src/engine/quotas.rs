//! Quotas of one session of a gateway that stays: commands and background tasks at once, and output on the disk.
//!
//! A call takes its place before it is judged and leaves it at its end, so that no two calls take the last one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_policy::Settings;

use super::Gateway;
use super::calling::{Calling, SessionKey};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::CommandRequest;
use stockade_output::budget::Budget;
use stockade_settings::limits::{Quota, SESSION_COMMANDS, SESSION_OUTPUT, SESSION_TASKS, place};

/// The sessions that use something.
#[derive(Debug, Default)]
pub(super) struct Quotas(Arc<Mutex<BTreeMap<SessionKey, Used>>>);

#[derive(Debug, Default)]
struct Used {
    commands: u64,
    /// Calls that asked for a background task, as long as that runs.
    started: u64,
    output: Arc<Budget>,
}

/// The place of one call. Dropping it makes room for the next one.
#[derive(Debug)]
pub(super) struct Seat {
    quotas: Quotas,
    session: SessionKey,
    is_task: bool,
    output: Arc<Budget>,
}

impl Seat {
    /// Returns what the session may still write to the disk.
    pub(super) fn output(&self) -> Arc<Budget> {
        Arc::clone(&self.output)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut sessions = self.quotas.sessions();
        let Some(used) = sessions.get_mut(&self.session) else { return };
        used.commands = used.commands.saturating_sub(1);
        used.started = used.started.saturating_sub(u64::from(self.is_task));
        if used.commands == 0 && used.output.is_empty() {
            sessions.remove(&self.session);
        }
    }
}

impl Gateway {
    /// Takes the place of a call in its session; none where it names no session, or no gateway stays.
    pub(super) fn take_seat(
        &self,
        caller: &Calling,
        request: &CommandRequest,
        quota: Quota,
        settings: &Settings,
    ) -> Result<Option<Seat>, Failure> {
        let name = request.context.session.as_ref().filter(|_| self.sessions.is_some());
        let Some(name) = name else { return Ok(None) };
        // Those that went to the background later are tasks as well.
        let running = u64::try_from(self.tasks.count_of(name)).unwrap_or(u64::MAX);
        let taken = self.quotas.take(caller.session(name), request.background, running, quota);
        taken.map(Some).map_err(|full| full.failure(name, quota, settings))
    }
}

/// The quota that a session has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    Commands,
    Tasks,
    Output,
}

impl Full {
    fn failure(self, session: &str, quota: Quota, settings: &Settings) -> Failure {
        let session = session.escape_debug();
        let (has, setting, instead) = match self {
            Full::Commands => (
                format!("runs {} commands", quota.commands),
                SESSION_COMMANDS.name,
                "wait for one of them to end",
            ),
            Full::Tasks => (
                format!("runs {} background tasks", quota.tasks),
                SESSION_TASKS.name,
                "stop one with `stockade tasks stop ID`",
            ),
            Full::Output => (
                format!("keeps {} bytes of output on the disk", quota.output),
                SESSION_OUTPUT.name,
                "remove old output with `stockade tasks prune --keep 100MiB`",
            ),
        };
        let place = place(settings, setting);
        Failure::new(
            Code::InvalidRequest,
            format!("session `{session}` {has} already, as many as `{setting}` allows ({place})"),
            format!("{instead}, or raise `{setting}`"),
        )
    }
}

impl Quotas {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionKey, Used>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a session that ended keeps on the disk. What still runs of it counts until it ends.
    pub(super) fn forget(&self, uid: u32, name: &str) {
        let session = SessionKey { uid, name: name.to_owned() };
        let mut sessions = self.sessions();
        match sessions.get_mut(&session) {
            Some(used) if used.commands > 0 => used.output = Arc::default(),
            Some(_) | None => drop(sessions.remove(&session)),
        }
    }

    fn take(
        &self,
        session: SessionKey,
        is_task: bool,
        running: u64,
        quota: Quota,
    ) -> Result<Seat, Full> {
        let mut sessions = self.sessions();
        let used = sessions.entry(session.clone()).or_default();
        used.output.allow(quota.output);
        let full = if used.commands >= quota.commands {
            Some(Full::Commands)
        } else if is_task && used.started.max(running) >= quota.tasks {
            Some(Full::Tasks)
        } else if is_task && !used.output.has_room() {
            // Without its file nobody could read what it writes.
            Some(Full::Output)
        } else {
            None
        };
        if let Some(full) = full {
            if used.commands == 0 && used.output.is_empty() {
                sessions.remove(&session);
            }
            return Err(full);
        }
        used.commands += 1;
        used.started += u64::from(is_task);
        let output = Arc::clone(&used.output);
        drop(sessions);
        Ok(Seat { quotas: Quotas(Arc::clone(&self.0)), session, is_task, output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { commands: 3, tasks: 2, output: 1 << 20 };

    fn session(name: &str) -> SessionKey {
        SessionKey { uid: 7, name: name.to_owned() }
    }

    #[test]
    fn places_end_with_their_calls_and_are_of_one_session() {
        let quotas = Quotas::default();
        let take = |name: &str, is_task| quotas.take(session(name), is_task, 0, QUOTA);
        let tasks = [take("a", true).unwrap(), take("a", true).unwrap()];
        assert_eq!(take("a", true).unwrap_err(), Full::Tasks);
        let third = take("a", false).unwrap();
        assert_eq!(take("a", false).unwrap_err(), Full::Commands);
        assert!(take("b", true).is_ok());
        drop(third);
        assert!(take("a", false).is_ok());
        drop(tasks);
        assert!(quotas.sessions().is_empty());
    }

    #[test]
    fn a_command_that_went_to_the_background_counts_as_a_task() {
        let quotas = Quotas::default();
        assert_eq!(quotas.take(session("a"), true, 2, QUOTA).unwrap_err(), Full::Tasks);
        assert!(quotas.take(session("a"), false, 2, QUOTA).is_ok());
        assert!(quotas.sessions().is_empty());
    }

    #[test]
    fn a_task_whose_output_could_not_be_kept_is_refused() {
        let quotas = Quotas::default();
        let folder = stockade_scratch::Folder::new();
        let seat = quotas.take(session("a"), false, 0, QUOTA).unwrap();
        let file = folder.write("output", "x".repeat(1 << 20));
        seat.output().opened(&file);
        assert!(seat.output().take(1 << 20) && !seat.output().take(1));
        drop(seat);
        assert_eq!(quotas.take(session("a"), true, 0, QUOTA).unwrap_err(), Full::Output);
        assert!(quotas.take(session("a"), false, 0, QUOTA).is_ok());
        std::fs::remove_file(file).unwrap();
        assert!(quotas.take(session("a"), true, 0, QUOTA).is_ok());
    }
}
