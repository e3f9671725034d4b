//! `stockade acp -- AGENT`: questions of another agent are answered by the rules, or by the editor, and the agent gets nothing else.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::{Place, executable};

/// An agent that says what stands in `say.N` when it has read line N, and keeps what it reads.
const AGENT: &str = "n=0\nwhile IFS= read -r line; do\n  printf '%s\\n' \"$line\" >> \"$1/heard\"\n  n=$((n + 1))\n  \
    [ ! -f \"$1/say.$n\" ] || cat \"$1/say.$n\"\ndone\n";

/// An editor with an agent behind the proxy.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    place: Place,
}

impl Editor {
    /// Starts one whose agent says these messages, line by line.
    fn start(name: &str, says: &[&[Value]]) -> Editor {
        drop(executable("stockade-agent"));
        let place = Place::new(name);
        place.write("agent.sh", AGENT);
        let secret = format!("Edit(/{}/secret/**)", place.project().display());
        place.write(
            "home/.config/stockade/settings.json",
            &json!({ "permissions": {
            "allow": ["Bash(frobnicate:*)"], "deny": ["Bash(curl:*)", secret] } })
            .to_string(),
        );
        for (number, messages) in says.iter().enumerate() {
            let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
            place.write(&format!("say.{}", number + 1), &text);
        }
        let mut command = place.stockade(["acp", "--", "sh"]);
        command.arg(place.root.join("agent.sh")).arg(&place.root);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("output")).lines();
        Editor { child, input, lines, place }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("it reads");
    }

    fn hear(&mut self) -> Value {
        let line = self.lines.next().expect("a message").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Opens the session `s`.
    fn open(&mut self) {
        let cwd = self.place.project();
        self.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new",
            "params": { "cwd": cwd, "mcpServers": [] } }));
        assert_eq!(self.hear()["result"]["sessionId"], "s");
    }

    /// Waits until the agent has read so many lines.
    fn read(&self, count: usize) {
        let begun = Instant::now();
        let lines = || std::fs::read_to_string(self.place.root.join("heard")).unwrap_or_default();
        while lines().lines().count() < count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", lines());
            std::thread::yield_now();
        }
    }

    /// Returns the records of the log: the input of each question, and what was answered to it.
    fn answers(&self) -> Vec<(String, String)> {
        let records = |kind: &str| -> Vec<Value> {
            let arguments = ["audit", "tail", "--json", "-n", "50", "--kind", kind];
            let output = self.place.output(arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
        };
        let (decisions, approvals) = (records("decision"), records("approval"));
        let about = |approval: &Value| {
            assert_eq!(approval["channel"], "acp", "{approval}");
            let decision = decisions.iter().find(|it| it["id"] == approval["ref"]);
            let decision = decision.unwrap_or_else(|| panic!("{approval}"));
            assert_eq!(decision["verdict"]["decision"], "ask", "{decision}");
            (decision.to_string(), approval["answer"].as_str().expect("a word").to_owned())
        };
        approvals.iter().map(about).collect()
    }

    /// Ends both, and returns what the agent has read.
    fn heard(mut self) -> Vec<Value> {
        drop(self.input.take());
        let _ = self.child.wait();
        let text = std::fs::read_to_string(self.place.root.join("heard")).expect("lines");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn opened() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "sessionId": "s" } })
}

/// A question of the agent.
fn ask(id: u64, call: Value) -> Value {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind, "name": id });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": call,
        "options": [option("always", "allow_always"), option("yes", "allow_once"), option("no", "reject_once")] } })
}

fn run(command: &str) -> Value {
    json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": command } })
}

/// The option that the agent was answered.
fn option(heard: &[Value], id: u64) -> &str {
    let answer = heard.iter().find(|it| it["id"] == id && it.get("method").is_none());
    answer.expect("an answer")["result"]["outcome"]["optionId"].as_str().expect("an option")
}

