//! Sessions of the agent: found again by name, nearness and prefix, kept whole through a kill, and used by one at a time.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_model_server::{Form, Server, Turn};
use stockade_tests::{Place, executable};

use super::{agent, call, run, say, script, text};

fn one(turns: &[Turn]) -> Server {
    script(Form::Anthropic, &[turns])
}

/// Begins a session with these words and options, and returns its identity.
fn begin(place: &Place, words: &str, options: &[&str]) -> String {
    let arguments = [&["-p", words, "--output-format", "json"], options].concat();
    let output = run(place, &one(&[say("done")]), &arguments);
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    result["session_id"].as_str().expect("an identity").to_owned()
}

/// Goes on with a session, and returns what the model was told and what the agent said.
fn go_on(place: &Place, options: &[&str]) -> (String, Output) {
    let server = one(&[say("more")]);
    let arguments = [&["-p", "go on"], options].concat();
    let output = run(place, &server, &arguments);
    let told = server.received().pop().map(|it| it.body["messages"].to_string());
    (told.unwrap_or_default(), output)
}

fn sessions(place: &Place, arguments: &[&str]) -> Output {
    let arguments = [&["agent", "sessions"], arguments].concat();
    place.output(arguments)
}

#[test]
fn a_session_is_found_again_by_name_prefix_and_nearness() {
    let place = Place::new("ag-find");
    let first = begin(&place, "blue words", &["--name", "The Task"]);
    let second = begin(&place, "green words", &[]);
    for (option, words) in
        [("the task", "blue words"), (&first[..13], "blue words"), (&second, "green words")]
    {
        let (told, output) = go_on(&place, &["--resume", option]);
        assert!(told.contains(words), "{option}: {told} {}", text(&output.stderr));
    }
    // The newest here, and nothing from elsewhere.
    assert!(go_on(&place, &["--continue"]).0.contains("green words"));
    let other = place.root.join("other");
    std::fs::create_dir_all(&other).expect("a folder");
    let server = one(&[say("new")]);
    let elsewhere = agent(&place, &server, Form::Anthropic, &["-p", "hi", "--continue"])
        .current_dir(&other)
        .output()
        .expect("it starts");
    assert_eq!(text(&elsewhere.stdout), "new", "{}", text(&elsewhere.stderr));
    let told = server.received()[0].body["messages"].to_string();
    assert!(!told.contains("words"), "{told}");
    let (_, unknown) = go_on(&place, &["--resume", "no such"]);
    assert!(text(&unknown.stderr).contains("No conversation found"), "{}", text(&unknown.stderr));
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn sessions_are_listed_shown_named_and_removed() {
    let place = Place::new("ag-list-sessions");
    let id = begin(&place, "blue words", &[]);
    let listed = text(&sessions(&place, &["list"]).stdout);
    assert!(listed.contains(&id) && listed.contains("blue words"), "{listed}");
    let shown = text(&sessions(&place, &["show", &id]).stdout);
    assert!(shown.contains("user") && shown.contains("done"), "{shown}");
    assert!(sessions(&place, &["rename", &id, "Blue"]).status.success());
    let json: Value =
        serde_json::from_slice(&sessions(&place, &["--json"]).stdout).expect("one object");
    assert_eq!(json["sessions"][0]["name"], "Blue");
    let dry = text(&sessions(&place, &["prune", "--older-than", "0d", "--dry-run"]).stdout);
    assert!(dry.contains(&id) && dry.contains("would be free"), "{dry}");
    let kept = text(&sessions(&place, &["prune", "--older-than", "0d", "--keep-named"]).stdout);
    assert_eq!(kept, "Nothing is that old.");
    let removed = text(&sessions(&place, &["delete", "blue"]).stdout);
    assert!(removed.contains("is removed"), "{removed}");
    assert_eq!(text(&sessions(&place, &[]).stdout), "There are no sessions.");
    let gone = sessions(&place, &["show", &id]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("No conversation found"), "{}", text(&gone.stderr));
}

#[test]
fn a_session_goes_to_another_machine_and_goes_on_there() {
    let place = Place::new("ag-export");
    let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let id = begin(&place, &format!("blue words {key}"), &[]);
    let file = place.project().join("s.tar.zst");
    let path = file.to_str().expect("a path");
    let told = sessions(&place, &["export", &id, path]);
    assert!(text(&told.stdout).contains("2 secrets masked"), "{told:?}");
    let again = sessions(&place, &["export", &id, path]);
    assert_eq!(again.status.code(), Some(1), "it overwrites");
    let here = sessions(&place, &["import", path]);
    assert!(text(&here.stderr).contains("is here already"), "{here:?}");
    let other = Place::new("ag-import");
    std::fs::copy(&file, other.project().join("s.tar.zst")).expect("a copy");
    let imported = sessions(&other, &["import", "s.tar.zst"]);
    assert!(text(&imported.stdout).starts_with(&id), "{imported:?}");
    let (told, _) = go_on(&other, &["--resume", &id]);
    assert!(told.contains("blue words [redacted]") && !told.contains(key), "{told}");
    let broken = sessions(&other, &["import", "/etc/hostname"]);
    assert!(text(&broken.stderr).contains("not an archive of a session"), "{broken:?}");
}

#[test]
fn old_sessions_without_a_name_go_by_themselves_where_settings_say_so() {
    let place = Place::new("ag-retention");
    let named = begin(&place, "named words", &["--name", "Keep"]);
    let [old, new] = ["old words", "new words"].map(|words| begin(&place, words, &[]));
    let folder = place.root.join("state/stockade/agent/sessions");
    for id in [&named, &old] {
        let log = std::fs::File::options().append(true).open(folder.join(id).join("events.jsonl"));
        let then = std::time::SystemTime::now() - Duration::from_secs(3 * 86_400);
        log.expect("a log").set_modified(then).expect("a time");
    }
    let settings = "{\n// two days\n\"cleanupPeriodDays\": 2\n}";
    place.write("home/.config/stockade/settings.json", settings);
    let begun = Instant::now();
    while folder.join(&old).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        begin(&place, "more words", &[]);
    }
    assert!(folder.join(&named).exists() && folder.join(&new).exists());
}

