//! Options of the SDK packages that choose an agent, bring a plugin, or tighten the session from outside.

use serde_json::{Value, json};
use stockade_model_server::{Form, Server};
use stockade_tests::{Place, word};

use super::host::Host;
use super::{agent, call, frames, result, run, say, script, text};

/// Names of the tools in the first request.
fn tools(server: &Server) -> Vec<String> {
    let body = server.received().remove(0).body;
    let names = body["tools"].as_array().expect("tools").iter();
    names.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn system(server: &Server) -> String {
    server.received().remove(0).body["system"].to_string()
}

#[test]
fn an_agent_of_the_option_is_the_agent_of_the_session() {
    let place = Place::new("ag-agent");
    let agents = json!({ "reviewer": { "description": "reviews", "prompt": "REVIEW_ALL_7", "tools": ["Read", "Grep"],
        "model": "haiku", "permissionMode": "plan", "skills": ["x"] }, "other": { "prompt": "NOT_THIS" } });
    let agents = agents.to_string();
    let server = script(
        Form::Anthropic,
        &[&[call("a", "Bash", json!({ "command": "touch made" }))], &[say("done")]],
    );
    let arguments =
        ["-p", "go", "--agents", &agents, "--agent", "reviewer", "--output-format", "stream-json"];
    let output = run(&place, &server, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(tools(&server), ["Read", "Grep"]);
    assert!(system(&server).contains("REVIEW_ALL_7") && !system(&server).contains("NOT_THIS"));
    assert_eq!(server.received()[0].body["model"], "claude-haiku-4-5");
    let frames = frames(&output);
    let init = frames.iter().find(|it| it["subtype"] == "init").expect("init");
    assert_eq!(init["permissionMode"], "plan");
    let told = frames.iter().map(Value::to_string).collect::<String>();
    assert!(told.contains("the agent does without `skills` of its definition"), "{told}");
    let (told, is_error) = result(&server, "a");
    assert!(is_error && told.contains("Bash"), "{told}");
    assert!(!place.project().join("made").exists());
}

#[test]
fn an_agent_that_is_not_defined_or_cannot_be_kept_to_is_one_error() {
    let place = Place::new("ag-no-agent");
    let server = script(Form::Anthropic, &[&[say("no")]]);
    let one =
        r#"{"one": {"prompt": "p"}, "guarded": {"prompt": "p", "hooks": {"PreToolUse": []}}}"#;
    for (arguments, told) in [
        (vec!["--agent", "two"], "there is no agent `two`; none is defined"),
        (
            vec!["--agent", "two", "--agents", one],
            "there is no agent `two`; defined are guarded, one",
        ),
        (
            vec!["--agent", "guarded", "--agents", one],
            "the agent `guarded` cannot be used: it has hooks",
        ),
        (vec!["--agents", "{"], "`--agents` is not JSON"),
    ] {
        let output = run(&place, &server, &[&["-p", "go"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = text(&output.stderr);
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("  try: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(told), "{stderr}");
    }
    assert!(server.received().is_empty());
}

#[test]
fn an_agent_comes_from_a_file_and_a_link_of_the_project_is_not_read() {
    let place = Place::new("ag-agent-file");
    let file = |name: &str, words: &str| format!("---\nname: {name}\ntools: Read\n---\n{words}\n");
    place.write("project/.claude/agents/mine.md", &file("mine", "OF_THE_PROJECT_7"));
    place.write("home/.claude/agents/mine.md", &file("mine", "OF_THE_USER_7"));
    place.write("home/private/secret.md", &file("secret", "PRIVATE_7"));
    let link = place.project().join(".claude/agents/secret.md");
    std::os::unix::fs::symlink(place.home().join("private/secret.md"), &link).expect("a link");
    let start = |arguments: &[&str]| {
        let server = script(Form::Anthropic, &[&[say("done")]]);
        let output = run(&place, &server, &[&["-p", "go", "--agent"], arguments].concat());
        (server, output)
    };
    // A command may have written the one of the project.
    assert!(system(&start(&["mine"]).0).contains("OF_THE_USER_7"));
    let (server, _) = start(&["mine", "--setting-sources", "project"]);
    assert!(system(&server).contains("OF_THE_PROJECT_7"));
    let (server, output) = start(&["secret"]);
    assert!(
        text(&output.stderr).contains("there is no agent `secret`"),
        "{}",
        text(&output.stderr)
    );
    // Nor through a folder that is a link.
    std::fs::remove_file(&link).expect("no link");
    std::fs::create_dir_all(place.project().join(".stockade")).expect("a folder");
    let folder = place.project().join(".stockade/agents");
    std::os::unix::fs::symlink(place.home().join("private"), folder).expect("a link");
    let (again, output) = start(&["secret"]);
    assert!(
        text(&output.stderr).contains("there is no agent `secret`"),
        "{}",
        text(&output.stderr)
    );
    assert!(server.received().is_empty() && again.received().is_empty());
}

#[test]
fn a_host_names_its_agent_by_the_option_and_defines_it_in_initialize() {
    let place = Place::new("ag-agent-host");
    let server = script(Form::Anthropic, &[&[say("done")]]);
    let mut host = Host::start(&place, &server, &["--agent", "mine"]);
    let agents =
        json!({ "mine": { "description": "d", "prompt": "OF_THE_HOST_7", "tools": ["Read"] } });
    host.request(json!({ "subtype": "initialize", "hooks": null, "agents": agents }));
    host.user("go");
    assert_eq!(host.until("result")["result"], "done");
    assert_eq!(tools(&server), ["Read"]);
    assert!(system(&server).contains("OF_THE_HOST_7"));
    assert_eq!(host.end(), Some(0));
}

/// Writes a plugin outside of the project, with a hook that refuses commands with `id` and one for the end of a turn.
fn plugin(place: &Place, root: &str) {
    place.write(
        &format!("{root}/.claude-plugin/plugin.json"),
        r#"{"name": "guard", "version": "1"}"#,
    );
    let script = "#!/bin/sh\ncat > /dev/null\necho \"not by $CLAUDE_PLUGIN_ROOT\" >&2\nexit 2\n";
    place.write(&format!("{root}/no.sh"), script);
    let hooks = json!({ "description": "d", "hooks": { "PreToolUse": [{ "matcher": "Bash",
        "hooks": [{ "type": "command", "command": "/bin/sh ${CLAUDE_PLUGIN_ROOT}/no.sh" }] }] } });
    place.write(&format!("{root}/hooks/hooks.json"), &hooks.to_string());
    place.write(&format!("{root}/agents/a.md"), "---\nname: a\n---\nAGENT_OF_PLUGIN_7\n");
    place.write(&format!("{root}/commands/x.md"), "x");
    place.write(&format!("{root}/.mcp.json"), "{}");
}

#[test]
fn a_plugin_brings_hooks_and_agents_and_the_rest_is_named() {
    let place = Place::new("ag-plugin");
    plugin(&place, "plugins/guard");
    let directory = place.root.join("plugins/guard").canonicalize().expect("the plugin");
    let directory = directory.to_str().expect("UTF-8");
    let bash = || {
        script(
            Form::Anthropic,
            &[&[call("a", "Bash", json!({ "command": "touch made" }))], &[say("done")]],
        )
    };
    let server = bash();
    let output = run(
        &place,
        &server,
        &[
            "-p",
            "go",
            "--plugin-dir",
            directory,
            "--agent",
            "guard:a",
            "--output-format",
            "stream-json",
        ],
    );
    let (told, is_error) = result(&server, "a");
    assert!(is_error && told.contains(&format!("not by {directory}")), "{told}");
    assert!(!place.project().join("made").exists());
    assert!(system(&server).contains("AGENT_OF_PLUGIN_7"));
    let line = "stockade: the plugin `guard` is loaded without `commands`, `.mcp.json`, for which nothing is built yet";
    assert_eq!(text(&output.stderr), line);
    let frames = frames(&output);
    let init = frames.iter().find(|it| it["subtype"] == "init").expect("init");
    assert_eq!(init["plugins"], json!([{ "name": "guard", "path": directory }]));
    // The host has the servers itself.
    let server = bash();
    let output = run(&place, &server, &["-p", "go", "--plugin-dir-no-mcp", directory]);
    let line =
        "stockade: the plugin `guard` is loaded without `commands`, for which nothing is built yet";
    assert_eq!(text(&output.stderr), line);
    assert!(result(&server, "a").1 && !place.project().join("made").exists());
}

#[test]
fn a_plugin_where_commands_write_or_that_is_none_does_not_start() {
    let place = Place::new("ag-plugin-bad");
    plugin(&place, "project/plugin");
    place.write("more/hooks/hooks.json", r#"{"hooks": {}, "permissions": {"allow": ["Bash"]}}"#);
    place.write("broken/plugin.json", "{");
    place.write("empty/x", "");
    let root = place.root.canonicalize().expect("the root");
    let server = script(Form::Anthropic, &[&[say("no")]]);
    for (directory, told) in [
        ("plugin".to_owned(), "where commands can write"),
        (format!("{}/more", root.display()), "a plugin has no `permissions` here"),
        (format!("{}/broken", root.display()), "its manifest is not JSON"),
        (format!("{}/empty", root.display()), "holds no plugin"),
        (format!("{}/none", root.display()), "is not a directory"),
    ] {
        let output = run(&place, &server, &["-p", "go", "--plugin-dir", &directory]);
        let stderr = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains(told), "{directory}: {stderr}");
    }
    assert!(server.received().is_empty());
}

#[test]
fn managed_settings_of_a_host_tighten_and_never_loosen() {
    let place = Place::new("ag-managed");
    let user = json!({ "permissions": { "allow": ["Bash(touch:*)"], "ask": ["Bash(ls:*)"] } });
    place.write("home/.config/stockade/settings.json", &user.to_string());
    let bash = |id: &str, line: &str| call(id, "Bash", json!({ "command": line }));
    let edit = |id: &str| call(id, "Write", json!({ "file_path": "new.txt", "content": "x" }));
    let managed = json!({ "permissions": { "deny": ["Bash(id:*)"], "allow": ["Write", "Bash(ls:*)"] },
        "sandbox": { "enabled": false, "network": { "deniedDomains": ["a.example"] } }, "allowManagedPermissionRulesOnly": true });
    let server = script(
        Form::Anthropic,
        &[&[bash("a", "id -u"), edit("b"), bash("c", "ls")], &[say("done")]],
    );
    let output = run(&place, &server, &["-p", "go", "--managed-settings", &managed.to_string()]);
    let line = "stockade: `--managed-settings` only tightens: `permissions.allow`, `sandbox.enabled` is ignored";
    assert_eq!(text(&output.stderr), line);
    let (told, is_error) = result(&server, "a");
    assert!(
        is_error && told.contains("`Bash(id:*)`") && told.contains("<--managed-settings>"),
        "{told}"
    );
    // Its allow rules do not count, and the ask rule of the user stays.
    assert!(result(&server, "b").1 && !place.project().join("new.txt").exists());
    let (told, is_error) = result(&server, "c");
    assert!(is_error && told.contains("`Bash(ls:*)`"), "{told}");
}

#[test]
fn managed_settings_of_a_host_take_away_allow_rules_and_the_mode_that_asks_nothing() {
    let place = Place::new("ag-managed-allow");
    place.write("home/.config/stockade/settings.json", r#"{"permissions": {"allow": ["Write"]}}"#);
    let write = [call("w", "Write", json!({ "file_path": "new.txt", "content": "x" }))];
    let all = |managed: &str, more: &[&str]| {
        let server = script(Form::Anthropic, &[&write, &[say("done")]]);
        let output =
            run(&place, &server, &[&["-p", "go", "--managed-settings", managed], more].concat());
        let made = std::fs::remove_file(place.project().join("new.txt")).is_ok();
        (made, text(&output.stderr))
    };
    assert_eq!(all("{}", &[]), (true, String::new()));
    let rules = r#"{"allowManagedPermissionRulesOnly": true}"#;
    assert_eq!(all(rules, &["--allowedTools", "Write"]), (false, String::new()));
    let bypass = ["--dangerously-skip-permissions", "--setting-sources", ""];
    assert!(all("{}", &bypass).0);
    let managed = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    assert!(!all(managed, &bypass).0);
    let (made, stderr) = all(r#"{"deniedMcpServers": [{"serverName": "x"}]}"#, &[]);
    assert!(!made && stderr.contains("nothing here enforces `deniedMcpServers`"), "{stderr}");
}

#[test]
fn what_a_result_without_its_form_says_is_true() {
    let place = Place::new("ag-no-output");
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }).to_string();
    let told = |answers: &[&[stockade_model_server::Turn]]| {
        let server = script(Form::Anthropic, answers);
        let arguments = ["-p", "go", "--json-schema", &schema, "--output-format", "json"];
        let output = run(&place, &server, &arguments);
        let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(result["subtype"], "error_max_structured_output_retries");
        (result["errors"][0].as_str().expect("an error").to_owned(), server.received().len())
    };
    let wrong = [call("s", "StructuredOutput", json!({ "n": "x" }))];
    let (words, begin) = ([say("words")], "the model returned no valid structured output: ");
    for (answers, end) in [
        ([&words, &words, &words], "3 answers had none"),
        ([&wrong, &wrong, &wrong], "3 calls of StructuredOutput were invalid"),
        ([&words, &wrong, &words], "1 call of StructuredOutput was invalid, 2 answers had none"),
    ] {
        let answers: Vec<&[stockade_model_server::Turn]> =
            answers.iter().map(|it| &it[..]).collect();
        assert_eq!(told(&answers), (format!("{begin}{end}"), 3));
    }
}

#[test]
fn an_agent_that_is_installed_below_tmp_has_its_file_tools() {
    let place = Place::new("ag-in-tmp");
    place.write("project/a.txt", "the content\n");
    for folder in ["/tmp", "/var/tmp"] {
        let root = std::path::PathBuf::from(format!("{folder}/sk-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        for name in ["stockade", "stockade-agent"] {
            stockade_tests::copy_program(&stockade_tests::executable(name), &root.join(name));
        }
        let server = script(
            Form::Anthropic,
            &[
                &[
                    call("r", "Read", json!({ "file_path": "a.txt" })),
                    call("g", "Grep", json!({ "pattern": "content" })),
                    call("b", "Bash", json!({ "command": format!("ls {}", word(&root)) })),
                ],
                &[say("done")],
            ],
        );
        let usual = agent(&place, &server, Form::Anthropic, &["-p", "go"]);
        let mut command = std::process::Command::new(root.join("stockade"));
        command.args(usual.get_args()).current_dir(place.project()).env_clear();
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
        std::fs::remove_dir_all(&root).expect("no folder");
        assert_eq!(text(&output.stdout), "done", "{}", text(&output.stderr));
        let (told, is_error) = result(&server, "r");
        assert!(!is_error && told.contains("the content"), "{folder}: {told}");
        assert!(result(&server, "g").0.contains("a.txt"));
        // A command still sees a directory of its own there.
        let (told, _) = result(&server, "b");
        assert!(told.lines().all(|line| line != "stockade"), "{told}");
    }
}
