//! A session whose processes are killed at any moment, whose disk is full, or whose log is not one: nothing that was told is
//! lost, and there is one clear answer.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stockade_model_server::{Form, Server};
use stockade_tests::{Place, executable, skip, stockade};

use super::host::Host;
use super::{SECRET, agent, call, run, say, script, text};

const ID: &str = "66666666-6666-4666-8666-666666666666";
/// Rounds of the loop of kills.
const ROUNDS: usize = 10;
/// Longest wait for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers that look like chance (Marsaglia, Xorshift RNGs, 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns the seed: that of `STOCKADE_TEST_SEED`, or another one each time.
fn seed() -> u64 {
    let given = std::env::var("STOCKADE_TEST_SEED").ok().and_then(|it| it.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos();
    given.unwrap_or_else(|| u64::try_from(now & 0xffff_ffff).expect("32 bits") | 1)
}

fn events(place: &Place) -> PathBuf {
    place.state().join("agent/sessions").join(ID).join("events.jsonl")
}

/// Returns the events of a log, whose last line may be cut.
fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the process and all that it started.
fn tree(root: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let all: Vec<u32> = std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(all.iter().filter(|pid| parent(**pid) == Some(above)));
        next += 1;
    }
    found
}

fn kill(pid: u32) {
    // The process may have exited already.
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Each call of the last request has a result.
fn every_call_has_its_result(messages: &Value, round: usize) {
    let blocks = |key: &str, name: &str| -> BTreeSet<String> {
        let of_message = |it: &Value| it["content"].as_array().cloned().unwrap_or_default();
        let all = messages.as_array().expect("messages").iter().flat_map(of_message);
        let fits = all.filter(|it| it["type"] == name);
        fits.map(|it| it[key].as_str().expect("an identity").to_owned()).collect()
    };
    assert_eq!(blocks("id", "tool_use"), blocks("tool_use_id", "tool_result"), "round {round}");
}

/// One turn of some calls; the answers name the round.
fn turn(round: usize) -> Server {
    let id = |name: &str| format!("{name}{round}");
    let write = |name: &str| {
        let input = json!({ "file_path": format!("{}.txt", id(name)), "content": "x" });
        call(&id(name), "Write", input)
    };
    let todos = json!({ "todos": [{ "content": format!("todo {round}"), "status": "pending" }] });
    let answers = [
        vec![write("a"), call(&id("t"), "TodoWrite", todos)],
        vec![call(&id("b"), "Bash", json!({ "command": "echo ran" }))],
        vec![write("c"), write("d")],
        vec![call(&id("e"), "Bash", json!({ "command": "echo again" }))],
        vec![say("done")],
    ];
    script(Form::Anthropic, &answers.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn kills_at_any_moment_lose_no_event_that_was_acknowledged() {
    let seed = seed();
    println!("STOCKADE_TEST_SEED={seed}");
    let (place, mut chance) = (Place::new("ag-kills"), Chance(seed));
    let (mut told, mut killed) = (Vec::new(), 0);
    for round in 0..=ROUNDS {
        let (prompt, begun) = (format!("words of round {round}"), Instant::now());
        let goes_on = events(&place).exists();
        let which = if goes_on { "--resume" } else { "--session-id" };
        let whole = ["-p", &prompt, which, ID, "--permission-mode", "acceptEdits"];
        let stream = ["--output-format", "stream-json", "--verbose", "--session-mirror"];
        let (server, mut child) = loop {
            let server = turn(round);
            let mut command =
                agent(&place, &server, Form::Anthropic, &[&whole[..], &stream].concat());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("the agent starts");
            let mut lines = BufReader::new(child.stdout.take().expect("output")).lines();
            // The keeper of the round before holds the session until it sees that its agent is gone.
            if let Some(Ok(first)) = lines.next() {
                told.push(first);
                break (server, (child, lines));
            }
            let output = child.wait_with_output().expect("an end");
            let why = text(&output.stderr);
            assert!(why.contains("in use") && begun.elapsed() < PATIENCE, "seed {seed}: {why}");
        };
        let (child, lines) = (&mut child.0, &mut child.1);
        let frames = if round == ROUNDS { u64::MAX } else { chance.below(28) };
        for line in lines.by_ref().take(usize::try_from(frames).unwrap_or(usize::MAX)) {
            told.push(line.expect("a line"));
        }
        if round < ROUNDS {
            std::thread::sleep(Duration::from_micros(chance.below(8_000)));
            let all = tree(child.id());
            let at = usize::try_from(chance.below(all.len() as u64 + 1)).expect("small");
            // One of them, or all.
            all.get(at).map_or_else(|| all.iter().for_each(|pid| kill(*pid)), |pid| kill(*pid));
            kill(child.id());
            killed += 1;
        }
        told.extend(lines.map_while(Result::ok));
        child.wait().expect("an end");
        let asked = server.received();
        asked.iter().for_each(|it| every_call_has_its_result(&it.body["messages"], round));
        let acknowledged = acknowledged(&told);
        let stored = stored(&read(&events(&place)));
        let lost: Vec<&String> = acknowledged.iter().filter(|it| !stored.contains(*it)).collect();
        assert!(lost.is_empty(), "seed {seed}, round {round}: {lost:?}");
        if round == ROUNDS {
            let last = asked.last().expect("a request").body["messages"].to_string();
            let words = |at: usize| format!("words of round {at}\"");
            let missing: Vec<usize> = (0..=ROUNDS)
                .filter(|at| told.iter().any(|it| is_mirror(it) && it.contains(&words(*at))))
                .filter(|at| !last.contains(&format!("words of round {at}")))
                .collect();
            assert!(missing.is_empty(), "seed {seed}: {missing:?} are not in {last}");
        }
    }
    assert_eq!(killed, ROUNDS);
    assert!(!acknowledged(&told).is_empty());
}

fn is_mirror(frame: &str) -> bool {
    frame.contains("\"transcript_mirror\"")
}

/// Messages of which a host was told that they are stored.
fn acknowledged(frames: &[String]) -> Vec<String> {
    let frames = frames.iter().filter(|it| is_mirror(it));
    let frames = frames.filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let entries = frames.flat_map(|it| it["entries"].as_array().cloned().unwrap_or_default());
    entries.filter_map(|it| it["uuid"].as_str().map(str::to_owned)).collect()
}

fn stored(events: &[Value]) -> BTreeSet<String> {
    events.iter().filter_map(|it| it["data"]["uuid"].as_str().map(str::to_owned)).collect()
}

/// Says why no file system can be mounted here, if none can.
fn hindrance() -> Option<String> {
    let mount = "mount -t tmpfs -o size=64k none /mnt";
    match Command::new("unshare").args(["-m", "sh", "-c", mount]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(text(&output.stderr)),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn a_disk_that_is_full_in_a_turn_stops_changes_and_loses_nothing() {
    if let Some(reason) = hindrance() {
        let test = "a_disk_that_is_full_in_a_turn_stops_changes_and_loses_nothing";
        return skip(test, &format!("no small file system can be mounted: {reason}"));
    }
    drop(executable("stockade-agent"));
    let place = Place::new("ag-full");
    let write =
        |id: &str| call(id, "Write", json!({ "file_path": format!("{id}.txt"), "content": "x" }));
    let wait = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo waited; head -c 9000 /dev/zero | tr '\\0' x";
    let server = script(
        Form::Anthropic,
        &[
            &[call("w", "Bash", json!({ "command": wait }))],
            &[write("no"), call("t", "Bash", json!({ "command": "touch no.txt" }))],
            &[say("first done")],
            &[write("yes")],
            &[say("second done")],
        ],
    );
    let disk = place.state().join("agent/sessions");
    std::fs::create_dir_all(&disk).expect("a folder");
    let script = "mount -t tmpfs -o size=512k,mode=700 none \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(&disk).arg(stockade()).arg("agent");
    command.args(["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]);
    command.args(["--permission-mode", "acceptEdits", "--session-id", ID]);
    let own = place.stockade([""; 0]);
    command.env_clear().envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", SECRET);
    command.env("STOCKADE_MODEL_TRIES", "1").current_dir(place.project());
    let mut host = Host::of(command.stderr(Stdio::piped()));
    host.user("first words");
    let begun = Instant::now();
    while !place.project().join("begun").exists() {
        assert!(begun.elapsed() < PATIENCE, "the command does not begin");
        std::thread::yield_now();
    }
    // The file system is another one in there.
    let seen = PathBuf::from(format!("/proc/{}/root{}", host.id(), disk.display()));
    let filler = seen.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write(&[0; 512]).is_ok_and(|count| count > 0) {}
    drop(file);
    std::fs::write(place.project().join("go"), "").expect("a file");
    host.until("result");
    assert!(!place.project().join("no.txt").exists(), "a change that cannot be recorded was made");
    let told = server.received()[2].body["messages"].to_string();
    assert!(told.contains("the session cannot be stored"), "{told}");
    assert!(
        !std::fs::read_to_string(seen.join(ID).join("events.jsonl"))
            .expect("a log")
            .contains("first done")
    );
    std::fs::remove_file(&filler).expect("it was there");
    host.user("second words");
    host.until("result");
    let told = server.received().pop().expect("a request").body["messages"].to_string();
    let changed = std::fs::read_to_string(place.project().join("yes.txt"));
    assert!(changed.is_ok_and(|it| it == "x"), "{told}");
    let log = seen.join(ID).join("events.jsonl");
    let said: Vec<String> = read(&log)
        .iter()
        .filter(|it| it["type"] == "user.message" || it["type"] == "assistant.message")
        .map(|it| it["data"]["content"].to_string())
        .collect();
    let order = [
        "first words",
        "touch begun",
        "waited",
        "touch no.txt",
        "the session cannot be stored",
        "the session cannot be stored",
        "first done",
        "second words",
        "yes.txt",
        "tool_result",
        "second done",
    ];
    assert_eq!(said.len(), order.len(), "{said:#?}");
    for (said, words) in said.iter().zip(order) {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(host.end(), Some(0));
}

/// Begins a session.
fn begin(place: &Place) {
    let server = script(Form::Anthropic, &[&[say("done")]]);
    let output = run(place, &server, &["-p", "blue words", "--session-id", ID]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Tries to go on, and returns what is said; the model hears nothing.
fn refused(place: &Place, options: &[&str]) -> String {
    let server = script(Form::Anthropic, &[&[say("no")]]);
    let output = run(place, &server, &[&["-p", "go on"], options].concat());
    let said = text(&output.stderr);
    assert_eq!(server.received().len(), 0, "{options:?}: {said}");
    assert_ne!(output.status.code(), Some(0), "{options:?}: {said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("stockade: ")).count(), 1, "{said}");
    said
}

#[test]
fn a_log_that_is_none_is_refused_in_one_sentence_and_left_as_it_is() {
    let place = Place::new("ag-logs");
    begin(&place);
    let log = events(&place);
    let whole = std::fs::read_to_string(&log).expect("a log");
    let later = format!("{}{}\n", whole, json!({ "v": 2, "sort": "of a later form" }));
    for (text, reason) in [
        (later.as_str(), "was written by a later version (event format 2)"),
        ("no event\n", "is not the log of a session"),
        (whole.lines().nth(1).expect("a second line"), "is not the log of a session"),
    ] {
        let text = format!("{}\n", text.trim_end());
        std::fs::write(&log, &text).expect("a log");
        let said = refused(&place, &["--resume", ID]);
        assert!(said.contains(reason) && said.contains("events.jsonl"), "{said}");
        assert_eq!(std::fs::read_to_string(&log).expect("a log"), text, "{reason}");
    }
    // A bad line and a cut one cost no more than themselves, and are told.
    std::fs::write(&log, format!("{whole}bad\n{{\"v\":1,\"cut")).expect("a log");
    let server = script(Form::Anthropic, &[&[say("more")]]);
    let output = run(&place, &server, &["-p", "go on", "--resume", ID]);
    let said = text(&output.stderr);
    assert!(said.contains("is not an event and is skipped") && said.contains("was cut"), "{said}");
    assert!(server.received()[0].body["messages"].to_string().contains("blue words"));
}

#[test]
fn a_log_of_another_user_is_refused() {
    let place = Place::new("ag-foreign");
    begin(&place);
    let log = events(&place);
    if log.metadata().expect("a log").uid() != 0 {
        return skip("a_log_of_another_user_is_refused", "only root gives files away");
    }
    std::os::unix::fs::chown(&log, Some(65_534), Some(65_534)).expect("another owner");
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    let before = std::fs::read(&log).expect("a log");
    let said = refused(&place, &["--resume", ID]);
    assert!(said.contains("belongs to another user"), "{said}");
    assert_eq!(std::fs::read(&log).expect("a log"), before);
}

#[test]
fn names_that_are_paths_and_names_of_two_sessions_are_told_and_touch_nothing() {
    let place = Place::new("ag-names");
    begin(&place);
    let listed = || text(&place.output(["agent", "sessions", "list"]).stdout);
    for path in ["../../x", "/etc/passwd", "..", ".", "a/b", "\u{202e}"] {
        let said = refused(&place, &["--resume", path]);
        assert!(said.contains("No conversation found with session ID"), "{path}: {said}");
    }
    let said = refused(&place, &["--resume", ""]);
    assert!(said.contains("name one with `--resume ID`"), "{said}");
    for path in ["../x", "/tmp/x", "..", "no-uuid", ""] {
        let said = refused(&place, &["--session-id", path]);
        assert!(said.contains("is not a UUID"), "{path}: {said}");
    }
    let said = refused(&place, &["--name", "two\nlines"]);
    assert!(said.contains("cannot be the name of a session"), "{said}");
    assert!(
        !place.state().join("agent/x").exists() && listed().lines().count() <= 2,
        "{}",
        listed()
    );
    let other = ID.replace('6', "7");
    let server = script(Form::Anthropic, &[&[say("done")]]);
    drop(run(&place, &server, &["-p", "green words", "--session-id", &other]));
    for id in [ID, &other] {
        assert!(place.output(["agent", "sessions", "rename", id, "Twice"]).status.success());
    }
    let said = refused(&place, &["--resume", "twice"]);
    assert!(said.contains(ID) && said.contains(&other) && said.contains("several"), "{said}");
    let removed = place.output(["agent", "sessions", "delete", "twice"]);
    assert_eq!(removed.status.code(), Some(1));
    assert!(listed().contains(ID) && listed().contains(&other), "{}", listed());
    // The identity of an existing session is not given to a new one.
    let said = refused(&place, &["--session-id", ID]);
    assert!(said.contains("is there already"), "{said}");
}
