//! Background tasks, through the executable: what runs on, what can be read of it, and how it ends.

use std::io::Read as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::{Gateway, Peer, listening};
use stockade_tests::{Place, until, write_to_reader};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A command that waits until the test lets it go on.
const GATE: &str = "mkfifo -m 600 gate 2>/dev/null; echo one; echo two >&2; read line < gate; echo \"$line\"; exit 3";

/// Starts a background task and returns its ID.
fn start(place: &Place, options: &[&str], line: &str) -> String {
    let arguments = [&["run", "--quiet", "--background"], options, &["--", line]].concat();
    let output = place.output(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Asks for tasks and returns the exit status and the object of `--json`.
fn tasks(place: &Place, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = place.output([&["tasks"], arguments, &["--json"]].concat());
    let object = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), object)
}

/// Waits until the output of a task holds `wanted`, and returns all of it.
fn output_with(place: &Place, id: &str, wanted: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, object) = tasks(place, &["output", id, "--offset", "0"]);
        let found = object["output"]["text"].as_str().unwrap_or_default().to_owned();
        if found.contains(wanted) || Instant::now() > end {
            return found;
        }
        std::thread::yield_now();
    }
}

fn let_go_on(place: &Place, line: &str) {
    write_to_reader(&place.project().join("gate"), &format!("{line}\n"));
}

fn error(output: &Output) -> String {
    text(&output.stderr).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_task_runs_on_after_the_call_and_its_output_and_status_are_exact() {
    let place = Place::new("ta-basic");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &["--description", "the gate"], GATE);
    assert_eq!(output_with(&place, &id, "two\n"), "one\ntwo\n");
    let (status, object) = tasks(&place, &["show", &id]);
    let task = &object["task"];
    assert_eq!(
        (status, &task["state"], &task["exit_code"]),
        (Some(0), &json!("running"), &Value::Null)
    );
    assert_eq!((&task["description"], &task["command"]), (&json!("the gate"), &json!(GATE)));
    let (status, object) = tasks(&place, &["wait", &id, "--timeout", "1ms"]);
    assert_eq!((status, &object["task"]["state"]), (Some(124), &json!("running")));
    let_go_on(&place, "three");
    let (status, object) = tasks(&place, &["wait", &id]);
    let task = &object["task"];
    let ended = (&task["state"], &task["reason"], &task["exit_code"]);
    assert_eq!((status, ended), (Some(3), (&json!("failed"), &json!("exit status 3"), &json!(3))));
    assert_eq!(output_with(&place, &id, "three"), "one\ntwo\nthree\n");
    // The record has the same end, and names the task as its decision.
    let why = place.output(["audit", "why", &id]);
    assert!(why.status.success() && text(&why.stdout).contains("exit 3"), "{}", text(&why.stdout));
}

#[test]
fn output_is_read_since_the_last_time_from_an_offset_or_by_matching_lines() {
    let place = Place::new("ta-output");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &[], "for i in 1 2 3; do echo ok $i; echo error $i; done");
    tasks(&place, &["wait", &id]);
    let read = |arguments: &[&str]| {
        text(&place.output([&["tasks", "output", &id], arguments].concat()).stdout)
    };
    assert_eq!(read(&["--filter", "^error [12]"]), "error 1\nerror 2\n");
    assert_eq!(read(&[]), "");
    assert_eq!(read(&["--offset", "26"]), "ok 3\nerror 3\n");
    // Any four characters from the end of the ID name the task.
    let named = place.output(["tasks", "output", &id[id.len() - 6..], "--offset", "0"]);
    assert_eq!(text(&named.stdout).lines().count(), 6);
    for (arguments, told) in [
        (&["--offset", "40"][..], "stockade: offset 40 is past the end of the output (39 bytes)"),
        (&["--filter", "("], "stockade: invalid filter `(`: error: unclosed group"),
    ] {
        let output = place.output([&["tasks", "output", &id], arguments].concat());
        assert_eq!((output.status.code(), error(&output).as_str()), (Some(122), told));
    }
    let output = place.output(["tasks", "output", "nothing"]);
    assert_eq!(
        (output.status.code(), error(&output).as_str()),
        (Some(122), "stockade: no task `nothing`")
    );
}

