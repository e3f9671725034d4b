//! Commands that change the meaning of what follows.

use expect_test::expect;

use crate::{check, show, tree};

#[test]
fn path_changes_what_follows() {
    check(
        "a; PATH=x; b",
        expect![[r#"
        Top: "a"
        Top: PATH="x"
        Top: "b"
        state at "b": `PATH` is changed
    "#]],
    );
}

#[test]
fn a_subshell_keeps_its_changes() {
    check(
        "(PATH=x; a); b",
        expect![[r#"
        Subshell: PATH="x"
        Subshell: "a"
        Top: "b"
        state at "a); b": `PATH` is changed
    "#]],
    );
}

#[test]
fn a_last_change_changes_nothing() {
    check(
        "a; export PATH=x",
        expect![[r#"
        Top: "a"
        Top: "export" "PATH=x"
    "#]],
    );
}

#[test]
fn a_prefix_counts_for_its_command() {
    check(
        "PATH=x a; IFS=, read b; LC_ALL=C c",
        expect![[r#"
        Top: PATH="x" "a"
        Top: IFS="," "read" "b"
        Top: LC_ALL="C" "c"
        state at "PATH=x a": `PATH` is changed
    "#]],
    );
}

#[test]
fn harmless_options() {
    check(
        "set -euo pipefail; set -x; shopt -s nullglob; a",
        expect![[r#"
        Top: "set" "-euo" "pipefail"
        Top: "set" "-x"
        Top: "shopt" "-s" "nullglob"
        Top: "a"
    "#]],
    );
}

#[test]
fn options_that_change_reading() {
    check(
        "set -k; a",
        expect![[r#"
        Top: "set" "-k"
        Top: "a"
        state at "a": `set -k`
    "#]],
    );
}

#[test]
fn ifs_in_a_loop_reaches_back() {
    check(
        "while a; do b; IFS=x; done",
        expect![[r#"
        Compound: "a"
        Compound: "b"
        Compound: IFS="x"
        state at "while a; do b; IFS=x; done": `IFS` is changed
    "#]],
    );
}

#[test]
fn the_directory_is_followed() {
    check(
        "cd a && b; c",
        expect![[r#"
        Top: "cd" "a"
        Top: "b"
        Top: "c"
    "#]],
    );
}

#[test]
fn a_relative_program_in_an_unknown_directory() {
    check(
        "cd \"$x\" && ./a",
        expect![[r#"
        Top: "cd" <parameter "".."">
        Top: "./a"
        dynamic-name at "./a": a program by a relative path, in a directory that is not known
    "#]],
    );
}

#[test]
fn an_arithmetic_assignment_counts() {
    check(
        "((PATH=1)); a",
        expect![[r#"
        Top: "a"
        state at "a": `PATH` is changed
    "#]],
    );
}

#[test]
fn unset_and_read_count() {
    check(
        "read PATH; a",
        expect![[r#"
        Top: "read" "PATH"
        Top: "a"
        state at "a": `PATH` is changed
    "#]],
    );
}

#[test]
fn a_control_byte_is_doubted_in_nested_text_too() {
    let codes = |text: &str| -> Vec<&'static str> {
        let tree = tree(text);
        let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
        codes.filter(|code| !code.starts_with("witness")).collect()
    };
    assert_eq!(codes("\u{19}iind"), ["control-byte"]);
    assert_eq!(codes("bash -c '\u{19}iind'"), ["control-byte"]);
    assert_eq!(codes("eval $'\\x19iind'"), ["control-byte"]);
    assert_eq!(codes("bash -c 'echo \"\u{19}\"'"), Vec::<&str>::new());
}

#[test]
fn what_is_no_option_of_find_is_not_doubted() {
    for harmless in [
        "find . -name [ab]* -print",
        "find . -size +1024 ?print",
        "find . -exec echo {} ;",
        "find . -name",
        "echo 1 | xargs printf '- - %s'",
        "find . -exec [ {} -v x ';'",
        "su -c id -s /bin/sh oracle",
    ] {
        assert!(!show(harmless).contains(" at "), "{harmless}: {}", show(harmless));
    }
    for doubted in [
        "find [!a]exec",
        "find [\"]\"-]*",
        "find [[:punct:]]*",
        "find . -exec cp {} /tmp + -exec id ';'",
        "printf '-v' \"$x\" y",
        "su -c id -s fish joe",
    ] {
        assert!(show(doubted).contains(" at "), "{doubted}: {}", show(doubted));
    }
}

#[test]
fn operands_of_a_shell_are_not_known_where_a_loop_may_set_them() {
    let text = show("bash -c 'for i in 1 2; do echo $1; set -- b; done' x a");
    assert!(text.contains("<any number of parameter"), "{text}");
}
