//! Values in a form that is read without looking for anything: what the build makes of a table.
//!
//! A tag, then what the value holds: lengths and counts as four characters of seven bits, the lowest first; strings as they
//! are; behind the count of elements or members how many bytes they take, so that they can be passed over. Places in the
//! text are left out, and every span that is read back is empty. The whole is a text: what is built into a program was looked
//! through when that was compiled, and no string has to be once more.

use super::{Kind, MAX_DEPTH, Member, Value};
use crate::Span;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const NUMBER: u8 = 3;
pub(super) const STRING: u8 = 4;
pub(super) const ARRAY: u8 = 5;
pub(super) const OBJECT: u8 = 6;

/// Characters of a count.
const COUNT: usize = 4;

/// Returns the stored form of `value`; none for one that is nested more deeply than a text may be, or is beyond 256 MiB.
pub fn store(value: &Value) -> Option<String> {
    let mut out = Vec::new();
    put(value, 0, &mut out)?;
    String::from_utf8(out).ok()
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
    out.extend_from_slice(&characters(count)?);
    Some(())
}

/// Returns how a count is written.
fn characters(count: usize) -> Option<[u8; COUNT]> {
    let mut rest = count;
    let characters = std::array::from_fn(|_| {
        let low = rest % 128;
        rest /= 128;
        u8::try_from(low).unwrap_or(0)
    });
    (rest == 0).then_some(characters)
}

/// Leaves room for the length of what follows, and returns where that begins.
fn leave_room(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; COUNT]);
    out.len()
}

fn fill_room(start: usize, out: &mut [u8]) -> Option<()> {
    let length = characters(out.len() - start)?;
    out.get_mut(start.checked_sub(COUNT)?..start)?.copy_from_slice(&length);
    Some(())
}

fn put_text(tag: u8, text: &str, out: &mut Vec<u8>) -> Option<()> {
    put_count(tag, text.len(), out)?;
    out.extend_from_slice(text.as_bytes());
    Some(())
}

/// Returns the value that is stored in all of `text`.
pub fn restore(mut text: &str) -> Option<Value> {
    let value = take(&mut text, 0)?;
    text.is_empty().then_some(value)
}

fn take(from: &mut &str, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let tag = first(from)?;
    let kind = match tag {
        NULL => Kind::Null,
        FALSE => Kind::Bool(false),
        TRUE => Kind::Bool(true),
        NUMBER => Kind::Number(text(from)?.to_owned()),
        STRING => Kind::String(text(from)?.to_owned()),
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
                let key = text(from)?.to_owned();
                let value = take(from, depth + 1)?;
                members.push(Member { key, key_span: Span::new(0, 0), value });
            }
            Kind::Object(members)
        }
        _ => return None,
    };
    Some(Value { span: Span::new(0, 0), kind })
}

pub(super) fn first(from: &mut &str) -> Option<u8> {
    let first = *from.as_bytes().first()?;
    *from = from.get(1..)?;
    Some(first)
}

pub(super) fn count(from: &mut &str) -> Option<usize> {
    let (count, rest) = from.split_at_checked(COUNT)?;
    *from = rest;
    count.bytes().rev().try_fold(0_usize, |all, character| {
        character.is_ascii().then(|| all * 128 + usize::from(character))
    })
}

/// Takes a length, and so many bytes.
pub(super) fn text<'a>(from: &mut &'a str) -> Option<&'a str> {
    let length = count(from)?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(text)
}
