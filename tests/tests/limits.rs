//! Limits of commands that settings set: time, output, and how long output is kept.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, until, write_to_reader};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A place whose user settings have these limits.
fn place(name: &str, limits: &Value) -> Place {
    let place = Place::new(name);
    let settings = json!({ "limits": limits }).to_string();
    place.write("home/.config/stockade/settings.json", &settings);
    place
}

fn run(place: &Place, line: &str) -> (Output, Value) {
    let output = place.output(["run", "--json", "--", line]);
    let object = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, object)
}

#[test]
fn the_time_limit_of_a_command_that_names_none_is_a_setting() {
    let place = place("li-time", &json!({ "defaultTimeoutSeconds": 1 }));
    let (output, object) = run(&place, "sleep 1000");
    assert_eq!((output.status.code(), &object["timed_out"]), (Some(124), &json!(true)));
    // A command that names one has that.
    let longer = place.output(["run", "--json", "--timeout", "60s", "--", "sleep 1.2"]);
    assert_eq!(longer.status.code(), Some(0), "{}", text(&longer.stderr));
}

#[test]
fn a_command_whose_time_is_up_goes_on_as_a_task_where_the_setting_says_so() {
    let limits = json!({ "defaultTimeoutSeconds": 1, "whenTimeIsUp": "background" });
    let place = place("li-time-up", &limits);
    let (output, object) = run(&place, "sleep 1000");
    // Nobody stays to run it.
    assert_eq!((output.status.code(), &object["timed_out"]), (Some(124), &json!(true)));
    let _gateway = Gateway::start(&place);
    let (output, object) = run(&place, "sleep 1000");
    assert_eq!((output.status.code(), &object["task"]["state"]), (Some(0), &json!("running")));
    // The caller's word counts more.
    let stopped = place.output(["run", "--on-timeout", "stop", "--", "sleep 1000"]);
    assert_eq!(stopped.status.code(), Some(124), "{}", text(&stopped.stderr));
}

#[test]
fn how_much_output_is_shown_is_a_setting_and_the_rest_is_in_the_file() {
    let place = place("li-shown", &json!({ "outputCharacters": 1000 }));
    let (_, object) = run(&place, "seq -w 1 9999");
    let shown = object["output"].as_str().expect("text");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines.first(), lines.last()), (Some(&"0001"), Some(&"9999")));
    let (head, tail) = shown.split_once("\n[... ").expect("what is left out is said");
    let tail = tail.split_once("...]\n").expect("the end of that line").1;
    assert_eq!((head.len(), tail.len()), (500, 500));
    let spill = object["spill_path"].as_str().expect("a file");
    assert_eq!(std::fs::metadata(spill).expect("the file").len(), 9999 * 5);
}

#[test]
fn a_command_whose_output_is_too_large_is_stopped_or_runs_on_as_the_setting_says() {
    // The command that is stopped stays long enough for that.
    for (word, stays, status, ends) in
        [("discard", 1, Some(0), true), ("stop", 60, Some(143), false)]
    {
        let line =
            format!("head -c 3000000 /dev/zero; echo end >&2; sleep {stays}; echo later >&2");
        let limits = json!({ "outputBytes": 1_048_576, "whenOutputIsFull": word });
        let place = place(&format!("li-full-{word}"), &limits);
        let (output, object) = run(&place, &line);
        let later = object["output"].as_str().expect("text").contains("later");
        assert_eq!((output.status.code(), later), (status, ends), "{word}");
        let spill = object["spill_path"].as_str().expect("a file");
        assert!(std::fs::metadata(spill).expect("the file").len() <= 1_048_576);
        let footer = text(&output.stderr);
        let stopped = if ends { "" } else { ", so the command was stopped" };
        let told =
            format!("stockade: the output was cut: it is larger than 1048576 bytes{stopped}");
        assert!(footer.contains(&told), "{footer}");
    }
}

