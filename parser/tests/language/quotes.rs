//! Quotes and escapes.

use expect_test::expect;

use crate::{check, tree};

#[test]
fn each_style_has_its_escapes() {
    check(
        "echo 'a\\n' \"\\a\\$\\\"\\\\\" $'\\x41\\101\\u00e9\\e\\cA\\'' \\a $\"b\"",
        expect![[r#"
            Top: "echo" "a\\n" "\\a$\"\\" <version ""..""> "a" "b"
        "#]],
    );
}

#[test]
fn a_nul_ends_its_segment() {
    check(
        "echo $'a\\0b'c",
        expect![[r#"
        Top: "echo" "ac"
    "#]],
    );
}

#[test]
fn empty_words_are_words() {
    check(
        "echo '' \"\" a''",
        expect![[r#"
        Top: "echo" "" "" "a"
    "#]],
    );
}

#[test]
fn blanks_are_two_characters() {
    check(
        "echo a\u{a0}b \u{b}c",
        expect![[r#"
        Top: "echo" "a\u{a0}b" "\u{b}c"
        control-byte at "\u{b}": the control character U+000B
        notice: confusable: U+00A0
    "#]],
    );
}

#[test]
fn a_dollar_alone_is_literal() {
    check(
        "echo $ a$ \"$\" $% $\"x\"",
        expect![[r#"
        Top: "echo" "$" "a$" "$" "$%" "x"
    "#]],
    );
}

#[test]
fn a_process_number_before_an_opener_is_not_understood_in_quotes_and_braces() {
    let is_doubted = |text: &str| {
        let tree = tree(text);
        tree.opaque_spans().iter().any(|opaque| opaque.reason.code() == "syntax")
    };
    // Bash looks for the end of the quote behind `)`, and then expands no substitution.
    for text in [
        r#"h "$$("")""#,
        r#"h "$$(' " ')"; b #'"#,
        r#"h "$${x"}"}""#,
        r#"h "a$$$$(ls)""#,
        "h ${y:-$$'a}b'}",
        r#"h "${y:-$$("")}""#,
    ] {
        assert!(is_doubted(text), "{text}");
    }
    for text in [r#"h "$$" "pid $$x" /tmp/a.$$.b $$"x" $$'y' "$$$(ls)""#, "h \"${y:-$$}\" $(($$))"]
    {
        assert!(!is_doubted(text), "{text}");
    }
}
