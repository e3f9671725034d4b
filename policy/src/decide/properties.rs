//! Properties that hold for all rules and commands, over many made-up ones.

use proptest::prelude::*;

use super::evidence::Change;
use super::tests::{Text, evidence, facts, rules, show, verdict};
use crate::Decision;
use crate::Mode;
use crate::facts::{Facts, HookOutcome, HookVerdict, SandboxState};
use crate::{Layer, Origin};

fn rule() -> impl Strategy<Value = String> {
    let bash = prop::sample::select(vec![
        "Bash",
        "Bash(a)",
        "Bash(a:*)",
        "Bash(a b)",
        "Bash(b *)",
        "Bash(* b)",
        "Bash(a*)",
        "Bash(a * b)",
        "Bash(rm:*)",
        "Bash(tool:*)",
        "Bash(tool --run)",
        "Bash(cat:*)",
        "Bash(sort *)",
        "Bash(a && b)",
        "Bash(X=1 a)",
        "Bash(broken",
        "Bash()",
        "*",
        "B*",
        "Read(x)",
        "Read(//**)",
        "Read",
        "Edit(f)",
        "Edit",
        "Edit(//etc/**)",
        "Write(f)",
        "mcp__a__b",
        "WebFetch(domain:*)",
        "Bash(run_in_background:true)",
    ]);
    bash.prop_map(str::to_owned)
}

fn list() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule(), 0..4)
}

fn command() -> impl Strategy<Value = String> {
    let words = vec![
        "a",
        "b",
        "$x",
        "cat",
        "ls",
        "rm",
        "tool",
        "--run",
        "sort",
        "-o",
        "x",
        "f",
        "/",
        "X=1",
        "CI=1",
        ";",
        "python3 -c print(1)",
        "find . -name x -delete",
        "> f",
        "> $x",
        "> .npmrc",
        "/etc/p",
        "mkdir",
        "/bin/a",
        "?",
    ];
    prop::collection::vec(prop::sample::select(words), 1..6).prop_map(|words| words.join(" "))
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let modes = vec![
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Plan,
        Mode::Auto,
        Mode::DontAsk,
        Mode::BypassPermissions,
    ];
    let sandbox = vec![SandboxState::Off, SandboxState::Enforced, SandboxState::Unavailable];
    (prop::sample::select(modes), prop::sample::select(sandbox), any::<bool>())
        .prop_map(|(mode, sandbox, interactive)| Facts { mode, sandbox, interactive, ..facts() })
}

#[derive(Debug, Clone, Default)]
struct Lists {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
    sandbox: bool,
}

impl Lists {
    fn settings(&self) -> String {
        let list = |rules: &[String]| {
            rules
                .iter()
                .map(|rule| format!("'{}'", rule.replace('\'', "\\u0027")))
                .collect::<Vec<_>>()
                .join(",")
        };
        format!(
            "{{'sandbox':{{'enabled':{}}},'permissions':{{'allow':[{}],'ask':[{}],'deny':[{}]}}}}",
            self.sandbox,
            list(&self.allow),
            list(&self.ask),
            list(&self.deny)
        )
    }

    fn decide(&self, facts: &Facts, command: &str) -> Decision {
        verdict(&rules(&[(Layer::User, &self.settings())]), facts, &Text::new(command)).decision
    }
}

fn lists() -> impl Strategy<Value = Lists> {
    (list(), list(), list(), any::<bool>()).prop_map(|(allow, ask, deny, sandbox)| Lists {
        allow,
        ask,
        deny,
        sandbox,
    })
}

/// Returns what a hook of the person says that allows a call.
fn yes_of_a_hook() -> HookOutcome {
    let origin = Origin {
        layer: Layer::User,
        file: "/home/dev/.config/stockade/settings.json".into(),
        line: 1,
        column: 1,
        pointer: "/hooks".into(),
    };
    HookOutcome { verdict: HookVerdict::Allow, reason: "it is fine".into(), origin }
}

