//! A program in the place of the agent claims what its host never said: the gateway believes the host alone.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stockade_model_server::Form;
use stockade_tests::{Place, copy_program, executable, write_program};

use super::{SECRET, say, script};

/// Speaks to gateway and host as the agent would. Its first argument of each act is what it tries; the outcome is a frame.
const TAKEN: &str = r#"
import json, os, socket, sys
place = os.environ["STOCKADE_AGENT_PLACE"]
cwd = json.load(open(place + "/" + [n for n in os.listdir(place) if n.endswith(".json")][0]))["setup"]["cwd"]
DEFAULT = json.loads(CONTEXT)
way = socket.socket(socket.AF_UNIX)
way.connect(place + "/gateway.sock")
lines = way.makefile("rw")
count = 0

def put(frame):
    lines.write(json.dumps(dict({"jsonrpc": "2.0"}, **frame)) + "\n")
    lines.flush()

def tell(frame):
    print(json.dumps(frame), flush=True)

def ask(number, command, call):
    tell({"type": "control_request", "request_id": "q%d" % number, "request": {"subtype": "can_use_tool",
        "tool_name": "Bash", "tool_use_id": call, "input": {"command": command}}})
    return json.loads(sys.stdin.readline())

def run(name, command, call, says=None, context={}):
    global count
    count += 1
    what = {"tool": {"name": "Write", "input": {"file_path": command[6:], "content": "x"}}}
    what = what if command.startswith("write ") else {"shell": command}
    put({"id": count, "method": "run", "params": {"command": what, "cwd": cwd, "call_id": call,
        "timeout_ms": 60000, "background": False, "pty": False, "description": None, "unsandboxed": False, "stdin": False,
        "context": dict(DEFAULT, interactive=True, door="agent", **context)}})
    while True:
        frame = json.loads(lines.readline())
        if frame.get("method") == "question":
            put({"id": frame["id"], "result": says or "deny"})
        elif frame.get("id") == count and "method" not in frame:
            return tell({"type": "ended", "name": name, "told": json.dumps(frame)[:400]})

put({"id": 0, "method": "hello", "params": {"protocol": PROTOCOL, "version": "RELEASE"}})
lines.readline()
run("claimed", "touch claimed", "a", "once")
ask(1, "echo harmless", "b")
run("another command", "touch another", "b", "once")
run("another call", "touch shown", "c", "once")
ask(2, "touch shown", "d")
run("agreed", "touch shown", "d", "once")
run("twice", "touch shown", "d", "once")
rules = {"settings": [json.dumps({"permissions": {"allow": ["Write"]}})]}
run("a rule", "write ruled", "e", None, rules)
run("a mode", "write moded", "f", None, {"mode": "acceptEdits"})
run("all modes", "write bypassed", "g", None, {"mode": "bypassPermissions"})
run("a directory", "write /ELSEWHERE/placed", "h", None, {"additional_directories": ["/ELSEWHERE"]})
tell({"type": "result"})
"#;

#[test]
fn i4_an_agent_that_was_taken_over_widens_nothing_on_its_own_word() {
    let place = Place::new("ag-claims");
    if !std::path::Path::new("/usr/bin/python3").exists() {
        println!(
            "skipped: claims: there is no /usr/bin/python3 to speak in the place of the agent"
        );
        return;
    }
    let elsewhere = place.root.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    let rules =
        json!({ "permissions": { "ask": ["Bash(touch:*)"] }, "sandbox": { "enabled": true } });
    place.write("home/.config/stockade/settings.json", &rules.to_string());
    let context =
        serde_json::to_string(&stockade::protocol::types::Context::default()).expect("JSON");
    let taken = TAKEN
        .replace("/ELSEWHERE", &elsewhere.display().to_string())
        .replace("PROTOCOL", "1")
        .replace("RELEASE", env!("CARGO_PKG_VERSION"))
        .replace("CONTEXT", &format!("'{context}'"));
    let (own, agent) = (place.root.join("bin/stockade"), place.root.join("bin/stockade-agent"));
    let real = executable("stockade-agent");
    let program = format!(
        "#!/bin/bash\ncase $1 in\nkeep) exec '{}' \"$@\";;\nesac\nexec /usr/bin/python3 -I -c \"$(cat <<'PROGRAM'\n{taken}\nPROGRAM\n)\"\n",
        real.display()
    );
    write_program(&agent, &program);
    copy_program(stockade_tests::stockade(), &own);
    let server = script(Form::Anthropic, &[&[say("nobody asks")]]);
    let usual = place.stockade(["agent"]);
    let mut command = Command::new(own);
    command.args(["agent", "--input-format", "stream-json", "--output-format", "stream-json"]);
    command.args(["--verbose", "--permission-prompt-tool", "stdio"]).current_dir(place.project());
    command.env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", SECRET);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut host = child.stdin.take().expect("its input");
    let mut ended: Vec<(String, String)> = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        let frame: Value = serde_json::from_str(&line.expect("a line")).expect("a frame");
        if frame["type"] == "control_request" {
            // The host says yes to whatever it is shown.
            let response = json!({ "subtype": "success", "request_id": frame["request_id"], "response": { "behavior": "allow" } });
            let answer = json!({ "type": "control_response", "response": response });
            writeln!(host, "{answer}").expect("a line");
        }
        if frame["type"] == "ended" {
            let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
            ended.push((text("name"), text("told")));
        }
    }
    drop(host);
    child.wait().expect("an end");
    let there = |name: &str| place.project().join(name).exists();
    let files = ["claimed", "another", "shown", "ruled", "moded", "bypassed"].map(there);
    assert_eq!(files, [false, false, true, false, false, false], "{ended:?}");
    assert!(!elsewhere.join("placed").exists());
    let refused = ended.iter().filter(|(_, told)| told.contains("has no right to do this"));
    let refused: Vec<&str> = refused.map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, ["a rule", "a mode", "all modes", "a directory"], "{ended:?}");
    let ran = |told: &str| told.contains("\"ran\"");
    let names: Vec<&str> =
        ended.iter().filter(|(_, told)| ran(told)).map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, ended.len()), (vec!["agreed"], 9), "{ended:?}");
}
