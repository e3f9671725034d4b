//! Texts that bash does not accept.

use expect_test::expect;

use crate::check;

#[test]
fn lines_before_an_error_have_run() {
    check(
        "a\nb; )\nc",
        expect![[r#"
        Top: "a"
        Top: "b"
        Top: "c"
        syntax at "b; )\nc": unexpected token
    "#]],
    );
}

#[test]
fn a_quote_without_end() {
    check(
        "a\necho 'b; c\nd",
        expect![[r#"
        Top: "a"
        Top: "echo"
        Top: "b"
        Top: "c"
        Top: "d"
        syntax at "echo 'b; c\nd": a single quote is not closed
    "#]],
    );
}

#[test]
fn a_reserved_word_alone() {
    check(
        "then a",
        expect![[r#"
            Top: "a"
            syntax at "then a": unexpected token
        "#]],
    );
}

#[test]
fn an_empty_body() {
    check(
        "if a; then fi; b",
        expect![[r#"
            Top: "a"
            Top: "b"
            syntax at "if a; then fi; b": a command is expected
        "#]],
    );
}

#[test]
fn a_lone_operator() {
    check(
        "a && && b",
        expect![[r#"
            Top: "a"
            Top: "b"
            syntax at "a && && b": a command is expected
        "#]],
    );
}

#[test]
fn a_substitution_without_end() {
    check(
        "a $(b; c",
        expect![[r#"
        Top: "a"
        Subshell: "b"
        Subshell: "c"
        syntax at "a $(b; c": `(` is not closed
    "#]],
    );
}