/// Returns allow rules that could let a command or a part of it run.
fn candidates(command: &str) -> Vec<String> {
    let parts = command.split(';').map(str::trim).filter(|part| !part.is_empty());
    let exact = parts.clone().map(|part| format!("Bash({part})"));
    let programs = parts.filter_map(|part| part.split(' ').next());
    let wide = programs.map(|program| format!("Bash({program}:*)"));
    ["Bash", "Read(//**)", "Edit(//**)", "Read", "Edit"]
        .map(str::to_owned)
        .into_iter()
        .chain(exact)
        .chain(wide)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i3_adding_a_deny_rule_never_weakens(lists in lists(), more in rule(), facts in any_facts(), command in command()) {
        let mut stricter = lists.clone();
        stricter.deny.push(more);
        prop_assert!(stricter.decide(&facts, &command) >= lists.decide(&facts, &command));
    }

    #[test]
    fn i3_adding_an_allow_rule_is_never_stricter(lists in lists(), more in rule(), facts in any_facts(), command in command()) {
        let mut wider = lists.clone();
        wider.allow.push(more);
        prop_assert!(wider.decide(&facts, &command) <= lists.decide(&facts, &command));
    }

    #[test]
    fn an_allow_rule_never_lifts_what_a_rule_refuses(lists in lists(), more in rule(), facts in any_facts(), command in command()) {
        let text = Text::new(&command);
        let code = |lists: &Lists| verdict(&rules(&[(Layer::User, &lists.settings())]), &facts, &text).code;
        let before = code(&lists);
        let mut wider = lists.clone();
        wider.allow.push(more);
        if before == "rule_deny" {
            prop_assert_eq!(code(&wider), before);
        }
    }

    #[test]
    fn the_smallest_change_is_one(lists in lists(), facts in any_facts(), command in command()) {
        let rules = rules(&[(Layer::User, &lists.settings())]);
        let text = Text::new(&command);
        let before = verdict(&rules, &facts, &text);
        let mut changed = lists.clone();
        match evidence(&rules, &facts, &text, &before).change {
            Change::Add { gives, effect, rules, .. } => {
                prop_assert_ne!(gives, before.decision);
                let list = if effect == Decision::Allow { &mut changed.allow } else { &mut changed.deny };
                list.extend(rules.clone());
                prop_assert_eq!(changed.decide(&facts, &command), gives, "{:?}", rules);
            }
            Change::Remove { gives, rules } => {
                prop_assert!(gives < before.decision);
                for (text, _) in &rules {
                    changed.ask.retain(|rule| rule != text);
                    changed.deny.retain(|rule| rule != text);
                }
                prop_assert!(changed.decide(&facts, &command) <= gives, "{:?}", rules);
            }
            Change::None(why) => {
                prop_assert!(!why.is_empty());
                if why.contains("no allow rule changes that") {
                    for rule in candidates(&command) {
                        let mut wider = lists.clone();
                        wider.allow.push(rule.clone());
                        prop_assert_ne!(wider.decide(&facts, &command), Decision::Allow, "{}: {}", rule, why);
                    }
                }
            }
        }
    }

    #[test]
    fn the_rule_that_is_suggested_lets_it_run(lists in lists(), facts in any_facts(), command in command()) {
        let before = verdict(&rules(&[(Layer::User, &lists.settings())]), &facts, &Text::new(&command));
        if let Some(rule) = before.suggestion {
            let mut wider = lists.clone();
            wider.allow.push(rule.clone());
            prop_assert_eq!(wider.decide(&facts, &command), Decision::Allow, "{}", rule);
        }
    }

    #[test]
    fn order_inside_a_list_does_not_matter(lists in lists(), facts in any_facts(), command in command()) {
        let mut turned = lists.clone();
        for list in [&mut turned.allow, &mut turned.ask, &mut turned.deny] {
            list.reverse();
        }
        prop_assert_eq!(turned.decide(&facts, &command), lists.decide(&facts, &command));
    }

    #[test]
    fn i5_what_policy_refuses_no_layer_lifts(policy in lists(), below in lists(), facts in any_facts(), command in command()) {
        let text = Text::new(&command);
        let mut without = policy.clone();
        without.allow.clear();
        let refused = |layers: &[(Layer, &str)]| verdict(&rules(layers), &facts, &text);
        let alone = refused(&[(Layer::Policy, &without.settings())]);
        let both = refused(&[(Layer::Policy, &without.settings()), (Layer::User, &below.settings()), (Layer::Flag, &below.settings())]);
        if alone.code == "rule_deny" {
            prop_assert_eq!(both.decision, Decision::Deny);
        }
        if alone.code == "rule_ask" {
            prop_assert!(both.decision >= Decision::Ask);
        }
    }

    #[test]
    fn i2_a_rule_about_particular_commands_never_allows_what_is_not_understood(lists in lists(), command in command()) {
        let mut lists = lists;
        lists.allow.retain(|rule| rule != "Bash");
        lists.sandbox = false;
        let facts = facts();
        let decision = lists.decide(&facts, &(command + " ; ?"));
        prop_assert!(decision >= Decision::Ask);
    }

    #[test]
    fn i4_no_hook_lifts_a_refusal_or_what_a_rule_or_an_opaque_part_asks(lists in lists(), facts in any_facts(), command in command()) {
        let rules = rules(&[(Layer::User, &lists.settings())]);
        // A rule for every command answers for what is not understood, too; then a hook may answer for the rest.
        let is_blanket = lists.allow.iter().any(|rule| rule == "Bash");
        // Where nobody is asked, a question is a refusal by another name.
        let mode = if facts.mode == Mode::DontAsk { Mode::Default } else { facts.mode };
        let facts = Facts { interactive: true, mode, ..facts };
        let yes = Facts { hook: Some(yes_of_a_hook()), ..facts.clone() };
        for text in [command.clone(), format!("? ; {command}")] {
            let without = verdict(&rules, &facts, &Text::new(&text));
            let with = verdict(&rules, &yes, &Text::new(&text));
            if without.decision == Decision::Deny {
                prop_assert_eq!(with.decision, Decision::Deny);
            }
            if without.code == "rule_ask" || text.starts_with('?') && !is_blanket && without.decision > Decision::Allow {
                prop_assert!(with.decision >= Decision::Ask, "{}", text);
            }
        }
    }

    #[test]
    fn i10_the_same_question_has_the_same_answer(lists in lists(), facts in any_facts(), command in command()) {
        let once = || {
            let rules = rules(&[(Layer::User, &lists.settings())]);
            verdict(&rules, &facts, &Text::new(&command))
        };
        let (first, second) = (once(), once());
        prop_assert_eq!(show(&first), show(&second));
        prop_assert_eq!(first, second);
    }
}
