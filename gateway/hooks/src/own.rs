//! Lines that call this very gate as the hook of an agent.

use std::path::Path;

use stockade_base::executable::is_this_executable;
use stockade_base::quoted::word;

/// Names of agents whose hooks this executable is.
pub const AGENTS: [&str; 12] = [
    "claude",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "cline",
    "cursor",
    "antigravity",
    "vscode",
    "droid",
    "qwen",
    "windsurf",
];

/// The end of a hook's line: agents take status 2 for a refusal, and any other failure for consent.
pub const REFUSES: &str = " || exit 2";

/// Returns the words behind this executable in a line that is nothing but a call of one of its hooks for agents.
pub fn own_hook(text: &str) -> Option<Vec<String>> {
    let (program, rest) = word(text)?;
    let rest = rest.strip_suffix(REFUSES).unwrap_or(rest);
    let words: Vec<String> = rest.strip_prefix(' ')?.split(' ').map(str::to_owned).collect();
    let plain = |word: &String| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=:,".contains(&byte))
    };
    let known = match words.as_slice() {
        [hook, agent, ..] => {
            hook == "hook" && AGENTS.contains(&agent.as_str()) && words.iter().all(plain)
        }
        _ => false,
    };
    (known && is_this_executable(Path::new(&program))).then_some(words)
}
