//! Findings that no case file can say: facts of another machine, very long texts, and what parts hold.

use std::collections::BTreeMap;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use stockade_parser::Span;

use super::{facts, input, rules, show};
use crate::decide::operands::operands;
use crate::decide::part::{Certainty, Draft, Hit, Subject};
use crate::decide::tests::tree::tree;
use crate::facts::{Call, Doubt, Doubts, Expanded, Facts, SandboxState};
use crate::{Decision, Layer, evaluate, patterns_of};

/// Each row is a text, its verdict, and the reason of each part.
fn check(settings: &str, facts: &Facts, texts: &[&str], expected: Expect) {
    let (rules, input) = (rules(&[(Layer::User, settings)]), input());
    let row = |text: &&str| {
        let tree = tree(text);
        let verdict = evaluate(&rules, &Call::Bash { tree: &tree, input: &input }, facts);
        let part = |part: &crate::Part| format!("\n    {}: {}", part.text, part.reason);
        let parts = verdict.parts.iter().map(part).collect::<String>();
        format!("{text}  =>  {}{parts}", show(&verdict))
    };
    expected.assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
}

#[test]
fn each_rule_is_found_once_however_many_there_are() {
    let mut draft = Draft::new(Subject::Tool, Span::default(), String::new());
    let later = |rule| Hit { rule, certainty: Certainty::Later };
    draft.add((0..20).map(later));
    draft.add((0..20).map(Hit::certain));
    assert_eq!(draft.hits, (0..20).map(Hit::certain).collect::<Vec<_>>());
    draft.leave_out(|hit| hit.rule % 2 == 0);
    for _ in 0..2 {
        draft.add((0..40).map(Hit::certain));
    }
    let order = (1..20).step_by(2).chain((0..20).step_by(2)).chain(20..40);
    assert_eq!(draft.hits, order.map(Hit::certain).collect::<Vec<_>>());
}

