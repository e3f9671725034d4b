//! Addresses that are no host of the public network (IANA special-purpose registries, RFC 6890 and later).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Says what `address` is when it is not an ordinary host of the public network.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an unspecified address"),
        [127, ..] => Some("a loopback address"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some("a private address"),
        [100, 64..=127, ..] => Some("an address of a carrier's own network"),
        [169, 254, ..] => Some("a link-local address, where machines serve their credentials"),
        // Serves metadata and credentials to virtual machines of one cloud.
        [168, 63, 129, 16] => Some("an address where a cloud serves credentials"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Some("a reserved address"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Some("an address for documentation")
        }
        [224..=239, ..] => Some("a multicast address"),
        [240..=255, ..] => Some("a reserved address"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        special_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // Mapped, and by NAT64: what counts is the address inside.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        // Teredo hides an IPv4 address, the rest of the block is for protocols.
        [0x2001, 0..=0x1ff, ..] => Some("a reserved address"),
        // ISATAP.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => embedded(high, low),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: &[&str] = &[
        "8.8.8.8",
        "93.184.216.34",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
        "2002:808:808::1",
    ];

    const SPECIAL: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "::8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:c0a8:101::",
        "2001:0:1:2:3:4:5:6",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "5f00::1",
        "2606:4700::5efe:7f00:1",
        "2606:4700:0:0:200:5efe:a00:1",
        "4000::1",
    ];

    #[test]
    fn only_public_addresses_are_ordinary() {
        for text in ORDINARY {
            assert_eq!(special(text.parse().unwrap()), None, "{text}");
        }
        for text in SPECIAL {
            assert!(special(text.parse().unwrap()).is_some(), "{text}");
        }
    }
}
