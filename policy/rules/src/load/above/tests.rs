use std::collections::BTreeSet;

use super::super::{MANAGED_KEYS, READ_KEYS, TOP_KEYS, load};
use crate::layer::Layer;
use crate::settings::{Problem, SettingsText};

/// For each key of the settings a value that tightens what [`LOOSE`] says, or nothing where none does.
const KEYS: &[(&str, Option<&str>)] = &[
    ("permissions.allow", None),
    ("permissions.ask", Some(r#"["Bash(a)"]"#)),
    ("permissions.deny", Some(r#"["Bash(b)", "Read(./c)"]"#)),
    ("permissions.additionalDirectories", None),
    ("permissions.defaultMode", Some(r#""plan""#)),
    ("permissions.disableBypassPermissionsMode", Some(r#""disable""#)),
    ("permissions.disableAutoMode", Some(r#""disable""#)),
    ("permissions.skipDangerousModePermissionPrompt", None),
    ("disableAutoMode", Some(r#""disable""#)),
    ("allowedHttpHookUrls", Some("[]")),
    ("httpHookAllowedEnvVars", Some("[]")),
    ("hooks", Some(r#"{"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}"#)),
    ("sandbox.enabled", Some("true")),
    ("sandbox.failIfUnavailable", Some("true")),
    ("sandbox.autoAllowBashIfSandboxed", Some("false")),
    ("sandbox.allowUnsandboxedCommands", Some("false")),
    ("sandbox.excludedCommands", None),
    ("sandbox.allowPrivate", None),
    ("sandbox.filesystem.allowWrite", None),
    ("sandbox.filesystem.denyWrite", Some(r#"["/w", "r"]"#)),
    ("sandbox.filesystem.denyRead", Some(r#"["~/r"]"#)),
    ("sandbox.filesystem.allowRead", None),
    ("sandbox.filesystem.disabled", Some("false")),
    ("sandbox.network.allowedDomains", None),
    ("sandbox.network.deniedDomains", Some(r#"["a.b"]"#)),
    ("sandbox.network.allowPrivate", None),
    ("sandbox.network.enabled", Some("false")),
    ("sandbox.network.allowUnixSockets", None),
    ("sandbox.network.strictAllowlist", Some("true")),
    ("sandbox.credentials.files", Some(r#"["/k", {"path": "k"}]"#)),
    ("sandbox.credentials.envVars", Some(r#"["K", {"name": "L"}]"#)),
    ("sandbox.env.pass", None),
    ("sandbox.limits.processes", Some("7")),
    ("sandbox.limits.memory", Some(r#""1GiB""#)),
    ("sandbox.limits.fileSize", Some("7")),
    ("sandbox.limits.descriptors", Some("7")),
    ("sandbox.limits.diskWritten", Some("7")),
    ("sandbox.limits.sharedMemory", Some("7")),
    // Keys that project and local settings cannot set at all, or that nothing reads.
    ("env", None),
    ("shell", None),
    ("import", None),
    ("audit", None),
    ("tasks", None),
    ("agent", None),
    ("autoCompactEnabled", None),
    ("checkpoint", None),
    ("fileCheckpointingEnabled", None),
    ("approvals", None),
    ("limits", None),
    ("profile", None),
    ("disableAllHooks", None),
    ("allowManagedPermissionRulesOnly", None),
    ("allowManagedHooksOnly", None),
    ("allowManagedMcpServersOnly", None),
    ("requireGateway", None),
    ("sandbox.network.allowManagedDomainsOnly", None),
    ("sandbox.filesystem.allowManagedReadPathsOnly", None),
];

/// Keys that hold others, and those at the top that no reader of ours takes anything from.
const NO_VALUES: &[&str] = &[
    "permissions",
    "sandbox",
    "sandbox.network",
    "sandbox.filesystem",
    "sandbox.credentials",
    "sandbox.env",
    "sandbox.limits",
    "$schema",
    "model",
    "strictPluginOnlyCustomization",
    "disableSideloadFlags",
    "policyHelper",
    "parentSettingsBehavior",
    "forceRemoteSettingsRefresh",
    "cleanupPeriodDays",
    "includeCoAuthoredBy",
    "outputStyle",
    "statusLine",
    "enableAllProjectMcpServers",
    "enabledMcpjsonServers",
    "disabledMcpjsonServers",
    "apiKeyHelper",
];

/// Values of every key that loosens, as far as its kind of value goes.
const LOOSE: &str = r#"{"permissions": {"allow": ["Bash"], "defaultMode": "acceptEdits"},
    "sandbox": {"enabled": false, "failIfUnavailable": false, "autoAllowBashIfSandboxed": true,
        "allowUnsandboxedCommands": true, "filesystem": {"disabled": true},
        "network": {"enabled": true, "strictAllowlist": false}}}"#;

fn text(layer: Layer, text: &str, trusted: bool, above: bool) -> SettingsText {
    let file = if above { "/above.json" } else { "/own.json" };
    let (file, text, anchor) = (file.into(), text.as_bytes().to_vec(), "/p".into());
    SettingsText { layer, file, text, anchor, trusted, above }
}

/// Writes a dotted key as nested objects.
fn object(key: &str, value: &str) -> String {
    key.rsplit('.').fold(value.to_owned(), |inner, key| format!("{{\"{key}\": {inner}}}"))
}

/// Returns the settings as one text without places; hooks without the directory they are from.
fn merged(texts: &[SettingsText]) -> String {
    let mut loaded = load(texts);
    assert_eq!(loaded.problems.iter().map(|it| &it.message).collect::<Vec<_>>(), [] as [&str; 0]);
    let mut settings = loaded.rules.settings().clone();
    settings.hooks.iter_mut().for_each(|hook| hook.above = None);
    loaded.rules = crate::Rules::default();
    format!("{settings:?} {:?}", load(texts).rules.rules()).replace("/above.json", "/own.json")
}

#[test]
fn every_key_that_tightens_does_so_from_above_as_in_its_own_project() {
    let user = text(Layer::User, LOOSE, true, false);
    let plain = merged(std::slice::from_ref(&user));
    for layer in [Layer::Project, Layer::Local] {
        for (key, value) in KEYS {
            let Some(value) = value else { continue };
            let tight = object(key, value);
            let below = merged(&[user.clone(), text(layer, &tight, true, true)]);
            let own = merged(&[user.clone(), text(layer, &tight, true, false)]);
            assert_eq!(below, own, "{key}");
            assert!(below != plain, "{key}");
        }
    }
}

#[test]
fn nothing_widens_from_above_and_nothing_is_said_of_it() {
    let user = text(
        Layer::User,
        r#"{"sandbox": {"enabled": true, "failIfUnavailable": true}}"#,
        true,
        false,
    );
    let plain = merged(std::slice::from_ref(&user));
    let loose = [
        LOOSE,
        r#"{"permissions": {"additionalDirectories": ["/x"], "defaultMode": "bypassPermissions"}, "env": {"LANG": "x", "A": "b"},
            "disableAllHooks": true, "shell": "/bin/x", "no-such-key": 1, "audit": 1, "allowManagedHooksOnly": true}"#,
        r#"{"sandbox": {"excludedCommands": ["x"], "allowPrivate": ["a.b"], "env": {"pass": ["X"]}, "no-such-key": 1,
            "filesystem": {"allowWrite": ["/"], "allowRead": ["/"]}, "limits": {"memory": "99999TiB"},
            "network": {"allowedDomains": ["a.b"], "allowPrivate": ["a.b"], "allowUnixSockets": ["/x"]}}}"#,
    ];
    for text in loose.map(|it| text(Layer::Local, it, true, true)) {
        let found = merged(&[user.clone(), text.clone()]);
        // A limit above every other one holds nothing; it is known all the same.
        let limits = "lowered_limits: {";
        let cut = |found: &str| found.split(limits).next().unwrap_or_default().to_owned();
        let mode =
            |found: String| found.replace("default_mode: Some(Default)", "default_mode: None");
        assert_eq!(mode(cut(&found)), cut(&plain), "{}", String::from_utf8_lossy(&text.text));
    }
}

#[test]
fn a_project_that_is_trusted_does_not_take_back_what_holds_above_it() {
    let hooks = r#"{"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}"#;
    let tight = format!(
        r#"{{"permissions": {{"defaultMode": "plan"}}, "sandbox": {{"autoAllowBashIfSandboxed": false}}, "hooks": {hooks}}}"#
    );
    let own = r#"{"permissions": {"defaultMode": "acceptEdits"}, "sandbox": {"autoAllowBashIfSandboxed": true},
        "disableAllHooks": true}"#;
    for (first, second) in [(Layer::Project, Layer::Local), (Layer::Project, Layer::Project)] {
        let texts = [text(first, &tight, true, true), text(second, own, true, false)];
        let loaded = load(&texts);
        let settings = loaded.rules.settings();
        assert_eq!(settings.default_mode, Some(crate::Mode::Plan));
        assert!(!settings.sandbox.auto_allow);
        assert_eq!(settings.hooks.len(), 1);
    }
    // Settings for one call, or for all, are not the project's.
    let flag = text(Layer::Flag, own, true, false);
    let settings = load(&[text(Layer::Project, &tight, true, true), flag]).rules.settings().clone();
    assert_eq!((settings.default_mode, settings.hooks.len()), (Some(crate::Mode::AcceptEdits), 0));
    // Hooks of a file that nobody trusted run nowhere.
    let untrusted = load(&[text(Layer::Project, &tight, false, true)]);
    assert!(untrusted.rules.settings().hooks.is_empty());
    let said: Vec<Problem> = untrusted.problems;
    assert_eq!(said, []);
}

#[test]
fn a_mode_from_above_that_answers_questions_waits_for_trust_and_a_strict_one_does_not() {
    let mode = |name: &str, trusted: bool| {
        let own = object("permissions.defaultMode", &format!("\"{name}\""));
        load(&[text(Layer::Local, &own, trusted, true)]).rules.settings().default_mode
    };
    use crate::Mode::{Default, DontAsk, Plan};
    let found =
        ["dontAsk", "acceptEdits", "plan"].map(|name| (mode(name, true), mode(name, false)));
    assert_eq!(
        found,
        [(Some(DontAsk), None), (Some(Default), None), (Some(Plan), Some(Plan))],
        "trusted, and not"
    );
}

#[test]
fn every_key_of_the_gateway_is_in_the_table_of_settings() {
    let table = include_str!("../../../../../policies/settings.jsonc");
    let missing = READ_KEYS.iter().filter(|key| !table.contains(&format!("\"key\": \"{key}\"")));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn managed_settings_have_the_last_word_about_the_agent_and_shared_ones_none() {
    let set = |layer, value: &str| text(layer, &object("agent.confine", value), true, false);
    let confined = |texts: &[SettingsText]| {
        let loaded = load(texts);
        let value = loaded.rules.settings().values.get("agent.confine");
        value.and_then(|(value, _)| value.boolean())
    };
    let user = || set(Layer::User, "false");
    assert_eq!(confined(&[user()]), Some(false));
    assert_eq!(confined(&[user(), set(Layer::Policy, "true")]), Some(true));
    assert_eq!(confined(&[set(Layer::Project, "false"), set(Layer::Local, "false")]), None);
}

/// A key that is new gets a row, or nobody knows whether it holds below as well.
#[test]
fn every_key_that_is_read_has_a_row() {
    let mut known: BTreeSet<String> =
        TOP_KEYS.iter().chain(&MANAGED_KEYS).map(|it| it.to_string()).collect();
    for (source, start, prefix) in [
        (include_str!("../../load.rs"), "fn take(", ""),
        (include_str!("../permissions.rs"), "fn permissions(", "permissions."),
        (include_str!("../sandbox.rs"), "fn sandbox_key(", "sandbox."),
        (include_str!("../sandbox.rs"), "fn files_key(", "sandbox."),
        (include_str!("../sandbox.rs"), "fn network_key(", "sandbox."),
    ] {
        let (_, function) = source.split_once(start).unwrap();
        let function = function.split_once("\n    }\n").unwrap().0;
        for line in function.lines().map(str::trim_start) {
            if line.starts_with('"') || line.starts_with("| \"") {
                let arms = line.split("=>").next().unwrap();
                let keys = arms.split('"').skip(1).step_by(2);
                known.extend(
                    keys.filter(|key| !key.contains(' ')).map(|key| format!("{prefix}{key}")),
                );
            }
        }
    }
    assert!(known.len() > 50, "{known:?}");
    let rows = KEYS.iter().map(|(key, _)| *key).chain(NO_VALUES.iter().copied());
    let rows: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(known, rows);
}
