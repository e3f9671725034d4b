#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use super::super::load;
use crate::layer::Layer;
use crate::settings::{LoadedSettings, SandboxSettings, SettingsText, Severity};

/// Loads settings texts: layer, whether they are trusted, the text with `'` for `"`.
fn loaded(texts: &[(Layer, bool, &str)]) -> LoadedSettings {
    let text = |(layer, trusted, text): &(Layer, bool, &str)| SettingsText {
        layer: *layer,
        file: format!("/{}.json", layer.name()).into(),
        text: text.replace('\'', "\"").into_bytes(),
        anchor: "/p".into(),
        trusted: *trusted,
        above: false,
    };
    load(&texts.iter().map(text).collect::<Vec<_>>())
}

fn sandbox(texts: &[(Layer, bool, &str)]) -> SandboxSettings {
    loaded(texts).rules.settings().sandbox.clone()
}

fn of(list: &[(String, crate::layer::Origin)]) -> Vec<&str> {
    list.iter().map(|(text, _)| text.as_str()).collect()
}

/// A key, its loose and its tight value, and what is read of it.
type Switch = (&'static str, &'static str, bool, fn(&SandboxSettings) -> bool);

const SWITCHES: [Switch; 5] = [
    ("{'enabled':_}", "enabled", true, |it| it.enabled),
    ("{'failIfUnavailable':_}", "failIfUnavailable", true, |it| it.fail_if_unavailable),
    ("{'allowUnsandboxedCommands':_}", "allowUnsandboxedCommands", false, |it| {
        it.allow_unsandboxed
    }),
    ("{'filesystem':{'disabled':_}}", "disabled", false, |it| it.files_disabled),
    ("{'network':{'strictAllowlist':_}}", "strictAllowlist", true, |it| it.strict_allowlist),
];

#[test]
fn settings_of_a_project_make_a_switch_stricter_and_never_looser() {
    for (form, key, tight, read) in SWITCHES {
        let set = |value: &str| format!("{{'sandbox':{}}}", form.replace('_', value));
        let (tight_text, loose) = (set(&tight.to_string()), set(&(!tight).to_string()));
        for layer in [Layer::Project, Layer::Local] {
            let after = |first: &str, second: &str| {
                let found = loaded(&[(Layer::User, true, first), (layer, true, second)]);
                (read(&found.rules.settings().sandbox), found.problems.len())
            };
            assert_eq!(after(&tight_text, &loose), (tight, 1), "{key}");
            assert_eq!(after(&loose, &tight_text), (tight, 0), "{key}");
            assert_eq!(after(&loose, &loose), (!tight, 1), "{key}");
            // A value that is not a Boolean counts as the strict one.
            assert_eq!(after(&loose, &set("'x'")), (tight, 1), "{key}");
        }
        let both = |first: &str, second: &str| {
            read(&sandbox(&[(Layer::User, true, first), (Layer::Flag, true, second)]))
        };
        assert_eq!(
            (both(&tight_text, &loose), both(&loose, &tight_text)),
            (!tight, tight),
            "{key}"
        );
    }
}

#[test]
fn commands_are_allowed_for_being_confined_unless_one_who_may_say_so_objects() {
    let yes = "{'sandbox':{'autoAllowBashIfSandboxed':true}}";
    let no = "{'sandbox':{'autoAllowBashIfSandboxed':false}}";
    let odd = "{'sandbox':{'autoAllowBashIfSandboxed':'yes'}}";
    let auto = |texts: &[(Layer, bool, &str)]| sandbox(texts).auto_allow;
    assert!(auto(&[(Layer::User, true, yes)]));
    assert!(!auto(&[(Layer::User, true, odd)]));
    assert!(!auto(&[(Layer::User, true, yes), (Layer::Project, false, no)]));
    assert!(!auto(&[(Layer::User, true, no), (Layer::Project, false, yes)]));
    assert!(auto(&[(Layer::User, true, no), (Layer::Project, true, yes)]));
}

#[test]
fn managed_settings_that_switch_the_sandbox_on_need_one_that_works() {
    let on = "{'sandbox':{'enabled':true}}";
    let off = "{'sandbox':{'enabled':false}}";
    let needs = |texts: &[(Layer, bool, &str)]| sandbox(texts).fail_if_unavailable;
    let plain = needs(&[]);
    assert!(needs(&[(Layer::Policy, true, on)]));
    assert_eq!(needs(&[(Layer::User, true, on)]), plain);
    assert_eq!(needs(&[(Layer::Policy, true, off)]), plain);
}

