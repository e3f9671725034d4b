//! Where the log ends: the last line, the tree above it, and the cache of both in the file `edge`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::checkpoint::{Checkpoint, PublicKey};
use super::files::{self, Durability};
use super::hash::{Hash, hex, sha256, unhex};
use super::line::{self, FORMAT, Head, Lines, Step};
use super::tree::{Tile, Tree, leaf, root_at, tile_path};

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// The segment with the last line; 0 before the first.
    pub(super) segment: u64,
    /// Where the last line begins.
    pub(super) start: u64,
    /// The byte behind it.
    pub(super) end: u64,
    /// The sequence number of the segment's first record.
    pub(super) first: u64,
    /// SHA-256 of the last line, or what stands for it before the first.
    pub(super) last: Hash,
    pub(super) tree: Tree,
}

/// State of the file behind the last good line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    Clean,
    /// An incomplete line.
    Torn(Vec<u8>),
    /// Bytes that do not continue the chain, and why.
    Bad(String),
    /// A record of a later format.
    Newer(u64),
}

/// Returns what `prev` of the first record holds.
pub(super) fn genesis(trust: &PublicKey) -> Hash {
    sha256(&[trust.name.as_bytes(), b"\n", trust.line().as_bytes()])
}

/// Returns the part of the origin that records carry as `chain`.
pub(super) fn chain(trust: &PublicKey) -> &str {
    trust.name.rsplit('/').next().unwrap_or_default()
}

impl Position {
    /// The end of a log without records.
    pub(super) fn beginning(trust: &PublicKey) -> Position {
        Position {
            segment: 0,
            start: 0,
            end: 0,
            first: 0,
            last: genesis(trust),
            tree: Tree::default(),
        }
    }

