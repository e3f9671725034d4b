//! Bytes that a person does not see, or sees as something else.

use crate::extract::Walk;
use crate::{Reason, Span};

impl Walk<'_> {
    /// Doubts control bytes and what is not UTF-8; says where hidden text is.
    pub(crate) fn hidden_bytes(&mut self, source: &[u8]) {
        let plain = source.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n'));
        if plain {
            return;
        }
        let mut at = 0;
        for chunk in source.utf8_chunks() {
            for character in chunk.valid().chars() {
                let end = at + character.len_utf8();
                self.hidden_character(character, Span::new(at, end));
                at = end;
            }
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                let span = Span::new(at, at + invalid);
                self.doubt(
                    Reason::NotUtf8,
                    span,
                    "these bytes are not UTF-8".to_owned(),
                    String::new(),
                );
                at += invalid;
            }
        }
    }

    fn hidden_character(&mut self, character: char, span: Span) {
        match character {
            '\t' | '\n' | ' '..='~' => {}
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                let detail = format!("the control character U+{:04X}", u32::from(character));
                self.doubt(Reason::ControlByte, span, detail, String::new());
            }
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{e0000}'..='\u{e007f}' => {
                let detail = format!("the invisible character U+{:04X}", u32::from(character));
                self.doubt(Reason::HiddenText, span, detail, String::new());
            }
            '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | '\u{2018}'..='\u{201f}'
            | '\u{2010}'..='\u{2015}'
            | '\u{2212}'
            | '\u{37e}'
            | '\u{ff1b}' => {
                let text = format!("confusable: U+{:04X}", u32::from(character));
                self.notice(span, &text);
            }
            _ => {}
        }
    }
}
