//! Keys of a terminal, as it sends them (ECMA-48, and what xterm sends for arrows).

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the rest of a key may take; an escape alone is a key as well.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    /// The person leaves: Esc, Ctrl-C, Ctrl-D, or a terminal that is gone.
    Leave,
    Erase,
    /// Takes all of the text away (Ctrl-U).
    Clear,
    Letter(char),
    Other,
}

/// The keys of standard input.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
}

impl Keys {
    /// Waits for the next key.
    pub(super) fn next(&mut self) -> Key {
        loop {
            if let Some((key, length)) = first(&self.bytes) {
                self.bytes.drain(..length);
                return key;
            }
            if !self.bytes.is_empty() && !has_more() {
                let lone = std::mem::take(&mut self.bytes);
                return if lone == [0x1b] { Key::Leave } else { Key::Other };
            }
            let mut more = [0; 64];
            match rustix::io::read(rustix::stdio::stdin(), &mut more) {
                Ok(count) if count > 0 => self.bytes.extend(more.iter().take(count)),
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return Key::Leave,
            }
        }
    }
}

fn has_more() -> bool {
    let mut polled = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    poll(&mut polled, Some(&REST)).is_ok_and(|ready| ready > 0)
}

/// Returns the first key and its bytes; none while it is not whole.
fn first(bytes: &[u8]) -> Option<(Key, usize)> {
    let key = match bytes.first()? {
        0x1b => return sequence(bytes),
        b'\r' | b'\n' => Key::Enter,
        0x7f | 0x08 => Key::Erase,
        0x15 => Key::Clear,
        0x03 | 0x04 => Key::Leave,
        0x10 => Key::Up,
        0x0e => Key::Down,
        0..0x20 => Key::Other,
        _ => return letter(bytes),
    };
    Some((key, 1))
}

fn letter(bytes: &[u8]) -> Option<(Key, usize)> {
    let whole = bytes.utf8_chunks().next()?;
    match whole.valid().chars().next() {
        Some(letter) => Some((Key::Letter(letter), letter.len_utf8())),
        // A beginning of up to three bytes may go on.
        None if bytes.len() < 4 && whole.invalid().len() == bytes.len() => None,
        None => Some((Key::Other, whole.invalid().len().max(1))),
    }
}

/// Reads a key that begins with an escape.
fn sequence(bytes: &[u8]) -> Option<(Key, usize)> {
    match bytes.get(1)? {
        b'[' | b'O' => {}
        // Esc, and a key behind it.
        0x1b => return Some((Key::Leave, 1)),
        _ => return Some((Key::Other, 2)),
    }
    let rest = bytes.get(2..)?;
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let key = match rest.get(..=end)? {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => Key::Other,
    };
    Some((key, end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_terminals_send_them() {
        let all = |mut bytes: &[u8]| {
            let mut keys = Vec::new();
            while let Some((key, length)) = first(bytes) {
                keys.push(key);
                bytes = &bytes[length..];
            }
            (keys, bytes.len())
        };
        let typed = "aé\u{1b}[A\u{1b}OB\u{1b}[6~\u{1b}[1;5C\u{7f}\u{15}\r\u{3}".as_bytes();
        let expected = [
            Key::Letter('a'),
            Key::Letter('é'),
            Key::Up,
            Key::Down,
            Key::PageDown,
            Key::Other,
            Key::Erase,
            Key::Clear,
            Key::Enter,
            Key::Leave,
        ];
        assert_eq!(all(typed), (expected.to_vec(), 0));
        // Beginnings wait for the rest.
        assert_eq!(all(b"\x1b"), (vec![], 1));
        assert_eq!(all(b"\x1b[1;"), (vec![], 4));
        assert_eq!(all(&[0xc3]), (vec![], 1));
        assert_eq!(all(&[0xff, b'x']), (vec![Key::Other, Key::Letter('x')], 0));
    }
}
