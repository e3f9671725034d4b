//! `run` and `shell` through a running gateway: streams, signals, statuses and questions are those of the command.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, executable, found, skip, stockade, until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Status, standard output and standard error.
fn seen(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill").success());
}

/// The newest record; null when there is none.
fn newest(place: &Place) -> Value {
    let output = place.output(["audit", "tail", "--json", "-n", "1"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Takes the connection of a client, which comes within a minute.
fn accepted(listener: &UnixListener) -> UnixStream {
    listener.set_nonblocking(true).expect("a mode");
    let (stream, _) = found("a client connects", || listener.accept().ok());
    stream.set_nonblocking(false).expect("a mode");
    stream
}

/// Reads lines until one is `last`.
fn read_to(lines: &mut impl std::io::BufRead, last: &str) {
    let mut line = String::new();
    while line.trim_end() != last {
        line.clear();
        assert!(lines.read_line(&mut line).expect("its output") > 0, "`{last}` never came");
    }
}

#[test]
fn statuses_and_streams_are_those_of_the_command() {
    let place = Place::new("client-status");
    let _gateway = Gateway::start(&place);
    for (line, status, stdout, stderr) in [
        ("true", 0, "", ""),
        ("exit 7", 7, "", ""),
        ("echo out; echo err >&2; exit 3", 3, "out\n", "err\n"),
        ("kill -9 $$", 137, "", ""),
        ("printf 'a\\000\\377'", 0, "a\0\u{fffd}", ""),
    ] {
        for arguments in [["shell", "-c", line], ["run", "--quiet", line]] {
            let output = place.output(arguments);
            let expected = (Some(status), stdout.to_owned(), stderr.to_owned());
            assert_eq!(seen(&output), expected, "{arguments:?}");
        }
    }
    place.write(
        "home/.config/stockade/settings.json",
        r#"{"permissions": {"deny": ["Bash(rm:*)"]}}"#,
    );
    for arguments in [["shell", "-c", "rm x"], ["run", "--", "rm x"]] {
        let (status, stdout, stderr) = seen(&place.output(arguments));
        assert_eq!((status, stdout.as_str()), (Some(120), ""), "{stderr}");
        assert!(stderr.starts_with("stockade: denied"), "{stderr}");
    }
    let object: Value =
        serde_json::from_slice(&place.output(["run", "--json", "echo x"]).stdout).expect("JSON");
    assert_eq!((&object["exit_code"], &object["output"]), (&0.into(), &"x\n".into()));
    // All of it came from the one gateway.
    let segments = place.output(["audit", "search", "--json", "--kind", "segment"]).stdout;
    assert_eq!(text(&segments).lines().count(), 1);
}

/// Each kind of descriptor from which `bytes` can be read, with its name.
fn sources(place: &Place, bytes: &[u8]) -> Vec<(&'static str, Stdio)> {
    let written = |mut to: Box<dyn std::io::Write + Send>| {
        let bytes = bytes.to_vec();
        // The thread ends when all is taken or the reader is gone.
        std::thread::spawn(move || to.write_all(&bytes));
    };
    let (pipe, end) = std::io::pipe().expect("a pipe");
    written(Box::new(end));
    let (socket, end) = UnixStream::pair().expect("sockets");
    written(Box::new(end));
    let path = place.root.join("input");
    std::fs::write(&path, bytes).expect("a file");
    let file = File::open(path).expect("the file");
    vec![("pipe", pipe.into()), ("socket", OwnedFd::from(socket).into()), ("file", file.into())]
}

#[test]
fn input_and_output_pass_through_every_kind_of_descriptor() {
    let place = Place::new("client-streams");
    let _gateway = Gateway::start(&place);
    let bytes: Vec<u8> = (0..3_u32 << 18).map(|at| (at % 251) as u8).collect();
    for (name, stdin) in sources(&place, &bytes) {
        let mut child = place.stockade(["shell", "-c", "cat"]);
        let child = child.stdin(stdin).stdout(Stdio::piped()).spawn().expect("it starts");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            (output.status.code(), output.stdout == bytes),
            (Some(0), true),
            "from a {name}"
        );
    }
    let line = "head -c 786432 /dev/zero | tr '\\0' x; echo end >&2; echo end";
    let expected = ["x".repeat(786_432).as_str(), "end\n"].concat();
    let (mut socket, end) = UnixStream::pair().expect("sockets");
    let mut command = place.stockade(["run", "--quiet", line]);
    let child = command.stdout(OwnedFd::from(end)).stderr(Stdio::piped()).spawn();
    // The child has the only other end.
    drop(command);
    let mut read = String::new();
    socket.read_to_string(&mut read).expect("its output");
    let output = child.expect("it starts").wait_with_output().expect("it ends");
    assert_eq!(seen(&output), (Some(0), String::new(), "end\n".to_owned()));
    assert!(read == expected, "to a socket: {} bytes", read.len());
    let path = place.root.join("output");
    let file = File::create(&path).expect("a file");
    let status = place.stockade(["run", "--quiet", line]).stdout(file).status().expect("it");
    let written = std::fs::read_to_string(&path).expect("the file");
    assert!(status.success() && written == expected, "to a file");
    // A device is read by waiting, by a thread.
    let mut command = place.stockade(["shell", "-c", "head -c 300000 | wc -c"]);
    let output = command.stdin(File::open("/dev/zero").expect("it")).output().expect("it ends");
    assert_eq!(seen(&output), (Some(0), "300000\n".to_owned(), String::new()));
    // Without any input the command gets none, and `stockade` does not wait for input that nobody wants.
    let output = place.stockade(["shell", "-c", "cat; echo end"]).stdin(Stdio::null()).output();
    assert_eq!(seen(&output.expect("it")), (Some(0), "end\n".to_owned(), String::new()));
    let (pipe, held) = std::io::pipe().expect("a pipe");
    let output = place.stockade(["shell", "-c", "echo end"]).stdin(pipe).output().expect("it ends");
    drop(held);
    assert_eq!(seen(&output), (Some(0), "end\n".to_owned(), String::new()));
}

#[test]
fn what_is_typed_reaches_the_command_while_the_input_stays_open() {
    let place = Place::new("client-talk");
    let _gateway = Gateway::start(&place);
    let line = "while read -r word; do echo \"<$word>\"; done; echo end";
    let mut command = place.stockade(["shell", "-c", line]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
    for word in ["one", "two", "three"] {
        writeln!(stdin, "{word}").expect("it reads");
        let mut answer = String::new();
        stdout.read_line(&mut answer).expect("its output");
        assert_eq!(answer, format!("<{word}>\n"));
    }
    drop(stdin);
    read_to(&mut stdout, "end");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn signals_reach_the_command_and_end_it() {
    let place = Place::new("client-signals");
    let _gateway = Gateway::start(&place);
    let start = |line: &str| {
        let mut command = place.stockade(["run", "--quiet", line]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        read_to(&mut stdout, "ready");
        (child, stdout)
    };
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
        let (mut child, _stdout) = start("echo ready; sleep 600; touch survived");
        signal(child.id(), name);
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{name}");
        assert_eq!(newest(&place)["kind"], "result", "{name}");
    }
    let (mut child, mut stdout) =
        start("trap 'echo caught; exit 9' INT; echo ready; sleep 600 & wait");
    signal(child.id(), "INT");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("its output");
    assert_eq!((child.wait().expect("it ends").code(), rest.as_str()), (Some(9), "caught\n"));
    // One that does not listen is ended by the third.
    let line = "trap 'echo ready' INT; echo ready; while true; do sleep 600 & wait; done";
    let (mut child, mut stdout) = start(line);
    for _ in 0..2 {
        signal(child.id(), "INT");
        read_to(&mut stdout, "ready");
    }
    signal(child.id(), "INT");
    drop(stdout);
    let status = child.wait().expect("it ends").code();
    assert!(matches!(status, Some(137 | 143)), "{status:?}");
    assert_eq!(newest(&place)["interrupted"], true);
    assert!(!place.project().join("survived").exists());
}

#[test]
fn a_signal_is_heard_while_nobody_reads_what_the_command_writes() {
    let place = Place::new("client-full");
    let _gateway = Gateway::start(&place);
    let (socket, end) = UnixStream::pair().expect("sockets");
    let (pipe, writer) = std::io::pipe().expect("a pipe");
    let outputs: [(Box<dyn std::io::Read>, Stdio); 2] =
        [(Box::new(socket), OwnedFd::from(end).into()), (Box::new(pipe), writer.into())];
    for (mut output, given) in outputs {
        let mut child = place.stockade(["shell", "-c", "yes"]).stdout(given).spawn().expect("it");
        // `yes` writes as fast as it is read: more than one piece has come, and the next ones are on their way.
        let mut some = [0; 1 << 16];
        output.read_exact(&mut some).expect("its output");
        let before = newest(&place)["seq"].as_u64();
        signal(child.id(), "TERM");
        // The command is over although not a word more was read.
        until("the result", || {
            let record = newest(&place);
            record["kind"] == "result" && record["seq"].as_u64() > before
        });
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).expect("its output");
        assert!(rest.len() > 1 << 12, "{} bytes", rest.len());
        assert_eq!(child.wait().expect("it ends").code(), Some(143));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let place = Place::new("client-gone");
    let _gateway = Gateway::start(&place);
    for silent in [false, true] {
        for is_socket in [false, true] {
            let mut command = place.stockade(["shell", "-c", "yes; exit 3"]);
            let mut output: Box<dyn std::io::Read> = if is_socket {
                let (socket, end) = UnixStream::pair().expect("sockets");
                command.stdout(OwnedFd::from(end));
                Box::new(socket)
            } else {
                let (pipe, end) = std::io::pipe().expect("a pipe");
                command.stdout(end);
                Box::new(pipe)
            };
            let mut child = command.spawn().expect("it starts");
            drop(command);
            if !silent {
                let mut some = [0; 100_000];
                output.read_exact(&mut some).expect("its output");
            }
            drop(output);
            let status = child.wait().expect("it ends").code();
            assert_eq!(status, Some(128 + 13), "silent {silent}, socket {is_socket}");
        }
    }
    assert_eq!(newest(&place)["kind"], "result");
}

#[test]
fn output_beyond_a_limit_of_a_file_is_told_and_no_success() {
    let place = Place::new("client-limit");
    let _gateway = Gateway::start(&place);
    for (line, status) in [("echo much", 122), ("echo much; exit 5", 5)] {
        let plain = place.stockade(["shell", "-c", line]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 0; exec \"$@\" > \"$HOME/out\"", "sh"]);
        command.arg(stockade()).args(["shell", "-c", line]).current_dir(place.project());
        command.env_clear().envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let (found, _, stderr) = seen(&command.output().expect("it ends"));
        assert_eq!(found, Some(status), "{stderr}");
        assert!(stderr.contains("cannot write standard output"), "{stderr}");
    }
}

#[test]
fn what_listens_and_says_nothing_is_not_waited_for_for_ever() {
    let place = Place::new("client-mute");
    let path = place.root.join("mute.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let socket = path.to_str().expect("a path").to_owned();
    let begun = Instant::now();
    let mut command = place.stockade(["run", "--socket", &socket, "true"]);
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let held = accepted(&listener);
    let output = child.wait_with_output().expect("it ends");
    drop(held);
    assert_eq!(output.status.code(), Some(122));
    assert!(text(&output.stderr).contains("it does not say hello"), "{}", text(&output.stderr));
    assert!(begun.elapsed() < Duration::from_secs(50));
}

/// Sends SIGTERM twice, so far apart that it is said twice, and returns the status.
fn told_to_end(child: &mut Child) -> Option<i32> {
    signal(child.id(), "TERM");
    let apart = Instant::now() + Duration::from_millis(500);
    until("a moment", || Instant::now() > apart);
    signal(child.id(), "TERM");
    let mut status = None;
    until("its end", || {
        status = child.try_wait().expect("its status");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

#[test]
fn who_waits_for_a_gateway_that_says_nothing_more_can_leave() {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "result": {"protocol": 1}});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "question", "params": {}});
    let agent = executable("stockade-agent");
    for flood in [false, true] {
        let place = Place::new("client-silent");
        let socket = place.root.join("runtime/stockade/gateway.sock");
        std::fs::create_dir_all(socket.parent().expect("its folder")).expect("a folder");
        let listener = UnixListener::bind(&socket).expect("a socket");
        for (program, arguments) in [
            (stockade(), ["run", "true"].as_slice()),
            (stockade(), &["shell", "-c", "true"]),
            (agent.as_path(), &["run", "true"]),
        ] {
            let plain = place.stockade([""; 0]);
            let mut command = Command::new(program);
            command.args(arguments).current_dir(place.project()).stdin(Stdio::null()).env_clear();
            command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
            let mut stream = accepted(&listener);
            let mut lines = BufReader::new(stream.try_clone().expect("a copy"));
            let mut asked = String::new();
            lines.read_line(&mut asked).expect("its greeting");
            writeln!(stream, "{hello}").expect("it reads");
            lines.read_line(&mut asked).expect("its request");
            assert!(asked.contains("\"method\":\"run\""), "{asked}");
            // Questions that were never due, one behind the other.
            let asking = flood.then(|| {
                let line = format!("{question}\n").repeat(1000);
                std::thread::spawn(move || while stream.write_all(line.as_bytes()).is_ok() {})
            });
            assert_eq!(told_to_end(&mut child), Some(122), "{program:?} {arguments:?}");
            let mut said = String::new();
            child.stderr.take().expect("it").read_to_string(&mut said).expect("its words");
            let words = "stockade: this program was stopped before the gateway reported the result\n  try: `stockade audit tail` shows the result\n";
            assert_eq!(said, words, "{program:?} {arguments:?}");
            if let Some(asking) = asking {
                asking.join().expect("it ends with the connection");
            }
        }
    }
}

#[test]
fn who_waits_for_a_reader_that_reads_nothing_can_leave() {
    for serves in [false, true] {
        let place = Place::new("client-unread");
        let _gateway = serves.then(|| Gateway::start(&place));
        // While the command runs, and when it is over and its output is not.
        for line in ["yes", "head -c 2000000 /dev/zero"] {
            let before = newest(&place)["seq"].as_u64();
            let (mut output, writer) = std::io::pipe().expect("a pipe");
            let mut command = place.stockade(["run", "--quiet", line]);
            let mut child = command.stdout(writer).spawn().expect("it starts");
            drop(command);
            output.read_exact(&mut [0; 4]).expect("its output");
            let status = told_to_end(&mut child);
            assert!(matches!(status, Some(122 | 141 | 143)), "{serves}, {line}: {status:?}");
            until("the result", || {
                let record = newest(&place);
                record["kind"] == "result" && record["seq"].as_u64() > before
            });
        }
        assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
    }
}

#[test]
fn signals_that_the_caller_ignores_or_holds_back_still_end_the_command() {
    let place = Place::new("client-ignored");
    let _gateway = Gateway::start(&place);
    let plain = place.stockade(["shell", "-c", "echo ready; sleep 600"]);
    for (way, name) in [("trap '' INT HUP; exec", "HUP"), ("exec env --block-signal=TERM", "TERM")]
    {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{way} \"$@\""), "sh"]).arg(stockade());
        command.args(["shell", "-c", "echo ready; sleep 600"]).current_dir(place.project());
        command.env_clear().envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().expect("it starts");
        read_to(&mut BufReader::new(child.stdout.take().expect("its output")), "ready");
        signal(child.id(), name);
        assert_eq!(child.wait().expect("it ends").code(), Some(143), "{name}");
    }
}

