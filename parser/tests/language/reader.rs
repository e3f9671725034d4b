//! Where bash's own reader does not do what its manual says: tried with bash 5.2.15 and dash 0.5.12.

use stockade_parser::CommandKind;

use crate::tree;

/// The codes of the doubts about a text, but for the missing witness.
fn codes(text: &str) -> Vec<String> {
    let tree = tree(text);
    let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
    let mut codes: Vec<String> =
        codes.filter(|code| !code.starts_with("witness")).map(str::to_owned).collect();
    codes.dedup();
    codes
}

fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(codes(text), *expected, "{text}");
    }
}

#[test]
fn a_number_that_is_no_descriptor_is_a_word() {
    check(&[
        ("4294967296>f", &["syntax"]),
        ("a 2147483648>f", &["syntax"]),
        ("a 99999999999999999999>f", &["syntax"]),
        ("a 2147483647>f", &[]),
        ("a 0000000000000000002>f", &[]),
        ("sh -c 'a 10>f'", &["dialect"]),
        ("sh -c 'a 2>f'", &[]),
    ]);
}

#[test]
fn an_array_element_can_name_a_descriptor() {
    check(&[
        ("a {b[0]}>f", &["subscript"]),
        ("a {b[0]}\\\n>f", &["subscript"]),
        ("a {b[0]} >f", &[]),
        ("a {b}>f", &[]),
    ]);
}

#[test]
fn behind_a_redirection_or_the_name_of_a_coprocess_an_array_is_read_otherwise() {
    check(&[
        (">f b=(c[) #]=1) d", &["syntax"]),
        (">f b=1 c", &[]),
        ("a >f b[1]", &[]),
        ("coproc a b[ #] ; c", &["syntax"]),
        ("coproc a b=$(c d)", &["syntax"]),
        ("coproc a b", &[]),
        ("a b=$c", &[]),
    ]);
}

#[test]
fn options_of_the_shell_that_are_handed_down() {
    check(&[
        ("shopt -s expand_aliases; export BASHOPTS; bash -c 'ls'", &["state"]),
        ("export SHELLOPTS; ls", &["state"]),
        ("export TERM; ls", &[]),
    ]);
}

#[test]
fn a_continuation_between_two_parentheses_makes_subshells() {
    check(&[
        ("((1)\\\n)", &["arith-or-subshell"]),
        ("x=$(\\\n(1))", &["arith-or-subshell"]),
        ("((1))", &[]),
        ("x=$((1 +\\\n1))", &[]),
    ]);
}

#[test]
fn an_extended_pattern_is_no_negation() {
    check(&[
        ("shopt -s extglob\n!(x) y", &["dynamic-name"]),
        ("shopt -s extglob\n! (x)", &[]),
        ("!(x)", &[]),
        ("\"shopt\" -s extglob\nls", &["state"]),
        ("false && shopt -s extglob\nls", &["state"]),
        (">f shopt -s extglob\nls", &["state"]),
        ("shopt -s extglob nullglob\nls", &[]),
    ]);
    // A value can hold such a pattern as well.
    let tree = tree("x='@(a|b)'; shopt -s extglob; ls $x");
    assert!(tree.commands().last().unwrap().words[1].exact().is_none());
}

#[test]
fn lines_that_end_a_here_document() {
    check(&[
        ("cat <<-$'\\tE'\n\tE\nls\n", &["version"]),
        ("cat <<-E\n\tE\nls\n", &[]),
        ("y=$(cat <<E\nEcho; ls)\nE\n)", &["version", "syntax"]),
        ("y=$(cat <<E\n Echo; ls)\nE\n)", &[]),
    ]);
}

#[test]
fn continuations_vanish_from_a_here_document_first() {
    check(&[
        ("cat <<E\n$(h 'a\\\nb')\nE", &["syntax"]),
        ("cat <<E\n$(ls # \\\n)\nh\n)\nE", &["syntax"]),
        ("cat <<E\n$(h \"a\\\nb\" \\\nc)\nE", &[]),
        ("cat <<E\n$(h 'a') \\\nb\nE", &[]),
        ("cat <<'E'\n$(h 'a\\\nb')\nE", &[]),
    ]);
}

#[test]
fn a_prompt_is_decoded_before_it_is_expanded() {
    check(&[
        ("PS4='\\044(h)'; set -x; ls", &["state"]),
        ("PS4='\\140h\\140' bash -xc ls", &["state"]),
        ("PS4='+ '; set -x; ls", &[]),
    ]);
}

