//! The texts, and a generator of numbers that gives the same series for the same seed.

use std::path::PathBuf;

use crate::root;

/// The files of the corpus.
pub const FILES: [&str; 5] = ["nl2bash", "tldr", "oils", "constructs", "everyday"];

/// One text of the corpus.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its name in the corpus.
    pub id: String,
    /// The text.
    pub text: Vec<u8>,
}

/// Reads one file of the corpus, or any other file of that form, whose path then ends with `.jsonl`.
pub fn read(name: &str) -> Vec<Sample> {
    let path = if name.ends_with(".jsonl") {
        PathBuf::from(name)
    } else {
        root().join("tests/corpus").join(format!("{name}.jsonl"))
    };
    let content = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let sample = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let field = |name: &str| value[name].as_str().expect("a string").to_owned();
        Sample { id: field("id"), text: field("command").into_bytes() }
    };
    content.lines().map(sample).collect()
}

/// Numbers that look random: xorshift64*.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// A series that depends on `seed` alone.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// One of `items`, which must not be empty.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