#[test]
fn a_person_at_the_terminal_is_asked() {
    let settings = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    for (answer, status, made) in
        [("once\n", 0, true), ("what\ndeny\n", 120, false), ("\x03", 121, false)]
    {
        let place = Place::new("client-asked");
        place.write("home/.config/stockade/settings.json", settings);
        let _gateway = Gateway::start(&place);
        let started = Terminal::start(&place, stockade(), &["run", "touch made.txt; echo done"]);
        let Some(mut terminal) = started else {
            return skip("a_person_at_the_terminal_is_asked", "`script` is not installed");
        };
        terminal.wait_for("needs a person: `touch made.txt");
        terminal.wait_for("run it?");
        terminal.press(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(status), "{screen}");
        assert_eq!(place.project().join("made.txt").exists(), made, "{screen}");
        assert_eq!(screen.contains("done\r\n"), made, "{screen}");
    }
}

#[test]
fn a_question_in_another_mode_can_be_left_like_the_first() {
    let settings = r#"{"sandbox": {"autoAllowBashIfSandboxed": false}}"#;
    for serves in [false, true] {
        let place = Place::new("client-mode");
        place.write("home/.config/stockade/settings.json", settings);
        let _gateway = serves.then(|| Gateway::start(&place));
        let started = Terminal::start(&place, stockade(), &["run", "touch made.txt"]);
        let Some(mut terminal) = started else {
            return skip(
                "a_question_in_another_mode_can_be_left_like_the_first",
                "`script` is not installed",
            );
        };
        terminal.wait_for("run it?");
        terminal.press("mode manual\n");
        terminal.wait_for("run it?");
        terminal.press("\x03");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(121), "{serves}: {screen}");
        assert!(!place.project().join("made.txt").exists(), "{serves}: {screen}");
    }
}
