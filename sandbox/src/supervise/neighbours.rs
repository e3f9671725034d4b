//! Separation of runs that share one loopback interface: the listeners of their proxies, and abstract names.
//!
//! Each proxy listens at an address of its own and at the same ports, where no command can bind. A connection to the address
//! that a command knows is made to the run's own listener instead, so it reaches no other one, and nobody else can answer it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::Path;

use super::Refused;
use super::guard::violation;
use stockade_kernel::syscalls;
use stockade_spec::PROXY_PORTS;

/// Name in reports of the rule about the proxies of other runs.
const RULE: &str = "builtin: proxies of other commands";

/// Addresses that are tried until one is free; each is one of four million.
const MOST_TRIES: usize = 16;

/// Most abstract names that are remembered.
const MOST_NAMES: usize = 10_000;

/// Bytes before the address of a version 4 one, and of a version 6 one (`ip(7)`, `ipv6(7)`).
const BEFORE_V4: usize = 4;
const BEFORE_V6: usize = 8;

/// Facts that one run knows about the runs that share its loopback interface.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Where its own proxy listens, if it has one.
    own: Option<Ipv4Addr>,
    /// The abstract names that it gave to sockets.
    names: RefCell<BTreeSet<Vec<u8>>>,
}

/// Opens the listeners of a proxy with `listen` at an address that no other run has.
pub(crate) fn listen<T>(listen: impl Fn(Ipv4Addr) -> io::Result<T>) -> io::Result<T> {
    for _ in 1..MOST_TRIES {
        let [first, second, third, _] = syscalls::random_number()?.to_ne_bytes();
        match listen(Ipv4Addr::new(127, first | 0x40, second, third)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Returns where these listen.
pub(crate) fn address(listeners: Option<&[TcpListener; 2]>) -> Option<Ipv4Addr> {
    let [http, _] = listeners?;
    match http.local_addr().ok()? {
        SocketAddr::V4(address) => Some(*address.ip()),
        SocketAddr::V6(_) => None,
    }
}

impl Neighbours {
    /// Knows of a run whose own proxy listens at `own`.
    pub(crate) fn new(own: Option<Ipv4Addr>) -> Neighbours {
        Neighbours { own, names: RefCell::default() }
    }

    /// Returns the address to connect to for `address`, as `connect(2)` takes it.
    pub(super) fn way(&self, mut address: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let Some((there, at)) = of_version_4(&address) else { return Ok(address) };
        let ip = *there.ip();
        let is_local = ip.is_loopback() || ip.is_unspecified();
        if !PROXY_PORTS.contains(&there.port()) || !is_local {
            return Ok(address);
        }
        let is_known = ip == Ipv4Addr::LOCALHOST || ip.is_unspecified();
        match self.own {
            Some(own) if is_known || ip == own => {
                let place = address.get_mut(at..at + 4);
                place.ok_or(Refused::Errno(libc::EINVAL))?.copy_from_slice(&own.octets());
                Ok(address)
            }
            // There is nobody, as in a network of its own.
            None if is_known => Err(Refused::Errno(libc::ECONNREFUSED)),
            Some(_) | None => Err(refused("connect", &there.to_string(), libc::ECONNREFUSED)),
        }
    }

    /// Refuses a socket an address that only proxies have.
    pub(super) fn may_bind(address: &[u8]) -> Result<(), Refused> {
        let Some((family, port)) = family_and_port(address) else { return Ok(()) };
        // `AF_UNSPEC` counts as version 4 (`inet_bind` of the kernel).
        let is_internet = [libc::AF_INET, libc::AF_INET6, libc::AF_UNSPEC].contains(&family);
        match is_internet && PROXY_PORTS.contains(&port) {
            true => Err(refused("bind", &format!("port {port}"), libc::EADDRINUSE)),
            false => Ok(()),
        }
    }

    /// Remembers an abstract name that the run gave to a socket.
    pub(super) fn note(&self, name: &[u8]) {
        let mut names = self.names.borrow_mut();
        // One that is not remembered counts as another run's.
        if names.len() < MOST_NAMES {
            names.insert(name.to_vec());
        }
    }

    /// Says whether the run itself gave a socket this abstract name.
    pub(super) fn knows(&self, name: &[u8]) -> bool {
        self.names.borrow().contains(name)
    }
}

fn refused(call: &str, object: &str, errno: i32) -> Refused {
    let mut found = violation("network", call, Path::new(object), RULE.to_owned());
    found.errno = errno;
    Refused::Rule(found)
}

fn family_and_port(address: &[u8]) -> Option<(i32, u16)> {
    let (family, rest) = address.split_first_chunk()?;
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    Some((i32::from(u16::from_ne_bytes(*family)), port))
}

/// Returns the address of version 4 that `address` names, in either form, and where in it that lies.
fn of_version_4(address: &[u8]) -> Option<(SocketAddrV4, usize)> {
    let (family, port) = family_and_port(address)?;
    let (ip, at) = match family {
        libc::AF_INET => {
            (Ipv4Addr::from(*address.get(BEFORE_V4..)?.first_chunk::<4>()?), BEFORE_V4)
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*address.get(BEFORE_V6..)?.first_chunk::<16>()?);
            (ip.to_ipv4_mapped()?, BEFORE_V6 + 12)
        }
        _ => return None,
    };
    Some((SocketAddrV4::new(ip, port), at))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(127, 70, 1, 2);

    /// An address as `connect(2)` takes it, with something behind it.
    fn bytes(address: &str) -> Vec<u8> {
        let address: SocketAddr = address.parse().unwrap();
        let (family, before, ip): (_, &[u8], Vec<u8>) = match address.ip() {
            IpAddr::V4(ip) => (libc::AF_INET, &[], ip.octets().to_vec()),
            IpAddr::V6(ip) => (libc::AF_INET6, &[0; 4], ip.octets().to_vec()),
        };
        let family = u16::try_from(family).unwrap().to_ne_bytes();
        [&family, &address.port().to_be_bytes(), before, &ip, &[0; 8]].concat()
    }

    /// Where a connection goes; else the error number, and whether it is told of.
    fn check(own: Option<Ipv4Addr>, address: &str, expected: Result<&str, (i32, bool)>) {
        let found = Neighbours::new(own).way(bytes(address)).map_err(|refused| match refused {
            Refused::Errno(number) => (number, false),
            Refused::Rule(violation) => (violation.errno, true),
        });
        assert_eq!(found, expected.map(bytes), "{address}");
    }

    #[test]
    fn a_proxy_is_reached_by_its_own_run_alone() {
        let nobody = Err((libc::ECONNREFUSED, false));
        let another = Err((libc::ECONNREFUSED, true));
        for port in PROXY_PORTS {
            let own = format!("127.70.1.2:{port}");
            let mapped = format!("[::ffff:127.70.1.2]:{port}");
            for known in ["127.0.0.1", "0.0.0.0", "127.70.1.2"] {
                check(Some(OWN), &format!("{known}:{port}"), Ok(&own));
                check(Some(OWN), &format!("[::ffff:{known}]:{port}"), Ok(&mapped));
            }
            for other in ["127.70.1.3", "127.0.0.2", "[::ffff:127.70.1.3]"] {
                check(Some(OWN), &format!("{other}:{port}"), another);
                check(None, &format!("{other}:{port}"), another);
            }
            check(None, &format!("127.0.0.1:{port}"), nobody);
            check(None, &format!("[::ffff:0.0.0.0]:{port}"), nobody);
            // Nothing can listen there.
            check(None, &format!("[::1]:{port}"), Ok(&format!("[::1]:{port}")));
        }
    }

    #[test]
    fn other_ports_are_everybodys() {
        for address in ["127.0.0.1:3000", "127.70.1.3:3000", "[::1]:8080", "0.0.0.0:29129"] {
            check(Some(OWN), address, Ok(address));
            check(None, address, Ok(address));
        }
    }

    #[test]
    fn no_socket_of_a_command_gets_the_port_of_a_proxy() {
        let mut unspecified = bytes("0.0.0.0:29128");
        unspecified[..2].copy_from_slice(&[0, 0]);
        let refused =
            ["127.0.0.1:29128", "0.0.0.0:29080", "[::]:29128", "[::ffff:127.70.1.2]:29080"];
        for address in refused.map(bytes).into_iter().chain([unspecified]) {
            let error = Neighbours::may_bind(&address).err().unwrap();
            let Refused::Rule(found) = error else { panic!("it is not told of") };
            assert_eq!((&*found.call, found.errno), ("bind", libc::EADDRINUSE));
        }
        for address in ["127.0.0.1:29129", "[::]:3000"] {
            assert!(Neighbours::may_bind(&bytes(address)).is_ok(), "{address}");
        }
        assert!(Neighbours::may_bind(&[1, 0, 0x71, 0xC8]).is_ok(), "a name of a Unix socket");
    }
}
