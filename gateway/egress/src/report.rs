//! Outcome of the connections of a run: for the answer, for the line under the output, and for the record of the
//! result.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stockade_policy::{HostRule, Layer};

/// Most distinct refusals that are kept.
pub(super) const MOST: usize = 100;

/// Outcome of the connections of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Refused connections, in the order seen, each once.
    pub refused: Vec<Refused>,
    /// Hosts with ports that were reached.
    pub reached: BTreeSet<String>,
    /// The proxy did not start, or ended before its time.
    pub broken: Option<String>,
}

/// A connection that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// `host:port`; what the request was when it named no host.
    pub object: String,
    /// Why.
    pub cause: Cause,
    /// How often.
    pub count: u64,
}

/// Why a connection was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No rule matches the host, and nobody could be asked; `by` is the setting that forbids asking.
    Unlisted {
        /// Text of the allow rule that would be needed.
        rule: String,
        /// The setting that forbids asking.
        by: Option<&'static str>,
    },
    /// A rule denies it.
    Denied(Box<HostRule>),
    /// A person said no.
    Declined {
        /// Text of the allow rule that would be needed.
        rule: String,
    },
    /// The host leads to an address that is not one of the public network.
    Address {
        /// Value that the setting for such hosts would need.
        rule: String,
        /// Objection to the address.
        reason: String,
    },
    /// The traffic of the connection was not what was asked for.
    Traffic(String),
    /// The connection could not be recorded.
    Unrecorded(String),
}

/// How a setting would have to change.
struct Change<'c> {
    change: &'static str,
    setting: &'static str,
    value: &'c str,
    layer: &'static str,
}

impl Report {
    /// Notes a refusal.
    pub(super) fn refuse(&mut self, object: String, cause: Cause) {
        let same = |known: &&mut Refused| known.object == object && known.cause == cause;
        let room = self.refused.len() < MOST;
        match self.refused.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None if room => self.refused.push(Refused { object, cause, count: 1 }),
            None => {}
        }
    }
}

impl Cause {
    /// Returns why, as one sentence without an end.
    pub fn reason(&self) -> String {
        match self {
            Cause::Unlisted { by: None, .. } => "no rule matches this host".to_owned(),
            Cause::Unlisted { by: Some(setting), .. } => {
                format!("no rule matches this host, and `{setting}` forbids asking")
            }
            Cause::Denied(rule) => {
                let origin = &rule.origin;
                format!("`{}` denies it ({}:{})", rule.text, origin.file.display(), origin.line)
            }
            Cause::Declined { .. } => "a person denied it".to_owned(),
            Cause::Address { reason, .. } | Cause::Traffic(reason) => reason.clone(),
            Cause::Unrecorded(reason) => format!("it cannot be recorded: {reason}"),
        }
    }

    /// Returns a stable word for records.
    pub fn code(&self) -> &'static str {
        match self {
            Cause::Unlisted { .. } => "host_unlisted",
            Cause::Denied(_) => "host_denied",
            Cause::Declined { .. } => "declined",
            Cause::Address { .. } => "address_refused",
            Cause::Traffic(_) => "traffic_refused",
            Cause::Unrecorded(_) => "unrecorded",
        }
    }

    fn change(&self) -> Result<Change<'_>, &'static str> {
        const ALLOWED: &str = "sandbox.network.allowedDomains";
        let add = |setting, value| Change { change: "add", setting, value, layer: "local" };
        match self {
            Cause::Unlisted { by: Some("sandbox.network.allowManagedDomainsOnly"), .. } => {
                Err("only the managed settings can allow a host")
            }
            Cause::Unlisted { rule, .. } | Cause::Declined { rule } => Ok(add(ALLOWED, rule)),
            Cause::Denied(rule) if rule.origin.layer == Layer::Policy => {
                Err("the managed settings deny it")
            }
            Cause::Denied(rule) => Ok(Change {
                change: "remove",
                setting: match rule.origin.pointer.contains("/permissions/") {
                    true => "permissions.deny",
                    false => "sandbox.network.deniedDomains",
                },
                value: &rule.text,
                layer: rule.origin.layer.name(),
            }),
            Cause::Address { rule, .. } => Ok(add("sandbox.network.allowPrivate", rule)),
            Cause::Traffic(_) => {
                Err("the traffic of a connection must be for the host that was allowed")
            }
            Cause::Unrecorded(_) => Err("the log must be writable"),
        }
    }

    /// Returns what would allow it, as one line; or why nothing would.
    pub fn remedy(&self) -> String {
        match self.change() {
            Ok(change) => format!("to allow: {}", change.text()),
            Err(why) => why.to_owned(),
        }
    }
}

