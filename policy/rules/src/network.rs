//! Hosts that a confined command may reach: one reading of names for rules, requests, `Host` fields and TLS
//! server names, and what the rules say about a host and about each address behind it.

mod address;
pub mod name;

use std::net::IpAddr;

use crate::layer::Origin;
use crate::pattern::domain::DomainPattern;
use crate::settings::SandboxSettings;
use name::{Host, HostError, HostName};

/// Ports of a rule that names none.
const WEB_PORTS: [u16; 2] = [80, 443];

/// A rule about hosts, such as `example.com`, `*.example.com:8443` or `[2001:db8::1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// The rule as it is written.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
    pattern: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Names(DomainPattern),
    Address(IpAddr),
}

/// Decision of the rules about a host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Reach<'r> {
    /// An allow rule covers it, and no deny rule.
    Allowed {
        /// The rule.
        rule: &'r HostRule,
        /// True if the rule names this port: the protocol there need not be TLS.
        names_port: bool,
    },
    /// A deny rule covers it.
    Denied(&'r HostRule),
    /// No rule covers it.
    Unlisted,
}

/// The rules about hosts of one call.
#[derive(Debug, Clone, Default)]
pub struct NetworkRules {
    allow: Vec<HostRule>,
    deny: Vec<HostRule>,
    private: Vec<HostRule>,
    /// Why nobody is asked about a host that is not listed: the setting that says so.
    pub never_asks: Option<&'static str>,
}

impl HostRule {
    /// Reads a rule: `host`, `*.host` (not the host itself), `*`, an address, each with an optional port. An
    /// IPv6 address stands in brackets.
    pub fn new(text: &str, origin: Origin) -> Result<HostRule, HostError> {
        let (pattern, port) = read(text)?;
        Ok(HostRule { text: text.to_owned(), origin, pattern, port })
    }

    /// Reads a pattern of a `WebFetch(domain:…)` rule, which may have a `*` inside of a label.
    fn of_pattern(text: &str, origin: &Origin) -> Result<HostRule, HostError> {
        if let Ok(rule) = HostRule::new(text, origin.clone()) {
            return Ok(rule);
        }
        let names = DomainPattern::new(text).map_err(|_| HostError::Character)?;
        if !text.contains('*') || !text.is_ascii() {
            return Err(HostError::Character);
        }
        let pattern = HostPattern::Names(names);
        Ok(HostRule { text: text.to_owned(), origin: origin.clone(), pattern, port: None })
    }

    /// A rule that covers every host: what a deny rule is that cannot be read.
    fn every(text: &str, origin: &Origin) -> Option<HostRule> {
        let pattern = HostPattern::Names(DomainPattern::new("*").ok()?);
        Some(HostRule { text: text.to_owned(), origin: origin.clone(), pattern, port: None })
    }

    fn names(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (HostPattern::Names(pattern), Host::Name(name)) => pattern.matches(name.as_str()),
            // `*` is every host; no other name is an address.
            (HostPattern::Names(pattern), Host::Address(_)) => pattern.is_every(),
            (HostPattern::Address(own), Host::Address(address)) => own == address,
            (HostPattern::Address(_), Host::Name(_)) => false,
        }
    }

    fn allows(&self, host: &Host, port: u16) -> bool {
        self.names(host) && self.port.map_or(WEB_PORTS.contains(&port), |own| own == port)
    }

    /// A rule that denies and names no port denies every port.
    fn denies(&self, host: &Host, port: u16) -> bool {
        self.names(host) && self.port.is_none_or(|own| own == port)
    }
}

fn read(text: &str) -> Result<(HostPattern, Option<u16>), HostError> {
    if text == "*" {
        let every = DomainPattern::new("*").map_err(|_| HostError::Character)?;
        return Ok((HostPattern::Names(every), None));
    }
    let (host, port) = name::split_port(text.as_bytes())?;
    let host = std::str::from_utf8(host).map_err(|_| HostError::Character)?;
    let pattern = |text: &str| {
        DomainPattern::new(text).map(HostPattern::Names).map_err(|_| HostError::Character)
    };
    if let Some(rest) = host.strip_prefix("*.") {
        let rest = HostName::of_settings(rest)?;
        return Ok((pattern(&format!("*.{}", rest.as_str()))?, port));
    }
    if host.is_ascii() {
        return match Host::parse(host.as_bytes())? {
            Host::Address(address) => Ok((HostPattern::Address(address), port)),
            Host::Name(name) => Ok((pattern(name.as_str())?, port)),
        };
    }
    Ok((pattern(HostName::of_settings(host)?.as_str())?, port))
}

