//! The socket: who may talk to a gateway, what it answers, and that its door gives what the others give.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::gateway::{Gateway, Peer};
use stockade_tests::{Place, is_root, skip, until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn only_the_owner_can_reach_the_socket_and_it_goes_away_with_the_gateway() {
    let place = Place::new("socket");
    let gateway = Gateway::start(&place);
    let mode = |path: &std::path::Path| {
        path.metadata().expect("it is there").permissions().mode() & 0o7777
    };
    assert_eq!(mode(&gateway.socket), 0o600);
    assert_eq!(mode(gateway.socket.parent().expect("a folder")), 0o700);
    let socket = gateway.socket.clone();
    assert_eq!(gateway.end(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let place = Place::new("open");
    let folder = place.root.join("runtime/stockade");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let output = place.output(["serve"]);
    assert_eq!(output.status.code(), Some(122));
    let first = text(&output.stderr).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first,
        format!(
            "stockade: cannot listen at `{}/gateway.sock`: its directory is open to others (mode 755)",
            folder.display()
        )
    );
}

#[test]
fn a_socket_file_is_replaced_only_if_nobody_listens() {
    let place = Place::new("stale");
    let first = Gateway::start(&place);
    let second = place.output(["serve"]);
    assert_eq!(second.status.code(), Some(122));
    assert!(
        text(&second.stderr).contains("a gateway already listens there"),
        "{}",
        text(&second.stderr)
    );
    let socket = first.socket.clone();
    first.kill();
    assert!(socket.exists(), "a killed gateway leaves its socket file behind");
    let third = Gateway::start(&place);
    third.greet();
}

#[test]
fn a_file_in_the_place_of_the_socket_stays() {
    let place = Place::new("file");
    place.write("runtime/stockade/gateway.sock", "precious");
    let folder = place.root.join("runtime/stockade");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    let output = place.output(["serve"]);
    assert_eq!(output.status.code(), Some(122));
    assert_eq!(std::fs::read_to_string(folder.join("gateway.sock")).expect("the file"), "precious");
}

#[test]
fn nothing_is_served_before_hello_and_no_other_version() {
    let place = Place::new("hello");
    let gateway = Gateway::start(&place);
    let mut peer = gateway.connect();
    let check = json!({"jsonrpc": "2.0", "id": 1, "method": "check", "params": {}});
    assert_eq!(peer.ask(&check)["error"]["data"]["code"], "version_mismatch");
    let hello = json!({"jsonrpc": "2.0", "id": 2, "method": "hello", "params": {"protocol": 999}});
    assert_eq!(peer.ask(&hello)["error"]["data"]["code"], "version_mismatch");
    assert_eq!(peer.ask(&check)["error"]["data"]["code"], "version_mismatch");
    let hello = json!({"jsonrpc": "2.0", "id": 3, "method": "hello", "params": {"protocol": 1, "version": "0.0.0"}});
    assert_eq!(peer.ask(&hello)["error"]["data"]["code"], "version_mismatch");
}

#[test]
fn who_does_not_greet_loses_the_connection_and_holds_nobody_out() {
    let place = Place::new("silent");
    let gateway = Gateway::start(&place);
    let mut greeted = gateway.greet();
    let patience = Some(std::time::Duration::from_secs(60));
    let connect = |_| {
        let silent = UnixStream::connect(&gateway.socket).expect("the gateway listens");
        silent.set_read_timeout(patience).expect("a limit of the test");
        silent
    };
    let mut silent: Vec<UnixStream> = (0..255).map(connect).collect();
    for silent in &mut silent {
        // Closed at once for lack of room, or when its time is over; never by this test.
        assert_eq!(silent.read(&mut [0]).expect("an end"), 0);
    }
    // The closed connections give their places back one after the other.
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}});
    until("a place comes free", || {
        let mut peer = gateway.connect();
        let said = writeln!(peer.stream, "{hello}");
        said.is_ok() && peer.message().is_some_and(|it| it["result"]["protocol"] == 1)
    });
    let check = json!({"jsonrpc": "2.0", "id": 7, "method": "check", "params": {}});
    assert_eq!(greeted.ask(&check)["id"], 7, "who greeted is still heard");
}

