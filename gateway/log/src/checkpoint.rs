//! Checkpoints: C2SP signed notes over the tree, and the keys that sign and check them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use super::hash::{Hash, hex, sha256};

/// The signature kind byte of Ed25519 in C2SP `signed-note`.
const ED25519: u8 = 1;

/// The statement of a checkpoint: this log had this many records with this root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) origin: String,
    pub(super) size: u64,
    pub(super) root: Hash,
}

/// A public key under its name, as the `vkey` line of C2SP `signed-note`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey {
    pub(super) name: String,
    key: VerifyingKey,
}

/// Why a note is not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The note is not a checkpoint at all.
    Form(&'static str),
    /// The note is not of this log.
    Origin(String),
    /// No signature of a known key, or a wrong one.
    Signature,
}

impl Doubt {
    /// Returns the doubt as words.
    pub(super) fn words(&self) -> String {
        match self {
            Doubt::Form(what) => format!("it is not a checkpoint: {what}"),
            Doubt::Origin(origin) => format!("it belongs to another log, `{origin}`"),
            Doubt::Signature => "its signature is not of a key of this log".into(),
        }
    }
}

impl PublicKey {
    /// Returns the public half of `key` under `name`.
    pub(super) fn of(name: &str, key: &SigningKey) -> PublicKey {
        PublicKey { name: name.into(), key: key.verifying_key() }
    }

    /// Reads a `vkey` line: `NAME+HEX8+BASE64`.
    pub(super) fn read(text: &str) -> Option<PublicKey> {
        let (name, rest) = text.trim_end_matches('\n').split_once('+')?;
        let (id, key) = rest.split_once('+')?;
        let bytes = STANDARD.decode(key).ok()?;
        let (kind, key) = bytes.split_first()?;
        let key = VerifyingKey::from_bytes(key.try_into().ok()?).ok()?;
        let public = PublicKey { name: name.into(), key };
        (*kind == ED25519 && !name.is_empty() && hex(&public.id()) == id).then_some(public)
    }

    /// Returns the `vkey` line, without line feed.
    pub(super) fn line(&self) -> String {
        format!("{}+{}+{}", self.name, hex(&self.id()), STANDARD.encode(self.typed()))
    }

    fn typed(&self) -> Vec<u8> {
        let mut bytes = vec![ED25519];
        bytes.extend_from_slice(self.key.as_bytes());
        bytes
    }

    fn id(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = sha256(&[self.name.as_bytes(), b"\n", &self.typed()]);
        [a, b, c, d]
    }
}

