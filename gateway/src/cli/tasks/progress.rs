//! The line that a person sees while they wait for a task: its time, its output, how far it says that it is, and its last line.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rustix::termios::isatty;

use super::shown::{elapsed, size};
use crate::cli::streams;
use crate::protocol::tasks::TaskView;
use crate::protocol::words;

/// Bytes at the end of the output in which the last line is looked for.
const TAIL: u64 = 4 << 10;
/// Characters of a whole bar.
const BAR: u64 = 20;
/// Columns of a terminal that does not say how wide it is.
pub(in crate::cli) const USUAL_COLUMNS: usize = 80;
/// Back to the beginning of the line, which is cleared (ECMA-48: EL).
pub(in crate::cli) const CLEAR: &str = "\r\u{1b}[K";

/// Says whether the terminal can go back in a line.
pub(in crate::cli) fn can_go_back() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// A line at the end of a terminal. Dropping it takes it away.
#[derive(Debug)]
pub(super) struct Progress(());

impl Progress {
    /// Begins at the terminal of standard error; none where nobody watches, or the terminal cannot go back in a line.
    pub(super) fn begin(is_wanted: bool) -> Option<Progress> {
        (is_wanted && can_go_back() && isatty(rustix::stdio::stderr())).then(|| Progress(()))
    }

    /// Shows how it stands with a task.
    #[expect(clippy::unused_self, reason = "whoever shows the line removes it at the end")]
    pub(super) fn show(&self, task: &TaskView) {
        let columns = streams::window().map_or(USUAL_COLUMNS, |window| window.columns.into());
        let last = last_line_of(Path::new(&task.output_path));
        let line = line(&elapsed(task), &size(task.output_bytes), &last, columns);
        tell(&format!("{CLEAR}{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        tell(CLEAR);
    }
}

fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()); // nobody sees it then
}

/// Returns the status in fewer than `columns` columns; a character beyond ASCII may take two.
pub(in crate::cli) fn line(time: &str, size: &str, last: &str, columns: usize) -> String {
    let bar = percent(last).map_or_else(String::new, |percent| format!("  {}", bar(percent)));
    let line = format!("running {time}  {size}{bar}  {last}");
    let mut left = columns.saturating_sub(1);
    let fits = |it: &char| {
        let width = if it.is_ascii() { 1 } else { 2 };
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    line.trim_end().chars().take_while(fits).collect()
}

fn bar(percent: u64) -> String {
    let full = usize::try_from(percent * BAR / 100).unwrap_or_default();
    let width = usize::try_from(BAR).unwrap_or_default();
    format!("[{:width$}] {percent}%", "#".repeat(full))
}

/// Returns the last number in front of a percent sign, without what follows its point.
fn percent(line: &str) -> Option<u64> {
    let before = line.get(..line.rfind('%')?)?.trim_end();
    let is_number = |it: char| it.is_ascii_digit() || it == '.';
    let number = before.get(before.trim_end_matches(is_number).len()..)?;
    let whole = number.split('.').next().filter(|whole| !whole.is_empty())?;
    whole.parse().ok().filter(|percent| *percent <= 100)
}

/// Returns the last line of a file that is not empty.
pub(super) fn last_line_of(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    last_line(&read().unwrap_or_default())
}

/// Returns the last line of a text that is not empty, as a terminal shows it without colours.
pub(in crate::cli) fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.rsplit(['\n', '\r']).map(|line| words::one_line(&without_sequences(line)));
    let mut lines = lines.map(|line| line.trim().to_owned());
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// Returns a text without control sequences (ECMA-48: CSI).
fn without_sequences(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|it: char| ('@'..='~').contains(&it));
        found.push_str(end.and_then(|end| part.get(end + 1..)).unwrap_or_default());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_size_bar_and_last_line_and_fits() {
        let shown = |last: &str| line("12s", "3.4 KiB", last, 60);
        assert_eq!(shown(""), "running 12s  3.4 KiB");
        assert_eq!(shown("ok"), "running 12s  3.4 KiB  ok");
        let half = "running 12s  3.4 KiB  [##########          ] 50%  got 50%";
        assert_eq!(shown("got 50%"), half);
        assert_eq!(shown("got 50% of everything there is").chars().count(), 59);
    }

    #[test]
    fn a_share_is_a_number_up_to_a_hundred_before_a_percent_sign() {
        for (line, share) in [
            ("45%", Some(45)),
            ("[==> ] 7.5 % done", Some(7)),
            ("10% then 100%", Some(100)),
            ("é99%", Some(99)),
            ("…99%", Some(99)),
            ("101%", None),
            ("%", None),
            (".5%", None),
            ("99999999999999999999999%", None),
        ] {
            assert_eq!(percent(line), share, "{line}");
        }
    }

    #[test]
    fn colours_and_other_sequences_of_a_line_are_left_out() {
        assert_eq!(without_sequences("\u{1b}[1;32mok\u{1b}[0m go"), "ok go");
        assert_eq!(without_sequences("cut \u{1b}[12"), "cut ");
        assert_eq!(last_line_of(Path::new("/nowhere")), "");
    }
}
