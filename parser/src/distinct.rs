//! Adding to a list what is not in it yet, at a cost that does not grow with the list.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lists shorter than this are simply looked through.
const SHORT: usize = 16;

/// Remembers, for each hash, where an item with it stands in a list that only grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distinct {
    places: HashMap<u64, usize>,
    /// How much of the list is in `places`.
    counted: usize,
}

impl Distinct {
    /// Adds `item` to `list` unless it is in it. An item that shares its hash with another one is added again.
    pub(crate) fn add<T: Hash + PartialEq>(&mut self, list: &mut Vec<T>, item: T) {
        if list.len() < SHORT {
            if !list.contains(&item) {
                list.push(item);
            }
            return;
        }
        for (place, old) in list.iter().enumerate().skip(self.counted) {
            self.places.entry(hash(old)).or_insert(place);
        }
        self.counted = list.len();
        let place = self.places.entry(hash(&item)).or_insert(self.counted);
        if list.get(*place) != Some(&item) {
            list.push(item);
        }
    }
}

fn hash(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
