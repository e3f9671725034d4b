//! Here-documents and here-strings.

use expect_test::expect;

use crate::check;

#[test]
fn bodies_come_in_order() {
    check(
        "cat <<A <<\"B\"; c\na $(x)\nA\nb $(y)\nB\nd",
        expect![[r#"
        Top: "cat" [HereDocument text <substitution "a ".."\n">] [HereDocument text "b $(y)\n"]
        Substitution: "x"
        Top: "c"
        Top: "d"
    "#]],
    );
}

#[test]
fn tabs_are_stripped() {
    check(
        "cat <<-E\n\ta\n\t\tE\nb",
        expect![[r#"
        Top: "cat" [HereDocumentTabs text "a\n"]
        Top: "b"
    "#]],
    );
}

#[test]
fn the_closing_line_must_match() {
    check(
        "cat <<E\na\n E\nE \nE\nb",
        expect![[r#"
        Top: "cat" [HereDocument text "a\n E\nE \n"]
        Top: "b"
    "#]],
    );
}

#[test]
fn inside_a_substitution() {
    check(
        "x=$(cat <<E\n)\nE\n) c",
        expect![[r#"
        Top: x=<substitution ""..""> "c"
        Substitution: "cat" [HereDocument text ")\n"]
    "#]],
    );
}

#[test]
fn a_line_feed_in_quotes_ends_no_line() {
    check(
        "cat <<E \"a\nb\"\nbody\nE\nc",
        expect![[r#"
        Top: "cat" "a\nb" [HereDocument text "body\n"]
        Top: "c"
    "#]],
    );
}

#[test]
fn an_open_body_is_accepted() {
    check(
        "cat <<E\na",
        expect![[r#"
            Top: "cat" [HereDocument text "a\n"]
            notice: this here-document is not closed
        "#]],
    );
}

#[test]
fn an_empty_delimiter() {
    check(
        "cat <<''\na\n\nb",
        expect![[r#"
        Top: "cat" [HereDocument text "a\n"]
        Top: "b"
    "#]],
    );
}

#[test]
fn quotes_are_literal_in_bodies() {
    check(
        "cat <<E\n\"a\" '$(b)' \\$c \\\\ \\d\nE",
        expect![[r#"
        Top: "cat" [HereDocument text <substitution "\"a\" '".."' $c \\ \\d\n">]
        Substitution: "b"
    "#]],
    );
}

#[test]
fn here_strings_are_one_word() {
    check(
        "cat <<< \"a $(b)\" c",
        expect![[r#"
        Top: "cat" "c" [HereString text <substitution "a ".."">]
        Substitution: "b"
    "#]],
    );
}

#[test]
fn a_body_that_a_substitution_leaves_open() {
    check(
        "echo $(cat <<E)\nbody\nE\nc",
        expect![[r#"
        Top: "echo" <any number of substitution "".."">
        Substitution: "cat" [HereDocument text "body\n"]
        Top: "c"
        version at "$(cat <<E)": a here-document that a substitution leaves open
    "#]],
    );
}

#[test]
fn a_code_point_in_the_delimiter_depends_on_the_locale() {
    let doubted = |text: &str| {
        let tree = crate::tree(text);
        tree.opaque_spans().iter().any(|opaque| opaque.reason.code() == "version")
    };
    assert!(doubted("a <<$'\\uec'\nb\n\u{ec}\nc"));
    assert!(!doubted("a <<$'\\u41'\nb\nA\nc"));
}
