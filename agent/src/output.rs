//! Standard output takes the frames and texts of the agent, each as whole lines.

use std::io::Write as _;

use serde_json::Value;

/// Writes a frame as a line.
pub(crate) fn line(frame: &Value) {
    say(&frame.to_string());
}

/// Writes a text and the end of its line. A reader that is gone needs nothing.
pub(crate) fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
}
