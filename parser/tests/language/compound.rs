//! Lists, pipelines and compound commands.

use expect_test::expect;

use crate::check;

#[test]
fn lists_and_pipelines() {
    check(
        "a; b & c && d || e | f |& g",
        expect![[r#"
        Top: "a"
        Top: "b"
        Top: "c"
        Top: "d"
        Pipeline(0): "e"
        Pipeline(1): "f"
        Pipeline(2): "g"
    "#]],
    );
}

#[test]
fn negation_and_time_stack() {
    check(
        "! time -p ! a | b",
        expect![[r#"
        Pipeline(0): "a"
        Pipeline(1): "b"
    "#]],
    );
}

#[test]
fn conditions_and_loops() {
    check(
        "if a; then b; elif c; then d; else e; fi; while f; do g; done; until h; do i; done",
        expect![[r#"
        Top: "a"
        Compound: "b"
        Top: "c"
        Compound: "d"
        Compound: "e"
        Compound: "f"
        Compound: "g"
        Compound: "h"
        Compound: "i"
    "#]],
    );
}

#[test]
fn loops_over_words() {
    check(
        "for x in $(a) b; do c; done; for x do d; done; for x in a; { e; }; select y in z; do f; done",
        expect![[r#"
        Substitution: "a"
        Compound: "c"
        Compound: "d"
        Compound: "e"
        Compound: "f"
    "#]],
    );
}

#[test]
fn case_patterns_hold_substitutions() {
    check(
        "case $(a) in (x|$(b)) c;; y) d;& *) e;;& esac",
        expect![[r#"
        Substitution: "a"
        Substitution: "b"
        Compound: "c"
        Compound: "d"
        Compound: "e"
    "#]],
    );
}

#[test]
fn groups_and_subshells_take_redirections() {
    check(
        "{ a; b; } > x; (c) 2>&1 < y",
        expect![[r#"
        Top: "a"
        Top: "b"
        Subshell: "c"
    "#]],
    );
}

#[test]
fn keywords_count_only_in_command_position() {
    check(
        "echo if then; x=1 if; \"if\" a; \\if b",
        expect![[r#"
        Top: "echo" "if" "then"
        Top: x="1" "if"
        Top: "if" "a"
        Top: "if" "b"
    "#]],
    );
}

#[test]
fn a_function_is_listed_once() {
    check(
        "f() { a; }; function g-h { b; }; f x; function i () ( c ) > out",
        expect![[r#"
        Function: "a"
        Function: "b"
        Top: "f" "x"
        Subshell: "c"
    "#]],
    );
}

#[test]
fn a_coprocess_may_have_a_name() {
    check(
        "coproc a b; coproc N { c; }; coproc d-e",
        expect![[r#"
        Compound: "a" "b"
        Compound: "c"
        Compound: "d-e"
    "#]],
    );
}

#[test]
fn tests_have_their_own_grammar() {
    check(
        "[[ $(a) < b && ( -f c || ! d ) ]] && [[ x == @(a|$(b)) ]] && [[ y =~ ^(a b|$(c))$ ]]",
        expect![[r#"
        Substitution: "a"
        Substitution: "b"
        Substitution: "c"
    "#]],
    );
}

#[test]
fn single_brackets_are_a_command() {
    check(
        "[ a < b ] && [ -f x -a y ]",
        expect![[r#"
        Top: "[" "a" "]" [Read file "b"]
        Top: "[" "-f" "x" "-a" "y" "]"
    "#]],
    );
}

#[test]
fn time_behind_a_pipe_is_a_word() {
    check(
        "a | time b",
        expect![[r#"
        Pipeline(0): "a"
        Pipeline(1): "time" "b"
        Wrapped: "b"
    "#]],
    );
}

#[test]
fn a_regular_expression_may_begin_with_a_parenthesis() {
    for text in [
        "[[ a =~ (b|$(ls)) ]]; id",
        "[[ a =~ ( b ) ]] && id",
        "[[ a =~ |b ]]; id",
        "[[ (a =~ b) && (c == d) ]]; id",
        "foo=x; id \"${foo%d\\'}\"",
    ] {
        let shown = crate::show(text);
        assert!(!shown.contains("syntax"), "{text}: {shown}");
        assert!(shown.contains("Top: \"id\""), "{text}: {shown}");
    }
}
