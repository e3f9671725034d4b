//! Damage to texts, and the numbers that choose it: the same series for the same seed. The programs of `fuzz/` damage
//! their inputs with this file too.

/// Pieces that mean something to some reader.
pub const PIECES: &[&[u8]] = &[
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

/// Damages `text` at one place: a byte less, a piece in its place or put in, or a part twice.
pub fn damage(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(text.len() + 1);
    match numbers.below(4) {
        0 if at < text.len() => {
            text.remove(at);
        }
        1 if at < text.len() => {
            let piece = *numbers.one_of(PIECES);
            text.splice(at..=at, piece.iter().copied());
        }
        2 => {
            let end = (at + numbers.below(12)).min(text.len());
            let copy = text[at..end].to_vec();
            let to = numbers.below(text.len() + 1);
            text.splice(to..to, copy);
        }
        _ => {
            let piece = *numbers.one_of(PIECES);
            text.splice(at..at, piece.iter().copied());
        }
    }
}