#[test]
fn follow_prints_everything_and_ends_with_the_status() {
    let place = Place::new("ta-follow");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &[], GATE);
    let mut follow = place.stockade(["tasks", "follow", &id]);
    let mut follow =
        follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut stdout = follow.stdout.take().expect("its output");
    let mut first = [0; 8];
    stdout.read_exact(&mut first).expect("what was written so far");
    assert_eq!(&first, b"one\ntwo\n");
    let_go_on(&place, "last");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("the rest");
    assert_eq!((rest.as_str(), follow.wait().expect("its end").code()), ("last\n", Some(3)));
    let matching = place.output(["tasks", "follow", &id, "--filter", "o", "--per-minute", "1"]);
    assert_eq!(text(&matching.stdout), "one\n[1 more matching lines]\n");
}

#[test]
fn a_stopped_task_says_who_stopped_it_and_leaves_no_process() {
    let place = Place::new("ta-stop");
    let _gateway = Gateway::start(&place);
    let nap = nap(1);
    let line = format!("(trap '' TERM; setsid {nap}) & {nap}; wait");
    let id = start(&place, &[], &line);
    let output = place.output(["tasks", "stop", &id]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(error(&output), format!("stockade: task {id} stopped: stopped on request"));
    assert_eq!(running(&nap), 0);
    // Once more changes nothing.
    let again = place.output(["tasks", "stop", &id]);
    assert!(again.status.success() && error(&again).ends_with("it had already ended"));
}

/// Returns a command that sleeps, and whose command line no other test has.
fn nap(digit: u32) -> String {
    format!("sleep 9{digit}{}", std::process::id())
}

/// Returns how many processes have this command line.
fn running(command: &str) -> usize {
    let line = command.replace(' ', "\0") + "\0";
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes())
    })
    .count()
}

#[test]
fn at_its_time_limit_a_command_goes_to_the_background_when_that_is_asked_for() {
    let place = Place::new("ta-limit");
    let _gateway = Gateway::start(&place);
    let arguments =
        ["run", "--json", "--timeout", "300ms", "--on-timeout", "background", "--", GATE];
    let output = place.output(arguments);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let id = object["task_id"].as_str().expect("a task").to_owned();
    assert_eq!((output.status.code(), &object["task"]["state"]), (Some(0), &json!("running")));
    // Output from before the limit is kept as well.
    assert_eq!(output_with(&place, &id, "two\n"), "one\ntwo\n");
    let_go_on(&place, "late");
    assert_eq!(tasks(&place, &["wait", &id]).0, Some(3));
    assert_eq!(output_with(&place, &id, "late"), "one\ntwo\nlate\n");
    // A background task with a time limit of its own is stopped by it.
    let id = start(&place, &["--timeout", "300ms"], "sleep 98762");
    let (_, object) = tasks(&place, &["wait", &id]);
    let task = &object["task"];
    assert_eq!(
        (&task["state"], &task["reason"]),
        (&json!("failed"), &json!("its time limit passed"))
    );
}

#[test]
fn a_gateway_that_is_stopped_or_killed_leaves_tasks_with_a_true_state() {
    let place = Place::new("ta-gateway-end");
    let gateway = Gateway::start(&place);
    let nap = nap(2);
    let id = start(&place, &[], &nap);
    assert_eq!(gateway.end(), Some(0));
    let (_, object) = tasks(&place, &["show", &id]);
    let task = &object["task"];
    let found = (&task["state"], &task["reason"]);
    assert_eq!(found, (&json!("stopped"), &json!("the gateway was stopped")));
    let gateway = Gateway::start(&place);
    let id = start(&place, &[], &nap);
    gateway.kill();
    let (status, object) = tasks(&place, &["wait", &id]);
    let task = &object["task"];
    let found = (status, &task["state"], &task["reason"]);
    assert_eq!(found, (Some(122), &json!("lost"), &json!("the gateway that ran it is gone")));
    until("no process is left", || running(&nap) == 0);
    assert!(place.output(["audit", "verify"]).status.success());
}

