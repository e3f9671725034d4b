//! An answer tells how a call went, and which facts of a file the session may remember.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Content that a session has read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Known {
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub(crate) digest: String,
    /// Lines that were read, from and to, counted from 1.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// A piece of an answer that the model sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// The bytes, in base64.
        data: String,
    },
}

/// Facts that the session may remember of a file, so that a later edit can be held against them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The real path of the file.
    pub path: PathBuf,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub digest: String,
    /// Lines that the session knows now, from and to, counted from 1; empty leaves what was known before.
    pub ranges: Vec<(u64, u64)>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Answer {
    /// Content for the model; empty for a call that failed.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The result for programs, in the form that hooks and front ends know from Claude Code.
    #[serde(default)]
    pub result: Value,
    /// Facts that the session may remember.
    #[serde(default)]
    pub facts: Option<Facts>,
    /// Why the call failed.
    #[serde(default)]
    pub error: Option<String>,
}

impl Answer {
    pub(crate) fn text(text: impl Into<String>, result: Value) -> Answer {
        Answer { content: vec![Content::Text { text: text.into() }], result, ..Answer::default() }
    }
}
