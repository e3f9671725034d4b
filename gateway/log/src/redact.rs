//! Secrets: found by grammar and by shape, masked before anything is stored.

mod grammar;
mod known;
pub(super) mod mask;
mod rules;
mod visit;

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use stockade_parser::{CommandTree, Limits, Programs, StartState, parse};

use super::hash::hex;
use super::keys::RedactKey;
use grammar::{Found, SecretPosition};
use known::Known;
use mask::Extras;
use rules::{Rules, Spot};
pub(super) use visit::pointer_part;

/// Output shorter than this gets a keyed digest: a short output may be a secret that can be guessed.
const GUESSABLE: usize = 1024;

/// Finds and masks secrets, and makes digests that tell nothing to those without the key.
#[derive(Debug, Clone)]
pub struct Redactor {
    key: RedactKey,
    rules: Arc<Rules>,
}

impl Redactor {
    /// Returns the redactor with the rules that ship; an error names the rule that cannot be used.
    pub(super) fn new(key: RedactKey) -> Result<Redactor, String> {
        Ok(Redactor { key, rules: Arc::new(Rules::built_in()?) })
    }

    /// Returns the key, for a gateway whose log another process keeps.
    pub(super) fn key_bytes(&self) -> [u8; 32] {
        self.key.bytes()
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the tag of `value` as it stands in masks.
    pub fn tag(&self, value: &[u8]) -> String {
        self.key.tag(value)
    }

    /// Returns the keyed digest of `value`: `hmac:KEYID:HEX64`.
    pub fn digest(&self, value: &[u8]) -> String {
        self.key.digest(value)
    }

    /// Returns the digest of a stream that is wholly known: keyed when it is short, plain when long.
    pub fn stream_digest(&self, content: &[u8]) -> String {
        let mut stream = self.stream();
        stream.update(content);
        stream.finish()
    }

    /// Begins the digest of a stream that comes in pieces.
    pub fn stream(&self) -> StreamDigest {
        StreamDigest { key: self.key.clone(), beginning: Vec::new(), state: Sha256::new() }
    }

    /// Returns a command with masks in the place of its secrets.
    pub fn command(&self, tree: Option<&CommandTree>, command: &str) -> String {
        let mut spots = self.spots(tree, Some(command.as_bytes())).source;
        spots.extend(self.rules().shapes(command.as_bytes()));
        match mask::apply(command.as_bytes(), spots, self) {
            Some(masked) => String::from_utf8_lossy(&masked.text).into_owned(),
            None => command.to_owned(),
        }
    }

    /// Returns the places in a command, beyond those that shapes tell, where its grammar puts secrets.
    pub(super) fn spots(&self, tree: Option<&CommandTree>, command: Option<&[u8]>) -> Extras {
        let Some(tree) = tree else {
            return Extras { command: command.unwrap_or_default().to_vec(), ..Extras::default() };
        };
        let commands = grammar::commands(tree);
        let found = grammar::find(&self.rules, &commands);
        let all = extras(&commands, &found, tree.source(), command.unwrap_or_default());
        // The places are those of the text that was read, which need not be the command.
        let source = if command == Some(tree.source()) { all.source } else { Vec::new() };
        Extras { source, ..all }
    }

    /// Adds to `extras` the secrets in texts of settings that hold commands: rules, handlers of hooks, and warnings
    /// that quote them. They are masked wherever they stand in the record.
    pub(super) fn add_settings<'a>(
        &self,
        extras: &mut Extras,
        texts: impl IntoIterator<Item = &'a [u8]>,
    ) {
        for command in texts.into_iter().flat_map(commands_in).take(MOST_TEXTS) {
            let limits = Limits::default();
            let draft = parse(command, &StartState::default(), Programs::builtin(), &limits);
            let tree = draft.confirm(&[]);
            let commands = grammar::commands(&tree);
            let found = grammar::find(&self.rules, &commands);
            let more = self::extras(&commands, &found, tree.source(), command);
            extras.known.take(more.known);
        }
    }
}

/// Most texts of settings in one record that are looked through by grammar; shapes are looked for in all.
const MOST_TEXTS: usize = 10_000;

/// Returns the commands that a text of settings may hold: what stands between the parentheses of a rule, what stands
/// between backquotes in a warning, and the text itself.
fn commands_in(text: &[u8]) -> Vec<&[u8]> {
    let mut commands: Vec<&[u8]> = text.split(|byte| *byte == b'`').collect();
    for at in 0..commands.len() {
        let Some(piece) = commands.get(at).copied() else { continue };
        let open = piece.iter().position(|byte| *byte == b'(');
        let inner = open.and_then(|open| piece.get(open + 1..));
        commands.extend(inner.map(|inner| inner.strip_suffix(b")").unwrap_or(inner)));
    }
    commands
}

fn extras(
    commands: &[grammar::Simple<'_>],
    found: &[Found],
    written: &[u8],
    command: &[u8],
) -> Extras {
    let mut strings: BTreeMap<String, Vec<Spot>> = BTreeMap::new();
    let mut known = Known::default();
    let mut source = Vec::new();
    for it in found {
        source.push(Spot { range: it.source.clone(), rule: it.rule });
        let number = it.command;
        let of = commands.get(number);
        let (pointer, piece) = match it.place {
            SecretPosition::Word(word) => {
                let piece = of.and_then(|of| of.words.get(word));
                (Some(format!("/parsed/commands/{number}/argv/{word}")), piece)
            }
            SecretPosition::Assignment(at) => {
                (None, of.and_then(|of| of.assignments.get(at)).map(|(_, piece)| piece))
            }
            SecretPosition::Redirect(at) => {
                let text = of.and_then(|of| of.texts.iter().find(|(index, _)| *index == at));
                (
                    Some(format!("/parsed/commands/{number}/redirects/{at}/target")),
                    text.map(|(_, piece)| piece),
                )
            }
        };
        let value = piece.and_then(|piece| piece.exact).zip(it.inner.clone());
        if let Some((value, inner)) = value {
            known.add(value.get(inner.clone()).unwrap_or_default(), it.rule);
            known.add_part(value, inner.clone(), it.rule);
            if let Some(pointer) = pointer {
                strings.entry(pointer).or_default().push(Spot { range: inner, rule: it.rule });
            }
        }
        known.add(written.get(it.source.clone()).unwrap_or_default(), it.rule);
    }
    Extras { command: command.to_vec(), source, strings, known }
}

/// The digest of a stream that comes in pieces.
#[derive(Debug)]
pub struct StreamDigest {
    key: RedactKey,
    /// The stream as long as it is short.
    beginning: Vec<u8>,
    state: Sha256,
}

impl StreamDigest {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.state.update(piece);
        let room = GUESSABLE.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
    }

    /// Returns the digest: keyed when the stream is shorter than 1 KiB, plain SHA-256 when longer.
    pub fn finish(self) -> String {
        if self.beginning.len() < GUESSABLE {
            self.key.digest(&self.beginning)
        } else {
            format!("sha256:{}", hex(&self.state.finalize()))
        }
    }
}

#[cfg(test)]
mod tests;
