//! The first call of an agent's session starts the gateway in which its session lives from call to call.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::{Gateway, listening};
use stockade_tests::{Place, copy_program, stockade, stockade_word, until, write_to_reader};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn socket(place: &Place) -> PathBuf {
    place.root.join("runtime/stockade/gateway.sock")
}

/// The gateways of a place that nobody started by hand; ended with the test.
struct Started<'a>(&'a Place);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        for pid in listening(&socket(self.0)) {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        let end = Instant::now() + Duration::from_secs(60);
        while socket(self.0).exists() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

fn frame(place: &Place, line: &str) -> String {
    json!({"session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": line}})
    .to_string()
}

/// Starts the hook of an agent with a frame about `line`, and these options.
fn hook(place: &Place, options: &[&str], line: &str) -> Child {
    let mut hook = place.stockade([&["hook", "claude", "--rewrite"], options].concat());
    hook.env_remove("STOCKADE_GATEWAY");
    hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = hook.spawn().expect("it starts");
    let mut stdin = hook.stdin.take().expect("its input");
    stdin.write_all(frame(place, line).as_bytes()).expect("it reads");
    hook
}

/// Returns the command that the agent is to run in the place of its own.
fn rewritten(output: &Output) -> String {
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{} {}", text(&output.stdout), text(&output.stderr)));
    let line = answer.pointer("/hookSpecificOutput/updatedInput/command");
    line.and_then(Value::as_str).unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn ten_first_calls_of_agents_start_one_gateway_and_their_pipes_close() {
    let place = Place::new("fc-ten");
    let _started = Started(&place);
    let begun = Instant::now();
    let calls: Vec<Child> = (0..10).map(|_| hook(&place, &[], "true")).collect();
    // The end of the pipes comes: nobody who runs on holds them.
    for call in calls {
        let output = call.wait_with_output().expect("its end");
        assert!(rewritten(&output).contains("'--for-agent'"), "{}", text(&output.stdout));
    }
    until("a gateway listens", || !listening(&socket(&place)).is_empty());
    // A hook waits 3 s for the gateway. On a slow machine all may have judged without it.
    if begun.elapsed() > Duration::from_secs(3) {
        drop(rewritten(&hook(&place, &[], "true").wait_with_output().expect("its end")));
    }
    assert_eq!(listening(&socket(&place)).len(), 1);
    let sessions = place.output(["sessions", "--json"]);
    let sessions: Value = serde_json::from_slice(&sessions.stdout).expect("an object");
    assert_eq!(sessions["sessions"][0]["session"], "s", "{sessions}");
}

#[test]
fn a_server_lives_from_one_call_of_an_agent_to_the_next() {
    let place = Place::new("fc-server");
    let _started = Started(&place);
    let run = |line: &str| {
        let judged = hook(&place, &[], line).wait_with_output().expect("its end");
        let plain = place.stockade([""; 0]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &rewritten(&judged)]).current_dir(place.project()).env_clear();
        shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        shell.stdin(Stdio::null()).output().expect("sh")
    };
    assert_eq!(text(&run("echo one").stdout), "one\n");
    let arguments = ["run", "--quiet", "--session", "s", "--background", "--", "sleep 1000"];
    let id = text(&place.output(arguments).stdout).trim().to_owned();
    assert_eq!(text(&run("echo two").stdout), "two\n");
    let list = place.output(["tasks", "list", "--running", "--session", "s"]);
    assert!(text(&list.stdout).contains(&id), "{}", text(&list.stdout));
}

#[test]
fn no_gateway_is_started_by_hand_of_the_person_or_by_a_sandboxed_call() {
    let place = Place::new("fc-none");
    let _started = Started(&place);
    let by_option = hook(&place, &["--no-daemon"], "true").wait_with_output().expect("its end");
    assert!(rewritten(&by_option).contains("'--for-agent'"));
    let mut by_variable = place.stockade(["hook", "claude"]);
    let mut by_variable = by_variable.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    by_variable.stdin.take().unwrap().write_all(frame(&place, "true").as_bytes()).unwrap();
    assert!(by_variable.wait_with_output().expect("its end").status.success());
    place.write("project/frame.json", &frame(&place, "true"));
    // There HOME is the person's, and the place of the socket that of the state directory.
    let inside = format!(
        "export XDG_RUNTIME_DIR={}; {} hook claude < frame.json > answer; cat answer",
        place.project().display(),
        stockade_word()
    );
    let confined = place.output(["run", "--", &inside]);
    assert!(confined.status.code().is_some(), "{}", text(&confined.stderr));
    assert!(!place.project().join("stockade/gateway.sock").exists(), "{}", text(&confined.stdout));
    assert_eq!(listening(&socket(&place)), Vec::<u32>::new());
}

