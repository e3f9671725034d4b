//! The Merkle tree of RFC 6962 over the records, kept incrementally and laid out as C2SP tlog-tiles.
//!
//! Entry *i* is the SHA-256 of line *i*. A tile holds 256 hashes; what is not yet a full tile is kept
//! here and in the file `edge`.

use super::hash::{Hash, sha256};

/// Hashes in a full tile.
pub(super) const TILE: usize = 256;

/// A tile that became full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) level: usize,
    pub(super) index: u64,
    pub(super) hashes: Vec<Hash>,
}

/// A tree of any size, by the hashes that its growth still needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    size: u64,
    /// Roots of the complete subtrees, largest first: one for each bit of `size`.
    peaks: Vec<Hash>,
    /// For each tile level the hashes that are not in a full tile.
    edge: Vec<Vec<Hash>>,
}

/// Returns the leaf of a line whose SHA-256 is `line`.
pub(super) fn leaf(line: &Hash) -> Hash {
    sha256(&[&[0], line])
}

/// Returns the node above two hashes.
pub(super) fn node(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
}

impl Tree {
    /// Returns the tree of `size` leaves with these unfinished tiles; none when the counts do not fit.
    pub(super) fn from_edge(size: u64, edge: Vec<Vec<Hash>>) -> Option<Tree> {
        let mut rest = size;
        for level in &edge {
            let expected = usize::try_from(rest % TILE as u64).ok()?;
            if level.len() != expected {
                return None;
            }
            rest /= TILE as u64;
        }
        if rest != 0 {
            return None;
        }
        let peaks = edge.iter().rev().flat_map(|level| subtrees(level)).collect();
        Some(Tree { size, peaks, edge })
    }

    /// The number of leaves.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The unfinished tiles by level.
    pub(super) fn edge(&self) -> &[Vec<Hash>] {
        &self.edge
    }

    /// Adds a leaf and returns the tiles that became full.
    pub(super) fn push(&mut self, leaf: Hash) -> Vec<Tile> {
        let mut full = Vec::new();
        self.keep(0, leaf);
        let mut carried = leaf;
        let mut height = 0;
        while self.size >> height & 1 == 1 {
            if let Some(left) = self.peaks.pop() {
                carried = node(&left, &carried);
            }
            height += 1;
            if height % 8 == 0 {
                let level = height / 8 - 1;
                let index = self.size >> height;
                let hashes = self.edge.get_mut(level).map(std::mem::take).unwrap_or_default();
                full.push(Tile { level, index, hashes });
                self.keep(level + 1, carried);
            }
        }
        self.peaks.push(carried);
        self.size += 1;
        full
    }

    fn keep(&mut self, level: usize, hash: Hash) {
        if self.edge.len() <= level {
            self.edge.resize(level + 1, Vec::new());
        }
        if let Some(hashes) = self.edge.get_mut(level) {
            hashes.push(hash);
        }
    }

    /// The root; for no leaves the SHA-256 of nothing.
    pub(super) fn root(&self) -> Hash {
        fold(&self.peaks)
    }
}

/// Returns the root above complete subtrees, largest first.
pub(super) fn fold(peaks: &[Hash]) -> Hash {
    let above = peaks.iter().rev().copied().reduce(|right, left| node(&left, &right));
    above.unwrap_or_else(|| sha256(&[]))
}

/// Returns the roots of the complete subtrees over `hashes`, largest first.
fn subtrees(hashes: &[Hash]) -> Vec<Hash> {
    let mut roots = Vec::new();
    let mut rest = hashes;
    while !rest.is_empty() {
        let width = 1_usize << rest.len().ilog2();
        let (first, after) = rest.split_at(width);
        let mut row = first.to_vec();
        while row.len() > 1 {
            row = row
                .chunks_exact(2)
                .map(|pair| match pair {
                    [left, right] => node(left, right),
                    _ => [0; 32],
                })
                .collect();
        }
        roots.extend(row);
        rest = after;
    }
    roots
}

/// Returns the root of the first `size` leaves of a larger tree, from hashes by tile level and index;
/// none when `hash_at` lacks one.
pub(super) fn root_at(
    size: u64,
    mut hash_at: impl FnMut(usize, u64) -> Option<Hash>,
) -> Option<Hash> {
    let mut peaks = Vec::new();
    let mut levels = Vec::new();
    let mut rest = size;
    while rest > 0 {
        levels.push(rest);
        rest /= TILE as u64;
    }
    for (level, count) in levels.iter().enumerate().rev() {
        let first = count / TILE as u64 * TILE as u64;
        let hashes: Option<Vec<Hash>> =
            (first..*count).map(|index| hash_at(level, index)).collect();
        peaks.extend(subtrees(&hashes?));
    }
    Some(fold(&peaks))
}

/// Returns the path of a tile below the log's folder: `tile/0/x001/234`.
pub(super) fn tile_path(level: usize, index: u64) -> String {
    let mut parts = vec![format!("{:03}", index % 1000)];
    let mut rest = index / 1000;
    while rest > 0 {
        parts.push(format!("x{:03}", rest % 1000));
        rest /= 1000;
    }
    parts.reverse();
    format!("tile/{level}/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of RFC 6962, section 2.1, word by word.
    fn defined(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => sha256(&[]),
            [one] => *one,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node(&defined(&leaves[..split]), &defined(&leaves[split..]))
            }
        }
    }

    #[test]
    fn every_size_has_the_root_of_the_definition() {
        let mut tree = Tree::default();
        let mut leaves: Vec<Hash> = Vec::new();
        let mut tiles = Vec::new();
        for number in 0..700_u64 {
            assert_eq!(tree.root(), defined(&leaves), "{number}");
            assert_eq!(Tree::from_edge(number, tree.edge().to_vec()).unwrap().root(), tree.root());
            let hash = leaf(&sha256(&[&number.to_be_bytes()]));
            leaves.push(hash);
            tiles.extend(tree.push(hash));
        }
        let places: Vec<_> = tiles.iter().map(|tile| (tile.level, tile.index)).collect();
        assert_eq!(places, [(0, 0), (0, 1)]);
        for size in [0, 1, 255, 256, 257, 511, 512, 600, 699] {
            let root = root_at(size, |level, index| {
                let (tile, place) = (index / 256, (index % 256) as usize);
                let full = tiles.iter().find(|full| full.level == level && full.index == tile);
                full.map_or_else(
                    || tree.edge()[level].get(place).copied(),
                    |full| Some(full.hashes[place]),
                )
            });
            assert_eq!(root, Some(defined(&leaves[..size as usize])), "{size}");
        }
    }

    #[test]
    fn tiles_have_the_paths_of_the_standard() {
        assert_eq!(tile_path(0, 7), "tile/0/007");
        assert_eq!(tile_path(1, 1_234_067), "tile/1/x001/x234/067");
    }
}
