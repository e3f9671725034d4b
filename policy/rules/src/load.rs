//! Reads settings texts and merges them, layer by layer.

mod above;
mod handler;
mod hooks;
mod permissions;
mod sandbox;
mod source;
pub(crate) mod values;

use stockade_text::json::{Value, read};

use crate::knowledge::{is_unsafe, knowledge, listed};
use crate::layer::Layer;
use crate::settings::merged::Rules;
use crate::settings::{LoadedSettings, Settings, SettingsText, unknown_key, until_trusted};
use crate::spelling::instead_of_key;
use source::{Problems, Source};

use crate::rule::Rule;

/// Keys at the top of a settings file, besides those with a reader of their own.
const TOP_KEYS: [&str; 37] = [
    "$schema",
    "agent",
    "autoCompactEnabled",
    "checkpoint",
    "fileCheckpointingEnabled",
    "permissions",
    "sandbox",
    "hooks",
    "env",
    "import",
    "audit",
    "profile",
    "shell",
    "disableAutoMode",
    "disableAllHooks",
    "allowManagedPermissionRulesOnly",
    "allowManagedHooksOnly",
    "allowManagedMcpServersOnly",
    "allowedHttpHookUrls",
    "httpHookAllowedEnvVars",
    "tasks",
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
    "limits",
    "approvals",
];

/// Keys of objects whose meaning is the gateway's, as far as it reads them.
const READ_KEYS: [&str; 24] = [
    "agent.confine",
    "approvals.breakGlass.groups",
    "approvals.breakGlass.minutes",
    "approvals.delegations",
    "approvals.groups",
    "approvals.require",
    "approvals.rules",
    "approvals.selfApproval",
    "approvals.waitSeconds",
    "fileCheckpointingEnabled",
    "limits.defaultTimeoutSeconds",
    "limits.keepOutputBytes",
    "limits.keepOutputDays",
    "limits.maxTimeoutSeconds",
    "limits.outputBytes",
    "limits.outputCharacters",
    "limits.sessionCommands",
    "limits.sessionOutputBytes",
    "limits.sessionTasks",
    "limits.whenOutputIsFull",
    "limits.whenTimeIsUp",
    "profile",
    "sandbox.network.allowAllUnixSockets",
    "tasks.outliveSession",
];

/// Keys of the sandbox that other products have for their own means: here they neither open nor close anything.
const OTHERS_KEYS: [&str; 12] = [
    "sandbox.allowAppleEvents",
    "sandbox.bwrapPath",
    "sandbox.enableWeakerNestedSandbox",
    "sandbox.enableWeakerNetworkIsolation",
    "sandbox.ignoreViolations",
    "sandbox.network.allowLocalBinding",
    "sandbox.network.allowMachLookup",
    "sandbox.network.httpProxyPort",
    "sandbox.network.socksProxyPort",
    "sandbox.network.tlsTerminate",
    "sandbox.ripgrep",
    "sandbox.socatPath",
];

/// Keys that count in the policy layer alone.
const MANAGED_KEYS: [&str; 4] = [
    "allowManagedPermissionRulesOnly",
    "allowManagedHooksOnly",
    "allowManagedMcpServersOnly",
    "requireGateway",
];

/// Settings that the policy layer locks for other layers.
#[derive(Debug, Clone, Copy, Default)]
struct Locks {
    rules: bool,
    /// Allow rules of other layers, by a program that only tightens: ask rules stay.
    allow_rules: bool,
    hooks: bool,
    domains: bool,
    read_paths: bool,
    unsandboxed: bool,
    files: bool,
    gateway: bool,
}

/// State of the merge so far.
struct Merging {
    locks: Locks,
    settings: Settings,
    rules: Vec<Rule>,
    hooks: hooks::Collected,
    problems: Problems,
    above: above::Floor,
}

