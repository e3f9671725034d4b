//! The one reader of host names and addresses. What it accepts is what is resolved: the parsed name has no
//! way back to the text it came from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::punycode;

/// Longest name without its final dot (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;
/// Longest label (RFC 1035, 2.3.4).
const MAX_LABEL: usize = 63;

/// A host name: ASCII, lower case, without a final dot; never an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// A host as a request or a rule names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// By name.
    Name(HostName),
    /// By literal address.
    Address(IpAddr),
}

/// Why a text names no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing is there.
    #[error("the host is empty")]
    Empty,
    /// The name is too long, or a label of it is.
    #[error("the name is longer than 253 bytes, or a part of it longer than 63")]
    Length,
    /// Two dots side by side, or one at the begin.
    #[error("a part of the name is empty")]
    EmptyLabel,
    /// A byte that no host name has.
    #[error("a host name has only letters, digits, `-`, `_` and `.`")]
    Character,
    /// Letters beyond ASCII that are not converted here.
    #[error("write the name in its ASCII form, `xn--…`")]
    NotAscii,
    /// `xn--` with what no Unicode name is written as.
    #[error("the part that begins with `xn--` is not a valid name")]
    Punycode,
    /// A number for an address in another form than the usual one.
    #[error("write an address as four decimal numbers, or in brackets in its shortest IPv6 form")]
    Address,
    /// No number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