#[test]
fn a_session_sees_its_own_tasks_alone() {
    let place = Place::new("ta-session");
    let _gateway = Gateway::start(&place);
    let one = start(&place, &["--session", "one"], "true");
    let two = start(&place, &["--session", "two"], "true");
    let ids = |arguments: &[&str]| {
        let (_, object) = tasks(&place, &[&["list"], arguments].concat());
        let all = object["tasks"].as_array().expect("a list").clone();
        all.iter()
            .map(|it| it["task_id"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--session", "one"]), std::slice::from_ref(&one));
    assert_eq!(ids(&[]), [one.clone(), two]);
    let other = place.output(["tasks", "show", &one, "--session", "two"]);
    assert_eq!(
        (other.status.code(), error(&other)),
        (Some(122), format!("stockade: no task `{one}`"))
    );
}

fn request(place: &Place, line: &str, session: &str) -> Value {
    json!({"command": {"shell": line}, "cwd": place.project(), "timeout_ms": null, "background": true,
        "pty": false, "description": null, "unsandboxed": false, "stdin": false,
        "context": {"settings": [], "setting_sources": null, "mode": null, "allowed_tools": [],
            "disallowed_tools": [], "import": [], "additional_directories": [], "project": null, "profile": null,
            "session": session, "interactive": false,
            "environment": [["PATH", "/usr/bin:/bin"], ["HOME", place.home()]], "door": "socket", "agent": null}})
}

/// Waits for the answer to the last request.
fn answer(peer: &mut Peer) -> Value {
    loop {
        let message = peer.message().expect("an answer");
        if message["method"].is_null() {
            return message;
        }
    }
}

#[test]
fn tasks_end_with_the_session_of_the_connection_and_not_with_another_one() {
    let place = Place::new("ta-session-end");
    let gateway = Gateway::start(&place);
    let (mut first, mut second) = (gateway.greet(), gateway.greet());
    first.request("run", request(&place, "sleep 98764", "first"));
    let id =
        answer(&mut first)["result"]["background"]["task_id"].as_str().expect("a task").to_owned();
    second.request("run", request(&place, "sleep 98764", "second"));
    answer(&mut second);
    drop(second);
    let own = json!({"act": "wait", "task_id": id, "timeout_ms": 1});
    first.request("task", own);
    let waited = answer(&mut first);
    assert_eq!(waited["result"]["tasks"][0]["state"], "running", "{waited}");
    drop(first);
    let (_, object) = tasks(&place, &["wait", &id]);
    let task = &object["task"];
    assert_eq!((&task["state"], &task["reason"]), (&json!("stopped"), &json!("its session ended")));
}

#[test]
fn what_needs_a_person_or_is_denied_starts_no_task() {
    let place = Place::new("ta-refused");
    let settings = r#"{"permissions":{"deny":["Bash(id:*)"],"ask":["Bash(date:*)"]}}"#;
    place.write("home/.config/stockade/settings.json", settings);
    let _gateway = Gateway::start(&place);
    for (line, status) in [("id -u", 120), ("date", 121)] {
        let output = place.output(["run", "--background", "--", line]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(status), String::new()));
    }
    assert_eq!(tasks(&place, &["list"]), (Some(0), json!({"tasks": []})));
}

#[test]
fn the_folder_of_a_task_holds_no_secret_of_its_command() {
    let place = Place::new("ta-secret");
    let _gateway = Gateway::start(&place);
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let id = start(&place, &[], &format!("GH_TOKEN={token} true"));
    let (_, object) = tasks(&place, &["wait", &id]);
    let path = object["task"]["output_path"].as_str().expect("a path").to_owned();
    let about = std::path::Path::new(&path).with_file_name("task.json");
    let about = std::fs::read_to_string(about).expect("the file of the task");
    assert!(about.contains("GH_TOKEN=") && !about.contains(token), "{about}");
}

#[test]
fn prune_removes_what_has_ended_and_nothing_that_runs() {
    let place = Place::new("ta-prune");
    let _gateway = Gateway::start(&place);
    let ended = start(&place, &[], "echo gone");
    tasks(&place, &["wait", &ended]);
    let runs = start(&place, &[], "sleep 98765");
    let removed =
        |arguments: &[&str]| tasks(&place, &[&["prune", "--keep", "0"], arguments].concat()).1;
    assert_eq!(removed(&["--dry-run"])["removed"], json!([ended]));
    assert_eq!(tasks(&place, &["show", &ended]).0, Some(0));
    assert_eq!(removed(&[])["removed"], json!([ended]));
    assert_eq!(tasks(&place, &["show", &ended]).0, Some(122));
    assert_eq!(tasks(&place, &["show", &runs]).1["task"]["state"], "running");
}

#[test]
fn a_folder_that_is_removed_meanwhile_ends_nothing() {
    let place = Place::new("ta-removed");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &[], GATE);
    output_with(&place, &id, "two\n");
    let (_, object) = tasks(&place, &["show", &id]);
    let path = object["task"]["output_path"].as_str().expect("a path").to_owned();
    std::fs::remove_dir_all(std::path::Path::new(&path).parent().expect("a folder"))
        .expect("removed");
    let_go_on(&place, "end");
    // The record of the end comes all the same.
    let end = Instant::now() + Duration::from_secs(60);
    let why = || text(&place.output(["audit", "why", &id]).stdout);
    while !why().contains("exit 3") && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(why().contains("exit 3"), "{}", why());
    assert_eq!(tasks(&place, &["show", &id]).0, Some(122));
}

#[test]
fn ten_first_calls_at_once_start_one_gateway_that_holds_nothing_of_them() {
    let place = Place::new("ta-first-calls");
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let mut call = place.stockade(["run", "--quiet", "--background", "--", "sleep 98766"]);
            call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    // The end of both pipes comes: nobody who runs on holds them.
    let ended: Vec<Output> =
        calls.into_iter().map(|it| it.wait_with_output().expect("its end")).collect();
    let failed: Vec<String> =
        ended.iter().filter(|it| !it.status.success()).map(|it| text(&it.stderr)).collect();
    assert_eq!(failed, Vec::<String>::new());
    let socket = place.root.join("runtime/stockade/gateway.sock");
    let found = listening(&socket);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(tasks(&place, &["list", "--running"]).1["tasks"].as_array().map(Vec::len), Some(10));
    let pid = found[0].to_string();
    let session = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let fields: Vec<&str> =
        session.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // In a session that is not of this process, without a terminal (proc(5), fields 6 and 7).
    let own = std::fs::read_to_string("/proc/self/stat").expect("own state");
    let own =
        own.rsplit(')').next().unwrap_or_default().split_whitespace().nth(3).map(str::to_owned);
    assert!(own.as_deref() != fields.get(3).copied() && fields.get(4) == Some(&"0"), "{session}");
    let variables = std::fs::read(format!("/proc/{pid}/environ")).expect("its environment");
    assert!(!text(&variables).contains("CARGO"), "{}", text(&variables));
    assert!(Command::new("kill").arg(&pid).status().expect("kill starts").success());
    let end = Instant::now() + Duration::from_secs(60);
    let running = || tasks(&place, &["list", "--running"]).1;
    while running() != json!({"tasks": []}) && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(running(), json!({"tasks": []}));
}

#[test]
fn a_gateway_without_work_ends_by_itself() {
    let place = Place::new("ta-idle");
    let output = place.output(["serve", "--detach", "--idle", "10ms"]);
    let socket = place.root.join("runtime/stockade/gateway.sock");
    assert_eq!(
        text(&output.stdout),
        format!("listening on {}\n", socket.display()),
        "{}",
        text(&output.stderr)
    );
    let end = Instant::now() + Duration::from_secs(60);
    while socket.exists() && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(!socket.exists());
    let broken = place.output(["serve", "--detach", "--socket", "/proc/none/socket"]);
    assert_eq!(broken.status.code(), Some(122));
    assert!(
        error(&broken).starts_with("stockade: the gateway cannot be started: cannot listen at"),
        "{}",
        error(&broken)
    );
}

#[test]
fn a_sandboxed_command_sees_no_task_and_starts_no_gateway() {
    let place = Place::new("ta-confined");
    let line = |arguments: &str| format!("{} {arguments}", stockade_tests::stockade_word());
    let output = place.output(["run", "--no-daemon", "--", &line("tasks list")]);
    assert_eq!(
        (output.status.code(), error(&output).as_str()),
        (Some(122), "stockade: a sandboxed command cannot see background tasks")
    );
    let nap = nap(3);
    let background = line(&format!("run --background -- {nap}"));
    let output = place.output(["run", "--no-daemon", "--", &background]);
    let told = "stockade: a sandboxed command cannot start background tasks";
    assert_eq!((output.status.code(), error(&output).as_str()), (Some(122), told));
    assert_eq!(running(&nap), 0);
}

#[test]
fn two_outputs_that_go_to_one_place_keep_their_order() {
    let place = Place::new("ta-order");
    let both = std::fs::File::create(place.root.join("both")).expect("a file");
    let line = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done";
    let mut command = place.stockade(["run", "--no-daemon", "--", line]);
    command.stdout(both.try_clone().expect("a copy")).stderr(both);
    assert!(command.status().expect("it runs").success());
    let wanted: String = (1..10).map(|n| format!("o{n}\ne{n}\n")).collect();
    assert_eq!(std::fs::read_to_string(place.root.join("both")).expect("the file"), wanted);
    // Two places stay two.
    let output = place.output(["run", "--no-daemon", "--", "echo o; echo e >&2"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("o\n", "e\n"));
}