#[test]
fn an_invalid_limit_refuses_the_call_and_says_what_is_allowed() {
    for (limits, message, help) in [
        (
            json!({ "outputBytes": 5 }),
            "outputBytes",
            "write a whole number from 1048576 to 1099511627776",
        ),
        (json!({ "keepOutputDays": "x" }), "keepOutputDays", "write a whole number from 1 to 3650"),
        (json!({ "whenTimeIsUp": "discard" }), "whenTimeIsUp", "write \"background\" or \"stop\""),
        (json!({ "whenOutputIsFull": true }), "whenOutputIsFull", "write \"stop\" or \"discard\""),
    ] {
        let place = place("li-invalid", &limits);
        let output = place.output(["run", "--", "touch made"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(122), "{told}");
        let first = format!("stockade: invalid `limits.{message}` in ");
        assert!(told.starts_with(&first) && told.contains(help), "{told}");
        assert!(!place.project().join("made").exists());
    }
}

#[test]
fn a_gateway_removes_the_output_of_commands_that_ended_long_ago() {
    let place = place("li-prune", &json!({ "keepOutputDays": 2 }));
    let (_, object) = run(&place, "seq 1 20000");
    let (_, young) = run(&place, "seq 1 20001");
    let spill =
        |object: &Value| std::path::PathBuf::from(object["spill_path"].as_str().expect("a file"));
    let (old, young) = (spill(&object), spill(&young));
    let days = |count: u64| std::time::SystemTime::now() - Duration::from_secs(count * 86_400);
    for (path, count) in [(&old, 3), (&young, 1)] {
        let file = std::fs::File::options().append(true).open(path).expect("the file");
        file.set_modified(days(count)).expect("its time");
    }
    let _gateway = Gateway::start(&place);
    assert!(old.exists() && young.exists());
    run(&place, "true");
    let end = Instant::now() + Duration::from_secs(60);
    while old.exists() {
        assert!(Instant::now() < end, "old output stays");
        std::thread::yield_now();
    }
    assert!(young.exists());
}

fn started(place: &Place, options: &[&str], line: &str) -> Output {
    place.output([&["run", "--quiet", "--session", "s"], options, &["--", line]].concat())
}

fn task(place: &Place, line: &str) -> String {
    let output = started(place, &["--background"], line);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_session_with_as_many_commands_or_tasks_as_it_may_have_is_told_which_setting_says_so() {
    let place = place("li-session", &json!({ "sessionCommands": 3, "sessionTasks": 2 }));
    let _gateway = Gateway::start(&place);
    let settings = place.home().join(".config/stockade/settings.json");
    let full = |has: &str, setting: &str| {
        let file = settings.display();
        format!(
            "stockade: session `s` runs {has} already, as many as `limits.{setting}` allows ({file}:1)\n"
        )
    };
    let first = task(&place, "sleep 1000");
    task(&place, "sleep 1000");
    let third = started(&place, &["--background"], "sleep 1000");
    assert_eq!(third.status.code(), Some(122));
    let told = text(&third.stderr);
    assert!(told.starts_with(&full("2 background tasks", "sessionTasks")), "{told}");
    assert!(
        told.contains("stop one with `stockade tasks stop ID`, or raise `limits.sessionTasks`")
    );
    // The third command is none in the background; a fourth beside it is one too many.
    let gate = place.project().join("gate");
    let mut waiting = place.stockade(["run", "--quiet", "--session", "s", "--"]);
    let waiting = waiting.arg("mkfifo -m 600 gate; read line < gate; exit 5").spawn();
    let mut waiting = waiting.expect("it starts");
    until("the third command waits", || gate.exists());
    let fourth = started(&place, &[], "true");
    let told = text(&fourth.stderr);
    assert_eq!(fourth.status.code(), Some(122), "{told}");
    assert!(told.starts_with(&full("3 commands", "sessionCommands")), "{told}");
    assert!(place.output(["run", "--session", "other", "--", "true"]).status.success());
    write_to_reader(&gate, "on\n");
    assert_eq!(waiting.wait().expect("its end").code(), Some(5));
    assert!(started(&place, &[], "true").status.success());
    // A task that has ended makes room.
    assert!(place.output(["tasks", "stop", &first]).status.success());
    // The room comes free a moment after the task is said to be stopped.
    until("there is room", || started(&place, &["--background"], "sleep 1000").status.success());
}

#[test]
fn a_session_keeps_as_much_output_on_the_disk_as_it_may_until_some_is_removed() {
    let place = place("li-session-disk", &json!({ "sessionOutputBytes": 1_048_576 }));
    let _gateway = Gateway::start(&place);
    let id = task(&place, "head -c 800000 /dev/zero; head -c 800000 /dev/zero; echo end");
    place.output(["tasks", "wait", &id]);
    let shown = text(&place.output(["tasks", "show", &id]).stdout);
    let cut = "its output was cut: its session keeps 1048576 bytes of output already (`limits.sessionOutputBytes`)";
    assert!(shown.contains(&format!("completed: exit status 0; {cut}")), "{shown}");
    let file = place.state().join("tasks").join(&id).join("output");
    let kept = std::fs::metadata(&file).expect("its output").len();
    assert!((800_000..=1_048_576).contains(&kept), "{kept}");
    // A short output needs no file; a task does, and what is left is too little for a long one.
    assert_eq!(text(&started(&place, &[], "echo short").stdout), "short\n");
    let full = task(&place, &format!("head -c {} /dev/zero", 1_048_576 - kept));
    place.output(["tasks", "wait", &full]);
    let refused = started(&place, &["--background"], "echo more");
    assert_eq!(refused.status.code(), Some(122));
    let told = text(&refused.stderr);
    let has = "stockade: session `s` keeps 1048576 bytes of output on the disk already, as many as `limits.sessionOutputBytes` allows (";
    assert!(told.starts_with(has), "{told}");
    assert!(place.output(["tasks", "prune", "--keep", "0"]).status.success());
    task(&place, "echo more");
}
