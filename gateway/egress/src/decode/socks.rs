//! Requests of SOCKS 5 (RFC 1928) and of SOCKS 4 with its extension for names. Names are read by the same
//! reader as everywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stockade_policy::{Host, HostError};

/// Longest request: a SOCKS 4 user and a name, each with its end.
pub const MAX_REQUEST: usize = 1 << 10;

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// SOCKS 4 or 4a.
    Four,
    /// SOCKS 5.
    Five,
}

/// A request to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Protocol, for the answer.
    pub version: Version,
    /// Host.
    pub host: Host,
    /// Port.
    pub port: u16,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// Neither version 4 nor 5, or a reserved byte that is not 0.
    #[error("this is not a SOCKS request")]
    Version,
    /// The client insists on a way to log in.
    #[error("the client requires a password")]
    Method,
    /// Not a connection to somewhere.
    #[error("only outgoing connections are supported")]
    Command,
    /// An address of an unknown kind.
    #[error("unknown type of address")]
    Kind,
    /// An invalid name of a host.
    #[error("invalid host in the request: {0}")]
    Host(HostError),
    /// The request does not end within `MAX_REQUEST` bytes.
    #[error("the request is too long")]
    Length,
}

/// Reads the offer that begins SOCKS 5, and returns how many bytes it had; none when it is not whole yet. A
/// request of SOCKS 4 has no offer: 0 bytes.
pub fn offer(bytes: &[u8]) -> Result<Option<usize>, SocksError> {
    match bytes {
        [] | [5] => Ok(None),
        [4, ..] => Ok(Some(0)),
        [5, count, rest @ ..] => {
            let count = usize::from(*count);
            match rest.get(..count) {
                None => Ok(None),
                Some(methods) if methods.contains(&0) => Ok(Some(count + 2)),
                Some(_) => Err(SocksError::Method),
            }
        }
        [..] => Err(SocksError::Version),
    }
}

/// Reads a request, and returns it with how many bytes it had; none when it is not whole yet.
pub fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, SocksError> {
    if bytes.len() > MAX_REQUEST {
        return Err(SocksError::Length);
    }
    match bytes {
        [] => Ok(None),
        [4, rest @ ..] => four(rest),
        [5, rest @ ..] => five(rest),
        [..] => Err(SocksError::Version),
    }
}

fn five(bytes: &[u8]) -> Result<Option<(Request, usize)>, SocksError> {
    let [command, reserved, kind, rest @ ..] = bytes else { return Ok(None) };
    if *command != 1 {
        return Err(SocksError::Command);
    }
    if *reserved != 0 {
        return Err(SocksError::Version);
    }
    let (host, rest) = match kind {
        1 => match rest.split_first_chunk::<4>() {
            None => return Ok(None),
            Some((address, rest)) => (Host::Address(IpAddr::V4(Ipv4Addr::from(*address))), rest),
        },
        4 => match rest.split_first_chunk::<16>() {
            None => return Ok(None),
            Some((address, rest)) => (Host::Address(IpAddr::V6(Ipv6Addr::from(*address))), rest),
        },
        3 => {
            let Some((length, rest)) = rest.split_first() else { return Ok(None) };
            let Some((name, rest)) = rest.split_at_checked(usize::from(*length)) else {
                return Ok(None);
            };
            (Host::parse(name).map_err(SocksError::Host)?, rest)
        }
        _ => return Err(SocksError::Kind),
    };
    let Some((port, behind)) = rest.split_first_chunk::<2>() else { return Ok(None) };
    let used = 1 + bytes.len() - behind.len();
    finish(Version::Five, host, *port, used)
}

