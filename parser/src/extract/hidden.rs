//! Bytes that a person does not see, or sees as something else.

use crate::event::Kind;
use crate::extract::{Text, Walk};
use crate::grammar::redirect::token_text;
use crate::{Reason, Span};

/// Where a token stands, as far as hidden characters matter.
#[derive(Debug, Clone, Copy, Default)]
struct Surroundings {
    /// In quotes, a here-document or a comment.
    quoted: bool,
    /// In a command word, an option, a name or the target of a redirection.
    decisive: bool,
}

impl Walk<'_> {
    /// Doubts control bytes and what is not UTF-8; says where hidden text is.
    pub(crate) fn hidden_bytes(&mut self, text: &Text) {
        if text.bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')) {
            return;
        }
        let mut at = 0;
        for chunk in text.bytes.utf8_chunks() {
            at += chunk.valid().len();
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                let span = text.map.span(Span::new(at, at + invalid));
                self.doubt(
                    Reason::NotUtf8,
                    span,
                    "these bytes are not UTF-8".to_owned(),
                    String::new(),
                );
                at += invalid;
            }
        }
        // For each open node: its kind, and how many words it has had.
        let mut open: Vec<(Kind, u32)> = Vec::new();
        for event in &text.syntax.events {
            let kind = event.kind;
            if kind == Kind::Close {
                open.pop();
                continue;
            }
            if matches!(kind, Kind::Word | Kind::PlainWord)
                && let Some(parent) = open.last_mut()
            {
                parent.1 += 1;
            }
            if !kind.is_leaf() {
                open.push((kind, 0));
                continue;
            }
            if kind == Kind::PlainWord {
                open.push((Kind::Word, 0));
            }
            let bytes = token_text(&text.bytes, event);
            if !bytes.is_ascii() || bytes.iter().any(u8::is_ascii_control) {
                let place = surroundings(kind, &open, bytes);
                self.hidden_in(text, bytes, event.start as usize, place);
            }
            if kind == Kind::PlainWord {
                open.pop();
            }
        }
    }

    fn hidden_in(&mut self, text: &Text, bytes: &[u8], start: usize, place: Surroundings) {
        let mut at = start;
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                let end = at + character.len_utf8();
                self.hidden_character(character, text.map.span(Span::new(at, end)), place);
                at = end;
            }
            at += chunk.invalid().len();
        }
    }

    fn hidden_character(&mut self, character: char, span: Span, place: Surroundings) {
        let code = u32::from(character);
        match character {
            '\t' | '\n' | ' '..='~' => {}
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                let detail = format!("the control character U+{code:04X}");
                if place.quoted && !place.decisive {
                    self.notice(span, &detail);
                } else {
                    self.doubt(Reason::ControlByte, span, detail, String::new());
                }
            }
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => {
                let detail = format!("the invisible character U+{code:04X}");
                if place.decisive {
                    self.doubt(Reason::HiddenText, span, detail, String::new());
                } else {
                    self.notice(span, &detail);
                }
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
            | '\u{ff1b}' => self.notice(span, &format!("confusable: U+{code:04X}")),
            _ if place.decisive && character.is_alphabetic() => {
                self.notice(span, &format!("confusable: U+{code:04X}"));
            }
            _ => {}
        }
    }
}

fn surroundings(leaf: Kind, open: &[(Kind, u32)], bytes: &[u8]) -> Surroundings {
    let quoted = matches!(leaf, Kind::Single | Kind::Ansi | Kind::HereText | Kind::Comment)
        || open.last().is_some_and(|(kind, _)| *kind == Kind::Double);
    let mut decisive = matches!(leaf, Kind::Name | Kind::Parameter | Kind::Junk | Kind::Backquote)
        || bytes.starts_with(b"-");
    let word = open.iter().rposition(|(kind, _)| *kind == Kind::Word);
    if let Some(parent) = word.and_then(|word| word.checked_sub(1)).and_then(|at| open.get(at)) {
        let first = matches!(parent.0, Kind::Simple | Kind::PlainCommand) && parent.1 == 1;
        decisive |= first || matches!(parent.0, Kind::Redirect | Kind::Function);
    }
    if leaf == Kind::Comment {
        decisive = false;
    }
    Surroundings { quoted, decisive }
}
