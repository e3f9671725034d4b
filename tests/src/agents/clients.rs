//! The agents themselves: where they are, how they are pointed at a scripted model, and started without a person.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Place;

/// Longest time for one run of an agent; its start alone takes many seconds on a small machine.
const LIMIT: Duration = Duration::from_secs(420);

/// An agent that can be driven here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    OpenCode,
    /// Cline.
    Cline,
    /// GitHub Copilot CLI, with a model of its user's own.
    Copilot,
}

impl Client {
    /// All of them.
    pub const ALL: [Client; 6] = [
        Client::Claude,
        Client::Codex,
        Client::Gemini,
        Client::OpenCode,
        Client::Cline,
        Client::Copilot,
    ];

    /// Its name, as `stockade` and as a program.
    pub fn name(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::OpenCode => "opencode",
            Client::Cline => "cline",
            Client::Copilot => "copilot",
        }
    }

    /// The package that holds it.
    pub fn package(self) -> &'static str {
        match self {
            Client::Claude => "@anthropic-ai/claude-code",
            Client::Codex => "@openai/codex",
            Client::Gemini => "@google/gemini-cli",
            Client::OpenCode => "opencode-ai",
            Client::Cline => "cline",
            Client::Copilot => "@github/copilot",
        }
    }

    /// Says whether a shell of ours can stand where this agent looks for its shell.
    pub fn takes_a_shell(self) -> bool {
        match self {
            Client::Claude | Client::Gemini | Client::OpenCode => true,
            Client::Codex | Client::Cline | Client::Copilot => false,
        }
    }

    /// Returns the program, from `folders` in their order.
    pub fn find(self, folders: &[PathBuf]) -> Option<PathBuf> {
        folders.iter().map(|folder| folder.join(self.name())).find(|path| path.is_file())
    }

    /// Returns what the program says about its version.
    pub fn version(self, program: &Path, place: &Place) -> String {
        let mut command = self.plain(program, place);
        command.arg("--version").stdout(Stdio::piped()).stderr(Stdio::null());
        let output = command.output().map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let text = output.unwrap_or_default();
        let number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        text.split_whitespace().find(number).unwrap_or("unknown").to_owned()
    }

    /// Writes what points the agent at the model on `port`; what the agent's own files hold already stays.
    pub fn configure(self, place: &Place, port: u16) {
        let base = format!("http://127.0.0.1:{port}/v1");
        match self {
            // The environment of the run says where the model is.
            Client::Claude | Client::Copilot => {}
            Client::Codex => place.write(
                "home/.codex/config.toml",
                &format!(
                    "model = \"mock-1\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
                     base_url = \"{base}\"\nwire_api = \"responses\"\n"
                ),
            ),
            Client::Gemini => {
                let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
                place.write("home/.gemini/settings.json", &settings.to_string());
            }
            Client::OpenCode => {
                let settings = json!({
                    "autoupdate": false, "model": "mock/mock-1", "small_model": "mock/mock-1",
                    "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "mock",
                        "options": {"baseURL": base, "apiKey": "none"},
                        "models": {"mock-1": {"name": "mock-1", "tool_call": true}}}}});
                place.write("home/.config/opencode/opencode.json", &settings.to_string());
            }
            Client::Cline => {
                let provider = json!({"provider": "openai-compatible", "apiKey": "none",
                    "model": "mock-1", "baseUrl": base});
                let settings = json!({"version": 1, "lastUsedProvider": "openai-compatible",
                    "modes": {}, "providers": {"openai-compatible": {"settings": provider,
                        "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}}});
                place.write("home/.cline/data/settings/providers.json", &settings.to_string());
            }
        }
    }

    /// Runs the agent to its end, or for as long as it may; `search` goes in front of its search path. Returns
    /// what it printed.
    pub fn run(self, program: &Path, place: &Place, port: u16, search: Option<&Path>) -> String {
        let mut command = self.plain(program, place);
        let words: &[&str] = match self {
            Client::Claude => &["-p", "run the demo", "--model", "mock-1"],
            Client::Codex => &[
                "exec",
                "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust",
                "--skip-git-repo-check",
                "run the demo",
            ],
            Client::Gemini => {
                &["-p", "run the demo", "-m", "gemini-2.5-pro", "--yolo", "--skip-trust"]
            }
            Client::OpenCode => &["run", "run the demo"],
            Client::Cline => &["--json", "run the demo"],
            Client::Copilot => &["-p", "run the demo", "--allow-all-tools", "--no-color"],
        };
        command.args(words);
        let base = format!("http://127.0.0.1:{port}");
        command.env("ANTHROPIC_BASE_URL", &base).env("ANTHROPIC_API_KEY", "none");
        command
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.env("GOOGLE_GEMINI_BASE_URL", &base).env("GEMINI_API_KEY", "none");
        command.env("GEMINI_TELEMETRY_ENABLED", "false").env("OPENCODE_DISABLE_AUTOUPDATE", "1");
        command.env("CLINE_NO_AUTO_UPDATE", "1");
        command.env("COPILOT_OFFLINE", "true").env("COPILOT_MODEL", "mock-1");
        command.env("COPILOT_PROVIDER_BASE_URL", format!("{base}/v1"));
        if let Some(search) = search {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", search.display()));
        }
        let log = place.root.join(format!("{}.log", self.name()));
        let file = std::fs::File::create(&log).expect("a log of the agent");
        command.stdout(file.try_clone().expect("a log of the agent")).stderr(file);
        let mut child = command.spawn().expect("the agent starts");
        let start = Instant::now();
        // An agent that hangs is ended: the table then shows what did not come.
        while child.try_wait().expect("the agent can be waited for").is_none() {
            if start.elapsed() > LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        std::fs::read_to_string(&log).unwrap_or_default()
    }

    /// The program in the project of `place`, with the environment of the place alone.
    fn plain(self, program: &Path, place: &Place) -> Command {
        let own = place.stockade([""; 0]);
        let mut command = Command::new(program);
        command.current_dir(place.project()).env_clear().stdin(Stdio::null());
        command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("SHELL", "/bin/bash").env("TERM", "dumb");
        command
    }
}
