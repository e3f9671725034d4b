//! Effects of rules on the sandbox.

use std::path::{Path, PathBuf};

use crate::Decision;
use crate::Rules;
use crate::SandboxSettings;
use crate::decide::further_directories;
use crate::facts::Facts;
use crate::pattern::path::{Anchors, verbatim};
use crate::rule::{Rule, Specifier};
use crate::{Layer, Origin};

/// Returns the sandbox settings for one call: every path absolute, with what Edit, Read and WebFetch rules
/// add and the further working directories as writable paths. A path may be a pattern with `*` and `**`.
pub fn sandbox_settings(rules: &Rules, facts: &Facts) -> SandboxSettings {
    let mut sandbox = rules.settings().sandbox.clone();
    let (strict, loose) = (facts.anchors(Decision::Deny), facts.anchors(Decision::Allow));
    // A directory is not a pattern, whatever its name is.
    let verbatim = |anchors: &Anchors| {
        let all = |paths: &[PathBuf]| {
            paths.iter().map(|path| verbatim(&path.to_string_lossy()).into()).collect()
        };
        Anchors { places: all(&anchors.places), homes: all(&anchors.homes) }
    };
    let (strict_patterns, loose_patterns) = (verbatim(&strict), verbatim(&loose));
    for (list, anchors) in [
        (&mut sandbox.allow_write, &loose),
        (&mut sandbox.allow_unix_sockets, &loose),
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
        let anchors = if rule.effect == Decision::Allow { &loose } else { &strict };
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
    let joined = |base: &PathBuf| stockade_rules::normal(&base.join(Path::new(rest)));
    bases.iter().map(|base| joined(base).to_string_lossy().into_owned()).collect()
}

fn push(list: &mut Vec<(String, Origin)>, text: String, origin: &Origin) {
    match list.iter_mut().find(|(known, _)| *known == text) {
        Some((_, known)) if known.layer == Layer::Builtin => known.clone_from(origin),
        Some(_) => {}
        None => list.push((text, origin.clone())),
    }
}

#[cfg(test)]
mod tests {
    use crate::decide::tests::{facts, rules};
    use crate::{Host, Layer, NetworkRules, Reach, sandbox_settings};

    #[test]
    fn under_the_managed_lock_only_managed_hosts_count_and_nobody_is_asked() {
        let user = "{'permissions': {'allow': ['WebFetch(domain:u.other)']}, 'sandbox': {'network':
            {'allowedDomains': ['a.other'], 'deniedDomains': ['d.example'], 'strictAllowlist': false}}}";
        let policy =
            "{'permissions': {'allow': ['WebFetch(domain:w.example)']}, 'sandbox': {'network':
            {'allowManagedDomainsOnly': true, 'allowedDomains': ['*.example']}}}";
        let rules = rules(&[(Layer::User, user), (Layer::Policy, policy)]);
        let network = NetworkRules::new(&sandbox_settings(&rules, &facts()));
        let decided = |host: &str| match network.decide(&Host::parse(host.as_bytes()).unwrap(), 443)
        {
            Reach::Allowed { rule, names_port } => format!("allowed by {} {names_port}", rule.text),
            Reach::Denied(rule) => format!("denied by {}", rule.text),
            Reach::Unlisted => "unlisted".to_owned(),
        };
        assert_eq!(decided("a.example"), "allowed by *.example false");
        assert_eq!(decided("d.example"), "denied by d.example");
        assert_eq!(decided("w.example"), "allowed by *.example false");
        assert_eq!(network.never_asks, Some("sandbox.network.allowManagedDomainsOnly"));
        assert_eq!(decided("u.other"), "unlisted");
        assert_eq!(decided("a.other"), "unlisted");
    }

    #[test]
    fn a_refusal_in_the_home_holds_in_that_of_the_password_database_and_a_permission_in_neither() {
        let settings =
            "{'sandbox': {'filesystem': {'denyRead': ['~/.netrc'], 'allowWrite': ['~/x']}}}";
        let rules = rules(&[(Layer::User, settings)]);
        let facts = crate::Facts { homes: vec!["/h2".into()], ..facts() };
        let found = sandbox_settings(&rules, &facts);
        let texts = |list: &[(String, crate::Origin)]| -> Vec<String> {
            list.iter().map(|(text, _)| text.clone()).collect()
        };
        assert_eq!(texts(&found.deny_read), ["/h/.netrc", "/h2/.netrc"]);
        assert_eq!(texts(&found.allow_write), [""; 0]);
    }
}