#[test]
fn rules_allow_and_deny_and_the_editor_answers_what_they_leave_open() {
    let says: &[&[Value]] = &[
        &[opened(), ask(7, run("frobnicate now"))],
        &[ask(8, run("curl example.org"))],
        &[ask(9, run("unheard-of --now"))],
    ];
    let mut editor = Editor::start("proxy-rules", says);
    editor.open();
    let asked = editor.hear();
    assert_eq!(asked["params"]["toolCall"], run("unheard-of --now"));
    let kinds: Vec<&Value> = asked["params"]["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|it| &it["kind"])
        .collect();
    assert_eq!(kinds, ["allow_once", "reject_once"], "a yes for good goes past the rules");
    editor.say(&json!({ "jsonrpc": "2.0", "id": asked["id"],
        "result": { "outcome": { "outcome": "selected", "optionId": "yes" } } }));
    let log = editor.place.stockade(["audit", "tail", "-n", "50"]).output().expect("the log");
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let heard = editor.heard();
    assert_eq!([7, 8, 9].map(|id| option(&heard, id)), ["yes", "no", "yes"]);
    for command in ["frobnicate now", "curl example.org", "unheard-of --now"] {
        assert!(log.contains(command), "{command}: {log}");
    }
}

#[test]
fn the_log_has_what_was_answered_in_the_editor() {
    let unclear = json!({ "toolCallId": "t", "kind": "delete", "title": "unheard-of four" });
    let says: &[&[Value]] = &[
        &[
            opened(),
            ask(7, run("unheard-of one")),
            ask(8, run("unheard-of two")),
            ask(9, run("unheard-of three")),
            ask(10, unclear),
            ask(11, run("unheard-of five")),
        ],
        &[],
    ];
    let mut editor = Editor::start("proxy-answers", says);
    editor.open();
    let asked: Vec<Value> = (0..5).map(|_| editor.hear()["id"].clone()).collect();
    let selected = |option: &str| json!({ "outcome": "selected", "optionId": option });
    let outcomes = [
        selected("yes"),
        selected("no"),
        json!({ "outcome": "cancelled" }),
        selected("yes"),
        // This option was not shown, and is no answer.
        selected("always"),
    ];
    for (id, outcome) in asked.iter().zip(&outcomes) {
        editor.say(&json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } }));
    }
    // The agent has its answers when they are recorded.
    editor.read(6);
    let answers = editor.answers();
    let said = |words: &str| -> Vec<&str> {
        let fits = answers.iter().filter(|(about, _)| about.contains(words));
        fits.map(|(_, answer)| answer.as_str()).collect()
    };
    for (words, answer) in [
        ("unheard-of one", "allow"),
        ("unheard-of two", "deny"),
        ("unheard-of three", "withdrawn"),
        ("unheard-of four", "allow"),
        ("unheard-of five", "withdrawn"),
    ] {
        assert_eq!(said(words), [answer], "{words}: {answers:?}");
    }
    let heard = editor.heard();
    assert_eq!([7, 8, 10].map(|id| option(&heard, id)), ["yes", "no", "yes"]);
    for id in [9, 11] {
        let answer = heard.iter().find(|it| it["id"] == id).expect("an answer");
        assert_eq!(answer["result"]["outcome"], json!({ "outcome": "cancelled" }));
    }
}

#[test]
fn what_an_agent_leaves_out_or_mixes_up_is_no_reason_to_allow_it() {
    let claim = |call: Value| ask(7, call);
    for call in [
        json!({ "toolCallId": "t", "kind": "execute", "title": "frobnicate now" }),
        json!({ "toolCallId": "t", "kind": "read", "rawInput": { "command": "frobnicate now" } }),
        json!({ "toolCallId": "t", "rawInput": { "command": "frobnicate now" } }),
        json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": ["frobnicate", "now"] } }),
        json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": "frobnicate now", "url": "http://x" } }),
    ] {
        let mut editor = Editor::start("proxy-lies", &[&[opened(), claim(call.clone())]]);
        editor.open();
        assert_eq!(editor.hear()["params"]["toolCall"], call);
        editor.heard();
    }
    let mut editor = Editor::start(
        "proxy-link",
        &[
            &[
                opened(),
                claim(json!({ "toolCallId": "t", "kind": "edit",
        "rawInput": { "file_path": "notes/a" }, "content": [{ "type": "diff", "path": "link/key", "newText": "" }] })),
            ],
            &[],
        ],
    );
    editor.place.write("project/secret/key", "");
    std::os::unix::fs::symlink("secret", editor.place.project().join("link")).expect("a link");
    editor.open();
    // Denied over the link: the agent has its answer, the editor hears nothing but the end.
    editor.read(2);
    assert_eq!(option(&editor.heard(), 7), "no");
}

#[test]
fn files_terminals_and_ids_of_others_are_withheld() {
    let request = |id: u64, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "sessionId": "s" } });
    let says: &[&[Value]] = &[
        &[json!({ "jsonrpc": "2.0", "id": 0, "result": { "protocolVersion": 1 } })],
        &[
            // An answer to nothing, a question of another session, one id twice, and a message that nobody knows.
            json!({ "jsonrpc": "2.0", "id": 44, "result": {} }),
            opened(),
            request(5, "fs/write_text_file"),
            request(6, "terminal/create"),
            request(3, "x/anything"),
            json!({ "jsonrpc": "2.0", "method": "x/told", "params": {} }),
            ask(7, run("unheard-of --one")),
            ask(7, run("unheard-of --two")),
        ],
    ];
    let mut editor = Editor::start("proxy-withheld", says);
    editor.say(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1,
        "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true } } }));
    assert_eq!(editor.hear()["id"], 0);
    editor.open();
    let asked = editor.hear();
    assert_eq!(asked["params"]["toolCall"]["rawInput"]["command"], "unheard-of --one");
    // An answer to a question that was never put, and a cancellation of the one that was.
    editor.say(&json!({ "jsonrpc": "2.0", "id": 99, "result": { "outcome": { "outcome": "selected", "optionId": "yes" } } }));
    editor.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "outcome": { "outcome": "cancelled" } } }));
    let heard = editor.heard();
    let nothing =
        json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
    assert_eq!(heard[0]["params"]["clientCapabilities"], nothing);
    for id in [5, 6, 3] {
        let answer = heard.iter().find(|it| it["id"] == id).expect("an answer");
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    let of_seven: Vec<&Value> = heard.iter().filter(|it| it["id"] == 7).collect();
    assert_eq!(of_seven.len(), 2, "{heard:?}");
    assert_eq!(of_seven[0]["error"]["code"], -32602);
    assert_eq!(of_seven[1]["result"]["outcome"]["outcome"], "cancelled");
    assert!(heard.iter().all(|it| it["id"] != 99), "{heard:?}");
}
