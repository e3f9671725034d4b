//! Where the options leave open which session goes on, and there is a terminal, a person chooses before anything starts.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::failed;
use crate::protocol::errors::Failure;

/// Most bytes of an identity.
const LONGEST: usize = 128;

/// Outcome of the choice.
pub(super) enum Choice {
    /// The arguments, with the session that was chosen.
    Arguments(Vec<String>),
    /// There is no agent to start: its status.
    Ended(u8),
}

/// Says whether arguments name a session, or leave it open.
fn resumes(arguments: &[String]) -> bool {
    let is_short = |it: &str| it.starts_with('-') && !it.starts_with("--") && it.contains('r');
    let is_long = |it: &str| it == "--resume" || it.starts_with("--resume=");
    arguments.iter().any(|it| is_long(it) || is_short(it))
}

/// Has a person choose. The child reads sessions and the terminal; what it prints is held to be an identity and no more.
#[expect(
    clippy::disallowed_methods,
    reason = "the executable of the agent, which has no rights of the gateway"
)]
pub(super) fn choose(beside: &Path, arguments: &[String]) -> Result<Choice, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_terminal || !resumes(arguments) {
        return Ok(Choice::Arguments(arguments.to_vec()));
    }
    let mut command = Command::new(beside);
    command.arg("choose").args(arguments).stdin(Stdio::inherit()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(Choice::Ended(code.unwrap_or(1)));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let id = printed.trim();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    let mut arguments = arguments.to_vec();
    if !id.is_empty() && id.len() <= LONGEST && id.chars().all(is_plain) {
        arguments.insert(0, format!("--chosen={id}"));
    }
    Ok(Choice::Arguments(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_goes_on_is_chosen() {
        let of =
            |words: &[&str]| resumes(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert!(
            of(&["-p", "hi", "--resume"]) && of(&["--resume=x"]) && of(&["-r"]) && of(&["-rx"])
        );
        assert!(!of(&["-p", "resume", "--resume-session-at", "-", "-c"]));
    }
}