#[test]
fn a_call_for_itself_is_recorded_while_a_gateway_runs() {
    let place = Place::new("fc-log");
    let gateway = Gateway::start(&place);
    for line in ["true", "echo one", "echo two"] {
        for option in ["--no-daemon", "--quiet"] {
            let output = place.output(["run", option, "--", line]);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    let id = place.output(["run", "--quiet", "--background", "--", "sleep 1000"]);
    let id = text(&id.stdout).trim().to_owned();
    // A gateway for one call leaves the task of the one that stays alone.
    assert!(place.output(["run", "--no-daemon", "--", "true"]).status.success());
    assert!(place.output(["tasks", "stop", &id]).status.success());
    drop(gateway);
    let verified = place.output(["audit", "verify"]);
    assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
}

#[test]
fn a_gateway_whose_executable_is_replaced_takes_no_new_call_and_ends_with_its_tasks() {
    let place = Place::new("fc-new");
    let copy = place.root.join("own-stockade");
    copy_program(stockade(), &copy);
    let plain = place.stockade(["serve"]);
    let mut serve = Command::new(&copy);
    serve.args(plain.get_args()).current_dir(place.project()).env_clear().stdin(Stdio::null());
    serve.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let former = Gateway::start_with(&place, serve);
    let line = "mkfifo -m 600 gate; read line < gate; exit 3";
    let task = place.output(["run", "--quiet", "--background", "--", line]);
    let task = text(&task.stdout).trim().to_owned();
    let further = |options: &[&str], line: &str| {
        let options = [&["run", "--quiet", "--background"], options, &["--", line]].concat();
        text(&place.output(options).stdout).trim().to_owned()
    };
    let second = further(&[], "sleep 1000");
    let third = further(&["--pty"], "read line; exit 9");
    let newer = place.root.join("newer");
    copy_program(stockade(), &newer);
    std::fs::rename(&newer, &copy).expect("the new executable takes the place of the old one");
    until("the former gateway leaves its place", || !socket(&place).exists());
    let newer = Gateway::start(&place);
    assert!(place.output(["run", "--", "true"]).status.success());
    // The former one still stops its tasks, and is there for what is typed to them.
    let stopped = place.output(["tasks", "stop", &second]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(text(&stopped.stderr).contains("stopped on request"), "{}", text(&stopped.stderr));
    let mut attach = place.stockade(["tasks", "attach", &third]);
    let mut attach =
        attach.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    attach.stdin.take().expect("keys").write_all(b"end\n").expect("it reads");
    let attached = attach.wait_with_output().expect("its end");
    assert_eq!(attached.status.code(), Some(9), "{}", text(&attached.stdout));
    let shown = text(&place.output(["tasks", "show", &task]).stdout);
    assert!(shown.contains("state     running"), "{shown}");
    write_to_reader(&place.project().join("gate"), "on\n");
    assert_eq!(place.output(["tasks", "wait", &task]).status.code(), Some(3));
    assert_eq!(former.ended(), Some(0));
    let beside = std::fs::read_dir(socket(&place).parent().expect("a folder")).expect("it");
    let names = beside.map(|entry| entry.expect("it").file_name().into_string().expect("a name"));
    assert_eq!(names.filter(|name| name.contains(".left-")).collect::<Vec<_>>(), [""; 0]);
    drop(newer);
}

#[test]
fn a_gateway_with_other_files_is_not_used() {
    let place = Place::new("fc-mounts");
    let apart = ["--mount", "--", "true"];
    if !Command::new("unshare").args(apart).output().is_ok_and(|it| it.status.success()) {
        stockade_tests::skip("a_gateway_with_other_files_is_not_used", "needs the right to mount");
        return;
    }
    let _gateway = Gateway::start(&place);
    let plain = place.stockade([""; 0]);
    let run = |options: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--"]).arg(stockade()).args(options);
        command.current_dir(place.project()).env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.output().expect("it starts")
    };
    let output = run(&["run", "--json", "--", "true"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let newest = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "decision"]);
    let newest: Value = serde_json::from_slice(&newest.stdout).expect("a record");
    assert_eq!(newest["gateway"]["mode"], "embedded", "{newest}");
    let named = run(&["run", "--socket", socket(&place).to_str().expect("a path"), "--", "true"]);
    assert_eq!(named.status.code(), Some(122));
    let told = text(&named.stderr);
    assert!(told.contains("it has another mount namespace"), "{told}");
}

#[test]
fn the_temporary_directory_of_a_session_is_kept_without_a_gateway_and_is_no_other_sessions() {
    let place = Place::new("fc-tmp");
    let run = |options: &[&str], line: &str| {
        let output = place.output([&["run", "--no-daemon"], options, &["--", line]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    // As the hook of an agent writes the line, and by a person.
    for session in [&["--for-agent", "--session", "s"][..], &["--session", "p"]] {
        run(session, "echo kept > /tmp/file; ln -s \"$HOME\" /tmp/link; chmod 0 /tmp");
        assert_eq!(run(session, "cat /tmp/file"), "kept\n");
        for other in [&["--for-agent", "--session", "other"][..], &["--session", "q"], &[]] {
            assert_eq!(run(other, "ls -A /tmp"), "", "{other:?}");
        }
        run(session, "rm /tmp/file");
        assert_eq!(run(session, "ls -A /tmp"), "link\n");
    }
    assert!(place.home().is_dir());
}

#[test]
fn a_socket_unit_starts_the_gateway_with_the_first_connection_and_listens_on() {
    let place = Place::new("first-unit");
    // Short, whatever the path of the clone is: a service manager has no other names for its sockets (unix(7)).
    let runtime = PathBuf::from(format!("/tmp/stockade-unit-{}", std::process::id()));
    // An earlier run that was killed may have had this number.
    drop(std::fs::remove_dir_all(&runtime));
    let output = place.output(["setup", "--socket-unit"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let units = place.home().join(".config/systemd/user");
    let unit = |name: &str| std::fs::read_to_string(units.join(name)).expect("a unit");
    assert!(
        unit("stockade.socket")
            .contains("ListenStream=%t/stockade/gateway.sock\nSocketMode=0600\n")
    );
    let line =
        format!("ExecStart=\"{}\" serve --idle 10m\nStandardInput=socket\n", stockade().display());
    assert!(unit("stockade.service").contains(&line), "{}", unit("stockade.service"));
    // As systemd does it: it listens, and starts the service with its socket as standard input.
    let path = runtime.join("stockade/gateway.sock");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let private = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    };
    private(path.parent().expect("a folder"), 0o700);
    let listener = UnixListener::bind(&path).expect("it listens");
    private(&path, 0o600);
    let serve = || {
        let mut gateway = place.stockade(["serve", "--idle", "10m"]);
        gateway.env_remove("STOCKADE_GATEWAY").env("XDG_RUNTIME_DIR", &runtime);
        gateway.stdin(OwnedFd::from(listener.try_clone().expect("a copy")));
        gateway.stdout(Stdio::piped()).stderr(Stdio::piped());
        gateway.spawn().expect("it starts")
    };
    for _ in 0..2 {
        let gateway = serve();
        let mut run = place.stockade(["run", "--background", "--", "sleep 300"]);
        run.env_remove("STOCKADE_GATEWAY").env("XDG_RUNTIME_DIR", &runtime);
        let run = run.output().expect("it runs");
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let pid = gateway.id();
        assert!(Command::new("kill").arg(pid.to_string()).status().expect("kill").success());
        let end = gateway.wait_with_output().expect("it ends");
        let told = format!("listening on {}\n", path.display());
        assert_eq!(
            (end.status.code(), text(&end.stdout)),
            (Some(0), told),
            "{}",
            text(&end.stderr)
        );
        assert!(path.exists(), "the socket of the service manager is gone");
    }
    // A socket that others could use, or at another place, is not the gateway's.
    private(&path, 0o666);
    let open = serve().wait_with_output().expect("it ends");
    assert_eq!(open.status.code(), Some(122), "{}", text(&open.stdout));
    assert!(text(&open.stderr).contains("is open to others"), "{}", text(&open.stderr));
    private(&path, 0o600);
    drop(listener);
    std::fs::remove_dir_all(&runtime).expect("removed");
    let undone = place.output(["setup", "--undo", "--all"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone.stderr));
    assert!(!units.exists(), "left: {}", units.display());
}
