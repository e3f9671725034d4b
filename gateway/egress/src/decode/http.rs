//! The head of an HTTP/1 request to a proxy (RFC 9112), without what one reader takes for something else than
//! another: no bare line feeds, no folded lines, no second length, one `Host` that is the host asked for.

use stockade_policy::{Host, HostError};

/// Longest head.
pub const MAX_HEAD: usize = 32 << 10;
/// Most fields of a head.
const MAX_FIELDS: usize = 100;
/// Fields that are between a client and its proxy alone (RFC 9110, 7.6.1, and what clients add).
const OWN_FIELDS: &[&str] = &[
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
    "host",
];
/// Fields that `Connection` may not take away.
const FRAMING: &[&str] = &["host", "content-length", "transfer-encoding"];

/// A request that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Target of the request.
    pub target: Target,
    /// Length of the body.
    pub body: Body,
    method: Vec<u8>,
    version: &'static str,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    named: Vec<String>,
}

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `CONNECT host:port`.
    Tunnel {
        /// Host.
        host: Host,
        /// Port.
        port: u16,
    },
    /// A request to be handed on.
    Request {
        /// Host.
        host: Host,
        /// Port, 80 when none is named.
        port: u16,
        /// Path and query.
        path: Vec<u8>,
        /// The target named the host itself, as a client of a proxy does.
        absolute: bool,
    },
}

/// How the length of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// This many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Line ends, control characters, shape of the request line.
    #[error("the request line is not one of HTTP/1")]
    RequestLine,
    /// A line feed or carriage return alone.
    #[error("a line does not end with CR LF")]
    LineEnd,
    /// A folded line, a name or a value that is none.
    #[error("a field is folded, or has a character that no field has")]
    Field,
    /// Too many fields.
    #[error("the head has more than 100 fields")]
    TooMany,
    /// The target names no host that can be read.
    #[error("invalid host in the request: {0}")]
    Host(HostError),
    /// Not `http://`.
    #[error("only `http://` is handed on; other schemes need CONNECT")]
    Scheme,
    /// No `Host`, or two of them.
    #[error("there must be exactly one `Host`")]
    HostCount,
    /// `Host` is another than the target.
    #[error("`Host` is another host than the one asked for")]
    HostDiffers,
    /// Lengths that contradict each other, or that are none.
    #[error("the body has two lengths or an invalid one")]
    Length,
    /// `Connection` names a field that frames the message.
    #[error("`Connection` removes a field that the message needs")]
    Connection,
}

/// Result of reading the head of a server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerHead {
    /// The head goes on.
    Part,
    /// A head of this length that another one follows.
    Interim(usize),
    /// All that came, with a head that says that the connection is closed.
    Final(Vec<u8>),
    /// No head of HTTP/1, or one that is too long.
    Unknown,
}

/// Reads the head of an answer, and says in it that the connection is closed: `Connection: close` in the place of what the
/// server said of it (RFC 9112, 9.6).
pub fn closing(bytes: &[u8]) -> ServerHead {
    const BEGIN: &[u8] = b"HTTP/1.";
    let begins = bytes.iter().zip(BEGIN).all(|(byte, expected)| byte == expected);
    let Some(end) = head_end(bytes).filter(|_| begins) else {
        let is_part = begins && bytes.len() < MAX_HEAD;
        return if is_part { ServerHead::Part } else { ServerHead::Unknown };
    };
    let (head, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    // 101 ends with another protocol: the request did not ask for one, since `Upgrade` is not handed on.
    let status = head.get(BEGIN.len() + 2..BEGIN.len() + 5).unwrap_or_default();
    if status.first() == Some(&b'1') && status != b"101" {
        return ServerHead::Interim(end);
    }
    let mut whole = Vec::with_capacity(bytes.len() + 32);
    let mut is_dropped = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let is_folded = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let of_connection = ["connection", "keep-alive", "proxy-connection"];
        let is_own = of_connection.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
        is_dropped = if is_folded { is_dropped } else { is_own };
        if line == b"\r\n" || line == b"\n" {
            whole.extend_from_slice(b"Connection: close\r\n");
        }
        if !is_dropped {
            whole.extend_from_slice(line);
        }
    }
    whole.extend_from_slice(rest);
    ServerHead::Final(whole)
}

