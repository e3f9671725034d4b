//! A hook before a gateway that is late, full, played by a command, or that goes on while the hook breaks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::Place;

use super::faults::ends;
use super::{AGENTS, assert_blocked, decision, denying, frame, given, given_to, text};

/// Gives a hook a frame whose gateway does what `act` says with the connection and the number of the hook's process.
fn given_with(
    place: &Place,
    call: (&str, &[&str]),
    frame: &str,
    act: impl FnOnce(UnixStream, u32) + Send + 'static,
) -> Output {
    tried_with(place, call, frame, act).expect("the hook speaks")
}

/// Does the same; returns nothing where the hook ends before it has spoken.
fn tried_with(
    place: &Place,
    (agent, options): (&str, &[&str]),
    frame: &str,
    act: impl FnOnce(UnixStream, u32) + Send + 'static,
) -> Option<Output> {
    let socket = place.root.join("runtime/stockade/gateway.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
    let _ = std::fs::remove_file(&socket); // of the call before
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut command = place.stockade([&["hook", agent], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let pid = child.id();
    child.stdin.take().expect("its input").write_all(frame.as_bytes()).expect("it reads");
    let gateway = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody comes");
        let stream = greeted(stream)?;
        act(stream, pid);
        Some(())
    });
    let output = child.wait_with_output().expect("it ends");
    // The gateway waits no longer for a hook that ended before it came.
    drop(UnixStream::connect(&socket));
    gateway.join().expect("the gateway ends").map(|()| output)
}

/// Takes both lines of a hook, the greeting and the call, and greets it; nothing where it goes away before.
fn greeted(mut stream: UnixStream) -> Option<UnixStream> {
    let mut lines = BufReader::new(stream.try_clone().expect("it")).lines();
    let hello: Value = serde_json::from_str(&lines.next()?.ok()?).expect("JSON");
    let call = lines.next()?.ok()?;
    assert!(call.contains("\"check\"") && hello["method"] == "hello", "{call}");
    let greeting = json!({"jsonrpc": "2.0", "id": hello["id"], "result": {}});
    writeln!(stream, "{greeting}").ok()?;
    Some(stream)
}

#[test]
fn a_hook_whose_gateway_is_late_babbles_or_goes_away_blocks() {
    let place = Place::new("faulty-gateway");
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for said in [
            "no json\n",
            "{}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"decision\":\"allow\"}}\n",
            "",
        ] {
            let output = given_with(&place, (agent, &[]), &frame, |mut stream, _| {
                stream.write_all(said.as_bytes()).expect("it reads");
            });
            assert_blocked(agent, &output, said);
        }
        // A hook that is held up and does not speak in time has more time in the next turn.
        let late = [300, 3_000, 30_000].into_iter().find_map(|limit| {
            let deadline = format!("{limit}ms");
            let options = ["--deadline", deadline.as_str()];
            let late = tried_with(&place, (agent, &options), &frame, |stream, _| {
                // The hook ends before this side says anything.
                let mut rest = BufReader::new(stream).lines();
                assert!(rest.next().is_none_or(|line| line.is_err()));
            });
            late.map(|late| (limit, late))
        });
        let (limit, late) = late.expect("the hook speaks");
        assert_blocked(agent, &late, "late");
        let told = [text(&late.stdout), text(&late.stderr)].concat();
        assert!(told.contains(&format!("no answer within {limit} ms")), "{told}");
    }
}

#[test]
fn a_hook_that_breaks_while_its_gateway_judges_blocks() {
    let place = Place::new("broken-hook");
    let ends = ends("gateway::a_hook_that_breaks_while_its_gateway_judges_blocks");
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for signal in ["ABRT", "SEGV", "BUS", "ILL", "FPE", "SYS", "XCPU"]
            .into_iter()
            .chain(ends.iter().copied())
        {
            let output = given_with(&place, (agent, &[]), &frame, move |stream, pid| {
                let sent =
                    Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
                assert!(sent.expect("kill starts").success());
                let _ = BufReader::new(stream).lines().next(); // until the hook is gone
            });
            assert_blocked(agent, &output, signal);
        }
    }
}

