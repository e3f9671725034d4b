//! The executable as people and programs use it: exit statuses, words, bad input.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::{Place, stockade};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn first_line(output: &Output) -> String {
    text(&output.stderr).lines().next().unwrap_or_default().to_owned()
}

/// Asserts exit status and the beginning of the first line on standard error.
fn check(output: &Output, status: i32, begins: &str) {
    let line = first_line(output);
    assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
    assert!(line.starts_with(begins), "`{line}` does not begin with `{begins}`");
}

/// Sends signal `name` to `pid`.
fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.expect("kill starts").success());
}

#[test]
fn exit_statuses_are_those_of_the_command_and_of_the_gate() {
    let place = Place::new("statuses");
    place.write(
        "project/.stockade/settings.json",
        r#"{"permissions": {"deny": ["Bash(curl:*)"], "ask": ["Bash(git push:*)"]}}"#,
    );
    check(&place.output(["run", "true"]), 0, "");
    check(&place.output(["run", "exit 7"]), 7, "");
    check(&place.output(["run", "exit 255"]), 255, "");
    check(&place.output(["run", "kill -TERM $$"]), 128 + 15, "");
    check(&place.output(["run", "no-such-program-here"]), 127, "");
    check(&place.output(["run", "curl example.com"]), 120, "stockade: denied `curl example.com`");
    check(&place.output(["run", "git push"]), 121, "stockade: needs a person: `git push`");
    check(&place.output(["run", "--timeout", "300ms", "sleep 20"]), 124, "stockade: timed out");
    check(&place.output(["check", "echo"]), 0, "stockade: allowed `echo`");
    check(&place.output(["check", "curl x"]), 120, "stockade: denied `curl x`");
    check(&place.output(["check", "git push"]), 121, "stockade: needs a person: `git push`");
}

#[test]
fn a_denial_names_part_rule_file_and_line() {
    let place = Place::new("words");
    place.write(
        "project/.stockade/settings.json",
        "{\n \"permissions\": {\n  \"deny\": [\"Bash(curl:*)\"]\n }\n}\n",
    );
    let output = place.output(["run", "cat notes | curl -T - example.com"]);
    let lines: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    assert_eq!(
        lines.get(..2),
        Some(
            &[
                "stockade: denied `curl -T - example.com` (second part of a pipeline)".to_owned(),
                "  by deny rule `Bash(curl:*)` in .stockade/settings.json:3".to_owned(),
            ][..]
        ),
        "{lines:?}"
    );
}

#[test]
fn one_operand_is_shell_text_and_several_are_words() {
    let place = Place::new("operands");
    let out = |arguments: &[&str]| text(&place.output(arguments).stdout);
    assert_eq!(out(&["run", "printf '%s.' a  b"]), "a.b.");
    assert_eq!(out(&["run", "printf", "%s.", "a  b", "$HOME", "*"]), "a  b.$HOME.*.");
    assert_eq!(out(&["run", "--", "printf", "%s.", "--", "--json"]), "--.--json.");
    assert_eq!(out(&["run", "printf", "%s.", "--quiet"]), "--quiet.");
}

#[test]
fn a_lone_dash_reads_the_text_from_standard_input() {
    let place = Place::new("dash");
    let mut command = place.stockade(["run", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(b"echo one\necho two\n").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "one\ntwo\n".to_owned()));
}

#[test]
fn options_stand_before_or_after_the_subcommand() {
    let place = Place::new("options");
    let deny = r#"{"permissions": {"deny": ["Bash(ls:*)"]}}"#;
    let other = r#"{"permissions": {"deny": ["Bash(cat:*)"]}}"#;
    check(&place.output(["--settings", deny, "check", "ls"]), 120, "stockade: denied `ls`");
    check(&place.output(["check", "--settings", deny, "ls"]), 120, "stockade: denied `ls`");
    // Options in both places are joined, never dropped.
    for command in ["ls", "cat x"] {
        let output = place.output(["--settings", deny, "check", "--settings", other, command]);
        check(&output, 120, "stockade: denied");
    }
    check(
        &place.output(["--cwd", "/", "check", "--cwd", "/tmp", "ls"]),
        122,
        "stockade: duplicate `--cwd`: before and after the subcommand",
    );
}

