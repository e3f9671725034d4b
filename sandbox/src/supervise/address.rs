//! Internet addresses that a run without the host's network cannot reach: a function of the address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Name in reports of the rule that keeps a run from connecting past its own loopback.
pub(super) const RULE: &str = "builtin: nothing leaves but through the proxy";

/// Returns what `address`, as `connect(2)` takes it, names outside of the loopback interface.
pub(super) fn elsewhere(address: &[u8]) -> Option<SocketAddr> {
    read(address).filter(|there| !is_inside(there))
}

/// Returns what it names on the loopback interface.
pub(super) fn loopback(address: &[u8]) -> Option<SocketAddr> {
    read(address).filter(is_inside)
}

/// Says whether something listens at a port of this network namespace, as far as can be seen; `tables` are those of `/proc/net`
/// (`proc_net_tcp` of the kernel's documentation: the local address is the second field, the state the fourth, 0A is
/// `TCP_LISTEN`).
pub(super) fn is_open(port: u16, tables: &[io::Result<String>]) -> bool {
    let end = format!(":{port:04X}");
    tables.iter().any(|table| match table {
        Err(_) => true,
        Ok(text) => text.lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            local.ends_with(&end) && fields.nth(1) == Some("0A")
        }),
    })
}

fn is_inside(there: &SocketAddr) -> bool {
    // The kernel takes the unspecified address for the loopback.
    there.ip().is_loopback() || there.ip().is_unspecified()
}

fn read(address: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = address.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        libc::AF_INET6 => {
            // The flow label comes first (`ipv6(7)`).
            let (_, rest) = rest.split_first_chunk::<4>()?;
            Ipv6Addr::from(*rest.first_chunk::<16>()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(family: i32, port: u16, rest: &[u8], expected: Option<&str>) {
        let mut bytes = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(rest);
        let found = elsewhere(&bytes).map(|address| address.to_string());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_port_is_open_where_something_listens() {
        let head = "  sl  local_address rem_address   st tx_queue\n";
        let line = |local: &str, state: &str| {
            Ok(format!("{head}   0: {local} 00000000:0000 {state} 00000000:00000000\n"))
        };
        let closed = || Ok(head.to_owned());
        assert!(is_open(8080, &[line("0100007F:1F90", "0A"), closed()]));
        assert!(is_open(8080, &[closed(), line("00000000000000000000000000000000:1F90", "0A")]));
        assert!(!is_open(8080, &[line("0100007F:1F90", "01"), closed()]));
        assert!(!is_open(8081, &[line("0100007F:1F90", "0A"), closed()]));
        assert!(!is_open(8080, &[Ok(String::new())]));
        // Ports that cannot be looked up are tried.
        assert!(is_open(8080, &[Err(io::ErrorKind::NotFound.into())]));
    }

    #[test]
    fn only_what_is_not_loopback_is_elsewhere() {
        check(libc::AF_INET, 443, &[1, 2, 3, 4], Some("1.2.3.4:443"));
        check(libc::AF_INET, 443, &[127, 9, 9, 9], None);
        check(libc::AF_INET, 443, &[0, 0, 0, 0], None);
        check(libc::AF_INET, 443, &[1, 2], None);
        let v6 = |ip: &str| {
            let ip: Ipv6Addr = ip.parse().unwrap();
            [&[0; 4][..], &ip.octets()].concat()
        };
        check(libc::AF_INET6, 53, &v6("2001:db8::1"), Some("[2001:db8::1]:53"));
        check(libc::AF_INET6, 53, &v6("::ffff:8.8.8.8"), Some("8.8.8.8:53"));
        check(libc::AF_INET6, 53, &v6("::ffff:127.0.0.1"), None);
        check(libc::AF_INET6, 53, &v6("::1"), None);
        check(libc::AF_UNIX, 0, b"abc", None);
        check(libc::AF_UNSPEC, 0, &[0; 16], None);
    }
}
