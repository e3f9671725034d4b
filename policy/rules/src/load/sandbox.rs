//! `sandbox`: what commands can reach while they run.

use std::path::Path;

use stockade_text::json::Value;

use super::source::{Source, join};
use super::{Merging, texts};
use crate::knowledge::{knowledge, listed};
use crate::layer::{Layer, Origin};
use crate::network::HostRule;
use crate::pattern::command::CommandPattern;
use crate::pattern::path::verbatim;
use crate::rule::braces::{self, Numbers};
use crate::settings::{SandboxSettings, Severity, unknown_key};
use crate::spelling::instead_of_key;

/// A list of texts with origins in the merged settings.
type List = fn(&mut SandboxSettings) -> &mut Vec<(String, Origin)>;

/// How an entry more changes what commands can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Longer {
    Widens,
    Narrows,
}

/// The truth value of a switch with which commands reach less.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stricter {
    On,
    Off,
}

/// Keys whose meaning is the gateway's.
const FURTHER: [&str; 19] = [
    "backend",
    "limits",
    "execVerification",
    "allowDevices",
    "ignoreViolations",
    "enableWeakerNestedSandbox",
    "enableWeakerNetworkIsolation",
    "allowAppleEvents",
    "bwrapPath",
    "socatPath",
    "ripgrep",
    "network.allowAllUnixSockets",
    "network.allowLocalBinding",
    "network.httpProxyPort",
    "network.socksProxyPort",
    "network.tlsTerminate",
    "network.allowMachLookup",
    "filesystem.hideNames",
    "required",
];

impl Merging {
    pub(super) fn sandbox(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        self.sandbox_group(source, value, pointer, "");
    }

    fn sandbox_group(&mut self, source: &Source<'_>, value: &Value, pointer: &str, group: &str) {
        let Some(members) = value.members() else {
            self.refuse_type(source, value, pointer, "an object");
            return;
        };
        for member in members {
            let pointer = join(pointer, &member.key);
            let key = if group.is_empty() {
                member.key.clone()
            } else {
                format!("{group}.{}", member.key)
            };
            if !self.sandbox_key(source, &key, &member.value, &pointer) {
                let path = format!("sandbox.{key}");
                self.problems.warn(
                    source,
                    member.key_span,
                    &pointer,
                    &unknown_key(&path),
                    &instead_of_key(&path),
                );
            }
        }
    }

    /// Takes one key; says whether it is known.
    fn sandbox_key(
        &mut self,
        source: &Source<'_>,
        key: &str,
        value: &Value,
        pointer: &str,
    ) -> bool {
        match key {
            "network" | "filesystem" | "credentials" | "env" | "limits" => {
                self.sandbox_group(source, value, pointer, key)
            }
            "enabled" => self.enabled(source, value, pointer),
            "failIfUnavailable" => {
                self.switch(source, value, pointer, Stricter::On, |sandbox| {
                    &mut sandbox.fail_if_unavailable
                });
            }
            "autoAllowBashIfSandboxed" => self.auto_allow(source, value, pointer),
            "allowUnsandboxedCommands" => {
                self.switch(source, value, pointer, Stricter::Off, |sandbox| {
                    &mut sandbox.allow_unsandboxed
                });
            }
            "excludedCommands" => self.excluded(source, value, pointer),
            "network.allowManagedDomainsOnly" | "filesystem.allowManagedReadPathsOnly" => {
                if source.layer() != Layer::Policy {
                    let message = format!("`sandbox.{key}` is only valid in managed settings");
                    self.warn(source, value, pointer, &message, "remove it");
                }
            }
            "credentials.files" => self.credential_files(source, value, pointer),
            "credentials.envVars" => self.credential_variables(source, value, pointer),
            "env.pass" => self.passed(source, value, pointer),
            "limits.processes"
            | "limits.memory"
            | "limits.fileSize"
            | "limits.descriptors"
            | "limits.diskWritten"
            | "limits.sharedMemory" => {
                self.limit(source, value, pointer, key.trim_start_matches("limits."));
            }
            key if FURTHER.contains(&key) => {
                self.further(source, value, pointer, &format!("sandbox.{key}"));
            }
            _ => {
                return self.files_key(source, key, value, pointer)
                    || self.network_key(source, key, value, pointer);
            }
        }
        true
    }

