//! The records of connections.

use std::net::IpAddr;

use stockade_policy::HostRule;

use super::asking::Key;
use super::{Ending, Open, Permission, Session};
use crate::messages::Way;
use crate::report::{Cause, Report};
use stockade_log::record::connection::{Action, Bytes, Connection, Rule, Target, Verdict};
use stockade_log::record::{Body, Who};

/// Distinct refusals that get a record each; of the rest only the number is recorded.
const MOST: usize = 1_000;

fn rule(rule: &HostRule, effect: &'static str) -> Rule {
    Rule {
        text: rule.text.clone().into(),
        effect,
        layer: rule.origin.layer.name(),
        file: rule.origin.file.as_path().into(),
        line: rule.origin.line,
        pointer: rule.origin.pointer.clone(),
        file_sha256: None,
        part: 0,
        decisive: true,
    }
}

impl Session<'_> {
    fn bare(&self, number: u64, way: Way, to: Target, action: Action) -> Connection {
        Connection {
            reference: self.broker.decision.id.clone(),
            action,
            number,
            way: way.name(),
            to,
            addresses: Vec::new(),
            verdict: Verdict {
                decision: "allow",
                by: "rule",
                code: "host_listed",
                reason: String::new().into(),
            },
            rules: Vec::new(),
            who: None,
            count: 1,
            bytes: None,
            duration_us: None,
        }
    }

    fn granted(&self, number: u64, open: &Open, action: Action) -> Connection {
        let to = Target { host: open.host.to_string().into(), port: open.port };
        let mut record = self.bare(number, open.way, to, action);
        match &open.grant {
            Permission::Rule(found) => record.rules.push(rule(found, "allow")),
            Permission::Person => {
                record.verdict.by = "human";
                record.verdict.code = "host_allowed_by_person";
                record.who = Some(stockade_log::record::who());
            }
        }
        record
    }

    /// Writes down that a connection is about to be made; returns why it cannot be.
    pub(super) async fn record_opened(&self, number: u64, open: &Open) -> Result<(), String> {
        let mut record = self.granted(number, open, Action::Opened);
        record.addresses = open.addresses.iter().map(IpAddr::to_string).collect();
        let recorded = self.broker.log.record(Body::Connection(Box::new(record))).await;
        recorded.map(drop).map_err(|error| error.to_string())
    }

    /// Writes down what a connection carried.
    pub(super) async fn record_closed(&mut self, number: u64, open: &Open, ending: Ending) {
        let Ending { address, sent, received, refused, failed } = ending;
        let mut record = self.granted(number, open, Action::Closed);
        record.addresses = address.iter().map(IpAddr::to_string).collect();
        if let Some(reason) = refused {
            let code = "traffic_refused";
            record.verdict =
                Verdict { decision: "deny", by: "builtin", code, reason: reason.into() };
        } else if let Some(reason) = failed {
            record.verdict.reason = reason.into();
        }
        record.bytes = Some(Bytes { sent, received });
        record.duration_us = u64::try_from(open.started.elapsed().as_micros()).ok();
        self.write(record).await;
    }

    /// Writes a refusal down, once for each host, way and reason.
    pub(super) async fn refuse(
        &mut self,
        key: Option<&Key>,
        way: Way,
        object: String,
        cause: Cause,
    ) {
        self.report.refuse(object.clone(), cause.clone());
        let known = (object.clone(), way, cause.code().to_owned());
        if let Some(count) = self.repeated.get_mut(&known) {
            *count += 1;
            return;
        }
        if self.repeated.len() >= MOST {
            let rest = (String::new(), way, "further".to_owned());
            *self.repeated.entry(rest).or_default() += 1;
            return;
        }
        self.repeated.insert(known, 0);
        let to = match key {
            Some((host, port)) => Target { host: host.to_string().into(), port: *port },
            None => Target { host: String::new().into(), port: 0 },
        };
        let mut record = self.bare(0, way, to, Action::Refused);
        let who: Option<Who> =
            matches!(cause, Cause::Declined { .. }).then(stockade_log::record::who);
        record.verdict = Verdict {
            decision: "deny",
            by: match &cause {
                Cause::Denied(_) => "rule",
                Cause::Declined { .. } => "human",
                Cause::Unlisted { .. } => "default",
                Cause::Address { .. } | Cause::Traffic(_) => "builtin",
                Cause::Unrecorded(_) => "error",
            },
            code: cause.code(),
            reason: cause.reason().into(),
        };
        if let Cause::Denied(found) = &cause {
            record.rules.push(rule(found, "deny"));
        }
        record.who = who;
        self.write(record).await;
    }

    /// Writes down how often what was refused was tried again, and gives up the report.
    pub(super) async fn finish(mut self) -> Report {
        let mut repeated: Vec<_> = std::mem::take(&mut self.repeated).into_iter().collect();
        repeated.retain(|(_, count)| *count > 0);
        repeated.sort();
        for ((object, way, code), count) in repeated {
            let to = Target { host: object.into(), port: 0 };
            let mut record = self.bare(0, way, to, Action::Refused);
            let reason = format!("tried again: {code}");
            record.verdict = Verdict {
                decision: "deny",
                by: "builtin",
                code: "repeated",
                reason: reason.into(),
            };
            record.count = count;
            self.write(record).await;
        }
        self.report
    }

    /// Writes a record of which nothing depends any more; that it fails is told with the result.
    async fn write(&mut self, record: Connection) {
        if let Err(error) = self.broker.log.record(Body::Connection(Box::new(record))).await {
            self.report.broken = Some(format!("a connection could not be recorded: {error}"));
        }
    }
}
