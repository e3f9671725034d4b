//! On a terminal: job control works, and nothing can be typed for the person.

use std::os::fd::AsFd;
use std::process::Command;

use stockade_sandbox::{Stdio, spawn};

use crate::place::{Place, launcher};

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
            println!("{test}: there is no `script` to make a terminal: not tested");
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
        assert!(enforced.holds(stockade_sandbox::Protection::Tty));
        child.wait().unwrap().code
    };
    assert_eq!(status("test -t 0 && test -t 1 && test -t 2"), Some(0));
    assert_eq!(status(INJECT), Some(1), "both are refused by the filter");
    let jobs = "set -m; sleep 100 & kill -STOP %1; until jobs -s | grep -q sleep; do :; done; \
                bg %1 >/dev/null; until jobs -r | grep -q sleep; do :; done; kill %1; wait %1; test $? = 143";
    assert_eq!(status(jobs), Some(0));
}
