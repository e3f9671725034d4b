//! Types that requests, answers and background tasks have in common.

use serde::{Deserialize, Serialize};

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// Input that a front end gives a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Bytes for standard input; base64 on the wire.
    Stdin(#[serde(with = "base64_bytes")] Vec<u8>),
    /// Standard input ends.
    StdinEnd,
}

/// Where the record of a decision stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReference {
    /// Identity of the decision.
    pub decision_id: String,
    /// Its sequence number.
    pub sequence: u64,
}

pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

/// Protections that were enforced while a command ran, and those that were not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SandboxView {
    /// Names of protections that held.
    pub enforced: Vec<String>,
    /// Names of those that did not, or in part, each with its reason: `name: reason`.
    pub missing: Vec<String>,
    /// Access that the settings grant and the command did not get, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A connection that no rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionAsked {
    /// Host, as a rule spells it.
    pub host: String,
    /// Port.
    pub port: u16,
}
