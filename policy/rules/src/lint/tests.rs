use expect_test::{Expect, expect};

use super::*;
use crate::layer::Layer;
use crate::settings::SettingsText;

fn rules(layers: &[(Layer, &str)]) -> Rules {
    let text = |(layer, text): &(Layer, &str)| SettingsText {
        layer: *layer,
        file: format!("{}.json", layer.name()).into(),
        text: text.replace('\'', "\"").into_bytes(),
        anchor: "/p".into(),
        trusted: true,
        above: false,
    };
    crate::load(&layers.iter().map(text).collect::<Vec<_>>()).rules
}

/// Returns the findings about one list of rules, one finding a line.
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
    check(
        Layer::User,
        allow,
        expect![[r#"
            Bash($HOME/x *): the shell replaces the first word, and a word that is not known before it runs matches no allow rule; write the path out
            Bash(~/bin/x): the shell replaces the first word, and a word that is not known before it runs matches no allow rule; write the path out
            Bash(A=1 x *): a wildcard rule that begins with an assignment covers nothing; remove the assignment, or write the whole command
            Bash(timeout:*): rules look through `timeout`, so this wildcard is never tried; write a rule for the command after it
            Bash(sudo *): a wildcard does not cover what `sudo` starts; write the whole command
            Bash(nice -n 5 x *): rules look through `nice`, so this wildcard is never tried; write a rule for the command after it
            Bsh: unknown tool `Bsh`; tool names are case-sensitive, such as `Bash` or `WebFetch`
        "#]],
    );
}

#[test]
fn paths_that_resolve_nowhere() {
    let deny = "{'permissions': {'deny': ['Read(/etc/shadow)', 'Read($HOME/.ssh/**)', 'Read(~bob/x)', 'Read([z-a])', 'Read(.env )', 'Read(//etc/shadow)', 'Read(~/.ssh/**)', 'Read(.env)', 'Edit(/var/x)']}}";
    check(
        Layer::User,
        deny,
        expect![[r#"
            Read(/etc/shadow): a single `/` begins at the directory of the settings, not at `/etc`; write `//` for the root of the file system
            Read(.env ): a space at the end is part of the name; remove the space
            Edit(/var/x): a single `/` begins at the directory of the settings, not at `/var`; write `//` for the root of the file system
        "#]],
    );
    // A project may well have a directory `var`, and hardly one called `etc`.
    check(
        Layer::Project,
        deny,
        expect![[r#"
            Read(/etc/shadow): a single `/` begins at the directory of the settings, not at `/etc`; write `//` for the root of the file system
            Read(.env ): a space at the end is part of the name; remove the space
        "#]],
    );
}

/// Checks the warnings of every load.
#[test]
fn refusals_that_keep_nothing_are_told_at_every_load() {
    let settings = "{'permissions': {'allow': ['Read(/etc/hosts)'], 'ask': ['Edit(/srv/x)'],
        'deny': ['Read(/etc/shadow)', 'Read(//etc/shadow)', 'Read(/secrets/**)', 'Read(~/x)', 'Bash(rm *)']}}";
    let told = misplaced(&rules(&[(Layer::User, settings)]));
    let told: Vec<_> = told.iter().map(|it| (&*it.text, &*it.help)).collect();
    let help = "write `//` for the root of the file system";
    assert_eq!(told, [("Edit(/srv/x)", help), ("Read(/etc/shadow)", help)]);
}

#[test]
fn braces_in_what_allows_are_no_alternatives() {
    let settings = r#"{"permissions": {
        "deny": ["Read(**/*.{pem,key})", "Edit(src/{a,b}/**)", "Read(a{1..3})", "Read({a})", "Read(a,b)", "Bash(git {push,fetch}:*)",
            "Bash(grep -E a{1,3} *)", "Bash(awk \"{print $1,$2}\" *)", "Bash(curl -d \"{a,b}\" *)", "Bash(git show HEAD@{1} *)"],
        "allow": ["Bash(npm run {test,lint} *)", "Bash(mkdir -p {a,b})", "Bash(echo ${a,,} *)", "Bash(x {\"a\":1,\"b\":2} *)"]
        }, "sandbox": {"filesystem": {"denyRead": ["~/.{aws,ssh}/**", "~/.aws"], "denyWrite": ["//srv/{a,b}"]}}}"#;
    check(
        Layer::User,
        settings,
        expect![[r#"
        Bash(npm run {test,lint} *): `{test,lint}` matches these characters literally, not one or the other; write a rule for each
    "#]],
    );
}

#[test]
fn hosts_that_cannot_be() {
    let allow = "{'permissions': {'allow': ['WebFetch(domain:b\u{fc}cher.example)', 'WebFetch(domain:a_b.example)', 'WebFetch(domain:a!b)', 'WebFetch(domain:1.2.3)', 'WebFetch(domain:127.0.0.1)', 'WebFetch(domain:*.example)']}}";
    check(
        Layer::User,
        allow,
        expect![[r#"
            WebFetch(domain:a!b): not a valid host name; write the host alone, such as `docs.example.com`
            WebFetch(domain:1.2.3): not a valid host name or address; write four numbers up to 255
        "#]],
    );
}

#[test]
fn rules_that_wider_ones_hide() {
    let settings = "{'permissions': {'allow': ['Read(a)', 'Edit(b)', 'WebFetch(domain:x.a.org)', 'mcp__m__t', 'Bash(ls -l *)', 'Bash(ls *)', 'Bash(cargo *)', 'Bash(cargo test *)', 'Bash(rm x)', 'Bash(git push main)'], 'deny': ['Read(a)', 'Read(b)', 'WebFetch(domain:*.a.org)', 'mcp__m__*', 'Bash(rm:*)', 'Bash(git * main)']}}";
    check(
        Layer::User,
        settings,
        expect![[r#"
        Read(a): `Read(a)` in user.json:1 refuses everything that this rule matches; remove one of the two
        Edit(b): `Read(b)` in user.json:1 refuses everything that this rule matches; remove one of the two
        WebFetch(domain:x.a.org): `WebFetch(domain:*.a.org)` in user.json:1 refuses everything that this rule matches; remove one of the two
        mcp__m__t: `mcp__m__*` in user.json:1 already matches every call; remove one of the two
        Bash(ls -l *): `Bash(ls *)` in user.json:1 already covers all of this; remove this one
        Bash(rm x): `Bash(rm:*)` in user.json:1 refuses everything that this rule matches; remove one of the two
        Bash(git push main): `Bash(git * main)` in user.json:1 refuses everything that this rule matches; remove one of the two
    "#]],
    );
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
    check(
        Layer::User,
        &settings,
        expect![[r#"
        Bash(a * b0 *): there are too many rules with a star in the middle to compare each with all others; write fewer of them
    "#]],
    );
}
