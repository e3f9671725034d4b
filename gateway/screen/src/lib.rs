//! The screen of a terminal: folded from what a program wrote to it, and drawn again on another terminal.
//!
//! Only a client that attaches to a task uses it, in its own process. Decides nothing, and touches neither files nor processes.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use vt100::Parser;

/// Fewest rows and columns that are folded; a smaller terminal shows a part.
const LEAST: u16 = 2;
/// Most rows and columns, which bound the memory: two screens of so many cells.
const MOST: u16 = 500;

/// Modes of a terminal that a program may have set, as they are for a shell: application keys, keypad, mouse (with its
/// encodings), focus, pasting, scrolling region, cursor and attributes (ECMA-48; xterm, Control Sequences).
const PLAIN: &str = "\u{1b}[?1l\u{1b}>\u{1b}[?9l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1004l\u{1b}[?1005l\u{1b}[?1006l\u{1b}[?2004l\u{1b}[r\u{1b}[?25h\u{1b}[m";
/// Enters the alternate screen, and leaves it.
const ALTERNATE: (&str, &str) = ("\u{1b}[?1049h", "\u{1b}[?1049l");

/// State of a terminal: both screens, the cursor, colours, modes. What scrolled away is not kept.
pub struct Screen {
    /// None when the bytes drove the reader into a state that it does not know.
    parser: Option<Parser>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Screen").field("known", &self.parser.is_some()).finish()
    }
}

impl Screen {
    /// Returns an empty one of a size.
    pub fn new(rows: u16, columns: u16) -> Screen {
        let parser = || Parser::new(rows.clamp(LEAST, MOST), columns.clamp(LEAST, MOST), 0);
        Screen { parser: catch_unwind(parser).ok() }
    }

    /// Takes what a program wrote.
    pub fn take(&mut self, bytes: &[u8]) {
        self.change(|parser| parser.process(bytes));
    }