impl Change<'_> {
    fn text(&self) -> String {
        let Change { change, setting, value, layer } = self;
        let value = json!([value]);
        match *change {
            "remove" => format!("remove {value} from {setting} ({layer} settings)"),
            _ => format!("{setting}: {value} ({layer} settings)"),
        }
    }
}

impl Refused {
    /// Returns it as the answer of a run shows it.
    pub fn view(&self) -> Value {
        let rule = match &self.cause {
            Cause::Denied(rule) => Some(rule),
            Cause::Unlisted { .. }
            | Cause::Declined { .. }
            | Cause::Address { .. }
            | Cause::Traffic(_)
            | Cause::Unrecorded(_) => None,
        };
        let (remedy, why_not) = match self.cause.change() {
            Ok(change) => {
                let text = self.cause.remedy();
                let Change { change, setting, value, layer } = change;
                let remedy = json!({
                    "change": change, "setting": setting, "value": [value], "layer": layer, "text": text,
                });
                (remedy, Value::Null)
            }
            Err(why) => (Value::Null, Value::from(why)),
        };
        json!({
            "kind": "network",
            "syscall": "connect",
            "path_or_host": self.object,
            "errno": 0,
            "pid": 0,
            "program": "",
            "rule": rule.map_or("no rule", |rule| rule.text.as_str()),
            "file": rule.map(|rule| rule.origin.file.display().to_string()),
            "line": rule.map(|rule| rule.origin.line),
            "reason": self.cause.reason(),
            "remedy": remedy,
            "why_not": why_not,
            "count": self.count,
            "source": "proxy",
        })
    }

    /// Returns the line under the output of a command, with how many more refusals there are.
    pub fn footer(&self, more: usize) -> String {
        let more = match more {
            0 => String::new(),
            count => format!(" (+{count} more, see violations)"),
        };
        format!(
            "stockade: refused connection to {}: {}; {}{more}",
            self.object,
            self.cause.reason(),
            self.cause.remedy()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(cause: Cause, footer: Expect, remedy: Expect) {
        let refused = Refused { object: "a.example:443".to_owned(), cause, count: 1 };
        footer.assert_eq(&refused.footer(0));
        let view = refused.view();
        remedy.assert_eq(&match view["why_not"].as_str() {
            Some(why) => why.to_owned(),
            None => format!("{} {}", view["rule"], view["remedy"]),
        });
    }

    #[test]
    fn a_refusal_names_host_rule_and_the_line_that_would_allow_it() {
        check(
            Cause::Unlisted { rule: "a.example".into(), by: None },
            expect![[
                r#"stockade: refused connection to a.example:443: no rule matches this host; to allow: sandbox.network.allowedDomains: ["a.example"] (local settings)"#
            ]],
            expect![[
                r#""no rule" {"change":"add","setting":"sandbox.network.allowedDomains","value":["a.example"],"layer":"local","text":"to allow: sandbox.network.allowedDomains: [\"a.example\"] (local settings)"}"#
            ]],
        );
        check(
            Cause::Unlisted {
                rule: "a.example".into(),
                by: Some("sandbox.network.allowManagedDomainsOnly"),
            },
            expect![
                "stockade: refused connection to a.example:443: no rule matches this host, and `sandbox.network.allowManagedDomainsOnly` forbids asking; only the managed settings can allow a host"
            ],
            expect!["only the managed settings can allow a host"],
        );
        check(
            Cause::Address { rule: "a.example".into(), reason: "it is a private address".into() },
            expect![[
                r#"stockade: refused connection to a.example:443: it is a private address; to allow: sandbox.network.allowPrivate: ["a.example"] (local settings)"#
            ]],
            expect![[
                r#""no rule" {"change":"add","setting":"sandbox.network.allowPrivate","value":["a.example"],"layer":"local","text":"to allow: sandbox.network.allowPrivate: [\"a.example\"] (local settings)"}"#
            ]],
        );
    }

    #[test]
    fn the_same_refusal_is_counted_and_there_is_an_end() {
        let mut report = Report::default();
        for _ in 0..3 {
            report.refuse("a".into(), Cause::Traffic("x".into()));
        }
        assert_eq!(report.refused.len(), 1);
        assert_eq!(report.refused[0].count, 3);
        for number in 0..200 {
            report.refuse(number.to_string(), Cause::Traffic("x".into()));
        }
        assert_eq!(report.refused.len(), MOST);
    }
}