/// Returns where the head ends, when it does.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    // Bare line feeds end it as well; `read` then refuses them.
    let crlf = bytes.windows(3).position(|window| window == b"\n\r\n").map(|at| at + 3);
    let bare = bytes.windows(2).position(|window| window == b"\n\n").map(|at| at + 2);
    match (crlf, bare) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Reads a whole head, with the empty line at its end.
pub fn read(bytes: &[u8]) -> Result<Head, HttpError> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(HttpError::LineEnd)?;
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n");
        let (line, after) = match end.and_then(|end| rest.split_at_checked(end)) {
            Some((line, after)) => (line, after.get(2..)),
            None => (rest, None),
        };
        if line.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err(HttpError::LineEnd);
        }
        lines.push(line);
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    let mut lines = lines.into_iter();
    let (method, target, version) = request_line(lines.next().unwrap_or_default())?;
    if lines.len() > MAX_FIELDS {
        return Err(HttpError::TooMany);
    }
    let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
    let body = body(&fields, version)?;
    let named = named_by_connection(&fields)?;
    let target = target_of(method, target, version, &fields)?;
    Ok(Head { target, body, method: method.to_vec(), version, fields, named })
}

fn is_token(bytes: &[u8]) -> bool {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(token)
}

fn request_line(line: &[u8]) -> Result<(&[u8], &[u8], &'static str), HttpError> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(HttpError::RequestLine);
    };
    let version = match version {
        b"HTTP/1.1" => "HTTP/1.1",
        b"HTTP/1.0" => "HTTP/1.0",
        _ => return Err(HttpError::RequestLine),
    };
    // A fragment never goes over a connection, and what stands behind it one reader might take for the host.
    let plain = |byte: &u8| *byte > b' ' && *byte != 0x7f && *byte != b'#';
    if !is_token(method) || method.len() > 32 || target.is_empty() || !target.iter().all(plain) {
        return Err(HttpError::RequestLine);
    }
    Ok((method, target, version))
}

fn field(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), HttpError> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(HttpError::Field)?;
    let (name, value) = line.split_at_checked(colon).ok_or(HttpError::Field)?;
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    let plain = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    // A folded line begins with a blank, which no name does.
    if !is_token(name) || !value.iter().all(plain) {
        return Err(HttpError::Field);
    }
    Ok((name.to_ascii_lowercase(), value.to_vec()))
}

fn values<'f>(fields: &'f [(Vec<u8>, Vec<u8>)], name: &str) -> Vec<&'f [u8]> {
    let named = fields.iter().filter(|(key, _)| key == name.as_bytes());
    named.map(|(_, value)| value.as_slice()).collect()
}