/// Reads and merges settings texts of all layers; the order of `texts` is the order within a layer.
///
/// A text that is not JSON, or whose shape is wrong, gives a [`crate::Severity::Refusal`]: it may have held deny rules.
pub fn load(texts: &[SettingsText]) -> LoadedSettings {
    let mut problems = Problems::default();
    let mut values = Vec::new();
    if knowledge().broken {
        problems.refuse_all("the built-in tables of paths and names cannot be read");
    }
    for text in texts {
        let source = Source::new(text);
        match read(&text.text, text.dialect()) {
            Ok(value) if value.members().is_some() => match holder_of_nul(&value) {
                None => values.push((source, value)),
                Some(span) => {
                    let message = "a string contains a NUL byte";
                    problems.refuse(&source, span, "", message, "remove `\\u0000`");
                }
            },
            Ok(value) => problems.refuse(
                &source,
                value.span,
                "",
                &format!("expected an object, not {}", value.type_name()),
                "write the settings in `{ }`",
            ),
            Err(error) => {
                let span = stockade_parser::Span::new(error.at, error.at);
                let message = format!("invalid JSON: {}", error.message);
                problems.refuse(
                    &source,
                    span,
                    "",
                    &message,
                    "correct the file, or exclude its layer",
                );
            }
        }
    }
    values.sort_by_key(|(source, _)| source.layer());
    let mut merging = Merging {
        locks: locks(&values),
        settings: Settings::default(),
        rules: Vec::new(),
        hooks: hooks::Collected::default(),
        problems,
        above: above::Floor::default(),
    };
    for (source, value) in &values {
        merging.take(source, value);
    }
    merging.finish()
}

/// Returns where a string or key holds a NUL byte. No command and no path does, so a rule with one would never match.
fn holder_of_nul(value: &Value) -> Option<stockade_parser::Span> {
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        let members = value.members().unwrap_or_default();
        if let Some(member) = members.iter().find(|member| member.key.contains('\0')) {
            return Some(member.key_span);
        }
        if value.text().is_some_and(|text| text.contains('\0')) {
            return Some(value.span);
        }
        values.extend(members.iter().map(|member| &member.value));
        values.extend(value.elements().unwrap_or_default());
    }
    None
}

