//! Where the file worker keeps what it changes: in the folder of the agent's session, which no command and no agent writes.

use std::path::{Path, PathBuf};

use stockade_base::directories::private_directory;
use stockade_scene::scene::Scene;
use stockade_spec::{Access, FileRule};
use stockade_wire::types::CommandRequest;

/// File tools that change files.
const CHANGING: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];
/// The setting that turns it off.
const SETTING: &str = "fileCheckpointingEnabled";

/// Returns the folder in which a call keeps what files held before it changes them, and makes it; none for a call that
/// changes nothing, for a session that is not stored, and where the settings turn it off.
pub fn folder(state: &Path, scene: &Scene, request: &CommandRequest) -> Option<PathBuf> {
    let changes = request.tool().is_some_and(|call| CHANGING.contains(&call.name.as_str()));
    let session = request.context.session.as_deref().filter(|_| changes)?;
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    if session.is_empty() || session.len() > 128 || !session.chars().all(plain) {
        return None;
    }
    let set = scene.snapshot.rules.settings().values.get(SETTING);
    if set.is_some_and(|(value, _)| value.boolean() == Some(false)) {
        return None;
    }
    let folder = state.join("agent/sessions").join(session);
    let is_stored = folder.symlink_metadata().is_ok_and(|found| found.is_dir());
    let kept = folder.join("before");
    (is_stored && private_directory(&kept).is_ok()).then_some(kept)
}

/// Shows the worker that folder, out of the state that is hidden from it.
pub fn rule(folder: PathBuf) -> FileRule {
    FileRule {
        path: folder,
        access: Access::Write,
        origin: "builtin: what files held before".to_owned(),
    }
}
