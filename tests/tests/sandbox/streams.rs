//! The three streams of a command: opened again by name, as scripts do, and as a terminal.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;

use stockade_sandbox::spawn;
use stockade_spec::Stdio;

use crate::place::{Place, as_root_and_user, launcher};

#[test]
fn streams_that_are_pipes_can_be_opened_by_name() {
    as_root_and_user("streams::streams_that_are_pipes_can_be_opened_by_name", || {
        let place = Place::new("stream-pipes");
        let seen = place.confined(
            "echo a > /dev/stdout; echo b >> /dev/stderr; echo c | tee /dev/stderr >/dev/null
             echo d > /proc/self/fd/1; echo e > /dev/fd/2; echo f | cat /dev/stdin; (echo g > /dev/stdout) | cat",
        );
        let mut lines: Vec<&str> = seen.text.lines().collect();
        lines.sort_unstable();
        assert_eq!((seen.code, lines.join("")), (Some(0), "abcdefg".to_owned()), "{}", seen.text);
    });
}

#[test]
fn a_stream_that_is_a_file_can_be_opened_by_name_and_no_other_file() {
    as_root_and_user(
        "streams::a_stream_that_is_a_file_can_be_opened_by_name_and_no_other_file",
        || {
            let place = Place::new("stream-files");
            let path = place.outside.join("out");
            fs::write(place.outside.join("other"), "other\n").unwrap();
            let script = "echo a >> /dev/stdout && echo b >> /dev/stderr && echo c | tee -a /dev/stderr >/dev/null
            echo d >> $O/out; echo e >> $O/other; exec 3< $O/other; echo f >> /dev/fd/3; true";
            let spec = place.spec(script);
            let file = || File::options().append(true).create(true).open(&path).unwrap();
            let stdio = Stdio {
                stdin: OwnedFd::from(File::open("/dev/null").unwrap()),
                stdout: file().into(),
                stderr: file().into(),
            };
            let (child, _) = spawn(launcher(), &spec, stdio).unwrap();
            assert_eq!(child.wait().unwrap().code, Some(0));
            let text = fs::read_to_string(&path).unwrap();
            let plain: Vec<&str> = text.lines().filter(|line| line.len() == 1).collect();
            assert_eq!(plain, ["a", "b", "c"], "{text}");
            assert_eq!(fs::read_to_string(place.outside.join("other")).unwrap(), "other\n");
        },
    );
}

#[test]
fn a_stream_that_the_command_closes_is_closed_although_it_goes_on() {
    as_root_and_user(
        "streams::a_stream_that_the_command_closes_is_closed_although_it_goes_on",
        || {
            let place = Place::new("stream-closed");
            let spec = place.spec("echo before; exec >&- 2>&-; read -r line; exit $line");
            let (stdin, mut answer) = std::io::pipe().unwrap();
            let (mut reader, writer) = std::io::pipe().unwrap();
            let stdout = writer.try_clone().unwrap().into();
            let stdio = Stdio { stdin: stdin.into(), stdout, stderr: writer.into() };
            let (child, _) = spawn(launcher(), &spec, stdio).unwrap();
            // The output ends here only if nobody else holds the other end: the command waits for its input.
            let text = std::io::read_to_string(&mut reader).unwrap();
            answer.write_all(b"7\n").unwrap();
            assert_eq!((text.as_str(), child.wait().unwrap().code), ("before\n", Some(7)));
        },
    );
}
