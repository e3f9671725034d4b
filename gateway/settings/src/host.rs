//! Managed settings of the program that started a session. That program is no administrator of the machine: what its
//! settings tighten counts in the policy layer, what would loosen anything is left out, and a key of which it is not known
//! what it would keep away refuses the call.

use std::path::Path;

use serde_json::{Map, Value};
use stockade_policy::{Layer, SettingsText};
use stockade_wire::errors::{Code, Failure};

/// Name of these settings in messages.
const NAME: &str = "<--managed-settings>";
/// Longest text, in bytes.
const LONGEST: usize = 1 << 20;

/// Keys of which a value tightens, the ones that a host may set while a session runs.
pub const TIGHTENING: [&str; 18] = [
    "permissions.deny",
    "permissions.ask",
    "permissions.disableBypassPermissionsMode",
    "permissions.disableAutoMode",
    "allowManagedPermissionRulesOnly",
    "sandbox.enabled",
    "sandbox.failIfUnavailable",
    "sandbox.allowUnsandboxedCommands",
    "sandbox.autoAllowBashIfSandboxed",
    "sandbox.network.enabled",
    "sandbox.network.allowManagedDomainsOnly",
    "sandbox.network.strictAllowlist",
    "sandbox.network.deniedDomains",
    "sandbox.filesystem.allowManagedReadPathsOnly",
    "sandbox.filesystem.denyRead",
    "sandbox.filesystem.denyWrite",
    "sandbox.credentials.files",
    "sandbox.credentials.envVars",
];

/// Returns the value with which a key of [`TIGHTENING`] tightens; null where each entry of its list does.
#[must_use]
pub fn tight(key: &str) -> Value {
    match kind(key) {
        Some(Kind::When(value)) => value,
        Some(Kind::List | Kind::Loosens | Kind::Nothing | Kind::Group) | None => Value::Null,
    }
}

/// Meaning of a key.
enum Kind {
    /// Its list only adds to what is refused, asked or kept away.
    List,
    /// This value tightens.
    When(Value),
    /// The setting loosens, or neither tightens nor loosens.
    Loosens,
    /// The setting restricts a feature that does not exist here.
    Nothing,
    /// The setting is an object with keys of its own.
    Group,
}

/// Returns what a dotted key does; none for one that is not known.
fn kind(key: &str) -> Option<Kind> {
    Some(match key {
        "permissions"
        | "sandbox"
        | "sandbox.network"
        | "sandbox.filesystem"
        | "sandbox.credentials" => Kind::Group,
        "permissions.deny"
        | "permissions.ask"
        | "sandbox.network.deniedDomains"
        | "sandbox.filesystem.denyRead"
        | "sandbox.filesystem.denyWrite"
        | "sandbox.credentials.files"
        | "sandbox.credentials.envVars" => Kind::List,
        "permissions.disableBypassPermissionsMode"
        | "permissions.disableAutoMode"
        | "disableAutoMode" => Kind::When(Value::from("disable")),
        "allowManagedPermissionRulesOnly"
        | "sandbox.enabled"
        | "sandbox.failIfUnavailable"
        | "sandbox.network.allowManagedDomainsOnly"
        | "sandbox.network.strictAllowlist"
        | "sandbox.filesystem.allowManagedReadPathsOnly" => Kind::When(Value::Bool(true)),
        "sandbox.allowUnsandboxedCommands"
        | "sandbox.autoAllowBashIfSandboxed"
        | "sandbox.network.enabled" => Kind::When(Value::Bool(false)),
        "allowManagedMcpServersOnly"
        | "disableClaudeAiConnectors"
        | "strictPluginOnlyCustomization"
        | "$schema" => Kind::Nothing,
        "permissions.allow"
        | "permissions.additionalDirectories"
        | "permissions.defaultMode"
        | "permissions.skipDangerousModePermissionPrompt"
        | "sandbox.excludedCommands"
        | "sandbox.network.allowedDomains"
        | "sandbox.network.allowUnixSockets"
        | "sandbox.network.allowAllUnixSockets"
        | "sandbox.network.allowLocalBinding"
        | "sandbox.network.allowPrivate"
        | "sandbox.filesystem.allowRead"
        | "sandbox.filesystem.allowWrite"
        | "sandbox.filesystem.disabled"
        | "agent"
        | "allowManagedHooksOnly"
        | "disableAllHooks"
        | "hooks"
        | "env"
        | "import"
        | "model"
        | "outputStyle"
        | "profile"
        | "shell" => Kind::Loosens,
        _ => return None,
    })
}

