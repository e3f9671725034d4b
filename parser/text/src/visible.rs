//! Text as a terminal shows it, and nothing else happens.

/// Returns `text` on one line so that a terminal shows it and nothing else happens: line feed, tab and carriage
/// return as `\n`, `\t` and `\r`, other control, reordering and invisible characters as `\u{…}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            character if is_hidden(character) => {
                shown.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
            }
            character => shown.push(character),
        }
    }
    shown
}

/// Says whether a terminal or a reader could be deceived by `character`: control (Cc), format (Cf),
/// fillers and selectors that show nothing (Unicode 16, Default_Ignorable_Code_Point), private use (Co).
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_is_spelled_out() {
        assert_eq!(
            visible("a\x1b[2Jb\u{202e}c\nd\té\r\u{e000}"),
            "a\\u{1b}[2Jb\\u{202e}c\\nd\\té\\r\\u{e000}"
        );
    }
}
