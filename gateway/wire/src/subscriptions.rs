//! Subscriptions to the records of the log, as they go over the socket.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::errors::Failure;

/// The kinds of records that are told.
pub const KINDS: [&str; 10] = [
    "policy_load",
    "decision",
    "approval",
    "connection",
    "result",
    "grant",
    "hooks",
    "session",
    "gap",
    "segment",
];

/// A request for records: those from a number or a time on, or those that are yet to come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscribeRequest {
    /// The number of the first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The time of the first record, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Kinds of records, of [`KINDS`]; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Go on with records that are written later.
    #[serde(default)]
    pub follow: bool,
}

/// The answer to a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeAnswer {
    /// The number of the first record there, or of the next one that is written.
    pub next: u64,
}

/// Message to a subscriber.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A record, as it is stored.
    Record(Value),
    /// Records that are left out, because the subscriber did not keep up.
    Gap {
        /// Number of the first one.
        first: u64,
        /// Number of the last one.
        last: u64,
        /// How many of them were for this subscriber.
        count: u64,
    },
    /// All that was written before was told; what follows is told as it is written.
    CaughtUp {},
    /// The subscription ends here: with an error, or because nothing is to follow.
    Ended {
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
}
