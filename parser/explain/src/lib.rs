//! The tree and its doubts as people read them, under the source.
//!
//! Deterministic and free of surprises on a terminal: control characters, marks of direction and other
//! invisible characters are written out.
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

use stockade_parser::{CommandTree, Opaque, Position, SimpleCommand, SourcePosition, Span, Word};
use stockade_text::visible;

/// Columns of a source line that are shown around a span.
const WINDOW: usize = 96;

/// Parts that are not understood that are shown one by one.
const DOUBTS: usize = 100;

/// Names of other commands that are shown with one such part.
const FOUND: usize = 20;

/// Returns the tree as lines: each command, what redirections write and read, and each doubt.
pub fn tree(tree: &CommandTree) -> String {
    let mut lines = Vec::new();
    for command in tree.commands() {
        if !command.words.is_empty() {
            lines.push(command_line(tree, command));
        }
    }
    if lines.is_empty() {
        lines.push("no command is found".to_owned());
    }
    for (name, targets) in [("writes", tree.writes()), ("reads", tree.reads())] {
        for target in targets {
            lines.push(format!("{name}: {}", word(tree.source(), &target.word)));
        }
    }
    let doubts = tree.opaque_spans();
    lines.extend(doubts.iter().take(DOUBTS).map(|opaque| doubt(tree, opaque)));
    if let Some(more) = doubts.len().checked_sub(DOUBTS).filter(|more| *more > 0) {
        lines.push(format!("unknown: {more} more parts, which `--json` lists"));
    }
    for notice in tree.notices() {
        let at = SourcePosition::at(tree.source(), notice.span.start as usize);
        lines.push(format!(
            "note: {} (line {}, column {})",
            visible(&notice.text),
            at.line,
            at.column
        ));
    }
    if !tree.witness_repairs().is_empty() {
        let repairs: Vec<String> =
            tree.witness_repairs().iter().map(|(name, count)| format!("{name} {count}")).collect();
        lines.push(format!("mended in the second reading: {}", repairs.join(", ")));
    }
    lines.join("\n")
}

/// Returns one doubt: what is not understood, where, why it matters and what to write instead.
pub fn doubt(tree: &CommandTree, opaque: &Opaque) -> String {
    let what = opaque.reason.help().trim_end_matches('.');
    let mut lines = vec![format!("unknown: {what}  [{}]", opaque.reason.code())];
    lines.push(excerpt(tree.source(), opaque.span, &opaque.detail));
    let mut commands = tree.commands().iter().filter(|it| !it.words.is_empty());
    let found: Vec<String> = commands.by_ref().take(FOUND).map(|it| name(tree, it)).collect();
    if !found.is_empty() {
        let more = match commands.count() {
            0 => String::new(),
            more => format!(" · and {more} more"),
        };
        lines.push(format!("  found anyway: {}{more}", found.join(" · ")));
    }
    lines.push(format!("  try: {}", visible(opaque.instead())));
    lines.join("\n")
}

/// Returns the source line on which `span` begins, with carets and `note` beneath it.
pub fn excerpt(source: &[u8], span: Span, note: &str) -> String {
    let start = (span.start as usize).min(source.len());
    let end = (span.end as usize).clamp(start, source.len());
    let before = source.get(..start).unwrap_or_default();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rest = source.get(start..).unwrap_or_default();
    let line_end =
        rest.iter().position(|byte| *byte == b'\n').map_or(source.len(), |at| start + at);
    let piece = |from: usize, to: usize| {
        String::from_utf8_lossy(source.get(from..to).unwrap_or_default()).into_owned()
    };
    let head = tail_of(&piece(line_start, start), WINDOW / 2);
    let marked = head_of(&piece(start, end.min(line_end)), WINDOW);
    let room = WINDOW.saturating_sub(width(&head) + width(&marked)).max(8);
    let rest = head_of(&piece(end.min(line_end), line_end), room);
    let number = SourcePosition::at(source, start).line.to_string();
    let margin = " ".repeat(number.len());
    let blank: String = head.chars().map(blank).collect();
    let carets = "^".repeat(width(&marked).max(1));
    let note = if note.is_empty() { String::new() } else { format!(" {}", visible(note)) };
    format!("  {number} | {head}{marked}{rest}\n  {margin} | {blank}{carets}{note}")
}

/// One command: its words, where it stands, and what reaches it.
fn command_line(tree: &CommandTree, command: &SimpleCommand) -> String {
    let words: Vec<String> = command.words.iter().map(|it| word(tree.source(), it)).collect();
    let mut about = vec![place(command.position)];
    about.extend(command.via.iter().map(|via| format!("through {}", visible(&via.program))));
    format!("{}{}  ({})", "  ".repeat(command.via.len()), words.join(" "), about.join(", "))
}