    /// The sequence number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.tree.size()
    }

    /// Takes in a line of `segment` that begins at `start`, and returns the tiles that became full.
    pub(super) fn take(&mut self, segment: u64, start: u64, line: &[u8]) -> Vec<Tile> {
        if segment != self.segment {
            self.first = self.next();
        }
        self.segment = segment;
        self.start = start;
        self.end = start + line.len() as u64 + 1;
        self.last = sha256(&[line]);
        self.tree.push(leaf(&self.last))
    }

    /// Says why `head` does not continue this position.
    pub(super) fn refuses(&self, head: &Head, chain: &str) -> Option<String> {
        if head.version != FORMAT {
            Some(format!("it has format {}", head.version))
        } else if head.chain != chain {
            Some("it belongs to another chain".into())
        } else if head.sequence != self.next() {
            Some(format!("it has sequence {} where {} is due", head.sequence, self.next()))
        } else if head.previous != self.last {
            Some("its `prev` is not the digest of the line before".into())
        } else {
            None
        }
    }

    /// Reads on to the end of the log in `directory`, calls `seen` after each line, and returns what
    /// stands behind the last good one.
    pub(super) fn advance(
        &mut self,
        directory: &Path,
        chain: &str,
        mut seen: impl FnMut(&Position, &Head, Vec<Tile>) -> io::Result<()>,
    ) -> io::Result<Tail> {
        let mut number = self.segment.max(1);
        let mut from = self.end;
        loop {
            let path = directory.join(files::segment_name(number));
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && number != self.segment => {
                    return Ok(Tail::Clean);
                }
                Err(error) => return Err(error),
            };
            file.seek(SeekFrom::Start(from))?;
            let mut lines = Lines::new(BufReader::with_capacity(1 << 16, file), from);
            loop {
                let start = lines.offset;
                let content = match lines.next()? {
                    Step::Line(content) => content,
                    Step::End => break,
                    Step::Torn(rest) => return Ok(Tail::Torn(rest)),
                    Step::Rubbish => {
                        return Ok(Tail::Bad("there are bytes after the padding".into()));
                    }
                };
                let head = match line::read(&content) {
                    Ok((head, _)) => head,
                    Err(reason) => return Ok(Tail::Bad(format!("it is not a record: {reason}"))),
                };
                if head.version > FORMAT {
                    return Ok(Tail::Newer(head.version));
                }
                if let Some(reason) = self.refuses(&head, chain) {
                    return Ok(Tail::Bad(reason));
                }
                let tiles = self.take(number, start, &content);
                seen(self, &head, tiles)?;
            }
            number += 1;
            from = 0;
        }
    }

    /// Writes the cache of this position to `path`.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let mut text = format!(
            "stockade edge 1\nsize {}\nsegment {}\nstart {}\nend {}\nfirst {}\nlast {}\n",
            self.tree.size(),
            self.segment,
            self.start,
            self.end,
            self.first,
            hex(&self.last)
        );
        for level in self.tree.edge() {
            text.push_str(&format!("level {}\n", STANDARD.encode(level.as_flattened())));
        }
        files::replace(path, text.as_bytes(), Durability::Cached)
    }

    /// Reads a cache; none when it is not whole. What it says is believed only after it was compared
    /// with a signed root.
    pub(super) fn load(text: &[u8]) -> Option<Position> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let mut lines = text.split('\n');
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        field("stockade edge").filter(|version| *version == "1")?;
        let size: u64 = field("size")?.parse().ok()?;
        let segment = field("segment")?.parse().ok()?;
        let start = field("start")?.parse().ok()?;
        let end = field("end")?.parse().ok()?;
        let first = field("first")?.parse().ok()?;
        let last = unhex(field("last")?)?;
        let mut edge = Vec::new();
        for line in lines {
            let bytes = STANDARD.decode(line.strip_prefix("level ")?).ok()?;
            let (hashes, rest) = bytes.as_chunks::<32>();
            if !rest.is_empty() {
                return None;
            }
            edge.push(hashes.to_vec());
        }
        let tree = Tree::from_edge(size, edge)?;
        Some(Position { segment, start, end, first, last, tree })
    }

    /// Says whether the last line stands in `directory` where this position has it, and is in the tree.
    pub(super) fn stands(&self, directory: &Path) -> io::Result<bool> {
        let length = self.end.saturating_sub(self.start);
        let path = directory.join(files::segment_name(self.segment));
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.start))?;
        let mut line = Vec::new();
        file.take(length).read_to_end(&mut line)?;
        let Some((b'\n', content)) = line.split_last() else { return Ok(false) };
        let hash = sha256(&[content]);
        let in_tree = self
            .next()
            .checked_sub(1)
            .and_then(|sequence| self.hash_at(directory, 0, sequence))
            .is_some_and(|stored| stored == leaf(&hash));
        Ok(line.len() as u64 == length && hash == self.last && in_tree)
    }

    /// Returns the hash at a tile level, from the unfinished tiles or a full one in `directory`.
    pub(super) fn hash_at(&self, directory: &Path, level: usize, index: u64) -> Option<Hash> {
        let (tile, place) = (index / 256, usize::try_from(index % 256).ok()?);
        let full = self.next().checked_shr(u32::try_from(8 * (level + 1)).ok()?).unwrap_or(0);
        if tile == full {
            return self.tree.edge().get(level)?.get(place).copied();
        }
        let mut file = File::open(directory.join(tile_path(level, tile))).ok()?;
        file.seek(SeekFrom::Start(32 * place as u64)).ok()?;
        let mut hash = [0; 32];
        file.read_exact(&mut hash).ok()?;
        Some(hash)
    }

    /// Says whether the first records of this log have the root that `checkpoint` states; none when the
    /// hashes to tell are not there.
    pub(super) fn extends(&self, directory: &Path, checkpoint: &Checkpoint) -> Option<bool> {
        if checkpoint.size == self.next() {
            return Some(self.tree.root() == checkpoint.root);
        }
        if checkpoint.size > self.next() {
            return Some(false);
        }
        let root = root_at(checkpoint.size, |level, index| self.hash_at(directory, level, index));
        root.map(|root| root == checkpoint.root)
    }
}

/// Writes tiles that became full, durably: the cache forgets their hashes.
pub(super) fn store(directory: &Path, tiles: &[Tile]) -> io::Result<()> {
    for tile in tiles {
        let path = directory.join(tile_path(tile.level, tile.index));
        let content = tile.hashes.as_flattened();
        if files::read(&path)?.as_deref() == Some(content) {
            continue;
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        files::replace(&path, content, Durability::Synced)?;
    }
    Ok(())
}
