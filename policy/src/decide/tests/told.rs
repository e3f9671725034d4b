//! All that is told about a call: the verdict with its parts, the rule that would allow it, and the evidence. `told.md` has it
//! as people read it; `UPDATE_EXPECT=1` writes it anew.

use std::collections::BTreeMap;
use std::path::Path;

use expect_test::expect_file;
use stockade_text::json::Value;

use super::{facts, rules, value};
use crate::decide::tests::tree::tree;
use crate::facts::{Call, Facts, HookOutcome, HookVerdict, SandboxState};
use crate::verdict::Verdict;
use crate::{Layer, Mode, Origin, RuleFiles, Rules, evaluate, explain};

/// Calls that are judged by the same settings and facts.
struct Group {
    layers: &'static [(Layer, &'static str)],
    facts: Facts,
    calls: &'static [&'static str],
}

/// Shows a verdict, and why it is so.
fn told(rules: &Rules, facts: &Facts, line: &str) -> String {
    let shown = |call: &Call<'_>| {
        let verdict = evaluate(rules, call, facts);
        let files = RuleFiles { local: Path::new("/p/local.json"), managed: Path::new("/m.json") };
        let evidence = explain(rules, call, facts, &verdict, files).text(&verdict, &facts.cwd);
        format!("{}\n{evidence}", summary(&verdict))
    };
    let input = |text: &str| -> Value { value(text) };
    match line.split_once(" {") {
        Some((name, json)) if name.chars().all(|it| it.is_alphanumeric() || "_*".contains(it)) => {
            shown(&Call::Tool { name, input: &input(&format!("{{{json}")) })
        }
        _ => {
            let tree = tree(line);
            let input = match line.contains("# outside") {
                true => input("{'command':'x','dangerouslyDisableSandbox':true}"),
                false => input("{'command':'x'}"),
            };
            shown(&Call::Bash { tree: &tree, input: &input })
        }
    }
}

fn summary(verdict: &Verdict) -> String {
    let Verdict { decision, by, code, reason, suggestion, help, opens, rules, .. } = verdict;
    let matched = rules.iter().map(|rule| format!("{} of part {}", rule.text, rule.part));
    let matched = matched.collect::<Vec<_>>().join(", ");
    format!(
        "{} by {} ({code}): {reason}\nhelp: {help}\nsuggestion: {suggestion:?} opens: {opens:?} matched: {matched}",
        decision.name(),
        by.name()
    )
}

fn confined() -> Facts {
    Facts { sandbox: SandboxState::Enforced, ..facts() }
}

fn hooked(verdict: HookVerdict) -> Facts {
    let origin = Origin {
        layer: Layer::User,
        file: "hooks.json".into(),
        line: 1,
        column: 1,
        pointer: "/hooks".to_owned(),
    };
    let hook = HookOutcome { verdict, reason: "because".to_owned(), origin };
    Facts { hook: Some(hook), ..facts() }
}

