//! SHA-256 and its spellings.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

pub(super) use stockade_base::hex;

/// A SHA-256 value.
pub(super) type Hash = [u8; 32];

/// Returns the SHA-256 of the pieces, one after the other.
pub(super) fn sha256(pieces: &[&[u8]]) -> Hash {
    let mut state = Sha256::new();
    for piece in pieces {
        state.update(piece);
    }
    state.finalize().into()
}

/// Returns HMAC-SHA256 of `text` under `key`.
pub(super) fn keyed(key: &[u8; 32], text: &[u8]) -> Hash {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut state) => {
            state.update(text);
            state.finalize().into_bytes().into()
        }
        // HMAC takes keys of every length, so this is not reached; a hash of nothing tells nothing.
        Err(_) => [0; 32],
    }
}

/// Returns the 32 bytes that 64 lower-case hexadecimal digits stand for.
pub(super) fn unhex(text: &str) -> Option<Hash> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut value = [0; 32];
    for (byte, pair) in value.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let low = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *byte = *byte << 4 | low;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_there_and_back() {
        let value = sha256(&[b"a", b"bc"]);
        assert_eq!(hex(&value), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(unhex(&hex(&value)), Some(value));
        assert_eq!(unhex(&hex(&value).to_uppercase()), None);
    }
}