fn body(fields: &[(Vec<u8>, Vec<u8>)], version: &str) -> Result<Body, HttpError> {
    match (
        values(fields, "content-length").as_slice(),
        values(fields, "transfer-encoding").as_slice(),
    ) {
        ([], []) => Ok(Body::Length(0)),
        ([length], []) => {
            let digits = (1..=15).contains(&length.len()) && length.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(length).ok().filter(|_| digits);
            text.and_then(|it| it.parse().ok()).map(Body::Length).ok_or(HttpError::Length)
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && version == "HTTP/1.1" => {
            Ok(Body::Chunked)
        }
        (_, _) => Err(HttpError::Length),
    }
}

fn named_by_connection(fields: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<String>, HttpError> {
    let mut named = Vec::new();
    for value in values(fields, "connection") {
        for option in value.split(|byte| *byte == b',') {
            let option = String::from_utf8_lossy(option.trim_ascii()).to_ascii_lowercase();
            if FRAMING.contains(&option.as_str()) {
                return Err(HttpError::Connection);
            }
            named.push(option);
        }
    }
    Ok(named)
}

fn target_of(
    method: &[u8],
    target: &[u8],
    version: &str,
    fields: &[(Vec<u8>, Vec<u8>)],
) -> Result<Target, HttpError> {
    let hosts = values(fields, "host");
    let only = match hosts.as_slice() {
        [] if version == "HTTP/1.0" => None,
        [host] => Some(*host),
        _ => return Err(HttpError::HostCount),
    };
    if method == b"CONNECT" {
        let (host, port) = Host::parse_with_port(target, None).map_err(HttpError::Host)?;
        if let Some(named) = only {
            agrees(named, port, &host, port)?;
        }
        return Ok(Target::Tunnel { host, port });
    }
    if target.first() == Some(&b'/') {
        let named = only.ok_or(HttpError::HostCount)?;
        let (host, port) = Host::parse_with_port(named, Some(80)).map_err(HttpError::Host)?;
        return Ok(Target::Request { host, port, path: target.to_vec(), absolute: false });
    }
    let scheme = target.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"http://"));
    let rest = target.get(7..).filter(|_| scheme).ok_or(HttpError::Scheme)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).ok_or(HttpError::RequestLine)?;
    let (host, port) = Host::parse_with_port(authority, Some(80)).map_err(HttpError::Host)?;
    if let Some(named) = only {
        agrees(named, 80, &host, port)?;
    }
    let slash: &[u8] = if path.first() == Some(&b'/') { b"" } else { b"/" };
    Ok(Target::Request { host, port, path: [slash, path].concat(), absolute: true })
}

/// Refuses a `Host` that is another than the host asked for.
fn agrees(named: &[u8], default: u16, host: &Host, port: u16) -> Result<(), HttpError> {
    let named = Host::parse_with_port(named, Some(default)).map_err(HttpError::Host)?;
    if named == (host.clone(), port) { Ok(()) } else { Err(HttpError::HostDiffers) }
}

impl Head {
    /// Returns the head that goes to the server: the path alone, one `Host`, nothing that is the proxy's, and
    /// the end of the connection behind the answer. None for a tunnel.
    pub fn handed_on(&self) -> Option<Vec<u8>> {
        let Target::Request { host, port, path, .. } = &self.target else { return None };
        let mut bytes = self.method.clone();
        bytes.push(b' ');
        bytes.extend_from_slice(path);
        let host = match port {
            80 => host.to_string(),
            port => format!("{host}:{port}"),
        };
        bytes.extend_from_slice(format!(" {}\r\nHost: {host}\r\n", self.version).as_bytes());
        for (name, value) in &self.fields {
            let known = String::from_utf8_lossy(name);
            if OWN_FIELDS.contains(&known.as_ref()) || self.named.iter().any(|it| *it == known) {
                continue;
            }
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"Connection: close\r\n\r\n");
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, port: u16, path: &str) -> Target {
        let host = Host::parse(host.as_bytes()).unwrap();
        Target::Request { host, port, path: path.into(), absolute: true }
    }

