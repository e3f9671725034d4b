mod findings;
mod gathered;
mod told;
pub(crate) mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use expect_test::{Expect, expect};
use stockade_parser::{
    Assignment, CommandKind, Count, Directory, Effect, EffectKind, Locality, Object, Opaque,
    Operator, Position, Reason, Shared, SimpleCommand, Span, Stdin, Target, Thin, Word, WordClass,
};
use stockade_text::json::{Dialect, read};

use super::evidence::{Evidence, Question, RuleFiles};
use super::*;
use crate::SettingsText;
use crate::facts::{HookOutcome, SandboxState};
use crate::{Layer, Origin};

/// A text of simple commands split at ` ; `, each of words split at blanks. `$x` is a word that is not known,
/// `> file` a redirection, `NAME=value` in front an assignment, `?text` something not understood.
/// `cat` and `ls` only read their operands; `tool --run` executes, `sort -o` writes.
pub(super) struct Text {
    source: String,
    commands: Vec<SimpleCommand>,
    opaque: Vec<Opaque>,
    writes: Vec<Target>,
}

impl Text {
    pub(super) fn new(source: &str) -> Text {
        let mut text = Text {
            source: source.to_owned(),
            commands: Vec::new(),
            opaque: Vec::new(),
            writes: Vec::new(),
        };
        let mut at = 0;
        for part in source.split(" ; ") {
            text.command(part, at);
            at += part.len() + 3;
        }
        text
    }

    fn command(&mut self, part: &str, start: usize) {
        let span = Span::new(start, start + part.len());
        if part.starts_with('?') {
            let reason = Reason::Syntax;
            self.opaque.push(Opaque { reason, span, detail: String::new(), help: String::new() });
            return;
        }
        let (mut words, mut assignments) = (Vec::new(), Vec::new());
        let mut at = start;
        let mut redirect = false;
        for piece in part.split(' ') {
            let word = word(piece, at);
            at += piece.len() + 1;
            if piece == ">" {
                redirect = true;
            } else if redirect {
                let command = u32::try_from(self.commands.len()).ok();
                self.writes.push(Target {
                    span: word.span,
                    word,
                    command,
                    operator: Operator::Write,
                });
            } else if let (true, Some((name, value))) = (words.is_empty(), piece.split_once('=')) {
                assignments.push(Assignment {
                    name: name.as_bytes().into(),
                    array: false,
                    append: false,
                    value: self::word(value, 0),
                    span: word.span,
                });
            } else {
                words.push(word);
            }
        }
        let program = words.first().and_then(|w: &Word| w.exact()).unwrap_or_default().to_vec();
        let (effects, effects_known) = effects(&program, &words);
        self.commands.push(SimpleCommand {
            words: words.into(),
            assignments: assignments.into(),
            redirects: Thin::EMPTY,
            position: Position::Top,
            via: Shared::EMPTY,
            kind: CommandKind::External,
            directory: Directory::Start,
            locality: Locality::Here,
            stdin: Stdin::Inherited,
            effects: effects.into(),
            effects_known,
            span,
        });
    }

    pub(super) fn shell(&self) -> Shell<'_> {
        Shell {
            source: self.source.as_bytes(),
            commands: &self.commands,
            opaque: &self.opaque,
            unread: &[],
            forks: &[],
            guarded: guarded::Guarded::default(),
            inside: bounds::Inside::of(&self.commands, &[]),
            stays: shell::stays(&self.commands),
            writes: &self.writes,
            reads: &[],
            nested: &[],
        }
    }
}

fn word(piece: &str, at: usize) -> Word {
    let class = if piece.starts_with('$') {
        let (prefix, suffix) = (Thin::EMPTY, Thin::EMPTY);
        WordClass::Unknown {
            reason: Reason::Parameter,
            count: Count::One,
            prefix,
            suffix,
            joined: false,
        }
    } else {
        WordClass::Exact(piece.as_bytes().into())
    };
    Word { span: Span::new(at, at + piece.len()), class }
}

