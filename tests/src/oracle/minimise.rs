//! Makes a failing text small.

/// Removes from `text` what `fails` does not need, trying at most `tries` times.
pub fn minimise(text: &[u8], mut tries: usize, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = text.to_vec();
    let mut size = best.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            if tries == 0 {
                return best;
            }
            tries -= 1;
            let end = (at + size).min(best.len());
            let shorter = [&best[..at], &best[end..]].concat();
            if fails(&shorter) {
                best = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let fails = |text: &[u8]| text.contains(&b'x') && text.contains(&b'y');
        assert_eq!(minimise(b"aaaaxbbbbbyccc", 1_000, fails), b"xy");
    }
}
