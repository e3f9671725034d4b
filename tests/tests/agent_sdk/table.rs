//! Every method and every option of the packages, each tried once: what comes of it stands in this table and in the guide.

use serde_json::{Value, json};
use stockade_tests::{Place, root};

use super::{say, script, seen, seen_by_npm};

/// The outcome of each, in order.
type Table = [(&'static str, Value)];

fn page() -> String {
    std::fs::read_to_string(root().join("docs/agent/sdk.md")).expect("the page")
}

/// Holds what was seen against the table, and the table against the guide.
fn compare(seen: &[Value], table: &Table, listed: bool) {
    let (untried, seen) = seen.split_first().expect("an answer");
    // A newer package may have more, which the guide does not know yet.
    println!("not tried: {untried}");
    let seen: Vec<(String, Value)> =
        seen.iter().map(|it| (it[0].as_str().expect("a name").to_owned(), it[1].clone())).collect();
    let page = page();
    let mut wrong = Vec::new();
    for (name, expected) in table {
        let found = seen.iter().find(|it| it.0 == *name);
        let outcome = found.map_or(&Value::Null, |it| &it.1);
        let fits = match (expected.as_str(), outcome.as_str()) {
            (Some(expected), Some(outcome)) => outcome.contains(expected),
            _ => found.is_some() && outcome == expected,
        };
        if !fits {
            wrong.push(format!("{name}: {outcome}, not {expected}"));
        }
        let short = name.split("_EXPERIMENTAL").next().unwrap_or(name);
        if listed && !page.contains(&format!("`{short}`")) {
            wrong.push(format!("the guide lacks `{short}`"));
        }
    }
    let names: Vec<&str> = table.iter().map(|it| it.0).collect();
    let more = seen.iter().filter(|it| !names.contains(&it.0.as_str()));
    wrong.extend(more.map(|it| format!("without a row: {} {}", it.0, it.1)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn server() -> stockade_model_server::Server {
    let done = [say("done")];
    script(&vec![&done[..]; 130])
}

fn plugin(place: &Place) {
    place.write("home/plugin/.claude-plugin/plugin.json", r#"{"name":"guard"}"#);
}

#[test]
fn each_method_of_the_npm_package_is_tried_once() {
    let place = Place::new("sdk-npm-methods");
    let server = server();
    let test = "each_method_of_the_npm_package_is_tried_once";
    let Some(seen) = seen_by_npm(test, "methods", &place, &server) else { return };
    compare(&seen, &npm_methods(), true);
}

#[test]
fn each_option_of_the_npm_package_is_tried_once() {
    let place = Place::new("sdk-npm-options");
    plugin(&place);
    let server = server();
    let test = "each_option_of_the_npm_package_is_tried_once";
    let Some(seen) = seen_by_npm(test, "options", &place, &server) else { return };
    compare(&seen, &npm_options(), false);
}

#[test]
fn each_method_of_the_python_package_is_tried_once() {
    let place = Place::new("sdk-py-methods");
    let server = server();
    let test = "each_method_of_the_python_package_is_tried_once";
    let Some(seen) = seen(test, "methods", &place, &server) else { return };
    compare(&seen, &python_methods(), true);
}

#[test]
fn each_option_of_the_python_package_is_tried_once() {
    let place = Place::new("sdk-py-options");
    plugin(&place);
    let server = server();
    let test = "each_option_of_the_python_package_is_tried_once";
    let Some(seen) = seen(test, "choices", &place, &server) else { return };
    compare(&seen, &python_options(), false);
}

/// Rows that all have the same outcome.
fn all(outcome: &str, names: &[&'static str]) -> Vec<(&'static str, Value)> {
    names.iter().map(|name| (*name, json!(outcome))).collect()
}

fn npm_methods() -> Vec<(&'static str, Value)> {
    let kinds = ["system_prompt", "system_tools", "memory_files", "messages", "free_space"];
    let mut table = vec![
        ("initializationResult", json!(1)),
        ("reinitialize", json!("default")),
        ("supportedCommands", json!([])),
        ("supportedModels", json!(["default"])),
        ("supportedAgents", json!([])),
        ("accountInfo", json!("none")),
        ("setMcpServers", json!([[], [], ["local", "calc"]])),
        ("mcpServerStatus", json!([])),
        ("reconnectMcpServer", json!("rejects: there is no server `calc`")),
        ("toggleMcpServer", json!("rejects: there is no server `calc`")),
        ("readMcpResource", json!("resources of servers are not read")),
        ("setMcpPermissionModeOverride", json!("a server has no mode of its own")),
        ("interrupt", json!({ "still_queued": [] })),
        ("setPermissionMode", json!({ "mode": "plan" })),
        ("updateSettings", json!("the agent writes no settings files")),
        ("getContextUsage", json!(kinds)),
        ("usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET", json!(["claude-haiku-4-5"])),
        ("readFile", json!(null)),
        ("reloadPlugins", json!("plugins are read when a session begins")),
        ("reloadSkills", json!([])),
        ("reloadOutputStyles", json!(["default"])),
        ("rewindFiles", json!(false)),
        ("seedReadState", json!("a file is known once a tool has read it")),
        ("stopTask", json!("there is no background command `b0001`")),
        ("backgroundTasks", json!(false)),
    ];
    let plain = ["setModel", "setMaxThinkingTokens", "applyFlagSettings", "streamInput", "close"];
    table.extend(all("resolves", &plain));
    table
}

fn npm_options() -> Vec<(&'static str, Value)> {
    let works = [
        "abortController",
        "additionalDirectories",
        "projectConfigRoot",
        "agent",
        "agents",
        "allowedTools",
        "canUseTool",
        "continue",
        "cwd",
        "disallowedTools",
        "tools",
        "env",
        "executable",
        "executableArgs",
        "extraArgs",
        "fallbackModel",
        "enableFileCheckpointing",
        "toolConfig",
        "forkSession",
        "betas",
        "hooks",
        "onElicitation",
        "onUserDialog",
        "perTaskStopAffordance",
        "persistSession",
        "sessionStore",
        "sessionStoreFlush",
        "loadTimeoutMs",
        "includeHookEvents",
        "includePartialMessages",
        "forwardSubagentText",
        "verbatimPrompts",
        "thinking",
        "effort",
        "maxThinkingTokens",
        "maxTurns",
        "maxBudgetUsd",
        "taskBudget",
        "mcpServers",
        "model",
        "permissionMode",
        "planModeInstructions",
        "allowDangerouslySkipPermissions",
        "permissionPromptToolName",
        "permissionPrompts",
        "plugins",
        "promptSuggestions",
        "agentProgressSummaries",
        "sessionId",
        "sandbox",
        "settings",
        "managedSettings",
        "settingSources",
        "skills",
        "debug",
        "debugFile",
        "stderr",
        "strictMcpConfig",
        "systemPrompt",
        "title",
        "pathToClaudeCodeExecutable",
    ];
    let mut table = all("success", &works);
    table.extend([
        ("toolAliases", json!("success")),
        ("mcpServersDelivery", json!("`mcpServers` in `initialize` is not supported")),
        ("pluginDelivery", json!("success")),
        (
            "supportedDialogKinds",
            json!("rejects: supportedDialogKinds requires an onUserDialog callback"),
        ),
        (
            "outputFormat",
            json!("the model returned no valid structured output: 3 answers had none"),
        ),
        ("resume", json!("99999999-9999-4999-8999-999999999999")),
        ("resumeSessionAt", json!("success")),
        ("resumeDropsTurn", json!("rejects")),
    ]);
    table
}

fn python_methods() -> Vec<(&'static str, Value)> {
    let mut table = vec![
        ("get_server_info", json!("default")),
        ("receive_response", json!(["success"])),
        ("get_mcp_status", json!([])),
        ("get_context_usage", json!("claude-haiku-4-5")),
        ("rewind_files", json!("rejects")),
        ("reconnect_mcp_server", json!("rejects: there is no server `none`")),
        ("toggle_mcp_server", json!("rejects: there is no server `none`")),
        ("stop_task", json!("there is no background command `b0001`")),
        ("receive_messages", json!("success")),
    ];
    let plain = ["connect", "query", "interrupt", "set_permission_mode", "set_model", "disconnect"];
    table.extend(all("resolves", &plain));
    table
}

fn python_options() -> Vec<(&'static str, Value)> {
    let works = [
        "tools",
        "allowed_tools",
        "system_prompt",
        "mcp_servers",
        "strict_mcp_config",
        "permission_mode",
        "continue_conversation",
        "session_id",
        "max_turns",
        "max_budget_usd",
        "disallowed_tools",
        "model",
        "fallback_model",
        "betas",
        "permission_prompt_tool_name",
        "cwd",
        "settings",
        "add_dirs",
        "env",
        "extra_args",
        "max_buffer_size",
        "stderr",
        "can_use_tool",
        "hooks",
        "include_partial_messages",
        "include_hook_events",
        "forward_subagent_text",
        "verbatim_prompts",
        "fork_session",
        "agents",
        "setting_sources",
        "skills",
        "sandbox",
        "plugins",
        "max_thinking_tokens",
        "thinking",
        "effort",
        "enable_file_checkpointing",
        "session_store",
        "session_store_flush",
        "load_timeout_ms",
        "task_budget",
        "client_app",
        "cli_path",
    ];
    let mut table = all("success", &works);
    table.extend([
        (
            "output_format",
            json!("the model returned no valid structured output: 3 answers had none"),
        ),
        ("resume", json!("99999999-9999-4999-8999-999999999997")),
        ("resume_session_at", json!("success")),
        ("resume_drops_turn", json!("rejects")),
    ]);
    table
}