impl NetworkRules {
    /// Compiles the rules of settings. An allow rule that cannot be read allows nothing; a deny rule that
    /// cannot be read denies everything.
    pub fn new(sandbox: &SandboxSettings) -> NetworkRules {
        let read = |list: &[(String, Origin)]| -> Vec<HostRule> {
            let rules = list.iter().map(|(text, origin)| HostRule::of_pattern(text, origin));
            rules.filter_map(Result::ok).collect()
        };
        let deny = sandbox.denied_domains.iter().filter_map(|(text, origin)| {
            HostRule::of_pattern(text, origin).ok().or_else(|| HostRule::every(text, origin))
        });
        NetworkRules {
            allow: read(&sandbox.allowed_domains),
            deny: deny.collect(),
            private: read(&sandbox.allow_private),
            never_asks: match (sandbox.managed_domains_only, sandbox.strict_allowlist) {
                (true, _) => Some("sandbox.network.allowManagedDomainsOnly"),
                (false, true) => Some("sandbox.network.strictAllowlist"),
                (false, false) => None,
            },
        }
    }

    /// Decides about a host and port; a deny rule beats every allow rule.
    pub fn decide(&self, host: &Host, port: u16) -> Reach<'_> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.denies(host, port)) {
            return Reach::Denied(rule);
        }
        let mut allowing = self.allow.iter().filter(|rule| rule.allows(host, port));
        match allowing.clone().find(|rule| rule.port.is_some()).or_else(|| allowing.next()) {
            Some(rule) => Reach::Allowed { rule, names_port: rule.port.is_some() },
            None => Reach::Unlisted,
        }
    }

    /// Says why `address`, which `host` resolved to, may not be dialled on `port`; none when it may.
    pub fn objection(&self, host: &Host, address: IpAddr, port: u16) -> Option<String> {
        let literal = Host::Address(address);
        let denies = |rule: &&HostRule| {
            matches!(rule.pattern, HostPattern::Address(_)) && rule.denies(&literal, port)
        };
        if let Some(rule) = self.deny.iter().find(denies) {
            return Some(format!("the rule `{}` denies it", rule.text));
        }
        let kind = address::special(address)?;
        let named = |rule: &HostRule| {
            matches!(rule.pattern, HostPattern::Address(_)) && rule.allows(&literal, port)
        };
        let private = |rule: &HostRule| rule.names(host) || rule.names(&literal);
        let permitted = self.allow.iter().any(named) || self.private.iter().any(private);
        (!permitted).then(|| format!("it is {kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            layer: crate::layer::Layer::User,
            file: "s.json".into(),
            line: 1,
            column: 1,
            pointer: String::new(),
        }
    }

    fn rules(allow: &[&str], deny: &[&str], private: &[&str]) -> NetworkRules {
        let list = |texts: &[&str]| texts.iter().map(|it| (it.to_string(), origin())).collect();
        NetworkRules::new(&SandboxSettings {
            allowed_domains: list(allow),
            denied_domains: list(deny),
            allow_private: list(private),
            ..SandboxSettings::default()
        })
    }

    fn check(rules: &NetworkRules, host: &str, port: u16, expected: &str) {
        let said = match rules.decide(&Host::parse(host.as_bytes()).unwrap(), port) {
            Reach::Allowed { rule, names_port: false } => format!("allowed by {}", rule.text),
            Reach::Allowed { rule, names_port: true } => format!("anything by {}", rule.text),
            Reach::Denied(rule) => format!("denied by {}", rule.text),
            Reach::Unlisted => "unlisted".to_owned(),
        };
        assert_eq!(said, expected, "{host}:{port}");
    }

    #[test]
    fn a_rule_names_a_host_or_what_is_below_it_and_the_web_ports() {
        let rules =
            rules(&["Example.com.", "*.docs.example", "git.example:22", "1.2.3.4"], &[], &[]);
        check(&rules, "example.com", 443, "allowed by Example.com.");
        check(&rules, "EXAMPLE.COM.", 80, "allowed by Example.com.");
        check(&rules, "example.com", 8080, "unlisted");
        check(&rules, "a.example.com", 443, "unlisted");
        check(&rules, "example.com.evil.net", 443, "unlisted");
        check(&rules, "a.b.docs.example", 443, "allowed by *.docs.example");
        check(&rules, "docs.example", 443, "unlisted");
        check(&rules, "evildocs.example", 443, "unlisted");
        check(&rules, "git.example", 22, "anything by git.example:22");
        check(&rules, "git.example", 443, "unlisted");
        check(&rules, "1.2.3.4", 443, "allowed by 1.2.3.4");
        check(&rules, "1.2.3.5", 443, "unlisted");
    }

    #[test]
    fn deny_beats_allow_and_names_every_port() {
        let rules = rules(&["*.example", "a.example:22", "*"], &["a.example", "b.example:22"], &[]);
        check(&rules, "a.example", 22, "denied by a.example");
        check(&rules, "a.example", 443, "denied by a.example");
        check(&rules, "b.example", 22, "denied by b.example:22");
        check(&rules, "b.example", 443, "allowed by *.example");
        check(&rules, "else.net", 443, "allowed by *");
    }

    #[test]
    fn a_deny_rule_that_cannot_be_read_denies_everything() {
        check(&rules(&["*"], &["a b"], &[]), "example.com", 443, "denied by a b");
        check(&rules(&["a b"], &[], &[]), "example.com", 443, "unlisted");
    }

    #[test]
    fn patterns_of_web_fetch_rules_keep_their_meaning() {
        let rules = rules(&["example.*"], &["bücher.example"], &[]);
        check(&rules, "example.org", 443, "allowed by example.*");
        check(&rules, "example.evil.com", 443, "unlisted");
        check(&rules, "xn--bcher-kva.example", 443, "denied by bücher.example");
    }

    #[test]
    fn a_private_address_needs_a_rule_that_names_it() {
        let name = Host::parse(b"db.example").unwrap();
        let address: IpAddr = "10.0.0.5".parse().unwrap();
        let said = |rules: &NetworkRules, port| rules.objection(&name, address, port);
        let refused = Some("it is a private address".to_owned());
        assert_eq!(said(&rules(&["db.example"], &[], &[]), 443), refused);
        assert_eq!(said(&rules(&["*"], &[], &[]), 443), refused);
        assert_eq!(said(&rules(&["db.example", "10.0.0.5"], &[], &[]), 443), None);
        assert_eq!(said(&rules(&["db.example", "10.0.0.5"], &[], &[]), 5432), refused);
        assert_eq!(said(&rules(&["db.example"], &[], &["*.example"]), 443), None);
        let denied = rules(&["10.0.0.5"], &["10.0.0.5"], &[]);
        assert_eq!(said(&denied, 443), Some("the rule `10.0.0.5` denies it".to_owned()));
        let public = "93.184.216.34".parse().unwrap();
        assert_eq!(rules(&[], &[], &[]).objection(&name, public, 443), None);
    }

    fn loaded(layer: crate::Layer, trusted: bool, text: &str) -> (SandboxSettings, Vec<String>) {
        let text = crate::SettingsText {
            layer,
            file: "s.json".into(),
            text: text.as_bytes().to_vec(),
            anchor: "/p".into(),
            trusted,
            above: false,
        };
        let loaded = crate::load(&[text]);
        let told = loaded.problems.iter();
        let told = told.map(|it| format!("{:?} {}: {}", it.severity, it.text, it.message));
        (loaded.rules.settings().sandbox.clone(), told.collect())
    }

    #[test]
    fn settings_that_name_no_host_are_told_and_a_deny_rule_refuses_the_file() {
        let text =
            r#"{"sandbox": {"network": {"allowedDomains": ["a.example", "https://a.example/"]}}}"#;
        let (sandbox, told) = loaded(crate::Layer::User, true, text);
        assert_eq!(sandbox.allowed_domains.len(), 1);
        let character = "invalid host: the port must be a number from 1 to 65535";
        assert_eq!(told, [format!("Warning \"https://a.example/\": {character}")]);
        let text = r#"{"sandbox": {"network": {"deniedDomains": ["https://a.example/"]}}}"#;
        let (_, told) = loaded(crate::Layer::User, true, text);
        assert_eq!(told, [format!("Refusal \"https://a.example/\": {character}")]);
    }

    #[test]
    fn what_widens_waits_for_trust_and_what_tightens_does_not() {
        let text = r#"{"sandbox": {"network": {"allowedDomains": ["a.example"], "allowPrivate": ["a.example"],
            "deniedDomains": ["b.example"], "strictAllowlist": true, "enabled": false}}}"#;
        let (sandbox, told) = loaded(crate::Layer::Project, false, text);
        assert_eq!((sandbox.allowed_domains.len(), sandbox.allow_private.len()), (0, 0));
        assert_eq!(sandbox.denied_domains.len(), 1);
        assert!(sandbox.strict_allowlist && sandbox.network_off.is_some());
        assert_eq!(told.len(), 2, "{told:?}");
        let (sandbox, _) = loaded(crate::Layer::Project, true, text);
        assert_eq!((sandbox.allowed_domains.len(), sandbox.allow_private.len()), (1, 1));
    }
}
