//! Messages between the proxy and the gateway: one JSON object a line.
//!
//! The proxy asks about each connection twice: whether the host may be reached, and, when it has addresses for it,
//! which of them may be dialled. All that the proxy itself decides is whether the traffic of a connection is what was
//! asked for.

use std::io::{self, BufRead};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Longest line.
pub const MAX_LINE: usize = 64 << 10;

/// Most addresses of one host.
pub const MAX_ADDRESSES: usize = 16;

/// How a connection came to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// An HTTP request that is handed on.
    Http,
    /// HTTP CONNECT.
    Connect,
    /// SOCKS.
    Socks,
}

impl Way {
    /// Returns its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Way::Http => "http",
            Way::Connect => "connect",
            Way::Socks => "socks",
        }
    }
}

/// From the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The proxy holds no more rights than it needs, and listens.
    Ready,
    /// May this host be reached?
    Ask { id: u64, way: Way, host: String, port: u16 },
    /// These are its addresses; which may be dialled?
    Found { id: u64, addresses: Vec<IpAddr> },
    /// A connection that could be asked about is over.
    Ended {
        id: u64,
        /// The address that was dialled, once one answered.
        address: Option<IpAddr>,
        /// Bytes from the command.
        sent: u64,
        /// Bytes to the command.
        received: u64,
        /// Why it was ended: what came over it was not what was asked for.
        refused: Option<String>,
        /// Why it could not be made.
        failed: Option<String>,
    },
    /// A request that names no host, or none that can be read.
    Malformed { way: Way, reason: String },
}

/// To the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The host may be reached; if `anything`, with other protocols than TLS too.
    Allowed { id: u64, anything: bool },
    /// These addresses may be dialled. The connection is on record.
    Dial { id: u64, addresses: Vec<IpAddr> },
    /// The connection is refused. The text is for people: a line, and a remedy.
    Refused { id: u64, text: String },
}

impl Told {
    /// Returns the connection that it is about.
    pub fn id(&self) -> u64 {
        match self {
            Told::Allowed { id, .. } | Told::Dial { id, .. } | Told::Refused { id, .. } => *id,
        }
    }
}

/// Returns a message as a line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Both enums have only strings, numbers and lists, which always can be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a line, without its end; none at the end. A line that is too long or cut is an error.
pub fn next_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    io::Read::take(&mut *from, MAX_LINE as u64).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}
