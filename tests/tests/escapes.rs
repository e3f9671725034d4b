//! A wildcard allow rule for a program covers its ordinary uses and none of the forms by which it starts other
//! programs, loads code, sends files or writes them. What such a form reads is held against rules about files.

use std::collections::BTreeMap;

use serde_json::Value;
use stockade_policy::{Decision, Layer, load};
use stockade_tests::cases::{answer, plain_facts, texts};
use stockade_tests::oracle::tree;
use stockade_tests::root;
use stockade_text::json::{Dialect, read};

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(path)).expect("the data of the tests");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().expect("a text").to_owned()
}

/// Returns the decision of `Bash(PROGRAM *)` alone about a command.
fn decided(program: &str, command: &str) -> Decision {
    decided_by(vec![format!("Bash({program} *)")], command)
}

/// Returns the decision of these allow rules alone about a command.
fn decided_by(rules: Vec<String>, command: &str) -> Decision {
    decided_under(serde_json::json!({"allow": rules}), command)
}

/// Returns the decision of these permissions alone about a command.
fn decided_under(permissions: Value, command: &str) -> Decision {
    let settings = serde_json::json!({ "permissions": permissions }).to_string();
    let facts = plain_facts();
    let loaded = load(&texts(&[(Layer::User, true, settings)], &facts.home, &facts.project));
    let input = serde_json::json!({ "command": command }).to_string();
    let input = read(input.as_bytes(), Dialect::Strict).expect("JSON");
    answer(&loaded.rules, "Bash", &input, &facts).decision
}

#[test]
fn escape_forms_do_not_pass_under_a_wildcard_rule() {
    let cases = lines("tests/cases/escapes.jsonl");
    assert!(cases.len() >= 1_000, "{}", cases.len());
    let (mut passed, mut never) = (Vec::new(), Vec::new());
    for case in &cases {
        let (program, command) = (text(case, "program"), text(case, "command"));
        if decided(&program, &command) == Decision::Allow {
            passed.push(command.clone());
        }
        // The control: rules that name the command and every file allow it, so it is the wildcard that does not cover it.
        let exact = format!("Bash({command})");
        let rules = [&*exact, "Bash", "Read(//**)", "Edit(//**)"].map(str::to_owned);
        if decided_by(rules.to_vec(), &command) != Decision::Allow {
            never.push(command);
        }
    }
    println!("{} of {} pass: {passed:?}", passed.len(), cases.len());
    assert_eq!(passed, [""; 0]);
    // No rule allows these without a question: they remove or rewrite all that lies beneath a folder or on a disk.
    let asked_whatever_the_rules = [
        "find . -delete",
        "git -c alias.a=!./x a",
        "git filter-branch --tree-filter ./x",
        "dd if=a of=/dev/sda",
        "rm -rf /elsewhere",
    ];
    assert_eq!(never, asked_whatever_the_rules);
}

#[test]
fn forms_that_read_meet_the_rules_about_files() {
    let cases = lines("tests/cases/reads.jsonl");
    assert!(cases.len() >= 100, "{}", cases.len());
    let passes = |case: &&Value| {
        let allow = [format!("Bash({} *)", text(case, "program"))];
        let rules = serde_json::json!({"allow": allow, "deny": ["Read(//elsewhere/**)"]});
        decided_under(rules, &text(case, "command")) == Decision::Allow
    };
    let passed: Vec<String> =
        cases.iter().filter(passes).map(|case| text(case, "command")).collect();
    assert_eq!(passed, [""; 0]);
}

/// Of some programs nobody expects that they show a file, and of none that its program text does.
#[test]
fn a_wildcard_covers_no_file_elsewhere_for_a_program_that_is_no_reader() {
    let named = ["awk 'BEGIN{getline < \"/elsewhere/f\"}'", "sed 'r /elsewhere/f' a"];
    let plain = ["date -f /elsewhere/f", "mtr --raw -F /elsewhere/f", "last -f/elsewhere/f"];
    for command in plain.into_iter().chain(named) {
        let program = command.split(' ').next().unwrap_or_default();
        assert_eq!(decided(program, command), Decision::Ask, "{command}");
        let inside = command.replace("/elsewhere/", "");
        assert_eq!(decided(program, &inside), Decision::Allow, "{inside}");
        let exact = vec![format!("Bash({command})")];
        assert_eq!(decided_by(exact, command), Decision::Allow, "{command}");
    }
}

/// A file whose name an awk program computes may be anywhere.
#[test]
fn a_wildcard_covers_no_computed_file() {
    for command in ["awk -v f=x 'BEGIN{getline < f}'", "awk 'BEGIN{ARGV[1]=\"x\";ARGC=2} {print}'"]
    {
        assert_eq!(decided("awk", command), Decision::Ask, "{command}");
    }
}

#[test]
fn ordinary_uses_stay_allowed_under_a_wildcard_rule() {
    let ordinary = [
        ("git", "git log --oneline -n 5"),
        ("git", "git commit -m message"),
        ("curl", "curl -sSL https://example.com"),
        ("curl", "curl -d a=b https://example.com"),
        ("grep", "grep -rn word src"),
        ("gradle", "gradle build"),
        ("rake", "rake test"),
        ("python3", "python3 scripts/x.py"),
        ("tar", "tar -tf a.tar"),
        ("ls", "ls -la src"),
    ];
    for (program, command) in ordinary {
        assert_eq!(decided(program, command), Decision::Allow, "{command}");
    }
}

