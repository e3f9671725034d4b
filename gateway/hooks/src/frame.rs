//! Input and environment of a hook.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use stockade_policy::{Hook, HookEvent, Layer};

use super::Call;
use stockade_settings::plugin;
use stockade_shell::environment;
use stockade_wire::errors::Failure;

/// Returns the input of a hook: what holds for each event, what holds for this one, and further members.
pub(super) fn input(call: &Call<'_>) -> Value {
    use HookEvent::*;
    let event = call.event;
    let mut input = json!({
        "session_id": call.context.session.as_deref().unwrap_or(call.id),
        "transcript_path": "",
        "cwd": call.place.cwd,
    });
    let Some(members) = input.as_object_mut() else { return input };
    let mut put = |key: &str, value: Value| drop(members.insert(key.to_owned(), value));
    let knows_mode = matches!(event, UserPromptSubmit | Stop | PostToolBatch);
    if event.is_about_a_tool() || knows_mode {
        put("permission_mode", json!(call.mode));
    }
    put("hook_event_name", json!(event.name()));
    if event.is_about_a_tool() {
        put("tool_name", json!(call.subject));
        put("tool_input", call.input.clone());
    }
    match event {
        PermissionRequest => put("permission_suggestions", json!([])),
        PreToolUse | PostToolUse | PostToolUseFailure | PermissionDenied => {
            put("tool_use_id", json!(call.id));
        }
        SessionStart | ConfigChange | DirectoryAdded => put("source", json!(call.subject)),
        SessionEnd => put("reason", json!(call.subject)),
        PreCompact | PostCompact | Setup => put("trigger", json!(call.subject)),
        Notification => put("notification_type", json!(call.subject)),
        StopFailure => put("error", json!(call.subject)),
        InstructionsLoaded => put("load_reason", json!(call.subject)),
        UserPromptSubmit | PostToolBatch | Stop | TaskCreated | TaskCompleted | CwdChanged
        | FileChanged | PreModelSwitch | PostModelSwitch | MessageDisplay => {}
    }
    // A front end says more, and nothing else in place of this.
    for (key, value) in call.further.as_object().into_iter().flatten() {
        members.entry(key.clone()).or_insert_with(|| value.clone());
    }
    input
}

/// Returns the environment of a hook. The caller's variables may not lead a managed hook astray, so it gets
/// none of them.
pub(super) fn variables(hook: &Hook, call: &Call<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = match hook.origin.layer {
        Layer::Policy => {
            let home = stockade_base::directories::home(|_| None)
                .unwrap_or_else(|_| Path::new("/").into());
            BTreeMap::from([
                ("PATH".to_string(), environment::DEFAULT_PATH.to_string()),
                ("HOME".to_string(), home.to_string_lossy().into_owned()),
                ("LANG".to_string(), "C.UTF-8".to_string()),
            ])
        }
        Layer::Builtin | Layer::User | Layer::Project | Layer::Local | Layer::Flag => {
            environment::without_effects(&call.context.environment)?
        }
    };
    variables.retain(|name, _| !name.starts_with("OTEL_"));
    // Paths that a hook builds with these variables are in the project that has the hook in its settings.
    let project = hook.above.as_ref().unwrap_or(&call.place.project).to_string_lossy().into_owned();
    variables.insert("CLAUDE_PROJECT_DIR".into(), project.clone());
    variables.insert("STOCKADE_PROJECT_DIR".into(), project);
    if let Some(root) = plugin::root_of(&hook.origin.file, &call.context.plugins) {
        variables.insert("CLAUDE_PLUGIN_ROOT".into(), root.clone());
        variables.insert("STOCKADE_PLUGIN_ROOT".into(), root.clone());
    }
    variables.insert("PWD".into(), call.place.cwd.to_string_lossy().into_owned());
    Ok(variables)
}
