use stockade_parser::{CommandTree, Limits, Opaque, Programs, Span, StartState, parse};
use stockade_text::json::{Dialect, Value, read};

use super::*;
use crate::Layer;
use crate::Mode;
use crate::decide::context::Context;
use crate::decide::evaluate_shell;
use crate::decide::tests::{Text, evidence, facts, rules, show, verdict};
use crate::facts::Facts;
use crate::verdict::Verdict;

const WIDE: &str =
    "{'sandbox':{'enabled':false},'permissions':{'allow':['Bash'],'deny':['Bash(rm:*)']}}";

/// Makes a text of this many commands.
type Shape = fn(usize) -> String;

fn tree(text: &str) -> CommandTree {
    let limits = Limits::default();
    parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &limits).confirm(&[])
}

fn input() -> Value {
    read(br#"{"command":"x"}"#, Dialect::Strict).unwrap()
}

fn bypass() -> Facts {
    Facts { mode: Mode::BypassPermissions, ..facts() }
}

/// Judges a text as if all of it were understood; returns how many steps lookups took, and how many parts it has.
fn steps_of(text: &str) -> (usize, usize) {
    let tree = tree(text);
    let shell = Shell { opaque: &[], ..Shell::of(&tree) };
    let settings =
        "{'permissions':{'allow':['Bash(echo:*)'],'deny':['Bash(rm:*)','Read(x/**)','Edit(y)']}}";
    let (rules, facts, input) = (rules(&[(Layer::User, settings)]), facts(), input());
    steps::take();
    let context = Context::new(&rules, &facts, "Bash", &input, Some(&shell));
    let parts = crate::decide::shell::parts(&context, &shell).len();
    (steps::take(), parts)
}

#[test]
fn twice_the_commands_take_twice_the_steps() {
    let shapes: [(&str, Shape); 10] = [
        ("semicolons", |count| "echo a;".repeat(count)),
        ("reads", |count| (0..count).map(|it| format!("cat a{it};")).collect()),
        ("copies", |count| "cp a b;".repeat(count)),
        ("links", |count| (0..count).map(|it| format!("ln -s a b{it};cat c{it}/d;")).collect()),
        ("assignments", |count| "CI=1 a;".repeat(count)),
        ("groups", |count| "(a);".repeat(count)),
        ("pipes", |count| vec!["a"; count].join("|")),
        ("ands", |count| vec!["a"; count].join("&&")),
        ("one evaluator", |count| format!("bash -c '{}'", "a;".repeat(count))),
        ("evaluators", |count| "bash -c 'a';env b;".repeat(count)),
    ];
    for (name, text) in shapes {
        let (few, parts) = steps_of(&text(500));
        assert!((500..MOST_PARTS).contains(&parts), "{name}: {parts} parts");
        let (many, twice) = steps_of(&text(1_000));
        assert!(twice >= parts * 2 - 2, "{name}: {parts} parts, then {twice}");
        assert!(few <= 64 * parts, "{name}: {few} steps for {parts} parts");
        assert!(many <= few * 2 + few / 8 + 64, "{name}: {few} steps, then {many}");
    }
}

#[test]
fn what_a_command_starts_is_found_as_by_looking_at_each() {
    let tree =
        tree("env a; xargs -n1 nice b; bash -c 'c; env d; $(e)'; find . -exec f \\; -exec g \\;");
    let commands = tree.commands();
    let inside = Inside::of(commands, tree.unread());
    assert!(commands.iter().any(|command| !command.via.is_empty()));
    for index in 0..=commands.len() {
        let starts =
            |it: &SimpleCommand| it.via.last().is_some_and(|v| v.command as usize == index);
        let each = commands.iter().enumerate().filter(|(_, it)| starts(it)).map(|(place, _)| place);
        assert_eq!(inside.started_by(index).collect::<Vec<_>>(), each.collect::<Vec<_>>());
        let first = tree.unread().iter().position(|it| it.command as usize == index);
        assert_eq!(inside.unread_of(index), first);
    }
}

#[test]
fn more_parts_than_are_judged_are_refused_whatever_allows_them() {
    let rules = rules(&[(Layer::User, "{'permissions':{'allow':['Bash']}}")]);
    let judged = |count: usize, facts: &Facts| {
        verdict(&rules, facts, &Text::new(&vec!["a"; count].join(" ; ")))
    };
    for facts in [facts(), bypass()] {
        let most = judged(MOST_PARTS, &facts);
        assert_ne!(most.code, "too_long");
        let beyond = judged(MOST_PARTS + 1, &facts);
        assert_eq!(show(&beyond), "deny builtin too_long -");
        assert!(beyond.reason.contains("20001 commands"), "{}", beyond.reason);
        assert_eq!((beyond.parts.len(), beyond.unlisted), (1, 0));
    }
}

#[test]
fn what_was_not_read_to_its_end_is_refused_whatever_allows_it() {
    let text = Text::new("echo a");
    for reason in [Reason::LimitWork, Reason::LimitInput] {
        let opaque =
            [Opaque { reason, span: Span::new(4, 6), detail: String::new(), help: String::new() }];
        let shell = Shell { opaque: &opaque, ..text.shell() };
        for settings in [WIDE, "{'permissions':{'allow':['Bash']}}", "{}"] {
            let rules = rules(&[(Layer::User, settings)]);
            for facts in [facts(), bypass()] {
                let verdict: Verdict = evaluate_shell(&rules, &shell, &input(), &facts);
                assert_eq!(show(&verdict), "deny builtin too_long -", "{reason:?} {settings}");
            }
        }
    }
}

#[test]
fn of_very_many_parts_the_deciding_one_is_listed_and_the_others_are_counted() {
    let text = Text::new(&format!("{} ; rm x ; b", vec!["echo a"; 1_000].join(" ; ")));
    let rules = rules(&[(Layer::User, WIDE)]);
    let verdict = verdict(&rules, &bypass(), &text);
    assert_eq!(show(&verdict), "deny user rule_deny Bash(rm:*)");
    assert_eq!((verdict.parts.len(), verdict.unlisted), (LISTED_PARTS, 1_002 - LISTED_PARTS));
    let listed = verdict.parts.iter().filter(|part| part.text == "rm x");
    assert_eq!(listed.count(), 1);
    let deciding = verdict.decisive_rule().unwrap();
    assert_eq!(verdict.parts.get(deciding.part).unwrap().text, "rm x");
    let evidence = evidence(&rules, &bypass(), &text, &verdict);
    assert_eq!(evidence.parts.len(), LISTED_PARTS);
    let told = evidence.text(&verdict, std::path::Path::new("/p"));
    assert!(told.contains("one of 1002 parts, `rm x`: denied"), "{told}");
    assert!(told.contains("and 746 more parts, none of them stricter"), "{told}");
}

#[test]
fn every_rule_that_matches_is_listed_up_to_the_limit_and_the_deciding_one_beyond_it() {
    let matching = |count: usize| {
        let allowed: Vec<String> =
            (0..count).map(|n| format!("'Bash(rm x{}:*)'", "*".repeat(n % 7))).collect();
        let settings =
            format!("{{'permissions':{{'allow':[{}],'deny':['Bash(rm:*)']}}}}", allowed.join(","));
        let verdict = verdict(&rules(&[(Layer::User, &settings)]), &facts(), &Text::new("rm x"));
        assert_eq!(show(&verdict), "deny user rule_deny Bash(rm:*)");
        verdict.rules
    };
    let few: Vec<String> = matching(1).into_iter().map(|rule| rule.text).collect();
    assert_eq!(few.len(), 2, "{few:?}");
    let many = matching(LISTED_RULES + 100).len();
    assert!((LISTED_RULES..=LISTED_RULES + 1).contains(&many), "{many}");
}
