#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use expect_test::{Expect, expect};

use super::*;

#[test]
fn a_value_that_nothing_reads_is_said_with_its_place() {
    let text = "{\"audit\": 7, \"limits\": {\"maxTimeoutSeconds\": 9, \"tasks\": 2},\n \
                \"sandbox\": {\"required\": [\"limits\"], \"ripgrep\": {\"command\": \"rg\"}}}";
    let text = SettingsText {
        layer: Layer::User,
        file: "/s.json".into(),
        text: text.as_bytes().to_vec(),
        anchor: "/".into(),
        trusted: true,
        above: false,
    };
    let mut told: Vec<String> = load(&[text])
        .problems
        .iter()
        .map(|it| format!("{}:{}: {}", it.origin.line, it.origin.column, it.message))
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "1:11: `audit` has no effect",
            "1:58: `limits.tasks` has no effect",
            "2:26: `sandbox.required` has no effect",
        ]
    );
}

mod hooks;

#[test]
fn the_last_text_of_the_strongest_layer_says_a_value_and_all_layers_add_to_a_list() {
    let texts = [
        of(Layer::User, true, false, "{'a':1,'l':[1,2],'m':[5]}"),
        of(Layer::User, true, false, "{'a':2,'l':[3],'m':6}"),
        of(
            Layer::Local,
            true,
            false,
            "{'l':[4],'hooks':{'Stop':[]},'$schema':'s','permissions':{'allow':['A'],'ask':['B'],'deny':['C'],'x':true}}",
        ),
    ];
    let told: Vec<String> = crate::settings_values(&texts)
        .iter()
        .map(|it| format!("{} {} {} {}", it.origin.layer.name(), it.key, it.text, it.listed))
        .collect();
    let expected = [
        "user a 2 false",
        "local l 4 true",
        "user l 3 true",
        "user l 1 true",
        "user l 2 true",
        "user m 6 false",
        "local permissions.x true false",
    ];
    assert_eq!(told, expected);
}

#[test]
fn rules_of_one_file_stand_by_place_and_files_of_one_layer_as_they_were_given() {
    let texts = [
        of(Layer::Project, true, true, "{\n'permissions':{'deny':['A','B'],\n'ask':['C']}}"),
        of(Layer::Project, true, false, "{'permissions':{'ask':['D'],'deny':['E']}}"),
        of(Layer::Local, true, false, "{\n\n\n'permissions':{'deny':['F']}}"),
    ];
    let loaded = load(&texts);
    let told: Vec<&str> = loaded.rules.rules().iter().map(|it| it.text.as_str()).collect();
    assert_eq!(told, ["F", "A", "B", "C", "D", "E"]);
}

/// Columns count characters, and the first of a line is 1.
#[test]
fn a_place_is_a_line_and_a_character_of_it() {
    let text = "{'audit':\n7,'limits':{'ä€𝄞':0,'tasks':\n2, 'tosks': 3}}";
    let mut told: Vec<String> = load(&[of(Layer::User, true, false, text)])
        .problems
        .iter()
        .map(|it| format!("{}:{} {}", it.origin.line, it.origin.column, it.origin.pointer))
        .collect();
    told.sort();
    let expected = ["2:1 /audit", "2:19 /limits/ä€𝄞", "3:1 /limits/tasks", "3:13 /limits/tosks"];
    assert_eq!(told, expected);
}

fn of(layer: Layer, trusted: bool, above: bool, text: &str) -> SettingsText {
    SettingsText {
        layer,
        file: format!("/{}{}.json", layer.name(), if above { "-above" } else { "" }).into(),
        text: text.replace('\'', "\"").into_bytes(),
        anchor: "/p".into(),
        trusted,
        above,
    }
}

