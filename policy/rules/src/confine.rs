//! Settings of the sandbox as the rules of all layers make them: a rule about files or hosts is enforced there as well.

use std::path::{Path, PathBuf};

use crate::decision::Decision;
use crate::layer::{Layer, Origin};
use crate::normal::normal;
use crate::pattern::path::{Anchors, verbatim};
use crate::rule::{Rule, Specifier};
use crate::settings::SandboxSettings;
use crate::settings::merged::Rules;

/// Returns the sandbox settings with every path absolute, what Edit, Read and WebFetch rules add, and `further` working
/// directories as writable paths. Refusals begin at the places of `strict`, permissions at those of `loose`. A path may be a pattern
/// with `*` and `**`.
pub fn sandbox_settings(
    rules: &Rules,
    strict: &Anchors,
    loose: &Anchors,
    further: &[PathBuf],
) -> SandboxSettings {
    let mut sandbox = rules.settings().sandbox.clone();
    // A directory is not a pattern, whatever its name is.
    let verbatim = |anchors: &Anchors| {
        let all = |paths: &[PathBuf]| {
            paths.iter().map(|path| verbatim(&path.to_string_lossy()).into()).collect()
        };
        Anchors { places: all(&anchors.places), homes: all(&anchors.homes) }
    };
    let (strict_patterns, loose_patterns) = (verbatim(strict), verbatim(loose));
    for (list, anchors) in [
        (&mut sandbox.allow_write, loose),
        (&mut sandbox.allow_unix_sockets, loose),
        (&mut sandbox.deny_write, &strict_patterns),
        (&mut sandbox.deny_read, &strict_patterns),
        (&mut sandbox.allow_read, &loose_patterns),
    ] {
        for (path, origin) in std::mem::take(list) {
            for path in anchored(path, anchors) {
                push(list, path, &origin);
            }
        }
    }
    for rule in rules.rules() {
        let anchors = if rule.effect == Decision::Allow { loose } else { strict };
        join(&mut sandbox, rule, anchors);
    }
    for directory in further {
        let origin = directory_origin();
        push(&mut sandbox.allow_write, directory.to_string_lossy().into_owned(), &origin);
    }
    sandbox
}

fn directory_origin() -> Origin {
    Origin {
        layer: Layer::Builtin,
        file: "<additionalDirectories>".into(),
        line: 1,
        column: 1,
        pointer: "/permissions/additionalDirectories".to_owned(),
    }
}

fn join(sandbox: &mut SandboxSettings, rule: &Rule, anchors: &Anchors) {
    match (&rule.specifier, rule.effect) {
        (Specifier::Edit(pattern), Decision::Allow) => {
            // A writable place is one directory or file, not a pattern.
            for path in pattern.absolute(anchors) {
                if !path.contains(['*', '?', '[']) {
                    push(&mut sandbox.allow_write, path, &rule.origin);
                }
            }
        }
        (Specifier::Edit(pattern), Decision::Deny) => {
            for path in pattern.absolute(anchors) {
                push(&mut sandbox.deny_write, path, &rule.origin);
            }
        }
        (Specifier::Read(pattern), Decision::Deny) => {
            for path in pattern.absolute(anchors) {
                push(&mut sandbox.deny_read, path, &rule.origin);
            }
        }
        (Specifier::Domain(pattern), Decision::Allow) => {
            if sandbox.managed_domains_only && rule.origin.layer != Layer::Policy {
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

/// Returns what a path of a list stands for, once for each place at which it begins.
fn anchored(path: String, anchors: &Anchors) -> Vec<String> {
    let (bases, rest) = match (path.strip_prefix("~/"), path.strip_prefix("./")) {
        (Some(rest), _) => (&anchors.homes, rest),
        (None, Some(rest)) => (&anchors.places, rest),
        (None, None) if path == "~" => (&anchors.homes, ""),
        (None, None) => return vec![path],
    };
    let joined = |base: &PathBuf| normal(&base.join(Path::new(rest)));
    bases.iter().map(|base| joined(base).to_string_lossy().into_owned()).collect()
}

fn push(list: &mut Vec<(String, Origin)>, text: String, origin: &Origin) {
    match list.iter_mut().find(|(known, _)| *known == text) {
        Some((_, known)) if known.layer == Layer::Builtin => known.clone_from(origin),
        Some(_) => {}
        None => list.push((text, origin.clone())),
    }
}