fn four(bytes: &[u8]) -> Result<Option<(Request, usize)>, SocksError> {
    let Some((command, rest)) = bytes.split_first() else { return Ok(None) };
    if *command != 1 {
        return Err(SocksError::Command);
    }
    let Some((port, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
    let Some((address, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some((_, rest)) = text(rest) else { return Ok(None) };
    let (host, behind) = match address {
        // The extension: an address that nobody has, and the name behind.
        [0, 0, 0, 1..=255] => {
            let Some((name, behind)) = text(rest) else { return Ok(None) };
            (Host::parse(name).map_err(SocksError::Host)?, behind)
        }
        address => (Host::Address(IpAddr::V4(Ipv4Addr::from(*address))), rest),
    };
    let used = 1 + bytes.len() - behind.len();
    finish(Version::Four, host, *port, used)
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (text, rest) = bytes.split_at_checked(end)?;
    Some((text, rest.get(1..)?))
}

fn finish(
    version: Version,
    host: Host,
    port: [u8; 2],
    used: usize,
) -> Result<Option<(Request, usize)>, SocksError> {
    match u16::from_be_bytes(port) {
        0 => Err(SocksError::Host(HostError::Port)),
        port => Ok(Some((Request { version, host, port }, used))),
    }
}

/// Reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The connection is there.
    Granted,
    /// A rule is against it.
    Refused,
    /// The host cannot be found or reached.
    Unreachable,
}

/// Returns the bytes of a reply.
pub fn reply(version: Version, reply: Reply) -> Vec<u8> {
    match version {
        Version::Five => {
            let code = match reply {
                Reply::Granted => 0,
                Reply::Refused => 2,
                Reply::Unreachable => 4,
            };
            vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]
        }
        Version::Four => {
            let code = match reply {
                Reply::Granted => 90,
                Reply::Refused | Reply::Unreachable => 91,
            };
            vec![0, code, 0, 0, 0, 0, 0, 0]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<Option<&str>, SocksError>) {
        let read = request(bytes).map(|read| {
            read.map(|(request, used)| {
                assert_eq!(used, bytes.len());
                format!("{}:{}", request.host, request.port)
            })
        });
        assert_eq!(read, expected.map(|it| it.map(str::to_owned)), "{bytes:?}");
    }

    fn named(name: &[u8]) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name, &[1, 187]].concat()
    }

    #[test]
    fn requests_are_read_in_both_versions() {
        check(&named(b"A.example."), Ok(Some("a.example:443")));
        check(&named(b"1.2.3.4"), Ok(Some("1.2.3.4:443")));
        check(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 22], Ok(Some("1.2.3.4:22")));
        let v6 = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        check(&v6, Ok(Some("[::1]:80")));
        check(b"\x04\x01\x00\x50\x01\x02\x03\x04user\0", Ok(Some("1.2.3.4:80")));
        check(b"\x04\x01\x00\x50\0\0\0\x01user\0a.example\0", Ok(Some("a.example:80")));
    }

    #[test]
    fn a_part_of_a_request_is_waited_for() {
        let whole = named(b"a.example");
        for end in 0..whole.len() {
            check(&whole[..end], Ok(None));
        }
        check(b"\x04\x01\x00\x50\0\0\0\x01user\0a.exam", Ok(None));
        for part in [&[][..], &[5], &[5, 2], &[5, 2, 0]] {
            assert_eq!(offer(part), Ok(None));
        }
        assert_eq!(offer(&[5, 2, 2, 0, 5]), Ok(Some(4)));
        assert_eq!(offer(&[4]), Ok(Some(0)));
    }

    #[test]
    fn what_is_not_a_plain_request_is_refused() {
        check(&named(b"evil.com\0.a.example"), Err(SocksError::Host(HostError::Character)));
        check(&named(b""), Err(SocksError::Host(HostError::Empty)));
        check(&named(b"0x7f000001"), Err(SocksError::Host(HostError::Address)));
        check(b"\x04\x01\x00\x50\0\0\0\x01u\0a b\0", Err(SocksError::Host(HostError::Character)));
        check(&[5, 2, 0, 1, 1, 2, 3, 4, 0, 22], Err(SocksError::Command));
        check(&[5, 3, 0, 1, 1, 2, 3, 4, 0, 22], Err(SocksError::Command));
        check(&[5, 1, 9, 1, 1, 2, 3, 4, 0, 22], Err(SocksError::Version));
        check(&[5, 1, 0, 7, 1, 2, 3, 4, 0, 22], Err(SocksError::Kind));
        check(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0], Err(SocksError::Host(HostError::Port)));
        check(b"GET / HTTP/1.1", Err(SocksError::Version));
        check(&[4; 2000], Err(SocksError::Length));
        assert_eq!(offer(&[5, 1, 2]), Err(SocksError::Method));
        assert_eq!(offer(b"GET"), Err(SocksError::Version));
    }
}
