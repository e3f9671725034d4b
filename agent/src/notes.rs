//! Notes of a door besides results, as frames of the protocol.

use serde_json::{Value, json};
use stockade_door::{Asked, Host, Note, Pending, Reply};
use stockade_sdk::{Frames, identity};
use stockade_wire::types::HookView;
use stockade_wire::words;

/// Returns the frames of a note; those of hooks only where they are wanted.
pub(crate) fn shown(frames: &Frames, note: Note, hooks: bool) -> Vec<Value> {
    let frame = |subtype: &str, fields: Value| vec![frames.system(subtype, fields)];
    match note {
        Note::Denied { tool, call_id, kind, message } => frame("permission_denied", json!({
            "tool_name": tool, "tool_use_id": call_id, "decision_reason_type": kind, "message": message,
        })),
        Note::Mode(mode) => frame("status", json!({ "status": null, "permissionMode": mode })),
        Note::Said(text) => frame("informational", json!({ "content": text })),
        Note::Hook(hook) if hooks => hook_frames(frames, &hook),
        Note::Hook(_) => Vec::new(),
        Note::Mirror { path, entries } => {
            let frame = json!({ "type": "transcript_mirror", "filePath": path, "entries": entries });
            vec![frames.plain(frame)]
        }
        Note::TaskStarted { task, call_id, description } => frame("task_started", json!({
            "task_id": task, "tool_use_id": call_id, "description": description, "is_backgrounded": true,
            "task_type": "local_bash",
        })),
        Note::TaskEvent { task, call_id, text } => frame("task_progress", json!({
            "task_id": task, "tool_use_id": call_id, "description": text,
        })),
        Note::TaskEnded { task, call_id, status, summary } => vec![
            frames.system("task_updated", json!({ "task_id": task, "patch": { "status": status } })),
            frames.system("task_notification", json!({
                "task_id": task, "tool_use_id": call_id, "status": status, "output_file": "", "summary": summary,
            })),
        ],
    }
}

/// Returns the two frames of a hook that ran. The gateway keeps what it wrote; what it decided is told.
fn hook_frames(frames: &Frames, hook: &HookView) -> Vec<Value> {
    let HookView { event, handler, exit, decision, reason, error, .. } = hook;
    let (id, outcome) = (identity(), if error.is_some() { "error" } else { "success" });
    let output = match (decision, reason.is_empty()) {
        (Some(decision), false) => format!("{decision}: {reason}"),
        (Some(decision), true) => decision.clone(),
        (None, _) => reason.clone(),
    };
    let fields = json!({ "hook_id": id, "hook_name": handler, "hook_event": event });
    let mut ended = fields.clone();
    if let Some(ended) = ended.as_object_mut() {
        let more = json!({ "output": output, "stdout": "", "stderr": error.as_deref().unwrap_or_default(), "outcome": outcome });
        ended.extend(more.as_object().cloned().unwrap_or_default());
        ended.extend(exit.map(|status| ("exit_code".to_owned(), json!(status))));
    }
    vec![frames.system("hook_started", fields), frames.system("hook_response", ended)]
}

/// Nobody who answers: one prompt is answered, and whoever reads the output sees what happens.
pub(crate) struct Reader {
    pub(crate) frames: Frames,
    /// Each frame is a line of the output.
    pub(crate) streams: bool,
    pub(crate) hooks: bool,
}

impl Host for Reader {
    fn can_be_asked(&self) -> bool {
        false
    }

    fn ask(&self, asked: Asked) -> Pending<'_, Reply> {
        stockade_door::Nobody.ask(asked)
    }

    fn hooks<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Value,
        _: Option<&'a str>,
    ) -> Pending<'a, Vec<Result<Value, String>>> {
        Box::pin(async { Vec::new() })
    }

    fn mcp<'a>(&'a self, server: &'a str, _: Value) -> Pending<'a, Result<Value, String>> {
        Box::pin(async move { Err(format!("the server `{server}` has no host")) })
    }

    fn note(&self, note: Note) {
        match note {
            note if self.streams => {
                shown(&self.frames, note, self.hooks).iter().for_each(crate::output::line);
            }
            Note::Said(text) => eprintln!("stockade: {}", words::one_line(&text)),
            Note::Denied { .. }
            | Note::Mode(_)
            | Note::Hook(_)
            | Note::TaskStarted { .. }
            | Note::TaskEvent { .. }
            | Note::TaskEnded { .. }
            | Note::Mirror { .. } => {}
        }
    }
}
