//! Terminals of tasks: typing to one from elsewhere, and leaving it running.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, write_to_reader};

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
    write_to_reader(&place.project().join("gate"), "on\n");
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

/// A full screen: the alternate one, a coloured bar below, wide characters, the cursor in the middle, keys of applications.
/// Then `size` prints the size of the terminal in the third line, and `end` ends it.
const PICTURE: &str = "stty -echo; printf '\\033[?1049h\\033[H\\033[2J\\033[?1h\\033[1;44mTITLE\\033[m\\033[12;1H\\033[32m界 green\\033[m\\033[24;1H\\033[7mstatus bar\\033[m\\033[5;9H'; \
     while read line; do [ \"$line\" = end ] && exit 7; printf '\\033[3;1H%s\\033[5;9H' \"$(stty size)\"; done";

/// A terminal of a size on which `stockade tasks attach` runs.
fn attached(place: &Place, id: &str, (rows, columns): (u16, u16)) -> Option<Terminal> {
    let stockade = stockade_tests::stockade_word();
    let line = format!("stty rows {rows} cols {columns}; exec {stockade} tasks attach {id}");
    Terminal::start(place, Path::new("env"), &["TERM=xterm", "/bin/sh", "-c", &line])
}

/// Returns the screen of a person's terminal before the client leaves it, and afterwards.
fn shown(seen: &str, (rows, columns): (u16, u16)) -> [vt100::Parser; 2] {
    let (before, _) = seen.rsplit_once("\u{1b}[?1l").expect("the terminal is left as it was");
    [before, seen].map(|bytes| {
        let mut terminal = vt100::Parser::new(rows, columns, 0);
        terminal.process(b"$ stockade tasks attach\r\n");
        terminal.process(bytes.as_bytes());
        terminal
    })
}

#[test]
fn who_attaches_sees_the_screen_as_the_task_left_it_and_gets_their_own_back() {
    let place = Place::new("tt-screen");
    let _gateway = Gateway::start(&place);
    let id = start(&place, &["--pty"], PICTURE);
    let size = (24, 80);
    let mut last = String::new();
    // The second sees what the first did, and a screen that was drawn for another size is drawn anew.
    for (round, size) in [(1, size), (2, size), (3, (30, 100))] {
        let Some(mut terminal) = attached(&place, &id, size) else {
            stockade_tests::skip("who_attaches_sees_the_screen", "`script` is not installed");
            return;
        };
        terminal.wait_for("status bar");
        if round == 3 {
            terminal.press("size\n");
            terminal.wait_for("30 100");
        }
        terminal.press("\u{1d}");
        let (status, seen) = terminal.end();
        assert_eq!(status, Some(0), "{seen}");
        let [drawn, left] = shown(&seen, size);
        let screen = drawn.screen();
        let rows: Vec<String> = screen.rows(0, size.1).collect();
        assert_eq!(rows.first().map(String::as_str), Some("TITLE"), "{round}");
        assert_eq!(rows.get(11).map(String::as_str), Some("界 green"), "{round}");
        assert_eq!(rows.get(23).map(String::as_str), Some("status bar"), "{round}");
        assert_eq!(screen.cursor_position(), (4, 8), "{round}");
        assert!(screen.alternate_screen() && screen.application_cursor(), "{round}");
        let cell = |row, column| screen.cell(row, column).expect("a cell");
        assert_eq!(cell(0, 0).bgcolor(), vt100::Color::Idx(4));
        assert!(cell(0, 0).bold() && cell(23, 0).inverse() && !cell(4, 8).inverse());
        assert_eq!(cell(11, 4).fgcolor(), vt100::Color::Idx(2));
        let screen = left.screen();
        assert!(screen.contents().starts_with("$ stockade tasks attach\nstockade: detached;"));
        assert!(!screen.alternate_screen() && !screen.application_cursor());
        last = seen;
    }
    assert!(last.contains("30 100"), "{last}");
    let mut terminal = attached(&place, &id, size).expect("a terminal");
    terminal.wait_for("status bar");
    terminal.press("end\n");
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(7), "{seen}");
    let [_, left] = shown(&seen, size);
    assert!(!left.screen().alternate_screen(), "{seen}");
}

/// A person runs `line` in a shell at a terminal, with `$S` for the executable.
fn typed(place: &Place, line: &str) -> Option<Terminal> {
    let line = line.replace("$S", &stockade_tests::stockade_word());
    Terminal::start(place, Path::new("env"), &["TERM=xterm", "/bin/sh", "-c", &line])
}

fn open_gate(place: &Place) {
    write_to_reader(&place.project().join("gate"), "on\n");
}

#[test]
fn a_quiet_command_has_a_line_at_the_terminal_which_goes_before_anything_else_is_shown() {
    let place = Place::new("tt-quiet");
    for gateway in [false, true] {
        let _gateway = gateway.then(|| Gateway::start(&place));
        let line = "exec $S run -- 'echo first; rm -f gate; mkfifo -m 600 gate; read line < gate; echo last'";
        let Some(mut terminal) = typed(&place, line) else {
            stockade_tests::skip("a_quiet_command_has_a_line", "`script` is not installed");
            return;
        };
        terminal.wait_for("first\r\n");
        terminal.wait_for("\r\u{1b}[Krunning ");
        terminal.wait_for("s  6 B");
        open_gate(&place);
        let (status, screen) = terminal.end();
        assert_eq!(status, Some(0), "{screen}");
        let (_, rest) = screen.rsplit_once("\r\u{1b}[K").expect("the line is cleared");
        assert_eq!(rest, "last\r\n", "{screen}");
        let mut shown = vt100::Parser::new(24, 80, 0);
        shown.process(screen.as_bytes());
        assert_eq!(shown.screen().contents(), "first\nlast", "{screen}");
    }
}

#[test]
fn the_line_has_the_last_line_of_an_output_that_goes_elsewhere_and_that_gets_nothing_of_it() {
    let place = Place::new("tt-elsewhere");
    let line =
        "$S run -- 'printf \"old\\nbuilding 45%%\\n\"; mkfifo -m 600 gate; read line < gate' > out";
    let Some(mut terminal) = typed(&place, line) else {
        stockade_tests::skip("the_line_has_the_last_line", "`script` is not installed");
        return;
    };
    terminal.wait_for("[#########           ] 45%  building 45%");
    open_gate(&place);
    let (_, screen) = terminal.end();
    assert!(screen.ends_with("\r\u{1b}[K"), "{screen}");
    let out = std::fs::read_to_string(place.project().join("out"));
    assert_eq!(out.expect("the output"), "old\nbuilding 45%\n");
}

#[test]
fn no_line_stands_behind_a_prompt_or_where_a_person_wants_none() {
    let place = Place::new("tt-prompt");
    // The second is in the background of a shell that goes on; the third cannot go back in a line.
    for line in [
        "exec $S run -- 'printf \"name? \"; sleep 4'",
        "exec $S run --quiet -- 'sleep 4'",
        "TERM=dumb exec $S run -- 'sleep 4'",
        "exec $S run -- 'sleep 4' 2>err",
        "set -m; $S run -- 'sleep 4' & wait",
    ] {
        let Some(terminal) = typed(&place, line) else {
            stockade_tests::skip("no_line_stands_behind_a_prompt", "`script` is not installed");
            return;
        };
        let (_, screen) = terminal.end();
        // Until the command prints its prompt, the line may stand there.
        let screen = screen.rsplit_once("name? ").map_or(&*screen, |(_, behind)| behind);
        assert!(!screen.contains("running") && !screen.contains('\u{1b}'), "{line}: {screen}");
    }
}