    /// Takes a key about files; says whether it is one.
    fn files_key(&mut self, source: &Source<'_>, key: &str, value: &Value, pointer: &str) -> bool {
        match key {
            "filesystem.allowWrite" => {
                self.paths(source, value, pointer, |s| &mut s.allow_write, Longer::Widens)
            }
            "filesystem.denyWrite" => {
                self.paths(source, value, pointer, |s| &mut s.deny_write, Longer::Narrows)
            }
            "filesystem.denyRead" => {
                self.paths(source, value, pointer, |s| &mut s.deny_read, Longer::Narrows)
            }
            "filesystem.allowRead" => {
                self.paths(source, value, pointer, |s| &mut s.allow_read, Longer::Widens)
            }
            "filesystem.disabled" => {
                if !self.locks.files || source.layer() == Layer::Policy {
                    self.switch(source, value, pointer, Stricter::Off, |sandbox| {
                        &mut sandbox.files_disabled
                    });
                }
            }
            _ => return false,
        }
        true
    }

    /// Takes a key about the network; says whether it is one.
    fn network_key(
        &mut self,
        source: &Source<'_>,
        key: &str,
        value: &Value,
        pointer: &str,
    ) -> bool {
        match key {
            "network.allowedDomains" => {
                self.hosts(source, value, pointer, |s| &mut s.allowed_domains, Longer::Widens)
            }
            "network.deniedDomains" => {
                self.hosts(source, value, pointer, |s| &mut s.denied_domains, Longer::Narrows)
            }
            "allowPrivate" | "network.allowPrivate" => {
                self.hosts(source, value, pointer, |s| &mut s.allow_private, Longer::Widens)
            }
            "network.enabled" => self.network(source, value, pointer),
            "network.allowUnixSockets" => {
                self.paths(source, value, pointer, |s| &mut s.allow_unix_sockets, Longer::Widens)
            }
            "network.strictAllowlist" => {
                self.switch(source, value, pointer, Stricter::On, |sandbox| {
                    &mut sandbox.strict_allowlist
                });
            }
            _ => return false,
        }
        true
    }

    fn auto_allow(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let strict = value.boolean() != Some(true);
        self.above.keep_asking |= strict && source.is_above();
        if strict || source.widens() {
            let kept = source.is_shared() && self.above.keep_asking;
            self.settings.sandbox.auto_allow = !strict && !kept;
        } else {
            self.waits_for_trust(source, value, pointer);
        }
    }

    fn enabled(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        self.switch(source, value, pointer, Stricter::On, |sandbox| &mut sandbox.enabled);
        if source.layer() == Layer::Policy && self.settings.sandbox.enabled {
            self.settings.sandbox.fail_if_unavailable = true;
        }
    }

    /// Sets a truth value: what is not one counts as the stricter one, and project and local settings can only tighten.
    fn switch(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        stricter: Stricter,
        slot: fn(&mut SandboxSettings) -> &mut bool,
    ) {
        let (wanted, tight) = (value.boolean(), stricter == Stricter::On);
        if wanted.is_none() {
            let message = format!("expected a Boolean; used as {tight}");
            self.warn(source, value, pointer, &message, "write true or false");
        }
        let wanted = wanted.unwrap_or(tight);
        if source.is_shared() && wanted != tight {
            let message = "project and local settings can only make this stricter";
            self.warn(source, value, pointer, message, "put it into the user settings");
            return;
        }
        *slot(&mut self.settings.sandbox) = wanted;
    }

    fn excluded(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let Some(list) = self.strings(source, value, pointer) else { return };
        if !source.widens() {
            self.waits_for_trust(source, value, pointer);
            return;
        }
        for (element, text, pointer) in list {
            match CommandPattern::new(&text) {
                Ok(pattern) if source.is_shared() && names_runner(&pattern) => {
                    let message = "only user or managed settings exclude programs that run code of the project from the sandbox";
                    self.warn(source, element, &pointer, message, "put it into the user settings");
                }
                Ok(pattern) => {
                    let origin = source.origin(element.span, &pointer);
                    self.settings.sandbox.excluded.push((pattern, origin));
                }
                Err(message) => self.warn(source, element, &pointer, message, "write a command"),
            }
        }
    }

