//! Terminals of tasks: typing to one from elsewhere, and leaving it running.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use stockade_tests::Place;
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A task at a terminal that repeats what is typed until it reads `end`.
const ECHO: &str = "stty -echo; echo ready; while read line; do echo \"got $line\"; [ \"$line\" = end ] && exit 7; done";

fn start(place: &Place, options: &[&str], line: &str) -> String {
    let arguments = [&["run", "--quiet", "--background"], options, &["--", line]].concat();
    let started = place.output(arguments);
    assert!(started.status.success(), "{}", text(&started.stderr));
    text(&started.stdout).trim().to_owned()
}

#[test]
fn what_is_typed_reaches_the_task_and_its_output_and_status_come_back() {
    let place = Place::new("tt-type");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &["--pty"], ECHO);
    let mut attach = place.stockade(["tasks", "attach", &id]);
    let attach = attach.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut attach = attach.spawn().expect("it starts");
    let (mut keys, mut screen) =
        (attach.stdin.take().expect("keys"), attach.stdout.take().expect("a screen"));
    let mut first = [0; 7];
    screen.read_exact(&mut first).expect("what it wrote before");
    assert_eq!(&first, b"ready\r\n");
    keys.write_all(b"one\nend\n").expect("it reads");
    let mut rest = String::new();
    screen.read_to_string(&mut rest).expect("its output");
    assert_eq!(rest, "got one\r\ngot end\r\n");
    assert_eq!(attach.wait().expect("its end").code(), Some(7));
}

#[test]
fn a_key_detaches_and_the_task_goes_on_for_the_next_terminal() {
    let place = Place::new("tt-detach");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &["--pty"], ECHO);
    let attach = ["tasks", "attach", &id];
    let Some(mut first) = Terminal::start(&place, stockade_tests::stockade(), &attach) else {
        stockade_tests::skip("a_key_detaches", "`script` is not installed");
        return;
    };
    first.wait_for("ready");
    first.press("one\n");
    first.wait_for("got one");
    first.press("\u{1d}");
    let (status, seen) = first.end();
    assert_eq!(status, Some(0), "{seen}");
    assert!(seen.contains(&format!("stockade: detached; task {id} running: it runs")), "{seen}");
    // The next one begins with the screen as it is.
    let mut second =
        Terminal::start(&place, stockade_tests::stockade(), &attach).expect("a terminal");
    second.wait_for("got one");
    second.press("end\n");
    let (status, seen) = second.end();
    assert_eq!(status, Some(7), "{seen}");
}

#[test]
fn who_waits_at_a_terminal_sees_how_it_stands_and_a_pipe_stays_quiet() {
    let place = Place::new("tt-status");
    let _gateway = Gateway::start(&place);
    let line = "mkfifo -m 600 gate; printf 'old\\n\\033[32mbuilding 45%%\\033[0m\\r'; read line < gate; exit 6";
    let id = start(&place, &[], line);
    let test = "who_waits_at_a_terminal_sees_how_it_stands";
    let Some(mut terminal) =
        Terminal::start(&place, Path::new("env"), &["TERM=xterm", "/bin/sh", "-c", &waiting(&id)])
    else {
        stockade_tests::skip(test, "`script` is not installed");
        return;
    };
    terminal.wait_for("[#########           ] 45%  building 45%");
    let mut gate = std::fs::File::options().write(true).open(place.project().join("gate"));
    writeln!(gate.as_mut().expect("the gate"), "on").expect("the task reads");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(6), "{screen}");
    // The line is gone before the end is told.
    let (_, told) = screen.rsplit_once("\u{1b}[K").expect("the line is cleared");
    assert!(told.starts_with(&format!("stockade: task {id} failed: exit status 6")), "{screen}");
    let piped = place.output(["tasks", "wait", &id]);
    assert_eq!(text(&piped.stderr), format!("stockade: task {id} failed: exit status 6\n"));
    let shown = text(&place.output(["tasks", "show", &id]).stdout);
    assert!(shown.contains("\nlast line building 45%\n"), "{shown}");
}

fn waiting(id: &str) -> String {
    format!("exec {} tasks wait {id}", stockade_tests::stockade_word())
}

#[test]
fn a_task_without_a_terminal_and_one_that_has_ended_say_what_to_do() {
    let place = Place::new("tt-none");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &[], "sleep 1000");
    let attach = || text(&place.output(["tasks", "attach", &id]).stderr);
    let told = attach();
    assert!(told.starts_with(&format!("stockade: task `{id}` has no terminal\n")), "{told}");
    assert!(told.contains(&format!("watch it with `stockade tasks follow {id}`")), "{told}");
    assert!(place.output(["tasks", "stop", &id]).status.success());
    let told = attach();
    assert!(told.starts_with(&format!("stockade: task `{id}` has ended\n")), "{told}");
}