const WIDE: &str = "{'sandbox':{'excludedCommands':['gentool x'],'allowPrivate':['a.b'],
    'filesystem':{'allowWrite':['/w'],'allowRead':['/r'],'denyWrite':['/dw'],'denyRead':['/dr']},
    'network':{'allowedDomains':['c.d'],'deniedDomains':['e.f'],'allowUnixSockets':['/s']},
    'credentials':{'files':['/k',{'path':'//k2'}],'envVars':['V',{'name':'W'}]},'env':{'pass':['P']}}}";

/// Returns what opens and what closes.
fn reach(texts: &[(Layer, bool, &str)]) -> (Vec<String>, Vec<String>) {
    let it = sandbox(texts);
    let mut opens: Vec<&str> = Vec::new();
    for list in [
        &it.allow_private,
        &it.allow_write,
        &it.allow_read,
        &it.allowed_domains,
        &it.allow_unix_sockets,
    ] {
        opens.extend(
            list.iter()
                .filter(|(_, origin)| origin.layer != Layer::Builtin)
                .map(|it| it.0.as_str()),
        );
    }
    let mut closes = of(&it.deny_write);
    closes.extend(of(&it.deny_read));
    closes.extend(of(&it.denied_domains));
    closes.extend(it.env_deny.iter().map(String::as_str));
    let mut opens: Vec<String> = opens.into_iter().map(str::to_owned).collect();
    opens.extend(it.excluded.iter().map(|_| "excluded".to_owned()));
    opens.extend(it.env_pass.iter().map(|name| format!("${name}")));
    (opens, closes.into_iter().map(str::to_owned).collect())
}

#[test]
fn what_opens_waits_for_trust_and_what_closes_does_not() {
    let closed = ["/dw", "/dr", "/k", "/k2", "e.f", "V", "W"];
    let open = ["a.b", "/w", "/r", "c.d", "/s", "excluded"];
    for layer in [Layer::Project, Layer::Local] {
        let (opens, closes) = reach(&[(layer, false, WIDE)]);
        assert_eq!(
            (opens, closes),
            (vec![], closed.map(str::to_owned).to_vec()),
            "{}",
            layer.name()
        );
        let (opens, closes) = reach(&[(layer, true, WIDE)]);
        assert_eq!(
            (opens, closes),
            (open.map(str::to_owned).to_vec(), closed.map(str::to_owned).to_vec())
        );
    }
    let (opens, _) = reach(&[(Layer::User, false, WIDE)]);
    assert_eq!(opens, ["a.b", "/w", "/r", "c.d", "/s", "excluded", "$P"]);
}

#[test]
fn what_managed_settings_lock_counts_from_them_alone() {
    let managed = |lock: &str| format!("{{'sandbox':{lock}}}");
    let with =
        |lock: &str| reach(&[(Layer::User, true, WIDE), (Layer::Policy, true, &managed(lock))]).0;
    let all = ["a.b", "/w", "/r", "c.d", "/s", "excluded", "$P"];
    assert_eq!(with("{}"), all);
    assert_eq!(
        with("{'network':{'allowManagedDomainsOnly':true}}"),
        ["/w", "/r", "/s", "excluded", "$P"]
    );
    assert_eq!(
        with("{'network':{'allowManagedDomainsOnly':'x'}}"),
        ["/w", "/r", "/s", "excluded", "$P"]
    );
    assert_eq!(with("{'network':{'allowManagedDomainsOnly':false}}"), all);
    assert_eq!(
        with(
            "{'network':{'allowManagedDomainsOnly':true,'allowedDomains':['m.n'],'allowPrivate':['o.p']}}"
        ),
        ["o.p", "/w", "/r", "m.n", "/s", "excluded", "$P"]
    );
    assert_eq!(
        with("{'filesystem':{'allowManagedReadPathsOnly':true}}"),
        ["a.b", "/w", "c.d", "/s", "excluded", "$P"]
    );
    assert_eq!(with("{'allowUnsandboxedCommands':false}"), ["a.b", "/w", "/r", "c.d", "/s", "$P"]);
    assert_eq!(with("{'allowUnsandboxedCommands':'x'}"), ["a.b", "/w", "/r", "c.d", "/s", "$P"]);
    assert_eq!(with("{'allowUnsandboxedCommands':true}"), all);
    // Other layers lock nothing.
    let own = "{'sandbox':{'network':{'allowManagedDomainsOnly':true},'filesystem':{'allowManagedReadPathsOnly':true}}}";
    assert_eq!(reach(&[(Layer::User, true, WIDE), (Layer::Flag, true, own)]).0, all);
    let off = |layer, policy: &str| {
        let text = "{'sandbox':{'filesystem':{'disabled':true}}}";
        sandbox(&[(layer, true, text), (Layer::Policy, true, policy)]).files_disabled
    };
    assert!(off(Layer::User, "{}"));
    assert!(!off(Layer::User, "{'sandbox':{'filesystem':{}}}"));
    assert!(off(Layer::Policy, "{'sandbox':{'filesystem':{}}}"));
}

