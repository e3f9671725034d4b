//! Log records: one for each record, with what telemetry may say of it.

use serde_json::json;

use crate::record::{Attributes, Include, Record};
use crate::span::Trace;

/// How serious a log record is, as OpenTelemetry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Info = 9,
    Warn = 13,
    Error = 17,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Info => "INFO",
            Severity::Warn => "WARN",
            Severity::Error => "ERROR",
        }
    }
}

/// A log record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) severity: Severity,
    pub(crate) event: String,
    pub(crate) body: String,
    pub(crate) attributes: Attributes,
    /// Trace and span to which it belongs.
    pub(crate) belongs: Option<(Trace, String)>,
}

impl Log {
    /// Returns the log record of a record; none for the heads of segments, which say nothing about a call.
    pub(crate) fn of(
        record: Record<'_>,
        include: &[Include],
        belongs: Option<(Trace, String)>,
    ) -> Option<Log> {
        let kind = record.kind();
        let word = |keys: &[&str]| record.text(keys).unwrap_or("unknown");
        let (severity, word) = match kind {
            "segment" => return None,
            "decision" => match word(&["verdict", "decision"]) {
                "deny" => (Severity::Warn, "deny"),
                other => (Severity::Info, other),
            },
            "approval" => match word(&["answer"]) {
                _ if record.text(&["break_glass"]).is_some() => (Severity::Error, "break_glass"),
                "deny" => (Severity::Warn, "deny"),
                other => (Severity::Info, other),
            },
            "connection" => match word(&["action"]) {
                "refused" => (Severity::Warn, "refused"),
                other => (Severity::Info, other),
            },
            "result" => (Severity::Info, record.outcome()),
            "gap" => (Severity::Error, word(&["reason"])),
            "grant" => (Severity::Info, word(&["action"])),
            "hooks" => (Severity::Info, word(&["event"])),
            "session" => (Severity::Info, word(&["action"])),
            _ => (Severity::Info, "read"),
        };
        let mut attributes = vec![
            ("stockade.record.kind".to_owned(), json!(kind)),
            ("stockade.record.seq".to_owned(), json!(record.seq())),
            ("stockade.record.id".to_owned(), json!(record.id())),
        ];
        if let Some(reference) = record.reference() {
            attributes.push(("stockade.record.ref".to_owned(), json!(reference)));
        }
        attributes.extend(record.attributes(include));
        Some(Log {
            time: record.time(&["time"]).unwrap_or_default(),
            severity,
            event: format!("stockade.{kind}"),
            body: format!("{kind}: {word}"),
            attributes,
            belongs,
        })
    }

    /// Returns the log record that says that the task of a session is completed, as a record tells.
    pub(crate) fn completed(
        record: Record<'_>,
        source: &str,
        belongs: Option<(Trace, String)>,
    ) -> Log {
        let mut attributes = record.attributes(&[]);
        attributes.retain(|(name, _)| name == "session.id");
        attributes.push(("source".to_owned(), json!(source)));
        Log {
            time: record.time(&["time"]).unwrap_or_default(),
            severity: Severity::Info,
            event: "task.completed".to_owned(),
            body: format!("task completed: {source}"),
            attributes,
            belongs,
        }
    }

    /// Returns the log record that names records which are not sent.
    pub(crate) fn missing(time: u64, reason: &str, first: u64) -> Log {
        Log {
            time,
            severity: Severity::Error,
            event: "stockade.telemetry.gap".to_owned(),
            body: format!("telemetry: {reason}"),
            attributes: vec![
                ("stockade.gap.reason".to_owned(), json!(reason)),
                ("stockade.gap.first".to_owned(), json!(first)),
            ],
            belongs: None,
        }
    }
}
