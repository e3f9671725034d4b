//! The hint that a port which a failed command wanted is that of a task.

use stockade_wire::tasks::TaskView;
use stockade_wire::words::one_line;

/// Words of programs for `EADDRINUSE` (`errno(3)`), in lower case.
const SIGNS: [&str; 3] = ["eaddrinuse", "address already in use", "port is already in use"];
/// Longest command in the note, in characters.
const LONGEST: usize = 60;

/// Says whether an output, in lower case, tells that a port was in use.
pub fn says_in_use(output: &str) -> bool {
    SIGNS.iter().any(|sign| output.contains(sign))
}

/// Returns the note about the task that has a port which `text` names.
pub fn note(text: &str, tasks: &[TaskView]) -> Option<String> {
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
    use stockade_wire::tasks::TaskState;
    use stockade_wire::types::AuditReference;

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