    fn paths(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        list: List,
        longer: Longer,
    ) {
        let Some(paths) = self.strings(source, value, pointer) else { return };
        let widens = longer == Longer::Widens;
        if widens && !source.widens() {
            self.waits_for_trust(source, value, pointer);
            return;
        }
        for (element, text, pointer) in paths {
            if !widens && !self.spells_out(source, element, &pointer, &text, list) {
                continue;
            }
            let path = absolute(&text, source);
            if widens && path.contains(['*', '?', '[']) && !pointer.contains("allowRead") {
                self.warn(
                    source,
                    element,
                    &pointer,
                    "a path here cannot have wildcards",
                    "specify the directory",
                );
                continue;
            }
            let origin = source.origin(element.span, &pointer);
            let further = relative(&text).filter(|_| !widens);
            for path in [Some(path), further].into_iter().flatten() {
                push(list(&mut self.settings.sandbox), path, origin.clone());
            }
        }
    }

    /// Takes each alternative in braces of a path that is kept away. One that cannot be spelled out refuses the file.
    fn spells_out(
        &mut self,
        source: &Source<'_>,
        element: &Value,
        pointer: &str,
        text: &str,
        list: List,
    ) -> bool {
        let Some(texts) = braces::spelled_out(text, Numbers::Alternatives) else {
            let message = "its alternatives in braces cannot be expanded";
            let help = "write an entry for each";
            self.problems.add(Severity::Refusal, source, element.span, pointer, message, help);
            return false;
        };
        let origin = source.origin(element.span, pointer);
        for one in texts.iter().skip(1) {
            for path in [Some(absolute(one, source)), relative(one)].into_iter().flatten() {
                push(list(&mut self.settings.sandbox), path, origin.clone());
            }
        }
        true
    }

    /// Takes rules about hosts. One that cannot be read allows nothing; among those that deny it refuses the
    /// file, since nobody knows what it was meant to keep away.
    fn hosts(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        list: List,
        longer: Longer,
    ) {
        let Some(texts) = self.strings(source, value, pointer) else { return };
        let widens = longer == Longer::Widens;
        if widens && !source.widens() {
            self.waits_for_trust(source, value, pointer);
            return;
        }
        for (element, text, pointer) in texts {
            let origin = source.origin(element.span, &pointer);
            let Err(error) = HostRule::new(&text, origin.clone()) else {
                push(list(&mut self.settings.sandbox), text, origin);
                continue;
            };
            let severity = if widens { Severity::Warning } else { Severity::Refusal };
            let message = format!("invalid host: {error}");
            let help = "write `host`, `*.host`, an address, or one of them with `:port`";
            self.problems.add(severity, source, element.span, &pointer, &message, help);
        }
    }

    /// `false` from any layer leaves no way out; `true` only says what is so anyway.
    fn network(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        if value.boolean().is_none() {
            let message = "expected a Boolean; used as false";
            self.warn(source, value, pointer, message, "write true or false");
        }
        if value.boolean() != Some(true) {
            self.settings.sandbox.network_off = Some(source.origin(value.span, pointer));
        }
    }

    /// Sets a limit; project and local settings can only lower one.
    fn limit(&mut self, source: &Source<'_>, value: &Value, pointer: &str, name: &str) {
        let Some(wanted) = value.whole().or_else(|| bytes(value.text()?)).filter(|it| *it > 0)
        else {
            self.refuse_type(
                source,
                value,
                pointer,
                "a number above 0, or a text such as \"8GiB\"",
            );
            return;
        };
        let origin = source.origin(value.span, pointer);
        let sandbox = &mut self.settings.sandbox;
        if !source.is_shared() {
            sandbox.limits.insert(name.to_owned(), (wanted, origin));
            return;
        }
        let lowered = sandbox.lowered_limits.get(name).map_or(u64::MAX, |known| known.0);
        if wanted < lowered {
            sandbox.lowered_limits.insert(name.to_owned(), (wanted, origin));
        }
    }

    fn passed(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        let Some(names) = self.strings(source, value, pointer) else { return };
        if source.is_shared() {
            let message = "project and local settings cannot pass variables";
            self.warn(source, value, pointer, message, "put it into the user settings");
            return;
        }
        for (_, name, _) in names {
            if !self.settings.sandbox.env_pass.contains(&name) {
                self.settings.sandbox.env_pass.push(name);
            }
        }
    }

