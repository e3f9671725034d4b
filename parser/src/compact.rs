//! Bytes and lists that take little room where they stand: a tree may hold half a million of each.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that are stored in place as long as they are few.
#[derive(Clone)]
pub struct Bytes(Stored);

/// The most bytes that are stored in place: with their number and the kind of storage, three machine words.
const IN_PLACE: usize = 22;

#[derive(Clone)]
enum Stored {
    InPlace { length: u8, bytes: [u8; IN_PLACE] },
    Boxed(Box<[u8]>),
}

impl Bytes {
    /// No bytes.
    pub const EMPTY: Bytes = Bytes(Stored::InPlace { length: 0, bytes: [0; IN_PLACE] });

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            // The number was the length of a slice that fitted.
            Stored::InPlace { length, bytes } => {
                bytes.get(..usize::from(*length)).unwrap_or_default()
            }
            Stored::Boxed(bytes) => bytes,
        }
    }

    /// Stores short bytes in place; none if they are too many.
    fn in_place(source: &[u8]) -> Option<Bytes> {
        let mut bytes = [0; IN_PLACE];
        bytes.get_mut(..source.len())?.copy_from_slice(source);
        Some(Bytes(Stored::InPlace { length: u8::try_from(source.len()).ok()?, bytes }))
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::EMPTY
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::in_place(bytes).unwrap_or_else(|| Bytes(Stored::Boxed(bytes.into())))
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Bytes {
        bytes.as_slice().into()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::in_place(&bytes).unwrap_or_else(|| Bytes(Stored::Boxed(bytes.into())))
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Bytes {}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", self.as_slice().escape_ascii())
    }
}

/// A list that is one pointer: most are empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Thin<T>(
    #[allow(clippy::box_collection, reason = "one pointer where most are empty")]
    Option<Box<Vec<T>>>,
);

impl<T> Thin<T> {
    /// The empty list.
    pub const EMPTY: Thin<T> = Thin(None);

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        self.0.get_or_insert_default().push(item);
    }
}

impl<T> Default for Thin<T> {
    fn default() -> Thin<T> {
        Thin::EMPTY
    }
}

impl<T> Deref for Thin<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().map(Vec::as_slice).unwrap_or_default()
    }
}

impl<T> From<Vec<T>> for Thin<T> {
    fn from(mut items: Vec<T>) -> Thin<T> {
        if items.is_empty() {
            return Thin::EMPTY;
        }
        items.shrink_to_fit();
        Thin(Some(Box::new(items)))
    }
}

impl<T> Extend<T> for Thin<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<'a, T> IntoIterator for &'a Thin<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Thin<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// A list that many hold together; one pointer.
#[derive(PartialEq, Eq, Hash)]
pub struct Shared<T>(Option<Arc<Vec<T>>>);

impl<T> Shared<T> {
    /// The empty list.
    pub const EMPTY: Shared<T> = Shared(None);
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared::EMPTY
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().map(Vec::as_slice).unwrap_or_default()
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(items: Vec<T>) -> Shared<T> {
        Shared((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
