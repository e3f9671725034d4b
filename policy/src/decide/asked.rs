//! Files of the project that hold secrets as a rule: a call that names one is asked, unless a rule says otherwise.

use std::path::{Path, PathBuf};

use crate::Decision;

use super::context::Context;
use super::files::{self, Access};
use super::part::{Draft, Own};

/// Asks about the first file that is named and that no rule about such files allows.
pub(super) fn add(context: &Context<'_>, drafts: &mut [Draft]) {
    let Some(path) = context.facts.asked.iter().find(|path| !is_allowed(context, path)) else {
        return;
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let place = drafts.iter().position(|draft| draft.text.contains(&name)).unwrap_or_default();
    let Some(draft) = drafts.get_mut(place).filter(|draft| draft.own.is_none()) else { return };
    let shown = path.display();
    let reason = format!(
        "`{shown}` may contain secrets, so stockade asks; to allow: sandbox.filesystem.allowRead: [\"{shown}\"] (user settings)"
    );
    draft.own = Some(Own { code: "secrets", reason, protected: false });
}

/// Says whether an allow rule speaks of this file: one for all files of a directory does not.
fn is_allowed(context: &Context<'_>, path: &Path) -> bool {
    let names: &[PathBuf] = &[path.to_path_buf()];
    let hits = files::hits(context, Decision::Allow, Access::Read, names);
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let patterns = hits.iter().filter_map(|hit| files::pattern(context, hit.rule));
    let places = patterns.flat_map(|it| it.absolute(context.anchors(Decision::Allow)));
    let lasts = places.filter_map(|it| it.rsplit('/').next().map(str::to_owned));
    { lasts }.any(|last| shares_start(&last, &name))
}

/// Says whether a pattern spells the first letters of a name, and not of a directory above it.
fn shares_start(pattern: &str, name: &str) -> bool {
    let spelled = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    spelled.len() > 1 && name.starts_with(spelled)
}
