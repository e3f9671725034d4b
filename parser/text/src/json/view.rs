//! Values in their stored form, read where they lie: nothing is copied.
//!
//! A value that cannot be read is none, never a shorter list.

use super::Value;
use super::stored::{
    ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE, count, first, restore, text,
};

/// A stored value.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Stored text from the beginning of the value on; others may follow it.
    from: &'a str,
}

/// The members of a stored object, in order.
#[derive(Debug, Clone)]
pub struct Members<'a>(Vec<(&'a str, View<'a>)>);

impl<'a> View<'a> {
    /// Returns the value with which `from` begins.
    pub fn new(from: &'a str) -> View<'a> {
        View { from }
    }

    /// Returns the text, if this is a string.
    pub fn text(self) -> Option<&'a str> {
        let mut from = self.from;
        (first(&mut from)? == STRING).then_some(())?;
        text(&mut from)
    }

    /// Returns the number as it was written, if this is one.
    pub fn number(self) -> Option<&'a str> {
        let mut from = self.from;
        (first(&mut from)? == NUMBER).then_some(())?;
        text(&mut from)
    }

    /// Returns the truth value, if this is one.
    pub fn boolean(self) -> Option<bool> {
        match *self.from.as_bytes().first()? {
            TRUE => Some(true),
            FALSE => Some(false),
            _ => None,
        }
    }

    /// Returns the elements, if this is an array.
    pub fn elements(self) -> Option<Vec<View<'a>>> {
        let mut from = self.from;
        (first(&mut from)? == ARRAY).then_some(())?;
        let (count, _) = (count(&mut from)?, count(&mut from)?);
        let mut elements = Vec::with_capacity(count.min(from.len()));
        for _ in 0..count {
            elements.push(View { from });
            pass(&mut from)?;
        }
        Some(elements)
    }

    /// Returns the texts, if this is an array of strings.
    pub fn texts(self) -> Option<Vec<&'a str>> {
        let mut from = self.from;
        (first(&mut from)? == ARRAY).then_some(())?;
        let (count, _) = (count(&mut from)?, count(&mut from)?);
        let mut texts = Vec::with_capacity(count.min(from.len()));
        for _ in 0..count {
            (first(&mut from)? == STRING).then_some(())?;
            texts.push(text(&mut from)?);
        }
        Some(texts)
    }

    /// Returns a copy of the value, without places.
    pub fn value(self) -> Option<Value> {
        let mut rest = self.from;
        pass(&mut rest)?;
        restore(self.from.get(..self.from.len().checked_sub(rest.len())?)?)
    }

    /// Returns the members, if this is an object.
    pub fn members(self) -> Option<Members<'a>> {
        let mut from = self.from;
        (first(&mut from)? == OBJECT).then_some(())?;
        let (count, _) = (count(&mut from)?, count(&mut from)?);
        let mut members = Vec::with_capacity(count.min(from.len()));
        for _ in 0..count {
            (first(&mut from)? == STRING).then_some(())?;
            members.push((text(&mut from)?, View { from }));
            pass(&mut from)?;
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
fn pass(from: &mut &str) -> Option<()> {
    match first(from)? {
        NULL | FALSE | TRUE => Some(()),
        NUMBER | STRING => text(from).map(drop),
        ARRAY | OBJECT => {
            count(from)?;
            text(from).map(drop)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Dialect, read, stored};

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
        assert_eq!(View::new(stored.get(..stored.len() - 1).unwrap()).value(), None);
        assert!(elements[1].members().unwrap().get("x").unwrap().elements().is_some());
        assert_eq!(members.get("b").unwrap().texts(), Some(vec!["one", "é"]));
        assert_eq!(members.get("a").unwrap().texts(), None);
        assert_eq!(members.get("c").unwrap().number(), Some("-1.5"));
        assert_eq!(members.get("d").unwrap().boolean(), Some(false));
        assert!(members.get("d").unwrap().text().is_none() && members.get("e").is_none());
        for (length, _) in stored.char_indices() {
            assert!(View::new(stored.split_at(length).0).members().is_none(), "{length}");
        }
    }
}
