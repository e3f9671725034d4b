//! Values in their stored form, read where they lie: nothing is copied.
//!
//! What cannot be read is none, never a shorter list.

use super::Value;
use super::stored::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE, count, first, restore};

/// A stored value.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// It begins here; behind it others may follow.
    bytes: &'a [u8],
}

/// The members of a stored object, in order.
#[derive(Debug, Clone)]
pub struct Members<'a>(Vec<(&'a str, View<'a>)>);

impl<'a> View<'a> {
    /// Returns the value with which `bytes` begin.
    pub fn new(bytes: &'a [u8]) -> View<'a> {
        View { bytes }
    }

    /// Returns the text, if this is a string.
    pub fn text(self) -> Option<&'a str> {
        let mut bytes = self.bytes;
        (first(&mut bytes)? == STRING).then_some(())?;
        text(&mut bytes)
    }

    /// Returns the number as it was written, if this is one.
    pub fn number(self) -> Option<&'a str> {
        let mut bytes = self.bytes;
        (first(&mut bytes)? == NUMBER).then_some(())?;
        text(&mut bytes)
    }

    /// Returns the truth value, if this is one.
    pub fn boolean(self) -> Option<bool> {
        match *self.bytes.first()? {
            TRUE => Some(true),
            FALSE => Some(false),
            _ => None,
        }
    }

    /// Returns the elements, if this is an array.
    pub fn elements(self) -> Option<Vec<View<'a>>> {
        let mut bytes = self.bytes;
        (first(&mut bytes)? == ARRAY).then_some(())?;
        let (count, _) = (count(&mut bytes)?, count(&mut bytes)?);
        let mut elements = Vec::with_capacity(count.min(bytes.len()));
        for _ in 0..count {
            elements.push(View { bytes });
            pass(&mut bytes)?;
        }
        Some(elements)
    }

    /// Returns the texts, if this is an array of strings.
    pub fn texts(self) -> Option<Vec<&'a str>> {
        let mut bytes = self.bytes;
        (first(&mut bytes)? == ARRAY).then_some(())?;
        let (count, _) = (count(&mut bytes)?, count(&mut bytes)?);
        let mut texts = Vec::with_capacity(count.min(bytes.len()));
        for _ in 0..count {
            (first(&mut bytes)? == STRING).then_some(())?;
            texts.push(text(&mut bytes)?);
        }
        Some(texts)
    }

    /// Returns a copy of the value, without places.
    pub fn value(self) -> Option<Value> {
        let mut rest = self.bytes;
        pass(&mut rest)?;
        restore(self.bytes.get(..self.bytes.len().checked_sub(rest.len())?)?)
    }

    /// Returns the members, if this is an object.
    pub fn members(self) -> Option<Members<'a>> {
        let mut bytes = self.bytes;
        (first(&mut bytes)? == OBJECT).then_some(())?;
        let (count, _) = (count(&mut bytes)?, count(&mut bytes)?);
        let mut members = Vec::with_capacity(count.min(bytes.len()));
        for _ in 0..count {
            (first(&mut bytes)? == STRING).then_some(())?;
            members.push((text(&mut bytes)?, View { bytes }));
            pass(&mut bytes)?;
        }
        Some(Members(members))
    }
}

impl<'a> Members<'a> {
    /// Returns the value of member `key`.
    pub fn get(&self, key: &str) -> Option<View<'a>> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// Returns keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, View<'a>)> + use<'a, '_> {
        self.0.iter().copied()
    }
}

/// Goes on behind the value with which `from` begins.
fn pass(from: &mut &[u8]) -> Option<()> {
    match first(from)? {
        NULL | FALSE | TRUE => Some(()),
        NUMBER | STRING => text_bytes(from).map(drop),
        ARRAY | OBJECT => {
            count(from)?;
            text_bytes(from).map(drop)
        }
        _ => None,
    }
}

/// Takes a length, and so many bytes.
fn text_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = count(from)?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(text)
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(text_bytes(from)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, read, stored};
    use super::*;

    #[test]
    fn what_is_stored_is_seen_and_what_is_cut_is_none() {
        let text =
            br#"{"a": [null, {"x": [[]]}, true], "b": ["one", "\u00e9"], "c": -1.5, "d": false}"#;
        let stored = stored::store(&read(text, Dialect::Strict).unwrap()).unwrap();
        let members = View::new(&stored).members().unwrap();
        let keys: Vec<&str> = members.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b", "c", "d"]);
        let elements = members.get("a").unwrap().elements().unwrap();
        assert_eq!((elements.len(), elements[2].boolean()), (3, Some(true)));
        let whole = stored::restore(&stored).unwrap();
        assert_eq!(View::new(&stored).value().as_ref(), Some(&whole));
        assert_eq!(members.get("b").unwrap().value().as_ref(), whole.get("b"));
        assert_eq!(View::new(&stored[..stored.len() - 1]).value(), None);
        assert!(elements[1].members().unwrap().get("x").unwrap().elements().is_some());
        assert_eq!(members.get("b").unwrap().texts(), Some(vec!["one", "é"]));
        assert_eq!(members.get("a").unwrap().texts(), None);
        assert_eq!(members.get("c").unwrap().number(), Some("-1.5"));
        assert_eq!(members.get("d").unwrap().boolean(), Some(false));
        assert!(members.get("d").unwrap().text().is_none() && members.get("e").is_none());
        for length in 0..stored.len() {
            assert!(View::new(&stored[..length]).members().is_none(), "{length}");
        }
    }
}