#[test]
fn a_session_stays_in_a_narrow_mode_and_takes_no_wide_one_from_its_log() {
    let place = Place::new("ag-mode");
    let mode = |options: &[&str]| {
        let server = one(&[say("done")]);
        run(&place, &server, &[&["-p", "go"], options].concat());
        let system = server.received()[0].body["system"].to_string();
        let rest = system.split("Permission mode: ").nth(1).expect("a mode").to_owned();
        rest.chars().take_while(char::is_ascii_alphabetic).collect::<String>()
    };
    for (begun, then) in [("plan", "plan"), ("dontAsk", "dontAsk"), ("acceptEdits", "default")] {
        let id = begin(&place, begun, &["--permission-mode", begun]);
        assert_eq!(mode(&["--resume", &id]), then);
        assert_eq!(mode(&["--resume", &id, "--permission-mode", "default"]), "default");
    }
}

#[test]
fn nothing_is_stored_without_a_message_or_when_nothing_is_to_be() {
    let place = Place::new("ag-nothing");
    drop(run(&place, &one(&[say("x")]), &["-p", "hi", "--no-session-persistence"]));
    assert_eq!(text(&sessions(&place, &[]).stdout), "There are no sessions.");
    let id = "22222222-2222-4222-8222-222222222222";
    assert_eq!(begin(&place, "hi", &["--session-id", id]), id);
    assert!(text(&sessions(&place, &[]).stdout).contains(id));
}

