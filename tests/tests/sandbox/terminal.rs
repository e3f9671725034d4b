//! On a terminal: job control works, and nothing can be typed for the person.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use stockade_sandbox::{Child, spawn};
use stockade_spec::{Fallback, SandboxSpec, Stdio, Window};
use stockade_tests::lacking::{user_namespaces, without};
use stockade_tests::{skip, until};

use crate::place::{Place, as_root_and_user, launcher};

/// Set in the copy of the test that has a terminal.
const ON_A_TERMINAL: &str = "STOCKADE_TEST_ON_A_TERMINAL";

/// Injects a character by `TIOCSTI` (0x5412) and by `TIOCLINUX` (0x541C); exits 0 only if one gets through.
const INJECT: &str = "perl -e '$c = \"x\"; $l = pack(\"C\", 3); $! = 0; \
     exit 0 if ioctl(STDIN, 0x5412, $c); $a = $!{EPERM}; exit 0 if ioctl(STDIN, 0x541C, $l); \
     exit(($a && $!{EPERM}) ? 1 : 2)'";

#[test]
fn job_control_works_and_nothing_can_be_typed() {
    let test = "terminal::job_control_works_and_nothing_can_be_typed";
    if std::env::var_os(ON_A_TERMINAL).is_none() {
        let this = std::env::current_exe().unwrap();
        let line = format!("'{}' --exact {test} --nocapture", this.display());
        let script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env(ON_A_TERMINAL, "1")
            .stdin(std::process::Stdio::null())
            .output();
        let Ok(output) = script else {
            skip(test, "there is no `script` to make a terminal");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let place = Place::new("terminal");
    let status = |script: &str| {
        let mut spec = place.spec(script);
        spec.program.environment.push(("TERM".into(), "dumb".into()));
        let stream = || std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let stdio = Stdio { stdin: stream(), stdout: stream(), stderr: stream() };
        let (child, enforced) = spawn(launcher(), &spec, stdio).unwrap();
        assert!(enforced.holds(stockade_spec::Protection::Tty));
        child.wait().unwrap().code
    };
    assert_eq!(status("test -t 0 && test -t 1 && test -t 2"), Some(0));
    assert_eq!(status(INJECT), Some(1), "both are refused by the filter");
    let jobs = "set -m; sleep 100 & kill -STOP %1; until jobs -s | grep -q sleep; do :; done; \
                bg %1 >/dev/null; until jobs -r | grep -q sleep; do :; done; kill %1; wait %1; test $? = 143";
    assert_eq!(status(jobs), Some(0));
}

/// Starts `spec` on a terminal of its own; returns also the other end.
fn on_its_own(mut spec: SandboxSpec) -> (Child, File) {
    spec.terminal = Some(Window { rows: 12, columns: 34 });
    let nothing =
        || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
    let stdio = Stdio { stdin: nothing(), stdout: nothing(), stderr: nothing() };
    let (mut child, _) = spawn(launcher(), &spec, stdio).unwrap();
    let other_end = child.take_terminal().unwrap();
    (child, other_end.into())
}

/// Returns what a terminal showed whose command has ended.
fn shown(mut other_end: File) -> String {
    let mut screen = Vec::new();
    let _ = other_end.read_to_end(&mut screen); // it ends with an error: nobody has the terminal any more
    String::from_utf8(screen).unwrap()
}

/// A spec for a machine that may be without user namespaces.
fn without_namespaces(place: &Place, script: &str) -> SandboxSpec {
    let mut spec = place.spec(script);
    spec.fallback = Fallback::Static;
    spec
}

#[test]
fn a_terminal_of_its_own_is_had_with_namespaces_and_without() {
    as_root_and_user("terminal::a_terminal_of_its_own_is_had_with_namespaces_and_without", || {
        let place = Place::new("own-terminal");
        let script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo by name >/dev/tty";
        let let_out = SandboxSpec { confine: false, ..place.spec(script) };
        let all = [
            (place.spec(script), vec![]),
            (without_namespaces(&place, script), user_namespaces()),
            (let_out, vec![]),
        ];
        for (spec, lacking) in all {
            let (child, other_end) = without(&lacking, || on_its_own(spec));
            assert_eq!(child.wait().unwrap().code, Some(0));
            assert_eq!(shown(other_end), "12 34\r\nby name\r\n");
        }
    });
}

#[test]
fn the_terminals_of_the_host_cannot_be_opened() {
    as_root_and_user("terminal::the_terminals_of_the_host_cannot_be_opened", || {
        let place = Place::new("other-terminal");
        let name = place.project.join("name");
        // Somebody else of this user at a terminal of the host.
        let script = "tty >name.new; mv name.new name; sleep 600";
        let (other, screen) = on_its_own(SandboxSpec { confine: false, ..place.spec(script) });
        until("its terminal has a name", || name.exists());
        let terminal = fs::read_to_string(&name).unwrap();
        for act in ["<", ">", "<>"] {
            let script = format!("exec 3{act} {terminal}");
            assert_eq!(place.plain(&script).code, Some(0), "must work unconfined: {script}");
            for (spec, lacking) in [
                (place.spec(&script), vec![]),
                (without_namespaces(&place, &script), user_namespaces()),
            ] {
                // On one of its own that has the same name in its namespace nothing is shown here either.
                let stdio = || {
                    OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap())
                };
                let stdio = Stdio { stdin: stdio(), stdout: stdio(), stderr: stdio() };
                let (child, _) = without(&lacking, || spawn(launcher(), &spec, stdio)).unwrap();
                assert_eq!(child.wait().unwrap().code, Some(1), "must fail confined: {script}");
            }
        }
        drop((other, screen));
    });
}