/// Reads managed settings of a program: what counts of them, and the keys that do not because they do not tighten.
///
/// # Errors
///
/// One is not a JSON object, or has a key or value of which it is not known what it would keep away.
pub fn tightening(text: &str) -> Result<(String, Vec<String>), Failure> {
    let refuse = |message: String| {
        let help = "correct `--managed-settings`; it takes what tightens, such as `permissions.deny` and `sandbox.network.deniedDomains`";
        Failure::new(
            Code::SettingsRejected,
            format!("managed settings are rejected: {message}"),
            help,
        )
    };
    if text.len() > LONGEST {
        return Err(refuse(format!("they are longer than {LONGEST} bytes")));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| refuse(format!("they are not JSON: {error}")))?;
    let Value::Object(members) = value else {
        return Err(refuse("they are not a JSON object".to_owned()));
    };
    let mut left_out = Vec::new();
    let kept = group(members, "", &mut left_out).map_err(refuse)?;
    left_out.sort();
    Ok((Value::Object(kept).to_string(), left_out))
}

fn group(
    members: Map<String, Value>,
    above: &str,
    left_out: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut kept = Map::new();
    for (name, value) in members {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let shown = key.escape_debug().to_string();
        let value = match (kind(&key), value) {
            (None, _) => return Err(format!("nothing here enforces `{shown}`")),
            (Some(Kind::Group), Value::Object(inner)) => {
                Value::Object(group(inner, &key, left_out)?)
            }
            (Some(Kind::List), value @ Value::Array(_)) => value,
            (Some(Kind::When(wanted)), value) if value == wanted => value,
            // A value that is not a Boolean decides nothing, and may have been meant to tighten.
            (Some(Kind::When(Value::Bool(_))), Value::Bool(_)) | (Some(Kind::Loosens), _) => {
                left_out.push(shown);
                continue;
            }
            (Some(Kind::Nothing), _) => continue,
            (Some(Kind::Group | Kind::List | Kind::When(_)), _) => {
                return Err(format!("`{shown}` has an invalid value"));
            }
        };
        kept.insert(name, value);
    }
    Ok(kept)
}

/// Returns the texts of such settings, as the policy layer has them.
pub(super) fn texts(managed: &[String], anchor: &Path) -> Result<Vec<SettingsText>, Failure> {
    let text = |given: &String| {
        let (text, _) = tightening(given)?;
        let (file, text, anchor) = (NAME.into(), text.into_bytes(), anchor.to_path_buf());
        Ok(SettingsText { layer: Layer::Policy, file, text, anchor, trusted: true, above: true })
    };
    managed.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_that_tightens_is_one_of_a_list_or_has_one_value() {
        let is_list = |key: &&str| matches!(kind(key), Some(Kind::List));
        let (lists, others): (Vec<_>, Vec<_>) = TIGHTENING.iter().copied().partition(is_list);
        assert_eq!((lists.len(), others.len()), (7, 11));
        assert!(others.iter().all(|key| matches!(kind(key), Some(Kind::When(_)))));
        assert_eq!(tight("sandbox.enabled"), true);
        assert_eq!(tight("sandbox.allowUnsandboxedCommands"), false);
        assert_eq!(tight("permissions.deny"), Value::Null);
    }

    #[test]
    fn what_tightens_is_kept_and_the_rest_is_named_or_refused() {
        let given = r#"{"permissions": {"deny": ["Bash(id:*)"], "allow": ["Bash"], "disableBypassPermissionsMode": "disable"},
            "sandbox": {"enabled": false, "allowUnsandboxedCommands": false, "network": {"deniedDomains": ["a.example"]}},
            "allowManagedPermissionRulesOnly": true, "hooks": {}, "allowManagedMcpServersOnly": true}"#;
        let (kept, left_out) = tightening(given).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let expected = r#"{"permissions": {"deny": ["Bash(id:*)"], "disableBypassPermissionsMode": "disable"},
            "sandbox": {"allowUnsandboxedCommands": false, "network": {"deniedDomains": ["a.example"]}},
            "allowManagedPermissionRulesOnly": true}"#;
        assert_eq!(kept, serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(left_out, ["hooks", "permissions.allow", "sandbox.enabled"]);
        for (bad, told) in [
            ("[]", "they are not a JSON object"),
            ("{", "they are not JSON: EOF while parsing an object at line 1 column 1"),
            (r#"{"deniedMcpServers": []}"#, "nothing here enforces `deniedMcpServers`"),
            (r#"{"permissions": {"denny": []}}"#, "nothing here enforces `permissions.denny`"),
            (r#"{"permissions": {"deny": "Bash"}}"#, "`permissions.deny` has an invalid value"),
            (r#"{"sandbox": {"enabled": "yes"}}"#, "`sandbox.enabled` has an invalid value"),
            (r#"{"disableAutoMode": "no"}"#, "`disableAutoMode` has an invalid value"),
        ] {
            let failure = tightening(bad).unwrap_err();
            assert_eq!(failure.message, format!("managed settings are rejected: {told}"));
        }
    }
}
