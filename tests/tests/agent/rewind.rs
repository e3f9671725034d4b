//! Back to a message of the user: files become again what they were, the conversation goes on in front of the message, and
//! what somebody else changed stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use stockade_model_server::{Form, Server, Turn};
use stockade_tests::Place;

use super::{call, run, say, script, text};

const ID: &str = "55555555-5555-4555-8555-555555555555";
const EDITS: [&str; 2] = ["--permission-mode", "acceptEdits"];

/// Runs a prompt in the session with these answers of the model.
fn turn(place: &Place, options: &[&str], answers: &[&[Turn]]) -> Server {
    let server = script(Form::Anthropic, answers);
    let output = run(place, &server, &[options, &EDITS].concat());
    assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
    server
}

fn edit(id: &str, old: &str, new: &str) -> Turn {
    call(id, "Edit", json!({ "file_path": "a.txt", "old_string": old, "new_string": new }))
}

/// Begins a session: its first prompt edits a file and makes another one, its second prompt edits again.
fn begin(place: &Place) {
    place.write("project/a.txt", "one\n");
    let mode = fs::Permissions::from_mode(0o751);
    fs::set_permissions(place.project().join("a.txt"), mode).expect("a mode");
    let read = || call("r", "Read", json!({ "file_path": "a.txt" }));
    let write = call("w", "Write", json!({ "file_path": "new.txt", "content": "new\n" }));
    let first: &[&[Turn]] = &[&[read()], &[edit("e", "one", "two"), write], &[say("first done")]];
    turn(place, &["-p", "blue words", "--session-id", ID], first);
    let second: &[&[Turn]] = &[&[read()], &[edit("f", "two", "three")], &[say("second done")]];
    turn(place, &["-p", "green words", "--resume", ID], second);
    assert_eq!(files(place), [Some("three\n".into()), Some("new\n".into())]);
}

fn files(place: &Place) -> [Option<String>; 2] {
    ["a.txt", "new.txt"].map(|name| fs::read_to_string(place.project().join(name)).ok())
}

/// Gives a command to the session, and returns what it says.
fn command(place: &Place, words: &str, more: &[&str]) -> (String, bool) {
    let server = script(Form::Anthropic, &[]);
    let arguments = [&["-p", words, "--resume", ID], &EDITS[..], more].concat();
    let output = run(place, &server, &arguments);
    assert_eq!(server.received().len(), 0, "the model is asked");
    (format!("{}{}", text(&output.stdout), text(&output.stderr)), output.status.success())
}

/// Returns the identity of the message with these words.
fn message(place: &Place, words: &str) -> String {
    let (list, _) = command(place, "/rewind", &[]);
    let line = list.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{list}"));
    line.split_whitespace().next().expect("an identity").to_owned()
}

fn folder(place: &Place, id: &str) -> PathBuf {
    place.root.join("state/stockade/agent/sessions").join(id)
}

