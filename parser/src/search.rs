//! Finding bytes in long texts: many bytes are compared at once.

/// Bytes that are compared at once.
const BLOCK: usize = 32;

/// Returns the place of the first `byte`.
pub(crate) fn byte(text: &[u8], byte: u8) -> Option<usize> {
    let mut blocks = text.chunks_exact(BLOCK);
    let mut at = 0;
    for block in blocks.by_ref() {
        // Without a branch for each byte the compiler takes the whole block in a few instructions.
        if block.iter().fold(false, |found, other| found | (*other == byte)) {
            return block.iter().position(|other| *other == byte).map(|place| at + place);
        }
        at += BLOCK;
    }
    blocks.remainder().iter().position(|other| *other == byte).map(|place| at + place)
}

/// Returns the place of the first `word`; an empty one is everywhere.
pub(crate) fn word(text: &[u8], word: &[u8]) -> Option<usize> {
    let Some(first) = word.first() else { return Some(0) };
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        at += byte(rest, *first)?;
        if text.get(at..)?.starts_with(word) {
            return Some(at);
        }
        at += 1;
    }
}

/// Says whether `text` contains `sought`.
pub(crate) fn contains(text: &[u8], sought: &[u8]) -> bool {
    word(text, sought).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_wherever_it_is() {
        for length in 0..100 {
            let text = [vec![b'a'; length], b"xyz".to_vec(), vec![b'x'; 40]].concat();
            assert_eq!(byte(&text, b'x'), Some(length));
            assert_eq!(word(&text, b"xyz"), Some(length));
            assert_eq!(word(&text, b"xyzz"), None);
        }
        assert_eq!(word(b"", b"a"), None);
        assert_eq!(word(b"", b""), Some(0));
    }
}
