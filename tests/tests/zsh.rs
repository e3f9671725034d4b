//! Commands that zsh runs: texts that it reads like bash run, all others are asked about.

#[path = "zsh/both.rs"]
mod both;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade};

/// The zsh of this machine.
const ZSH: &str = "/usr/bin/zsh";

/// Says whether there is a zsh; tells that `test` is skipped where there is none.
fn has_zsh(test: &str) -> bool {
    let is_there = Path::new(ZSH).exists();
    if !is_there {
        skip(test, "no zsh in /usr/bin");
    }
    is_there
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn seen(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A place whose commands zsh runs; none where there is no zsh.
fn place(name: &str, more: &str) -> Option<Place> {
    if !has_zsh(name) {
        return None;
    }
    let place = Place::new(name);
    let settings = format!(r#"{{"shell": "{ZSH}"{more}}}"#);
    place.write("home/.config/stockade/settings.json", &settings);
    Some(place)
}

fn run(place: &Place, line: &str) -> (Option<i32>, String, String) {
    seen(&place.output(["run", "--quiet", "--", line]))
}

/// Tells which program the shell of a text is.
const WHICH: &str = "true; sh -c 'readlink /proc/$PPID/exe'; true";

#[test]
fn zsh_runs_what_both_read_alike() {
    let Some(place) = place("zsh-runs", "") else { return };
    let zsh = Path::new(ZSH).canonicalize().expect("a program").display().to_string();
    assert_eq!(run(&place, WHICH), (Some(0), format!("{zsh}\n"), String::new()));
    assert_eq!(run(&place, "echo a && exit 7").0, Some(7));
    assert_eq!(run(&place, "cat nosuch 2> err || cat < err | wc -l").1.trim(), "1");
    assert_eq!(run(&place, "no-such-program").0, Some(127));
    // Words without a shell are no text of zsh.
    assert_eq!(seen(&place.output(["run", "--quiet", "--", "echo", "*"])).1, "*\n");
}

/// Settings under which an unknown text could miss a rule, so that it does not run for being confined.
const DENYING: &str = r#", "permissions": {"deny": ["Bash(touch:*)"], "allow": ["Bash(echo:*)"]}"#;

#[test]
fn what_zsh_may_read_differently_is_asked_in_every_mode() {
    let Some(place) = place("zsh-asked", DENYING) else { return };
    for mode in ["default", "acceptEdits", "plan", "auto", "dontAsk"] {
        let words = ["run", "--permission-mode", mode, "--", "echo *.txt"];
        let (status, out, said) = seen(&place.output(words));
        assert!(matches!(status, Some(120 | 121)) && out.is_empty(), "{mode}: {status:?} {said}");
    }
    let (status, _, said) = run(&place, "echo $HOME");
    assert_eq!(status, Some(121), "{said}");
    for part in ["zsh runs this, and may read it differently", "an expansion (`$`) outside"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(run(&place, "echo '*' \"a b\"").1, "* a b\n");
    // Bash reads its own text.
    assert_eq!(run(&place, "bash -c 'echo *'").0, Some(0));
    // Rules hold for what bash would read, and a word that only zsh takes off hides nothing.
    assert_eq!(run(&place, "touch $HOME/x").0, Some(120));
    assert_eq!(run(&place, "noglob touch x").0, Some(121));
}

#[test]
fn record_and_explanation_name_the_shell() {
    let Some(place) = place("zsh-named", "") else { return };
    assert_eq!(run(&place, "true").0, Some(0));
    let found = place.output(["audit", "search", "--kind", "decision", "--json"]);
    let lines = text(&found.stdout);
    let record: Value =
        serde_json::from_str(lines.lines().next().expect("a record")).expect("JSON");
    assert_eq!(record["request"]["shell"], json!(ZSH), "{record}");
    assert_eq!(place.output(["audit", "verify"]).status.code(), Some(0));
    let explained = text(&place.output(["check", "--explain", "--", "true"]).stderr);
    assert!(explained.contains(&format!("shell: {ZSH}")), "{explained}");
}

#[test]
fn nothing_around_zsh_changes_what_a_text_means() {
    let Some(place) = place("zsh-around", "") else { return };
    for folder in ["home", "project", "home/z"] {
        place.write(&format!("{folder}/.zshenv"), "alias -g word=other\ntouch read\nexit 9\n");
    }
    place.write("project/show", "#!/bin/sh\necho \"$0|$1|$ARGV0|$STTY\"\n");
    let show = place.project().join("show");
    std::fs::set_permissions(show, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = place.stockade(["run", "--quiet", "--", "./show word; true"]);
    let z = place.home().join("z");
    command.env("ZDOTDIR", &z).env("ARGV0", "other").env("STTY", "raw").env("FPATH", &z);
    command.env("NULLCMD", "rm").env("ENV", z.join(".zshenv")).env("SHELLOPTS", "xtrace");
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(seen(&output), (Some(0), "./show|word||\n".to_owned(), String::new()));
    assert!(!place.project().join("read").exists());
}

#[test]
fn a_session_goes_on_where_zsh_ended() {
    let Some(place) = place("zsh-cwd", "") else { return };
    place.write("project/it's a sub/x", "");
    let run = |line: &str| {
        let words = ["run", "--quiet", "--session", "s", "--", line];
        seen(&place.output(words))
    };
    assert_eq!(run("cd \"it's a sub\" && exit 3").0, Some(3));
    assert!(run("pwd").1.ends_with("it's a sub\n"), "{:?}", run("pwd"));
    assert_eq!(run("ls | cat").1, "x\n");
}

#[test]
fn aliases_stand_in_the_text_and_functions_are_asked_about() {
    use std::io::Write as _;
    let Some(place) = place("zsh-snapshot", DENYING) else { return };
    let mut command = place.stockade(["snapshot"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let definitions = "alias one='echo first'\ntwo () \n{ \n    echo second\n}\n";
    child.stdin.take().expect("its input").write_all(definitions.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(run(&place, "one x").1, "first x\n");
    let (status, _, said) = run(&place, "two");
    assert_eq!(status, Some(121), "{said}");
    assert!(said.contains("`(` outside of single quotes"), "{said}");
}

#[test]
fn a_task_and_a_terminal_have_zsh_as_well() {
    let Some(place) = place("zsh-task", "") else { return };
    let gateway = Gateway::start(&place);
    let started = place.output(["run", "--quiet", "--background", "--", WHICH]);
    let id = text(&started.stdout).trim().to_owned();
    let waited = place.output(["tasks", "wait", &id]);
    assert_eq!(waited.status.code(), Some(0), "{}", text(&waited.stderr));
    let output = text(&place.output(["tasks", "output", &id]).stdout);
    assert!(output.contains("zsh"), "{output}");
    gateway.end();
    let words = ["run", "--quiet", "--pty", "--", WHICH];
    let Some(terminal) = Terminal::start(&place, stockade(), &words) else {
        return skip("a_task_and_a_terminal_have_zsh_as_well", "no script(1)");
    };
    let (status, screen) = terminal.end();
    assert!(status == Some(0) && screen.contains("zsh"), "{status:?} {screen}");
}

#[test]
fn what_is_no_zsh_is_no_shell() {
    let place = Place::new("zsh-none");
    place.write("home/.config/stockade/settings.json", r#"{"shell": "/bin/cat"}"#);
    let (status, _, said) = run(&place, "true");
    assert_eq!(status, Some(122), "{said}");
    assert!(said.contains("`/bin/cat` does not report a version of bash or zsh"), "{said}");
}
