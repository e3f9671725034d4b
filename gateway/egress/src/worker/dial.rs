//! From a host to a connection: asked, looked up once, asked again with the addresses, and dialled by number.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use stockade_policy::{Host, HostName};

use super::desk::Desk;
use crate::messages::{MAX_ADDRESSES, Said, Told, Way};

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

/// Looks names up.
pub(super) trait Resolver {
    fn addresses(&self, name: &HostName) -> io::Result<Vec<IpAddr>>;
}

/// The name service of the machine.
pub(super) struct System;

impl Resolver for System {
    fn addresses(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        Ok((name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip()).collect())
    }
}

/// A connection that was asked about.
pub(super) struct Connection<'d> {
    desk: &'d Desk,
    id: u64,
    /// The requested host.
    pub(super) host: Host,
    pub(super) port: u16,
    /// True if other protocols than TLS may be used.
    pub(super) anything: bool,
    /// The address that answered.
    address: Option<IpAddr>,
    /// Bytes each way.
    pub(super) sent: u64,
    pub(super) received: u64,
    refused: Option<String>,
    failed: Option<String>,
}

/// Why there is no connection.
pub(super) enum Refusal {
    /// A rule is against it, or against what it leads to.
    Rule(String),
    /// The host cannot be found or reached.
    Unreachable(String),
    /// The gateway is gone.
    Gone,
}

impl<'d> Connection<'d> {
    /// Asks whether the host may be reached.
    pub(super) fn ask(
        desk: &'d Desk,
        way: Way,
        host: Host,
        port: u16,
    ) -> Result<Connection<'d>, Refusal> {
        let id = desk.number();
        match desk.ask(id, &Said::Ask { id, way, host: host.to_string(), port }) {
            Some(Told::Allowed { anything, .. }) => Ok(Connection {
                desk,
                id,
                host,
                port,
                anything,
                address: None,
                sent: 0,
                received: 0,
                refused: None,
                failed: None,
            }),
            Some(Told::Refused { text, .. }) => Err(Refusal::Rule(text)),
            Some(Told::Dial { .. }) | None => Err(Refusal::Gone),
        }
    }

    /// Finds the addresses, asks which may be dialled, and dials exactly those.
    pub(super) fn dial(&mut self, resolver: &impl Resolver) -> Result<TcpStream, Refusal> {
        let found = match &self.host {
            Host::Address(address) => Ok(vec![*address]),
            Host::Name(name) => resolver.addresses(name),
        };
        let mut addresses = match found {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return Err(self.unreachable("the name has no address")),
            Err(error) => {
                let reason = format!("the name service does not know it: {error}");
                return Err(self.unreachable(&reason));
            }
        };
        let mut seen = BTreeSet::new();
        addresses.retain(|address| seen.insert(*address));
        addresses.truncate(MAX_ADDRESSES);
        match self.desk.ask(self.id, &Said::Found { id: self.id, addresses }) {
            Some(Told::Dial { addresses, .. }) => self.connect(&addresses),
            Some(Told::Refused { text, .. }) => {
                // The refusal is on record already; the end has nothing to add.
                Err(Refusal::Rule(text))
            }
            Some(Told::Allowed { .. }) | None => Err(Refusal::Gone),
        }
    }

    fn connect(&mut self, addresses: &[IpAddr]) -> Result<TcpStream, Refusal> {
        let mut last = String::from("no allowed address");
        for address in addresses {
            match TcpStream::connect_timeout(&SocketAddr::new(*address, self.port), CONNECT) {
                Ok(stream) => {
                    self.address = Some(*address);
                    return Ok(stream);
                }
                Err(error) => last = format!("{address} does not answer: {error}"),
            }
        }
        Err(self.unreachable(&last))
    }

    fn unreachable(&mut self, reason: &str) -> Refusal {
        self.failed = Some(reason.to_owned());
        let text = format!("cannot reach `{}:{}`: {reason}", self.host, self.port);
        Refusal::Unreachable(text)
    }

    /// Notes why a connection is ended before its time.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.refused = Some(reason.to_owned());
    }

    /// Returns the desk, to see when all ends.
    pub(super) fn desk(&self) -> &'d Desk {
        self.desk
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let Connection { desk, id, address, sent, received, .. } = *self;
        let (refused, failed) = (self.refused.take(), self.failed.take());
        // Without a gateway all ends.
        let _ = desk.say(&Said::Ended { id, address, sent, received, refused, failed });
    }
}