/// Reads what the policy layer locks. A value that is there but is not `false` locks.
fn locks(values: &[(Source<'_>, Value)]) -> Locks {
    let mut locks = Locks::default();
    for (source, value) in values.iter().filter(|(source, _)| source.layer() == Layer::Policy) {
        let set = |path: &[&str]| {
            let found = path.iter().try_fold(value, |value, key| value.get(key));
            found.map(|value| value.boolean() != Some(false))
        };
        let put = |lock: &mut bool, path: &[&str]| {
            if let Some(on) = set(path) {
                *lock = on;
            }
        };
        let rules = if source.is_above() { &mut locks.allow_rules } else { &mut locks.rules };
        put(rules, &["allowManagedPermissionRulesOnly"]);
        put(&mut locks.hooks, &["allowManagedHooksOnly"]);
        put(&mut locks.gateway, &["requireGateway"]);
        put(&mut locks.domains, &["sandbox", "network", "allowManagedDomainsOnly"]);
        put(&mut locks.read_paths, &["sandbox", "filesystem", "allowManagedReadPathsOnly"]);
        let allowed = value.get("sandbox").and_then(|v| v.get("allowUnsandboxedCommands"));
        if let Some(allowed) = allowed {
            locks.unsandboxed = allowed.boolean() != Some(true);
        }
        locks.files |= value.get("sandbox").and_then(|v| v.get("filesystem")).is_some();
    }
    locks
}

/// Says whether dotted key `key` is `above`, or stands in it.
fn is_within(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Merging {
    fn take(&mut self, source: &Source<'_>, value: &Value) {
        for member in value.members().unwrap_or_default() {
            let pointer = source::join("", &member.key);
            match member.key.as_str() {
                "permissions" => self.permissions(source, &member.value, &pointer),
                "sandbox" => self.sandbox(source, &member.value, &pointer),
                "hooks" => self.hooks.take(source, &member.value, &pointer, &mut self.problems),
                "env" => self.env(source, &member.value, &pointer),
                "shell" => self.shell(source, &member.value, &pointer),
                "disableAllHooks" => {
                    self.hooks.disable(source, &member.value, &mut self.problems);
                }
                "allowedHttpHookUrls" => {
                    self.hooks.urls(source, &member.value, &pointer, &mut self.problems);
                }
                "httpHookAllowedEnvVars" => {
                    self.hooks.variables(source, &member.value, &pointer, &mut self.problems);
                }
                "disableAutoMode" => {
                    self.settings.disable_auto |= disables(source, &member.value);
                }
                key if MANAGED_KEYS.contains(&key) => {
                    if source.layer() != Layer::Policy {
                        let message = format!("`{key}` is only valid in managed settings");
                        self.warn(source, &member.value, &pointer, &message, "remove it");
                    } else if member.value.boolean().is_none() {
                        let message = "expected a Boolean; used as true";
                        self.warn(source, &member.value, &pointer, message, "write true or false");
                    }
                }
                "import" => self.import(source, &member.value, &pointer),
                "agent"
                | "approvals"
                | "audit"
                | "tasks"
                | "limits"
                | "profile"
                | "fileCheckpointingEnabled" => {
                    self.further(source, &member.value, &pointer, &member.key);
                }
                key if TOP_KEYS.contains(&key) => {}
                key => {
                    let message = unknown_key(key);
                    self.problems.warn(
                        source,
                        member.key_span,
                        &pointer,
                        &message,
                        &instead_of_key(key),
                    );
                }
            }
        }
    }

    /// Checks the products whose files are read beside ours; they were read before. What cannot be understood may
    /// have stood for deny rules.
    fn import(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        if !matches!(source.layer(), Layer::User | Layer::Policy) {
            let message = "`import` is only valid in user and managed settings";
            return self.warn(source, value, pointer, message, "move it to the user settings");
        }
        let help = "write `[\"claude-code\"]`, or remove it";
        let Some(names) = value.elements() else {
            let message = format!("expected a list of products, not {}", value.type_name());
            return self.problems.refuse(source, value.span, pointer, &message, help);
        };
        for (place, name) in names.iter().enumerate() {
            if name.text() != Some("claude-code") {
                let pointer = source::join(pointer, &place.to_string());
                let message = "unknown product";
                self.problems.refuse(source, name.span, &pointer, message, help);
            }
        }
    }

    /// Keeps values whose meaning is the gateway's, under dotted keys.
    fn further(&mut self, source: &Source<'_>, value: &Value, pointer: &str, key: &str) {
        if source.is_shared() {
            let message = format!("`{key}` is ignored in project and local settings");
            self.warn(source, value, pointer, &message, "put it into the user settings");
            return;
        }
        let mut waiting = vec![(key.to_owned(), pointer.to_owned(), value)];
        while let Some((key, pointer, value)) = waiting.pop() {
            match value.members() {
                Some(members) => waiting.extend(members.iter().map(|member| {
                    let inner = format!("{key}.{}", member.key);
                    (inner, source::join(&pointer, &member.key), &member.value)
                })),
                None if is_within(&key, "approvals")
                    && key != "approvals.waitSeconds"
                    && !self.may_say_who_approves(source, value, &key, &pointer) => {}
                None => {
                    let silent = READ_KEYS.contains(&key.as_str())
                        || OTHERS_KEYS.iter().any(|other| is_within(&key, other));
                    if !silent {
                        let message = format!("`{key}` has no effect");
                        self.warn(source, value, &pointer, &message, &instead_of_key(&key));
                    }
                    let origin = source.origin(value.span, &pointer);
                    self.settings.values.insert(key, (value.clone(), origin));
                }
            }
        }
    }

    /// Says who may approve only where the managed settings do. A value that cannot be read may have kept somebody out.
    fn may_say_who_approves(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        key: &str,
        pointer: &str,
    ) -> bool {
        let is_known = READ_KEYS.contains(&key);
        if source.layer() != Layer::Policy {
            if is_known {
                let message = format!("`{key}` is only valid in managed settings");
                self.warn(source, value, pointer, &message, "remove it");
            }
            return !is_known;
        }
        if !is_known {
            let message = format!("unknown key `{key}`");
            let help = "remove it, or check its spelling";
            self.problems.refuse(source, value.span, pointer, &message, help);
        }
        is_known
    }

    fn env(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let Some(members) = value.members() else {
            self.refuse_type(source, value, pointer, "an object of names and strings");
            return;
        };
        for member in members {
            let pointer = source::join(pointer, &member.key);
            let name = member.key.as_bytes();
            let Some(text) = member.value.text() else {
                self.warn(source, &member.value, &pointer, "expected a string", "put it in quotes");
                continue;
            };
            if name.is_empty() || name.contains(&b'=') || name.contains(&0) || text.contains('\0') {
                let message = format!("invalid variable name `{}`", member.key.escape_debug());
                let help = "use a name without `=` and NUL bytes";
                self.problems.warn(source, member.key_span, &pointer, &message, help);
            } else if source.is_shared() && is_unsafe(name) {
                let message = format!("project and local settings cannot set `{}`", member.key);
                self.warn(
                    source,
                    &member.value,
                    &pointer,
                    &message,
                    "put it into the user settings",
                );
            } else if source.is_above() {
                // A variable tightens nothing.
            } else if source.widens() || listed(&knowledge().safe_variables, name) {
                self.settings.env.insert(member.key.clone(), text.to_owned());
            } else {
                self.waits_for_trust(source, &member.value, &pointer);
            }
        }
    }

    fn shell(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        match value.text() {
            _ if source.is_shared() => {
                let message = "`shell` is ignored in project and local settings";
                self.warn(source, value, pointer, message, "put it into the user settings");
            }
            Some(path) if path.starts_with('/') => self.settings.shell = Some(path.into()),
            Some(_) | None => self.refuse_type(source, value, pointer, "an absolute path"),
        }
    }

    fn warn(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        message: &str,
        help: &str,
    ) {
        self.problems.warn(source, value.span, pointer, message, help);
    }

    fn refuse_type(&mut self, source: &Source<'_>, value: &Value, pointer: &str, wanted: &str) {
        let message = format!("expected {wanted}, not {}", value.type_name());
        self.problems.refuse(
            source,
            value.span,
            pointer,
            &message,
            "correct the file, or exclude its layer",
        );
    }

    fn waits_for_trust(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let message = &until_trusted("ignored");
        self.warn(
            source,
            value,
            pointer,
            message,
            "run `stockade policy trust` after reading the file",
        );
    }

    fn finish(mut self) -> LoadedSettings {
        let locks = self.locks;
        self.settings.managed_rules_only = locks.rules || locks.allow_rules;
        self.settings.require_gateway = locks.gateway;
        self.hooks.finish(locks.hooks, &mut self.settings);
        let sandbox = &mut self.settings.sandbox;
        if locks.unsandboxed {
            sandbox.excluded.retain(|(_, origin)| origin.layer == Layer::Policy);
        }
        sandbox.managed_domains_only = locks.domains;
        if locks.domains {
            sandbox.allowed_domains.retain(|(_, origin)| origin.layer == Layer::Policy);
            sandbox.allow_private.retain(|(_, origin)| origin.layer == Layer::Policy);
        }
        if locks.read_paths {
            sandbox.allow_read.retain(|(_, origin)| origin.layer == Layer::Policy);
        }
        // Strongest layer first; the sort is stable, so texts of one layer stay in their order.
        self.rules.sort_by(|a, b| {
            let place = |rule: &Rule| (rule.origin.line, rule.origin.column);
            let strongest = b.origin.layer.cmp(&a.origin.layer);
            if a.origin.file.as_os_str() == b.origin.file.as_os_str() {
                strongest.then(place(a).cmp(&place(b)))
            } else {
                strongest
            }
        });
        if locks.allow_rules {
            self.rules.retain(|rule| {
                rule.origin.layer == Layer::Policy
                    || rule.effect != crate::decision::Decision::Allow
            });
        }
        if locks.rules {
            // Allow and ask rules of other layers do not count. Deny rules do: they only make it stricter.
            self.rules.retain(|rule| {
                rule.origin.layer == Layer::Policy || rule.effect == crate::decision::Decision::Deny
            });
        }
        let rules = Rules::new(self.settings, self.rules);
        LoadedSettings { rules, problems: self.problems.list }
    }
}

/// Says whether a `disable...` key disables; in the policy layer anything that is there does.
fn disables(source: &Source<'_>, value: &Value) -> bool {
    source.layer() == Layer::Policy || value.text() == Some("disable")
}

/// Returns the texts of a list; what is no text is left out and reported by `bad`.
fn texts<'v>(
    value: &'v Value,
    mut bad: impl FnMut(&'v Value, usize),
) -> Option<Vec<(usize, &'v Value, &'v str)>> {
    let mut found = Vec::new();
    for (index, element) in value.elements()?.iter().enumerate() {
        match element.text() {
            Some(text) => found.push((index, element, text)),
            None => bad(element, index),
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
