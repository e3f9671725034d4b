//! Arithmetic, its look-alikes, and subscripts.

use expect_test::expect;

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