    /// Masks are not made here: every entry denies.
    fn credential_files(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        for (element, path, pointer) in self.entries(source, value, pointer, "path") {
            let origin = source.origin(element.span, &pointer);
            for path in [Some(absolute(&path, source)), relative(&path)].into_iter().flatten() {
                push(&mut self.settings.sandbox.deny_read, path, origin.clone());
            }
        }
    }

    fn credential_variables(&mut self, source: &Source<'_>, value: &Value, pointer: &str) {
        for (_, name, _) in self.entries(source, value, pointer, "name") {
            if !self.settings.sandbox.env_deny.contains(&name) {
                self.settings.sandbox.env_deny.push(name);
            }
        }
    }

    fn entries<'v>(
        &mut self,
        source: &Source<'_>,
        value: &'v Value,
        pointer: &str,
        key: &str,
    ) -> Vec<(&'v Value, String, String)> {
        let Some(elements) = value.elements() else {
            self.refuse_type(source, value, pointer, "a list");
            return Vec::new();
        };
        let mut found = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            match element.text().or_else(|| element.get(key)?.text()) {
                Some(text) => found.push((element, text.to_owned(), pointer)),
                None => {
                    let message = format!("expected an object with `{key}`");
                    self.problems.refuse(
                        source,
                        element.span,
                        &pointer,
                        &message,
                        "correct this entry",
                    );
                }
            }
        }
        found
    }

    fn strings<'v>(
        &mut self,
        source: &Source<'_>,
        value: &'v Value,
        pointer: &str,
    ) -> Option<Vec<(&'v Value, String, String)>> {
        let mut bad = Vec::new();
        let Some(list) = texts(value, |element, index| bad.push((element, index))) else {
            self.refuse_type(source, value, pointer, "a list of strings");
            return None;
        };
        for (element, index) in bad {
            let pointer = format!("{pointer}/{index}");
            self.problems.refuse(
                source,
                element.span,
                &pointer,
                "expected a string",
                "put it in quotes",
            );
        }
        let place = |index: usize| format!("{pointer}/{index}");
        Some(list.into_iter().map(|(index, v, text)| (v, text.to_owned(), place(index))).collect())
    }
}

/// Returns the number of bytes that a text such as `512MiB` names.
fn bytes(text: &str) -> Option<u64> {
    let digits =
        text.len().checked_sub(text.trim_start_matches(|it: char| it.is_ascii_digit()).len())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns an absolute path, or one that begins with `~/`; what `text` does not say holds no wildcard.
fn absolute(text: &str, source: &Source<'_>) -> String {
    let text = text.strip_suffix("/**").unwrap_or(text);
    let text = if text.len() > 1 { text.trim_end_matches('/') } else { text };
    if let Some(rest) = text.strip_prefix("//") {
        return format!("/{rest}");
    }
    if text.starts_with('/') || text.starts_with("~/") || text == "~" {
        return text.to_owned();
    }
    let anchor = verbatim(&source.anchor().to_string_lossy());
    let path = crate::normal::normal(&Path::new(&anchor).join(text));
    path.to_string_lossy().into_owned()
}

/// Returns a path that names no place of its own, for each place at which a refusal begins.
fn relative(text: &str) -> Option<String> {
    let text = text.strip_suffix("/**").unwrap_or(text).trim_end_matches('/');
    let text = text.strip_prefix("./").unwrap_or(text);
    let is_relative = !text.is_empty() && !text.starts_with('/') && !text.starts_with('~');
    is_relative.then(|| format!("./{text}"))
}

fn push(list: &mut Vec<(String, Origin)>, text: String, origin: Origin) {
    match list.iter_mut().find(|(known, _)| *known == text) {
        // An entry that a person wrote counts as theirs, even if it is also a default.
        Some((_, known)) if known.layer == Layer::Builtin => *known = origin,
        Some(_) => {}
        None => list.push((text, origin)),
    }
}

/// Says whether a pattern spells out a program that runs what the project brings along, or a file of the project.
fn names_runner(pattern: &CommandPattern) -> bool {
    pattern.first_words().unwrap_or_default().iter().any(|word| {
        let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let relative = word.contains(&b'/') && !word.starts_with(b"/");
        relative || listed(&knowledge().runners, name)
    })
}

#[cfg(test)]
mod tests;
