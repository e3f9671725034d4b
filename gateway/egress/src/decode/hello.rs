//! The server name of a TLS client's first message (RFC 8446, 4.1.2 and 5.1; RFC 6066, 3), read whole, in
//! however many records it comes.

use stockade_policy::{HostError, HostName};

/// Longest first flight that is read.
pub const MAX_FLIGHT: usize = 16 << 10;

/// Result of reading the first bytes of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flight {
    /// More is needed to tell.
    Partial,
    /// A whole first message.
    Hello {
        /// The server that the client means, if it says.
        name: Option<HostName>,
    },
    /// Something else.
    NotTls,
}

/// Why a first message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Lengths or types that do not fit.
    #[error("the first TLS message cannot be read")]
    Shape,
    /// The message does not end within `MAX_FLIGHT` bytes.
    #[error("the first TLS message is longer than 16 KiB")]
    Length,
    /// More than one server name.
    #[error("the first TLS message names more than one server")]
    Names,
    /// A server name that is none.
    #[error("the TLS server name is not a host name: {0}")]
    Name(HostError),
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// Reads the bytes that came so far.
pub fn read(bytes: &[u8]) -> Result<Flight, HelloError> {
    match bytes {
        [] => return Ok(Flight::Partial),
        [HANDSHAKE] | [HANDSHAKE, 3, ..] => {}
        [..] => return Ok(Flight::NotTls),
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(hello) = whole(&message)? {
            return client_hello(hello).map(|name| Flight::Hello { name });
        }
        let Some((header, behind)) = rest.split_first_chunk::<5>() else { break };
        let [kind, major, _, high, low] = *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > 1 << 14 {
            return Err(HelloError::Shape);
        }
        let part = behind.get(..length).unwrap_or(behind);
        message.extend_from_slice(part);
        if part.len() < length {
            // Enough of it may be there already to see that it is wrong, never that it is right.
            whole(&message)?;
            break;
        }
        rest = behind.get(length..).unwrap_or_default();
    }
    if bytes.len() >= MAX_FLIGHT { Err(HelloError::Length) } else { Ok(Flight::Partial) }
}

/// Returns the body of a first message that is there as a whole.
fn whole(message: &[u8]) -> Result<Option<&[u8]>, HelloError> {
    let Some((kind, rest)) = message.split_first() else { return Ok(None) };
    if *kind != CLIENT_HELLO {
        return Err(HelloError::Shape);
    }
    let Some(([a, b, c], body)) = rest.split_first_chunk::<3>() else { return Ok(None) };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if length > MAX_FLIGHT {
        return Err(HelloError::Length);
    }
    Ok(body.get(..length))
}

/// A part of a message that is taken from its front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], HelloError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(HelloError::Shape)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, HelloError> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// Takes a length of `bytes` bytes and what it counts.
    fn vector(&mut self, bytes: usize) -> Result<Bytes<'b>, HelloError> {
        let length = self.number(bytes)?;
        self.take(length).map(Bytes)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn client_hello(body: &[u8]) -> Result<Option<HostName>, HelloError> {
    let mut body = Bytes(body);
    body.take(2 + 32)?;
    let session = body.vector(1)?;
    let suites = body.vector(2)?;
    let compressions = body.vector(1)?;
    if session.0.len() > 32 || suites.0.is_empty() || compressions.is_empty() {
        return Err(HelloError::Shape);
    }
    if body.is_empty() {
        return Ok(None);
    }
    let mut extensions = body.vector(2)?;
    if !body.is_empty() {
        return Err(HelloError::Shape);
    }
    let mut name = None;
    while !extensions.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.vector(2)?;
        if kind == usize::from(SERVER_NAME) && name.replace(server_name(content)?).is_some() {
            return Err(HelloError::Names);
        }
    }
    Ok(name)
}