impl Checkpoint {
    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root))
    }

    /// Returns the signed note.
    pub(super) fn sign(&self, key: &SigningKey) -> String {
        let text = self.text();
        let mut signature = PublicKey::of(&self.origin, key).id().to_vec();
        signature.extend_from_slice(&key.sign(text.as_bytes()).to_bytes());
        format!("{text}\n\u{2014} {} {}\n", self.origin, STANDARD.encode(signature))
    }

    /// Reads a note that is, byte for byte, the one that `key` makes of what it states under `origin`; none for every
    /// other. A signature of Ed25519 has no chance in it (RFC 8032, 5.1.6), so to sign once more tells as much as to
    /// verify, and takes a quarter of the time.
    pub(super) fn own(note: &[u8], origin: &str, key: &SigningKey) -> Option<Checkpoint> {
        let (text, _) = std::str::from_utf8(note).ok()?.split_once("\n\n")?;
        let checkpoint = Checkpoint::read_text(text).ok()?;
        let is_own = checkpoint.origin == origin && checkpoint.sign(key).as_bytes() == note;
        is_own.then_some(checkpoint)
    }

    /// Reads a note and checks it: its origin is the name of the keys, one of them signed it, and no
    /// signature that claims to be of one of them is wrong. Signatures of others are ignored.
    pub(super) fn read(note: &[u8], keys: &[PublicKey]) -> Result<Checkpoint, Doubt> {
        let note = std::str::from_utf8(note).map_err(|_| Doubt::Form("it is not UTF-8"))?;
        let (text, signatures) = note
            .split_once("\n\n")
            .ok_or(Doubt::Form("it has no blank line before the signatures"))?;
        let checkpoint = Checkpoint::read_text(text)?;
        if !keys.iter().any(|key| key.name == checkpoint.origin) {
            return Err(Doubt::Origin(checkpoint.origin));
        }
        let signed = format!("{text}\n");
        let signatures =
            signatures.strip_suffix('\n').ok_or(Doubt::Form("its last line is not complete"))?;
        let mut believed = false;
        for line in signatures.split('\n') {
            let rest = line
                .strip_prefix("\u{2014} ")
                .ok_or(Doubt::Form("a signature line is malformed"))?;
            let (name, signature) =
                rest.split_once(' ').ok_or(Doubt::Form("a signature line is malformed"))?;
            let bytes =
                STANDARD.decode(signature).map_err(|_| Doubt::Form("a signature is not base64"))?;
            let (id, signature) =
                bytes.split_at_checked(4).ok_or(Doubt::Form("a signature is too short"))?;
            let Some(key) = keys.iter().find(|key| key.name == name && key.id() == id) else {
                continue;
            };
            let signature = Signature::from_slice(signature).map_err(|_| Doubt::Signature)?;
            key.key.verify_strict(signed.as_bytes(), &signature).map_err(|_| Doubt::Signature)?;
            believed = true;
        }
        if believed { Ok(checkpoint) } else { Err(Doubt::Signature) }
    }

    fn read_text(text: &str) -> Result<Checkpoint, Doubt> {
        let mut lines = text.split('\n');
        let (Some(origin), Some(digits), Some(root), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(Doubt::Form("it does not have three lines"));
        };
        let size: u64 = digits.parse().map_err(|_| Doubt::Form("its size is not a number"))?;
        let decoded = STANDARD.decode(root).ok().and_then(|bytes| Hash::try_from(bytes).ok());
        let decoded = decoded.ok_or(Doubt::Form("its root is not a hash"))?;
        let checkpoint = Checkpoint { origin: origin.into(), size, root: decoded };
        if origin.is_empty() || checkpoint.text() != format!("{text}\n") {
            return Err(Doubt::Form("it is not spelled as the standard says"));
        }
        Ok(checkpoint)
    }

    /// Returns the root as notes spell it.
    pub(super) fn root_text(&self) -> String {
        STANDARD.encode(self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> (String, PublicKey) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let origin = "stockade/h-00000001/00000000000000000000000000000000".to_owned();
        let public = PublicKey::of(&origin, &key);
        (Checkpoint { origin, size: 12, root: [9; 32] }.sign(&key), public)
    }

    #[test]
    fn a_key_line_reads_back() {
        let (_, public) = note();
        assert_eq!(PublicKey::read(&public.line()), Some(public.clone()));
        assert_eq!(PublicKey::read(&public.line().replace("stockade", "stockadf")), None);
    }

    #[test]
    fn every_changed_byte_of_a_note_is_noticed() {
        let (note, public) = note();
        assert_eq!(
            Checkpoint::read(note.as_bytes(), std::slice::from_ref(&public)).unwrap().size,
            12
        );
        for at in 0..note.len() {
            let mut changed = note.clone().into_bytes();
            changed[at] ^= 1;
            assert!(
                Checkpoint::read(&changed, std::slice::from_ref(&public)).is_err(),
                "byte {at}"
            );
            assert!(
                Checkpoint::read(&note.as_bytes()[..at], std::slice::from_ref(&public)).is_err()
            );
        }
    }

    #[test]
    fn a_note_is_our_own_only_as_it_was_written() {
        let (note, public) = note();
        let key = SigningKey::from_bytes(&[7; 32]);
        let own = |note: &[u8]| Checkpoint::own(note, &public.name, &key);
        assert_eq!(own(note.as_bytes()).map(|it| it.size), Some(12));
        for at in 0..note.len() {
            let mut changed = note.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(own(&changed), None, "byte {at}");
        }
        let other = SigningKey::from_bytes(&[8; 32]);
        assert_eq!(Checkpoint::own(note.as_bytes(), &public.name, &other), None);
        assert_eq!(Checkpoint::own(note.as_bytes(), "stockade/other", &key), None);
    }

    #[test]
    fn signatures_of_others_are_ignored() {
        let (note, public) = note();
        let other = format!("{note}\u{2014} witness.example AAAAAAAA\n");
        assert!(Checkpoint::read(other.as_bytes(), &[public]).is_ok());
    }
}
