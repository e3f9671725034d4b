//! File name patterns.

use crate::Glob;
use crate::word::build::{Piece, Segment};

/// Returns the pattern that these segments make; none if they make no pattern.
pub(crate) fn pattern(bytes: &[u8], segments: &[Segment]) -> Option<Vec<Glob>> {
    if !is_pattern(bytes, segments) {
        return None;
    }
    let mut glob = Vec::new();
    let mut literal = Vec::new();
    let mut bracket = false;
    for segment in segments {
        let text = bytes.get(segment.start as usize..segment.end as usize).unwrap_or_default();
        match segment.piece {
            Piece::Plain => {
                for (at, byte) in text.iter().enumerate() {
                    if bracket {
                        // Text in a bracket is not examined, nor the text that follows it here.
                        if let Some(Glob::Other(other)) = glob.last_mut() {
                            other.extend_from_slice(text.get(at..).unwrap_or_default());
                        }
                        break;
                    }
                    match byte {
                        b'*' | b'?' => {
                            flush(&mut literal, &mut glob);
                            glob.push(if *byte == b'*' { Glob::Star } else { Glob::Question });
                        }
                        b'[' => {
                            flush(&mut literal, &mut glob);
                            glob.push(Glob::Other(vec![b'[']));
                            bracket = true;
                        }
                        _ => literal.push(*byte),
                    }
                }
            }
            Piece::Extended => {
                // The character in front of the parenthesis belongs to the pattern.
                flush(&mut literal, &mut glob);
                let mut other = Vec::new();
                match glob.pop() {
                    Some(Glob::Literal(mut front)) => {
                        other.extend(front.pop());
                        if !front.is_empty() {
                            glob.push(Glob::Literal(front));
                        }
                    }
                    Some(Glob::Star) => other.push(b'*'),
                    Some(Glob::Question) => other.push(b'?'),
                    Some(Glob::Other(front)) => other.extend_from_slice(&front),
                    None => {}
                }
                other.extend_from_slice(text);
                glob.push(Glob::Other(other));
                bracket = true;
            }
            Piece::Quoted | Piece::Split | Piece::Unknown(..) | Piece::Tilde => {
                match glob.last_mut() {
                    Some(Glob::Other(other)) if bracket => other.extend_from_slice(text),
                    Some(_) | None => literal.extend_from_slice(text),
                }
            }
        }
    }
    flush(&mut literal, &mut glob);
    Some(glob)
}

fn flush(literal: &mut Vec<u8>, glob: &mut Vec<Glob>) {
    if !literal.is_empty() {
        glob.push(Glob::Literal(std::mem::take(literal)));
    }
}

fn is_pattern(bytes: &[u8], segments: &[Segment]) -> bool {
    let mut open = false;
    for segment in segments {
        match segment.piece {
            Piece::Extended => return true,
            Piece::Plain => {
                let text =
                    bytes.get(segment.start as usize..segment.end as usize).unwrap_or_default();
                for byte in text {
                    match byte {
                        b'*' | b'?' => return true,
                        b'[' => open = true,
                        b']' if open => return true,
                        _ => {}
                    }
                }
            }
            Piece::Quoted | Piece::Split | Piece::Unknown(..) | Piece::Tilde => {}
        }
    }
    false
}
