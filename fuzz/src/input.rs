//! Inputs: kept ones first, then texts of the corpus, damaged.

use std::path::Path;

use crate::damage::{Numbers, PIECES, damage};

/// The longest input.
const LONGEST: usize = 4_096;

/// A series of inputs that depends on the seed alone.
pub struct Inputs {
    numbers: Numbers,
    kept: Vec<Vec<u8>>,
    texts: Vec<Vec<u8>>,
}

impl Inputs {
    /// Reads the inputs of folder `kept` and the corpus of the tests.
    pub fn new(seed: u64, kept: &Path) -> Inputs {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
        let mut texts = vec![b"{\"permissions\": {\"allow\": [\"Bash(git log:*)\"]}}".to_vec()];
        for name in ["nl2bash", "tldr", "oils"] {
            let lines =
                std::fs::read_to_string(corpus.join(format!("{name}.jsonl"))).unwrap_or_default();
            texts.extend(lines.lines().filter_map(command));
        }
        let files = std::fs::read_dir(kept).into_iter().flatten().flatten();
        let kept = files.filter_map(|file| std::fs::read(file.path()).ok()).collect();
        Inputs { numbers: Numbers::new(seed), kept, texts }
    }

    /// Returns the next input.
    pub fn next(&mut self) -> Vec<u8> {
        if let Some(kept) = self.kept.pop() {
            return kept;
        }
        let mut bytes = match self.below(8) {
            0 => (0..self.below(64)).map(|_| self.below(256) as u8).collect(),
            1 => Vec::new(),
            2 => {
                let (first, second) = (self.text(), self.text());
                [first, second].concat()
            }
            _ => self.text(),
        };
        for _ in 0..self.below(8) {
            self.damage(&mut bytes);
        }
        if self.below(64) == 0 {
            let piece = self.numbers.one_of(PIECES);
            bytes.extend(piece.repeat(self.numbers.below(2_000)));
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn text(&mut self) -> Vec<u8> {
        let index = self.below(self.texts.len());
        self.texts[index].clone()
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(5) {
            0 if at < bytes.len() => bytes[at] = self.below(256) as u8,
            1 => bytes.truncate(at),
            _ => damage(bytes, &mut self.numbers),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.numbers.below(bound)
    }
}

fn command(line: &str) -> Option<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(value.get("command")?.as_str()?.as_bytes().to_vec())
}