impl HostName {
    /// Reads a name as it comes over a connection.
    pub fn parse(bytes: &[u8]) -> Result<HostName, HostError> {
        let text = std::str::from_utf8(bytes).map_err(|_| HostError::Character)?;
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_NAME {
            return Err(HostError::Length);
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !text.bytes().all(plain) {
            return Err(HostError::Character);
        }
        for label in text.split('.') {
            match label.len() {
                0 => return Err(HostError::EmptyLabel),
                1..=MAX_LABEL => {}
                _ => return Err(HostError::Length),
            }
            if label.strip_prefix("xn--").is_some_and(|rest| !punycode::is_canonical(rest)) {
                return Err(HostError::Punycode);
            }
        }
        // A name that a resolver might take for a number is invalid (inet_aton(3)).
        let last = text.rsplit('.').next().unwrap_or_default();
        if last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HostError::Address);
        }
        Ok(HostName(text))
    }

    /// Reads a name as it stands in settings, where letters beyond ASCII may stand.
    pub(super) fn of_settings(text: &str) -> Result<HostName, HostError> {
        if text.is_ascii() {
            return HostName::parse(text.as_bytes());
        }
        let label = |label: &str| match label.is_ascii() {
            true => Some(label.to_owned()),
            false => punycode::encode(&label.to_lowercase()).map(|ascii| format!("xn--{ascii}")),
        };
        let labels: Option<Vec<String>> = text.split('.').map(label).collect();
        HostName::parse(labels.ok_or(HostError::NotAscii)?.join(".").as_bytes())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Host {
    /// Reads a name or an address; an IPv6 address stands in brackets.
    pub fn parse(bytes: &[u8]) -> Result<Host, HostError> {
        if let Some(rest) = bytes.strip_prefix(b"[") {
            let inner = rest.strip_suffix(b"]").ok_or(HostError::Address)?;
            let text = std::str::from_utf8(inner).map_err(|_| HostError::Address)?;
            let address: Ipv6Addr = text.parse().map_err(|_| HostError::Address)?;
            // Only one spelling, so that no two readers can differ.
            let canonical = address.to_string().eq_ignore_ascii_case(text);
            return canonical
                .then_some(Host::Address(IpAddr::V6(address)))
                .ok_or(HostError::Address);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| HostError::Character)?;
        match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Host::Address(IpAddr::V4(address))),
            Err(_) => HostName::parse(bytes).map(Host::Name),
        }
    }

    /// Reads `host:port`, with `port` where none stands there.
    pub fn parse_with_port(bytes: &[u8], port: Option<u16>) -> Result<(Host, u16), HostError> {
        let (host, found) = split_port(bytes)?;
        Ok((Host::parse(host)?, found.or(port).ok_or(HostError::Port)?))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    /// As a rule spells it: an IPv6 address in brackets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(formatter),
            Host::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Splits `host:port`; the host keeps its brackets.
pub(super) fn split_port(bytes: &[u8]) -> Result<(&[u8], Option<u16>), HostError> {
    // Colons inside of brackets belong to the address.
    let search = bytes.iter().rposition(|byte| *byte == b']').unwrap_or(0);
    let colon = bytes.iter().skip(search).position(|byte| *byte == b':').map(|at| at + search);
    let Some((host, rest)) = colon.and_then(|at| bytes.split_at_checked(at)) else {
        return Ok((bytes, None));
    };
    let digits = rest.get(1..).unwrap_or_default();
    let plain = (1..=5).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        && digits.first() != Some(&b'0');
    let port = std::str::from_utf8(digits).ok().filter(|_| plain).and_then(|it| it.parse().ok());
    match port {
        Some(port) => Ok((host, Some(port))),
        None => Err(HostError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: Result<&str, HostError>) {
        let read = Host::parse(text).map(|host| host.to_string());
        assert_eq!(read, expected.map(str::to_owned), "{:?}", String::from_utf8_lossy(text));
    }

    #[test]
    fn names_are_read_in_one_form() {
        check(b"Example.COM", Ok("example.com"));
        check(b"example.com.", Ok("example.com"));
        check(b"_acme.a-b.example", Ok("_acme.a-b.example"));
        check(b"xn--bcher-kva.example", Ok("xn--bcher-kva.example"));
        check(b"1.2.3.4", Ok("1.2.3.4"));
        check(b"[2001:DB8::1]", Ok("[2001:db8::1]"));
        check(b"[::ffff:1.2.3.4]", Ok("[::ffff:1.2.3.4]"));
    }

    #[test]
    fn what_two_readers_could_take_for_two_things_is_refused() {
        check(b"", Err(HostError::Empty));
        check(b".", Err(HostError::Empty));
        check(b"example.com..", Err(HostError::EmptyLabel));
        check(b".example.com", Err(HostError::EmptyLabel));
        for text in [
            &b"evil.com\0.example.com"[..],
            b"evil.com#example.com",
            b"evil.com@example.com",
            b"evil.com\\.example.com",
            b"evil.com%00.example.com",
            b"evil.com/.example.com",
            b"evil.com .example.com",
            b"evil.com\r\n.example.com",
            b"evil\xe3\x80\x82com",
            b"evil\xff.com",
            b"*.example.com",
        ] {
            check(text, Err(HostError::Character));
        }
        for text in [
            &b"2130706433"[..],
            b"0x7f000001",
            b"127.1",
            b"0177.0.0.1",
            b"1.2.3.4.",
            b"1.2.3.04",
            b"256.1.1.1",
            b"a.0x7f",
            b"[::1%lo]",
            b"[0:0:0:0:0:0:0:1]",
            b"[::1",
            b"[1.2.3.4]",
        ] {
            check(text, Err(HostError::Address));
        }
        check(b"::1", Err(HostError::Character));
        check(b"xn--a-.example", Err(HostError::Punycode));
        check(b"xn--\x61bc!.example", Err(HostError::Character));
    }

    #[test]
    fn lengths_are_those_of_the_name_service() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        check(longest.as_bytes(), Ok(&longest));
        check(format!("{longest}.").as_bytes(), Ok(&longest));
        check(format!("{longest}b").as_bytes(), Err(HostError::Length));
        check(format!("{label}a.com").as_bytes(), Err(HostError::Length));
    }

    #[test]
    fn ports_are_plain_numbers() {
        let read = |text: &str| {
            Host::parse_with_port(text.as_bytes(), None)
                .map(|(host, port)| format!("{host} {port}"))
        };
        assert_eq!(read("a.example:443"), Ok("a.example 443".into()));
        assert_eq!(read("[::1]:80"), Ok("[::1] 80".into()));
        for text in ["a.example", "a:0", "a:65536", "a:080", "a:+80", "a:", "a:80:90", "[::1]80"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(Host::parse_with_port(b"a.example", Some(80)).map(|it| it.1), Ok(80));
    }

    #[test]
    fn settings_may_hold_letters_beyond_ascii() {
        let read = |text: &str| HostName::of_settings(text).map(|name| name.0);
        assert_eq!(read("Bücher.example"), Ok("xn--bcher-kva.example".into()));
        assert_eq!(read("правда.example"), Ok("xn--80aafi6cg.example".into()));
        assert_eq!(read("例え.example"), Ok("xn--r8jz45g.example".into()));
        // Full-width letters, ligatures and combining marks have other forms.
        for text in ["ｅxample.com", "ﬁ.example", "u\u{308}.example", "a\u{200d}b.example", "a。b"]
        {
            assert_eq!(read(text), Err(HostError::NotAscii), "{text}");
        }
    }
}
