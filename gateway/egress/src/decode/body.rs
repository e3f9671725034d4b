//! How much of what a client sends still belongs to its request. Nothing behind the end of a body is handed
//! on, so a second request can never hide in a first one.

use super::http::Body;

/// Longest line with the size of a chunk.
const MAX_LINE: usize = 64;

/// Follows one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate(State);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Bytes(u64),
    /// The line with a size, so far.
    Size(Vec<u8>),
    /// Bytes of a chunk that are left.
    Chunk(u64),
    /// The line end behind a chunk; the last chunk ends the body with it.
    End {
        seen: usize,
        last: bool,
    },
    Done,
}

/// Why a body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of the body are not in their plain form")]
pub struct BodyError;

impl Gate {
    /// Returns the gate for a body of this kind.
    pub fn new(body: Body) -> Gate {
        match body {
            Body::Length(0) => Gate(State::Done),
            Body::Length(length) => Gate(State::Bytes(length)),
            Body::Chunked => Gate(State::Size(Vec::new())),
        }
    }

    /// Says whether the body is over.
    pub fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// Takes the next bytes and returns how many of them belong to the body.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut rest = bytes;
        while let Some((first, behind)) = rest.split_first() {
            let mut used = 1;
            self.0 = match std::mem::replace(&mut self.0, State::Done) {
                State::Done => break,
                State::Bytes(left) => {
                    used = fitting(left, rest.len());
                    match left - used as u64 {
                        0 => State::Done,
                        left => State::Bytes(left),
                    }
                }
                State::Chunk(left) => {
                    used = fitting(left, rest.len());
                    match left - used as u64 {
                        0 => State::End { seen: 0, last: false },
                        left => State::Chunk(left),
                    }
                }
                State::Size(mut line) => {
                    line.push(*first);
                    size(line)?
                }
                State::End { seen: 0, last } if *first == b'\r' => State::End { seen: 1, last },
                State::End { seen: 1, last: true } if *first == b'\n' => State::Done,
                State::End { seen: 1, last: false } if *first == b'\n' => State::Size(Vec::new()),
                State::End { .. } => return Err(BodyError),
            };
            rest = if used == 1 { behind } else { rest.get(used..).unwrap_or_default() };
        }
        Ok(bytes.len() - rest.len())
    }
}

fn fitting(left: u64, length: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(length)
}

fn size(line: Vec<u8>) -> Result<State, BodyError> {
    let Some(digits) = line.strip_suffix(b"\r\n") else {
        let plain = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'\r');
        let sound = line.len() < MAX_LINE && line.iter().all(plain);
        return if sound { Ok(State::Size(line)) } else { Err(BodyError) };
    };
    let sound = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| sound).ok_or(BodyError)?;
    match u64::from_str_radix(text, 16) {
        Ok(0) => Ok(State::End { seen: 0, last: true }),
        Ok(length) => Ok(State::Chunk(length)),
        Err(_) => Err(BodyError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Body, text: &str, expected: Result<(usize, bool), BodyError>) {
        let mut whole = Gate::new(body);
        let taken = whole.take(text.as_bytes()).map(|count| (count, whole.is_done()));
        assert_eq!(taken, expected, "{text:?}");
        // The same in single bytes.
        let mut gate = Gate::new(body);
        let mut count = 0;
        let stopped = text.as_bytes().chunks(1).try_for_each(|byte| {
            count += gate.take(byte)?;
            Ok(())
        });
        assert_eq!(stopped.map(|()| (count, gate.is_done())), expected, "{text:?}");
    }

    #[test]
    fn nothing_behind_the_end_belongs_to_the_body() {
        check(Body::Length(0), "GET / HTTP/1.1", Ok((0, true)));
        check(Body::Length(3), "abcGET / HTTP/1.1", Ok((3, true)));
        check(Body::Length(9), "abc", Ok((3, false)));
        check(Body::Chunked, "3\r\nabc\r\n0\r\n\r\nGET /", Ok((13, true)));
        check(Body::Chunked, "A\r\n0123456789\r\n", Ok((15, false)));
    }

    #[test]
    fn chunks_in_another_form_are_refused() {
        for text in [
            "3\nabc\r\n0\r\n\r\n",
            "3 \r\nabc\r\n",
            "0x3\r\nabc\r\n",
            "+3\r\nabc\r\n",
            "3;ext=1\r\nabc\r\n",
            "\r\nabc",
            "3\r\nabcd\r\n",
            "0\r\nTrailer: x\r\n\r\n",
            "0\r\n\n",
            "fffffffffffffffff\r\n",
            "3\r\r\nabc",
        ] {
            check(Body::Chunked, text, Err(BodyError));
        }
    }
}