#[test]
fn a_misspelt_option_gets_one_fix() {
    let output = Place::new("misspelt").output(["run", "--hlep"]);
    let told = "stockade: unexpected argument '--hlep' found\n  try: a similar argument exists: '--help'\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(122), told));
}

#[test]
fn bad_arguments_are_122_with_one_clear_first_line() {
    let place = Place::new("bad");
    let cases: [(&[&str], &str); 13] = [
        (&[], "stockade: missing subcommand"),
        (&["run"], "stockade: the following required arguments were not provided:"),
        (&["run", "--bogus", "ls"], "stockade: unexpected argument '--bogus' found"),
        (&["bogus"], "stockade: unrecognized subcommand 'bogus'"),
        (
            &["run", "--timeout", "soon", "ls"],
            "stockade: invalid value 'soon' for '--timeout <TIME>'",
        ),
        (&["run", "--timeout", "0", "ls"], "stockade: invalid value '0' for '--timeout <TIME>'"),
        (&["run", "--permission-mode", "wild", "ls"], "stockade: invalid value 'wild'"),
        (
            &["run", "--cwd", "/nonexistent", "ls"],
            "stockade: the directory `/nonexistent` cannot be used",
        ),
        (
            &["check", "--tool", "Read", "--input", "[1]"],
            "stockade: invalid `--input`: not a JSON object",
        ),
        (
            &["check", "--tool", "Read"],
            "stockade: the following required arguments were not provided:",
        ),
        (
            &["check", "--setting-sources", "user,policy", "ls"],
            "stockade: invalid layer `policy` in `--setting-sources`",
        ),
        (&["check", "--jsonl", "ls"], "stockade: the argument '--jsonl' cannot be used with"),
        (&["man", "nothing"], "stockade: unknown subcommand `nothing`"),
    ];
    for (arguments, begins) in cases {
        check(&place.output(arguments), 122, begins);
    }
}

#[test]
fn arguments_that_are_not_utf8_are_named() {
    let place = Place::new("utf8");
    let bad = OsString::from_vec(b"echo \xff\x1b[2J".to_vec());
    let output = place.output([OsString::from("run"), bad]);
    check(&output, 122, "stockade: argument 2 is not UTF-8: `echo \u{fffd}\\u{1b}[2J`");
}

#[test]
fn each_subcommand_has_help_with_an_example() {
    let place = Place::new("help");
    // The help of `agent` comes from the executable beside.
    stockade_tests::executable("stockade-agent");
    let all = text(&place.output(["--help"]).stdout);
    let names: Vec<&str> = all
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"run") && names.contains(&"check"), "{names:?}");
    for name in names {
        let output = place.output([name, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let help = text(&output.stdout);
        let example = help.lines().skip_while(|line| !line.starts_with("Example")).nth(1);
        assert!(example.is_some_and(|line| line.starts_with("  ")), "{name} has no example");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}");
    }
}

#[test]
fn completions_and_manual_pages_come_from_the_same_definition() {
    let place = Place::new("pages");
    for shell in ["bash", "zsh", "fish"] {
        let output = place.output(["completions", shell]);
        assert!(
            output.status.success() && text(&output.stdout).contains("permission-mode"),
            "{shell}"
        );
    }
    assert!(text(&place.output(["man"]).stdout).contains(".TH stockade 1"));
    let page = text(&place.output(["man", "run"]).stdout);
    for part in ["timeout", ".SH \"EXIT STATUS\"", ".SH FILES", "managed\\-settings.json"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("`stockade run`"), "{page}");
    let bash = text(&place.output(["completions", "bash"]).stdout);
    for offered in ["claude codex gemini", "NotebookEdit", "Bash(git:*)"] {
        assert!(bash.contains(offered), "{offered}");
    }
    assert!(text(&place.output(["man", "--list"]).stdout).starts_with("run\ncheck\n"));
}

