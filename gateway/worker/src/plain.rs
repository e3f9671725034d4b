//! A witness for texts of nothing but plain words, as most everyday commands are: they are split at their blanks here, so that
//! no worker is asked about them. Whatever could mean anything but itself to bash is left to the worker.

use stockade_parser::{Node, NodeKind, Witness};

/// Longest text that is read here, in bytes.
const LONGEST: usize = 4_096;

/// Words that begin a compound command or a pipeline, or belong to one, where a command is expected (bash(1), reserved words).
/// Those with other letters than plain words have are left out.
const RESERVED: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while",
];

/// Says whether this text is read here.
pub fn is_plain(text: &[u8]) -> bool {
    text.len() <= LONGEST && starts_a_program(text) && text.split(|it| *it == b' ').all(is_word)
}

fn starts_a_program(text: &[u8]) -> bool {
    let first = text.split(|it| *it == b' ').find(|word| !word.is_empty());
    first.is_some_and(|first| !RESERVED.iter().any(|word| word.as_bytes() == first))
}

/// Says whether no letter of a word, if it has any, means anything to bash, wherever the word stands. An equals sign
/// does not in an option: a name of a variable begins with no dash.
fn is_word(word: &[u8]) -> bool {
    let is_option = word.starts_with(b"-");
    word.iter().all(|letter| match letter {
        b'a'..=b'z'
        | b'A'..=b'Z'
        | b'0'..=b'9'
        | b'_'
        | b'.'
        | b'/'
        | b','
        | b':'
        | b'@'
        | b'-' => true,
        b'=' => is_option,
        _ => false,
    })
}

/// Returns what is seen in a plain text: one command, whose first word is its name; none for any other text.
pub(super) fn witness(text: &[u8]) -> Option<Witness> {
    if !is_plain(text) {
        return None;
    }
    let mut words = Vec::new();
    let mut at = 0;
    for word in text.split(|it| *it == b' ') {
        let end = at + word.len();
        if !word.is_empty() {
            words.push((u32::try_from(at).ok()?, u32::try_from(end).ok()?));
        }
        at = end + 1;
    }
    let (first, last) = (words.first()?, words.last()?);
    let node = |kind, (start, end), depth| Node {
        kind: NodeKind::named(kind),
        start,
        end,
        depth,
        broken: false,
    };
    let whole = (first.0, last.1);
    let mut nodes = vec![
        node("program", whole, 0),
        node("command", whole, 1),
        node("command_name", *first, 2),
        node("word", *first, 3),
    ];
    nodes.extend(words.iter().skip(1).map(|word| node("word", *word, 2)));
    Some(Witness::Nodes(nodes))
}

#[cfg(test)]
mod tests;
