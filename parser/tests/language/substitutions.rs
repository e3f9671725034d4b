//! Programs inside words.

use expect_test::expect;

use crate::check;

#[test]
fn programs_not_parentheses() {
    check(
        "echo $(case x in a) b;; esac; # )\n c) d",
        expect![[r#"
        Top: "echo" <any number of substitution ""..""> "d"
        Compound: "b"
        Substitution: "c"
    "#]],
    );
}

#[test]
fn backquotes_lose_one_level() {
    check(
        "a `b \\`c \"\\$d\"\\`` \"`e \\\"f\\\"`\"",
        expect![[r#"
        Top: "a" <any number of substitution ""..""> <substitution "".."">
        Substitution: "b" <any number of substitution "".."">
        Substitution: "c" <parameter "".."">
        Substitution: "e" "f"
    "#]],
    );
}

#[test]
fn levels_nest() {
    check(
        "a \"$(b \"$(c \"d\")\")\"",
        expect![[r#"
        Top: "a" <substitution "".."">
        Substitution: "b" <substitution "".."">
        Substitution: "c" "d"
    "#]],
    );
}

#[test]
fn a_read_of_a_file() {
    check(
        "a=$(<b)",
        expect![[r#"
        Top: a=<substitution "".."">
        Substitution: [Read file "b"]
    "#]],
    );
}

#[test]
fn quotes_in_backquotes_keep_their_backslash_but_in_double_quotes() {
    check(
        r#"e "`p \" \"`" "${M-`q \" \"`}" "${M-"`r \" \"`"}" ${M-"`s \" \"`"} "${M#"`t \" \"`"}""#,
        expect![[r#"
            Top: "e" <substitution ""..""> <parameter ""..""> <parameter ""..""> <any number of parameter ""..""> <parameter "".."">
            Substitution: "p" " "
            Substitution: "q" "\"" "\""
            Substitution: "r" "\"" "\""
            Substitution: "s" " "
            Substitution: "t" " "
        "#]],
    );
}
