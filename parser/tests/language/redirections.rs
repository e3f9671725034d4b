//! Redirections.

use expect_test::expect;

use crate::{check, tree};

#[test]
fn anywhere_in_a_command() {
    check(
        ">a b 2>c d <e f &>g",
        expect![[r#"
        Top: "b" "d" "f" [Write file "a"] [2Write file "c"] [Read file "e"] [WriteBoth file "g"]
    "#]],
    );
}

#[test]
fn descriptors_and_files() {
    check(
        "a >&2 2>&- >&b 3<&4- {v}>c &>>d >|e <>f",
        expect![[r#"
        Top: "a" [DuplicateOutput descriptor Some(2)] [2DuplicateOutput descriptor None] [DuplicateOutput file "b"] [3DuplicateInput descriptor Some(4)] [Write file "c"] [AppendBoth file "d"] [Clobber file "e"] [ReadWrite file "f"]
    "#]],
    );
}

#[test]
fn unknown_targets_are_unknown_writes() {
    check(
        "a > $x > *.c > ~/d",
        expect![[r#"
            Top: "a" [Write file <any number of parameter "".."">] [Write file <pattern * ".c">] [Write file <tilde "/".."/d">]
        "#]],
    );
}

#[test]
fn a_substitution_is_no_file() {
    check(
        "a > >(b) 2> >(c)",
        expect![[r#"
            Top: "a" [Write file <substitution "/dev/fd/".."">] [2Write file <substitution "/dev/fd/".."">]
            ProcessSubstitution: "b"
            ProcessSubstitution: "c"
        "#]],
    );
}

#[test]
fn numbers_must_touch() {
    check(
        "echo 2 >a 2>b a2>c",
        expect![[r#"
        Top: "echo" "2" "a2" [Write file "a"] [2Write file "b"] [Write file "c"]
    "#]],
    );
}

#[test]
fn the_network_is_an_effect() {
    check(
        "a > /dev/tcp/host/80",
        expect![[r#"
        Top: "a" [Write file "/dev/tcp/host/80"]
    "#]],
    );
}

#[test]
fn a_duplication_expands_its_target_twice() {
    check(
        "a >&'$(b)'; c >&$x; d >&file",
        expect![[r#"
        Top: "a" [DuplicateOutput file "$(b)"]
        Top: "c" [DuplicateOutput file <any number of parameter "".."">]
        Top: "d" [DuplicateOutput file "file"]
        evaluator-text at "'$(b)'": bash expands the target of `>&` a second time
        evaluator-text at "$x": bash expands the target of `>&` a second time
    "#]],
    );
}

#[test]
fn what_follows_a_closed_descriptor_at_once_is_a_word() {
    let told = |text: &str| {
        let tree = tree(text);
        let words = tree.commands()[0].words.iter();
        let words = words.map(|it| String::from_utf8_lossy(it.exact().unwrap()).into_owned());
        let doubted = tree.opaque_spans().iter().any(|opaque| opaque.reason.code() == "syntax");
        (words.collect::<Vec<_>>().join(" "), doubted)
    };
    for (text, words, doubted) in [
        ("t>&-l", "t l", true),
        (">&-h x", "h x", true),
        ("<&-\"h\" x", "h x", true),
        ("2>& -h x", "h x", true),
        ("t >&- l", "t l", false),
        ("t 2>&- <&-; x", "t", false),
    ] {
        assert_eq!(told(text), (words.to_owned(), doubted), "{text}");
    }
}
