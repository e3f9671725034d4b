//! Scripts that a shell of the text runs: opaque only where the text may have written them.

use stockade_parser::{CommandTree, Limits, Programs, StartState, Word, parse};

fn read(text: &str) -> CommandTree {
    parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &Limits::default())
        .confirm(&[])
}

/// The codes of what is not understood, but for the witness that is not asked here.
fn doubts(text: &str) -> Vec<&'static str> {
    let tree = read(text);
    let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
    codes.filter(|code| *code != "witness-absent").collect()
}

fn programs(text: &str) -> Vec<String> {
    let words = |words: &[Word]| {
        let shown =
            words.iter().map(|it| String::from_utf8_lossy(it.exact().unwrap_or(b"?")).into_owned());
        shown.collect::<Vec<_>>().join(" ")
    };
    read(text).commands().iter().map(|command| words(&command.words)).collect()
}

#[test]
fn a_script_is_a_command_of_its_own() {
    for (text, expected) in [
        ("bash x.sh", ["bash x.sh", "./x.sh"]),
        ("sh a/x.sh -e 'b c'", ["sh a/x.sh -e b c", "a/x.sh -e b c"]),
        ("bash -eux -o pipefail ./x.sh $y", ["bash -eux -o pipefail ./x.sh ?", "./x.sh ?"]),
        ("dash -- -x", ["dash -- -x", "./-x"]),
        ("bash - +x", ["bash - +x", "./+x"]),
        ("/bin/bash /opt/x.sh", ["/bin/bash /opt/x.sh", "/opt/x.sh"]),
    ] {
        assert_eq!(doubts(text), [""; 0], "{text}");
        assert_eq!(programs(text), expected, "{text}");
    }
}

#[test]
fn a_script_in_a_text_of_another_program_is_doubted_however_deep_it_lies() {
    let inner = "watch 'bash x.sh \"a b\"'";
    assert_eq!(doubts(inner), ["script-file"]);
    for wrapper in ["bash -c", "env nice bash -c", "eval --"] {
        let text = format!("{wrapper} '{}'", inner.replace('\'', r"'\''"));
        assert!(doubts(&text).contains(&"script-file"), "{text}");
    }
}

#[test]
fn what_only_reads_may_stand_around_a_script() {
    for text in [
        "cd d && bash x.sh",
        "set -euo pipefail; export A=1; test -f x.sh && bash x.sh 2>&1 | tail -n 5",
        "ls -l; cat x.sh; git status; bash x.sh > /dev/null",
        "bash x.sh > log 2>&1",
        "timeout 5 nice -n 3 env A=1 bash x.sh > log",
        "cat data | grep a | bash x.sh",
        "for i in 1 2; do bash x.sh $i; done",
        "find . -exec bash x.sh {} +",
        "ls | xargs -n 1 bash x.sh",
        "sudo -u me bash x.sh",
        "docker exec web bash x.sh",
        "if [ -f x.sh ]; then sh x.sh; fi",
        // In the list of the text itself, what follows comes when the script is over.
        "bash x.sh && make && cp a x.sh; echo done > y",
        "bash -c 'bash x.sh' || true",
    ] {
        let expected: &[&str] = if text.contains("-c") { &["script-file"] } else { &[] };
        assert_eq!(doubts(text), expected, "{text}");
    }
}

