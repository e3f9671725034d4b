//! Values in a form that is read without looking for anything: what the build makes of a table.
//!
//! A tag, then what the value holds: lengths and counts as four bytes, little-endian; strings as they are; behind the
//! count of elements or members how many bytes they take, so that they can be passed over. Places in the text are left
//! out, and every span that is read back is empty.

use super::{Kind, MAX_DEPTH, Member, Value};
use crate::Span;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const NUMBER: u8 = 3;
pub(super) const STRING: u8 = 4;
pub(super) const ARRAY: u8 = 5;
pub(super) const OBJECT: u8 = 6;

/// Returns the stored form of `value`; none for one that is nested more deeply than a text may be, or is beyond 4 GiB.
pub fn store(value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put(value, 0, &mut out)?;
    Some(out)
}

fn put(value: &Value, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    match &value.kind {
        Kind::Null => out.push(NULL),
        Kind::Bool(false) => out.push(FALSE),
        Kind::Bool(true) => out.push(TRUE),
        Kind::Number(text) => put_text(NUMBER, text, out)?,
        Kind::String(text) => put_text(STRING, text, out)?,
        Kind::Array(elements) => {
            put_count(ARRAY, elements.len(), out)?;
            let start = leave_room(out);
            for element in elements {
                put(element, depth + 1, out)?;
            }
            fill_room(start, out)?;
        }
        Kind::Object(members) => {
            put_count(OBJECT, members.len(), out)?;
            let start = leave_room(out);
            for member in members {
                put_text(STRING, &member.key, out)?;
                put(&member.value, depth + 1, out)?;
            }
            fill_room(start, out)?;
        }
    }
    Some(())
}

fn put_count(tag: u8, count: usize, out: &mut Vec<u8>) -> Option<()> {
    out.push(tag);
    out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
    Some(())
}

/// Leaves room for the length of what follows, and returns where that begins.
fn leave_room(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len()
}

fn fill_room(start: usize, out: &mut [u8]) -> Option<()> {
    let length = u32::try_from(out.len() - start).ok()?;
    out.get_mut(start.checked_sub(4)?..start)?.copy_from_slice(&length.to_le_bytes());
    Some(())
}

fn put_text(tag: u8, text: &str, out: &mut Vec<u8>) -> Option<()> {
    put_count(tag, text.len(), out)?;
    out.extend_from_slice(text.as_bytes());
    Some(())
}

/// Returns the value that is stored in all of `bytes`.
pub fn restore(mut bytes: &[u8]) -> Option<Value> {
    let value = take(&mut bytes, 0)?;
    bytes.is_empty().then_some(value)
}

fn take(from: &mut &[u8], depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let tag = first(from)?;
    let kind = match tag {
        NULL => Kind::Null,
        FALSE => Kind::Bool(false),
        TRUE => Kind::Bool(true),
        NUMBER => Kind::Number(text(from)?),
        STRING => Kind::String(text(from)?),
        ARRAY => {
            let (count, _) = (count(from)?, count(from)?);
            // Each element takes a byte at least.
            let mut elements = Vec::with_capacity(count.min(from.len()));
            for _ in 0..count {
                elements.push(take(from, depth + 1)?);
            }
            Kind::Array(elements)
        }
        OBJECT => {
            let (count, _) = (count(from)?, count(from)?);
            let mut members = Vec::with_capacity(count.min(from.len()));
            for _ in 0..count {
                (first(from)? == STRING).then_some(())?;
                let key = text(from)?;
                let value = take(from, depth + 1)?;
                members.push(Member { key, key_span: Span::new(0, 0), value });
            }
            Kind::Object(members)
        }
        _ => return None,
    };
    Some(Value { span: Span::new(0, 0), kind })
}

pub(super) fn first(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

pub(super) fn count(from: &mut &[u8]) -> Option<usize> {
    let (count, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    usize::try_from(u32::from_le_bytes(*count)).ok()
}

fn text(from: &mut &[u8]) -> Option<String> {
    let length = count(from)?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok()
}
