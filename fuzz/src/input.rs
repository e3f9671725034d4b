//! Inputs: kept ones first, then texts of the corpus, damaged.

use std::path::Path;

/// Pieces that mean something to some reader.
const PIECES: &[&[u8]] = &[
    b"'",
    b"\"",
    b"`",
    b"$",
    b"\\",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"|",
    b"&",
    b";",
    b"\n",
    b"#",
    b" ",
    b"\t",
    b"\r",
    b"=",
    b"!",
    b"*",
    b"~",
    b"$(",
    b"${",
    b"$((",
    b"))",
    b"<<",
    b"<<<",
    b"\\\n",
    b"$'",
    b"$\"",
    b"[[",
    b"]]",
    b"((",
    b"EOF",
    b"in",
    b"do",
    b"done",
    b"fi",
    b"esac",
    b"case",
    b"for",
    b"if",
    b"\xff",
    b"\xc2\xa0",
    b"\xe2\x80\xae",
    b":-",
    b"0",
    b"-c",
    b"--",
    b"bash",
    b"env",
    b"xargs",
    b"find",
    b"-exec",
    b"{}",
    b"\0",
    b"\x1b",
    b"{1..9}",
    b",",
    b":",
    b"true",
    b"null",
    b"\\u0041",
    b"1e9",
    b"/*",
    b"//",
    b"x=",
    b"@P}",
];

/// The longest input.
const LONGEST: usize = 4_096;

/// A series of inputs that depends on the seed alone.
pub struct Inputs {
    state: u64,
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
        Inputs { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, kept, texts }
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
            let piece = PIECES[self.below(PIECES.len())];
            bytes.extend(piece.repeat(self.below(2_000)));
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
            0 if at < bytes.len() => {
                bytes.remove(at);
            }
            1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
            2 => {
                let end = (at + self.below(24)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 => bytes.truncate(at),
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }

    /// A number below `bound`, which must not be 0: xorshift64*.
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

fn command(line: &str) -> Option<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(value.get("command")?.as_str()?.as_bytes().to_vec())
}