#[test]
fn what_comes_with_the_greeting_is_served_or_refused_with_it() {
    let place = Place::new("hello-and-run");
    let gateway = Gateway::start(&place);
    let run = |version: &str| {
        let request = json!({"command": {"shell": "touch made.txt"}, "cwd": place.project(), "timeout_ms": null,
            "background": false, "pty": false, "description": null, "unsandboxed": false, "stdin": false,
            "context": {"settings": [], "setting_sources": null, "mode": null, "allowed_tools": ["Bash(touch:*)"],
                "disallowed_tools": [], "import": [], "additional_directories": [], "project": null,
                "profile": null, "session": null, "interactive": false, "environment": [], "door": "socket",
                "agent": null}});
        let hello = json!({"protocol": 1, "version": version});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello});
        let run = json!({"jsonrpc": "2.0", "id": 2, "method": "run", "params": request});
        let mut peer = gateway.connect();
        peer.send(&format!("{hello}\n{run}"));
        [peer.message().expect("an answer"), peer.message().expect("an answer")]
    };
    let [hello, refused] = run("0.0.0");
    assert_eq!(hello["error"]["data"]["code"], "version_mismatch", "{hello}");
    assert_eq!(refused["error"]["data"]["code"], "version_mismatch", "{refused}");
    assert!(!place.project().join("made.txt").exists());
    let [hello, ran] = run(env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["result"]["protocol"], 1, "{hello}");
    assert_eq!(ran["result"]["ran"]["exit_code"], 0, "{ran}");
    assert!(place.project().join("made.txt").exists());
}

