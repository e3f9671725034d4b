//! Real agents, driven by a scripted model on the loopback interface: what reaches a shell and what does not.

pub mod clients;
pub mod dialect;
pub mod endpoint;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Place;
use clients::Client;
use endpoint::{Endpoint, Script};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The agent.
    pub agent: &'static str,
    /// The layer of the gate that the agent goes through.
    pub path: &'static str,
    /// The case that was tried.
    pub case: &'static str,
    /// Its result.
    pub result: String,
    /// True if the result is as it must be.
    pub good: bool,
}

/// The command of each case, by the file that it would make.
const ALLOWED: &str = "echo x > allowed.txt";
const DENIED: &str = "touch denied.txt";
const KILLED: &str = "echo x > killed.txt";
const GARBAGE: &str = "echo x > garbage.txt";
const HUNG: &str = "echo x > hung.txt";
const SUB_ALLOWED: &str = "echo x > sub-allowed.txt";
const SUB_DENIED: &str = "touch sub-denied.txt";
/// A command that a rule of the agent's own settings denies, and that rule.
const OWN: &str = "mkdir own-rule";
const OWN_RULE: &str = "Bash(mkdir:*)";
/// Needs a terminal, which the script of the model asks for where the agent has a word for it.
pub(crate) const TERMINAL: &str = "test -t 0 && test -t 1 && echo x > terminal.txt";
/// Number of calls before the first one whose handler breaks.
const BEFORE_BROKEN: usize = 3;
/// Writes to both streams in turn.
const ORDER: &str = "for n in 1 2 3 4; do echo o$n; echo e$n >&2; done";
/// The rule that denies, as the reason names it.
const RULE: &str = "Bash(touch:*)";

/// A hook of the person's own settings that harms the process which runs it, as the command says: the handler of a hook,
/// or the shell. Between that and a hook stands the hook's keeper, and at times the shell that started the script.
pub const HARM: &str = r#"#!/bin/sh
frame=$(cat)
gate=$PPID
case $(readlink /proc/$gate/exe) in
*/stockade) ;;
*) gate=$(cut -d' ' -f4 /proc/$gate/stat) ;;
esac
gate=$(cut -d' ' -f4 /proc/$gate/stat)
case $frame in
*killed*) kill -KILL $gate ;;
*stopped*) kill -STOP $gate ;;
*garbage*) echo garbage > /proc/$gate/fd/1 ;;
*hung*) exec sleep 60 ;;
esac
"#;

/// Drives `client` behind the hook that set-up writes, with all that can go wrong in it.
pub fn through_hook(client: Client, program: &Path) -> Vec<Line> {
    let place = place(client, "hook");
    // A handler that breaks ends the run of Cline.
    let broken: &[&str] =
        if client == Client::Cline { &[KILLED] } else { &[KILLED, GARBAGE, HUNG] };
    let mut commands = vec![ALLOWED.to_owned(), DENIED.to_owned(), ORDER.to_owned()];
    if client == Client::Codex {
        commands.push(TERMINAL.to_owned());
    }
    commands.extend(broken.iter().map(|it| (*it).to_owned()));
    if client == Client::Claude {
        commands.push(OWN.to_owned());
    }
    let sub_commands = [SUB_ALLOWED, SUB_DENIED].map(str::to_owned).to_vec();
    let endpoint = Endpoint::start(Script { commands, sub_commands }).expect("a loopback port");
    client.configure(&place, endpoint.port);
    set_up(client, &place);
    // The hook alone: the second layer is tried by itself.
    without_shell(client, &place);
    if client == Client::Claude {
        edit(&place, "home/.claude/settings.json", |it| {
            it["permissions"] = json!({"deny": [OWN_RULE]})
        });
    }
    let printed = client.run(program, &place, endpoint.port, None);
    let seen = Seen { client, path: "hook", place: &place, endpoint: &endpoint, printed: &printed };
    let mut lines = vec![
        seen.allowed("harmless", "allowed.txt"),
        seen.denied("denied", "denied.txt"),
        seen.in_order("output in order"),
        seen.nothing_ran("handler killed", "killed.txt"),
    ];
    if client == Client::Codex {
        lines.push(seen.allowed("a terminal where the model asks for one", "terminal.txt"));
    }
    if client != Client::Cline {
        lines.extend([
            seen.nothing_ran("handler answers garbage", "garbage.txt"),
            seen.nothing_ran("handler hung", "hung.txt"),
            seen.allowed("sub-agent, harmless", "sub-allowed.txt"),
            seen.denied("sub-agent, denied", "sub-denied.txt"),
        ]);
    }
    if client == Client::Claude {
        lines.push(seen.nothing_ran("denied by the agent's own rule", "own-rule"));
    }
    lines
}

/// Drives `client` with our shell in the place of its own, without any hook.
pub fn through_shell(client: Client, program: &Path) -> Vec<Line> {
    let place = place(client, "shell");
    let commands = [ALLOWED, DENIED, KILLED].map(str::to_owned).to_vec();
    let endpoint =
        Endpoint::start(Script { commands, ..Script::default() }).expect("a loopback port");
    client.configure(&place, endpoint.port);
    let search = match client {
        Client::Claude | Client::OpenCode => {
            set_up(client, &place);
            without_hook(client, &place);
            None
        }
        Client::Gemini | Client::Codex | Client::Cline | Client::Copilot => {
            let folder = place.root.join("bin");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::os::unix::fs::symlink(crate::stockade(), folder.join("bash")).expect("a link");
            Some(folder)
        }
    };
    if client == Client::Claude {
        // Without a hook somebody has to allow the tool.
        edit(&place, "home/.claude/settings.json", |it| {
            it["permissions"] = json!({"allow": ["Bash"]})
        });
    }
    let printed = client.run(program, &place, endpoint.port, search.as_deref());
    let seen =
        Seen { client, path: "shell", place: &place, endpoint: &endpoint, printed: &printed };
    vec![
        seen.allowed("harmless", "allowed.txt"),
        seen.denied("denied", "denied.txt"),
        seen.nothing_ran("gate killed", "killed.txt"),
    ]
}

