//! Writes messages of Protocol Buffers: what OTLP needs of them.

/// A message, field by field in the order in which they are put. A field with the value that means "not set" is left out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

/// The wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

impl Message {
    /// Returns the encoded message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// Puts a number of variable length, or an enum.
    pub(crate) fn number(mut self, field: u64, value: u64) -> Message {
        if value != 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
        self
    }

    /// Puts a member of a `oneof` that is a number: zero is a value there.
    pub(crate) fn chosen_number(mut self, field: u64, value: u64) -> Message {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// Puts a number of eight bytes, zero too: a point in time, or a member of a `oneof`.
    pub(crate) fn fixed64(mut self, field: u64, value: u64) -> Message {
        self.key(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Puts a number of four bytes.
    pub(crate) fn fixed32(mut self, field: u64, value: u32) -> Message {
        if value != 0 {
            self.key(field, FIXED32);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    /// Puts bytes.
    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        if !value.is_empty() {
            self = self.chosen_bytes(field, value);
        }
        self
    }

    /// Puts a member of a `oneof` that is bytes or text: none is a value there.
    pub(crate) fn chosen_bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    /// Puts text.
    pub(crate) fn text(self, field: u64, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    /// Puts a message.
    pub(crate) fn message(self, field: u64, value: Message) -> Message {
        self.chosen_bytes(field, &value.0)
    }

    /// Puts several messages.
    pub(crate) fn messages(self, field: u64, values: impl IntoIterator<Item = Message>) -> Message {
        values.into_iter().fold(self, |message, value| message.message(field, value))
    }
}

/// Returns the first field of that number in an encoded message, if it is bytes, text or a message.
pub(crate) fn field(mut encoded: &[u8], wanted: u64) -> Option<Value<'_>> {
    while !encoded.is_empty() {
        let key = take_varint(&mut encoded)?;
        let value = match key & 7 {
            VARINT => Value::Number(take_varint(&mut encoded)?),
            FIXED64 => Value::Bytes(take(&mut encoded, 8)?),
            FIXED32 => Value::Bytes(take(&mut encoded, 4)?),
            BYTES => {
                let length = take_varint(&mut encoded)?;
                Value::Bytes(take(&mut encoded, usize::try_from(length).ok()?)?)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(value);
        }
    }
    None
}

/// A value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn take<'a>(encoded: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = encoded.split_at_checked(length)?;
    *encoded = rest;
    Some(taken)
}

fn take_varint(encoded: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(encoded, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_bytes_of_the_encoding() {
        // The examples of the documentation of the encoding: 150 in field 1, "testing" in field 2, both in field 3.
        let number = Message::default().number(1, 150);
        assert_eq!(number.clone().into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing");
        assert_eq!(text.clone().into_bytes(), b"\x12\x07testing");
        let nested = Message::default().message(3, number);
        assert_eq!(nested.into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let fixed = Message::default().fixed64(1, 1).fixed32(2, 1);
        assert_eq!(fixed.into_bytes(), [9, 1, 0, 0, 0, 0, 0, 0, 0, 21, 1, 0, 0, 0]);
        let unset = Message::default().number(1, 0).text(2, "").fixed32(3, 0);
        assert!(unset.into_bytes().is_empty());
        let chosen = Message::default().chosen_number(1, 0).chosen_bytes(2, b"");
        assert_eq!(chosen.into_bytes(), [8, 0, 18, 0]);
    }

    #[test]
    fn a_field_is_found_behind_others_and_nonsense_is_none() {
        let inner = Message::default().number(1, 7).text(2, "why").into_bytes();
        let outer = Message::default().fixed64(4, 1).chosen_bytes(1, &inner).into_bytes();
        let Some(Value::Bytes(found)) = field(&outer, 1) else { panic!("it is there") };
        assert_eq!(field(found, 1), Some(Value::Number(7)));
        assert_eq!(field(found, 2), Some(Value::Bytes(b"why")));
        assert_eq!(field(found, 3), None);
        for nonsense in
            [&b"\xff"[..], b"\x0a\x7f", b"\x0b", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(field(nonsense, 1), None);
        }
    }
}