fn effects(program: &[u8], words: &[Word]) -> (Vec<Effect>, bool) {
    let effect = |kind, word, object: Option<&Word>| {
        let object = object.map_or(Object::Unknown, |it| Object::Other(Box::new(it.clone())));
        Effect { kind, word, object }
    };
    let mut found = Vec::new();
    match program {
        b"cat" | b"ls" => {
            found.push(effect(EffectKind::ReadOnly, 0, None));
            found.extend(words.iter().skip(1).map(|word| effect(EffectKind::Read, 1, Some(word))));
        }
        b"tool" if words.iter().any(|w| w.exact() == Some(b"--run")) => {
            found.push(effect(EffectKind::Execute, 1, None));
        }
        b"cargo" => found.push(effect(EffectKind::ProjectCode, 1, None)),
        b"mkdir" => {
            found.extend(words.iter().skip(1).map(|w| effect(EffectKind::Write, 1, Some(w))))
        }
        b"sort" => found.push(effect(EffectKind::Write, 1, words.get(2))),
        _ => return (found, false),
    }
    (found, true)
}

pub(crate) fn facts() -> Facts {
    Facts {
        cwd: "/p".into(),
        session: None,
        home: "/h".into(),
        homes: Vec::new(),
        roots: Vec::new(),
        project: "/p".into(),
        additional_directories: Vec::new(),
        real_paths: BTreeMap::new(),
        expanded: BTreeMap::new(),
        repositories: BTreeMap::new(),
        brought: Default::default(),
        asked: Vec::new(),
        mode: Mode::Default,
        interactive: true,
        root: false,
        sandbox: SandboxState::Off,
        terminal: false,
        hook: None,
        doubts: Default::default(),
    }
}

pub(crate) fn rules(layers: &[(Layer, &str)]) -> Rules {
    let texts: Vec<SettingsText> = layers
        .iter()
        .map(|(layer, text)| SettingsText {
            layer: *layer,
            file: format!("{}.json", layer.name()).into(),
            text: text.replace('\'', "\"").into_bytes(),
            anchor: "/p".into(),
            trusted: true,
            above: false,
        })
        .collect();
    stockade_rules::load(&texts).rules
}

pub(super) fn show(verdict: &Verdict) -> String {
    let rule = verdict.decisive_rule().map_or("-", |rule| rule.text.as_str());
    format!("{} {} {} {}", verdict.decision.name(), verdict.source(), verdict.code, rule)
}

/// Returns JSON that is written with single quotes.
fn value(text: &str) -> Value {
    read(text.replace('\'', "\"").as_bytes(), Dialect::Strict).unwrap()
}

/// Returns the input of a call of a shell.
fn input() -> Value {
    value("{'command':'x'}")
}

pub(super) fn verdict(rules: &Rules, facts: &Facts, text: &Text) -> Verdict {
    let input = input();
    evaluate_shell(rules, &text.shell(), &input, facts)
}

/// Explains the verdict on a text.
pub(super) fn evidence(rules: &Rules, facts: &Facts, text: &Text, verdict: &Verdict) -> Evidence {
    let input = input();
    let shell = text.shell();
    let context = Context::new(rules, facts, "Bash", &input, Some(&shell));
    let question = Question { context: &context, shell: Some(&shell), verdict };
    let (local, managed) = (Path::new("/p/local.json"), Path::new("/m/managed.json"));
    question.answer(shell::parts(&context, &shell), RuleFiles { local, managed })
}

fn decide(settings: &str, facts: &Facts, command: &str) -> String {
    let rules = rules(&[(Layer::User, settings)]);
    show(&verdict(&rules, facts, &Text::new(command)))
}

/// Each row is a command; the answers stand in order.
fn check(settings: &str, facts: &Facts, commands: &[&str], expected: Expect) {
    let rows: Vec<String> = commands
        .iter()
        .map(|command| format!("{command}  =>  {}", decide(settings, facts, command)))
        .collect();
    expected.assert_eq(&rows.join("\n"));
}

