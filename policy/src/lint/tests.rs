use expect_test::{Expect, expect};

use super::*;
use crate::decide::tests::rules;
use crate::layer::Layer;

/// What is told about one list of rules, one finding a line.
fn told(layer: Layer, settings: &str) -> String {
    let line =
        |problem: Problem| format!("{}: {}; {}\n", problem.text, problem.message, problem.help);
    lint(&rules(&[(layer, settings)])).into_iter().map(line).collect()
}

fn check(layer: Layer, settings: &str, expected: Expect) {
    expected.assert_eq(&told(layer, settings));
}

#[test]
fn commands_that_no_call_meets() {
    let allow = "{'permissions': {'allow': ['Bash($HOME/x *)', 'Bash(~/bin/x)', 'Bash(A=1 x *)', 'Bash(timeout:*)', 'Bash(sudo *)', 'Bash(nice -n 5 x *)', 'Bsh', 'Bash(git status)', 'mcp__a__b']}}";
    check(Layer::User, allow, expect![[""]]);
}

#[test]
fn paths_that_resolve_nowhere() {
    let deny = "{'permissions': {'deny': ['Read(/etc/shadow)', 'Read($HOME/.ssh/**)', 'Read(~bob/x)', 'Read([z-a])', 'Read(.env )', 'Read(//etc/shadow)', 'Read(~/.ssh/**)', 'Read(.env)', 'Edit(/var/x)']}}";
    check(Layer::User, deny, expect![[""]]);
    // A project may well have a directory `var`, and hardly one called `etc`.
    check(Layer::Project, deny, expect![[""]]);
}

#[test]
fn hosts_that_cannot_be() {
    let deny = "{'permissions': {'deny': ['WebFetch(domain:b\u{fc}cher.example)', 'WebFetch(domain:a_b.example)', 'WebFetch(domain:a!b)', 'WebFetch(domain:1.2.3)', 'WebFetch(domain:127.0.0.1)', 'WebFetch(domain:*.example)']}}";
    check(Layer::User, deny, expect![[""]]);
}

#[test]
fn rules_that_wider_ones_hide() {
    let settings = "{'permissions': {'allow': ['Read(a)', 'Edit(b)', 'WebFetch(domain:x.a.org)', 'mcp__m__t', 'Bash(ls -l *)', 'Bash(ls *)', 'Bash(cargo *)', 'Bash(cargo test *)', 'Bash(rm x)', 'Bash(git push main)'], 'deny': ['Read(a)', 'Read(b)', 'WebFetch(domain:*.a.org)', 'mcp__m__*', 'Bash(rm:*)', 'Bash(git * main)']}}";
    check(Layer::User, settings, expect![[""]]);
}

#[test]
fn rules_are_compared_with_bounded_work() {
    let many: Vec<String> = (0..3_000).map(|index| format!("'Bash(a * b{index} *)'")).collect();
    let exact: Vec<String> = (0..3_000).map(|index| format!("'Bash(a c{index})'")).collect();
    let settings = format!(
        "{{'permissions': {{'deny': [{}], 'allow': [{}]}}}}",
        many.join(","),
        exact.join(",")
    );
    check(Layer::User, &settings, expect![[""]]);
}
