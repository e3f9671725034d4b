use expect_test::{Expect, expect};

use super::*;
use crate::Layer;
use crate::decide::tests::{Text, evidence, facts, rules, verdict};

fn check(layers: &[(Layer, &str)], facts: &Facts, command: &str, expected: Expect) {
    let rules = rules(layers);
    let text = Text::new(command);
    let verdict = verdict(&rules, facts, &text);
    let evidence = evidence(&rules, facts, &text, &verdict);
    expected.assert_eq(&evidence.text(&verdict, &facts.cwd));
}

#[test]
fn a_managed_lock_sends_the_rule_to_the_managed_file() {
    let locked = "{'allowManagedPermissionRulesOnly': true, 'permissions': {'ask': ['Bash(b:*)']}}";
    let below = "{'permissions': {'allow': ['Bash(a:*)']}}";
    check(
        &[(Layer::Policy, locked), (Layer::User, below)],
        &facts(),
        "a x",
        expect![[r#"
        `a x`: asked
          because no rule allows it
          compared: a x
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        rules: only allow and ask rules of managed settings apply
        smallest change: the allow rule `Bash(a x)` in /m/managed.json; tried, and then it is allowed"#]],
    );
}

#[test]
fn two_rules_that_refuse_are_both_named() {
    let user = "{'permissions': {'deny': ['Bash(a:*)', 'Bash(* x)'], 'allow': ['Bash(a x)']}}";
    check(
        &[(Layer::User, user)],
        &facts(),
        "a x",
        expect![[r#"
        `a x`: denied
          because of the deny rule `Bash(a:*)` in user.json:1:27: it matches
          compared: a x
          lost: deny rule `Bash(* x)` in user.json:1:40: it also matches; the other comes first
          lost: allow rule `Bash(a x)` in user.json:1:64: deny overrides allow
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: without `Bash(a:*)` in user.json:1:27 and `Bash(* x)` in user.json:1:40; tried, and then it is allowed"#]],
    );
}

#[test]
fn rules_that_are_many_are_counted() {
    let many: Vec<String> = (0..12).map(|index| format!("'Bash(a w{index})'")).collect();
    let user = format!("{{'permissions': {{'allow': [{}]}}}}", many.join(","));
    check(
        &[(Layer::User, &user)],
        &facts(),
        "a x",
        expect![[r#"
        `a x`: asked
          because no rule allows it
          compared: a x
          lost: allow rule `Bash(a w0)` in user.json:1:28: the words are others
          lost: allow rule `Bash(a w1)` in user.json:1:41: the words are others
          lost: allow rule `Bash(a w2)` in user.json:1:54: the words are others
          lost: allow rule `Bash(a w3)` in user.json:1:67: the words are others
          lost: allow rule `Bash(a w4)` in user.json:1:80: the words are others
          lost: allow rule `Bash(a w5)` in user.json:1:93: the words are others
          lost: allow rule `Bash(a w6)` in user.json:1:106: the words are others
          lost: allow rule `Bash(a w7)` in user.json:1:119: the words are others
          and 4 more rules that do not match
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: the allow rule `Bash(a x)` in local.json; tried, and then it is allowed"#]],
    );
}

#[test]
fn what_is_not_understood_has_no_rule() {
    let user = "{'permissions': {'deny': ['Bash(b:*)']}}";
    check(
        &[(Layer::User, user)],
        &facts(),
        "a ; ?",
        expect![[r#"
        part 1 of 2, `a`: asked
          because no rule allows it
          compared: a
        part 2 of 2, `?`: asked
          because not understood: bash would not accept this, or it is a construct that is not read yet, so deny and ask rules cannot be checked
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: none; not understood: bash would not accept this, or it is a construct that is not read yet, so deny and ask rules cannot be checked; no allow rule changes that"#]],
    );
}

#[test]
fn a_hook_that_decided_is_named() {
    let origin = Origin {
        layer: Layer::User,
        file: "/h/s.json".into(),
        line: 4,
        column: 2,
        pointer: String::new(),
    };
    let hook =
        crate::facts::HookOutcome { verdict: HookVerdict::Ask, reason: "look".to_owned(), origin };
    let facts = Facts { hook: Some(hook), ..facts() };
    check(
        &[(Layer::User, "{'permissions': {'allow': ['Bash(a:*)']}}")],
        &facts,
        "a x",
        expect![[r#"
            `a x`: asked
              because a hook wants a person to decide: look
              compared: a x
              lost: allow rule `Bash(a:*)` in user.json:1:28: the hook's answer overrides it
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            hook: ask, by the one in /h/s.json:4:2
            smallest change: none; a hook decided, and no allow rule overrides it"#]],
    );
}
