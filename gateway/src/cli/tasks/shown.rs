//! Tasks as people read them.

use std::path::Path;
use std::time::Duration;

use super::progress::last_line_of;
use crate::protocol::tasks::TaskView;
use crate::protocol::words;
use crate::tasks::folder::now_ms;

/// Most characters of a command in a table.
const WIDEST: usize = 60;

/// Returns one line about a task.
pub(super) fn line(task: &TaskView) -> String {
    let TaskView { task_id, state, reason, .. } = task;
    let (state, reason) = (state.word(), words::one_line(reason));
    format!("task {task_id} {state}: {reason}")
}

/// Returns a table of tasks.
pub(super) fn table(tasks: &[TaskView]) -> String {
    let rows = tasks.iter().map(|task| {
        let command = words::one_line(task.description.as_deref().unwrap_or(&task.command));
        let command = match command.chars().count() > WIDEST {
            true => format!("{}…", command.chars().take(WIDEST - 1).collect::<String>()),
            false => command,
        };
        let (took, size, ports) = (elapsed(task), size(task.output_bytes), ports(task));
        let (id, state) = (&task.task_id, task.state.word());
        format!("{id:26}  {state:9}  {took:>8}  {size:>8}  {ports:>6}  {command}")
    });
    let head = format!(
        "{:26}  {:9}  {:>8}  {:>8}  {:>6}  COMMAND",
        "ID", "STATE", "TIME", "OUTPUT", "PORTS"
    );
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Returns everything about a task.
pub(super) fn whole(task: &TaskView) -> String {
    let mut lines = vec![
        format!("task      {}", task.task_id),
        format!("state     {}: {}", task.state.word(), words::one_line(&task.reason)),
        format!("command   {}", words::one_line(&task.command)),
        format!("directory {}", words::one_line(&task.cwd)),
        format!("time      {}", elapsed(task)),
        format!("output    {} in {}", size(task.output_bytes), words::one_line(&task.output_path)),
        format!("record    stockade audit why {}", task.audit.decision_id),
    ];
    let last = last_line_of(Path::new(&task.output_path));
    let last = Some(last).filter(|line| !line.is_empty());
    let optional =
        [("last line ", &last), ("purpose   ", &task.description), ("session   ", &task.session)];
    for (name, value) in optional {
        lines.extend(value.as_ref().map(|value| format!("{name}{}", words::one_line(value))));
    }
    if !task.ports.is_empty() {
        let ports = ports(task);
        lines.push(format!("ports     {ports} (`stockade tasks open {}`)", task.task_id));
    }
    lines.join("\n")
}

/// Returns the ports of a task, such as `3000, 9229`.
fn ports(task: &TaskView) -> String {
    task.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns how long a task ran, or has been running.
pub(super) fn elapsed(task: &TaskView) -> String {
    let until = match task.ended_ms {
        Some(ended) => ended,
        None if task.state.has_ended() => return "?".to_owned(),
        None => now_ms(),
    };
    span(until.saturating_sub(task.started_ms))
}

/// Returns how long ago a moment was, which is given in milliseconds since 1970.
pub(in super::super) fn since(moment_ms: u64) -> String {
    span(now_ms().saturating_sub(moment_ms))
}

/// Returns how far away a moment is, which is given in milliseconds since 1970.
pub(in super::super) fn until(moment_ms: u64) -> String {
    span(moment_ms.saturating_sub(now_ms()))
}

pub(in super::super) fn span(milliseconds: u64) -> String {
    let seconds = Duration::from_millis(milliseconds).as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// Returns a number of bytes with a unit.
pub(in super::super) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}
