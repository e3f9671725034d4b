//! The options of a session, as the SDK packages and people give them.

use std::path::PathBuf;

use clap::Args;

/// Levels of effort.
pub(crate) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
/// Ways to show thinking.
pub(crate) const DISPLAYS: [&str; 3] = ["summarized", "omitted", "highlights"];

/// Options of a session.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Flags {
    /// Answer one prompt and end; standard input is appended
    #[arg(short, long, value_name = "PROMPT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) print: Option<String>,
    /// The prompt, where `-p` has none
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Form of the output: text, json or stream-json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "stream-json"])]
    pub(crate) output_format: String,
    /// Form of the input: text or stream-json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "stream-json"])]
    pub(crate) input_format: String,
    /// Model to ask; `sonnet`, `opus` and `haiku` are short names
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Model to ask when the first one does not answer
    #[arg(long, value_name = "MODEL")]
    pub(crate) fallback_model: Option<String>,
    /// Wire form of the endpoint: anthropic, openai or compatible
    #[arg(long, value_name = "FORM", value_parser = ["anthropic", "openai", "compatible"])]
    pub(crate) provider: Option<String>,
    /// Address of the endpoint
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Most requests to the model in a turn
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u64>,
    /// Most US dollars of the session
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,
    /// Tokens for the task, told to the model
    #[arg(long, value_name = "TOKENS", hide = true)]
    pub(crate) task_budget: Option<u64>,
    /// Effort of thinking: low, medium, high, xhigh or max
    #[arg(long, value_name = "LEVEL", value_parser = EFFORTS)]
    pub(crate) effort: Option<String>,
    /// Thinking: adaptive, enabled or disabled
    #[arg(long, value_name = "HOW", value_parser = ["adaptive", "enabled", "disabled"])]
    pub(crate) thinking: Option<String>,
    /// Most tokens for thinking
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_thinking_tokens: Option<u64>,
    /// How thinking is shown: summarized, omitted or highlights
    #[arg(long, value_name = "HOW", value_parser = DISPLAYS, hide = true)]
    pub(crate) thinking_display: Option<String>,
    /// Features of the provider to turn on (comma-separated)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) betas: Vec<String>,
    /// System prompt in place of the built-in one
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// File with a system prompt in place of the built-in one
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Text behind the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,
    /// File with text behind the system prompt
    #[arg(long, value_name = "FILE", conflicts_with = "append_system_prompt")]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
    /// Put what changes from session to session into the first message instead of the system prompt
    #[arg(long)]
    pub(crate) exclude_dynamic_system_prompt_sections: bool,
    /// Tools that the model sees (comma-separated); `default` for all, empty for none
    #[arg(long, value_name = "TOOLS")]
    pub(crate) tools: Option<String>,
    /// Allow what these rules match (comma-separated)
    #[arg(long, value_name = "RULES", alias = "allowedTools")]
    pub(crate) allowed_tools: Vec<String>,
    /// Deny what these rules match (comma-separated)
    #[arg(long, value_name = "RULES", alias = "disallowedTools")]
    pub(crate) disallowed_tools: Vec<String>,
    /// Permission mode
    #[arg(long, value_name = "MODE", value_parser = ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"])]
    pub(crate) permission_mode: Option<String>,
    /// Who answers questions about permissions; `stdio` is the host
    #[arg(long, value_name = "NAME", value_parser = ["stdio"])]
    pub(crate) permission_prompt_tool: Option<String>,
    /// The mode `bypassPermissions` may be chosen later
    #[arg(long)]
    pub(crate) allow_dangerously_skip_permissions: bool,
    /// Begin in the mode `bypassPermissions`
    #[arg(long)]
    pub(crate) dangerously_skip_permissions: bool,
    /// Settings: a file or JSON text
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) settings: Vec<String>,
    /// Layers of settings and memory that count, among user, project and local
    #[arg(long, value_name = "LAYERS")]
    pub(crate) setting_sources: Option<String>,
    /// Let the tools work in this directory too
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Be the agent of this name: its prompt, tools and model
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Definitions of agents, by name: a JSON text
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
    /// Take hooks and agents from the plugin in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// The same; the host has the servers of the plugin itself
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,
    /// Settings that a host adds to the managed ones: what they tighten counts
    #[arg(long, value_name = "JSON")]
    pub(crate) managed_settings: Vec<String>,
    /// Directory whose project settings count: the working directory, or one above it
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) project_config_root: Option<PathBuf>,
    /// Write a line for each request to the model into this file, without its content
    #[arg(long, value_name = "FILE")]
    pub(crate) debug_file: Option<PathBuf>,
    /// Servers of tools: a file or JSON text
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Schema of the result
    #[arg(long, value_name = "JSON")]
    pub(crate) json_schema: Option<String>,
    /// Go on with the session that is nearest to here: same branch, repository, or directory; the newest of those
    #[arg(short = 'c', long = "continue")]
    pub(crate) continue_last: bool,
    /// Go on with this session: its identity, the beginning of one, or its name; without one, choose on the terminal
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// The session that a person chose
    #[arg(long, value_name = "ID", hide = true)]
    pub(crate) chosen: Option<String>,
    /// Do the calls that had no result when the session broke off, after they were decided anew
    #[arg(long)]
    pub(crate) continue_pending: bool,
    /// Go on under a new identity; the session stays as it is
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// Go on behind this message
    #[arg(long, value_name = "UUID")]
    pub(crate) resume_session_at: Option<String>,
    /// Go on only if nothing but the turn of this message is behind that message
    #[arg(long, value_name = "UUID", requires = "resume_session_at")]
    pub(crate) resume_drops_turn: Option<String>,
    /// Identity of the new session
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    pub(crate) session_id: Option<String>,
    /// Name of the new session
    #[arg(short, long, value_name = "NAME", value_parser = name, conflicts_with_all = ["continue_last", "resume", "no_session_persistence"])]
    pub(crate) name: Option<String>,
    /// Keep nothing of the session
    #[arg(long)]
    pub(crate) no_session_persistence: bool,
    /// Show pieces of answers as they come (stream-json)
    #[arg(long)]
    pub(crate) include_partial_messages: bool,
    /// Run the hooks of `Setup` with the trigger `init` first
    #[arg(long, conflicts_with = "maintenance")]
    pub(crate) init: bool,
    /// Do that, run the hooks of `SessionStart`, and end
    #[arg(long, conflicts_with = "maintenance")]
    pub(crate) init_only: bool,
    /// Run the hooks of `Setup` with the trigger `maintenance` first
    #[arg(long)]
    pub(crate) maintenance: bool,
    /// Show which hooks of the settings ran (stream-json)
    #[arg(long)]
    pub(crate) include_hook_events: bool,
    /// Repeat the messages of the user in the output (stream-json)
    #[arg(long)]
    pub(crate) replay_user_messages: bool,
    /// Tell the host each line of the session that was stored (stream-json)
    #[arg(long, conflicts_with = "no_session_persistence")]
    pub(crate) session_mirror: bool,
    /// Show more
    #[arg(long, overrides_with = "verbose")]
    pub(crate) verbose: bool,
    /// Options of the packages that change nothing here.
    #[command(flatten)]
    pub(crate) accepted: Accepted,
}

