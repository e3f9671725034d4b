//! The frames between the gateway and its scan worker.
//!
//! A frame is a length (4 bytes, little endian) and a body. The worker sends one [`Hello`] when it is
//! confined and ready; then each request frame (a text) gets one answer frame (nodes), in order, so that the
//! gateway may send many at once and still knows which text a worker died of. Numbers in bodies are LEB128. The gateway treats every byte of the worker as hostile: [`read_hello`] and [`read_answer`]
//! check each count against the bytes that are there before they reserve memory.

use std::io::{self, Read, Write};

use crate::{KindName, Refusal, Seen, SeenNode};

/// The longest request body, in bytes: one text.
pub const REQUEST_LIMIT_BYTES: usize = crate::INPUT_LIMIT_BYTES;

/// The longest answer body, in bytes.
pub const ANSWER_LIMIT_BYTES: usize = 32 << 20;

/// The first number of a hello; it changes with the layout of the frames.
const VERSION: u64 = 1;

/// Why a frame or body cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The frame or body is longer than the limit.
    Long,
    /// The frame or body ends too early, or goes on after its end.
    Length,
    /// A number or code in it is none of those that exist.
    Value,
}

/// First message of the worker: it is confined, and these are the grammar's kinds.
pub type Hello<'a> = Vec<KindName<'a>>;

/// Returns the length prefix of `body`, if its length is within `limit`.
pub fn prefix(body: &[u8], limit: usize) -> Result<[u8; 4], Malformed> {
    if body.len() > limit {
        return Err(Malformed::Long);
    }
    Ok(u32::try_from(body.len()).map_err(|_| Malformed::Long)?.to_le_bytes())
}

/// Returns the length of the body that follows `prefix`, if it is within `limit`.
pub fn body_length(prefix: [u8; 4], limit: usize) -> Result<usize, Malformed> {
    let length = usize::try_from(u32::from_le_bytes(prefix)).map_err(|_| Malformed::Long)?;
    if length > limit { Err(Malformed::Long) } else { Ok(length) }
}