#[test]
fn the_object_of_run_has_exactly_the_documented_members() {
    let place = Place::new("object");
    let members = [
        "decision",
        "reason",
        "rules",
        "exit_code",
        "signal",
        "timed_out",
        "interrupted",
        "duration_ms",
        "output",
        "output_bytes",
        "output_lines",
        "spill_path",
        "truncated",
        "task_id",
        "cwd_after",
        "sandbox",
        "violations",
        "left_running",
        "audit",
    ];
    let output = place.output(["run", "--json", "echo out; echo err >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let keys: Vec<&str> =
        object.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, members);
    assert_eq!((&object["decision"], &object["exit_code"]), (&json!("allow"), &json!(3)));
    assert_eq!((&object["output_bytes"], &object["output_lines"]), (&json!(8), &json!(2)));
    assert!(object["audit"]["sequence"].is_u64());
    let deny = r#"{"permissions": {"deny": ["Bash(ls:*)"]}}"#;
    let output = place.output(["run", "--json", "--settings", deny, "ls"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let keys: Vec<&str> =
        object.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, members);
    assert_eq!((&object["decision"], &object["exit_code"]), (&json!("deny"), &Value::Null));
}

#[test]
fn written_cases_are_answered_in_order() {
    let place = Place::new("cases");
    let case = |command: &str, deny: &[&str]| {
        json!({"layers": {"user": {"permissions": {"allow": ["Bash(gentool:*)"], "deny": deny}}, "project": {},
            "local": {}, "flag": {}, "policy": {}}, "mode": "default", "cwd": "/p", "home": "/h",
            "tool": "Bash", "input": {"command": command}})
    };
    let lines = format!(
        "{}\n{}\n\n{}\n",
        case("gentool x", &[]),
        case("gentool x && othertool", &[]),
        case("gentool x | gentool y", &["Bash(gentool y)"]),
    );
    let mut command = place.stockade(["check", "--jsonl"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let answers: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let decided: Vec<(&str, Option<&str>)> = answers
        .iter()
        .map(|answer| (answer["decision"].as_str().unwrap_or_default(), answer["rule"].as_str()))
        .collect();
    assert_eq!(
        decided,
        [("allow", Some("Bash(gentool:*)")), ("ask", None), ("deny", Some("Bash(gentool y)"))]
    );
    let keys: Vec<&str> =
        answers[0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "decision",
            "rule",
            "source",
            "file",
            "line",
            "column",
            "commands",
            "reason",
            "settings_sha256",
            "input"
        ]
    );
}

#[test]
fn a_line_that_is_no_case_is_refused_and_keeps_its_place() {
    let place = Place::new("no-case");
    let mut command = place.stockade(["check", "--jsonl"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines =
        b"{\"tool\":\"Bash\"}\nnonsense\n{\"tool\":\"Bash\",\"tool\":\"Read\",\"input\":{}}\n";
    child.stdin.take().expect("its input").write_all(lines).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    check(&output, 122, "stockade: line 1: invalid case");
    let answers: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let decisions: Vec<&Value> = answers.iter().map(|answer| &answer["decision"]).collect();
    assert_eq!(decisions, ["deny", "deny", "deny"]);
}

#[test]
fn texts_are_parsed_line_by_line() {
    let place = Place::new("parse");
    let mut command = place.stockade(["parse", "--jsonl"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its output"));
    // An answer comes before the next line is offered.
    for (line, expected) in [
        (
            json!({"id": 1, "command": "git log --oneline > out.txt"}),
            json!({"id": 1, "commands": [{"argv": ["git", "log", "--oneline"], "dynamic": false, "via": [],
                "span": [0, 27]}], "writes": ["out.txt"], "reads": [], "dynamic": false, "error": null}),
        ),
        (
            json!({"id": "b", "command": "timeout 9 cat $x"}),
            json!({"id": "b", "commands": [
                {"argv": ["timeout", "9", "cat", null], "dynamic": false, "via": [], "span": [0, 16]},
                {"argv": ["cat", null], "dynamic": false, "via": ["timeout"], "span": [10, 16]}],
                "writes": [], "reads": [], "dynamic": false, "error": null}),
        ),
    ] {
        writeln!(stdin, "{line}").expect("it reads");
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut answer).expect("an answer");
        assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), expected);
    }
    drop(stdin);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn each_part_that_is_not_understood_is_told_with_what_where_and_what_to_write() {
    let place = Place::new("unknown");
    let output = place.output(["parse", "--json", "ls; . ./x.sh > y"]);
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(answer["dynamic"], json!(true));
    assert_eq!(
        answer["unknown"],
        json!([{
            "code": "script-file",
            "reason": "the program text is in a file",
            "detail": "",
            "span": [6, 12],
            "help": "write its commands out, or run the file with bash in a text that writes nothing before",
        }])
    );
    // Every reason has such an advice, in a stream as well as alone.
    for broken in ["echo 'a", "a=b . x", "$x", "cat <(", "bash -ic ls", "${!x}"] {
        let output = place.output(["parse", "--json", broken]);
        let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        let unknown = answer["unknown"].as_array().expect("a list");
        assert!(!unknown.is_empty(), "{broken}: {answer}");
        for part in unknown {
            let told = |name: &str| part[name].as_str().is_some_and(|text| !text.is_empty());
            assert!(told("code") && told("reason") && told("help"), "{broken}: {part}");
            assert_eq!(part["span"].as_array().map(Vec::len), Some(2), "{broken}: {part}");
        }
    }
}

/// A stream of texts: several batches, with bad lines among them.
fn stream(lines: usize) -> String {
    let mut text = String::new();
    for number in 0..lines {
        match number {
            10 => text.push_str("no JSON\n"),
            700 => text.push_str("{\"id\": 700}\n"),
            900 => text.push_str("{\"id\": 900, \"command\": \"a \\ud800\"}\n"),
            1200 => text.push_str(&format!("\"{}\"\n", "a".repeat(9 << 20))),
            _ => text.push_str(&format!(
                "{}\n",
                json!({"id": number, "command": format!("run {number} | b")})
            )),
        }
    }
    text
}

#[test]
fn a_stream_of_texts_keeps_its_order_past_bad_lines_with_one_worker() {
    const LINES: usize = 2_000;
    let place = Place::new("stream");
    let trace = place.home().join("trace");
    // strace counts the starts of the worker from outside; without it the rest is tested all the same.
    let traced = std::process::Command::new("strace").arg("-V").output().is_ok();
    let mut command = if traced {
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&trace).arg(stockade());
        command.args(["parse", "--jsonl"]);
        command
    } else {
        stockade_tests::skip("the starts of the worker", "strace is not installed");
        place.stockade(["parse", "--jsonl"])
    };
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || stdin.write_all(stream(LINES).as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer").expect("it reads everything");
    assert_eq!(output.status.code(), Some(122));
    let answers: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), LINES);
    for (number, answer) in answers.iter().enumerate() {
        let seen = (&answer["id"], &answer["dynamic"], answer["commands"].as_array().map(Vec::len));
        match number {
            10 | 1200 => assert_eq!(seen, (&Value::Null, &json!(true), Some(0)), "{number}"),
            700 | 900 => assert_eq!(seen, (&json!(number), &json!(true), Some(0)), "{number}"),
            _ => assert_eq!(seen, (&json!(number), &json!(false), Some(2)), "{number}"),
        }
    }
    if traced {
        let trace = std::fs::read_to_string(trace).expect("the trace");
        let starts = trace.lines().filter(|line| line.contains("\"scan\"]")).count();
        assert_eq!(starts, 1, "{trace}");
    }
}

#[test]
fn what_could_deceive_a_reader_is_written_out() {
    let place = Place::new("escape");
    let output = place.output(["check", "frob '\u{202e}\u{1b}[2J'"]);
    let seen = text(&output.stderr);
    assert!(seen.contains("\\u{202e}\\u{1b}[2J"), "{seen}");
    assert!(!seen.contains('\u{202e}') && !seen.contains('\u{1b}'), "{seen}");
    let output = place.output(["parse", "frob '\u{202e}\u{1b}[2J'"]);
    let seen = text(&output.stdout);
    assert!(seen.contains("\\u{202e}\\u{1b}[2J"), "{seen}");
    assert!(!seen.contains('\u{202e}') && !seen.contains('\u{1b}'), "{seen}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_and_not_the_record() {
    let place = Place::new("pipe");
    let mut command = place.stockade(["run", "yes"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("its output");
    let mut some = [0; 4];
    stdout.read_exact(&mut some).expect("its output");
    drop(stdout);
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 13));
    last_record_is_a_result(&place);
}

#[test]
fn ctrl_c_reaches_the_command_and_the_record_is_written() {
    let place = Place::new("interrupt");
    let mut command =
        place.stockade(["run", "trap 'echo caught; exit 9' INT; echo ready; sleep 60 & wait"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("its output");
    assert_eq!(line, "ready\n");
    signal(child.id(), "INT");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("its output");
    assert_eq!((child.wait().expect("it ends").code(), rest.as_str()), (Some(9), "caught\n"));
    last_record_is_a_result(&place);
}

#[test]
fn a_signal_to_the_gate_ends_everything_that_was_started_and_records_it() {
    for (name, status) in [("TERM", 143), ("HUP", 143)] {
        let place = Place::new("signal");
        let line = "setsid sh -c 'sleep 600; touch survived.txt' & echo begun; sleep 600";
        let mut command = place.stockade(["run", "--no-daemon", line]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut seen = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut seen).expect("a line");
        signal(child.id(), name);
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{name}");
        last_record_is_a_result(&place);
        assert!(!place.project().join("survived.txt").exists());
    }
}

/// Asserts that the newest record is the result of a command, and that the log holds.
fn last_record_is_a_result(place: &Place) {
    let tail = place.output(["audit", "tail", "--json", "-n", "1"]);
    let record: Value = serde_json::from_slice(&tail.stdout).expect("one record");
    assert_eq!(record["kind"], "result", "{record}");
    check(&place.output(["audit", "verify"]), 0, "");
}

#[test]
fn broken_settings_stop_everything_with_file_line_and_column() {
    let place = Place::new("broken");
    place.write("project/.stockade/settings.json", "{\n  \"permissions\": {,}\n}");
    let output = place.output(["run", "true"]);
    check(&output, 122, "stockade: ");
    assert!(
        text(&output.stderr).contains(".stockade/settings.json:2:"),
        "{}",
        text(&output.stderr)
    );
    check(&place.output(["run", "--settings", "{", "true"]), 122, "stockade: ");
    check(&place.output(["run", "--settings", "missing.json", "true"]), 122, "stockade: ");
    let other = Place::new("folder");
    std::fs::create_dir_all(other.project().join(".stockade/settings.json")).expect("a folder");
    check(&other.output(["run", "true"]), 122, "stockade: ");
}

#[test]
fn a_state_that_cannot_be_written_stops_everything() {
    let place = Place::new("state");
    place.write("file", "");
    let output = place.output(["run", "--state-dir", "../file/state", "true"]);
    check(&output, 122, "stockade: ");
    assert!(text(&output.stderr).contains("--state-dir"), "{}", text(&output.stderr));
}

#[test]
fn empty_commands_and_nul_bytes_are_refused() {
    let place = Place::new("empty");
    check(&place.output(["run", ""]), 122, "stockade: the command is empty");
    check(&place.output(["run", " \n"]), 122, "stockade: the command is empty");
    check(&place.output(["run", "", "x"]), 122, "stockade: the command has no program");
}

#[test]
fn the_agent_shows_what_run_shows_when_nobody_watches() {
    let place = Place::new("agent");
    stockade_tests::executable("stockade-agent");
    let run = place.output(["run", "echo out; echo err >&2; exit 5"]);
    let agent = place.output(["agent", "run", "echo out; echo err >&2; exit 5"]);
    assert_eq!((agent.status.code(), agent.stdout), (run.status.code(), run.stdout));
    assert_eq!(text(&agent.stderr), text(&run.stderr));
    place.write("input", "one\ntwo\n");
    let mut command = place.stockade(["agent", "run", "--", "cat", "-"]);
    command.stdin(std::fs::File::open(place.root.join("input")).expect("a file"));
    assert_eq!(text(&command.output().expect("it starts").stdout), "one\ntwo\n");
}

#[test]
fn an_executable_that_nobody_can_write_is_enough() {
    // The executable needs nothing beside it: a copy alone runs.
    let place = Place::new("copy");
    let copy = place.root.join("stockade");
    stockade_tests::copy_program(stockade(), &copy);
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o555)).expect("its mode");
    let output = Command::new(&copy)
        .args(["run", "echo alone"])
        .current_dir(place.project())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", place.home())
        .output()
        .expect("it starts");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "alone\n".to_owned()));
}
