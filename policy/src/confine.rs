//! Effects of rules on the sandbox.

use std::path::PathBuf;

use crate::facts::Facts;
use crate::{Decision, Rules, SandboxSettings};

/// Returns the sandbox settings for one call: those of [`stockade_rules::sandbox_settings`] at the places of the call.
pub fn sandbox_settings(rules: &Rules, facts: &Facts) -> SandboxSettings {
    let (strict, loose) = (facts.anchors(Decision::Deny), facts.anchors(Decision::Allow));
    stockade_rules::sandbox_settings(rules, &strict, &loose, &further_directories(rules, facts))
}

/// Returns the further working directories of the settings, absolute.
pub(crate) fn further_directories(rules: &Rules, facts: &Facts) -> Vec<PathBuf> {
    let homes = facts.anchors(Decision::Allow).homes;
    let absolute = |path: &PathBuf| match path.strip_prefix("~") {
        Ok(rest) => homes.first().map(|home| home.join(rest)),
        Err(_) => Some(path.clone()),
    };
    rules.settings().additional_directories.iter().filter_map(absolute).collect()
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