#[test]
fn an_alias_counts_that_was_defined_before_aliases_do() {
    check(&[
        ("alias a=h; shopt -s expand_aliases\na", &["state"]),
        ("shopt -s expand_aliases; alias a=h\na", &["alias", "state"]),
        ("alias a=h\nls", &[]),
        ("sh -c 'alias a=h\na'", &["dialect"]),
    ]);
}

#[test]
fn what_other_shells_read_otherwise() {
    check(&[
        ("sh -c 'a $[ 1; 2 ]'", &["dialect"]),
        ("sh -c 'a[1 ;1 ]'", &["dialect", "dynamic-name"]),
        ("sh -c \"a \\\"\\${x:-'}'}\\\"\"", &["dialect"]),
        ("sh -c 'let x=1'", &["dialect"]),
        ("sh -c \"eval 'a 10>f'\"", &["dialect"]),
        ("sh -c 'a b=~'", &["dialect"]),
        ("sh -c 'exec -- a'", &["dialect"]),
        ("sh -c 'eval -- a'", &["dialect"]),
        ("sh -c 'exec a -- b; eval c'", &[]),
        ("sh -c 'cd a; test -f b'", &[]),
    ]);
}

#[test]
fn values_that_bash_evaluates() {
    check(&[
        ("BASHPID+='a[$(h)]'", &["arith-name"]),
        ("compgen -C h", &["evaluator-text"]),
        ("mapfile -C h x", &["evaluator-text"]),
    ]);
}

#[test]
fn an_element_changes_its_array() {
    for text in ["x=a; printf -v 'x[0]' b; $x", "x=a; read 'x[0]'; $x"] {
        assert!(codes(text).contains(&"dynamic-name".to_owned()), "{text}");
    }
}

#[test]
fn a_tilde_counts_behind_a_name_and_its_equals_sign() {
    let words = |text: &str| {
        let tree = tree(text);
        let words = tree.commands()[0].words.iter().skip(1);
        words.map(|word| word.exact().is_some()).collect::<Vec<_>>()
    };
    assert_eq!(words("h a=~ a+=~ a=b:~ a=:~"), [false; 4]);
    assert_eq!(words("h --a=~ =~ 'a'=~ a=b=~ /=~ --a=b:~ a:~ 1=~"), [true; 8]);
}

/// Returns the kind of the last command: a function of the text needs no rule.
fn kind(text: &str) -> Option<CommandKind> {
    tree(text).commands().last().map(|command| command.kind)
}

#[test]
fn a_name_is_a_function_only_where_it_surely_is() {
    for text in [
        "h() { :; }; h x",
        "h() { :; }\nif a; then h x; fi",
        "h() { :; } && h x",
        "(h() { :; }; h x)",
        "eval 'h() { :; }'; h x",
        "h() { :; }; f() { h x; }",
        "h() { :; }; h x | h y",
    ] {
        assert_eq!(kind(text), Some(CommandKind::Function), "{text}");
    }
    for text in [
        "(h() { :; }); h x",
        "h() { :; } & h x",
        "h() { :; } | a; h x",
        "false && h() { :; }; h x",
        "true || h() { :; }; h x",
        "if a; then h() { :; }; fi; h x",
        "case a in b) h() { :; };; esac; h x",
        "while a; do h() { :; }; done; h x",
        "f() { h() { :; }; }; h x",
        "trap 'h() { :; }' EXIT; h x",
        "bash -c 'h() { :; }'; h x",
        "x=$(h() { :; }); h x",
        "h() { :; }; unset -f h; h x",
        "h\\x() { :; }; 'h\\x' x",
        "h() { :; }; command h x",
        "h() { :; }; exec h x",
    ] {
        assert_eq!(kind(text), Some(CommandKind::External), "{text}");
    }
    // An `unset` that is not to be seen in the text.
    assert_eq!(codes("h() { :; }; un'set' h; h x"), ["state"]);
    // Commands that a function of that name would start are listed as well as those of the program.
    let wrapped = tree("(bash() { :; }); bash -c 'h x'");
    assert!(wrapped.commands().iter().any(|it| it.words[0].exact() == Some(b"h")));
}

#[test]
fn exec_starts_a_program_of_the_name_of_a_builtin() {
    assert_eq!(kind("exec echo x"), Some(CommandKind::External));
    assert_eq!(kind("command echo x"), Some(CommandKind::Builtin));
}

