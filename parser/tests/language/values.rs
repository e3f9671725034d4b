//! Values that the text itself tells.

use expect_test::expect;

use crate::check;

#[test]
fn a_straight_line_is_followed() {
    check(
        "x=a; echo $x \"$x\" ${x:-b} $x.c",
        expect![[r#"
        Top: x="a"
        Top: "echo" "a" "a" "a" "a.c"
    "#]],
    );
}

#[test]
fn values_split_and_match() {
    check(
        "x=\"a  b *\"; echo $x \"$x\"",
        expect![[r#"
        Top: x="a  b *"
        Top: "echo" "a" "b" <pattern *> "a  b *"
    "#]],
    );
}

#[test]
fn an_empty_value_is_no_word() {
    check(
        "x=; echo $x \"$x\" a$x",
        expect![[r#"
        Top: x=""
        Top: "echo" "" "a"
    "#]],
    );
}

#[test]
fn a_branch_is_not_followed() {
    check(
        "x=a; if b; then x=c; fi; echo \"$x\"",
        expect![[r#"
        Top: x="a"
        Top: "b"
        Compound: x="c"
        Top: "echo" <parameter "".."">
    "#]],
    );
}

#[test]
fn a_subshell_changes_nothing() {
    check(
        "x=a; (x=b; echo $x); echo $x",
        expect![[r#"
        Top: x="a"
        Subshell: x="b"
        Subshell: "echo" "b"
        Top: "echo" "a"
    "#]],
    );
}

#[test]
fn a_later_and_is_followed() {
    check(
        "a && x=b && echo $x; echo $x",
        expect![[r#"
        Top: "a"
        Top: x="b"
        Top: "echo" "b"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn a_right_side_of_or_is_not() {
    check(
        "x=a || x=b; echo $x; y=c; d || y=e; echo $y",
        expect![[r#"
        Top: x="a"
        Top: x="b"
        Top: "echo" <any number of parameter "".."">
        Top: y="c"
        Top: "d"
        Top: y="e"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn a_prefix_is_seen_by_later_prefixes_only() {
    check(
        "x=1; x=2 y=$x echo $x",
        expect![[r#"
            Top: x="1"
            Top: x="2" y="2" "echo" <any number of parameter "".."">
        "#]],
    );
}

#[test]
fn builtins_that_set_are_seen() {
    check(
        "x=a; read x; echo $x; y=a; printf -v y b; echo $y",
        expect![[r#"
        Top: x="a"
        Top: "read" "x"
        Top: "echo" <any number of parameter "".."">
        Top: y="a"
        Top: "printf" "-v" "y" "b"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn read_only_variables_are_not_followed() {
    check(
        "readonly x; x=a; echo $x",
        expect![[r#"
        Top: "readonly" "x"
        Top: x="a"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn special_variables_are_not_followed() {
    check(
        "RANDOM=a; echo $RANDOM",
        expect![[r#"
            Top: RANDOM="a"
            Top: "echo" <any number of parameter "".."">
            arith-name at "RANDOM=a": `RANDOM` evaluates its value
        "#]],
    );
}

#[test]
fn loops_forget() {
    check(
        "x=a; while b; do echo $x; x=c; done",
        expect![[r#"
        Top: x="a"
        Compound: "b"
        Compound: "echo" <any number of parameter "".."">
        Compound: x="c"
    "#]],
    );
}

#[test]
fn functions_forget() {
    check(
        "f() { x=b; }; x=a; f; echo $x",
        expect![[r#"
        Function: x="b"
        Top: x="a"
        Top: "f"
        Top: "echo" <any number of parameter "".."">
    "#]],
    );
}

#[test]
fn what_the_start_gives_is_known_unless_the_text_sets_it() {
    let known = [(b"HOME".to_vec(), b"/home/me".to_vec())].into_iter().collect();
    let start = stockade_parser::StartState { known, ..Default::default() };
    let programs = stockade_parser::Programs::builtin();
    let words = |text: &str| {
        let draft = stockade_parser::parse(text.as_bytes(), &start, programs, &Default::default());
        let tree = draft.confirm(&[]);
        tree.commands().last().unwrap().words.iter().map(crate::word).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("echo ~/a $HOME"), r#""echo" "/home/me/a" "/home/me""#);
    assert_eq!(words("HOME=/x; echo ~"), r#""echo" <tilde ""..""> "#.trim_end());
    assert_eq!(words("read HOME; echo \"$HOME\""), r#""echo" <parameter "".."">"#);
}
