//! Internet addresses that a run without the host's network cannot reach: a function of the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What stands in reports for the rule that keeps a run from connecting past its own loopback.
pub(super) const RULE: &str = "builtin: nothing leaves but through the proxy";

/// Returns what `address`, as `connect(2)` takes it, names outside of the loopback interface.
pub(super) fn elsewhere(address: &[u8]) -> Option<SocketAddr> {
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
    // The kernel takes the unspecified address for the loopback.
    let inside = ip.is_loopback() || ip.is_unspecified();
    (!inside).then_some(SocketAddr::new(ip, port))
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
