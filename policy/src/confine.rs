//! What rules say to the sandbox.

use std::path::Path;

use crate::decide::further_directories;
use crate::facts::Facts;
use crate::layer::Origin;
use crate::merged::Rules;
use crate::pattern::path::{Anchors, verbatim};
use crate::rule::{Rule, Specifier};
use crate::settings::SandboxSettings;
use crate::verdict::Decision;

/// Returns the sandbox settings for one call: every path absolute, with what Edit, Read and WebFetch rules
/// add and the further working directories as writable paths. A path may be a pattern with `*` and `**`.
pub fn sandbox_settings(rules: &Rules, facts: &Facts) -> SandboxSettings {
    let mut sandbox = rules.settings().sandbox.clone();
    let home = facts.home.to_string_lossy();
    // The home directory is no pattern, whatever its name is.
    let as_pattern = verbatim(&home);
    for (list, home) in [
        (&mut sandbox.allow_write, home.as_ref()),
        (&mut sandbox.allow_unix_sockets, home.as_ref()),
        (&mut sandbox.deny_write, &as_pattern),
        (&mut sandbox.deny_read, &as_pattern),
        (&mut sandbox.allow_read, &as_pattern),
    ] {
        for (path, _) in list.iter_mut() {
            *path = at_home(path, Path::new(home));
        }
    }
    let anchors = Anchors { cwd: facts.anchor(), home: &facts.home };
    for rule in rules.rules() {
        join(&mut sandbox, rule, anchors);
    }
    for directory in further_directories(rules, facts) {
        let origin = directory_origin();
        push(&mut sandbox.allow_write, directory.to_string_lossy().into_owned(), &origin);
    }
    sandbox
}

fn directory_origin() -> Origin {
    Origin {
        layer: crate::layer::Layer::Builtin,
        file: "<additionalDirectories>".into(),
        line: 1,
        column: 1,
        pointer: "/permissions/additionalDirectories".to_owned(),
    }
}

fn join(sandbox: &mut SandboxSettings, rule: &Rule, anchors: Anchors<'_>) {
    match (&rule.specifier, rule.effect) {
        (Specifier::Edit(pattern), Decision::Allow) => {
            let path = pattern.absolute(anchors);
            // A writable place is one directory or file, not a pattern.
            if !path.contains(['*', '?', '[']) {
                push(&mut sandbox.allow_write, path, &rule.origin);
            }
        }
        (Specifier::Edit(pattern), Decision::Deny) => {
            push(&mut sandbox.deny_write, pattern.absolute(anchors), &rule.origin);
        }
        (Specifier::Read(pattern), Decision::Deny) => {
            push(&mut sandbox.deny_read, pattern.absolute(anchors), &rule.origin);
        }
        (Specifier::Domain(pattern), Decision::Allow) => {
            if sandbox.managed_domains_only && rule.origin.layer != crate::layer::Layer::Policy {
                return;
            }
            push(&mut sandbox.allowed_domains, pattern.text(), &rule.origin);
        }
        (Specifier::Domain(pattern), Decision::Deny) => {
            push(&mut sandbox.denied_domains, pattern.text(), &rule.origin);
        }
        (
            Specifier::Edit(_)
            | Specifier::Read(_)
            | Specifier::Domain(_)
            | Specifier::Every
            | Specifier::EveryOf(_)
            | Specifier::Command(_)
            | Specifier::Name(_)
            | Specifier::Parameter(..)
            | Specifier::Malformed,
            _,
        ) => {}
    }
}

fn at_home(path: &str, home: &Path) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest).to_string_lossy().into_owned(),
        None if path == "~" => home.to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

fn push(list: &mut Vec<(String, Origin)>, text: String, origin: &Origin) {
    if !list.iter().any(|(known, _)| *known == text) {
        list.push((text, origin.clone()));
    }
}
