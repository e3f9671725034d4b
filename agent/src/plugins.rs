//! Plugins that a person names with a session. The gateway reads their hooks, a session can be one of their agents; what
//! else is in them is named and left out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::flags::Flags;
use crate::regular;

/// Longest manifest, in bytes.
const LONGEST: u64 = 1 << 20;
/// Places of the manifest.
const MANIFESTS: [&str; 2] = [".claude-plugin/plugin.json", "plugin.json"];
/// Parts that are taken.
const TAKEN: [&str; 2] = ["agents", "hooks/hooks.json"];
/// Parts that are not.
const LEFT: [&str; 13] = [
    "SKILL.md",
    "bin",
    "commands",
    "monitors",
    "output-styles",
    "outputStyles",
    "settings.json",
    "skills",
    "themes",
    "workflows",
    ".lsp.json",
    ".mcp.json",
    "lsp.json",
];
/// Members of the manifest that name parts at places of their own.
const NAMED: [&str; 11] = [
    "agents",
    "channels",
    "commands",
    "hooks",
    "lspServers",
    "mcpServers",
    "monitors",
    "outputStyles",
    "settings",
    "skills",
    "themes",
];
/// How parts begin that say which servers a plugin has.
const SERVERS: [&str; 2] = ["`.mcp.json`", "`mcpServers`"];

/// Plugins by name and directory.
type Plugins = Vec<(String, PathBuf)>;

/// Returns the plugins of a session with their names, and one line for each that is not loaded whole.
pub(crate) fn read(flags: &Flags, cwd: &Path) -> anyhow::Result<(Plugins, Vec<String>)> {
    let (mut found, mut told) = (Vec::new(), Vec::new());
    let all = flags.plugin_dir.iter().map(|it| (it, true));
    for (directory, servers) in all.chain(flags.plugin_dir_no_mcp.iter().map(|it| (it, false))) {
        let directory = cwd.join(directory);
        let shown = directory.display().to_string();
        let root = directory.canonicalize().ok().filter(|it| it.is_dir());
        let Some(root) = root else { bail!("the plugin `{shown}` is not a directory") };
        let (name, mut left) = manifest(&root).with_context(|| format!("the plugin `{shown}`"))?;
        left.extend(LEFT.iter().filter(|it| root.join(it).exists()).map(|it| format!("`{it}`")));
        left.retain(|part| servers || !SERVERS.iter().any(|it| part.starts_with(it)));
        let has_part = TAKEN.iter().any(|it| root.join(it).exists());
        if name.is_none() && !has_part && left.is_empty() {
            bail!("the directory `{shown}` holds no plugin");
        }
        let last = root.file_name().map(|it| it.to_string_lossy().into_owned());
        let name = name.or(last).unwrap_or_default();
        if !left.is_empty() {
            let (name, left) = (name.escape_debug(), left.join(", "));
            told.push(format!(
                "the plugin `{name}` is loaded without {left}, for which nothing is built yet"
            ));
        }
        found.push((name, root));
    }
    Ok((found, told))
}

/// Reads the manifest: the name of the plugin, and parts at places that are not looked at.
fn manifest(root: &Path) -> anyhow::Result<(Option<String>, Vec<String>)> {
    let Some(path) = MANIFESTS.iter().map(|it| root.join(it)).find(|it| it.exists()) else {
        return Ok((None, Vec::new()));
    };
    let text = regular::text(&path, LONGEST).context("its manifest is not a regular file")?;
    let value: Value = serde_json::from_str(&text).context("its manifest is not JSON")?;
    let name = value.get("name").and_then(Value::as_str).filter(|it| !it.is_empty());
    let name = name.context("its manifest has no `name`")?.to_owned();
    let named = NAMED.iter().filter(|key| value.get(**key).is_some_and(|it| !it.is_null()));
    Ok((Some(name), named.map(|key| format!("`{key}` of its manifest")).collect()))
}
