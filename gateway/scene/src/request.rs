//! The door: a request is checked once, and what comes out of here is valid.

use std::time::Duration;

use serde_json::Value;
pub use stockade_base::directories::remade;
pub use stockade_base::quoted::quoted;

use crate::file_call;
use stockade_settings::limits::Limits;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::{CommandRequest, CommandText, Context, LONGEST_MS, Window};

/// Longest command text in bytes; longer ones are refused unread.
const MAX_COMMAND: usize = 1 << 20;
/// Size of a terminal when the request names none.
const USUAL_SIZE: stockade_spec::Window = stockade_spec::Window { rows: 24, columns: 80 };

/// A command that came through the door.
#[derive(Debug, Clone)]
pub struct Command {
    /// The text that is parsed and judged.
    pub text: String,
    /// The literal words that run without a shell; none when a shell runs the text.
    pub words: Option<Vec<String>>,
    /// Time limit; none for a background task that names none.
    pub timeout: Option<Duration>,
    /// The size of the terminal that it gets, if it gets one.
    pub terminal: Option<stockade_spec::Window>,
    /// True for the file worker, which needs no network.
    pub is_worker: bool,
    /// Without a time limit it may run for ever.
    is_endless: bool,
    /// Limits of the settings.
    pub limits: Limits,
}

impl Command {
    /// Holds the time limit against the settings.
    pub fn limited(self, settings: &stockade_policy::Settings) -> Result<Command, Failure> {
        let limits = Limits::of(settings)?;
        let longest = limits.longest;
        let timeout = match self.timeout {
            Some(limit) if limit == Duration::from_millis(LONGEST_MS) => Some(longest),
            None if !self.is_endless => Some(limits.usual),
            limit => limit,
        };
        if timeout.is_some_and(|limit| limit > longest) {
            let message = format!(
                "the time limit must be above zero and at most {} seconds",
                longest.as_secs()
            );
            let help =
                "use another `--timeout`, or raise `limits.maxTimeoutSeconds` in the settings";
            return refuse(&message, help);
        }
        Ok(Command { timeout, limits, ..self })
    }

    /// Returns the command as hooks left it: what was judged is what runs.
    pub fn after_hooks(self, input: &Value, is_changed: bool) -> Result<Command, Failure> {
        if !is_changed || self.is_worker {
            return Ok(self);
        }
        let text = command_text(command_of(input)?)?;
        let timeout = match input.get("timeout") {
            None => self.timeout,
            Some(limit) => limit.as_u64().map(Duration::from_millis).or(self.timeout),
        };
        let timeout = timeout.map(|limit| limit.min(self.limits.longest));
        Ok(Command { text, words: None, timeout, ..self })
    }
}

/// Checks what a person or program asked to run.
pub fn accept(request: &CommandRequest) -> Result<Command, Failure> {
    if request.background && request.tool().is_some() {
        return refuse("a file tool cannot run in the background", "remove `background`");
    }
    if let Some(pair) =
        request.context.environment.iter().find(|(name, value)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        })
    {
        let name = pair.0.escape_debug();
        return refuse(&format!("the variable `{name}` cannot be passed to a program"), "unset it");
    }
    let (text, words) = match &request.command {
        CommandText::Shell(text) => (text.clone(), None),
        CommandText::Words(words) => (quoted(words), Some(words.clone())),
        CommandText::Tool(call) => {
            (file_call::text(call)?, Some(file_call::WORDS.map(String::from).into()))
        }
    };
    let text = command_text(text)?;
    if words.as_ref().is_some_and(|words| words.first().is_none_or(String::is_empty)) {
        return refuse("the command has no program", "pass at least one word");
    }
    let timeout = request.timeout_ms.map(Duration::from_millis);
    let is_endless = request.background;
    if timeout == Some(Duration::ZERO) {
        return refuse("the time limit must be above zero", "use another `--timeout`");
    }
    let terminal = request.pty.then(|| size(request.window));
    let is_worker = request.tool().is_some();
    let limits = Limits::default();
    Ok(Command { text, words, timeout, terminal, is_worker, is_endless, limits })
}

/// Returns the size that a terminal gets.
pub fn size(asked: Option<Window>) -> stockade_spec::Window {
    match asked {
        Some(Window { rows, columns }) if rows > 0 && columns > 0 => {
            stockade_spec::Window { rows, columns }
        }
        Some(_) | None => USUAL_SIZE,
    }
}

/// Checks a command text: not empty of bytes, not above the limit, without NUL.
pub fn command_text(text: String) -> Result<String, Failure> {
    if text.trim().is_empty() {
        return refuse("the command is empty", "give a command");
    }
    if text.len() > MAX_COMMAND {
        let message = format!("the command is longer than {MAX_COMMAND} bytes");
        return refuse(&message, "put it into a script and run that");
    }
    if text.contains('\0') {
        return refuse("the command contains a NUL byte", "a shell cannot be given one");
    }
    Ok(text)
}

/// Checks the names in a context that choose what counts.
pub fn context(context: &Context) -> Result<(), Failure> {
    for source in context.setting_sources.iter().flatten() {
        if !matches!(source.as_str(), "user" | "project" | "local") {
            let source = source.escape_debug();
            return refuse(
                &format!("invalid source of settings `{source}`"),
                "the sources are user, project and local",
            );
        }
    }
    for import in &context.import {
        if import != "claude-code" {
            let import = import.escape_debug();
            return refuse(&format!("invalid import `{import}`"), "claude-code can");
        }
    }
    Ok(())
}

/// Returns the command of a Bash input.
pub fn command_of(input: &Value) -> Result<String, Failure> {
    let text = input.get("command").and_then(Value::as_str);
    text.map(str::to_string).ok_or_else(|| {
        let message = "the input of `Bash` has no string `command`";
        Failure::new(Code::InvalidRequest, message, "give an object with `command`")
    })
}

fn refuse<T>(message: &str, help: &str) -> Result<T, Failure> {
    Err(Failure::new(Code::InvalidRequest, message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_command_is_refused() {
        assert_eq!(command_text(" \n".into()).unwrap_err().message, "the command is empty");
        assert_eq!(
            command_text("a\0".into()).unwrap_err().message,
            "the command contains a NUL byte"
        );
    }
}