#[test]
fn a_project_excludes_no_program_that_runs_its_code() {
    let excluded = |layer, command: &str| {
        let text = format!("{{'sandbox':{{'excludedCommands':['{command}']}}}}");
        let found = loaded(&[(layer, true, &text)]);
        (found.rules.settings().sandbox.excluded.len(), found.problems.len())
    };
    for command in ["npm test", "/usr/bin/make x", "./run", "bin/run *"] {
        assert_eq!(excluded(Layer::Project, command), (0, 1), "{command}");
        assert_eq!(excluded(Layer::User, command), (1, 0), "{command}");
    }
    assert_eq!(excluded(Layer::Local, "gentool x"), (1, 0));
    assert_eq!(excluded(Layer::Local, "/usr/bin/gentool *"), (1, 0));
}

#[test]
fn a_limit_of_a_project_lowers_and_never_raises() {
    let limits = |texts: &[(Layer, bool, &str)]| {
        let it = sandbox(texts);
        (it.limits.get("memory").map(|it| it.0), it.lowered_limits.get("memory").map(|it| it.0))
    };
    let set = |value: &str| format!("{{'sandbox':{{'limits':{{'memory':{value}}}}}}}");
    assert_eq!(limits(&[(Layer::User, true, &set("10"))]), (Some(10), None));
    assert_eq!(limits(&[(Layer::Project, true, &set("10"))]), (None, Some(10)));
    for pair in [["20", "7"], ["7", "20"], ["7", "7"]] {
        let [first, second] = pair.map(set);
        let found = limits(&[(Layer::Project, true, &first), (Layer::Local, false, &second)]);
        assert_eq!(found, (None, Some(7)));
    }
    for (text, bytes) in [
        ("'3B'", 3),
        ("'3'", 3),
        ("'2KiB'", 2048),
        ("'1 MiB'", 1 << 20),
        ("'2GiB'", 2 << 30),
        ("'1TiB'", 1 << 40),
    ] {
        assert_eq!(limits(&[(Layer::User, true, &set(text))]).0, Some(bytes), "{text}");
    }
    for text in ["0", "'0'", "'x'", "'1KB'", "''", "'99999999TiB'", "true"] {
        let found = loaded(&[(Layer::User, true, &set(text))]);
        let severities: Vec<Severity> = found.problems.iter().map(|it| it.severity).collect();
        assert_eq!(severities, [Severity::Refusal], "{text}");
        assert!(found.rules.settings().sandbox.limits.is_empty(), "{text}");
    }
}

#[test]
fn what_was_to_close_and_cannot_be_read_refuses_the_file() {
    let told = |text: &str| {
        let found = loaded(&[(Layer::User, true, &format!("{{'sandbox':{text}}}"))]);
        found.problems.iter().map(|it| it.severity).collect::<Vec<Severity>>()
    };
    for text in [
        "7",
        "{'network':[]}",
        "{'network':{'deniedDomains':['a b']}}",
        "{'network':{'deniedDomains':[7]}}",
        "{'network':{'deniedDomains':'a.b'}}",
        "{'filesystem':{'denyRead':[7]}}",
        "{'filesystem':{'denyWrite':'x'}}",
        "{'credentials':{'files':'x'}}",
        "{'credentials':{'files':[{'name':'x'}]}}",
        "{'credentials':{'envVars':[7]}}",
    ] {
        assert_eq!(told(text), [Severity::Refusal], "{text}");
    }
    for text in [
        "{'network':{'allowedDomains':['a b']}}",
        "{'filesystem':{'allowWrite':['/a/*']}}",
        "{'filesystem':{'allowWrite':['/a?']}}",
        "{'no-such-key':1}",
        "{'network':{'enabled':7}}",
    ] {
        assert_eq!(told(text), [Severity::Warning], "{text}");
    }
    for text in [
        "{'filesystem':{'allowRead':['/a/*']}}",
        "{'filesystem':{'denyRead':['/a/*']}}",
        "{'network':{'enabled':true}}",
    ] {
        assert_eq!(told(text), [], "{text}");
    }
}

