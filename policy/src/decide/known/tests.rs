use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use expect_test::expect;

use super::super::tests::{Text, facts, rules, show, verdict};
use crate::Layer;
use crate::Mode;
use crate::Rules;
use crate::facts::{Doubt, Doubts, Facts, SandboxState};

fn check(settings: &str, facts: &Facts, lines: &[&str], expected: expect_test::Expect) {
    let rules = rules(&[(Layer::User, settings)]);
    let row =
        |line: &&str| format!("{line}  =>  {}", show(&verdict(&rules, facts, &Text::new(line))));
    expected.assert_eq(&lines.iter().map(row).collect::<Vec<_>>().join("\n"));
}

fn decided(rules: &Rules, facts: &Facts, line: &str) -> &'static str {
    verdict(rules, facts, &Text::new(line)).decision.name()
}

fn doubting(doubt: fn(PathBuf) -> Doubt, names: &[&str]) -> Doubts {
    let entry = |name: &&str| {
        (
            name.as_bytes().to_vec(),
            doubt(PathBuf::from(format!("/p/bin/{}", name.trim_start_matches('/')))),
        )
    };
    let programs: BTreeMap<_, _> = names.iter().map(entry).collect();
    Doubts { programs, ..Doubts::default() }
}

const RULES: &str = "{'permissions':{'allow':['Bash(tool *)','Bash(ls -l)','Bash(./x *)']}}";

#[test]
fn a_name_that_leads_where_commands_can_write_grants_nothing() {
    for doubt in [Doubt::Planted, Doubt::Absent] {
        let facts = Facts { doubts: doubting(doubt, &["ls", "tool", "mkdir"]), ..facts() };
        check(
            RULES,
            &Facts { mode: Mode::AcceptEdits, ..facts },
            &["ls", "ls -l", "tool a", "mkdir d", "./x a", "cat a"],
            expect![[r#"
                ls  =>  ask builtin no_rule -
                ls -l  =>  ask builtin no_rule -
                tool a  =>  ask builtin no_rule -
                mkdir d  =>  ask builtin no_rule -
                ./x a  =>  allow user rule_allow Bash(./x *)
                cat a  =>  allow builtin read_only -"#]],
        );
    }
}

#[test]
fn what_could_be_planted_meanwhile_counts_only_where_nothing_is_written() {
    let facts = Facts { doubts: doubting(Doubt::Exposed, &["ls", "cat", "mkdir"]), ..facts() };
    check(
        RULES,
        &Facts { mode: Mode::AcceptEdits, ..facts },
        &["ls", "ls ; cat a", "mkdir d ; ls", "ls > a"],
        expect![[r#"
            ls  =>  allow builtin read_only -
            ls ; cat a  =>  allow builtin read_only -
            mkdir d ; ls  =>  ask builtin no_rule -
            ls > a  =>  ask builtin no_rule -"#]],
    );
}

#[test]
fn a_name_counts_only_for_a_known_file_where_being_confined_is_not_enough() {
    let doubts = doubting(Doubt::Planted, &["ls"]);
    let facts = Facts { doubts, mode: Mode::Plan, sandbox: SandboxState::Enforced, ..facts() };
    check(
        "{'sandbox':{'enabled':true}}",
        &facts,
        &["ls", "cat a"],
        expect![[r#"
            ls  =>  ask mode plan -
            cat a  =>  allow builtin read_only -"#]],
    );
}

#[test]
fn builders_leave_the_sandbox_by_a_rule_of_the_person_alone() {
    let facts = facts();
    let user = "{'sandbox':{'enabled':true,'excludedCommands':['npm *','tool *','./x *']}}";
    let allow = "{'permissions':{'allow':['Bash(npm run *)','Bash(tool *)','Bash(./x *)']}}";
    for (layer, expected) in [
        (Layer::Project, ["ask", "allow", "ask"]),
        (Layer::Local, ["ask", "allow", "ask"]),
        (Layer::Flag, ["allow", "allow", "allow"]),
        (Layer::Policy, ["allow", "allow", "allow"]),
    ] {
        let rules = rules(&[(Layer::User, user), (layer, allow)]);
        let found = ["npm run a", "tool a", "./x a"].map(|line| decided(&rules, &facts, line));
        assert_eq!(found, expected, "{layer:?}");
    }
    // A settings file that commands can write is not the person's.
    let settings = BTreeSet::from([PathBuf::from("flag.json")]);
    let doubts = Doubts { settings, ..Doubts::default() };
    let rules = rules(&[(Layer::User, user), (Layer::Flag, allow)]);
    assert_eq!(decided(&rules, &Facts { doubts, ..facts }, "npm run a"), "ask");
}