#[test]
fn rules_are_taken_in_order_deny_ask_allow() {
    check(
        "{'permissions':{'allow':['Bash(a:*)','Bash(b:*)','Bash(c:*)'],'ask':['Bash(b:*)','Bash(c x)'],'deny':['Bash(c:*)']}}",
        &facts(),
        &[
            "a 1", "b 1", "c x", "d", "a 1 ; d", "a 1 ; b", "a ; c", "X=1 c", "X=1 a", "CI=1 a",
            "/bin/c", "$x", "a $x",
        ],
        expect![[r#"
            a 1  =>  allow user rule_allow Bash(a:*)
            b 1  =>  ask user rule_ask Bash(b:*)
            c x  =>  deny user rule_deny Bash(c:*)
            d  =>  ask builtin no_rule -
            a 1 ; d  =>  ask builtin no_rule -
            a 1 ; b  =>  ask user rule_ask Bash(b:*)
            a ; c  =>  deny user rule_deny Bash(c:*)
            X=1 c  =>  deny user rule_deny Bash(c:*)
            X=1 a  =>  ask builtin no_rule -
            CI=1 a  =>  allow user rule_allow Bash(a:*)
            /bin/c  =>  deny user rule_deny Bash(c:*)
            $x  =>  ask user rule_possible Bash(c:*)
            a $x  =>  allow user rule_allow Bash(a:*)"#]],
    );
}

#[test]
fn harmless_commands_need_no_rule() {
    check(
        "{'permissions':{'deny':['Read(.secret)']}}",
        &facts(),
        &[
            "ls src",
            "cat a ; ls",
            "cat /etc/passwd",
            "cat x/.secret",
            "cat .",
            "cat $x",
            "unknown .secret",
            "PATH=/x ls",
            "./ls",
        ],
        expect![[r#"
            ls src  =>  allow builtin read_only -
            cat a ; ls  =>  allow builtin read_only -
            cat /etc/passwd  =>  ask builtin no_rule -
            cat x/.secret  =>  deny user rule_deny Read(.secret)
            cat .  =>  allow builtin read_only -
            cat $x  =>  ask user rule_possible Read(.secret)
            unknown .secret  =>  deny user rule_deny Read(.secret)
            PATH=/x ls  =>  ask builtin no_rule -
            ./ls  =>  ask builtin no_rule -"#]],
    );
}

#[test]
fn what_an_option_starts_needs_an_exact_rule() {
    check(
        "{'permissions':{'allow':['Bash(tool:*)','Bash(tool --run exact)','Bash(cargo test:*)','Bash(sort:*)','Bash(mkdir:*)']}}",
        &facts(),
        &[
            "tool x",
            "tool --run evil",
            "tool --run exact",
            "cargo test x",
            "cargo build",
            "sort -o out",
            "mkdir d",
            "mkdir /etc/d",
        ],
        expect![[r#"
            tool x  =>  allow user rule_allow Bash(tool:*)
            tool --run evil  =>  ask builtin no_rule -
            tool --run exact  =>  allow user rule_allow Bash(tool --run exact)
            cargo test x  =>  allow user rule_allow Bash(cargo test:*)
            cargo build  =>  ask builtin no_rule -
            sort -o out  =>  ask builtin no_rule -
            mkdir d  =>  allow user rule_allow Bash(mkdir:*)
            mkdir /etc/d  =>  ask builtin no_rule -"#]],
    );
}

#[test]
fn redirections_are_judged_as_files() {
    check(
        "{'permissions':{'allow':['Bash','Edit(out.json)'],'deny':['Edit(secret)']}}",
        &facts(),
        &[
            "a > out.json",
            "a > other",
            "a > /dev/null",
            "a > .git/config",
            "a > secret",
            "a > $x",
            "a > /dev/sda",
            "a > x/../secret",
        ],
        expect![[r#"
            a > out.json  =>  allow user rule_allow Bash
            a > other  =>  ask builtin no_rule -
            a > /dev/null  =>  allow user rule_allow Bash
            a > .git/config  =>  ask builtin protected_path -
            a > secret  =>  deny user rule_deny Edit(secret)
            a > $x  =>  ask user rule_possible Edit(secret)
            a > /dev/sda  =>  ask builtin device -
            a > x/../secret  =>  deny user rule_deny Edit(secret)"#]],
    );
}

#[test]
fn what_is_not_understood_is_never_allowed_by_a_particular_rule() {
    check(
        "{'permissions':{'allow':['Bash(a:*)']}}",
        &facts(),
        &["?", "a ; ?"],
        expect![[r#"
        ?  =>  ask builtin no_rule -
        a ; ?  =>  ask builtin no_rule -"#]],
    );
    check(
        "{'permissions':{'allow':['Bash']}}",
        &facts(),
        &["?", "a ; ?"],
        expect![[r#"
        ?  =>  allow user rule_allow Bash
        a ; ?  =>  allow user rule_allow Bash"#]],
    );
    check(
        "{'permissions':{'allow':['Bash'],'ask':['Bash(z)']}}",
        &facts(),
        &["?", "a"],
        expect![[r#"
        ?  =>  ask builtin opaque -
        a  =>  allow user rule_allow Bash"#]],
    );
    check(
        "{'permissions':{'deny':['Bash(?x*)']}}",
        &facts(),
        &["?x y"],
        expect!["?x y  =>  deny user rule_deny Bash(?x*)"],
    );
}

#[test]
fn critical_paths_need_a_person() {
    check(
        "{'permissions':{'allow':['Bash','Bash(rm -rf /)']}}",
        &facts(),
        &[
            "rm -rf /",
            "rm -rf /var",
            "rm -rf target/x",
            "rm -rf .",
            "rm -rf /h",
            "rm -rf ../",
            "rm x",
            "chmod 755 .",
            "chmod -R 777 .",
        ],
        expect![[r#"
            rm -rf /  =>  ask builtin critical_path -
            rm -rf /var  =>  ask builtin critical_path -
            rm -rf target/x  =>  allow user rule_allow Bash
            rm -rf .  =>  ask builtin critical_path -
            rm -rf /h  =>  ask builtin critical_path -
            rm -rf ../  =>  ask builtin critical_path -
            rm x  =>  allow user rule_allow Bash
            chmod 755 .  =>  allow user rule_allow Bash
            chmod -R 777 .  =>  ask builtin critical_path -"#]],
    );
}

fn check_mode(mode: Mode, expected: Expect) {
    let settings = "{'permissions':{'allow':['Bash(a)'],'ask':['Bash(b)'],'deny':['Bash(c)']}}";
    let commands = ["a", "b", "c", "d", "ls", "a > f", "a > .npmrc", "rm -rf /", "?", "mkdir d"];
    check(settings, &Facts { mode, ..facts() }, &commands, expected);
}

#[test]
fn modes_change_what_no_rule_decides() {
    check_mode(
        Mode::Default,
        expect![[r#"
            a  =>  allow user rule_allow Bash(a)
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  ask builtin no_rule -
            ls  =>  allow builtin read_only -
            a > f  =>  ask builtin no_rule -
            a > .npmrc  =>  ask builtin protected_path -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -
            mkdir d  =>  ask builtin no_rule -"#]],
    );
    check_mode(
        Mode::AcceptEdits,
        expect![[r#"
            a  =>  allow user rule_allow Bash(a)
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  ask builtin no_rule -
            ls  =>  allow builtin read_only -
            a > f  =>  allow user rule_allow Bash(a)
            a > .npmrc  =>  ask builtin protected_path -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -
            mkdir d  =>  allow mode mode -"#]],
    );
    check_mode(
        Mode::Plan,
        expect![[r#"
            a  =>  ask mode plan -
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  ask mode plan -
            ls  =>  allow builtin read_only -
            a > f  =>  ask mode plan -
            a > .npmrc  =>  ask builtin protected_path -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -
            mkdir d  =>  ask mode plan -"#]],
    );
}

#[test]
fn modes_without_questions_change_what_no_rule_decides() {
    check_mode(
        Mode::DontAsk,
        expect![[r#"
            a  =>  allow user rule_allow Bash(a)
            b  =>  deny user dont_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  deny mode dont_ask -
            ls  =>  allow builtin read_only -
            a > f  =>  deny mode dont_ask -
            a > .npmrc  =>  deny mode dont_ask -
            rm -rf /  =>  deny mode dont_ask -
            ?  =>  deny mode dont_ask -
            mkdir d  =>  deny mode dont_ask -"#]],
    );
    check_mode(
        Mode::BypassPermissions,
        expect![[r#"
            a  =>  allow mode bypass -
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  allow mode bypass -
            ls  =>  allow mode bypass -
            a > f  =>  allow mode bypass -
            a > .npmrc  =>  allow mode bypass -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -
            mkdir d  =>  allow mode bypass -"#]],
    );
}

#[test]
fn confinement_allows_what_no_rule_speaks_of() {
    let facts = Facts { sandbox: SandboxState::Enforced, ..facts() };
    check(
        "{'sandbox':{'enabled':true,'excludedCommands':['podman *']},'permissions':{'ask':['Bash'],'deny':['Edit(locked)']}}",
        &facts,
        &["a", "a > f", "a > .npmrc", "a > locked", "rm -rf /", "?", "podman x ; a", "a > $x"],
        expect![[r#"
            a  =>  allow sandbox sandbox -
            a > f  =>  allow sandbox sandbox -
            a > .npmrc  =>  ask builtin protected_path -
            a > locked  =>  deny user rule_deny Edit(locked)
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  allow sandbox sandbox -
            podman x ; a  =>  ask user rule_ask Bash
            a > $x  =>  allow sandbox sandbox -"#]],
    );
    check(
        "{'sandbox':{'enabled':true},'permissions':{'ask':['Bash(b:*)']}}",
        &facts,
        &["a", "b", "?", "$x", "c $x"],
        expect![[r#"
        a  =>  allow sandbox sandbox -
        b  =>  ask user rule_ask Bash(b:*)
        ?  =>  ask builtin opaque -
        $x  =>  ask user rule_possible Bash(b:*)
        c $x  =>  allow sandbox sandbox -"#]],
    );
}

fn check_hook(verdict: HookVerdict, layer: Layer, expected: Expect) {
    let origin = Origin { layer, file: "h".into(), line: 1, column: 1, pointer: String::new() };
    let hook = Some(HookOutcome { verdict, reason: "because".into(), origin });
    let settings = "{'permissions':{'allow':['Bash(a)'],'ask':['Bash(b)'],'deny':['Bash(c)']}}";
    let commands = ["a", "b", "c", "d", "d > .npmrc", "d > f", "rm -rf /", "?"];
    check(settings, &Facts { hook, ..facts() }, &commands, expected);
}

#[test]
fn hooks_answer_questions_but_lift_no_rule() {
    check_hook(
        HookVerdict::Allow,
        Layer::User,
        expect![[r#"
            a  =>  allow hook hook_allow -
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  allow hook hook_allow -
            d > .npmrc  =>  ask builtin protected_path -
            d > f  =>  allow hook hook_allow -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -"#]],
    );
    check_hook(
        HookVerdict::Allow,
        Layer::Policy,
        expect![[r#"
            a  =>  allow hook hook_allow -
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  allow hook hook_allow -
            d > .npmrc  =>  allow hook hook_allow -
            d > f  =>  allow hook hook_allow -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -"#]],
    );
    check_hook(
        HookVerdict::Ask,
        Layer::User,
        expect![[r#"
            a  =>  ask hook hook_ask -
            b  =>  ask user rule_ask Bash(b)
            c  =>  deny user rule_deny Bash(c)
            d  =>  ask hook hook_ask -
            d > .npmrc  =>  ask builtin protected_path -
            d > f  =>  ask hook hook_ask -
            rm -rf /  =>  ask builtin critical_path -
            ?  =>  ask builtin opaque -"#]],
    );
    check_hook(
        HookVerdict::Deny,
        Layer::User,
        expect![[r#"
            a  =>  deny hook hook_deny -
            b  =>  deny hook hook_deny -
            c  =>  deny hook hook_deny -
            d  =>  deny hook hook_deny -
            d > .npmrc  =>  deny hook hook_deny -
            d > f  =>  deny hook hook_deny -
            rm -rf /  =>  deny hook hook_deny -
            ?  =>  deny hook hook_deny -"#]],
    );
}