    /// Gives it another size. Of a screen that gets fewer rows the lower end stays, with the cursor.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.clamp(LEAST, MOST), columns.clamp(LEAST, MOST));
        self.change(|parser| {
            let row = parser.screen().cursor_position().0;
            let above = (row + 1).saturating_sub(rows);
            if above > 0 && !parser.screen().alternate_screen() {
                // Scrolls up, and takes the cursor along (ECMA-48: SU, CUU).
                parser.process(format!("\u{1b}[{above}S\u{1b}[{above}A").as_bytes());
            }
            parser.screen_mut().set_size(rows, columns);
        });
    }

    /// Returns what draws it on a terminal of its size, whatever that shows; none when it is not known.
    pub fn picture(&self) -> Option<Vec<u8>> {
        let screen = self.parser.as_ref()?.screen();
        let state = catch_unwind(AssertUnwindSafe(|| screen.state_formatted())).ok()?;
        let begin = if screen.alternate_screen() { ALTERNATE.0 } else { "" };
        // The alternate screen first: it keeps where the cursor of the other one stands.
        Some([begin.as_bytes(), PLAIN.as_bytes(), &state].concat())
    }

    /// Returns what makes a terminal that shows it fit for a shell again: modes, and the screen below the alternate one.
    pub fn farewell(&self) -> Vec<u8> {
        match self.parser.as_ref().map(Parser::screen) {
            Some(screen) if screen.alternate_screen() => [PLAIN, ALTERNATE.1].concat(),
            // Resetting the region moves the cursor, which is kept (DECSC, DECRC). The shell begins a line of its own.
            Some(screen) if screen.cursor_position().1 > 0 => {
                ["\u{1b}7", PLAIN, "\u{1b}8\r\n"].concat()
            }
            Some(_) | None => ["\u{1b}7", PLAIN, "\u{1b}8"].concat(),
        }
        .into_bytes()
    }

    fn change(&mut self, change: impl FnOnce(&mut Parser)) {
        if let Some(mut parser) = self.parser.take() {
            let changed = AssertUnwindSafe(|| {
                change(&mut parser);
                parser
            });
            self.parser = catch_unwind(changed).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that shows what was printed to it.
    fn shown(bytes: &[u8], rows: u16, columns: u16) -> Parser {
        let mut terminal = Parser::new(rows, columns, 0);
        // Whatever stood there before.
        terminal.process("old text\r\n\u{1b}[41mred\u{1b}[?25l\u{1b}[2;3r\u{1b}[?1003h".as_bytes());
        terminal.process(bytes);
        terminal
    }

    const EDITOR: &str = "\u{1b}[?1049h\u{1b}[H\u{1b}[2J\u{1b}[?1h\u{1b}=\u{1b}[?2004h\u{1b}[?1006h\u{1b}[?1000h\
         \u{1b}[1;1H\u{1b}[1;44mfile.txt\u{1b}[m\u{1b}[5;10H界 wide\u{1b}[24;1H\u{1b}[38;2;1;2;3mstatus\u{1b}[m\u{1b}[3;7H";

    #[test]
    fn a_picture_shows_text_colours_cursor_and_modes_on_whatever_terminal() {
        let mut screen = Screen::new(24, 80);
        // In pieces that split sequences and characters.
        EDITOR.as_bytes().chunks(3).for_each(|piece| screen.take(piece));
        let drawn = shown(&screen.picture().unwrap(), 24, 80);
        let mut direct = Parser::new(24, 80, 0);
        direct.process(EDITOR.as_bytes());
        let (drawn, direct) = (drawn.screen(), direct.screen());
        assert_eq!(drawn.contents(), direct.contents());
        assert!(drawn.contents().contains("界 wide"), "{}", drawn.contents());
        assert_eq!(drawn.state_formatted(), direct.state_formatted());
        assert_eq!(drawn.cursor_position(), (2, 6));
        assert!(drawn.alternate_screen() && drawn.application_cursor() && !drawn.hide_cursor());
        assert_eq!(drawn.cell(23, 0).unwrap().fgcolor(), vt100::Color::Rgb(1, 2, 3));
    }

    #[test]
    fn a_terminal_is_fit_for_a_shell_again() {
        let mut screen = Screen::new(24, 80);
        screen.take(EDITOR.as_bytes());
        let both = [screen.picture().unwrap(), screen.farewell()].concat();
        let left = shown(&both, 24, 80);
        let left = left.screen();
        assert!(left.contents().starts_with("old text\nred"), "{}", left.contents());
        assert!(!left.alternate_screen() && !left.application_cursor() && !left.hide_cursor());
        assert!(!left.bracketed_paste() && !left.application_keypad());
        assert_eq!(left.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    }

    #[test]
    fn the_lower_end_of_a_screen_stays_when_it_gets_smaller() {
        let mut screen = Screen::new(24, 80);
        (1..=20).for_each(|line| screen.take(format!("line {line}\r\n").as_bytes()));
        screen.take(b"$ ");
        screen.resize(5, 20);
        let drawn = shown(&screen.picture().unwrap(), 5, 20);
        assert_eq!(drawn.screen().contents(), "line 17\nline 18\nline 19\nline 20\n$ ");
        assert_eq!(drawn.screen().cursor_position(), (4, 2));
    }

    #[test]
    fn whatever_is_written_and_however_small_it_gets_the_caller_goes_on() {
        for (rows, columns) in [(0, 0), (1, 1), (3, 3), (u16::MAX, u16::MAX)] {
            let mut screen = Screen::new(rows, columns);
            screen.take("界界界\u{1b}[99999999999S\u{1b}[700L\u{1b}[65535@\u{1b}[2;1r\u{1b}[9;9H界\u{8}\u{1b}[K".as_bytes());
            screen.resize(2, 3);
            screen.take("界\u{1b}[1;3H界\u{1b}[1P\u{1b}[?6h\u{1b}8".as_bytes());
            screen.resize(40, 1);
            drop(screen.picture());
            assert!(!screen.farewell().is_empty());
        }
    }
}