#[test]
fn operands_are_words_and_what_stands_behind_letters_and_marks() {
    let row = |text: &&str| {
        let tree = tree(text);
        let found = operands(&tree.commands()[0]);
        let found = found.iter().map(|it| String::from_utf8_lossy(it).into_owned());
        format!("{text}  =>  {:?}", found.collect::<Vec<_>>())
    };
    let texts = [
        "tool a",
        "tool -f -fb",
        "tool --k=c",
        "tool d,e:f@g",
        "tool ''",
        "tool -",
        "tool -x=a,-b",
        "tool file:///a",
    ];
    expect![[r#"
        tool a  =>  ["a"]
        tool -f -fb  =>  ["b"]
        tool --k=c  =>  ["c", "c"]
        tool d,e:f@g  =>  ["d", "e:f@g", "e", "f@g", "f", "g", "g", "d,e:f@g"]
        tool ''  =>  []
        tool -  =>  []
        tool -x=a,-b  =>  ["a,-b", "a", "=a,-b"]
        tool file:///a  =>  ["file", "///a", "///a", "/a", "file:///a"]"#]]
    .assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
}

/// Texts of which some do more than read.
const READING: &[&str] = &[
    "ls",
    "X=1; ls",
    "cd a; ls",
    "cd a; X=1; ls",
    "sleep 1; ls",
    "ls > /dev/null",
    "ls > a",
    "ls; )",
    "python3 <<< 'import os'; ls",
    "./x a",
    "tool a",
];

#[test]
fn a_name_that_could_be_planted_counts_where_nothing_does_more_than_read() {
    let programs: BTreeMap<_, _> = ["ls", "./x", "tool"]
        .map(|it| (it.as_bytes().to_vec(), Doubt::Exposed(PathBuf::from("/b"))))
        .into();
    let facts = Facts { doubts: Doubts { programs, ..Doubts::default() }, ..facts() };
    let allow = "{'permissions':{'allow':['Bash(./x *)','Bash(tool *)','Bash(sleep *)']}}";
    check(
        allow,
        &facts,
        READING,
        expect![[r#"
        ls  =>  allow builtin read_only -
            ls: it only reads
        X=1; ls  =>  allow builtin read_only -
            X=1: it only sets variables
            ls: it only reads
        cd a; ls  =>  allow builtin read_only -
            cd a: it stays inside the working directories
            ls: it only reads
        cd a; X=1; ls  =>  allow builtin read_only -
            cd a: it stays inside the working directories
            X=1: it only sets variables
            ls: it only reads
        sleep 1; ls  =>  allow user rule_allow Bash(sleep *)
            sleep 1: allow rule `Bash(sleep *)` in user.json:1
            ls: it only reads
        ls > /dev/null  =>  allow builtin read_only -
            ls > /dev/null: it only reads
        ls > a  =>  ask builtin no_rule -
            ls > a: `ls` is looked for in `/b` first, where commands can write
            > a: no Edit rule allows this file
        ls; )  =>  ask builtin no_rule -
            ls: `ls` is looked for in `/b` first, where commands can write
            ls; ): not understood: bash would not accept this, or it is a construct that is not read yet (`unexpected token`)
            ls; ): not understood: the second parser does not understand this
        python3 <<< 'import os'; ls  =>  ask builtin no_rule -
            python3 <<< 'import os': no rule allows it
            ls: `ls` is looked for in `/b` first, where commands can write
        ./x a  =>  allow user rule_allow Bash(./x *)
            ./x a: allow rule `Bash(./x *)` in user.json:1
        tool a  =>  ask builtin no_rule -
            tool a: `tool` is looked for in `/b` first, where commands can write"#]],
    );
    let confined = Facts { sandbox: SandboxState::Enforced, ..facts };
    check(
        allow,
        &confined,
        &["./x a", "tool a"],
        expect![[r#"
        ./x a  =>  allow user rule_allow Bash(./x *)
            ./x a: allow rule `Bash(./x *)` in user.json:1
        tool a  =>  allow user rule_allow Bash(tool *)
            tool a: allow rule `Bash(tool *)` in user.json:1"#]],
    );
}

#[test]
fn a_search_of_a_project_around_the_home_directory_is_critical() {
    let facts = Facts { home: "/p/h".into(), cwd: "/p/s".into(), ..facts() };
    let texts = [
        "find . -name '*.x' -delete",
        "find .. -name '*.x' -delete",
        "find /opt/x -name '*.x' -delete",
        "find $(git rev-parse --show-toplevel) -name '*.x' -delete",
    ];
    check(
        "{'permissions':{'allow':['Bash']}}",
        &facts,
        &texts,
        expect![[r#"
        find . -name '*.x' -delete  =>  allow user rule_allow Bash
            find . -name '*.x' -delete: allow rule `Bash` in user.json:1
        find .. -name '*.x' -delete  =>  ask builtin critical_path -
            find .. -name '*.x' -delete: `find` on `/p` always needs a person
        find /opt/x -name '*.x' -delete  =>  allow user rule_allow Bash
            find /opt/x -name '*.x' -delete: allow rule `Bash` in user.json:1
        find $(git rev-parse --show-toplevel) -name '*.x' -delete  =>  ask builtin critical_path -
            find $(git rev-parse --show-toplevel) -name '*.x' -delete: `find` on `/p/s` always needs a person
            $(git rev-parse --show-toplevel): allow rule `Bash` in user.json:1
            git rev-parse --show-toplevel: allow rule `Bash` in user.json:1"#]],
    );
}

#[test]
fn a_pattern_may_stand_for_any_link_until_it_was_looked_up() {
    let settings = "{'permissions':{'deny':['Read(//etc/x)']}}";
    let (tree, input) = (tree("cat a*"), input());
    let shapes = patterns_of(&Call::Bash { tree: &tree, input: &input }, &facts());
    let known = |expanded: fn() -> Expanded| Facts {
        expanded: shapes.iter().map(|shape| (shape.clone(), expanded())).collect(),
        ..facts()
    };
    check(
        settings,
        &facts(),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  ask user rule_possible Read(//etc/x)
            cat a*: deny rule `Read(//etc/x)` in user.json:1, which a word that is not known before it runs could match"#]],
    );
    check(
        "{}",
        &facts(),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  ask builtin no_rule -
            cat a*: no rule allows it"#]],
    );
    check(
        settings,
        &known(|| Expanded::TooMany),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  ask user rule_possible Read(//etc/x)
            cat a*: deny rule `Read(//etc/x)` in user.json:1, which a word that is not known before it runs could match"#]],
    );
    check(
        settings,
        &known(|| Expanded::Links(Vec::new())),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  allow builtin read_only -
            cat a*: it only reads"#]],
    );
    let inside = || Expanded::Links(vec![vec!["/p/a1".into(), "/p/b".into()]]);
    check(
        "{}",
        &known(inside),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  allow builtin read_only -
            cat a*: it only reads"#]],
    );
    let outside = || Expanded::Links(vec![vec!["/p/a1".into(), "/etc/y".into()]]);
    check(
        "{}",
        &known(outside),
        &["cat a*"],
        expect![[r#"
        cat a*  =>  ask builtin no_rule -
            cat a*: no rule allows it"#]],
    );
}

#[test]
fn a_rule_about_commands_allows_a_text_up_to_a_number_of_characters() {
    let (rules, input) =
        (rules(&[(Layer::User, "{'permissions':{'allow':['Bash(tool *)']}}")]), input());
    let decided = |word: String| {
        let tree = tree(&format!("tool {word}"));
        evaluate(&rules, &Call::Bash { tree: &tree, input: &input }, &facts()).decision
    };
    let found = [("a", 9_995), ("a", 9_996), ("é", 9_995), ("é", 9_996)];
    let found = found.map(|(letter, count)| decided(letter.repeat(count)));
    assert_eq!(found, [Decision::Allow, Decision::Ask, Decision::Allow, Decision::Ask]);
}

#[test]
fn a_rule_about_every_command_refuses_a_text_of_too_many_parts() {
    let (rules, input) = (rules(&[(Layer::User, "{'permissions':{'deny':['Bash']}}")]), input());
    let tree = tree(&"a;".repeat(20_001));
    let verdict = evaluate(&rules, &Call::Bash { tree: &tree, input: &input }, &facts());
    assert_eq!(show(&verdict), "deny user rule_deny Bash");
}
