//! `run --pty`: a terminal of the command's own, between it and whoever called.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, found, is_root, skip, stockade};

/// Lets everything run unconfined.
const LET_OUT: &str = r#"{"sandbox": {"enabled": false}, "permissions": {"allow": ["Bash"]}}"#;

/// A gateway at the default place of one test; ended with the test.
struct Gateway(Child);

impl Gateway {
    fn start(place: &Place) -> Gateway {
        let mut child = place.stockade(["serve"]).stdout(Stdio::piped()).spawn().expect("it");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        assert!(line.starts_with("listening on "), "{line}");
        Gateway(child)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes places with a script in the project.
fn place(name: &str, script: &str) -> Place {
    let place = Place::new(name);
    place.write("project/script.sh", script);
    place
}

/// Runs the script of `place` on a terminal, for a caller that has none.
fn run(place: &Place) -> Output {
    place.output(["run", "--quiet", "--pty", "bash script.sh"])
}

/// Runs the script of `place` on a terminal for a caller that pipes `input` into it.
fn fed(place: &Place, input: &str) -> Output {
    let mut command = place.stockade(["run", "--quiet", "--pty", "bash script.sh"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut keys = child.stdin.take().expect("its input");
    keys.write_all(input.as_bytes()).expect("it reads");
    drop(keys);
    child.wait_with_output().expect("it ends")
}

/// Starts `line` of a shell on a terminal, with `$STOCKADE` for the executable; says so where that cannot be done.
fn on_a_terminal(test: &str, place: &Place, line: &str) -> Option<Terminal> {
    let line = line.replace("$STOCKADE", &stockade_tests::stockade_word());
    let terminal = Terminal::start(place, std::path::Path::new("/bin/bash"), &["-c", &line]);
    if terminal.is_none() {
        skip(test, "the program `script`, which gives a terminal, is not installed");
    }
    terminal
}

/// The newest record of `kind`.
fn newest(place: &Place, kind: &str) -> Value {
    let output = place.output(["audit", "tail", "--json", "-n", "1", "--kind", kind]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no {kind}: {output:?}"))
}

/// Prints the terminal properties that a command sees.
const LOOK: &str = "test -t 0 && test -t 1 && test -t 2 && echo all three
stty size
tty
ps -o sid= -p $$ | grep -qx \" *$$\" && echo leads
ps -o tpgid= -p $$ | grep -qx \" *$$\" && echo in front
echo by name >/dev/tty
ls -A /dev/pts | tr '\\n' ' '; echo
exit 7
";

#[test]
fn a_command_has_a_terminal_of_its_own_and_sees_no_other() {
    let place = place("pty", LOOK);
    let expected = "all three\n24 80\n/dev/pts/0\nleads\nin front\nby name\n0 ptmx \n";
    let check = || {
        let output = run(&place);
        assert_eq!(text(&output.stdout), expected.replace('\n', "\r\n"), "{output:?}");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(newest(&place, "decision")["request"]["pty"], true);
    };
    check();
    {
        let _gateway = Gateway::start(&place);
        check();
    }
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
    assert_eq!(place.output(["run", "test -t 1"]).status.code(), Some(1));
    assert_eq!(newest(&place, "decision")["request"]["pty"], false);
}

#[test]
fn a_command_that_is_let_out_has_one_as_well() {
    let place = place("pty-out", LOOK.split("ls -A").next().expect("its beginning"));
    place.write("home/.config/stockade/settings.json", LET_OUT);
    let output = run(&place);
    let seen = text(&output.stdout).replace('\r', "");
    let (begin, name) = ("all three\n24 80\n/dev/pts/", "\nleads\nin front\nby name\n");
    assert!(seen.starts_with(begin) && seen.ends_with(name), "{output:?}");
}

#[test]
fn the_end_of_the_input_is_the_end_for_the_command() {
    let place = place("pty-end", "cat; echo read; exec bash --norc -i");
    // The second reader begins to read keys when the first end is over; without a line end it is told twice.
    for (input, first) in [("", ""), ("one\n", "one\r\n"), ("two", "two")] {
        let output = fed(&place, input);
        let screen = text(&output.stdout);
        // The screen shows typed text and the output of the command.
        assert!(screen.starts_with(&format!("{first}{first}read\r\n")), "{input}: {screen}");
        assert!(screen.ends_with("exit\r\n"), "{input}: {screen}");
        assert_eq!(output.status.code(), Some(0), "{input}: {output:?}");
    }
    // Nobody types.
    assert!(text(&run(&place).stdout).starts_with("read\r\n"));
}

#[test]
fn the_keys_and_the_size_of_the_callers_terminal_are_the_commands() {
    let test = "the_keys_and_the_size_of_the_callers_terminal_are_the_commands";
    let script = "stty size; trap 'stty size' WINCH; trap 'interrupted=yes' INT
read -r line; echo \"read $line\"
until [ -e resized ]; do sleep 0.05; done; echo waiting
until [ \"$interrupted\" ]; do sleep 0.05; done; echo interrupted; read -rsn1 key; echo \"key $key\"; exit 9";
    for serves in [false, true] {
        let place = place("pty-keys", script);
        let _gateway = serves.then(|| Gateway::start(&place));
        // The shell around it changes the size, and looks at what is left of the terminal's modes.
        let line = "exec 5<&0; stty rows 30 cols 100; before=$(stty -g)
(until [ -e ask ]; do sleep 0.05; done; stty rows 40 cols 110 <&5) &
$STOCKADE run --quiet --pty 'bash script.sh'; echo \"status $?\"
test \"$before\" = \"$(stty rows 30 cols 100; stty -g)\" && echo as before";
        let Some(mut terminal) = on_a_terminal(test, &place, line) else { return };
        terminal.wait_for("30 100");
        terminal.press("typed\r");
        terminal.wait_for("read typed");
        place.write("project/ask", "");
        terminal.wait_for("40 110");
        place.write("project/resized", "");
        terminal.wait_for("waiting");
        // Ctrl-C is a key here: neither the gateway nor the shell around it is interrupted.
        terminal.press("\x03");
        terminal.wait_for("interrupted");
        terminal.press("k");
        terminal.wait_for("key k");
        let (_, screen) = terminal.end();
        assert!(screen.contains("status 9") && screen.contains("as before"), "{screen}");
    }
}

#[test]
fn a_question_gets_the_keys_and_the_command_none_of_the_answer() {
    let test = "a_question_gets_the_keys_and_the_command_none_of_the_answer";
    let fetch = "exec 3<>\"/dev/tcp/127.0.0.1/${http_proxy##*:}\"
printf 'CONNECT host.example:443 HTTP/1.1\\r\\nHost: host.example:443\\r\\n\\r\\n' >&3
read -r answer <&3; echo \"answer ${answer:0:12}\"";
    // Output that comes while the question stands is shown behind it, so the question waits for the output looked at before.
    let seen = "until [ -e seen ]; do sleep 0.05; done";
    let script =
        format!("read -r a; echo \"first $a\"\n{seen}\n{fetch}\nread -r b; echo \"second <$b>\"");
    for serves in [false, true] {
        let place = place("pty-question", &script);
        let _gateway = serves.then(|| Gateway::start(&place));
        let line = "$STOCKADE run --pty 'bash script.sh'; stty -a | grep -o ' icanon'";
        let Some(mut terminal) = on_a_terminal(test, &place, line) else { return };
        terminal.press("one\r");
        terminal.wait_for("first one");
        place.write("project/seen", "");
        terminal.wait_for("wants to reach `host.example:443`");
        terminal.wait_for("allow for this run?");
        terminal.press("deny\n");
        terminal.wait_for("answer HTTP/1.1 403");
        terminal.press("two\r");
        terminal.wait_for("second <two>");
        let (_, screen) = terminal.end();
        assert!(screen.contains(" icanon"), "{screen}");
        // A line of stockade stands at the left border while the terminal does nothing of itself.
        assert!(screen.contains("a person denied it"), "{screen}");
    }
}

#[test]
fn a_question_that_is_taken_back_takes_no_key_any_more() {
    let test = "a_question_that_is_taken_back_takes_no_key_any_more";
    let script = "trap 'caught=yes' INT
exec 3<>\"/dev/tcp/127.0.0.1/${http_proxy##*:}\"
printf 'CONNECT host.example:443 HTTP/1.1\\r\\nHost: host.example:443\\r\\n\\r\\n' >&3
until read -r answer <&3; do :; done; until [ \"$caught\" ]; do sleep 0.05; done
echo \"answer ${answer:0:12}\"
for key in 1 2 3; do read -rsn1 key; echo \"key <$key>\"; done; read -r line; echo \"line <$line>\"";
    for serves in [false, true] {
        let place = place("pty-withdrawn", script);
        let _gateway = serves.then(|| Gateway::start(&place));
        let line = "$STOCKADE run --quiet --pty 'bash script.sh'; echo \"status $?\"";
        let Some(mut terminal) = on_a_terminal(test, &place, line) else { return };
        terminal.wait_for("allow for this run?");
        // While a person is asked it is a signal to all in front of the terminal.
        terminal.press("\x03");
        terminal.wait_for("answer HTTP/1.1 403");
        for key in ["a", "b", "c"] {
            terminal.press(key);
            terminal.wait_for(&format!("key <{key}>"));
        }
        terminal.press("yes\r");
        terminal.wait_for("line <yes>");
        let (_, screen) = terminal.end();
        assert!(screen.contains("status 0"), "{serves}: {screen}");
        // The colours of the question end with it, and it is not put again.
        let (_, behind) = screen.split_once("allow for this run?").expect("the question");
        let (question, rest) = behind.split_once("\u{1b}[0m").expect("its end");
        assert!(!question.contains("answer") && !rest.contains("let it"), "{serves}: {screen}");
    }
}

#[test]
fn the_terminal_is_given_back_when_a_signal_would_end_stockade() {
    let test = "the_terminal_is_given_back_when_a_signal_would_end_stockade";
    for (serves, signal) in [
        (false, "TERM"),
        (true, "TERM"),
        (false, "QUIT"),
        (true, "QUIT"),
        (false, "USR1"),
        (true, "ALRM"),
        (true, "RTMIN"),
    ] {
        // A signal that this test ignores stays ignored otherwise; a script's program in the background ignores some.
        let place = place("pty-term", "echo begun; sleep 600");
        let start = format!(
            "echo $$ >pid; exec env --default-signal {} run --quiet --pty 'bash script.sh'\n",
            stockade_tests::stockade_word()
        );
        place.write("project/start.sh", &start);
        let _gateway = serves.then(|| Gateway::start(&place));
        let line = "before=$(stty -g); set -m
(until [ -e now ]; do sleep 0.05; done; kill -s SIGNAL $(cat pid)) &
bash start.sh; echo \"status $?\"
test \"$before\" = \"$(stty -g)\" && echo as before";
        let line = line.replace("SIGNAL", signal);
        let Some(mut terminal) = on_a_terminal(test, &place, &line) else { return };
        terminal.wait_for("begun");
        place.write("project/now", "");
        let (_, screen) = terminal.end();
        let right = screen.contains("status 143") && screen.contains("as before");
        assert!(right, "{signal}, {serves}: {screen}");
        assert_eq!(newest(&place, "result")["interrupted"], true, "{signal}, {serves}");
    }
}

#[test]
fn what_only_reads_elsewhere_is_asked_about_at_a_terminal() {
    let place = Place::new("pty-reads");
    let careful = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    place.write("home/.config/stockade/settings.json", careful);
    // A pager, which git starts at a terminal alone, is a program that the repository names.
    assert_eq!(place.output(["run", "git --version"]).status.code(), Some(0));
    let output = place.output(["run", "--pty", "git --version"]);
    assert_eq!(output.status.code(), Some(121));
    let why = "because at a terminal a read-only command can start a pager or accept input";
    assert!(text(&output.stderr).contains(why), "{output:?}");
}

#[test]
fn nothing_can_be_typed_from_inside() {
    // TIOCSTI, by the descriptor and by name.
    let inject = "perl -e '$c = \"x\"; open(T, \"+<\", \"/dev/tty\") or die; \
        print ioctl(STDIN, 0x5412, $c) || ioctl(T, 0x5412, $c) ? \"typed\" : \"refused\"'";
    let place = place("pty-inject", inject);
    if is_root() {
        // As root the kernel itself lets it be done.
        place.write("home/.config/stockade/settings.json", LET_OUT);
        assert!(text(&run(&place).stdout).contains("typed"));
        place.write("home/.config/stockade/settings.json", "{}");
    }
    let output = run(&place);
    assert_eq!(text(&output.stdout), "refused", "{output:?}");
}

#[test]
fn nothing_outlives_the_command_through_its_terminal() {
    let script = "(trap '' HUP TERM INT; echo $BASHPID >pid; sleep 600) & (trap '' HUP; exec setsid sleep 601) &
until [ -e pid ]; do sleep 0.01; done; echo over";
    let place = place("pty-left", script);
    for settings in ["{}", LET_OUT] {
        place.write("home/.config/stockade/settings.json", settings);
        let _ = std::fs::remove_file(place.project().join("pid")); // of the round before
        let output = run(&place);
        assert_eq!(text(&output.stdout), "over\r\n", "{output:?}");
        let left = Command::new("pgrep").args(["-f", "^sleep 60[01]$"]).output().expect("pgrep");
        let own = text(&left.stdout);
        let is_own = |pid: &&str| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == place.project())
        };
        assert_eq!(own.lines().find(is_own), None, "{settings}");
    }
}

#[test]
fn a_terminal_that_nobody_reads_or_feeds_holds_nothing_up() {
    // The command neither reads what is typed nor minds that nobody reads what it writes.
    let place = place("pty-flood", "while :; do echo 0123456789; done");
    let limited = ["run", "--quiet", "--pty", "--timeout", "1s", "bash script.sh"];
    let mut command = place.stockade(limited);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
    let mut keys = child.stdin.take().expect("its input");
    let typing = std::thread::spawn(move || while keys.write_all(&[b'x'; 4096]).is_ok() {});
    let mut stdout = child.stdout.take().expect("its output");
    stdout.read_exact(&mut [0; 100]).expect("its output");
    // Until the time limit nobody reads on.
    let record = || {
        let output = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "result"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()
    };
    assert_eq!(found("its record", record)["timed_out"], true);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("its output");
    assert_eq!(child.wait().expect("it ends").code(), Some(124));
    typing.join().expect("it ends");
}

#[test]
fn without_a_free_terminal_nothing_runs() {
    let test = "without_a_free_terminal_nothing_runs";
    if !is_root() {
        return skip(test, "only root can have a `devpts` with one terminal");
    }
    let place = place("pty-none", "touch made.txt");
    place.write("home/.config/stockade/settings.json", LET_OUT);
    let line = "mount -t devpts -o newinstance,ptmxmode=0666,max=1 devpts /dev/pts || exit 99
        \"$0\" run --pty 'touch made.txt' || exit 98; rm made.txt
        exec 3<>/dev/ptmx || exit 97
        exec \"$0\" run --pty 'touch made.txt'";
    let plain = place.stockade([""; 0]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", line]).arg(stockade());
    command.current_dir(place.project()).env_clear();
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = command.stdin(Stdio::null()).output().expect("unshare");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(122), "{said}");
    let first =
        "stockade: no terminal is free: all terminals of the kernel are in use; nothing was run\n";
    assert!(said.starts_with(first), "{said}");
    assert!(said.contains("\n  try: ") || said.contains("\ntry: "), "{said}");
    assert!(!place.project().join("made.txt").exists());
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn another_front_end_asks_for_a_terminal_over_the_socket() {
    let place =
        place("pty-socket", "stty size; read -r line; echo \"$line\"; read -r line; stty size");
    let _gateway = Gateway::start(&place);
    let socket = place.root.join("runtime/stockade/gateway.sock");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let cwd = place.project().canonicalize().expect("the project");
    let environment = [
        ("HOME", place.home()),
        ("XDG_STATE_HOME", place.root.join("state")),
        ("PATH", "/usr/bin:/bin".into()),
    ];
    let mut say = |message: Value| writeln!(stream, "{message}").expect("it reads");
    say(json!({"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {"protocol": 1}}));
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "run", "params": {
        "command": {"shell": "bash script.sh"}, "cwd": cwd, "timeout_ms": 60_000, "background": false,
        "pty": true, "window": {"rows": 12, "columns": 34}, "description": null, "unsandboxed": false,
        "stdin": true, "context": {"settings": [], "setting_sources": null, "mode": null,
        "allowed_tools": [], "disallowed_tools": [], "import": [], "additional_directories": [],
        "project": null, "profile": null, "session": null, "interactive": false,
        "environment": environment, "door": "socket", "agent": null}}}));
    let (mut begun, mut screen) = (false, String::new());
    let (mut typed, mut resized) = (false, false);
    let result = loop {
        let message: Value =
            serde_json::from_str(&lines.next().expect("more").expect("a line")).expect("JSON");
        let event = &message["params"]["event"];
        if message["id"] == 1 {
            break message["result"]["ran"].clone();
        }
        begun |= event == "terminal";
        if let Some(bytes) = event["output"]["bytes"].as_str() {
            assert!(begun, "output before the terminal");
            screen.push_str(&decoded(bytes));
        }
        // Ctrl-D at the beginning of a line would end it; `aGkK` is `hi` and a line feed.
        if screen.contains("12 34") && !typed {
            typed = true;
            say(
                json!({"jsonrpc": "2.0", "method": "stdin", "params": {"run": 1, "input": {"stdin": "aGkK"}}}),
            );
        }
        if screen.contains("hi\r\nhi\r\n") && !resized {
            resized = true;
            let control = json!({"resize": {"rows": 21, "columns": 43}});
            say(
                json!({"jsonrpc": "2.0", "method": "control", "params": {"run": 1, "control": control}}),
            );
            say(
                json!({"jsonrpc": "2.0", "method": "stdin", "params": {"run": 1, "input": "stdin_end"}}),
            );
        }
    };
    assert_eq!(screen, "12 34\r\nhi\r\nhi\r\n21 43\r\n");
    assert_eq!((&result["exit_code"], &result["output"]), (&json!(0), &json!(screen)));
}

/// Reads base64 (RFC 4648).
fn decoded(text: &str) -> String {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let whole = |part: &[u8]| {
        let number = part.iter().fold(0_u32, |sum, digit| (sum << 6) | u32::from(*digit));
        let [_, bytes @ ..] = (number << (6 * (4 - part.len()))).to_be_bytes();
        bytes.into_iter().take(part.len() - 1).collect::<Vec<u8>>()
    };
    text_of(digits.chunks(4).flat_map(whole).collect())
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}