fn commands() -> Vec<Group> {
    let real_paths = BTreeMap::from([("/p/l".into(), vec!["/etc/l".into()])]);
    vec![
        Group { layers: &[], facts: facts(), calls: COMMANDS },
        Group {
            layers: &[(
                Layer::User,
                "{'permissions':{'allow':['Bash(tool:*)','Bash(tool a)','Bash(* b)','Bash(docker *)','Bash(python3 -m *)','Bash(npm *)','Bash(sort *)','Bash(curl *)','Bash(env *)','Bash(a && b)','Bash(git *)','Bash(X=1 tool z)'],'deny':['Bash(rm:*)','Read(./secret)'],'ask':['Bash(tool c)','Edit(./gen)']}}",
            )],
            facts: Facts { real_paths, ..facts() },
            calls: RULED,
        },
        Group {
            layers: &[(
                Layer::User,
                "{'sandbox':{'enabled':true},'permissions':{'allow':['Bash(python3 -m pytest *)','Bash(python3 -m *)','Bash(tool *)'],'ask':['Bash']}}",
            )],
            facts: confined(),
            calls: CONFINED,
        },
        Group {
            layers: &[(
                Layer::User,
                "{'sandbox':{'enabled':true,'autoAllowBashIfSandboxed':false},'permissions':{'allow':['Bash(tool *)','Bash(npm run *)']}}",
            )],
            facts: Facts { interactive: false, ..confined() },
            calls: &["tool a", "other a", "other # outside"],
        },
        Group {
            layers: &[(
                Layer::User,
                "{'sandbox':{'enabled':true},'permissions':{'allow':['Bash(cat *)','Bash(tool *)']}}",
            )],
            facts: Facts { mode: Mode::Plan, ..confined() },
            calls: &["cat a", "tool a", "tool > a", "Write {'file_path':'a'}"],
        },
        Group {
            layers: &[
                (Layer::Policy, "{'permissions':{'allow':['Bash(tool *)'],'deny':['Bash(rm x)']}}"),
                (
                    Layer::User,
                    "{'permissions':{'allow':['Bash(tool a)','Bash'],'deny':['Bash(rm:*)','Bash(* x)']}}",
                ),
                (Layer::Local, "{'permissions':{'allow':['Bash(tool:*)'],'ask':['Bash(tool q)']}}"),
            ],
            facts: facts(),
            calls: LAYERED,
        },
        Group {
            layers: &[(Layer::Policy, "{'allowManagedPermissionRulesOnly':true}")],
            facts: facts(),
            calls: &["tool a", "Read {'file_path':'/etc/a'}"],
        },
    ]
}

const COMMANDS: &[&str] = &[
    "tool a",
    "tool 'a b' ''",
    "tool 'a*'",
    "tool \"it's\"",
    "tool ü",
    "tool $(x)",
    "X=1 tool a",
    "LANG=C tool a",
    "LANG=C X=$(y) tool a",
    "/usr/bin/tool a",
    "timeout 5 tool a",
    "xargs tool a",
    "python3.11 x.py",
    "tool a; tool b",
    "tool a; tool a",
    "cd a && tool > b < c",
    "cd $(x); cat b",
    "tool < $(x)",
    "tool > $(x)",
    "tool > /dev/tcp/a/1",
    "tool > /dev/sda",
    "tool > /etc/a",
    "tool $'a\\nb'",
    "tool > /dev/null",
    "cat /dev/null a a",
    "cat < /etc/a > b",
    ")",
    "git repack -ad",
    "git reflog expire --expire=now --all",
    "/usr/bin/git -C a stash drop x",
    "rm -rf /",
    "f() { f | f & }; f",
    ": ${PATH:=a}",
    "git submodule add https://a.example/x lib/x",
    "echo a > .npmrc",
];

const RULED: &[&str] = &[
    "tool a",
    "tool c",
    "tool $(x)",
    "rm x",
    "rm x; rm y",
    "timeout 5 rm x",
    "cat l secret",
    "cat $(x)",
    "cp a gen",
    "tool > gen",
    "tool < b",
    "X=1 tool z",
    "X=2 tool z",
    "PATH=. tool z",
    "other b",
    "./other b",
    "docker x",
    "npm x",
    "python3 -m pytest a",
    "python3 -m pip list",
    "sort -o x a",
    "sort --compress-program=x a",
    "curl https://a.example/ -o x",
    "env rm x",
    "env other",
    "a && b",
    "git log",
    "git -C $(x) log",
    "git submodule add https://a.example/x lib/x",
    "rm $(x) # a",
    "ln -s / d && cd d && tool",
    "bash",
    "bash -c \"$(x)\"",
    "for PATH in a; do tool b; done",
    "read PATH",
];

const LAYERED: &[&str] = &[
    "tool a",
    "rm x",
    "rm x; rm y",
    "tool q",
    "for PATH in a; do tool b; done",
    "watch rm x",
    "ln -s / d && cd d && tool",
    "nproc() { echo a; }; make -j$(nproc) all",
];