#[test]
fn a_session_that_is_in_use_is_not_opened_and_one_that_was_killed_goes_on_whole() {
    let place = Place::new("ag-kill");
    // No other run of the tests has such a command.
    let nap = format!("sleep 45.8{:07}", std::process::id());
    let todos = json!({ "todos": [{ "content": "keep me", "status": "pending" }] });
    let server = script(
        Form::Anthropic,
        &[
            &[
                call("t", "TodoWrite", todos),
                call("i", "TaskCreate", json!({ "subject": "and me", "description": "" })),
            ],
            &[call("a", "Bash", json!({ "command": format!("echo begun > begun; {nap}") }))],
            &[say("no")],
        ],
    );
    let id = "33333333-3333-4333-8333-333333333333";
    let mut child =
        agent(&place, &server, Form::Anthropic, &["-p", "first words", "--session-id", id])
            .stdout(Stdio::null())
            .spawn()
            .expect("the agent starts");
    let begun = Instant::now();
    while !place.project().join("begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the command does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, second) = go_on(&place, &["--resume", id]);
    let told = text(&second.stderr);
    assert!(told.contains("the session is in use by process"), "{told}");
    child.kill().expect("a kill");
    child.wait().expect("an end");
    // The keeper holds the lock until it sees that the agent is gone.
    let killed = Instant::now();
    let told = loop {
        let server =
            script(Form::Anthropic, &[&[call("l", "TaskList", json!({}))], &[say("more")]]);
        let output = run(&place, &server, &["-p", "go on", "--resume", id]);
        match server.received().pop() {
            Some(last) => break last.body["messages"].to_string(),
            None => assert!(killed.elapsed() < Duration::from_secs(60), "{}", text(&output.stderr)),
        }
    };
    for words in ["first words", "#1 [pending] and me"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // The agent may have lived long enough to see that its gateway was gone.
    let ends = ["The session ended before this call was finished", "the gateway went away before"];
    assert!(ends.iter().any(|words| told.contains(words)), "{told}");
    let left = Command::new("pgrep").args(["-f", &nap]).output().expect("pgrep");
    assert_eq!(text(&left.stdout), "");
}

#[test]
fn sessions_are_searched_by_words_and_the_index_is_made_anew_alike() {
    let place = Place::new("ag-search");
    let first = begin(&place, "paint the blue fence", &["--name", "Fence"]);
    let second = begin(&place, "count green birds", &[]);
    let found = |words: &[&str]| {
        let output = sessions(&place, &[&["search", "--json"], words].concat());
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        let ids = value["sessions"].as_array().expect("a list").clone();
        ids.iter().map(|it| it["id"].as_str().expect("an identity").to_owned()).collect::<Vec<_>>()
    };
    let database = place.root.join("state/stockade/agent/index.db");
    assert!(database.exists(), "the keeper writes as it goes");
    assert_eq!(found(&["blue", "fence"]), [first.as_str()]);
    assert_eq!(found(&["birds"]), [second.as_str()]);
    assert_eq!(found(&["done"]).len(), 2);
    let shown = text(&sessions(&place, &["search", "paint", "fence"]).stdout);
    assert!(shown.contains(&first) && shown.contains("user: paint the blue fence"), "{shown}");
    // Missing, spoilt, and what came and went since.
    std::fs::remove_file(&database).expect("it is there");
    assert_eq!(found(&["birds"]), [second.as_str()]);
    std::fs::write(&database, "no database".repeat(99)).expect("it is written");
    assert_eq!(found(&["birds"]), [second.as_str()]);
    assert!(sessions(&place, &["rename", &second, "Ornithology"]).status.success());
    assert_eq!(found(&["ornithology"]), [second.as_str()]);
    assert!(sessions(&place, &["delete", &first]).status.success());
    assert_eq!(found(&["fence"]), Vec::<String>::new());
    let anew = sessions(&place, &["reindex"]);
    assert_eq!(text(&anew.stdout), "1 session is indexed", "{}", text(&anew.stderr));
    assert_eq!(found(&["birds"]), [second.as_str()]);
    let nothing = sessions(&place, &["search", "*"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("no word to look for"), "{}", text(&nothing.stderr));
}

#[test]
fn usage_counts_each_answer_once_by_session_model_project_and_day() {
    let place = Place::new("ag-usage");
    let nothing = place.output(["usage"]);
    assert_eq!(text(&nothing.stdout), "No session used a model.", "{}", text(&nothing.stderr));
    let first = begin(&place, "one", &[]);
    let (_, output) =
        go_on(&place, &["--resume", &first, "--fork-session", "--output-format", "json"]);
    let copy: Value = serde_json::from_slice(&output.stdout).expect("a result");
    let copy = copy["session_id"].as_str().expect("an identity").to_owned();
    let report = |by: &str| -> Value {
        let output = place.output(["usage", "--by", by, "--json"]);
        serde_json::from_slice(&output.stdout).expect("a report")
    };
    let answers = |report: &Value| -> Vec<(String, u64, u64)> {
        let rows = report["rows"].as_array().expect("rows").iter().map(|row| {
            let name = row[report["by"].as_str().expect("a word")].as_str().expect("a name");
            let used = &row["aggregate"];
            assert_eq!(row["root"], *used);
            (
                name.to_owned(),
                used["answers"].as_u64().unwrap(),
                used["input_tokens"].as_u64().unwrap(),
            )
        });
        rows.collect()
    };
    let mut both = vec![(first, 1, 10), (copy, 1, 10)];
    both.sort();
    assert_eq!(answers(&report("session")), both);
    for by in ["day", "project", "model"] {
        let report = report(by);
        let rows = answers(&report);
        assert_eq!((rows.len(), rows[0].1, rows[0].2), (1, 2, 20), "{report}");
        assert_eq!(report["total"]["aggregate"]["answers"], 2);
    }
    let project = place.project().display().to_string();
    assert_eq!(answers(&report("project"))[0].0, project);
    let table = text(&place.output(["usage", "--by", "session"]).stdout);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.lines().last().is_some_and(|line| line.starts_with("total ")), "{table}");
    // The form of times is that of `stockade events`.
    for all in ["7d", "-7d", "2020-01-01T00:00:00Z"] {
        let told = text(&place.output(["usage", "--by", "session", "--since", all]).stdout);
        assert_eq!(told, table, "{all}");
    }
    for nothing in ["0m", "-0m", "2099-01-01T00:00:00Z"] {
        let none = text(&place.output(["usage", "--since", nothing]).stdout);
        assert_eq!(none, "No session used a model.", "{nothing}");
    }
    let bad = place.output(["usage", "--since", "yesterday"]);
    assert_eq!(bad.status.code(), Some(122));
    assert!(
        text(&bad.stderr)
            .contains("`yesterday` is no time; write 2h, 7d, today or 2026-01-31T08:00:00Z")
    );
}

#[test]
fn bad_input_of_session_commands_has_an_answer_that_fits() {
    let place = Place::new("ag-sessions-bad");
    drop(executable("stockade-agent"));
    place.write("project/there", "x");
    let start = json!({ "v": 1, "id": "e", "parent": null, "at": "2026-01-01T00:00:00.000Z",
        "type": "session.start", "data": { "session": "aaaa", "cwd": "/p" } });
    place.write("state/stockade/agent/sessions/aaaa/events.jsonl", &format!("{start}\n"));
    place.write("state/stockade/agent/sessions/bad/events.jsonl", "{}\n");
    let all = "`stockade agent sessions list` shows all";
    let makes = "`stockade agent sessions export SESSION FILE` makes a file to import";
    let one = "choose a name of one line";
    let prunes = "`stockade agent sessions prune --older-than 30d --dry-run` lists what would go";
    let finds = "`stockade agent sessions search WORD` finds sessions by words";
    let rows: [(&[&str], &str, &str); 11] = [
        (&["show", "../aaaa"], "No conversation found with session ID: ../aaaa", all),
        (&["show", ""], "No conversation found with session ID", all),
        (&["show", "bad"], "its first event must be `session.start`", all),
        (&["rename", "aaaa", "a\nb"], "`a\\nb` cannot be the name of a session", one),
        (
            &["export", "aaaa", "there"],
            "`there` cannot be made",
            "name a file that is not there yet",
        ),
        (&["export", "nobody", "new"], "No conversation found with session ID: nobody", all),
        (&["import", "there"], "it is not an archive of a session", makes),
        (&["import", "missing"], "`missing` cannot be read", makes),
        (&["import", "/"], "it is not an archive of a session", makes),
        (&["prune", "--older-than", "3w"], "`3w` is not an age; write 30d, 12h or 45m", prunes),
        (&["search", "\""], "there is no word to look for", finds),
    ];
    for (arguments, told, help) in rows {
        let output = place.output([&["agent", "sessions"], arguments].concat());
        let stderr = super::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        let hints: Vec<&str> =
            stderr.lines().filter_map(|line| line.strip_prefix("  try: ")).collect();
        assert_eq!(hints, [help], "{arguments:?}: {stderr}");
    }
    assert!(!place.project().join("new").exists());
    assert_eq!(std::fs::read_to_string(place.project().join("there")).expect("a file"), "x");
}
