//! Each reason for which a text is opaque, with a text that has it: what, where, and what to write instead.

use stockade_parser::{
    Absence, Limits, Node, NodeKind, Programs, Reason, StartState, Witness, Zsh, parse,
};

/// Reasons of words alone: they make no text opaque.
const OF_WORDS: [Reason; 4] =
    [Reason::Parameter, Reason::Substitution, Reason::Arithmetic, Reason::Tilde];

/// A text for each reason that reading it alone gives.
fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let plain: [(&str, &[u8]); 26] = [
        ("syntax", b"a )"),
        ("version", b"echo ${ a; }"),
        ("dialect", b"sh -c 'a <<< b'"),
        ("zsh", b"echo *"),
        ("arith-name", b"echo $((x))"),
        ("subscript", b"echo ${a[x]}"),
        ("dynamic-name", b"$x"),
        ("dynamic-option", b"find $x"),
        ("evaluator-text", b"bash -c \"$x\""),
        ("stdin-program", b"a | bash"),
        ("script-file", b". a.sh"),
        ("startup-files", b"bash -lc a"),
        ("indirect", b"echo ${!x}"),
        ("prompt-expansion", b"echo ${x@P}"),
        ("alias", b"shopt -s expand_aliases\nalias a=b"),
        ("state", b"PATH=/x; a"),
        ("unknown-option", b"env --what a"),
        ("unknown-wrapper-form", b"screen -X exec a"),
        ("control-byte", b"a\x19 b"),
        ("hidden-text", "a\u{200b} b".as_bytes()),
        ("not-utf8", b"a \xff"),
        ("nul", b"a\0b"),
        ("limit-brace", b"a {1..99999}"),
        ("limit-depth", &[b'('; 1_200]),
        ("limit-input", &[b'a'; 200_001]),
        ("limit-nested", b"eval 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"),
    ];
    let mut texts: Vec<_> = plain.iter().map(|(code, text)| (*code, text.to_vec())).collect();
    texts.push(("limit-work", b"a|a;".repeat(40_000)));
    texts.push(("arith-or-subshell", b"((a;".repeat(400)));
    texts
}

fn read(text: &[u8], code: &str) -> stockade_parser::CommandTree {
    let mut limits = Limits { input_bytes: 200_000, ..Limits::default() };
    if code == "limit-nested" {
        limits.nested_bytes = 32;
    }
    if code == "limit-work" {
        limits.steps_per_byte = 0;
    }
    let zsh = Zsh { version: (5, 9), clean_start: true };
    let start = StartState { zsh: Some(zsh).filter(|_| code == "zsh"), ..StartState::default() };
    parse(text, &start, Programs::builtin(), &limits).confirm(&[])
}

/// Returns the answers of the witness to `a`, each with the doubt that it gives.
fn answers() -> Vec<(&'static str, Witness)> {
    let node = |kind, end, depth, broken| Node { kind, start: 0, end, depth, broken };
    let program = NodeKind::named("program");
    vec![
        ("witness-absent", Witness::Absent(Absence::Dead)),
        ("witness-guard", Witness::Absent(Absence::Guarded)),
        ("witness-slow", Witness::Absent(Absence::Slow)),
        ("witness-nonsense", Witness::Nodes(vec![node(program, 9, 0, false)])),
        ("witness-error", Witness::Nodes(vec![node(program, 1, 0, true)])),
        ("witness-differs", Witness::Nodes(vec![node(program, 1, 0, false)])),
    ]
}

#[test]
fn each_doubt_says_what_and_where_and_what_to_write_instead() {
    let mut trees: Vec<_> =
        texts().into_iter().map(|(code, text)| (code, read(&text, code))).collect();
    trees.extend(answers().into_iter().map(|(code, answer)| {
        let draft = parse(b"a", &StartState::default(), Programs::builtin(), &Limits::default());
        (code, draft.confirm(&[answer]))
    }));
    let mut seen = Vec::new();
    for (code, tree) in &trees {
        let opaque = tree.opaque_spans().iter().find(|opaque| opaque.reason.code() == *code);
        let Some(opaque) = opaque else {
            panic!("`{code}` is not among {:?}", tree.opaque_spans());
        };
        assert!(opaque.span.start <= opaque.span.end, "{opaque:?}");
        assert!(opaque.span.end as usize <= tree.source().len(), "{opaque:?}");
        let told = stockade_explain::doubt(tree, opaque);
        let lines: Vec<&str> = told.lines().collect();
        let what = opaque.reason.help().trim_end_matches('.');
        assert_eq!(lines.first(), Some(&format!("unknown: {what}  [{code}]").as_str()));
        assert!(lines.get(1).is_some_and(|line| line.contains(" | ")), "{told}");
        assert!(lines.get(2).is_some_and(|line| line.contains('^')), "{told}");
        let instead = lines.last().and_then(|line| line.strip_prefix("  try: "));
        assert!(instead.is_some_and(|instead| instead.len() > 8), "{told}");
        seen.push(opaque.reason);
    }
    seen.extend(OF_WORDS);
    let missing: Vec<_> = Reason::ALL.iter().filter(|reason| !seen.contains(reason)).collect();
    assert!(missing.is_empty(), "no text for {missing:?}");
}

#[test]
fn what_a_doubt_about_a_subscript_tells_to_write_is_understood() {
    let cases = [
        ("a {b[0]}>f", "give the descriptor to a plain variable: `{name}>file`", "a {b}>f"),
        ("test $a", "put it in double quotes", "test \"$a\""),
        (
            "unset -- \"$a\"",
            "write the name as plain text, such as `name` or `'name[0]'`",
            "unset 'a[0]'",
        ),
        (
            "[[ -v a[0] ]]",
            "ask for the element: `[[ ${name[0]+set} ]]`; a whole variable by its name",
            "[[ ${a[0]+set} ]] && [[ -v a ]]",
        ),
        ("echo ${a[i]}", "write the subscript as a number", "echo ${a[0]}"),
    ];
    for (text, help, instead) in cases {
        let told = |text: &str| -> Vec<(&str, String)> {
            let tree = read(text.as_bytes(), "subscript");
            let doubts = tree.opaque_spans().iter().filter(|it| it.reason != Reason::WitnessAbsent);
            doubts.map(|it| (it.reason.code(), it.instead().to_owned())).collect()
        };
        assert_eq!(told(text), [("subscript", help.to_owned())], "{text}");
        assert_eq!(told(instead), [], "{instead}");
    }
}

#[test]
fn no_reason_is_without_words() {
    for reason in Reason::ALL {
        assert!(reason.help().ends_with('.') && reason.help().len() > 12, "{reason:?}");
        assert!(!reason.instead().ends_with('.') && reason.instead().len() > 12, "{reason:?}");
    }
}
