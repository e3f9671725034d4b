//! Values that the text itself tells.

use expect_test::expect;

use crate::{check, tree};

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

/// Returns the words of the last command of `text` in a closed environment that has `PAGER`.
fn closed(text: &str) -> String {
    let present = [b"PAGER".to_vec()].into();
    let start =
        stockade_parser::StartState { closed_environment: true, present, ..Default::default() };
    let programs = stockade_parser::Programs::builtin();
    let draft = stockade_parser::parse(text.as_bytes(), &start, programs, &Default::default());
    let tree = draft.confirm(&[]);
    let words = tree.commands().last().into_iter().flat_map(|command| command.words.iter());
    words.map(crate::word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_nothing_sets_is_empty_in_a_closed_environment() {
    for (text, words) in [
        ("a $x \"$x\" b$x ${x}", r#""a" "" "b""#),
        ("a ${x:-b} ${x-c} \"$1\" $1 $* ${2-d} ${1:-e}", r#""a" "b" "c" "" "d" "e""#),
        ("$x a", r#""a""#),
        ("(a \"$x\")", r#""a" """#),
    ] {
        assert_eq!(closed(text), words, "{text}");
    }
}

#[test]
fn what_something_could_set_is_not_empty_in_a_closed_environment() {
    for text in [
        "a $PAGER",
        "a $HOME",
        "a $_",
        "a $PWD",
        "read x; a $x",
        "read $(b); a $x",
        ". ./b; a $x",
        "f() { x=1; }; a $x",
        "b ${x:=1}; a $x",
        "b ${x[0]:=1}; a $x",
        "for x in 1 2; do a $x; done",
        "while b; do a $x; c {x}>f; done; a $x",
        "coproc b { c; }; a $b_PID",
        "printf -v \"$(b)\" c; a $x",
        "eval b=1; a $x",
        "declare b=1; a $x",
        "trap 'x=1' USR1; a $x",
        "set -- b; a $1",
        "env x=1 bash -c 'a $x'",
        "bash -c 'a $x'",
        "f() { a $1; }; f b; a $1",
    ] {
        let words = closed(text);
        assert!(words.contains("parameter"), "{text}: {words}");
    }
}

#[test]
fn a_parameter_that_is_not_there_is_unset_not_empty() {
    assert_eq!(closed("bash -c 'a ${2-b} ${1-c}' n d"), r#""a" "b" "d""#);
}

#[test]
fn home_is_no_option_unless_the_text_sets_it() {
    check(
        "a ~ $HOME \"${HOME}/b\" ${HOME}c ${HOME%b}; bash -c 'a ~ $HOME'",
        expect![[r#"
        Top: "a" <tilde "/"..""> <parameter "/"..""> <parameter "/".."/b"> <parameter "/".."c"> <any number of parameter "".."">
        Top: "bash" "-c" "a ~ $HOME"
        Wrapped: "a" <tilde "/"..""> <any number of parameter "".."">
    "#]],
    );
    check(
        "HOME=b; a ~ $HOME",
        expect![[r#"
            Top: HOME="b"
            Top: "a" <tilde ""..""> <any number of parameter "".."">
            notice: what this text starts is not read
        "#]],
    );
    check(
        "read HOME; a ~ $HOME",
        expect![[r#"
        Top: "read" "HOME"
        Top: "a" <tilde ""..""> <any number of parameter "".."">
    "#]],
    );
    check(
        "HOME=b bash -c 'a ~ $HOME'",
        expect![[r#"
            Top: HOME="b" "bash" "-c" "a ~ $HOME"
            Wrapped: "a" <tilde ""..""> <any number of parameter "".."">
            notice: what this text starts is not read
        "#]],
    );
}

#[test]
fn words_of_xargs_may_be_any_positional_value() {
    for text in ["a | xargs sh -c '$2 x' _", "a | xargs sh -c '$1 x'", "a | xargs sh -c '$* x'"] {
        let opaque = tree(text);
        let opaque = opaque.opaque_spans().iter();
        let codes: Vec<&str> = opaque.map(|opaque| opaque.reason.code()).collect();
        assert!(codes.contains(&"dynamic-name"), "{text}: {codes:?}");
    }
}

#[test]
fn a_text_without_operands_has_no_positional_values() {
    let told = tree("bash -c 'a $1 \"$2\" ${3:-b}'");
    let words: Vec<_> = told.commands()[1].words.iter().map(|word| word.exact()).collect();
    assert_eq!(words, [Some(b"a".as_slice()), Some(b""), Some(b"b")]);
    // An alias of git gets the operands that git has.
    let told = tree("git -c alias.x='!$1 a' x b");
    assert!(told.opaque_spans().iter().any(|opaque| opaque.reason.code() == "dynamic-name"));
}
