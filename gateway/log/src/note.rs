//! The newest signed note, for keeping elsewhere: whoever has one finds out when the log is put back to an
//! older state.

use super::Places;
use super::checkpoint::{Checkpoint, PublicKey};
use super::error::{Error, Scene};
use super::files;

/// The newest signed note of a log, and the key that checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The note, byte for byte.
    pub bytes: Vec<u8>,
    /// The `vkey` line, without line feed.
    pub key: String,
}

/// Returns the newest signed note, of which the signature was checked; none when there is no log.
pub fn newest(places: &Places) -> Result<Option<Note>, Error> {
    let scene = Scene { directory: places.directory.clone() };
    let read = |path: &std::path::Path| files::read(path).map_err(scene.read(path));
    let path = places.directory.join("checkpoint");
    let head = read(&places.state.join("head"))?;
    let bytes = match (read(&path)?, &head) {
        (Some(bytes), _) => bytes,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(scene.damaged(format!("`{}` is missing", path.display())));
        }
    };
    let path = places.state.join("trust.vkey");
    let text = read(&path)?.unwrap_or_default();
    let key = std::str::from_utf8(&text).ok().and_then(PublicKey::read);
    let key =
        key.ok_or_else(|| scene.damaged(format!("`{}` is missing or altered", path.display())))?;
    let believed = |note: &[u8], name: &str| {
        Checkpoint::read(note, std::slice::from_ref(&key))
            .map_err(|doubt| scene.damaged(format!("`{name}`: {}", doubt.words())))
    };
    let checkpoint = believed(&bytes, "checkpoint")?;
    let head = head.map(|head| believed(&head, "head")).transpose()?;
    if let Some(head) = head.filter(|head| head.size > checkpoint.size) {
        return Err(scene.damaged(format!(
            "`checkpoint` covers {} records, and {} were signed",
            checkpoint.size, head.size
        )));
    }
    if bytes.iter().any(|byte| byte.is_ascii_control() && *byte != b'\n') {
        return Err(scene.damaged("`checkpoint` has control characters"));
    }
    Ok(Some(Note { bytes, key: key.line() }))
}