/// Options that the packages pass and that have nothing to change here.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Accepted {
    #[arg(long, hide = true)]
    strict_mcp_config: bool,
    #[arg(long, hide = true)]
    await_initialize: bool,
    #[arg(long, hide = true, num_args = 0..=1)]
    initialize_fields: Option<Option<String>>,
    #[arg(long, hide = true, value_name = "WHO", num_args = 0..=1)]
    permission_prompts: Option<Option<String>>,
    #[arg(long, hide = true)]
    debug_to_stderr: bool,
    #[arg(long, hide = true)]
    debug: bool,
    #[arg(long, hide = true)]
    managed_settings_in_initialize: bool,
}

impl Flags {
    /// Returns the trigger of the `Setup` hooks, if they run.
    pub(crate) fn trigger(&self) -> Option<&'static str> {
        match (self.init || self.init_only, self.maintenance) {
            (true, _) => Some("init"),
            (false, true) => Some("maintenance"),
            (false, false) => None,
        }
    }

    /// Returns the session that goes on: the one that a person chose, or the one that the options name.
    pub(crate) fn resumes(&self) -> Option<&str> {
        self.chosen.as_deref().or(self.resume.as_deref())
    }

    /// Says whether a host speaks to the session on standard input.
    pub(crate) fn streams(&self) -> bool {
        self.input_format == "stream-json"
    }

    /// Returns the layers that count; none means all.
    pub(crate) fn sources(&self) -> Option<Vec<String>> {
        let list = self.setting_sources.as_ref()?;
        Some(
            list.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        )
    }
}

/// Says whether a text has the form of a UUID (RFC 9562).
pub(crate) fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|it| it == '-' || it.is_ascii_hexdigit())
}

/// Reads the name of a new session.
fn name(text: &str) -> Result<String, String> {
    stockade_session::checked(text).map(str::to_owned).map_err(|error| error.to_string())
}

/// Reads the identity of a new session.
fn uuid(text: &str) -> Result<String, String> {
    match is_uuid(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{}` is not a UUID", text.escape_debug())),
    }
}

/// Splits lists of rules at commas outside of parentheses.
pub(crate) fn rules(lists: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for list in lists {
        let (mut rule, mut depth) = (String::new(), 0_u32);
        for it in list.chars() {
            match it {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' | ' ' if depth == 0 => {
                    found.push(std::mem::take(&mut rule));
                    continue;
                }
                _ => {}
            }
            rule.push(it);
        }
        found.push(rule);
    }
    found.retain(|rule| !rule.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_split_outside_of_parentheses() {
        let lists = ["Bash(git log:*, x),Edit".to_owned(), "Read Write".to_owned(), String::new()];
        assert_eq!(rules(&lists), ["Bash(git log:*, x)", "Edit", "Read", "Write"]);
    }
}
