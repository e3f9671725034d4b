//! Brace expansion.

use expect_test::expect;

use crate::check;

#[test]
fn lists_nest_and_ranges_count() {
    check(
        "echo {a,b{1..3},}x {01..3} {a..e..2} {3..1}",
        expect![[r#"
        Top: "echo" "ax" "b1x" "b2x" "b3x" "x" "01" "02" "03" "a" "c" "e" "3" "2" "1"
    "#]],
    );
}

#[test]
fn what_is_no_expression_stays() {
    check(
        "echo {} {x} {a,b a{b}c ${x}{ {\"a,b\"}",
        expect![[r#"
        Top: "echo" "{}" "{x}" "{a,b" "a{b}c" <any number of parameter "".."{"> "{a,b}"
    "#]],
    );
}

#[test]
fn braces_make_command_words() {
    check(
        "{ls,-l}",
        expect![[r#"
        Top: "ls" "-l"
    "#]],
    );
}

#[test]
fn two_empty_members_vanish() {
    check(
        "echo {,} a{,}",
        expect![[r#"
        Top: "echo" "a" "a"
    "#]],
    );
}

#[test]
fn a_range_beyond_the_limit_is_unknown() {
    check(
        "echo {1..100000}",
        expect![[r#"
        Top: "echo" <any number of limit-brace "".."">
        limit-brace at "{1..100000}": brace expansion makes too many words, or ones that are not modelled
    "#]],
    );
}

#[test]
fn assignments_and_tests_have_no_braces() {
    check(
        "x={a,b}; [[ {a,b} == c ]]",
        expect![[r#"
        Top: x="{a,b}"
    "#]],
    );
}

#[test]
fn braces_join_names() {
    check(
        "x=1; echo $x{2,3}",
        expect![[r#"
        Top: x="1"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn a_target_of_several_words_opens_nothing() {
    check(
        "echo > {a,b}",
        expect![[r#"
        Top: "echo" [Write file <any number of parameter "".."">]
    "#]],
    );
}

#[test]
fn a_closing_brace_without_a_comma_before_it_is_text() {
    check(
        "echo {l},} {a},b},c} a{b},c} {},a} x{},a} {{a},b} {a}b,c} {a..},b}",
        expect![[r#"
            Top: "echo" "l}" "a},c}" "b,c}" "ab}" "ac" "{},a}" "x}" "xa" "{a}" "b" "a}b" "c" "a..}" "b"
        "#]],
    );
}

#[test]
fn what_is_behind_an_expression_is_read_on_its_own() {
    check(
        "echo {a,{b}c} {{a,b}..c} {a,b}{},c} {{a,b},c",
        expect![[r#"
        Top: "echo" "a" "{b}c" "a..c" "b..c" "a{},c}" "b{},c}" "{a,c" "{b,c"
    "#]],
    );
}
