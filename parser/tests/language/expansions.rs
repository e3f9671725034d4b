//! Parameters, tildes, patterns.

use expect_test::expect;

use crate::check;

#[test]
fn parameters_are_one_or_any_number_of_words() {
    check(
        "echo $x \"$x\" \"$@\" \"$*\" $# \"a$x\" a$x",
        expect![[r#"
            Top: "echo" <any number of parameter ""..""> <parameter ""..""> <any number of parameter ""..""> "" <parameter ""..""> <parameter "a"..""> <any number of parameter "a".."">
        "#]],
    );
}

#[test]
fn operands_are_searched() {
    check(
        "echo ${x:-$(a)} \"${x:+`b`}\" ${x#$(c)} ${x/$(d)/$(e)} ${x:$(f):$(g)} ${x^^$(h)}",
        expect![[r#"
        Top: "echo" <any number of parameter ""..""> <parameter ""..""> <any number of parameter ""..""> <any number of parameter ""..""> <any number of parameter ""..""> <any number of parameter "".."">
        Substitution: "a"
        Substitution: "b"
        Substitution: "c"
        Substitution: "d"
        Substitution: "e"
        Substitution: "f"
        Substitution: "g"
        Substitution: "h"
        arith-name at "$(f):$(g)": a value that is evaluated as arithmetic is not known
    "#]],
    );
}

#[test]
fn single_quotes_in_a_quoted_operand_hide_nothing() {
    check(
        "echo \"${x:-'$(a)'}\" \"${x#'$(b)'}\"",
        expect![[r#"
        Top: "echo" <parameter ""..""> <parameter "".."">
        Substitution: "a"
    "#]],
    );
}

#[test]
fn indirection_is_opaque() {
    check(
        "echo ${!x} ${!x@} ${!x*} ${!x[@]}",
        expect![[r#"
        Top: "echo" <any number of indirect ""..""> <any number of parameter ""..""> <any number of parameter ""..""> <any number of parameter "".."">
        indirect at "${!x}": the value of a variable names another one
    "#]],
    );
}

#[test]
fn prompt_expansion_is_opaque() {
    check(
        "echo ${x@P} ${x@Q}",
        expect![[r#"
        Top: "echo" <any number of parameter ""..""> <any number of parameter "".."">
        prompt-expansion at "${x@P}": the value is evaluated again as a prompt
    "#]],
    );
}

#[test]
fn tildes_are_one_word() {
    check(
        "echo ~ ~/a ~b/c \"~\" a~ x=~ ; x=~:~/b",
        expect![[r#"
            Top: "echo" <tilde "/"..""> <tilde "/".."/a"> <tilde "".."/c"> "~" "a~" <tilde "x=/".."">
            Top: x=<tilde "/".."/b">
        "#]],
    );
}

#[test]
fn patterns_may_match_anything() {
    check(
        "echo *.txt a?b [a-z]c \"*\" \\* a[ b]",
        expect![[r#"
        Top: "echo" <pattern * ".txt"> <pattern "a" ? "b"> <pattern other "[a-z]c"> "*" "*" "a[" "b]"
    "#]],
    );
}

#[test]
fn process_substitutions_are_listed() {
    check(
        "diff <(a) >(b) x<(c)",
        expect![[r#"
            Top: "diff" <substitution "/dev/fd/"..""> <substitution "/dev/fd/"..""> <substitution "x/dev/fd/".."">
            ProcessSubstitution: "a"
            ProcessSubstitution: "b"
            ProcessSubstitution: "c"
        "#]],
    );
}

#[test]
fn newer_substitutions_are_listed_and_doubted() {
    check(
        "echo ${ a; } ${| b; }",
        expect![[r#"
        Top: "echo" <any number of substitution ""..""> <any number of substitution "".."">
        Substitution: "a"
        Substitution: "b"
        version at "${ ": `${ list; }` runs commands from bash 5.3 on
        version at "${|": `${ list; }` runs commands from bash 5.3 on
    "#]],
    );
}

#[test]
fn extended_patterns_from_the_next_line() {
    check(
        "shopt -s extglob\necho !(a|$(b)) @(c)",
        expect![[r#"
        Top: "shopt" "-s" "extglob"
        Top: "echo" <any number of substitution "!"..""> <pattern other "@(c)">
        Substitution: "b"
    "#]],
    );
}

#[test]
fn escapes_in_a_quoted_operand_are_expanded_again() {
    check(
        "echo \"${x:-$'a\\x24(b)'}\" \"${x:-$'c'}\"",
        expect![[r#"
        Top: "echo" <parameter ""..""> <parameter "".."">
        syntax at "$'a\\x24(b)'": `$'..'` whose value is expanded again
    "#]],
    );
}

#[test]
fn an_empty_process_substitution_is_no_word() {
    check(
        "a >() <( b )",
        expect![[r#"
            Top: "a" <any number of substitution ""..""> <substitution "/dev/fd/".."">
            ProcessSubstitution: "b"
        "#]],
    );
}
