//! Text from outside, made harmless for a terminal.

use std::fmt::Write as _;

/// Returns `text` with control, escape, bidirectional and invisible characters written as `\u{…}`; line
/// feeds and tabs as `\n` and `\t`, a backslash in front of what could be mistaken stays as it is.
pub fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            it if is_hidden(it) => {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(it));
            }
            it => shown.push(it),
        }
    }
    shown
}

/// Says whether a character is not shown, or changes how others are shown.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_is_spelled_out() {
        assert_eq!(escape("a\x1b[2Jb\u{202e}c\nd é"), "a\\u{1b}[2Jb\\u{202e}c\\nd é");
    }
}