#[test]
fn a_hook_whose_gateway_takes_no_connections_blocks_in_time() {
    let place = Place::new("full-gateway");
    let socket = place.root.join("runtime/stockade/gateway.sock");
    std::fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.expect("a runtime");
    let entered = runtime.enter();
    let full = tokio::net::UnixSocket::new_stream().expect("a socket");
    full.bind(&socket).expect("a place");
    let listener = full.listen(0).expect("it listens");
    let waiting = UnixStream::connect(&socket).expect("one has room");
    let named = ["--socket", socket.to_str().expect("a path")];
    for (agent, file, event) in AGENTS {
        let frame = frame(&place, file, event, "pwd");
        for options in
            [&["--deadline", "300ms"][..], &[&named[..], &["--deadline", "300ms"]].concat()]
        {
            let start = Instant::now();
            assert_blocked(agent, &given(&place, agent, options, frame.as_bytes()), "no room");
            assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        }
    }
    // Nor does anybody wait without end who has no deadline.
    for options in [&[][..], &named] {
        let output = place.output([&["check"], options, &["pwd"]].concat());
        assert_eq!(output.status.code(), Some(122), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("it accepts no more connections"));
    }
    drop((waiting, listener, entered));
}

#[test]
fn a_confined_command_in_the_place_of_the_gateway_is_not_believed() {
    let place = denying("played-gateway");
    let folder = place.project().join(".run/stockade");
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("gateway.sock");
    let socket = socket.to_str().expect("a path");
    let answers = |what: &str| {
        AGENTS.map(|(agent, file, event)| {
            let frame = frame(&place, file, event, "touch made.txt");
            let named = given(&place, agent, &["--socket", socket], frame.as_bytes());
            let mut command = place.stockade(["hook", agent]);
            command.env("XDG_RUNTIME_DIR", place.project().join(".run"));
            let usual = given_to(command, frame.as_bytes());
            (agent, what.to_owned(), named, usual)
        })
    };
    let words = [env!("CARGO_BIN_EXE_impostor"), socket];
    // The impostor gives a real answer: unconfined it would be taken for a gateway of this user.
    let mut plain = Command::new(words[0]);
    plain.arg(socket).current_dir(place.project());
    let plain = started(plain);
    for (agent, _, named, usual) in answers("unconfined") {
        for output in [named, usual] {
            let word = if agent == "codex" { "none" } else { "allow" };
            assert_eq!(decision(&output).0, word, "{agent}: {}", text(&output.stderr));
        }
    }
    drop(plain);
    std::fs::remove_file(socket).expect("its socket");
    let options =
        ["run", "--no-daemon", "--settings", r#"{"permissions":{"allow":["Bash"]}}"#, "--"];
    let confined = started(place.stockade([&options[..], &words].concat()));
    for (agent, what, named, usual) in answers("confined") {
        for output in [named, usual] {
            assert_blocked(agent, &output, &what);
            let told = [text(&output.stdout), text(&output.stderr)].concat();
            assert!(told.contains("is sandboxed, like a command of an agent"), "{told}");
        }
    }
    let output = place.output(["run", "--socket", socket, "--", "echo", "ran"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(122), ""));
    let told =
        format!("stockade: the listener at `{socket}` is not trusted as a gateway: process ");
    assert!(text(&output.stderr).starts_with(&told), "{}", text(&output.stderr));
    drop(confined);
}

/// One namespace of its own is enough: nothing else about this process differs from a gateway of this user.
#[test]
fn a_process_in_another_namespace_is_not_taken_for_the_gateway() {
    let place = denying("namespace-gateway");
    let socket = place.project().join("gateway.sock");
    let socket = socket.to_str().expect("a path");
    for (kind, options) in [
        ("user", &["--user", "--map-current-user"][..]),
        ("pid", &["--pid", "--fork", "--kill-child"]),
    ] {
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(options).current_dir(place.project());
            command
        };
        if !unshare().arg("true").status().expect("util-linux").success() {
            let name = "a_process_in_another_namespace_is_not_taken_for_the_gateway";
            stockade_tests::skip(name, &format!("this user cannot make a {kind} namespace"));
            continue;
        }
        let mut command = unshare();
        command.args([env!("CARGO_BIN_EXE_impostor"), socket]);
        let apart = started(command);
        for (agent, file, event) in AGENTS {
            let frame = frame(&place, file, event, "touch made.txt");
            let output = given(&place, agent, &["--socket", socket], frame.as_bytes());
            assert_blocked(agent, &output, kind);
            let told = [text(&output.stdout), text(&output.stderr)].concat();
            assert!(told.contains("is sandboxed, like a command of an agent"), "{kind}: {told}");
        }
        drop(apart);
        std::fs::remove_file(socket).expect("its socket");
    }
}

/// A process that ends with the test, which a panic may end.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }
}

/// Starts a program and waits until it says that it listens.
fn started(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let said: Vec<String> =
        lines.map_while(Result::ok).take_while(|it| !it.contains("listening")).collect();
    assert!(child.try_wait().expect("its state").is_none(), "{said:?}");
    Running(child)
}
