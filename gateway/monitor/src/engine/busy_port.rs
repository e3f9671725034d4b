//! The note under a command that failed because a task of its session has the port that it wants.

use crate::protocol::tasks::TaskView;
use crate::protocol::words::one_line;
use crate::run::Execution;
use crate::tasks::store::Store;

use super::{Gateway, blocking};

/// Words of programs for `EADDRINUSE` (`errno(3)`), in lower case.
const SIGNS: [&str; 3] = ["eaddrinuse", "address already in use", "port is already in use"];
/// Longest command in the note, in characters.
const LONGEST: usize = 60;

impl Gateway {
    /// Returns the note, if it applies. The output is read for nothing but this hint: no decision depends on it.
    pub(super) async fn busy_port(
        &self,
        (session, command): (Option<&str>, &str),
        execution: &Execution,
    ) -> Option<String> {
        let session = session?.to_owned();
        let failed = execution.exit.is_none_or(|exit| exit.code != Some(0));
        if !failed || self.tasks.count_of(&session) == 0 {
            return None;
        }
        let output = execution.output.text.to_lowercase();
        SIGNS.iter().any(|sign| output.contains(sign)).then_some(())?;
        let store = Store::of(&self.places.state);
        let tasks = blocking(move || Ok(store.with_ports(store.list(Some(&session))?)));
        // Some programs do not say which port it was that they were told to take.
        let tasks = tasks.await.ok()?;
        note(&output, &tasks).or_else(|| note(command, &tasks))
    }
}

/// Returns the note about the task that has a port which `text` names.
fn note(text: &str, tasks: &[TaskView]) -> Option<String> {
    let named = |port: &u16| {
        let is_word = |word: &str| word.parse() == Ok(*port);
        text.split(|it: char| !it.is_ascii_digit()).any(is_word)
    };
    tasks.iter().find_map(|task| {
        let port = task.ports.iter().find(|port| named(port))?;
        let id = &task.task_id;
        let command: String = one_line(&task.command).chars().take(LONGEST).collect();
        Some(format!(
            "port {port} is in use by task {id}: {command}; to free it: stockade tasks stop {id}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tasks::TaskState;
    use crate::protocol::types::AuditReference;

    #[test]
    fn the_task_is_named_whose_port_the_output_names_as_a_whole_number() {
        let task = |id: &str, ports: &[u16]| TaskView {
            task_id: id.to_owned(),
            state: TaskState::Running,
            reason: String::new(),
            session: None,
            outlives_session: false,
            command: "npm run\ndev".to_owned(),
            description: None,
            cwd: String::new(),
            started_ms: 0,
            ended_ms: None,
            exit_code: None,
            signal: None,
            signal_number: None,
            output_path: String::new(),
            output_bytes: 0,
            pty: false,
            ports: ports.to_vec(),
            audit: AuditReference { decision_id: id.to_owned(), sequence: 0 },
        };
        let tasks = [task("A", &[80]), task("B", &[9229, 3000])];
        let found = note("listen eaddrinuse: 127.0.0.1:3000", &tasks).unwrap();
        assert!(found.starts_with("port 3000 is in use by task B: npm run"), "{found}");
        assert!(!found.contains('\n') && found.ends_with("stockade tasks stop B"), "{found}");
        assert_eq!(note("listen eaddrinuse: :30001, 8080", &tasks), None);
    }
}