#[test]
fn files_and_conversation_go_back_to_a_message() {
    let place = Place::new("ag-rewind");
    begin(&place);
    let (list, _) = command(&place, "/rewind", &[]);
    assert!(list.contains("3 changes since  blue words"), "{list}");
    assert!(list.contains("1 changes since  green words"), "{list}");
    let (told, _) = command(&place, &format!("/rewind {} files", message(&place, "green")), &[]);
    assert!(told.contains("a.txt: restored"), "{told}");
    assert_eq!(files(&place), [Some("two\n".into()), Some("new\n".into())]);
    let first = message(&place, "blue words");
    let (told, is_done) = command(&place, &format!("/rewind {first}"), &[]);
    assert!(is_done && told.contains("new.txt: removed"), "{told}");
    assert_eq!(files(&place), [Some("one\n".into()), None]);
    let mode = fs::metadata(place.project().join("a.txt")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    let server = turn(&place, &["-p", "red words", "--resume", ID], &[&[say("new")]]);
    let told = server.received()[0].body["messages"].to_string();
    assert!(
        told.contains("red words") && !told.contains("blue") && !told.contains("green"),
        "{told}"
    );
    // Each of them is a write in the audit log.
    let log = text(&place.output(["audit", "tail", "-n", "60"]).stdout);
    let writes = log.lines().filter(|line| line.trim_end().ends_with(" Write")).count();
    assert_eq!(writes, 4, "{log}");
    let (told, is_done) = command(&place, &format!("/rewind {first}"), &[]);
    assert!(!is_done && told.contains("has no message"), "{told}");
}

#[test]
fn a_file_that_somebody_else_changed_is_named_and_left_unless_forced() {
    let place = Place::new("ag-rewind-other");
    begin(&place);
    let first = message(&place, "blue words");
    place.write("project/a.txt", "mine\n");
    let (told, _) = command(&place, &format!("/rewind {first} files"), &[]);
    assert!(told.contains("a.txt: left as it is"), "{told}");
    assert_eq!(files(&place), [Some("mine\n".into()), None]);
    let (told, _) = command(&place, &format!("/rewind {first} files force"), &[]);
    assert!(told.contains("a.txt: restored"), "{told}");
    assert_eq!(files(&place), [Some("one\n".into()), None]);
}

#[test]
fn a_rule_holds_for_a_restore_and_no_command_reaches_the_kept_contents() {
    let place = Place::new("ag-rewind-rule");
    begin(&place);
    let first = message(&place, "blue words");
    let deny = ["--disallowedTools", "Edit(a.txt)"];
    let (told, _) = command(&place, &format!("/rewind {first} files"), &deny);
    assert!(told.contains("a.txt: left as it is: Permission denied"), "{told}");
    assert_eq!(files(&place), [Some("three\n".into()), None]);
    let kept = folder(&place, ID).join("before");
    let list = kept.join("changes.jsonl");
    let lines = fs::read_to_string(&list).expect("the list");
    // Outside of the sandbox it can be written: what refuses is the sandbox.
    fs::write(&list, &lines).expect("the list");
    let shell =
        format!("echo x >> {0}; echo y > {1}/contents/y; cat {0}", list.display(), kept.display());
    let server = turn(
        &place,
        &["-p", "attack", "--resume", ID],
        &[&[call("b", "Bash", json!({ "command": shell }))], &[say("done")]],
    );
    assert_eq!(server.received().len(), 2);
    assert_eq!(fs::read_to_string(&list).expect("the list"), lines);
    assert!(!kept.join("contents/y").exists());
    let told = super::result(&server, "b").0;
    assert!(!told.contains("\"before\""), "{told}");
}

#[test]
fn a_copy_goes_back_by_itself_and_has_nothing_of_what_came_later() {
    let place = Place::new("ag-rewind-fork");
    begin(&place);
    let first = message(&place, "blue words");
    let second = message(&place, "green words");
    let copy = "66666666-6666-4666-8666-666666666666";
    let at =
        ["--resume", ID, "--fork-session", "--session-id", copy, "--resume-session-at", &second];
    turn(&place, &[&["-p", "in the copy"], &at[..]].concat(), &[&[say("copied")]]);
    let contents = |id: &str| {
        let entries = fs::read_dir(folder(&place, id).join("before/contents")).expect("contents");
        entries.count()
    };
    assert_eq!((contents(ID), contents(copy)), (2, 1));
    let server = script(Form::Anthropic, &[]);
    let words = format!("/rewind {first} files force");
    let arguments = [&["-p", &words, "--resume", copy], &EDITS[..]].concat();
    let output = run(&place, &server, &arguments);
    assert!(text(&output.stdout).contains("a.txt: restored"), "{}", text(&output.stdout));
    assert_eq!(files(&place), [Some("one\n".into()), None]);
    // Both logs tell of it.
    let log =
        |id: &str| fs::read_to_string(folder(&place, id).join("events.jsonl")).expect("a log");
    assert!(log(ID).contains(&format!("\"to\":\"{copy}\"")));
    assert!(log(copy).contains(&format!("\"from\":\"{ID}\"")));
}

#[test]
fn a_setting_keeps_no_contents() {
    let place = Place::new("ag-rewind-off");
    place.write("home/.config/stockade/settings.json", "{\"fileCheckpointingEnabled\": false}");
    let write = call("w", "Write", json!({ "file_path": "new.txt", "content": "new\n" }));
    turn(&place, &["-p", "go", "--session-id", ID], &[&[write], &[say("done")]]);
    assert!(!folder(&place, ID).join("before").exists());
    assert!(place.project().join("new.txt").exists());
}

#[test]
fn a_host_has_files_restored_by_the_message_that_it_named() {
    let place = Place::new("ag-rewind-host");
    place.write("project/a.txt", "one\n");
    let server = script(
        Form::Anthropic,
        &[
            &[call("r", "Read", json!({ "file_path": "a.txt" }))],
            &[edit("e", "one", "two")],
            &[say("done")],
        ],
    );
    let arguments = [&EDITS[..], &["--replay-user-messages"]].concat();
    let mut host = super::host::Host::start(&place, &server, &arguments);
    let uuid = "77777777-7777-4777-8777-777777777777";
    host.send(
        &json!({ "type": "user", "uuid": uuid, "message": { "role": "user", "content": "go" } }),
    );
    let replayed = host.until("user");
    assert_eq!((&replayed["uuid"], &replayed["isReplay"]), (&json!(uuid), &json!(true)));
    host.until("result");
    assert_eq!(files(&place)[0], Some("two\n".into()));
    host.request(json!({ "subtype": "rewind_files", "user_message_id": "none" }));
    let refused: Value = host.until("control_response");
    assert_eq!(refused["response"]["subtype"], "error", "{refused}");
    host.request(json!({ "subtype": "rewind_files", "user_message_id": uuid }));
    assert_eq!(host.until("control_response")["response"]["subtype"], "success");
    assert_eq!(files(&place)[0], Some("one\n".into()));
    assert_eq!(host.end(), Some(0));
}

/// Runs a prompt whose command changes, removes and makes files.
fn commands(place: &Place) {
    place.write("project/.gitignore", "*.log\n");
    place.write("project/a.txt", "one\n");
    place.write("project/d/gone.txt", "gone\n");
    let mode = fs::Permissions::from_mode(0o751);
    fs::set_permissions(place.project().join("d/gone.txt"), mode).expect("a mode");
    let first =
        "printf 'two\\n' > a.txt; rm -r d; mkdir e; printf 'new\\n' > new.txt; echo x > e/x.log";
    let second = "printf 'three\\n' > a.txt";
    let bash = |id: &str, command: &str| call(id, "Bash", json!({ "command": command }));
    let answers: &[&[Turn]] = &[&[bash("b", first)], &[bash("c", second)], &[say("done")]];
    turn(place, &["-p", "blue words", "--session-id", ID], answers);
    assert_eq!(files(place), [Some("three\n".into()), Some("new\n".into())]);
}

#[test]
fn changes_by_commands_are_taken_back_where_the_settings_say_so() {
    let place = Place::new("ag-commands");
    place.write("home/.config/stockade/settings.json", r#"{ "checkpoint": "git" }"#);
    // A program that version control would start here.
    place.write(
        "project/.git/config",
        "[core]\n\tfsmonitor = touch started; false\n\thooksPath = .\n",
    );
    commands(&place);
    let (told, is_done) =
        command(&place, &format!("/rewind {} files", message(&place, "blue")), &[]);
    assert!(is_done, "{told}");
    assert_eq!(files(&place), [Some("one\n".into()), None], "{told}");
    let gone = place.project().join("d/gone.txt");
    assert_eq!(fs::read_to_string(&gone).expect("it is back"), "gone\n");
    assert_eq!(fs::metadata(&gone).expect("a file").permissions().mode() & 0o777, 0o751);
    // Files that version control ignores are not covered.
    assert!(place.project().join("e/x.log").exists());
    assert!(!place.project().join("started").exists(), "a program of the project ran");
    for id in ["a.txt: restored", "new.txt: removed", "d/gone.txt: restored"] {
        assert!(told.contains(id), "{id}: {told}");
    }
}

#[test]
fn a_change_by_somebody_else_behind_a_command_is_left() {
    let place = Place::new("ag-commands-foreign");
    place.write("home/.config/stockade/settings.json", r#"{ "checkpoint": "git" }"#);
    commands(&place);
    fs::write(place.project().join("a.txt"), "mine\n").expect("a file");
    let words = format!("/rewind {} files", message(&place, "blue"));
    let (told, _) = command(&place, &words, &[]);
    assert!(told.contains("a.txt: left as it is"), "{told}");
    assert_eq!(files(&place), [Some("mine\n".into()), None]);
}

#[test]
fn changes_by_commands_stay_without_the_setting() {
    let place = Place::new("ag-commands-off");
    // A project has no say.
    place.write("project/.stockade/settings.json", r#"{ "checkpoint": "git" }"#);
    commands(&place);
    let (told, _) = command(&place, &format!("/rewind {} files", message(&place, "blue")), &[]);
    assert!(told.contains("No file was changed since."), "{told}");
    assert_eq!(files(&place), [Some("three\n".into()), Some("new\n".into())]);
}