/// Makes the places, a rule that denies, and the harm.
fn place(client: Client, path: &str) -> Place {
    let place = Place::new(&format!("agent-{}-{path}", client.name()));
    place.write("harm.sh", HARM);
    let harm = place.root.join("harm.sh");
    std::fs::set_permissions(&harm, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let hook = json!({"type": "command", "command": harm});
    let settings = json!({
        "permissions": {"deny": [RULE]},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
    });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    place
}

fn set_up(client: Client, place: &Place) {
    let output = place.output(["setup", client.name()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn edit(place: &Place, file: &str, change: impl Fn(&mut Value)) {
    let path = place.root.join(file);
    let text = std::fs::read_to_string(&path).expect("the agent's settings");
    let mut value: Value = serde_json::from_str(&text).expect("the agent's settings are JSON");
    change(&mut value);
    place.write(file, &value.to_string());
}

fn without_shell(client: Client, place: &Place) {
    match client {
        Client::Claude => edit(place, "home/.claude/settings.json", |it| it["env"] = json!({})),
        Client::OpenCode => edit(place, "home/.config/opencode/opencode.json", |it| {
            it.as_object_mut().expect("an object").remove("shell");
        }),
        Client::Codex | Client::Gemini | Client::Cline | Client::Copilot => {}
    }
}

fn without_hook(client: Client, place: &Place) {
    match client {
        Client::Claude => edit(place, "home/.claude/settings.json", |it| it["hooks"] = json!({})),
        Client::OpenCode => {
            let plugin = place.home().join(".config/opencode/plugin/stockade.js");
            std::fs::remove_file(plugin).expect("the plugin of set-up");
        }
        Client::Codex | Client::Gemini | Client::Cline | Client::Copilot => {}
    }
}

/// Traces of one run.
struct Seen<'a> {
    client: Client,
    path: &'static str,
    place: &'a Place,
    endpoint: &'a Endpoint,
    printed: &'a str,
}

impl Seen<'_> {
    fn made(&self, file: &str) -> bool {
        self.place.project().join(file).exists()
    }

    /// Says whether the model ever heard of the command: a case that did not come is not a success.
    fn came(&self, file: &str) -> bool {
        let seen = self.endpoint.seen();
        // A run that ended with the refusal tells the model nothing: then the call came that follows the other three.
        let ended = self.client == Client::Cline
            && seen.iter().any(|(_, body)| told(body).len() == BEFORE_BROKEN);
        ended || seen.iter().any(|(_, body)| body.contains(file))
    }

    fn line(&self, case: &'static str, good: bool, result: &str) -> Line {
        let mut result = result.to_owned();
        if !good {
            let last: Vec<&str> = self.printed.lines().rev().take(3).collect();
            result =
                format!("{result}; {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "));
        }
        Line { agent: self.client.name(), path: self.path, case, result, good }
    }

    fn allowed(&self, case: &'static str, file: &str) -> Line {
        match (self.came(file), self.made(file)) {
            (_, true) => self.line(case, true, "ran, nobody asked"),
            (true, false) => self.line(case, false, "DID NOT RUN"),
            (false, false) => self.line(case, false, "NOT REACHED"),
        }
    }

    fn denied(&self, case: &'static str, file: &str) -> Line {
        // The words name this command: the main conversation and the sub-agent are each told of their own.
        let told = self.endpoint.was_told(&[&format!("denied `touch {file}`"), RULE]);
        match (self.came(file), self.made(file), told) {
            (_, true, _) => self.line(case, false, "RAN"),
            (true, false, true) => self.line(case, true, "did not run, the model was told why"),
            (true, false, false) => self.line(case, false, "did not run, THE MODEL WAS NOT TOLD"),
            (false, false, _) => self.line(case, false, "NOT REACHED"),
        }
    }

    /// Says whether the model was told both streams in the order in which the command wrote.
    fn in_order(&self, case: &'static str) -> Line {
        let results: Vec<String> =
            self.endpoint.seen().iter().flat_map(|(_, body)| told(body)).collect();
        let told = results.iter().find(|text| text.contains("o1"));
        let Some(told) = told else { return self.line(case, false, "NOT REACHED") };
        // One agent puts its results into a text of their own.
        match told.replace(r"\\n", r"\n").contains(r"o1\ne1\no2\ne2\no3\ne3\no4\ne4") {
            true => self.line(case, true, "in order"),
            false => self.line(case, false, &format!("NOT IN ORDER: {told}")),
        }
    }

    fn nothing_ran(&self, case: &'static str, file: &str) -> Line {
        match (self.came(file), self.made(file)) {
            (_, true) => self.line(case, false, "RAN"),
            (true, false) => self.line(case, true, "did not run"),
            (false, false) => self.line(case, false, "NOT REACHED"),
        }
    }
}

/// The results of tools that the text of a request carries.
fn told(body: &str) -> Vec<String> {
    let request: Option<Value> = serde_json::from_str(body).ok();
    request.map(|request| dialect::results(&request)).unwrap_or_default()
}

/// Returns the folders in which agents are looked for: those named, then the search path.
pub fn folders(named: Option<PathBuf>) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    named.into_iter().chain(std::env::split_paths(&path)).collect()
}
