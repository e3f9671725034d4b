//! A backslash and a line feed vanish before anything is decided.

use expect_test::expect;

use crate::check;

#[test]
fn operators_and_names_are_joined() {
    check(
        "a &\\\n& b |\\\n| c; e\\\nf $\\\n(g) 2\\\n>x",
        expect![[r#"
        Top: "a"
        Top: "b"
        Top: "c"
        Top: "ef" <any number of substitution ""..""> [2Write file "x"]
        Substitution: "g"
    "#]],
    );
}

#[test]
fn keywords_are_joined() {
    check(
        "i\\\nf a; th\\\nen b; f\\\ni",
        expect![[r#"
        Top: "a"
        Compound: "b"
    "#]],
    );
}

#[test]
fn a_comment_starts_only_a_word() {
    check(
        "echo a\\\n#b \\\n#c",
        expect![[r#"
        Top: "echo" "a#b"
    "#]],
    );
}

#[test]
fn single_quotes_and_comments_keep_them() {
    check(
        "echo 'a\\\nb' # c\\\nd",
        expect![[r#"
        Top: "echo" "a\\\nb"
        Top: "d"
    "#]],
    );
}

#[test]
fn a_carriage_return_is_no_line_feed() {
    check(
        "echo a\\\r\nb",
        expect![[r#"
        Top: "echo" "a\r"
        Top: "b"
        control-byte at "\r": the control character U+000D
    "#]],
    );
}

#[test]
fn double_quotes_lose_them() {
    check(
        "echo \"a\\\nb${x\\\n:-c}\"",
        expect![[r#"
        Top: "echo" <parameter "ab".."">
    "#]],
    );
}

#[test]
fn delimiters_and_bodies_are_joined() {
    check(
        "cat <<E\\\nF\na\\\nb\nE\\\nF\nc",
        expect![[r#"
        Top: "cat" [HereDocument text "ab\n"]
        Top: "c"
    "#]],
    );
}
