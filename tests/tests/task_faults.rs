//! Each failure of a background task has one clear answer.

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, until, write_to_reader};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn start(place: &Place, line: &str) -> String {
    let started = place.output(["run", "--quiet", "--background", "--", line]);
    assert!(started.status.success(), "{}", text(&started.stderr));
    text(&started.stdout).trim().to_owned()
}

fn tasks(place: &Place, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = place.output([&["tasks"], arguments, &["--json"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

/// Returns the status of `stockade tasks`, and the first line of its message.
fn told(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let output = place.output([&["tasks"], arguments].concat());
    (output.status.code(), text(&output.stderr).lines().next().unwrap_or_default().to_owned())
}

#[test]
fn an_unknown_id_has_the_same_answer_for_every_subcommand() {
    let place = Place::new("tf-unknown");
    let _gateway = Gateway::start(&place);
    for act in ["show", "output", "wait", "follow", "attach", "open", "stop"] {
        for name in ["nothing", "", "..", "../../etc", "\u{1b}[2J"] {
            let (status, line) = told(&place, &[act, name]);
            let shown = name.escape_debug();
            assert_eq!(
                (status, line),
                (Some(122), format!("stockade: no task `{shown}`")),
                "{act}"
            );
        }
    }
}

#[test]
fn an_expression_that_explodes_is_refused_and_one_that_backtracks_elsewhere_is_linear() {
    let place = Place::new("tf-expression");
    let _gateway = Gateway::start(&place);
    let id = start(&place, "printf '%05000d\\nx\\n' 0");
    tasks(&place, &["wait", &id]);
    let exploding = "((a{100}){100}){100}";
    for act in ["output", "follow"] {
        let (status, line) = told(&place, &[act, &id, "--filter", exploding]);
        assert_eq!(status, Some(122), "{line}");
        assert!(line.starts_with(&format!("stockade: invalid filter `{exploding}`: ")), "{line}");
    }
    let read = place.output(["tasks", "output", &id, "--filter", "^(0*)*x$"]);
    assert_eq!(text(&read.stdout), "x\n");
}

#[test]
fn a_command_that_closes_its_streams_goes_on_until_it_ends() {
    let place = Place::new("tf-closes");
    let _gateway = Gateway::start(&place);
    let line = "mkfifo -m 600 gate; echo last; exec >&- 2>&-; : > closed; read line < gate; exit 4";
    let id = start(&place, line);
    until("it has closed its output", || place.project().join("closed").exists());
    let (_, object) = tasks(&place, &["show", &id]);
    assert_eq!(object["task"]["state"], "running");
    write_to_reader(&place.project().join("gate"), "on\n");
    assert_eq!(tasks(&place, &["wait", &id]).0, Some(4));
    let (_, object) = tasks(&place, &["output", &id]);
    assert_eq!(object["output"]["text"], json!("last\n"));
    // The same in the foreground.
    let output =
        place.output(["run", "--quiet", "--", "echo last; exec >&- 2>&-; sleep 0.1; exit 4"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), "last\n".to_owned()));
}

/// Names the folder of a place whose tasks lie on a disk of one megabyte, in a mount namespace of its own.
const SMALL_DISK: &str = "STOCKADE_TEST_SMALL_DISK";

#[test]
fn a_full_disk_is_told_once_and_what_was_kept_is_the_beginning_of_what_was_written() {
    const TEST: &str =
        "a_full_disk_is_told_once_and_what_was_kept_is_the_beginning_of_what_was_written";
    if std::env::var_os(SMALL_DISK).is_some() {
        return on_a_small_disk();
    }
    let option = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let done = std::process::Command::new("unshare")
        .args([option, "sh", "-c", "exec \"$1\" --exact \"$2\" --nocapture", "sh"])
        .arg(std::env::current_exe().expect("this test"))
        .arg(TEST)
        .env(SMALL_DISK, "1")
        .output();
    match done {
        Ok(done) if done.status.success() => print!("{}", text(&done.stdout)),
        Ok(done) if !text(&done.stdout).contains("running 1 test") => {
            stockade_tests::skip(TEST, &format!("no namespace can be had: {}", text(&done.stderr)));
        }
        Ok(done) => panic!("{}{}", text(&done.stdout), text(&done.stderr)),
        Err(error) => stockade_tests::skip(TEST, &format!("no `unshare`: {error}")),
    }
}

/// The test above where tasks have one megabyte.
fn on_a_small_disk() {
    const TEST: &str = "a_full_disk_is_told_once";
    let place = Place::new("tf-full");
    let folder = place.state().join("tasks");
    let mut made = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(made.recursive(true), 0o700);
    made.create(&folder).expect("the folder of tasks");
    let mut mount = std::process::Command::new("mount");
    let mount = mount.args(["-t", "tmpfs", "-o", "size=1000k,mode=700", "none"]).arg(&folder);
    let mounted = mount.output().expect("it starts");
    if !mounted.status.success() {
        return stockade_tests::skip(TEST, &format!("no small disk: {}", text(&mounted.stderr)));
    }
    let full = format!("the disk of `{}` is full", folder.display());
    let writes = "seq -w 1 999999; echo end";
    let whole: String =
        (1..=999_999).map(|line| format!("{line:06}\n")).collect::<String>() + "end\n";
    // In the foreground: everything is passed on, counted and told, but for the file.
    let output = place.output(["run", "--no-daemon", "--json", "--", writes]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = format!("stockade: the output was cut: {full}\n");
    assert_eq!(text(&output.stderr).matches(&told).count(), 1, "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(object["output_bytes"], json!(whole.len()));
    assert!(object["output"].as_str().expect("text").ends_with("999999\nend\n"));
    let spill = object["spill_path"].as_str().expect("a file");
    let kept = std::fs::read_to_string(spill).expect("the file");
    assert!(kept.len() > 100_000 && whole.starts_with(&kept), "{}", kept.len());
    std::fs::remove_dir_all(std::path::Path::new(spill).parent().expect("a folder")).expect("it");
    // In the background: its end is known, and what is read are the first bytes, whatever comes later.
    let gateway = Gateway::start(&place);
    let id = start(
        &place,
        &format!("{writes}; read line < gate; echo later; exit 5")
            .replace("read", "mkfifo -m 600 gate; read"),
    );
    let file = folder.join(&id).join("output");
    until("it waits", || place.project().join("gate").exists());
    let (status, object) = tasks(&place, &["output", &id, "--offset", "0"]);
    let read = object["output"]["text"].as_str().expect("text").to_owned();
    assert!(status == Some(0) && whole.contains(read.as_str()) && !read.is_empty(), "{status:?}");
    assert_eq!(tasks(&place, &["output", &id]).0, Some(0), "there is no room for where it ended");
    // Nothing more is started as a task, and that is told before anything ran.
    let refused = place.output(["run", "--background", "--", ": > ran"]);
    assert_eq!(refused.status.code(), Some(122));
    let line = text(&refused.stderr);
    assert!(line.contains("cannot be written") && line.contains("nothing was run"), "{line}");
    assert!(!place.project().join("ran").exists());
    write_to_reader(&place.project().join("gate"), "on\n");
    assert_eq!(tasks(&place, &["wait", &id]).0, Some(5));
    let (_, object) = tasks(&place, &["show", &id]);
    let reason = format!("exit status 5; its output was cut: {full}");
    assert_eq!(
        (&object["task"]["state"], &object["task"]["reason"]),
        (&json!("failed"), &json!(reason))
    );
    let kept = std::fs::read_to_string(&file).expect("its output");
    assert!(kept.len() > 100_000 && whole.starts_with(&kept), "{}", kept.len());
    drop(gateway);
    let verified = place.output(["audit", "verify"]);
    assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&folder).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "the small disk goes");
}