#[test]
fn a_function_that_is_defined_later_may_run_in_a_body_before() {
    for text in [
        "f() { x=ls; g; $x y; }; g() { x=h; }; f",
        "f() { x=ls; echo a; $x y; }; echo() { x=h; }; f",
        "f() { x=ls; \"g\"; $x y; }; function g { x=h; }; f",
    ] {
        assert_eq!(codes(text), ["dynamic-name"], "{text}");
    }
    check(&[
        ("f() { x=ls; g; $x y; }; eval 'g() { x=h; }'; f", &["state"]),
        ("f() { x=ls; k; $x y; }; g() { x=h; }; f", &[]),
        ("eval 'g() { ls; }'; g", &[]),
    ]);
}

#[test]
fn a_value_beside_a_name_in_arithmetic_makes_another_name() {
    check(&[
        ("z=1; ((${z}IFS=1))", &["arith-name"]),
        ("z=1; ((I${z}FS=1))", &["arith-name"]),
        ("z=1; ((a$#=1))", &["arith-name"]),
        ("z=1; ((16#$z + $z * 2 + z))", &[]),
    ]);
}

#[test]
fn a_backslash_at_the_end_of_several_lines_stays_or_not() {
    check(&[("h '\n'\\", &["syntax"]), ("h\\", &[]), ("h a\\", &[]), ("h '\n' \\\n", &[])]);
}

#[test]
fn a_compound_whose_redirection_fails_does_not_run() {
    for text in [
        "{ h() { :; }; } </nope; h x",
        "{ h() { :; }; } </nope || h x",
        "if a; then :; fi; eval 'h() { :; }' </nope; h x",
    ] {
        assert_eq!(kind(text), Some(CommandKind::External), "{text}");
    }
    check(&[
        ("{ x=id; } </nope; $x h a", &["dynamic-name"]),
        ("{ x=id; } </nope || $x h a", &["dynamic-name"]),
        ("{ x=id; }; $x h a", &[]),
    ]);
    assert_eq!(kind("{ h() { :; }; }; h x"), Some(CommandKind::Function));
    assert_eq!(kind("h() { { a; } >f; } >g; h x"), Some(CommandKind::Function));
}

#[test]
fn a_mistake_in_an_expansion_ends_its_line_alone() {
    for mistake in [
        "$((1/0))",
        "$[1/0]",
        "${z:0:-5}",
        "${a[1/0]}",
        "${z@Z}",
        "${z!}",
        "$z; UID=1",
        "$z; a[-5]=1",
    ] {
        let text = format!(": {mistake}; h() {{ :; }}\nh x");
        assert_eq!(kind(&text), Some(CommandKind::External), "{text}");
        let text = format!("x=id; : {mistake}; x=ls\n$x");
        assert!(codes(&text).contains(&"dynamic-name".to_owned()), "{text}");
    }
    for text in [
        "readonly z; z=1; h() { :; }\nh x",
        "f() { : $((1/0)); }; f; h() { :; }\nh x",
        "f() { : $((1/0)); }\nf; h() { :; }\nh x",
        "eval ': $((1/0)); h() { :; }'; h x",
        ": $((1/0)); \\\nh() { :; }\nh x",
    ] {
        assert_eq!(kind(text), Some(CommandKind::External), "{text}");
    }
    // A definition on another line is not given up.
    for text in [": $((1/0))\nh() { :; }\nh x", "h() { :; }\n: $((1/0))\nh x"] {
        assert_eq!(kind(text), Some(CommandKind::Function), "{text}");
    }
    check(&[("n=$((2 + 1))\nx=ls\n$x", &[]), ("n=$((2 + 1)); x=ls; $x", &[])]);
    check(&[("shopt -s failglob; : z*; ls", &["state"])]);
}

#[test]
fn state_that_the_text_hides() {
    for text in [
        "set -oo pipefail keyword; h a=b",
        "id() { x=h; }; declare -fx id; bash -c 'x=ls; id; $x a'",
        "id() { x=h; }; typeset -f -x id; bash -c 'x=ls; id; $x a'",
        "bash -c 'BASH_ARGV0=h; $0 a' ls",
        "for i in 1 2; do x=ls; $x a; tr''ap 'x=h' DE''BUG; done",
        "set -T; f() { x=ls; $x a; }; tr''ap 'x=h' DE''BUG; f",
    ] {
        assert!(codes(text).contains(&"state".to_owned()), "{text}");
    }
    check(&[
        ("set -oo pipefail errexit; h a=b", &[]),
        ("declare -x y=1; ls", &[]),
        ("trap 'ls' EXIT; id", &[]),
    ]);
}
