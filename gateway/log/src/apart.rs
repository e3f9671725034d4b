//! A log that another process keeps: the recorder of the system's gateway appends and signs, and a gateway that runs for one
//! user hands it records over a socket.
//!
//! Messages are closed enums in JSON behind their length. A gateway believes the recorder; the recorder believes nothing: it
//! checks each record against the table of members, the user that the connection is for, and who began the command.

pub mod board;
pub mod ledger;
mod pen;
pub mod reading;
mod recorder;

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::board::{Known, Posted, Reply};
use super::query::along::{Begun, LogPosition, Piece, Start};
use super::wire::{Follow, Prepared};

pub(super) use pen::Pen;
pub use recorder::{User, serve};

/// Longest message: a line of the log as a JSON string.
const LONGEST: usize = 4 << 20;

/// A message of a gateway.
#[derive(Debug, Serialize, Deserialize)]
enum Asked {
    /// To be written.
    Write(Wanted),
    /// Where reading begins.
    Begin(Start),
    /// Records of its user behind a place.
    Read(LogPosition),
    /// A question for other users, or its newer words.
    Post(Posted),
    /// The answers to it.
    Replies(String),
    /// Nothing more comes.
    Close(String),
    /// Questions of others.
    Posted,
    /// An answer to one of them.
    Reply { id: String, digest: String, answer: String },
}

/// A record that lacks its place in the chain.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    reference: Option<String>,
    members: String,
    follow: Following,
}

/// [`Follow`] as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Following {
    None,
    Opens,
    Closes,
}

impl From<Follow> for Following {
    fn from(follow: Follow) -> Following {
        match follow {
            Follow::None => Following::None,
            Follow::Opens => Following::Opens,
            Follow::Closes => Following::Closes,
        }
    }
}

impl From<Following> for Follow {
    fn from(follow: Following) -> Follow {
        match follow {
            Following::None => Follow::None,
            Following::Opens => Follow::Opens,
            Following::Closes => Follow::Closes,
        }
    }
}

impl Wanted {
    fn of(record: &Prepared) -> Result<Wanted, String> {
        let members = String::from_utf8(record.members.clone());
        Ok(Wanted {
            kind: record.kind.to_owned(),
            reference: record.reference.clone(),
            members: members.map_err(|error| error.to_string())?,
            follow: record.follow.into(),
        })
    }
}

/// A message of the recorder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Told {
    /// First of all: the key of masks and digests, what decisions begin with, and who the user is whom no file names.
    Hello { redact: String, head: Map<String, Value>, known: Option<Known> },
    /// The record is on disk.
    Written { sequence: u64, id: String },
    /// The record is not on disk, or what was asked for cannot be read.
    Refused { cause: String },
    /// Where reading begins.
    Begun(Begun),
    /// Records of the user.
    Read(Piece),
    /// The request is carried out.
    Done,
    /// Questions of other users.
    Posted(Vec<Posted>),
    /// Answers of other users.
    Replies(Vec<Reply>),
}

fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&framed(message)?)
}

fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&text);
    Ok(frame)
}

fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::Error::other("a message is too long"));
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