#[test]
fn any_layer_takes_the_network_away() {
    let off = |layer, value: &str| {
        let text = format!("{{'sandbox':{{'network':{{'enabled':{value}}}}}}}");
        sandbox(&[(layer, false, &text)]).network_off.map(|it| it.layer)
    };
    for layer in [Layer::User, Layer::Project, Layer::Local, Layer::Flag, Layer::Policy] {
        assert_eq!(
            (off(layer, "false"), off(layer, "7"), off(layer, "true")),
            (Some(layer), Some(layer), None)
        );
    }
}

#[test]
fn a_path_that_is_kept_away_counts_wherever_it_may_be_meant() {
    let text = "{'sandbox':{'filesystem':{'denyRead':['/','a/','./b/**','//c','/d/','~/e','~','f{1,2}'],'allowWrite':['g/../h','i/']}}}";
    let found = sandbox(&[(Layer::Project, true, text)]);
    assert_eq!(
        of(&found.deny_read),
        [
            "/",
            "/p/a",
            "./a",
            "/p/b",
            "./b",
            "/c",
            "/d",
            "~/e",
            "~",
            "/p/f1",
            "./f1",
            "/p/f2",
            "./f2",
            "/p/f{1,2}",
            "./f{1,2}"
        ]
    );
    assert_eq!(of(&found.allow_write), ["/p/h", "/p/i"]);
}

#[test]
fn what_does_not_count_is_told_with_its_place() {
    let told = |layer, trusted, text: &str| {
        let found = loaded(&[(layer, trusted, text)]);
        let problems =
            found.problems.iter().map(|it| format!("{:?} {}", it.severity, it.origin.pointer));
        problems.collect::<Vec<String>>()
    };
    assert_eq!(
        told(Layer::Project, false, WIDE),
        [
            "Warning /sandbox/excludedCommands",
            "Warning /sandbox/allowPrivate",
            "Warning /sandbox/filesystem/allowWrite",
            "Warning /sandbox/filesystem/allowRead",
            "Warning /sandbox/network/allowedDomains",
            "Warning /sandbox/network/allowUnixSockets",
            "Warning /sandbox/env/pass",
        ]
    );
    let auto = "{'sandbox':{'autoAllowBashIfSandboxed':true}}";
    assert_eq!(told(Layer::Project, false, auto), ["Warning /sandbox/autoAllowBashIfSandboxed"]);
    let locks = "{'sandbox':{'network':{'allowManagedDomainsOnly':true},'filesystem':{'allowManagedReadPathsOnly':true}}}";
    assert_eq!(
        told(Layer::User, true, locks),
        [
            "Warning /sandbox/network/allowManagedDomainsOnly",
            "Warning /sandbox/filesystem/allowManagedReadPathsOnly",
        ]
    );
    assert_eq!(told(Layer::Policy, true, locks), [""; 0]);
    let many = format!("{{'sandbox':{{'filesystem':{{'denyRead':['{}']}}}}}}", "{a,b}".repeat(20));
    assert_eq!(told(Layer::Project, true, &many), ["Refusal /sandbox/filesystem/denyRead/0"]);
    let limit = "{'sandbox':{'limits':{'memory':7}}}";
    let found = sandbox(&[(Layer::Project, true, limit), (Layer::Local, true, limit)]);
    assert_eq!(found.lowered_limits.get("memory").map(|it| it.1.layer), Some(Layer::Project));
}

#[test]
fn an_entry_that_a_person_wrote_is_theirs_even_if_it_is_a_default() {
    let text = "{'sandbox':{'filesystem':{'denyRead':['/a']}}}";
    let origin = |layers: &[Layer]| {
        let texts: Vec<(Layer, bool, &str)> = layers.iter().map(|it| (*it, true, text)).collect();
        let found = sandbox(&texts).deny_read;
        found.iter().map(|(path, origin)| (path.clone(), origin.layer)).collect::<Vec<_>>()
    };
    let of = |layer| vec![("/a".to_owned(), layer)];
    assert_eq!(origin(&[Layer::Builtin]), of(Layer::Builtin));
    assert_eq!(origin(&[Layer::Builtin, Layer::User]), of(Layer::User));
    assert_eq!(origin(&[Layer::User, Layer::Flag]), of(Layer::User));
}