#[test]
fn a_script_that_the_text_may_have_written_is_opaque() {
    for text in [
        "echo id > x.sh; bash x.sh",
        "echo id > y; bash x.sh",
        "cat > x.sh <<E\nid\nE\nbash x.sh",
        "echo id | tee x.sh; bash x.sh",
        "cp a x.sh && bash x.sh",
        "mv a x.sh; ln -s a x.sh; bash x.sh",
        "dd of=x.sh; bash x.sh",
        "sed -i s/a/b/ x.sh; bash x.sh",
        "install a x.sh; bash x.sh",
        "curl -o x.sh http://h/; bash x.sh",
        "git pull; bash x.sh",
        "tar xf a.tar; bash x.sh",
        "awk '{ print > \"x.sh\" }' y; bash x.sh",
        "python3 -c 'x'; bash x.sh",
        "unknown; bash x.sh",
        "./x; bash x.sh",
        "bash a.sh; bash x.sh",
        "f() { echo id > x.sh; }; f; bash x.sh",
        "f() { bash x.sh; }; f; echo id > x.sh; f",
        "ls() { cat > x.sh; }; ls; bash x.sh",
        "echo id > x.sh & bash x.sh",
        "bash x.sh & echo id > x.sh",
        "(sleep 1; bash x.sh) & cp a x.sh",
        "cat > x.sh | bash x.sh",
        "bash x.sh | tee x.sh",
        "bash x.sh > x.sh",
        "bash a/x.sh > ./x.sh",
        "bash x.sh > $y",
        "bash x.sh > *",
        "bash x.sh $(echo id > x.sh)",
        "bash x.sh <<E\n$(echo id > x.sh)\nE",
        "a=$(cp a x.sh) bash x.sh",
        "bash x.sh > >(cat > x.sh)",
        "ls > >(cat > x.sh); bash x.sh",
        "coproc cat > x.sh; bash x.sh",
        "exec 3> x.sh; echo id >&3; bash x.sh",
        "exec 3<> x.sh; bash x.sh",
        "{ bash x.sh; } > x.sh",
        "{ bash x.sh; } 3>> log",
        "while a; do bash x.sh; done > x.sh",
        "for i in 1 2; do bash x.sh; echo id > x.sh; done",
        "trap 'bash x.sh' EXIT; echo id > x.sh",
        "trap 'echo id > x.sh' DEBUG; bash x.sh",
        "eval 'echo id > x.sh'; bash x.sh",
        "bash -c 'echo id > x.sh'; bash x.sh",
        "set -m; bash x.sh; fg",
        "set -o monitor; bash x.sh; fg",
        "strace -o x.sh bash x.sh",
        "sudo tee x.sh; sudo bash x.sh",
        "find . -fprint x.sh -exec bash x.sh {} +",
        "docker cp x.sh web:/; docker exec web bash x.sh",
        "nohup echo id; bash nohup.out",
        "git -c alias.x='!bash x.sh' x",
        "PAGER='bash x.sh' git pull",
        "parallel bash x.sh ::: a",
        "ssh host bash x.sh",
    ] {
        assert!(doubts(text).contains(&"script-file"), "{text}: {:?}", doubts(text));
    }
}

#[test]
fn what_is_no_script_by_its_name_stays_what_it_was() {
    for (text, code) in [
        ("bash /dev/stdin", "stdin-program"),
        ("bash /dev/fd/3", "stdin-program"),
        ("bash /proc/self/fd/0", "stdin-program"),
        ("bash -", "stdin-program"),
        ("bash -s x.sh", "stdin-program"),
        ("bash <(cat y)", "stdin-program"),
        ("bash //dev/stdin", "script-file"),
        ("bash /dev/./fd/0", "script-file"),
        ("bash ../../../dev/stdin", "script-file"),
        ("bash dev/stdin", "script-file"),
        ("bash stdin", "script-file"),
        ("bash fd/3", "script-file"),
        ("bash /proc/1/root/x.sh", "script-file"),
        ("cd /dev; bash stdin", "script-file"),
        ("cd /dev/fd; bash 0", "dynamic-name"),
        ("bash \"$x\"", "script-file"),
        ("bash *.sh", "dynamic-option"),
        ("bash $x", "dynamic-option"),
        ("bash ''", "script-file"),
        ("bash .", "script-file"),
        ("source x.sh", "script-file"),
        (". ./x.sh", "script-file"),
        ("zsh x.sh", "script-file"),
        ("bash -l x.sh", "startup-files"),
        ("bash -i x.sh", "startup-files"),
        ("bash --rcfile y x.sh", "script-file"),
        ("bash --init-file y x.sh", "script-file"),
        ("bash -O extglob x.sh", "state"),
        ("bash -a x.sh", "state"),
        ("bash -Z x.sh", "unknown-option"),
        ("BASH_ENV=y bash x.sh", "state"),
        ("env BASH_ENV=y bash x.sh", "state"),
        ("export BASH_ENV=y; bash x.sh", "state"),
        ("export ENV=y; sh x.sh", "state"),
        ("PATH=.; bash x.sh", "state"),
        ("cd $d; bash x.sh", "dynamic-name"),
    ] {
        assert!(doubts(text).contains(&code), "{text}: {:?}", doubts(text));
    }
}