fn server_name(mut content: Bytes<'_>) -> Result<HostName, HelloError> {
    let mut list = content.vector(2)?;
    if !content.is_empty() {
        return Err(HelloError::Shape);
    }
    let kind = list.number(1)?;
    let name = list.vector(2)?;
    if kind != 0 || !list.is_empty() {
        return Err(HelloError::Names);
    }
    HostName::parse(name.0).map_err(HelloError::Name)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn counted(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[4 - bytes..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), counted(2, content)].concat()
    }

    fn names(list: &[&[u8]]) -> Vec<u8> {
        let entries: Vec<u8> =
            list.iter().flat_map(|name| [vec![0], counted(2, name)].concat()).collect();
        extension(0, &counted(2, &entries))
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &counted(1, &[9; 32]),
            &counted(2, &[0x13, 1]),
            &counted(1, &[0]),
            &counted(2, extensions),
        ]
        .concat();
        [vec![CLIENT_HELLO], counted(3, &body)].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|part| [vec![HANDSHAKE, 3, 1], counted(2, part)].concat())
            .collect()
    }

    /// Returns a first message that names `name`.
    pub fn hello(name: &str) -> Vec<u8> {
        let others = [extension(0x2b, &[2, 3, 4]), extension(0xfe0d, &[0; 40])].concat();
        records(&message(&[names(&[name.as_bytes()]), others].concat()), 1 << 14)
    }

    fn check(bytes: &[u8], expected: Result<Option<&str>, HelloError>) {
        let expected = expected.map(|name| {
            let name = name.map(|name| HostName::parse(name.as_bytes()).unwrap());
            Flight::Hello { name }
        });
        assert_eq!(read(bytes), expected);
    }

    #[test]
    fn the_server_name_is_found_in_any_number_of_records() {
        let message = message(&names(&[b"A.Example"]));
        for size in [1, 2, 3, 7, 50, 1000] {
            let bytes = records(&message, size);
            check(&bytes, Ok(Some("a.example")));
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Ok(Flight::Partial), "{size} {end}");
            }
            // Bytes behind the message are ignored.
            check(&[&bytes[..], &[23, 3, 3, 0, 1, 0]].concat(), Ok(Some("a.example")));
        }
        check(&hello("b.example"), Ok(Some("b.example")));
    }

    #[test]
    fn a_hello_may_have_no_name() {
        check(&records(&message(&[]), 99), Ok(None));
        let bare = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0, 5], &[1, 0]].concat();
        check(&records(&[vec![1], counted(3, &bare)].concat(), 99), Ok(None));
    }

    #[test]
    fn two_names_and_names_that_are_none_are_refused() {
        let refused = |extensions: Vec<u8>, error| {
            check(&records(&message(&extensions), 1 << 14), Err(error));
        };
        refused(names(&[b"a.example", b"b.example"]), HelloError::Names);
        refused([names(&[b"a.example"]), names(&[b"b.example"])].concat(), HelloError::Names);
        refused(names(&[b"a.example\0.b"]), HelloError::Name(HostError::Character));
        refused(names(&[b"1.2.3.4"]), HelloError::Name(HostError::Address));
        refused(names(&[b""]), HelloError::Name(HostError::Empty));
        refused(extension(0, &[0, 9, 0]), HelloError::Shape);
        refused(extension(0, &counted(2, &[1, 0, 1, b'a'])), HelloError::Names);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_other_protocols_are_told_apart() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0-x", &[0x80, 46, 1, 3, 1], &[22, 2, 0]] {
            assert_eq!(read(bytes), Ok(Flight::NotTls));
        }
        let mut alert_between = records(&message(&names(&[b"a.example"])), 20);
        alert_between[25] = 21;
        check(&alert_between, Err(HelloError::Shape));
        check(&[22, 3, 1, 0, 0], Err(HelloError::Shape));
        check(&[22, 3, 1, 0x40, 1, 1], Err(HelloError::Shape));
        check(&[22, 3, 1, 0, 1, 2], Err(HelloError::Shape));
        check(&[22, 3, 1, 0, 4, 1, 1, 0, 0], Err(HelloError::Length));
        let long = [&[22, 3, 1, 0x40, 0, 1, 0, 0x40, 0][..], &[0; MAX_FLIGHT]].concat();
        assert!(read(&long).is_err());
        let cut = counted(3, &[3, 3]);
        check(&records(&[vec![1], cut].concat(), 99), Err(HelloError::Shape));
    }
}
