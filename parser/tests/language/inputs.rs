//! Shells that read their text from a standard input that is known to be empty.

use stockade_parser::{Limits, Programs, StartState, parse};

fn doubts(text: &str, stdin_empty: bool) -> Vec<&'static str> {
    let start = StartState { stdin_empty, ..StartState::default() };
    let tree = parse(text.as_bytes(), &start, Programs::builtin(), &Limits::default()).confirm(&[]);
    let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
    codes.filter(|code| *code != "witness-absent").collect()
}

#[test]
fn a_shell_that_reads_an_empty_input_runs_nothing() {
    for text in [
        "bash",
        "exec bash",
        "sh -s a b",
        "bash -",
        "cd a && dash; ls > x",
        "env A=1 bash -s x",
        "timeout 5 nice bash",
        "(bash); x=$(sh); bash & wait",
        "bash -c 'sh; eval bash'",
        "f() { bash; }; f",
        "docker run -it --rm ubuntu bash",
        "docker exec web sh",
        "kubectl exec -it web-0 -- bash",
    ] {
        assert_eq!(doubts(text, true), [""; 0], "{text}");
        assert!(doubts(text, false).contains(&"stdin-program"), "{text}");
    }
}

#[test]
fn a_shell_that_may_read_something_else_is_opaque() {
    for text in [
        "echo id | bash",
        "bash < f",
        "bash <&3",
        "bash 0<> f",
        "bash 0>&1",
        "{ bash; } < f",
        "{ bash; } <<< id",
        "(sh) 0< f",
        "f() { bash; }; f < x",
        "f() { bash; } < x; f",
        "exec < f; bash",
        "exec {n}> f; bash",
        "bash -c bash < f",
        "bash -c 'exec < f; bash'",
        "eval 'exec < f'; bash",
        "while read -r l; do bash; done < f",
        "if a; then bash; fi <<E\nid\nE",
        "echo id | { bash; }",
        "echo id | nice bash",
        "a | b; bash",
        "coproc bash",
        "a > >(bash)",
        "bash /dev/stdin",
        "bash /dev/fd/3",
        // These have a terminal, a socket or a file of their own for it.
        "screen bash",
        "su me",
        "crontab",
        "ssh host bash",
        "sudo bash",
        "find . -exec bash \\;",
        "./bash",
        "/opt/nice bash",
        "zsh",
    ] {
        let found = doubts(text, true);
        let nameless = ["./bash", "crontab"].contains(&text);
        assert!(found.contains(&"stdin-program") || nameless, "{text}: {found:?}");
    }
}
