//! Arithmetic, its look-alikes, and subscripts.

use expect_test::expect;
use stockade_parser::{Limits, Programs, StartState, parse};

use crate::check;

#[test]
fn the_rule_of_bash_tells_arithmetic_from_subshells() {
    check(
        "echo $((1+2)) $((id) ) $((a); (b))",
        expect![[r#"
        Top: "echo" <arithmetic ""..""> <any number of substitution ""..""> <any number of substitution "".."">
        Subshell: "id"
        Subshell: "a"
        Subshell: "b"
    "#]],
    );
}

#[test]
fn nested_subshells_are_programs() {
    check(
        "((a); (b))",
        expect![[r#"
        Subshell: "a"
        Subshell: "b"
    "#]],
    );
}

#[test]
fn a_closed_second_parenthesis_is_no_arithmetic() {
    check(
        "((1)+(2))",
        expect![[r#"
        Subshell: "1"
        Subshell: "2"
        syntax at "((1)+(2))": `(` is not closed
    "#]],
    );
}

#[test]
fn unknown_names_are_evaluated_again() {
    check(
        "echo $((x + 1))",
        expect![[r#"
        Top: "echo" <arithmetic "".."">
        arith-name at "$((x + 1))": `x` is evaluated as arithmetic
    "#]],
    );
}

#[test]
fn names_set_to_numbers_are_numbers() {
    check(
        "i=0; while [[ $i -lt 3 ]]; do i=$((i+1)); done; echo $((i*2))",
        expect![[r#"
        Top: i="0"
        Compound: i=<arithmetic "".."">
        Top: "echo" <arithmetic "".."">
    "#]],
    );
}

#[test]
fn a_parameter_in_arithmetic_is_evaluated_again() {
    check(
        "echo $(($1 + ${#1} + $#))",
        expect![[r#"
            Top: "echo" <arithmetic "".."">
        "#]],
    );
}

#[test]
fn substitutions_in_arithmetic_are_listed() {
    check(
        "echo $(( $(id -u) + `id -g` )) $[ $(id) ]",
        expect![[r#"
        Top: "echo" <arithmetic ""..""> <arithmetic "".."">
        Substitution: "id" "-u"
        Substitution: "id" "-g"
        Substitution: "id"
        arith-name at "$(( $(id -u) + `id -g` ))": a value that is evaluated as arithmetic is not known
        arith-name at "$[ $(id) ]": a value that is evaluated as arithmetic is not known
    "#]],
    );
}

#[test]
fn single_quotes_in_arithmetic_hide_nothing() {
    check(
        "echo $(( '$(id)' ))",
        expect![[r#"
        Top: "echo" <arithmetic "".."">
        Substitution: "id"
        arith-name at "$(( '$(id)' ))": a value that is evaluated as arithmetic is not known
    "#]],
    );
}

#[test]
fn the_head_of_a_loop_is_arithmetic() {
    check(
        "for ((i=0; i<3; i++)); do echo \"$i\"; done",
        expect![[r#"
        Compound: "echo" <parameter "".."">
    "#]],
    );
}

#[test]
fn subscripts_are_evaluated() {
    check(
        "a[$x]=1; echo ${a[$(id)]} ${a[0]} ${a[@]}",
        expect![[r#"
        Top: a=<parameter "".."1">
        Top: "echo" <any number of parameter ""..""> <any number of parameter ""..""> <any number of parameter "".."">
        Substitution: "id"
        subscript at "[$x]": a value that is evaluated as arithmetic is not known
        subscript at "[$(id)]": a value that is evaluated as arithmetic is not known
    "#]],
    );
}

#[test]
fn keys_of_known_associative_arrays_are_words() {
    check(
        "declare -A a; a[key]=1; echo ${a[key]}",
        expect![[r#"
        Top: "declare" "-A" "a"
        Top: a=<parameter "".."1">
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn numeric_tests_evaluate() {
    check(
        "[[ $x -eq 1 ]]; [[ $x == 1 ]]",
        expect![[r#"
            arith-name at "$x": a value that is evaluated as arithmetic is not known
        "#]],
    );
}

/// Returns the codes of what is not understood in a text that a gateway runs, but for the missing witness.
fn doubts(text: &str) -> Vec<&'static str> {
    let state = StartState {
        plain_options: true,
        clean_environment: true,
        closed_environment: true,
        ..StartState::default()
    };
    let draft = parse(text.as_bytes(), &state, Programs::builtin(), &Limits::default());
    let tree = draft.confirm(&[]);
    let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
    codes.filter(|code| !code.starts_with("witness")).collect()
}

#[test]
fn what_counts_gives_a_variable_a_number() {
    for text in [
        "n=$(ls | wc -l); echo $((n+1))",
        "n=\"$(ls *.c | grep -v 'a b' | wc -l)\"; echo $((n * 2)); if ((n > 3)); then echo many; fi",
        "n=$(wc -l < src/a.txt); while ((n > 0)); do n=$((n-1)); done",
        "n=$(grep -c 'x' a.log) && echo $((n + 1))",
        "start=$(date +%s); make; end=$(date +%s); echo $((end - start))",
        "n=$(git rev-list --count HEAD); echo $((n-1))",
    ] {
        assert_eq!(doubts(text), [""; 0], "{text}");
    }
}

#[test]
fn what_only_looks_like_a_count_does_not() {
    for text in [
        "n=$(ls | wc -l a); echo $((n+1))",
        "n=$(ls | wc -L x); echo $((n+1))",
        "n=$(ls | head -1); echo $((n+1))",
        "n=$(ls | wc -l; cat x); echo $((n+1))",
        "n=$(ls | wc -l\ncat x); echo $((n+1))",
        "n=$(cat x || wc -l); echo $((n+1))",
        "n=$(cat x & wc -l); echo $((n+1))",
        "n=$(ls | wc -l)x; echo $((n+1))",
        "n=$(ls | wc -l)$(cat x); echo $((n+1))",
        "n=$(ls | grep -c x *); echo $((n+1))",
        "n=$(grep -c '-H' x 'a[$(id)]'); echo $((n+1))",
        "n=$(grep -c \"-H\" x y); echo $((n+1))",
        "n=$(grep -c x y z); echo $((n+1))",
        "n=$(ls | \\wc -l); echo $((n+1))",
        "n=$(ls | wc -l < $x); echo $((n+1))",
        "n=$(ls | wc -l > x); echo $((n+1))",
        "wc() { cat x; }; n=$(ls | wc -l); echo $((n+1))",
        "wc () { cat x; }; n=$(ls | wc -l); echo $((n+1))",
        "function wc { cat x; }; n=$(ls | wc -l); echo $((n+1))",
        "shopt -s expand_aliases\nalias wc='cat x #'\nn=$(ls | wc -l); echo $((n+1))",
        "n=$(ls | wc -l); read n; echo $((n+1))",
        "n=$(ls | wc -l); n=$(cat x); echo $((n+1))",
        "n=$(ls | ./wc -l); echo $((n+1))",
    ] {
        assert!(!doubts(text).is_empty(), "{text}");
    }
}

#[test]
fn a_number_is_no_option() {
    for text in ["make -j \"$(nproc)\"", "make -j $(nproc) all", "make -j \"$((2 * 3))\""] {
        assert_eq!(doubts(text), [""; 0], "{text}");
    }
    for text in [
        "make -j \"$(nproc)x\"",
        "make -j \"$(nproc)-f$(nproc)\"",
        "make -j \"$(nproc)$(cat x)\"",
        "make -j \"$(cat x)\"",
        "nproc() { cat x; }; make -j \"$(nproc)\"",
        "make -j \"$(nproc | cat x)\"",
        "make -j \"$(nproc; cat x)\"",
    ] {
        assert!(!doubts(text).is_empty(), "{text}");
    }
}