/// Returns the decision about a command of the rules `Bash(PROGRAM *)` for every program that it names, and of `also`.
fn decided_with_all(command: &str, also: &[&str]) -> Decision {
    let tree = tree::read(command.as_bytes());
    let named = tree.commands().iter().filter(|command| command.via.is_empty());
    let programs = named.filter_map(|command| command.words.first()?.exact());
    let rules = programs.map(|name| format!("Bash({} *)", String::from_utf8_lossy(name)));
    decided_by(rules.chain(also.iter().map(|rule| (*rule).to_owned())).collect(), command)
}

#[test]
fn harmless_uses_stay_allowed_under_wildcard_rules() {
    // A use that is not in this file was read and held to be harmless.
    let marks: BTreeMap<String, String> = lines("tests/corpus/tldr-uses.jsonl")
        .iter()
        .map(|mark| (text(mark, "id"), text(mark, "use")))
        .collect();
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut asked = Vec::new();
    for line in lines("tests/corpus/tldr.jsonl") {
        let command = text(&line, "command");
        let program = command.split(' ').next().unwrap_or_default();
        let plain = program.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !plain || program.is_empty() {
            continue;
        }
        let kind = marks.get(&text(&line, "id")).map_or("harmless", String::as_str);
        let allowed = decided_with_all(&command, &[]) == Decision::Allow;
        let (allowed_so_far, all) = counts.entry(kind).or_default();
        *all += 1;
        *allowed_so_far += usize::from(allowed);
        if kind == "harmless" && !allowed {
            asked.push(command);
        }
    }
    for (kind, (allowed, all)) in &counts {
        println!("{kind}: {allowed} of {all} are allowed");
    }
    let (allowed, all) = counts["harmless"];
    assert!(all >= 500, "{all}");
    assert!(allowed * 100 >= all * 97, "{allowed} of {all}; asked:\n{}", asked.join("\n"));
}

/// A rule for a program says nothing about the file of a redirection; one for the file does.
#[test]
fn redirections_are_allowed_by_a_rule_for_the_file() {
    let marks = lines("tests/corpus/tldr-uses.jsonl");
    let redirect = |line: &&Value| {
        marks.iter().any(|mark| mark["use"] == "redirect" && mark["id"] == line["id"])
    };
    let corpus = lines("tests/corpus/tldr.jsonl");
    let asked: Vec<String> = corpus
        .iter()
        .filter(redirect)
        .map(|line| text(line, "command"))
        .filter(|command| decided_with_all(command, &["Edit(./**)"]) != Decision::Allow)
        .collect();
    assert_eq!(asked, ["genfstab -U /mnt >> /mnt/etc/fstab"]);
}

/// The allow rules of a person who works with an agent.
const USUAL_RULES: &[&str] = &[
    "Bash(git:*)",
    "Bash(gh pr:*)",
    "Bash(gh run:*)",
    "Bash(npm run:*)",
    "Bash(npm test:*)",
    "Bash(npm install:*)",
    "Bash(npm ci:*)",
    "Bash(npx tsc:*)",
    "Bash(yarn test:*)",
    "Bash(pnpm build:*)",
    "Bash(node:*)",
    "Bash(tsc:*)",
    "Bash(eslint:*)",
    "Bash(cargo build:*)",
    "Bash(cargo test:*)",
    "Bash(cargo check:*)",
    "Bash(cargo clippy:*)",
    "Bash(cargo fmt:*)",
    "Bash(cargo run:*)",
    "Bash(go test:*)",
    "Bash(go build:*)",
    "Bash(go vet:*)",
    "Bash(make:*)",
    "Bash(python3:*)",
    "Bash(pytest:*)",
    "Bash(python3 -m pytest:*)",
    "Bash(pip install:*)",
    "Bash(uv run pytest:*)",
    "Bash(ruff:*)",
    "Bash(mypy:*)",
    "Bash(black:*)",
    "Bash(ls:*)",
    "Bash(cat:*)",
    "Bash(grep:*)",
    "Bash(rg:*)",
    "Bash(find:*)",
    "Bash(sed:*)",
    "Bash(awk:*)",
    "Bash(head:*)",
    "Bash(tail:*)",
    "Bash(echo:*)",
    "Bash(mkdir:*)",
    "Bash(touch:*)",
    "Bash(cp:*)",
    "Bash(mv:*)",
    "Bash(rm:*)",
    "Bash(chmod:*)",
    "Bash(curl:*)",
    "Bash(jq:*)",
    "Bash(docker ps:*)",
    "Bash(docker images:*)",
    "Bash(docker logs:*)",
    "Bash(docker compose ps:*)",
    "Bash(xargs:*)",
    "Bash(sleep:*)",
    "Edit(./**)",
];

/// Commands as agents write them, without a sandbox: the rest are allowed.
const ASKED_AT_MOST: usize = 27;

#[test]
fn commands_of_agents_need_few_questions_under_usual_rules() {
    let cases = lines("tests/corpus/agents.jsonl");
    assert!(cases.len() >= 200, "{}", cases.len());
    let rules = || USUAL_RULES.iter().map(|rule| (*rule).to_owned()).collect();
    let asked: Vec<String> = cases
        .iter()
        .map(|case| text(case, "command"))
        .filter(|command| decided_by(rules(), command) != Decision::Allow)
        .collect();
    println!("{} of {} are asked:\n{}", asked.len(), cases.len(), asked.join("\n"));
    assert!(asked.len() <= ASKED_AT_MOST, "{}:\n{}", asked.len(), asked.join("\n"));
}