/// Reads the body of the next frame; none at the end of the stream between frames.
pub fn read_frame(input: &mut impl Read, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut prefix = [0; 4];
    let mut filled = 0;
    while filled < prefix.len() {
        let rest = prefix.get_mut(filled..).unwrap_or_default();
        match input.read(rest)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    let length = body_length(prefix, limit).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Writes `body` as one frame.
pub fn write_frame(output: &mut impl Write, body: &[u8], limit: usize) -> io::Result<()> {
    let prefix = prefix(body, limit).map_err(|_| io::ErrorKind::InvalidInput)?;
    output.write_all(&prefix)?;
    output.write_all(body)?;
    output.flush()
}

/// Returns the body of a hello.
pub fn hello(kinds: &[KindName<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, VERSION);
    put(&mut body, kinds.len() as u64);
    for kind in kinds {
        put(&mut body, u64::from(kind.named));
        put(&mut body, kind.name.len() as u64);
        body.extend_from_slice(kind.name.as_bytes());
    }
    body
}

/// Reads the body of a hello.
pub fn read_hello(body: &[u8]) -> Result<Hello<'_>, Malformed> {
    let mut body = Body(body);
    if body.number()? != VERSION {
        return Err(Malformed::Value);
    }
    let count = body.count(2)?;
    let mut kinds = Vec::with_capacity(count);
    for _ in 0..count {
        let named = body.flag()?;
        let length = body.count(1)?;
        let name = body.bytes(length)?;
        let name = std::str::from_utf8(name).map_err(|_| Malformed::Value)?;
        kinds.push(KindName { name, named });
    }
    body.end()?;
    Ok(kinds)
}

/// Returns the body of an answer; one that would be longer than the limit says [`Refusal::Long`].
pub fn answer(seen: &Seen) -> Vec<u8> {
    let mut body = Vec::new();
    put_seen(&mut body, seen);
    if body.len() > ANSWER_LIMIT_BYTES {
        body.clear();
        put_seen(&mut body, &Seen::Refused(Refusal::Long));
    }
    body
}

/// Reads the body of an answer.
pub fn read_answer(body: &[u8]) -> Result<Seen, Malformed> {
    let mut body = Body(body);
    let seen = body.seen()?;
    body.end()?;
    Ok(seen)
}

fn put_seen(body: &mut Vec<u8>, seen: &Seen) {
    let nodes = match seen {
        Seen::Refused(refusal) => return put(body, 1 + *refusal as u64),
        Seen::Nodes(nodes) => nodes,
    };
    put(body, 0);
    put(body, nodes.len() as u64);
    for node in nodes {
        put(body, u64::from(node.kind) << 1 | u64::from(node.broken));
        put(body, u64::from(node.start));
        // A length may wrap: the reader adds with the same rule, and check() judges the result.
        put(body, u64::from(node.end.wrapping_sub(node.start)));
        put(body, u64::from(node.depth));
    }
}

fn put(body: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        body.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    body.push(number as u8);
}

/// The rest of a body that is being read.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in [0, 7, 14, 21, 28, 35] {
            let (byte, rest) = self.0.split_first().ok_or(Malformed::Length)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Value)
    }

    /// Reads a count of items that take at least `bytes_each` bytes: never more than the body can hold.
    fn count(&mut self, bytes_each: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed::Value)?;
        if count > self.0.len() / bytes_each { Err(Malformed::Length) } else { Ok(count) }
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed::Value)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value),
        }
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn seen(&mut self) -> Result<Seen, Malformed> {
        match self.number()? {
            0 => {}
            1 => return Ok(Seen::Refused(Refusal::Guard)),
            2 => return Ok(Seen::Refused(Refusal::Nul)),
            3 => return Ok(Seen::Refused(Refusal::Long)),
            4 => return Ok(Seen::Refused(Refusal::NoTree)),
            _ => return Err(Malformed::Value),
        }
        let count = self.count(4)?;
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let kind: u32 = self.narrow()?;
            let start: u32 = self.narrow()?;
            let length: u32 = self.narrow()?;
            nodes.push(SeenNode {
                kind: u16::try_from(kind >> 1).map_err(|_| Malformed::Value)?,
                broken: kind & 1 == 1,
                start,
                end: start.wrapping_add(length),
                depth: self.narrow()?,
            });
        }
        Ok(Seen::Nodes(nodes))
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Seen> {
        let node = |kind, start, end, depth, broken| SeenNode { kind, start, end, depth, broken };
        vec![
            Seen::Nodes(vec![node(0, 0, 700, 0, false), node(SeenNode::ERROR, 5, 5, 1, true)]),
            Seen::Refused(Refusal::Guard),
            Seen::Refused(Refusal::Nul),
            Seen::Refused(Refusal::Long),
            Seen::Refused(Refusal::NoTree),
            Seen::Nodes(vec![node(3, 9, 2, u32::MAX, false)]),
        ]
    }

    #[test]
    fn answers_survive_the_way() {
        for seen in sample() {
            assert_eq!(read_answer(&answer(&seen)), Ok(seen));
        }
        let kinds = vec![KindName { name: "word", named: true }];
        assert_eq!(read_hello(&hello(&kinds)), Ok(kinds));
    }

    #[test]
    fn a_body_cut_short_or_too_long_is_malformed() {
        for seen in sample() {
            let body = answer(&seen);
            for end in 0..body.len() {
                assert!(read_answer(&body[..end]).is_err(), "{end}");
            }
            let longer = [body.as_slice(), &[0]].concat();
            assert_eq!(read_answer(&longer), Err(Malformed::Length));
        }
    }

    #[test]
    fn a_count_reserves_no_more_than_the_body_holds() {
        let body = [0, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(read_answer(&body), Err(Malformed::Length));
        assert_eq!(read_hello(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(Malformed::Length));
    }

    #[test]
    fn frames_have_a_limit_and_an_end() {
        let mut stream = Vec::new();
        write_frame(&mut stream, b"abc", 3).unwrap();
        let mut input = stream.as_slice();
        assert_eq!(read_frame(&mut input, 3).unwrap(), Some(b"abc".to_vec()));
        assert_eq!(read_frame(&mut input, 3).unwrap(), None);
        assert_eq!(
            read_frame(&mut stream.as_slice(), 2).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(
            read_frame(&mut &stream[..5], 3).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            write_frame(&mut Vec::new(), b"abc", 2).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