    fn check(text: &str, expected: Result<Target, HttpError>) {
        let read = read(text.as_bytes()).map(|head| head.target);
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn requests_to_a_proxy_are_read() {
        let tunnel = |port| Ok(Target::Tunnel { host: Host::parse(b"a.example").unwrap(), port });
        check("CONNECT A.example.:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", tunnel(443));
        check("CONNECT a.example:22 HTTP/1.1\r\nHost: a.example\r\n\r\n", tunnel(22));
        check("CONNECT a.example:22 HTTP/1.0\r\n\r\n", tunnel(22));
        check(
            "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            Ok(request("a.example", 80, "/")),
        );
        check(
            "GET HTTP://a.example:8080?x=http://b/ HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
            Ok(request("a.example", 8080, "/?x=http://b/")),
        );
        check("GET http://1.2.3.4/ HTTP/1.0\r\n\r\n", Ok(request("1.2.3.4", 80, "/")));
    }

    #[test]
    fn a_host_that_is_not_the_one_asked_for_is_refused() {
        for host in ["b.example", "a.example:81", "a.example.b.example"] {
            check(
                &format!("GET http://a.example/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
                Err(HttpError::HostDiffers),
            );
        }
        check(
            "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n",
            Err(HttpError::HostDiffers),
        );
        check(
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
            Err(HttpError::HostDiffers),
        );
        check("GET http://a.example/ HTTP/1.1\r\n\r\n", Err(HttpError::HostCount));
        check(
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nhost: a.example\r\n\r\n",
            Err(HttpError::HostCount),
        );
    }

    #[test]
    fn hosts_that_could_be_read_in_two_ways_are_refused() {
        for host in
            ["evil@a.example", "evil\\a.example", "a.example%00", "a..example", "0x7f.1", ""]
        {
            let head =
                read(format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            assert!(matches!(head, Err(HttpError::Host(_))), "{host} {head:?}");
        }
        for line in ["GET http://evil.com#a.example/", "GET http://a.example/#b", "GET  /", "GET"] {
            check(
                &format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n"),
                Err(HttpError::RequestLine),
            );
        }
        check("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", Err(HttpError::Scheme));
        check("GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", Err(HttpError::Scheme));
        check("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", Err(HttpError::Scheme));
        check(
            "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            Err(HttpError::Host(HostError::Port)),
        );
    }

    #[test]
    fn shapes_of_request_smuggling_are_refused() {
        let with = |fields: &str| {
            let head =
                format!("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
            read(head.as_bytes()).map(|head| head.body)
        };
        assert_eq!(with("Content-Length: 5\r\n"), Ok(Body::Length(5)));
        assert_eq!(with("Transfer-Encoding: chunked\r\n"), Ok(Body::Chunked));
        assert_eq!(with("Transfer-Encoding: Chunked\r\n"), Ok(Body::Chunked));
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 1234567890123456\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(with(fields), Err(HttpError::Length), "{fields:?}");
        }
        for fields in [
            "X: a\r\n folded\r\n",
            "X : a\r\n",
            " X: a\r\n",
            "X\0: a\r\n",
            "X: a\0b\r\n",
            "no colon\r\n",
            ": empty\r\n",
        ] {
            assert_eq!(with(fields), Err(HttpError::Field), "{fields:?}");
        }
        for fields in ["X: a\nHost: b\r\n", "X: a\rb\r\n", "X: a\r\r\n"] {
            assert_eq!(with(fields), Err(HttpError::LineEnd), "{fields:?}");
        }
        for fields in ["Connection: Host\r\n", "Connection: close, Content-Length\r\n"] {
            assert_eq!(with(fields), Err(HttpError::Connection), "{fields:?}");
        }
        assert_eq!(with(&"X: a\r\n".repeat(100)), Err(HttpError::TooMany));
        assert_eq!(
            read(b"POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Err(HttpError::Length)
        );
    }

    #[test]
    fn what_is_handed_on_has_one_host_and_nothing_of_the_proxy() {
        let head = read(
            b"POST http://A.example:8080/x?y HTTP/1.1\r\nhost: a.example:8080\r\nProxy-Connection: keep-alive\r\n\
              Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nProxy-Authorization: Basic x\r\nAccept: */*\r\n\
              Content-Length: 3\r\n\r\n",
        );
        assert_eq!(
            String::from_utf8(head.unwrap().handed_on().unwrap()).unwrap(),
            "POST /x?y HTTP/1.1\r\nHost: a.example:8080\r\naccept: */*\r\ncontent-length: 3\r\n\
             Connection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_head_ends_at_the_first_empty_line() {
        assert_eq!(head_end(b"GET / HTTP/1.1\r\nA: b\r\n"), None);
        assert_eq!(head_end(b"G\r\n\r\nrest\r\n\r\n"), Some(5));
        assert_eq!(head_end(b"G\n\nrest\r\n\r\n"), Some(3));
    }
}
