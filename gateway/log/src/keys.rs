//! The two keys of a log and its birth.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

use super::checkpoint::PublicKey;
use super::error::{Error, Scene};
use super::files::{self, Durability};
use super::hash::{Hash, hex, keyed, sha256};

/// Keys that sign checkpoints and make keyed digests, and the first public key, which is trusted.
pub(super) struct Keys {
    pub(super) sign: SigningKey,
    pub(super) redact: RedactKey,
    /// The first public key, whose name is the origin of the chain.
    pub(super) trust: PublicKey,
}

/// The key of tags and keyed digests.
#[derive(Clone)]
pub struct RedactKey {
    key: Zeroizing<[u8; 32]>,
    id: String,
}

impl RedactKey {
    pub(super) fn new(key: [u8; 32]) -> RedactKey {
        let [a, b, c, d, ..] = keyed(&key, b"stockade redact key id");
        RedactKey { key: Zeroizing::new(key), id: format!("k{}", hex(&[a, b, c, d])) }
    }

    pub(super) fn bytes(&self) -> [u8; 32] {
        *self.key
    }

    /// Returns the tag of a masked value: equal values have equal tags, and only who holds the key can
    /// test a guess.
    pub fn tag(&self, value: &[u8]) -> String {
        let [a, b, c, d, ..] = keyed(&self.key, value);
        hex(&[a, b, c, d])
    }

    /// Returns `hmac:KEYID:HEX64` of `value`.
    pub fn digest(&self, value: &[u8]) -> String {
        format!("hmac:{}:{}", self.id, hex(&keyed(&self.key, value)))
    }
}

impl std::fmt::Debug for RedactKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RedactKey({})", self.id)
    }
}

/// Files with the identity of a machine (machine-id(5)), and one with a name that may change.
const MACHINE: [&str; 3] = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname"];

/// The `host.id` of records: derived from the identity of this machine, not equal to it.
pub(super) fn host_id() -> String {
    let identity = MACHINE.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default();
    host_id_of(&identity)
}

fn host_id_of(identity: &[u8]) -> String {
    let [a, b, c, d, ..] = sha256(&[b"stockade host\n", identity]);
    format!("h-{}", hex(&[a, b, c, d]))
}

/// Returns the host in `origin` if it is not this one. Where this machine has no identity but its name, as
/// many containers, nothing can be said.
fn other_host(origin: &str, machine: &[&str]) -> Option<String> {
    let known: Vec<Vec<u8>> = machine.iter().filter_map(|path| fs::read(path).ok()).collect();
    let has_identity = machine
        .first()
        .is_some_and(|path| fs::read_to_string(path).is_ok_and(|text| text.trim().len() >= 32));
    let host = origin.split('/').nth(1)?;
    let is_known = known.iter().any(|identity| host_id_of(identity) == host);
    (has_identity && !is_known && host != host_id_of(b"")).then(|| host.to_owned())
}

impl Keys {
    /// Reads the keys of an existing log; one that is missing is an error.
    pub(super) fn read(scene: &Scene, state: &Path) -> Result<Keys, Error> {
        let folder = state.join("keys");
        let sign = secret(scene, &folder.join("sign.key"))?;
        let redact = secret(scene, &folder.join("redact.key"))?;
        let path = state.join("trust.vkey");
        let trust = files::read(&path).map_err(scene.write("read", &path))?;
        let trust = trust
            .and_then(|text| PublicKey::read(std::str::from_utf8(&text).ok()?))
            .ok_or_else(|| scene.damaged(missing(&path)))?;
        if let Some(origin) = other_host(&trust.name, &MACHINE) {
            let directory = scene.directory.clone();
            return Err(Error::OtherHost { directory, origin, host: host_id() });
        }
        let sign = SigningKey::from_bytes(&sign);
        if PublicKey::of(&trust.name, &sign) != trust {
            return Err(scene.damaged("`sign.key` is not the key of this log"));
        }
        Ok(Keys { sign, redact: RedactKey::new(*redact), trust })
    }

    /// Makes the keys of a new log, or finishes a birth that was interrupted.
    pub(super) fn create(scene: &Scene, state: &Path) -> Result<Keys, Error> {
        let folder = state.join("keys");
        files::folder(scene, &folder)?;
        for name in ["sign.key", "redact.key"] {
            let path = folder.join(name);
            if files::read(&path).map_err(scene.write("read", &path))?.is_none() {
                let bytes = Zeroizing::new(random(scene)?);
                create_secret(&path, bytes.as_slice()).map_err(scene.write("create", &path))?;
            }
        }
        let path = state.join("trust.vkey");
        if files::read(&path).map_err(scene.write("read", &path))?.is_none() {
            let sign = SigningKey::from_bytes(&*secret(scene, &folder.join("sign.key"))?);
            let chain = random(scene)?;
            let chain = hex(chain.get(..16).unwrap_or_default());
            let origin = format!("stockade/{}/{chain}", host_id());
            let line = format!("{}\n", PublicKey::of(&origin, &sign).line());
            files::replace(&path, line.as_bytes(), Durability::Synced)
                .map_err(scene.write("create", &path))?;
        }
        Keys::read(scene, state)
    }
}

fn missing(path: &Path) -> String {
    format!("`{}` is missing or altered; a new one would not be believed", path.display())
}

fn random(scene: &Scene) -> Result<Hash, Error> {
    let mut bytes = [0; 32];
    stockade_base::random::fill(&mut bytes)
        .map_err(|_| scene.damaged("cannot get random bytes from the system for a key"))?;
    Ok(bytes)
}

fn secret(scene: &Scene, path: &Path) -> Result<Zeroizing<Hash>, Error> {
    let content = files::read(path).map_err(scene.write("read", path))?.map(Zeroizing::new);
    let bytes = content.and_then(|bytes| Hash::try_from(bytes.as_slice()).ok());
    bytes.map(Zeroizing::new).ok_or_else(|| scene.damaged(missing(path)))
}

fn create_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The name appears only when the key is whole and on disk: a key is never replaced.
    let temporary = path.with_extension("tmp");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), files::sync_folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_log_of_another_machine_is_told_from_one_of_this() {
        let folder = Folder::new();
        let id = folder.write("machine-id", "0123456789abcdef0123456789abcdef\n");
        let name = folder.write("hostname", "build7\n");
        let missing = folder.path().join("missing");
        let [id, name, missing] = [&id, &name, &missing].map(|path| path.to_str().unwrap());
        let origin = |identity: &str| format!("stockade/{}/chain", host_id_of(identity.as_bytes()));
        let own = origin("0123456789abcdef0123456789abcdef\n");
        let other = origin("ffffffffffffffffffffffffffffffff\n");
        assert_eq!(other_host(&own, &[id, name]), None);
        assert_eq!(other_host(&origin("build7\n"), &[id, name]), None, "born before it had an id");
        let host = host_id_of(b"ffffffffffffffffffffffffffffffff\n");
        assert_eq!(other_host(&other, &[id, name]), Some(host));
        assert_eq!(other_host(&other, &[missing, name]), None, "a container without an identity");
    }
}