fn place(position: Position) -> String {
    match position {
        Position::Top => "top level".to_owned(),
        Position::Pipeline(index) => format!("part {} of a pipeline", u64::from(index) + 1),
        Position::Subshell => "subshell".to_owned(),
        Position::Substitution => "substitution".to_owned(),
        Position::ProcessSubstitution => "process substitution".to_owned(),
        Position::Compound => "loop or branch".to_owned(),
        Position::Function => "function body".to_owned(),
        Position::Wrapped => "started by another command".to_owned(),
        Position::Shell => "the shell that another command starts".to_owned(),
    }
}

/// A word: its value in shell spelling if the text tells it, else its source with a mark.
fn word(source: &[u8], word: &Word) -> String {
    match word.exact().map(std::str::from_utf8) {
        Some(Ok(value)) => spelled(value),
        Some(Err(_)) | None => {
            format!("‹{}›", visible(&String::from_utf8_lossy(word.span.of(source))))
        }
    }
}

/// Returns shell text that means `value`, as far as it can be shown.
fn spelled(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", visible(&value.replace('\'', "'\\''")))
}

/// The first word and a mark for what follows.
fn name(tree: &CommandTree, command: &SimpleCommand) -> String {
    let first = command.words.first().map_or_else(String::new, |it| word(tree.source(), it));
    if command.words.len() > 1 { format!("{first} …") } else { first }
}

/// Returns the text under `character` that makes carets line up: a tab under a tab.
fn blank(character: char) -> String {
    match character {
        '\t' => "\t".to_owned(),
        character => " ".repeat(columns(character)),
    }
}

/// The first columns of `text`, shown, with `…` for what is cut.
fn head_of(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        let next = shown_with_tabs(character);
        if width(&shown) + width(&next) > limit {
            shown.push('…');
            break;
        }
        shown.push_str(&next);
    }
    shown
}

/// The last columns of `text`, shown, with `…` for what is cut.
fn tail_of(text: &str, limit: usize) -> String {
    let mut pieces = Vec::new();
    let mut used = 0;
    for character in text.chars().rev() {
        let next = shown_with_tabs(character);
        used += width(&next);
        if used > limit {
            pieces.push("…".to_owned());
            break;
        }
        pieces.push(next);
    }
    pieces.reverse();
    pieces.concat()
}

fn shown_with_tabs(character: char) -> String {
    if character == '\t' { "\t".to_owned() } else { visible(character.encode_utf8(&mut [0; 4])) }
}

fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Columns that a terminal gives a character: two for the wide ranges of East Asian scripts and emoji, none
/// for combining marks (Unicode 16, East_Asian_Width W and F, the common blocks).
fn columns(character: char) -> usize {
    match character {
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{20d0}'..='\u{20ff}' => 0,
        '\u{1100}'..='\u{115e}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_span() {
        let source = "ls\n\tx 日本 $y z".as_bytes();
        let start = source.iter().position(|byte| *byte == b'$').unwrap();
        assert_eq!(
            excerpt(source, Span::new(start, start + 2), "why"),
            "  2 | \tx 日本 $y z\n    | \t       ^^ why"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_span() {
        let source = format!("{}$x{}", "a".repeat(500), "b".repeat(500));
        let shown = excerpt(source.as_bytes(), Span::new(500, 502), "");
        let (line, carets) = shown.split_once('\n').unwrap();
        assert_eq!(line.chars().count(), "  1 | ".len() + 1 + 48 + 2 + 45 + 1);
        assert_eq!(line.split_once('$').map(|(head, _)| head.chars().count()), carets.find('^'));
    }

    #[test]
    fn nothing_in_the_source_reaches_the_terminal_as_control() {
        let source = "echo \u{1b}[31m\u{202e}x\u{7}".as_bytes();
        let shown = excerpt(source, Span::new(5, source.len()), "\u{1b}");
        assert_eq!(
            shown,
            "  1 | echo \\u{1b}[31m\\u{202e}x\\u{7}\n    |      \
             ^^^^^^^^^^^^^^^^^^^^^^^^ \\u{1b}"
        );
    }

    #[test]
    fn any_span_of_any_source_can_be_shown() {
        for source in ["", "a", "a\nb\n", "\u{e9}\n"] {
            for start in 0..6 {
                for end in 0..6 {
                    let _ = excerpt(source.as_bytes(), Span { start, end }, "");
                }
            }
        }
    }
}