#[test]
fn bad_lines_get_stable_codes_and_do_not_end_the_gateway() {
    let place = Place::new("bad");
    let gateway = Gateway::start(&place);
    let mut peer = gateway.greet();
    assert_eq!(peer.code_of("no json"), -32700);
    assert_eq!(peer.code_of(&"[".repeat(1000)), -32700);
    assert_eq!(peer.code_of(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"check"}"#), -32700);
    assert_eq!(peer.code_of(r#"{"jsonrpc":"1.0","id":1,"method":"check"}"#), -32600);
    assert_eq!(peer.code_of("[]"), -32600);
    assert_eq!(peer.code_of(r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#), -32601);
    assert_eq!(peer.code_of(r#"{"jsonrpc":"2.0","id":1,"method":"run","params":{}}"#), -32602);
    assert_eq!(peer.code_of(r#"{"jsonrpc":"2.0","method":"stdin","params":{}}"#), -32602);
    // A line without end is cut off, and only this connection is closed.
    let flood = vec![b'x'; 9 << 20];
    let _ = peer.stream.write_all(&flood);
    assert_eq!(peer.message(), None);
    gateway.greet();
}

#[test]
fn several_clients_are_served_at_once() {
    let place = Place::new("several");
    let gateway = Gateway::start(&place);
    let mut peers: Vec<Peer> = (0..20).map(|_| gateway.greet()).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        let hello =
            json!({"jsonrpc": "2.0", "id": number, "method": "hello", "params": {"protocol": 1}});
        assert_eq!(peer.ask(&hello)["id"], number);
    }
}

#[test]
fn a_named_socket_without_a_gateway_is_an_error() {
    let place = Place::new("nobody");
    let output = place.output(["check", "--socket", "nobody.sock", "ls"]);
    assert_eq!(output.status.code(), Some(122));
    let first = text(&output.stderr).lines().next().unwrap_or_default().to_owned();
    let path = place.project().join("nobody.sock");
    assert!(
        first.starts_with(&format!(
            "stockade: none of your gateways answers at `{}`",
            path.display()
        )),
        "{first}"
    );
}

/// Returns what a caller notices of a call.
fn noticed(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn doors_agree() {
    let place = Place::new("doors");
    place.write(
        "project/.stockade/settings.json",
        r#"{"permissions": {"deny": ["Bash(curl:*)"], "ask": ["Bash(git push:*)"]}}"#,
    );
    let gateway = Gateway::start(&place);
    let socket = gateway.socket.to_str().expect("a path").to_owned();
    let cases: [&[&str]; 9] = [
        &["run", "echo out; echo err >&2; exit 3"],
        &["run", "kill -9 $$"],
        &["run", "echo", "a b", "$HOME"],
        &["run", "cat notes | curl -T - example.com"],
        &["run", "git push origin main"],
        &["run", "--timeout", "300ms", "sleep 20"],
        &["run", "--cwd", "/nonexistent", "ls"],
        &["check", "--json", "ls | wc -l && curl x"],
        &["check", "--explain", "git push origin main"],
    ];
    // A gateway that serves holds its log: the embedded one has a log of its own.
    let own = place.root.join("state/own").to_str().expect("a path").to_owned();
    for case in cases {
        let with = |option: [&str; 2]| -> Vec<String> {
            let (name, rest) = case.split_first().expect("a subcommand");
            let words = [*name].into_iter().chain(option).chain(rest.iter().copied());
            words.map(str::to_owned).collect()
        };
        let one = noticed(&place.output(with(["--state-dir", &own])));
        let other = noticed(&place.output(with(["--socket", &socket])));
        if case.contains(&"--timeout") {
            assert_eq!((one.0, other.0), (Some(124), Some(124)), "{one:?} {other:?}");
            continue;
        }
        assert_eq!(one, other, "{case:?}");
    }
}

#[test]
fn an_edit_of_settings_counts_for_the_next_call_of_a_running_gateway() {
    let place = Place::new("edited");
    let file = "home/.config/stockade/settings.json";
    place.write(file, r#"{"permissions": {"deny": ["Bash(gentool:*)"]}}"#);
    let gateway = Gateway::start(&place);
    let socket = gateway.socket.to_str().expect("a path").to_owned();
    let decided = || {
        let output = place.output(["check", "--json", "--quiet", "--socket", &socket, "gentool x"]);
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (told["decision"].clone(), told["settings_sha256"].clone())
    };
    let (before, old) = decided();
    place.write(file, r#"{"permissions": {"ask": ["Bash(gentool:*)"]}}"#);
    let (after, new) = decided();
    assert_eq!((before, after), (json!("deny"), json!("ask")));
    assert!(old != new && new.as_str().is_some_and(|digest| digest.len() == 64), "{old} {new}");
}

#[test]
fn input_goes_through_the_socket_without_a_deadlock() {
    let place = Place::new("input");
    let gateway = Gateway::start(&place);
    let socket = gateway.socket.to_str().expect("a path").to_owned();
    let mut command = place.stockade(["run", "--socket", &socket, "cat"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let sent: Vec<u8> = (0..2u32 << 20).map(|at| (at % 251) as u8).collect();
    let copy = sent.clone();
    // Nothing is read before all is offered: every pipe on the way is full by then.
    let writer = std::thread::spawn(move || stdin.write_all(&copy));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends").expect("all is taken");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == sent, "{} bytes came back", output.stdout.len());
}

#[test]
fn a_client_that_goes_away_ends_its_command_and_the_record_says_so() {
    let place = Place::new("away");
    let gateway = Gateway::start(&place);
    let mut peer = gateway.greet();
    let cwd = place.project().canonicalize().expect("the project");
    let environment = [
        ("HOME", place.home()),
        ("XDG_STATE_HOME", place.root.join("state")),
        ("PATH", PathBuf::from("/usr/bin:/bin")),
    ];
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "run", "params": {
        "command": {"shell": "echo started; sleep 600; echo survived > survived.txt"},
        "cwd": cwd, "timeout_ms": 300_000, "background": false, "pty": false, "description": null,
        "unsandboxed": false, "stdin": false,
        "context": {"settings": [], "setting_sources": null, "mode": null, "allowed_tools": [],
            "disallowed_tools": [], "import": [], "additional_directories": [], "project": null,
            "profile": null, "session": null, "interactive": false, "environment": environment,
            "door": "socket", "agent": null}}});
    let first = peer.ask(&request);
    assert_eq!(first["method"], "event", "{first}");
    drop(peer);
    // The gateway ends only after the record is written.
    assert_eq!(gateway.end(), Some(0));
    let tail = place.output(["audit", "tail", "--json", "-n", "1"]);
    let record: Value = serde_json::from_slice(&tail.stdout).expect("one record");
    assert_eq!(record["kind"], "result", "{record}");
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
    assert!(!place.project().join("survived.txt").exists());
}

#[test]
fn another_user_gets_no_word_out_of_a_gateway() {
    let name = "another_user_gets_no_word_out_of_a_gateway";
    if !is_root() {
        return skip(name, "only root can be two users");
    }
    let place = Place::new("other-user");
    let command = place.stockade_as(65534, ["serve"]);
    let gateway = Gateway::start_with(&place, command);
    // Root passes every mode: what is left is what the kernel says about the other end.
    let mut peer = gateway.connect();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {"protocol": 1}});
    let _ = peer.stream.write_all(format!("{hello}\n").as_bytes()); // it may be closed already
    assert_eq!(peer.message(), None);
    let socket = gateway.socket.to_str().expect("a path");
    let output = place.output(["run", "--socket", socket, "touch made.txt"]);
    assert_eq!(output.status.code(), Some(122));
    let first =
        format!("stockade: none of your gateways answers at `{socket}`: uid 65534 listens there");
    assert!(text(&output.stderr).starts_with(&first), "{}", text(&output.stderr));
    assert!(!place.project().join("made.txt").exists());
    // Its own user is served.
    let mut own = place.stockade_as(65534, ["run", "--socket", socket, "touch made.txt"]);
    assert_eq!(own.output().expect("setpriv").status.code(), Some(0));
    assert_eq!(gateway.end(), Some(0));
}

#[test]
fn the_gateway_at_the_default_place_is_used_and_others_append_to_its_log_in_turn() {
    let place = Place::new("default-place");
    let gateway = Gateway::start(&place);
    let output = place.output(["run", "echo through"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "through\n".to_owned()));
    let records = text(&place.output(["audit", "search", "--json", "--kind", "segment"]).stdout);
    assert_eq!(records.lines().count(), 1, "{records}");
    let taken = place.output(["serve"]);
    let stderr = text(&taken.stderr);
    assert_eq!(taken.status.code(), Some(122), "{stderr}");
    assert!(stderr.starts_with("stockade: ") && stderr.lines().count() == 2, "{stderr}");
    let socket = place.root.join("runtime/other/second.sock");
    let socket = socket.to_str().expect("a path");
    let mut second = place.stockade(["serve", "--socket", socket]);
    let mut second = second.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = second.stdout.as_mut().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, format!("listening on {socket}\n"));
    for arguments in [
        &["--socket", socket, "run", "touch second.txt"][..],
        &["run", "--no-daemon", "touch alone.txt"],
        &["run", "touch first.txt"],
    ] {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    for made in ["first.txt", "second.txt", "alone.txt"] {
        assert!(place.project().join(made).exists(), "{made}");
    }
    assert_eq!(gateway.end(), Some(0));
    let ended = std::process::Command::new("kill").arg(second.id().to_string()).status();
    assert!(ended.expect("kill starts").success());
    assert_eq!(second.wait().expect("an end").code(), Some(0));
    let tail = place.output(["audit", "tail", "--json", "--kind", "result"]);
    assert_eq!(text(&tail.stdout).lines().count(), 4, "{}", text(&tail.stdout));
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn a_gateway_that_is_told_to_end_ends_its_commands_and_records_them() {
    let place = Place::new("told-to-end");
    let gateway = Gateway::start(&place);
    let mut command = place.stockade(["run", "echo begun; sleep 600; touch survived.txt"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
    stdout.read_line(&mut line).expect("a line");
    assert_eq!(line, "begun\n");
    assert_eq!(gateway.end(), Some(0));
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "{}", text(&output.stderr));
    let tail = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "result"]);
    let record: Value = serde_json::from_slice(&tail.stdout).expect("one record");
    assert_eq!(record["interrupted"], true, "{record}");
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
    assert!(!place.project().join("survived.txt").exists());
}

#[test]
fn a_gateway_of_another_version_is_not_used_and_not_passed_over() {
    let place = Place::new("other-version");
    let socket = place.root.join("runtime/stockade/gateway.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(stream.try_clone().expect("it")).read_line(&mut line).expect("hello");
        let hello: Value = serde_json::from_str(&line).expect("a line of JSON");
        let error = json!({"code": -32012, "message": "this gateway is version 9",
            "data": {"code": "version_mismatch", "message": "this gateway is version 9", "help": ""}});
        let answer = json!({"jsonrpc": "2.0", "id": hello["id"], "error": error});
        writeln!(stream, "{answer}").expect("it reads");
    });
    let output = place.output(["run", "--json", "touch made.txt"]);
    // The other gateway waits no longer for a client that never came.
    drop(UnixStream::connect(&socket));
    other.join().expect("the other gateway ends");
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(output.status.code(), Some(122));
    assert_eq!(object["error"]["code"], "version_mismatch", "{object}");
    assert_eq!(text(&output.stderr).lines().count(), 2, "{}", text(&output.stderr));
    assert!(!place.project().join("made.txt").exists());
}

#[test]
fn what_a_gateway_forks_holds_nothing_of_it() {
    let place = Place::new("protocol-forks");
    let mut command = place.stockade(["serve"]);
    command.env("SERVE_TOKEN", "mark-of-the-gateway");
    let gateway = Gateway::start_with(&place, command);
    let own = gateway.id();
    for _ in 0..3 {
        let output = place.output(["run", "--", "echo out"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n", "{output:?}");
    }
    let read = |number: u32, name: &str| {
        let bytes = std::fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // The gateway shows that the mark can be found.
    assert!(read(own, "environ").contains("mark-of-the-gateway"));
    let threads = std::fs::read_dir(format!("/proc/{own}/task")).expect("its threads").flatten();
    let children: Vec<u32> = threads
        .flat_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            text.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<u32>>()
        })
        .collect();
    // The reader of texts and what makes the launchers, at least.
    assert!(children.len() >= 2, "{children:?}");
    for child in children {
        assert!(!read(child, "environ").contains("mark-of-the-gateway"), "{child}");
        assert_eq!(read(child, "cmdline").trim_matches('\0'), "", "{child}");
    }
    assert_eq!(gateway.end(), Some(0));
}

#[test]
fn a_command_cannot_reach_the_socket_of_its_gateway_inside_the_project() {
    let place = Place::new("socket-inside");
    let folder = place.project().join(".run/stockade");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("its mode");
    std::fs::write(folder.join("gateway.sock"), "").expect("a file in its place");
    let removed = |runtime: &std::path::Path| {
        let mut command = place.stockade(["run", "--no-daemon", "--settings"]);
        command.args([r#"{"permissions":{"allow":["Bash"]}}"#, "rm -f .run/stockade/gateway.sock"]);
        let output = command.env("XDG_RUNTIME_DIR", runtime).output().expect("it starts");
        (!folder.join("gateway.sock").exists(), text(&output.stderr))
    };
    let (gone, told) = removed(&place.project().join(".run"));
    assert!(!gone, "{told}");
    // Any other folder of the project is the command's to write.
    let (gone, told) = removed(&place.root.join("runtime"));
    assert!(gone, "{told}");
}

#[test]
fn a_socket_that_a_command_of_the_project_could_replace_is_refused() {
    let place = Place::new("socket-in-reach");
    std::fs::create_dir_all(place.root.join("added")).expect("a folder");
    std::os::unix::fs::symlink(place.project(), place.root.join("link")).expect("a link");
    let refused = |output: Output, what: &str| {
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(122), "{what}: {told}");
        assert!(told.contains("where commands of `"), "{what}: {told}");
        assert!(told.contains("`--socket PATH`") && told.lines().count() == 2, "{what}: {told}");
    };
    // The act that is to be prevented: whoever may write there puts another socket in its place.
    assert_eq!(place.output(["run", "--no-daemon", "touch gateway.sock"]).status.code(), Some(0));
    std::fs::remove_file(place.project().join("gateway.sock")).expect("what it made");
    for socket in ["gateway.sock", "run/deep/gateway.sock", "../link/gateway.sock"] {
        refused(place.output(["serve", "--socket", socket]), socket);
    }
    refused(
        place.output(["serve", "--add-dir", "../added", "--socket", "../added/g.sock"]),
        "added",
    );
    let made: Vec<_> = std::fs::read_dir(place.project()).expect("the project").flatten().collect();
    assert!(made.iter().all(|it| it.file_name() == ".git"), "nothing was made: {made:?}");
    // At the default place, too, a command that works beside the socket would be able to.
    let gateway = Gateway::start(&place);
    let socket = gateway.socket.to_str().expect("a path").to_owned();
    let folder = gateway.socket.parent().expect("its folder").to_path_buf();
    let mut command = place.stockade(["run", "--project", ".", "--socket", &socket, "touch made"]);
    refused(command.current_dir(&folder).output().expect("it starts"), "a command beside it");
    assert!(!folder.join("made").exists());
    assert_eq!(place.output(["run", "--socket", &socket, "true"]).status.code(), Some(0));
    assert_eq!(gateway.end(), Some(0));
}