const CONFINED: &[&str] = &[
    "tool a",
    "python3 -m pip list",
    "python3 -m pytest a",
    "python3 -m pytest a; python3 -m pip list",
    "echo a > .npmrc",
    "git submodule add https://a.example/x lib/x",
    "cp a sub/.npmrc",
    "other # outside",
    "tool a # outside",
    "rm -rf ~",
];

fn tools() -> Vec<Group> {
    vec![
        Group {
            layers: &[],
            facts: Facts { interactive: false, ..facts() },
            calls: &["Read {'file_path':'/etc/a'}"],
        },
        Group {
            layers: &[],
            facts: facts(),
            calls: &[
                "Read {'file_path':'/etc/a'}",
                "Read {'file_path':'/etc/a*'}",
                "Write {'file_path':'a/../b'}",
                "Edit {'path':'a'}",
                "Grep {'path':'/etc'}",
                "WebFetch {'url':'https://a.example/x'}",
                "WebFetch {'url':'https://%61.example/x'}",
                "mcp__a__b {}",
                "mcp__a__* {}",
                "Other {}",
                "Agent {'subagent_type':'a'}",
                "PowerShell {'command':'a'}",
            ],
        },
        Group {
            layers: &[(
                Layer::User,
                "{'permissions':{'allow':['Read(//etc/**)','WebFetch(domain:a.example)'],'deny':['Read(//etc/b)','Edit(./b)'],'ask':['WebFetch(domain:b.example)','Other']}}",
            )],
            facts: facts(),
            calls: &[
                "Read {'file_path':'/etc/a'}",
                "Read {'file_path':'/etc/b'}",
                "Write {'file_path':'b'}",
                "Grep {'path':'/etc'}",
                "WebFetch {'url':'https://a.example/x'}",
                "WebFetch {'url':'https://b.example/x'}",
                "Other {}",
            ],
        },
    ]
}

fn hooks() -> Vec<Group> {
    let group = |verdict| Group {
        layers: &[(
            Layer::User,
            "{'permissions':{'allow':['Bash(tool *)'],'deny':['Bash(rm:*)']}}",
        )],
        facts: hooked(verdict),
        calls: &["tool a", "other a", "rm x"],
    };
    vec![group(HookVerdict::Allow), group(HookVerdict::Ask), group(HookVerdict::Deny)]
}

#[test]
fn of_a_long_text_the_beginning_is_told_and_of_many_parts_the_number() {
    let text = |count: usize| format!("tool {}", "a".repeat(count));
    let many: String = (0..300).map(|it| format!("tool a{it};")).collect();
    let last = |text: &str, skip: usize| {
        told(&rules(&[]), &facts(), text).lines().skip(skip).map(str::to_owned).collect::<Vec<_>>()
    };
    let end =
        |count| last(&text(count), 3).first().map(|it| it.chars().skip(238).collect::<String>());
    assert_eq!(
        [235, 236].map(end),
        [Some("aaa`: asked".to_owned()), Some("aa…`: asked".to_owned())]
    );
    let lines = last(&many, 3 + 3 * 255);
    expect_test::expect![[r#"
        one of 300 parts, `tool a255`: asked
          because no rule allows it
          compared: tool a255
        and 44 more parts, none of them stricter
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: none; more than 32 rules would be needed"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn all_is_told_about_each_call() {
    let groups = [commands(), tools(), hooks()].into_iter().flatten();
    let mut pages = Vec::new();
    for (number, Group { layers, facts, calls }) in groups.enumerate() {
        let rules = rules(layers);
        let call =
            |line: &&str| format!("### `{line}`\n\n```\n{}\n```\n", told(&rules, &facts, line));
        let settings = layers.iter().map(|(layer, text)| format!("{}: `{text}`\n", layer.name()));
        let calls = calls.iter().map(call).collect::<Vec<_>>().join("\n");
        pages.push(format!("## {}\n\n{}\n{calls}", number + 1, settings.collect::<String>()));
    }
    let title = "# What is told about calls\n\nThe test in `told.rs` writes this page.";
    expect_file!["told.md"].assert_eq(&format!("{title}\n\n{}", pages.join("\n")));
}
