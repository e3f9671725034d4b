//! Changes by commands and agents to files that a person's own tools execute, until the person has looked at them.
//!
//! Pid 1 of each confined run writes a journal ([`stockade_spec::read_journal`]); when the run is over, its entries go into
//! the ledger. Both are in the state directory, which no command sees. A commit changes nothing here.
//!
//! Reads the files of the project that tools of a person execute; writes the ledger and its journals in the state directory, and
//! nothing else. Starts nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod diff;
pub mod edits;
pub mod journal;
pub mod ledger;
pub mod point;
pub mod table;
mod watched;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stockade_spec::{Before, MOST_KEPT_BYTES};

pub use edits::note_edit;
pub use journal::Journal;
pub use watched::watched;

use stockade_base::hex;

/// Says whether a person's tools execute the file at `inside`, a path below a directory in which commands write.
pub fn is_watched(inside: &std::path::Path) -> bool {
    table::row(inside).is_some()
}

/// Stands for the digest of the content of what a link leads to that leads to no file.
const NOWHERE: &str = "none";

/// Command or tool that changed a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The decision in the log.
    pub decision: String,
    /// The command without its secrets, or the tool; none of a command that still runs or was cut off.
    pub act: Option<String>,
    pub project: PathBuf,
    /// System call of the first change, and the process that made it.
    pub call: String,
    pub program: String,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// State of a path. Contents are kept beside the ledger, under their digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    Nothing,
    Content {
        digest: String,
    },
    /// A symbolic link, and the content of the file that it leads to where that is known: `NOWHERE` if there is none.
    Link {
        text: OsString,
        digest: Option<String>,
    },
    /// A file that is too long to be kept; its digest where it was read.
    Large {
        bytes: u64,
        digest: Option<String>,
    },
    Unknown,
}

impl Held {
    /// Says whether both are known to be the same.
    pub fn is_same(&self, other: &Held) -> bool {
        match (self, other) {
            (Held::Link { text, digest }, Held::Link { text: of_other, digest: others }) => {
                text == of_other && (digest == others || digest.is_none() || others.is_none())
            }
            (Held::Unknown | Held::Large { digest: None, .. }, _) => false,
            (Held::Nothing | Held::Content { .. } | Held::Link { .. }, _)
            | (Held::Large { digest: Some(_), .. }, _) => self == other,
        }
    }

    /// Returns the digest of its content.
    pub fn digest(&self) -> Option<&str> {
        match self {
            Held::Content { digest } => Some(digest),
            Held::Link { digest, .. } | Held::Large { digest, .. } => digest.as_deref(),
            Held::Nothing | Held::Unknown => None,
        }
    }
}

/// State of a path now, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub held: Held,
    pub content: Option<Vec<u8>>,
    /// True if the file has other names, or is a link: it may change without a change at this path.
    pub is_shared: bool,
}

impl Found {
    /// Looks at `path`.
    pub fn at(path: &Path) -> Found {
        let found = |held, content, is_shared| Found { held, content, is_shared };
        match path.symlink_metadata() {
            Err(error) if is_absent(&error) => found(Held::Nothing, None, false),
            Err(_) => found(Held::Unknown, None, false),
            Ok(it) if it.is_symlink() => {
                let content = read(path).ok().flatten();
                let digest = Some(content.as_deref().map_or_else(|| NOWHERE.to_owned(), digest));
                match fs::read_link(path) {
                    Ok(text) => {
                        found(Held::Link { text: text.into_os_string(), digest }, content, true)
                    }
                    Err(_) => found(Held::Unknown, None, true),
                }
            }
            Ok(it) if it.is_file() => match read(path) {
                Ok(Some(content)) => {
                    let held = Held::Content { digest: digest(&content) };
                    found(held, Some(content), it.nlink() > 1)
                }
                Ok(None) => {
                    let held = Held::Large { bytes: it.len(), digest: long_digest(path) };
                    found(held, None, it.nlink() > 1)
                }
                Err(_) => found(Held::Unknown, None, it.nlink() > 1),
            },
            Ok(_) => found(Held::Unknown, None, false),
        }
    }

    /// Takes what a journal says.
    fn of(before: Before) -> Found {
        use std::os::unix::ffi::OsStringExt as _;
        let (held, content) = match before {
            Before::Nothing => (Held::Nothing, None),
            Before::Content(text) => {
                let content = text.into_vec();
                (Held::Content { digest: digest(&content) }, Some(content))
            }
            Before::Link(text) => (Held::Link { text, digest: None }, None),
            Before::Led(text, content) => {
                let content = content.map(OsString::into_vec);
                let digest = content.as_deref().map_or_else(|| NOWHERE.to_owned(), digest);
                (Held::Link { text, digest: Some(digest) }, content)
            }
            Before::Large(bytes) => (Held::Large { bytes, digest: None }, None),
            Before::Unknown => (Held::Unknown, None),
        };
        Found { held, content, is_shared: false }
    }
}

/// Says whether nothing is at a path, and nothing can be.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads a plain file; none if it is too long.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let waits_for_nobody = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(waits_for_nobody).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    take(file)
}

fn take(file: File) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    file.take(MOST_KEPT_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok((content.len() <= MOST_KEPT_BYTES).then_some(content))
}

fn digest(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Returns the digest of a file that is not kept; none of one that would take too long.
fn long_digest(path: &Path) -> Option<String> {
    const MOST: u64 = 256 << 20;
    let file = File::open(path).ok()?;
    if file.metadata().ok()?.len() > MOST {
        return None;
    }
    let mut state = Sha256::new();
    io::copy(&mut file.take(MOST), &mut state).ok()?;
    Some(hex(&state.finalize()))
}

/// Returns the milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
