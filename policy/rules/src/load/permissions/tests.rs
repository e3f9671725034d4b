#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use expect_test::{Expect, expect};

use crate::load;
use crate::{Layer, Mode, SettingsText};

/// Returns the mode that the settings of a project ask for, and whether something is told.
fn mode(trusted: bool, name: &str) -> (Option<Mode>, bool) {
    mode_of(Layer::Project, trusted, name)
}

fn mode_of(layer: Layer, trusted: bool, name: &str) -> (Option<Mode>, bool) {
    let text = SettingsText {
        layer,
        file: "/p/.stockade/settings.json".into(),
        text: format!(r#"{{"permissions": {{"defaultMode": "{name}"}}}}"#).into_bytes(),
        anchor: "/p".into(),
        trusted,
        above: false,
    };
    let loaded = load(&[text]);
    (loaded.rules.settings().default_mode, !loaded.problems.is_empty())
}

#[test]
fn a_mode_that_widens_waits_for_trust_and_one_that_does_not_counts_at_once() {
    assert_eq!(mode(true, "acceptEdits"), (Some(Mode::AcceptEdits), false));
    assert_eq!(mode(false, "acceptEdits"), (None, true));
    assert_eq!(mode(true, "plan"), (Some(Mode::Plan), false));
    assert_eq!(mode(false, "plan"), (Some(Mode::Plan), false));
    assert_eq!(mode(true, "bypassPermissions"), (Some(Mode::Default), true));
    assert_eq!(
        mode_of(Layer::User, true, "bypassPermissions"),
        (Some(Mode::BypassPermissions), false)
    );
}

/// Loads one `permissions` object (`'` for `"`), and tells the outcome: rules, directories, mode, problems.
fn told(layer: Layer, trusted: bool, permissions: &str) -> String {
    let text = SettingsText {
        layer,
        file: "/s.json".into(),
        text: format!("{{'permissions':{permissions}}}").replace('\'', "\"").into_bytes(),
        anchor: "/p".into(),
        trusted,
        above: false,
    };
    let loaded = load(&[text]);
    let settings = loaded.rules.settings();
    let mut told =
        vec![format!("{} {} {permissions}", layer.name(), if trusted { "trusted" } else { "" })];
    let rules = loaded.rules.rules().iter();
    told.extend(rules.map(|it| format!("  {} {}", it.effect.name(), it.text)));
    let directories = settings.additional_directories.iter();
    told.extend(directories.map(|it| format!("  directory {}", it.display())));
    told.extend(settings.default_mode.map(|it| format!("  mode {}", it.name())));
    if settings.disable_bypass || settings.disable_auto {
        told.push(format!(
            "  no bypass {}, no auto {}",
            settings.disable_bypass, settings.disable_auto
        ));
    }
    let problems = loaded.problems.iter();
    told.extend(
        problems.map(|it| format!("  {:?} {}: {}", it.severity, it.origin.pointer, it.message)),
    );
    told.join("\n")
}

fn check(rows: &[(Layer, bool, &str)], expected: Expect) {
    let rows: Vec<String> =
        rows.iter().map(|(layer, trusted, it)| told(*layer, *trusted, it)).collect();
    expected.assert_eq(&rows.join("\n"));
}

#[test]
fn rules_that_allow_wait_for_trust_and_no_other_does() {
    let all =
        "{'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}";
    check(
        &[
            (Layer::User, false, all),
            (Layer::Project, true, all),
            (Layer::Project, false, all),
            (Layer::Local, false, all),
            (Layer::Policy, true, all),
        ],
        expect![[r#"
            user  {'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}
              allow Bash(a)
              allow Read({b,c})
              ask Bash(d)
              deny Bash(e)
              deny Read({f,g})
              deny Read({f,g})
              deny Read({f,g})
            project trusted {'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}
              allow Bash(a)
              allow Read({b,c})
              ask Bash(d)
              deny Bash(e)
              deny Read({f,g})
              deny Read({f,g})
              deny Read({f,g})
            project  {'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}
              ask Bash(d)
              deny Bash(e)
              deny Read({f,g})
              deny Read({f,g})
              deny Read({f,g})
              Warning /permissions/allow: ignored until the folder is trusted
            local  {'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}
              ask Bash(d)
              deny Bash(e)
              deny Read({f,g})
              deny Read({f,g})
              deny Read({f,g})
              Warning /permissions/allow: ignored until the folder is trusted
            policy trusted {'allow':['Bash(a)','Read({b,c})'],'ask':['Bash(d)'],'deny':['Bash(e)','Read({f,g})']}
              allow Bash(a)
              allow Read({b,c})
              ask Bash(d)
              deny Bash(e)
              deny Read({f,g})
              deny Read({f,g})
              deny Read({f,g})"#]],
    );
}

#[test]
fn a_rule_that_cannot_be_read_is_told_and_still_refuses() {
    let bad =
        "{'deny':['Bash(a','Write(x)',7,'mcp_x__y(z)'],'allow':['Bash(a','*'],'ask':['Bsh(x)']}";
    check(
        &[
            (Layer::User, true, bad),
            (Layer::Policy, true, bad),
            (Layer::User, true, "7"),
            (Layer::User, true, "{'deny':'Bash','ask':7,'allow':{}}"),
            (Layer::User, true, "{'denny':['Bash']}"),
            (Layer::Policy, true, "{'deny':['Read(/x)','Bash(/x)','Edit(//x)','Read']}"),
            (Layer::User, true, "{'deny':['Read(/x)']}"),
        ],
        expect![[r#"
            user trusted {'deny':['Bash(a','Write(x)',7,'mcp_x__y(z)'],'allow':['Bash(a','*'],'ask':['Bsh(x)']}
              deny Bash(a
              deny Write(x)
              deny 
              deny mcp_x__y(z)
              ask Bsh(x)
              Error /permissions/deny/0: the parenthesis is not closed
              Warning /permissions/deny/1: paths of Write are governed by Edit rules
              Error /permissions/deny/2: the rule has no tool name
              Error /permissions/deny/3: mcp_x__y accepts only `NAME:VALUE` in parentheses
              Warning /permissions/allow/0: the parenthesis is not closed
              Warning /permissions/allow/1: an allow rule with `*` in the tool name approves nothing
              Error /permissions/ask/0: unknown tool `Bsh`
            policy trusted {'deny':['Bash(a','Write(x)',7,'mcp_x__y(z)'],'allow':['Bash(a','*'],'ask':['Bsh(x)']}
              deny Bash(a
              deny Write(x)
              deny 
              deny mcp_x__y(z)
              ask Bsh(x)
              Refusal /permissions/deny/0: the parenthesis is not closed
              Warning /permissions/deny/1: paths of Write are governed by Edit rules
              Refusal /permissions/deny/2: the rule has no tool name
              Refusal /permissions/deny/3: mcp_x__y accepts only `NAME:VALUE` in parentheses
              Warning /permissions/allow/0: the parenthesis is not closed
              Warning /permissions/allow/1: an allow rule with `*` in the tool name approves nothing
              Refusal /permissions/ask/0: unknown tool `Bsh`
            user trusted 7
              Refusal /permissions: expected an object, not a number
            user trusted {'deny':'Bash','ask':7,'allow':{}}
              Refusal /permissions/deny: expected a list of rules, not a string
              Refusal /permissions/ask: expected a list of rules, not a number
              Refusal /permissions/allow: expected a list of rules, not an object
            user trusted {'denny':['Bash']}
              Warning /permissions/denny: unknown key `denny`
            policy trusted {'deny':['Read(/x)','Bash(/x)','Edit(//x)','Read']}
              deny Read(/x)
              deny Bash(/x)
              deny Edit(//x)
              deny Read
              Warning /permissions/deny/0: a single `/` begins at the directory of this file
            user trusted {'deny':['Read(/x)']}
              deny Read(/x)"#]],
    );
}

#[test]
fn further_directories_wait_for_trust() {
    let all = "{'additionalDirectories':['/a','b/../c','~/d','/a',7]}";
    check(
        &[
            (Layer::User, true, all),
            (Layer::Project, true, all),
            (Layer::Project, false, all),
            (Layer::User, true, "{'additionalDirectories':'/a'}"),
        ],
        expect![[r#"
            user trusted {'additionalDirectories':['/a','b/../c','~/d','/a',7]}
              directory /a
              directory /p/c
              directory ~/d
              Warning /permissions/additionalDirectories/4: expected a path
            project trusted {'additionalDirectories':['/a','b/../c','~/d','/a',7]}
              directory /a
              directory /p/c
              directory ~/d
              Warning /permissions/additionalDirectories/4: expected a path
            project  {'additionalDirectories':['/a','b/../c','~/d','/a',7]}
              Warning /permissions/additionalDirectories: ignored until the folder is trusted
            user trusted {'additionalDirectories':'/a'}
              Refusal /permissions/additionalDirectories: expected a list of paths, not a string"#]],
    );
}

#[test]
fn each_layer_sets_the_modes_that_it_may() {
    let rows: Vec<(Layer, bool, String)> = [Layer::User, Layer::Project, Layer::Policy]
        .into_iter()
        .flat_map(|layer| {
            let names =
                ["default", "plan", "acceptEdits", "dontAsk", "auto", "bypassPermissions", "x"];
            let row = move |name| (layer, false, format!("{{'defaultMode':'{name}'}}"));
            names.into_iter().map(row).collect::<Vec<_>>()
        })
        .collect();
    let rows: Vec<(Layer, bool, &str)> =
        rows.iter().map(|it| (it.0, it.1, it.2.as_str())).collect();
    check(
        &rows,
        expect![[r#"
        user  {'defaultMode':'default'}
          mode default
        user  {'defaultMode':'plan'}
          mode plan
        user  {'defaultMode':'acceptEdits'}
          mode acceptEdits
        user  {'defaultMode':'dontAsk'}
          mode dontAsk
        user  {'defaultMode':'auto'}
          mode auto
        user  {'defaultMode':'bypassPermissions'}
          mode bypassPermissions
        user  {'defaultMode':'x'}
          mode default
          Warning /permissions/defaultMode: invalid mode; `default` is used
        project  {'defaultMode':'default'}
          mode default
        project  {'defaultMode':'plan'}
          mode plan
        project  {'defaultMode':'acceptEdits'}
          Warning /permissions/defaultMode: ignored until the folder is trusted
        project  {'defaultMode':'dontAsk'}
          Warning /permissions/defaultMode: ignored until the folder is trusted
        project  {'defaultMode':'auto'}
          mode default
          Warning /permissions/defaultMode: project and local settings cannot set this mode; `default` is used
        project  {'defaultMode':'bypassPermissions'}
          mode default
          Warning /permissions/defaultMode: project and local settings cannot set this mode; `default` is used
        project  {'defaultMode':'x'}
          mode default
          Warning /permissions/defaultMode: invalid mode; `default` is used
        policy  {'defaultMode':'default'}
          mode default
        policy  {'defaultMode':'plan'}
          mode plan
        policy  {'defaultMode':'acceptEdits'}
          mode acceptEdits
        policy  {'defaultMode':'dontAsk'}
          mode dontAsk
        policy  {'defaultMode':'auto'}
          mode auto
        policy  {'defaultMode':'bypassPermissions'}
          mode bypassPermissions
        policy  {'defaultMode':'x'}
          mode default
          Warning /permissions/defaultMode: invalid mode; `default` is used"#]],
    );
}

#[test]
fn what_is_switched_off_stays_off_in_managed_settings_by_any_value() {
    check(
        &[
            (Layer::User, true, "{'disableBypassPermissionsMode':'disable'}"),
            (Layer::User, true, "{'disableAutoMode':'disable'}"),
            (
                Layer::Project,
                false,
                "{'disableBypassPermissionsMode':'disable','disableAutoMode':'disable'}",
            ),
            (Layer::User, true, "{'disableBypassPermissionsMode':true,'disableAutoMode':'enable'}"),
            (Layer::Policy, true, "{'disableBypassPermissionsMode':true,'disableAutoMode':7}"),
            (Layer::User, true, "{'skipDangerousModePermissionPrompt':true}"),
        ],
        expect![[r#"
            user trusted {'disableBypassPermissionsMode':'disable'}
              no bypass true, no auto false
            user trusted {'disableAutoMode':'disable'}
              no bypass false, no auto true
            project  {'disableBypassPermissionsMode':'disable','disableAutoMode':'disable'}
              no bypass true, no auto true
            user trusted {'disableBypassPermissionsMode':true,'disableAutoMode':'enable'}
            policy trusted {'disableBypassPermissionsMode':true,'disableAutoMode':7}
              no bypass true, no auto true
            user trusted {'skipDangerousModePermissionPrompt':true}"#]],
    );
}
