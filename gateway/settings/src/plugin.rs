//! Hooks of a plugin that a person named with the call: `hooks/hooks.json` in its directory. They count like those of
//! `--settings`, and are judged as all others are: the file must lie where no command writes.

use std::path::Path;

use stockade_policy::{Layer, SettingsText};
use stockade_text::json::{Dialect, read};
use stockade_wire::errors::{Code, Failure};

use super::{Sources, file};
use crate::bounds;

/// The file with the hooks.
pub const HOOKS: &str = "hooks/hooks.json";
/// Members of that file.
const MEMBERS: [&str; 2] = ["hooks", "description"];
/// Words that stand for the directory of the plugin.
const ROOTS: [&str; 4] = [
    "${CLAUDE_PLUGIN_ROOT}",
    "${STOCKADE_PLUGIN_ROOT}",
    "$CLAUDE_PLUGIN_ROOT",
    "$STOCKADE_PLUGIN_ROOT",
];

/// Returns the directory of the plugin to which a settings file belongs.
#[must_use]
pub fn root_of<'a>(file: &Path, plugins: &'a [String]) -> Option<&'a String> {
    plugins.iter().find(|plugin| Path::new(plugin).join(HOOKS) == file)
}

/// Reads the hooks of the plugin in `directory`; none where it has none.
pub(super) fn hooks(
    sources: &Sources<'_>,
    directory: &Path,
) -> Result<Option<SettingsText>, Failure> {
    let path = directory.join(HOOKS);
    if file::is_missing(&path) {
        return Ok(None);
    }
    file::check_folder(path.parent().unwrap_or(directory))?;
    let Some(text) = file::read(&path, file::Links::Refuse)? else { return Ok(None) };
    bounds::check_settings(&path, sources.regions)?;
    let text = hooks_alone(&text, directory).map_err(|reason| {
        let message = format!("the hooks of a plugin are rejected: `{}`: {reason}", path.display());
        Failure::new(Code::SettingsRejected, message, "correct the plugin, or start without it")
    })?;
    let anchor = directory.to_path_buf();
    Ok(Some(SettingsText {
        layer: Layer::Flag,
        file: path,
        text,
        anchor,
        trusted: true,
        above: false,
    }))
}

/// Returns the member `hooks` as settings, in the lines in which it stands: a plugin has a say about nothing else.
fn hooks_alone(text: &[u8], directory: &Path) -> Result<Vec<u8>, String> {
    let value =
        read(text, Dialect::Strict).map_err(|error| format!("invalid JSON: {}", error.message))?;
    let members = value.members().ok_or("it is not a JSON object")?;
    if let Some(other) = members.iter().find(|it| !MEMBERS.contains(&it.key.as_str())) {
        return Err(format!("a plugin has no `{}` here", other.key.escape_debug()));
    }
    let hooks = value.get("hooks").ok_or("it has no `hooks`")?;
    let before = text.get(..hooks.span.start as usize).unwrap_or_default();
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let inner = String::from_utf8_lossy(hooks.span.of(text)).into_owned();
    let mut whole = String::from("{\"hooks\":");
    whole.extend(std::iter::repeat_n('\n', lines));
    whole.push_str(&placed(inner, directory)?);
    whole.push('}');
    Ok(whole.into_bytes())
}

/// Puts the directory in the place of the words that stand for it. A shell and JSON must read the path as it is.
fn placed(mut text: String, directory: &Path) -> Result<String, String> {
    if !ROOTS.iter().any(|root| text.contains(root)) {
        return Ok(text);
    }
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-+@,:=".contains(it);
    let path = directory.to_str().filter(|path| path.chars().all(is_plain));
    let path = path.ok_or("a shell would not read the path of the plugin as one word")?;
    for root in ROOTS {
        text = text.replace(root, path);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_keep_their_lines_and_the_rest_of_the_file_says_nothing() {
        let text = b"{\"description\": \"d\",\n\"hooks\":\n{\"Stop\": [{\"hooks\": [{\"command\": \"${CLAUDE_PLUGIN_ROOT}/a\"}]}]}}";
        let kept = hooks_alone(text, Path::new("/p/one")).unwrap();
        assert_eq!(
            String::from_utf8(kept).unwrap(),
            "{\"hooks\":\n\n{\"Stop\": [{\"hooks\": [{\"command\": \"/p/one/a\"}]}]}}"
        );
        let odd = hooks_alone(text, Path::new("/p/o $(id)")).unwrap_err();
        assert_eq!(odd, "a shell would not read the path of the plugin as one word");
        for (text, told) in [
            ("{\"hooks\": {}, \"permissions\": {}}", "a plugin has no `permissions` here"),
            ("{}", "it has no `hooks`"),
            ("[]", "it is not a JSON object"),
        ] {
            assert_eq!(hooks_alone(text.as_bytes(), Path::new("/p")).unwrap_err(), told);
        }
    }
}
