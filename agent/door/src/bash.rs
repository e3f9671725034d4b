//! The result of a command, in words for the model and in fields for programs.

use serde_json::{Value, json};
use stockade_files::visible;
use stockade_wire::types::{RunResult, Stream};

/// Most bytes of each stream that are kept.
const KEPT: usize = 120_000;
/// Most characters of each stream in the result.
const CHARACTERS: usize = 30_000;

/// Both streams of a command, as far as they are kept.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Lines of the gateway.
    pub(crate) notices: Vec<String>,
}

impl Streams {
    /// Takes a piece of at most `most` bytes in all.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8], most: usize) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = most.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
    }

    pub(crate) fn push_short(&mut self, stream: Stream, bytes: &[u8]) {
        self.push(stream, bytes, KEPT);
    }
}

fn shown(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(CHARACTERS).collect();
    visible(text.trim_end_matches('\n'))
}

/// Returns a time limit as people say it.
pub(crate) fn spoken(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, 0) => format!("{minutes}m"),
        (minutes, seconds) => format!("{minutes}m {seconds}s"),
    }
}

/// Returns the lines of the gateway in a frame of their own, so that nothing that a command prints looks like them by
/// accident.
pub(crate) fn framed(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("\n<stockade>\n{}\n</stockade>", visible(&lines.join("\n")))
}

/// Returns what the model sees of a command that ran, whether it failed, and the result for programs.
pub(crate) fn told(result: &RunResult, streams: &Streams, limit: u64) -> (String, bool, Value) {
    let mut text = visible(result.output.trim_end_matches('\n'));
    if text.is_empty() {
        text = "(no output)".into();
    }
    let failed = if result.timed_out {
        Some(format!("Command timed out after {}", spoken(limit)))
    } else if result.interrupted {
        Some("The command was stopped.".to_owned())
    } else if let Some(signal) = &result.signal {
        Some(format!("The command was ended by {signal}."))
    } else {
        result.exit_code.filter(|code| *code != 0).map(|code| format!("Exit code {code}"))
    };
    if let Some(failed) = &failed {
        text = format!("{failed}\n{text}");
    }
    if let Some(path) = result.spill_path.as_ref().filter(|_| result.truncated) {
        text.push_str(&format!(
            "\n(The output has {} bytes; the middle is left out. The whole is kept in {path}.)",
            result.output_bytes
        ));
    }
    let mut lines = streams.notices.clone();
    lines.extend(result.footer.lines().map(str::to_owned));
    text.push_str(&framed(&lines));
    let mut fields = json!({
        "stdout": shown(&streams.stdout), "stderr": shown(&streams.stderr), "interrupted": result.interrupted,
        "isImage": false, "noOutputExpected": false,
    });
    if let (Some(fields), Some(path)) = (fields.as_object_mut(), &result.spill_path) {
        fields.insert("persistedOutputPath".into(), json!(path));
        fields.insert("persistedOutputSize".into(), json!(result.output_bytes));
    }
    (text, failed.is_some(), fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_minutes() {
        let told: Vec<String> = [500, 90_000, 120_000].into_iter().map(spoken).collect();
        assert_eq!(told, ["1s", "1m 30s", "2m"]);
    }
}
