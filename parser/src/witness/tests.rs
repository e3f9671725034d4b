//! Lowering of real trees, and answers that cannot be.

use std::cell::RefCell;

use super::*;
use expect_test::expect;
use stockade_witness::{Grammar, Seen};

thread_local! {
    static GRAMMAR: RefCell<Grammar> = RefCell::new(Grammar::load().unwrap());
}

fn nodes(text: &str) -> Vec<Node> {
    GRAMMAR.with_borrow_mut(|grammar| {
        let kinds = grammar.kinds();
        let Seen::Nodes(seen) = grammar.see(text.as_bytes()) else { panic!("refused: {text}") };
        let kind = |node: &stockade_witness::SeenNode| {
            kinds
                .get(usize::from(node.kind))
                .map_or(NodeKind::Other, |kind| NodeKind::of(kind.name, kind.named))
        };
        seen.iter()
            .map(|node| Node {
                kind: kind(node),
                start: node.start,
                end: node.end,
                depth: node.depth,
                broken: node.broken,
            })
            .collect()
    })
}

/// The marks of `text`, one letter and the text each, or the reason why there are none.
fn lowered(text: &str) -> String {
    let nodes = nodes(text);
    let Some(shape) = Shape::check(text.as_bytes(), &nodes) else { return "nonsense".into() };
    if let Some(found) = guard::doubt(&shape) {
        let at = String::from_utf8_lossy(found.span.of(text.as_bytes())).into_owned();
        return format!("{} {} {at:?}", found.reason.code(), found.detail);
    }
    let letter = |kind| match kind {
        MarkKind::Name => 'n',
        MarkKind::Word => 'w',
        MarkKind::Assignment => '=',
        MarkKind::Redirect => '>',
        MarkKind::HereDocumentBody => 'H',
        MarkKind::Substitution => '$',
        MarkKind::ProcessSubstitution => 'P',
        MarkKind::Arithmetic => '+',
        MarkKind::Compound => 'C',
        MarkKind::Comment => '#',
    };
    let line = |mark: &Mark| {
        let text = String::from_utf8_lossy(mark.span.of(text.as_bytes())).into_owned();
        format!("{}⟨{}⟩", letter(mark.kind), text.escape_debug())
    };
    lower::lower(&shape).marks.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn check(text: &str, expected: expect_test::Expect) {
    expected.assert_eq(&lowered(text));
}

#[test]
fn words_assignments_and_redirections_are_marked() {
    check(
        "a=1 b+=2 cmd x 'y z' 2>&1 >>f",
        expect![[r#"=⟨a=1⟩ =⟨b+=2⟩ n⟨cmd⟩ w⟨cmd⟩ w⟨x⟩ w⟨\'y z\'⟩ >⟨2>&1⟩ >⟨>>f⟩"#]],
    );
    check(
        "export A=b C; unset D; declare -a y=(1 2)",
        expect![
            "n⟨export⟩ w⟨export⟩ =⟨A=b⟩ w⟨C⟩ n⟨unset⟩ w⟨unset⟩ w⟨D⟩ n⟨declare⟩ w⟨declare⟩ w⟨-a⟩ =⟨y=(1 2)⟩"
        ],
    );
    check("x=(a b); >f; <g cat", expect!["=⟨x=(a b)⟩ >⟨>f⟩ >⟨<g⟩ n⟨cat⟩ w⟨cat⟩"]);
}

#[test]
fn nested_commands_are_marked_where_they_stand() {
    check(
        "echo \"a $(ls `pwd`) ${x:-$(id)} $((1+2))\"",
        expect![[
            r#"n⟨echo⟩ w⟨echo⟩ w⟨\"a $(ls `pwd`) ${x:-$(id)} $((1+2))\"⟩ $⟨$(ls `pwd`)⟩ n⟨ls⟩ w⟨ls⟩ w⟨`pwd`⟩ $⟨`pwd`⟩ $⟨$(id)⟩ n⟨id⟩ w⟨id⟩ +⟨$((1+2))⟩"#
        ]],
    );
    check(
        "diff <(ls a) >(cat b)",
        expect![
            "n⟨diff⟩ w⟨diff⟩ w⟨<(ls a)⟩ P⟨<(ls a)⟩ n⟨ls⟩ w⟨ls⟩ w⟨a⟩ w⟨>(cat b)⟩ P⟨>(cat b)⟩ n⟨cat⟩ w⟨cat⟩ w⟨b⟩"
        ],
    );
    check("a; b && c | d", expect!["n⟨a⟩ w⟨a⟩ n⟨b⟩ w⟨b⟩ n⟨c⟩ w⟨c⟩ n⟨d⟩ w⟨d⟩"]);
}

#[test]
fn compounds_comments_and_bodies_are_marked() {
    check(
        "for i in a b; do echo $i; done >f # x",
        expect!["C⟨for i in a b; do echo $i; done⟩ n⟨echo⟩ w⟨echo⟩ w⟨$i⟩ >⟨>f⟩ #⟨# x⟩"],
    );
    check(
        "f() { ls; } >g; (cd x); ((x++))",
        expect![
            "C⟨f() { ls; }⟩ C⟨{ ls; }⟩ n⟨ls⟩ w⟨ls⟩ >⟨>g⟩ C⟨(cd x)⟩ n⟨cd⟩ w⟨cd⟩ w⟨x⟩ +⟨((x++))⟩"
        ],
    );
    check(
        "case $x in a|b) ls;; esac; [[ a == b* ]]",
        expect!["C⟨case $x in a|b) ls;; esac⟩ n⟨ls⟩ w⟨ls⟩ C⟨[[ a == b* ]]⟩"],
    );
    check(
        "cat <<E\n\n$x\nE\ncat <<-'F'\n\tb\n\tF\n",
        expect![[r#"n⟨cat⟩ w⟨cat⟩ >⟨<<E⟩ H⟨\n$x\n⟩ n⟨cat⟩ w⟨cat⟩ >⟨<<-\'F\'⟩ H⟨\tb\n⟩"#]],
    );
    check("cat <<E\nE\nls", expect!["n⟨cat⟩ w⟨cat⟩ >⟨<<E⟩ n⟨ls⟩ w⟨ls⟩"]);
}

#[test]
fn further_destinations_are_arguments() {
    check("cmd >x y z 4 >w", expect!["n⟨cmd⟩ w⟨cmd⟩ >⟨>x⟩ w⟨y⟩ w⟨z⟩ w⟨4⟩ >⟨>w⟩"]);
}

#[test]
fn pieces_without_a_blank_between_them_are_one_word() {
    check(
        "echo a$1/$2 b\\\nc d \\\n e",
        expect![[r#"n⟨echo⟩ w⟨echo⟩ w⟨a$1/$2⟩ w⟨b\\\nc⟩ w⟨d⟩ w⟨e⟩"#]],
    );
}

#[test]
fn time_is_a_keyword() {
    check(
        "time -p -- ! a=1 ls; ! time x; a=1 time y; ! ! z; ! -p",
        expect!["=⟨a=1⟩ n⟨ls⟩ w⟨ls⟩ n⟨x⟩ w⟨x⟩ =⟨a=1⟩ n⟨time⟩ w⟨time⟩ w⟨y⟩ n⟨z⟩ w⟨z⟩ n⟨-p⟩ w⟨-p⟩"],
    );
}

#[test]
fn operators_of_a_test_are_words() {
    check(
        "[ ! -f \"$x\" -a 1 = 2 ]",
        expect![[r#"n⟨[⟩ w⟨[⟩ w⟨!⟩ w⟨-f⟩ w⟨\"$x\"⟩ w⟨-a⟩ w⟨1⟩ w⟨=⟩ w⟨2⟩ w⟨]⟩"#]],
    );
}

#[test]
fn a_lone_dollar_is_an_argument() {
    check("echo $ 3>x", expect!["n⟨echo⟩ w⟨echo⟩ w⟨$⟩ >⟨3>x⟩"]);
}

#[test]
fn operands_of_alias_are_assignments() {
    check("alias -p a=b c", expect!["n⟨alias⟩ w⟨alias⟩ w⟨-p⟩ =⟨a=b⟩ w⟨c⟩"]);
}

const READING: crate::grammar::HowRead =
    crate::grammar::HowRead { depth: 100, steps: 100_000, memory_bytes: 1 << 20 };

#[test]
fn repairs_are_counted() {
    let text = "time cmd >x y z a$1/$2";
    let witness = Witness::Nodes(nodes(text));
    let origin = Span::new(0, text.len());
    let request = Request { text: text.as_bytes().into(), origin, reading: READING };
    let mut repairs = BTreeMap::new();
    assert!(doubt(&request, |_| Vec::new(), &witness, text.as_bytes(), &mut repairs).is_some());
    expect![[r#"{"joined-word": 1, "keyword": 1, "words-after-redirection": 4}"#]]
        .assert_eq(&format!("{repairs:?}"));
}

#[test]
fn trees_that_cannot_be_trusted_are_told() {
    check("echo $(", expect![[r#"witness-error  "$(""#]]);
    check(
        "echo \"${x:-'a'}\"",
        expect![[r#"witness-guard quotes inside an expansion inside quotes "'a'""#]],
    );
    check("[ a && b ]", expect![[r#"witness-guard a control operator inside of a test "&&""#]]);
    check("echo \u{a0}x\rls", expect![[r#"witness-guard bytes that belong to no node "\r""#]]);
}

fn node(kind: NodeKind, start: u32, end: u32, depth: u32) -> Node {
    Node { kind, start, end, depth, broken: false }
}

#[test]
fn lists_that_are_no_tree_are_nonsense() {
    let root = node(NodeKind::Program, 0, 4, 0);
    let word = |start, end, depth| node(NodeKind::Word, start, end, depth);
    let lists = [
        vec![],
        vec![node(NodeKind::Program, 0, 5, 0)],
        vec![word(0, 4, 1)],
        vec![root, root],
        vec![root, word(0, 2, 2)],
        vec![root, word(0, 5, 1)],
        vec![root, word(3, 2, 1)],
        vec![root, word(0, 2, 1), word(1, 3, 1)],
        vec![node(NodeKind::Program, 2, 4, 0), word(1, 3, 1)],
        vec![root, word(0, 2, 1), word(0, 3, 2)],
    ];
    for list in lists {
        assert!(Shape::check(b"abcd", &list).is_none(), "{list:?}");
    }
    assert!(Shape::check(b"abcd", &[root, word(0, 2, 1), word(2, 4, 1)]).is_some());
}

/// The doubt about `text` when the authority saw the words of `ours`, name first.
fn confirmed(text: &str, ours: &[(u32, u32)], witness: &Witness) -> String {
    let mark = |kind| {
        move |(start, end): &(u32, u32)| Mark { span: Span { start: *start, end: *end }, kind }
    };
    let name = ours.first().map(mark(MarkKind::Name));
    let mut marks: Vec<Mark> = ours.iter().map(mark(MarkKind::Word)).chain(name).collect();
    marks.sort_unstable();
    let origin = Span::new(0, text.len());
    let request = Request { text: text.as_bytes().into(), origin, reading: READING };
    doubt(&request, |_| marks, witness, text.as_bytes(), &mut BTreeMap::new())
        .map_or("confirmed".into(), |opaque| {
            format!("{} {:?} {}", opaque.reason.code(), opaque.span, opaque.detail)
        })
}

#[test]
fn equal_marks_confirm_and_any_difference_is_told() {
    let text = "ls -l a";
    let seen = Witness::Nodes(nodes(text));
    let cases: [&[(u32, u32)]; 5] = [
        &[(0, 2), (3, 5), (6, 7)],
        &[(0, 2), (3, 5)],
        &[(0, 2), (3, 7)],
        &[(0, 2), (3, 5), (6, 7), (7, 7)],
        &[],
    ];
    let found: Vec<String> = cases.iter().map(|ours| confirmed(text, ours, &seen)).collect();
    expect![[r#"
        confirmed
        witness-differs Span { start: 6, end: 7 } a word that only the second parser sees
        witness-differs Span { start: 3, end: 5 } a word that only the second parser sees
        witness-differs Span { start: 7, end: 7 } a word that only the first parser sees
        witness-differs Span { start: 0, end: 2 } the name of a command that only the second parser sees"#]].assert_eq(&found.join("\n"));
}

#[test]
fn each_absence_has_its_reason() {
    let all = [Absence::Dead, Absence::Guarded, Absence::Slow, Absence::Nonsense];
    let found: Vec<String> =
        all.iter().map(|why| confirmed("ls", &[(0, 2)], &Witness::Absent(*why))).collect();
    expect![[r#"
        witness-absent Span { start: 0, end: 2 } 
        witness-guard Span { start: 0, end: 2 } 
        witness-slow Span { start: 0, end: 2 } 
        witness-nonsense Span { start: 0, end: 2 } "#]]
    .assert_eq(&found.join("\n"));
}

#[test]
fn a_dash_in_front_of_a_here_document_is_a_word() {
    check("python3 - <<E\nx\nE\n", expect![[r#"n⟨python3⟩ w⟨python3⟩ w⟨-⟩ >⟨<<E⟩ H⟨x\n⟩"#]]);
    check("a - 2>f <<E\nx\nE\n", expect![[r#"witness-guard bytes that belong to no node " - ""#]]);
    check("a x - - <<E\nx\nE\n", expect![[r#"n⟨a⟩ w⟨a⟩ w⟨x⟩ w⟨-⟩ w⟨-⟩ >⟨<<E⟩ H⟨x\n⟩"#]]);
    check("a|b - <<E\nx\nE\n", expect![[r#"n⟨a⟩ w⟨a⟩ n⟨b⟩ w⟨b⟩ w⟨-⟩ >⟨<<E⟩ H⟨x\n⟩"#]]);
}