/// Tells the outcome of texts: rules, variables, shell, further values and problems.
fn told(texts: &[SettingsText]) -> String {
    let loaded = load(texts);
    let settings = loaded.rules.settings();
    let mut told: Vec<String> = texts
        .iter()
        .map(|it| format!("{} {}", it.file.display(), String::from_utf8_lossy(&it.text)))
        .collect();
    let rules = loaded.rules.rules().iter();
    told.extend(
        rules.map(|it| format!("  {} {} {}", it.origin.layer.name(), it.effect.name(), it.text)),
    );
    told.extend(settings.env.iter().map(|(name, value)| format!("  {name}={value}")));
    told.extend(settings.shell.iter().map(|it| format!("  shell {}", it.display())));
    told.extend(
        settings
            .values
            .iter()
            .map(|(key, (_, origin))| format!("  {key} of {}", origin.layer.name())),
    );
    for (holds, name) in
        [(settings.managed_rules_only, "managed rules only"), (settings.require_gateway, "gateway")]
    {
        told.extend(holds.then(|| format!("  {name}")));
    }
    let problems = loaded.problems.iter();
    told.extend(
        problems.map(|it| format!("  {:?} {} {}", it.severity, it.origin.pointer, it.message)),
    );
    told.join("\n")
}

fn check(rows: &[&[SettingsText]], expected: Expect) {
    expected.assert_eq(&rows.iter().map(|it| told(it)).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_text_that_cannot_be_read_refuses() {
    let user = |text: &str| of(Layer::User, true, false, text);
    let nul = |text: &str| user(&text.replace('0', "\\u0000"));
    check(
        &[
            &[user("{")],
            &[user("[]")],
            &[user("7")],
            &[nul("{'permissions':{'deny':['Bash(a0)']}}")],
            &[nul("{'env':{'A0':'x'}}")],
            &[nul("{'env':{'A':['x',{'y':'0'}]}}")],
            &[user("{'no-such-key':1,'model':'x','outputStyle':2}")],
        ],
        expect![[r#"
            /user.json {
              Refusal  invalid JSON: expected a key in double quotes
            /user.json []
              Refusal  expected an object, not a list
            /user.json 7
              Refusal  expected an object, not a number
            /user.json {"permissions":{"deny":["Bash(a\u0000)"]}}
              Refusal  a string contains a NUL byte
            /user.json {"env":{"A\u0000":"x"}}
              Refusal  a string contains a NUL byte
            /user.json {"env":{"A":["x",{"y":"\u0000"}]}}
              Refusal  a string contains a NUL byte
            /user.json {"no-such-key":1,"model":"x","outputStyle":2}
              Warning /no-such-key unknown key `no-such-key`"#]],
    );
}

#[test]
fn rules_stand_from_the_strongest_layer_on_and_managed_ones_may_stand_alone() {
    let all =
        "{'permissions':{'deny':['Bash(d)'],'ask':['Bash(b)'],'allow':['Bash(c)','Bash(a)']}}";
    let text = |layer| of(layer, true, false, all);
    let lock = |above, value: &str| {
        let keys = format!(
            "{{'allowManagedPermissionRulesOnly':{value},'permissions':{{'allow':['Bash(m)']}}}}"
        );
        of(Layer::Policy, true, above, &keys)
    };
    check(
        &[
            &[text(Layer::Policy), text(Layer::Project), text(Layer::User)],
            &[text(Layer::Flag), lock(false, "true")],
            &[text(Layer::Flag), lock(false, "false")],
            &[text(Layer::Flag), lock(true, "true")],
            &[text(Layer::Flag), lock(false, "'x'")],
            &[of(
                Layer::User,
                true,
                false,
                "{'allowManagedPermissionRulesOnly':true,'requireGateway':true}",
            )],
            &[of(Layer::Policy, true, false, "{'requireGateway':true}")],
            &[of(Layer::Policy, true, false, "{'requireGateway':7}")],
            &[of(Layer::Policy, true, false, "{'requireGateway':false}")],
        ],
        expect![[r#"
            /policy.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /project.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /user.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
              policy deny Bash(d)
              policy ask Bash(b)
              policy allow Bash(c)
              policy allow Bash(a)
              project deny Bash(d)
              project ask Bash(b)
              project allow Bash(c)
              project allow Bash(a)
              user deny Bash(d)
              user ask Bash(b)
              user allow Bash(c)
              user allow Bash(a)
            /flag.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /policy.json {"allowManagedPermissionRulesOnly":true,"permissions":{"allow":["Bash(m)"]}}
              policy allow Bash(m)
              flag deny Bash(d)
              managed rules only
            /flag.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /policy.json {"allowManagedPermissionRulesOnly":false,"permissions":{"allow":["Bash(m)"]}}
              policy allow Bash(m)
              flag deny Bash(d)
              flag ask Bash(b)
              flag allow Bash(c)
              flag allow Bash(a)
            /flag.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /policy-above.json {"allowManagedPermissionRulesOnly":true,"permissions":{"allow":["Bash(m)"]}}
              policy allow Bash(m)
              flag deny Bash(d)
              flag ask Bash(b)
              managed rules only
            /flag.json {"permissions":{"deny":["Bash(d)"],"ask":["Bash(b)"],"allow":["Bash(c)","Bash(a)"]}}
            /policy.json {"allowManagedPermissionRulesOnly":"x","permissions":{"allow":["Bash(m)"]}}
              policy allow Bash(m)
              flag deny Bash(d)
              managed rules only
              Warning /allowManagedPermissionRulesOnly expected a Boolean; used as true
            /user.json {"allowManagedPermissionRulesOnly":true,"requireGateway":true}
              Warning /allowManagedPermissionRulesOnly `allowManagedPermissionRulesOnly` is only valid in managed settings
              Warning /requireGateway `requireGateway` is only valid in managed settings
            /policy.json {"requireGateway":true}
              gateway
            /policy.json {"requireGateway":7}
              gateway
              Warning /requireGateway expected a Boolean; used as true
            /policy.json {"requireGateway":false}"#]],
    );
}

#[test]
fn variables_and_the_shell_are_set_by_who_may() {
    let all = "{'env':{'LANG':'x','MINE':'y','PATH':'/evil','LD_PRELOAD':'z','':'e','A=B':'f','N':7},'shell':'/bin/x'}";
    check(
        &[
            &[of(Layer::User, true, false, all)],
            &[of(Layer::Project, true, false, all)],
            &[of(Layer::Local, false, false, all)],
            &[of(Layer::Local, true, true, all)],
            &[of(Layer::User, true, false, "{'env':7,'shell':'x'}")],
            &[of(Layer::User, true, false, "{'shell':7}")],
        ],
        expect![[r#"
            /user.json {"env":{"LANG":"x","MINE":"y","PATH":"/evil","LD_PRELOAD":"z","":"e","A=B":"f","N":7},"shell":"/bin/x"}
              LANG=x
              LD_PRELOAD=z
              MINE=y
              PATH=/evil
              shell /bin/x
              Warning /env/ invalid variable name ``
              Warning /env/A=B invalid variable name `A=B`
              Warning /env/N expected a string
            /project.json {"env":{"LANG":"x","MINE":"y","PATH":"/evil","LD_PRELOAD":"z","":"e","A=B":"f","N":7},"shell":"/bin/x"}
              LANG=x
              MINE=y
              Warning /env/PATH project and local settings cannot set `PATH`
              Warning /env/LD_PRELOAD project and local settings cannot set `LD_PRELOAD`
              Warning /env/ invalid variable name ``
              Warning /env/A=B invalid variable name `A=B`
              Warning /env/N expected a string
              Warning /shell `shell` is ignored in project and local settings
            /local.json {"env":{"LANG":"x","MINE":"y","PATH":"/evil","LD_PRELOAD":"z","":"e","A=B":"f","N":7},"shell":"/bin/x"}
              LANG=x
              Warning /env/MINE ignored until the folder is trusted
              Warning /env/PATH project and local settings cannot set `PATH`
              Warning /env/LD_PRELOAD project and local settings cannot set `LD_PRELOAD`
              Warning /env/ invalid variable name ``
              Warning /env/A=B invalid variable name `A=B`
              Warning /env/N expected a string
              Warning /shell `shell` is ignored in project and local settings
            /local-above.json {"env":{"LANG":"x","MINE":"y","PATH":"/evil","LD_PRELOAD":"z","":"e","A=B":"f","N":7},"shell":"/bin/x"}
            /user.json {"env":7,"shell":"x"}
              Refusal /env expected an object of names and strings, not a number
              Refusal /shell expected an absolute path, not a string
            /user.json {"shell":7}
              Refusal /shell expected an absolute path, not a number"#]],
    );
}

#[test]
fn other_products_and_approvers_are_named_by_who_may() {
    let approvals =
        "{'approvals':{'waitSeconds':7,'require':2,'groups':{'a':['b']},'no-such-key':1}}";
    let further = "{'limits':{'maxTimeoutSeconds':9,'no-such-key':1},'audit':{'x':1},'sandbox':{'ripgrep':{'command':'x'}}}";
    check(
        &[
            &[of(Layer::User, true, false, "{'import':['claude-code']}")],
            &[of(Layer::Policy, true, false, "{'import':['claude-code','x']}")],
            &[of(Layer::User, true, false, "{'import':'claude-code'}")],
            &[of(Layer::Project, true, false, "{'import':['claude-code']}")],
            &[of(Layer::User, true, false, approvals)],
            &[of(Layer::Policy, true, false, approvals)],
            &[of(Layer::Project, true, false, approvals)],
            &[of(Layer::User, true, false, further)],
            &[of(Layer::Local, true, false, further)],
        ],
        expect![[r#"
            /user.json {"import":["claude-code"]}
            /policy.json {"import":["claude-code","x"]}
              Refusal /import/1 unknown product
            /user.json {"import":"claude-code"}
              Refusal /import expected a list of products, not a string
            /project.json {"import":["claude-code"]}
              Warning /import `import` is only valid in user and managed settings
            /user.json {"approvals":{"waitSeconds":7,"require":2,"groups":{"a":["b"]},"no-such-key":1}}
              approvals.groups.a of user
              approvals.no-such-key of user
              approvals.waitSeconds of user
              Warning /approvals/no-such-key `approvals.no-such-key` has no effect
              Warning /approvals/groups/a `approvals.groups.a` has no effect
              Warning /approvals/require `approvals.require` is only valid in managed settings
            /policy.json {"approvals":{"waitSeconds":7,"require":2,"groups":{"a":["b"]},"no-such-key":1}}
              approvals.require of policy
              approvals.waitSeconds of policy
              Refusal /approvals/no-such-key unknown key `approvals.no-such-key`
              Refusal /approvals/groups/a unknown key `approvals.groups.a`
            /project.json {"approvals":{"waitSeconds":7,"require":2,"groups":{"a":["b"]},"no-such-key":1}}
              Warning /approvals `approvals` is ignored in project and local settings
            /user.json {"limits":{"maxTimeoutSeconds":9,"no-such-key":1},"audit":{"x":1},"sandbox":{"ripgrep":{"command":"x"}}}
              audit.x of user
              limits.maxTimeoutSeconds of user
              limits.no-such-key of user
              sandbox.ripgrep.command of user
              Warning /limits/no-such-key `limits.no-such-key` has no effect
              Warning /audit/x `audit.x` has no effect
            /local.json {"limits":{"maxTimeoutSeconds":9,"no-such-key":1},"audit":{"x":1},"sandbox":{"ripgrep":{"command":"x"}}}
              Warning /limits `limits` is ignored in project and local settings
              Warning /audit `audit` is ignored in project and local settings
              Warning /sandbox/ripgrep `sandbox.ripgrep` is ignored in project and local settings"#]],
    );
}
