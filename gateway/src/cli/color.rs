//! Color of messages at a terminal.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};

/// When messages are colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// At a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

const RED: &str = "\u{1b}[1;31m";
const GREEN: &str = "\u{1b}[1;32m";
const YELLOW: &str = "\u{1b}[1;33m";
const CYAN: &str = "\u{1b}[36m";
const END: &str = "\u{1b}[0m";

/// Beginning of a line, the word after it that is colored, and its color.
const WORDS: [(&str, &str, &str); 10] = [
    ("stockade: ", "allowed", GREEN),
    ("stockade: ", "needs a person:", YELLOW),
    ("stockade: ", "denied", RED),
    ("stockade: ", "refused", RED),
    ("stockade: ", "warning:", YELLOW),
    ("stockade: ", "timed out", RED),
    ("  ", "try:", CYAN),
    ("   = ", "help:", CYAN),
    ("", "error:", RED),
    ("", "warning:", YELLOW),
];

/// Sets what the command line says.
pub(crate) fn choose(when: Option<When>) {
    let number = match when {
        None | Some(When::Auto) => 0,
        Some(When::Always) => 1,
        Some(When::Never) => 2,
    };
    CHOSEN.store(number, Ordering::Relaxed);
}

/// Says whether text for a stream is colored, which `is_terminal` or not.
pub(crate) fn is_on(is_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match CHOSEN.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => is_terminal && set("NO_COLOR").is_none() && set("TERM").is_some_and(|it| it != "dumb"),
    }
}

/// Returns messages with color, if the stream has it.
pub(crate) fn paint(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if !is_on(is_terminal) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

fn line(line: &str) -> String {
    for (head, word, color) in WORDS {
        if let Some(rest) = line.strip_prefix(head).and_then(|rest| rest.strip_prefix(word)) {
            return format!("{head}{color}{word}{END}{rest}");
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_matters_is_colored_and_nothing_else() {
        assert_eq!(line("stockade: denied `curl`"), "stockade: \u{1b}[1;31mdenied\u{1b}[0m `curl`");
        assert_eq!(line("  try: x"), "  \u{1b}[36mtry:\u{1b}[0m x");
        assert_eq!(line("denied `x`"), "denied `x`");
    }
}
