//! Names of files and links to them, the directories that a gateway keeps its things in, random bytes, hexadecimal
//! digits, and JSON edited as text: all crates of the gateway may import it.
//!
//! May read the file system and make private directories; decides nothing and keeps no state.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

pub mod directories;
pub mod executable;
pub mod files;
pub mod json_text;
pub mod links;
pub mod names;
pub mod place;
pub mod places;
pub mod quoted;
pub mod random;
pub mod signals;
pub mod sockets;

/// Returns `bytes` as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or('0');
    let mut digits = String::with_capacity(2 * bytes.len());
    digits.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
    digits
}
