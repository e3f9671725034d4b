//! Handlers, what switches them off, what bounds them, and what is said of faults.

use expect_test::{Expect, expect};

use super::super::*;
use super::of;
use crate::{Problem, Severity};

/// Tells the outcome of texts: handlers in the order in which they stand, bounds, and problems with place and advice.
fn told(texts: &[SettingsText]) -> String {
    let loaded = load(texts);
    let settings = loaded.rules.settings();
    let mut told: Vec<String> = texts
        .iter()
        .map(|it| format!("{} {}", it.file.display(), String::from_utf8_lossy(&it.text)))
        .collect();
    for hook in &settings.hooks {
        let place = format!("{} {}", hook.origin.layer.name(), hook.event.name());
        let condition = hook.condition.as_ref().map(|_| " if");
        let beside = if hook.runs_beside { " beside" } else { "" };
        told.push(format!(
            "  {place} `{}`{}{beside} {:?} {:?} {:?} {:?}",
            hook.matcher,
            condition.unwrap_or_default(),
            hook.timeout,
            hook.status,
            hook.above,
            hook.handler
        ));
    }
    for (name, list) in [("urls", &settings.hook_urls), ("variables", &settings.hook_variables)] {
        let list = list.iter().map(|it| it.iter().map(|it| &it.0).collect::<Vec<_>>());
        told.extend(list.map(|it| format!("  {name} {it:?}")));
    }
    let severity =
        |it: &Problem| if it.severity == Severity::Refusal { "refused" } else { "warned" };
    told.extend(loaded.problems.iter().map(|it| {
        let at = format!("{}:{}{}", it.origin.line, it.origin.column, it.origin.pointer);
        format!("  {} {at} `{}`: {}; {}", severity(it), it.text, it.message, it.help)
    }));
    told.join("\n")
}

fn check(cases: &[Vec<SettingsText>], expected: &Expect) {
    let told: Vec<String> = cases.iter().map(|it| told(it)).collect();
    expected.assert_eq(&(told.join("\n") + "\n"));
}

fn user(text: &str) -> Vec<SettingsText> {
    vec![of(Layer::User, true, false, text)]
}

fn handler(text: &str) -> Vec<SettingsText> {
    user(&format!("{{'hooks':{{'PreToolUse':[{{'hooks':[{text}]}}]}}}}"))
}

const RUN: &str = "{'hooks':{'PreToolUse':[{'hooks':[{'type':'command','command':'a'}]}]}}";

#[test]
fn each_fault_of_a_list_of_handlers_is_said_and_the_others_run() {
    let handlers = "'hooks':[{'type':'command','command':'a'}]";
    let mut cases: Vec<_> = [
        "{'hooks':7}".to_owned(),
        "{'hooks':{'SubagentStop':[]}}".to_owned(),
        "{'hooks':{'PreTolUse':[]}}".to_owned(),
        "{'hooks':{'Zebra':[]}}".to_owned(),
        "{'hooks':{'Stop':7}}".to_owned(),
        "{'hooks':{'Stop':[{'matcher':7,'hooks':[]},{'matcher':''}]}}".to_owned(),
        format!("{{'hooks':{{'PreToolUse':[{{'matcher':'(',{handlers}}}]}}}}"),
        format!("{{'hooks':{{'PreToolUse':[{{'matcher':'*',{handlers}}}]}}}}"),
        format!("{{'hooks':{{'PreToolUse':[{{'matcher':'Edit, a-b_c|9',{handlers}}}]}}}}"),
        format!("{{'hooks':{{'PreToolUse':[{{'matcher':'a.*',{handlers}}}]}}}}"),
        RUN.replace("'a'", "' '"),
    ]
    .iter()
    .map(|it| user(it))
    .collect();
    cases.push(vec![of(Layer::Policy, true, false, &RUN.replace("'a'", "''"))]);
    for fault in ["'statusMessage':7", "'if':7"] {
        let text = RUN.replace("'command':'a'", &format!("'command':'a',{fault}"));
        cases.push(vec![of(Layer::Policy, true, false, &text)]);
    }
    cases.push(vec![of(Layer::Project, false, false, RUN)]);
    check(
        &cases,
        &expect![[r#"
            /user.json {"hooks":7}
              refused 1:10/hooks `7`: expected an object of events; correct the file
            /user.json {"hooks":{"SubagentStop":[]}}
              warned 1:11/hooks/SubagentStop `"SubagentStop"`: hooks of `SubagentStop` are not supported; they have no effect
            /user.json {"hooks":{"PreTolUse":[]}}
              warned 1:11/hooks/PreTolUse `"PreTolUse"`: unknown event `PreTolUse`; did you mean `PreToolUse`?
            /user.json {"hooks":{"Zebra":[]}}
              warned 1:11/hooks/Zebra `"Zebra"`: unknown event `Zebra`; the documentation of hooks lists all events
            /user.json {"hooks":{"Stop":7}}
              warned 1:18/hooks/Stop `7`: expected a list; write `[ ]` around it
            /user.json {"hooks":{"Stop":[{"matcher":7,"hooks":[]},{"matcher":""}]}}
              warned 1:19/hooks/Stop/0 `{"matcher":7,"hooks":[]}`: expected an object with `matcher` and a list `hooks`; correct this entry
              warned 1:44/hooks/Stop/1 `{"matcher":""}`: expected an object with `matcher` and a list `hooks`; correct this entry
            /user.json {"hooks":{"PreToolUse":[{"matcher":"(","hooks":[{"type":"command","command":"a"}]}]}}
              user PreToolUse `(` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
              warned 1:25/hooks/PreToolUse/0 `{"matcher":"(","hooks":[{"type":"command","command":"a"}]}`: invalid regular expression; it matches everything; correct the expression
            /user.json {"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"a"}]}]}}
              user PreToolUse `*` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
            /user.json {"hooks":{"PreToolUse":[{"matcher":"Edit, a-b_c|9","hooks":[{"type":"command","command":"a"}]}]}}
              user PreToolUse `Edit, a-b_c|9` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
            /user.json {"hooks":{"PreToolUse":[{"matcher":"a.*","hooks":[{"type":"command","command":"a"}]}]}}
              user PreToolUse `a.*` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":" "}]}]}}
              warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":" "}`: the handler has no `command`; write the command to run
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":""}]}]}}
              refused 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":""}`: the handler has no `command`; write the command to run
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","statusMessage":7}]}]}}
              policy PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
              warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","statusMessage":7}`: `statusMessage` must be a string; put it in quotes
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","if":7}]}]}}
              policy PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
              refused 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","if":7}`: invalid rule in `if`; write one rule, such as `Bash(git push *)`; until then the hook runs without `if`
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a"}]}]}}
              warned 1:10/hooks `{"PreToolUse":[{"hooks":[{"type":"command","command":"a"}]}]…`: hooks do not run until the folder is trusted; run `stockade policy trust` after reading the file
        "#]],
    );
}

#[test]
fn each_key_of_a_handler_is_read_or_said() {
    let command = |more: &str| handler(&format!("{{'type':'command','command':'a'{more}}}"));
    let http = |url: &str, more: &str| handler(&format!("{{'type':'http','url':'{url}'{more}}}"));
    let mut cases = vec![
        command(",'args':['b','c'],'shell':'bash','async':true,'once':true,'statusMessage':'s'"),
        command(",'asyncRewake':true,'timeout':1.5,'if':'Bash(git push *)'"),
        command(",'timeout':1e9"),
        handler("{'type':'prompt'}"),
        handler("{'type':'comand'}"),
        handler("{}"),
        http("https://", ""),
        http("ftp://a", ""),
        http("http://a", ""),
        http("https://a", ",'headers':{'X-A!#$%':'1','b':'${T}'},'allowedEnvVars':['T']"),
        http("https://a", ",'headers':7"),
        http("https://a", ",'headers':{'':'1'}"),
        http("https://a", ",'headers':{'a b':'1'}"),
        http("https://a", ",'headers':{'Host':'1'}"),
        http("https://a", ",'headers':{'a':'1\\n2'}"),
        http("https://a", ",'headers':{'a':1}"),
        http("https://a", ",'allowedEnvVars':[7]"),
        user("{'hooks':{'SessionStart':[{'hooks':[{'type':'http','url':'https://a'}]}]}}"),
        user("{'hooks':{'Stop':[{'hooks':[{'type':'command','command':'a','if':'Bash'}]}]}}"),
    ];
    cases.extend(
        [
            "'args':'b'",
            "'args':['b',7]",
            "'shell':'zsh'",
            "'shell':7",
            "'async':7",
            "'once':7",
            "'timeout':0",
            "'timeout':-1",
            "'timeout':'9'",
            "'statusMessage':7",
            "'if':'Bash('",
            "'if':7",
            "'timout':9",
            "'url':'x'",
        ]
        .map(|it| command(&format!(",{it}"))),
    );
    check(
        &cases,
        &expect![[r#"
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","args":["b","c"],"shell":"bash","async":true,"once":true,"statusMessage":"s"}]}]}}
          user PreToolUse `` beside None Some("s") None Command(CommandHook { command: "a", arguments: Some(["b", "c"]), bash: true })
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","asyncRewake":true,"timeout":1.5,"if":"Bash(git push *)"}]}]}}
          user PreToolUse `` if beside Some(1.5s) None None Command(CommandHook { command: "a", arguments: None, bash: false })
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","timeout":1e9}]}]}}
          user PreToolUse `` Some(86400s) None None Command(CommandHook { command: "a", arguments: None, bash: false })
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"prompt"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"prompt"}`: handlers of this type are not supported; use a handler of type `command` or `http`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"comand"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"comand"}`: the handler has no known `type`; did you mean `command`?
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{}`: the handler has no known `type`; write `command` or `http`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://"}`: the handler has no valid `url`; write an address that begins with `https://` or `http://`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"ftp://a"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"ftp://a"}`: the handler has no valid `url`; write an address that begins with `https://` or `http://`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"http://a"}]}]}}
          user PreToolUse `` None None None Http(HttpHook { url: "http://a", headers: [], variables: [] })
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"X-A!#$%":"1","b":"${T}"},"allowedEnvVars":["T"]}]}]}}
          user PreToolUse `` None None None Http(HttpHook { url: "https://a", headers: [("X-A!#$%", "1"), ("b", "${T}")], variables: ["T"] })
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":7}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":7}`: `headers` must be an object; write `{ }`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"":"1"}}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":{"":"1"}}`: `headers` has an invalid name; check its spelling
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"a b":"1"}}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":{"a b":"1"}}`: `headers` has an invalid name; check its spelling
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"Host":"1"}}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":{"Host":"1"}}`: the header `Host` is set by the request itself; remove it
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"a":"1\n2"}}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":{"a":"1\n2"}}`: the value of a header must be a string on one line; correct it
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","headers":{"a":1}}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","headers":{"a":1}}`: the value of a header must be a string on one line; correct it
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"https://a","allowedEnvVars":[7]}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"http","url":"https://a","allowedEnvVars":[7]}`: `allowedEnvVars` must be a list of strings; write `["…"]`
        /user.json {"hooks":{"SessionStart":[{"hooks":[{"type":"http","url":"https://a"}]}]}}
          warned 1:37/hooks/SessionStart/0/hooks/0 `{"type":"http","url":"https://a"}`: `SessionStart` has no handlers of type `http`; use a command
        /user.json {"hooks":{"Stop":[{"hooks":[{"type":"command","command":"a","if":"Bash"}]}]}}
          warned 1:29/hooks/Stop/0/hooks/0 `{"type":"command","command":"a","if":"Bash"}`: a handler with `if` never runs at `Stop`; remove the `if`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","args":"b"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","args":"b"}`: `args` must be a list of strings; write `["…"]`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","args":["b",7]}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","args":["b",7]}`: `args` must be a list of strings; write `["…"]`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","shell":"zsh"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","shell":"zsh"}`: `shell` must be `bash` or absent; remove it
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","shell":7}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","shell":7}`: `shell` must be `bash` or absent; remove it
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","async":7}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","async":7}`: `async` must be true or false; write one of them
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","once":7}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","once":7}`: `once` must be true or false; write one of them
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","timeout":0}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","timeout":0}`: `timeout` must be a number of seconds above 0; write a number such as 30
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","timeout":-1}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","timeout":-1}`: `timeout` must be a number of seconds above 0; write a number such as 30
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","timeout":"9"}]}]}}
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","timeout":"9"}`: `timeout` must be a number of seconds above 0; write a number such as 30
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","statusMessage":7}]}]}}
          user PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","statusMessage":7}`: `statusMessage` must be a string; put it in quotes
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","if":"Bash("}]}]}}
          user PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","if":"Bash("}`: invalid rule in `if`; write one rule, such as `Bash(git push *)`; until then the hook runs without `if`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","if":7}]}]}}
          user PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","if":7}`: invalid rule in `if`; write one rule, such as `Bash(git push *)`; until then the hook runs without `if`
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","timout":9}]}]}}
          user PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","timout":9}`: unknown key `timout`; did you mean `timeout`?
        /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"a","url":"x"}]}]}}
          user PreToolUse `` None None None Command(CommandHook { command: "a", arguments: None, bash: false })
          warned 1:35/hooks/PreToolUse/0/hooks/0 `{"type":"command","command":"a","url":"x"}`: unknown key `url`; remove it
    "#]],
    );
}

#[test]
fn hooks_are_switched_off_and_bounded_by_these_layers_and_run_strongest_first() {
    let off = |layer, trusted, on: &str| {
        of(layer, trusted, false, &format!("{{'disableAllHooks':{on}}}"))
    };
    let run = |layer, above, name: &str| {
        of(layer, true, above, &RUN.replace("'a'", &format!("'{name}'")))
    };
    let all = || {
        vec![
            run(Layer::Policy, false, "managed"),
            run(Layer::User, false, "user"),
            run(Layer::Project, true, "above"),
            run(Layer::Project, false, "project"),
        ]
    };
    let with = |more: SettingsText| [all(), vec![more]].concat();
    let list = "{'allowedHttpHookUrls':['https://a/*',7],'httpHookAllowedEnvVars':['T']}";
    check(
        &[
            all(),
            with(off(Layer::Policy, true, "true")),
            with(off(Layer::User, true, "true")),
            with(off(Layer::Project, true, "true")),
            with(off(Layer::Project, false, "true")),
            with(off(Layer::Local, true, "false")),
            with(off(Layer::User, true, "7")),
            with(of(Layer::Policy, true, false, "{'allowManagedHooksOnly':true}")),
            vec![
                run(Layer::User, false, "same"),
                run(Layer::Local, false, "same"),
                run(Layer::Project, true, "same"),
            ],
            user(list),
            vec![of(Layer::Project, false, false, list)],
            vec![of(Layer::Project, false, false, "{'allowedHttpHookUrls':[]}")],
            vec![of(Layer::Project, true, true, list)],
            vec![of(Layer::Project, true, true, list), of(Layer::User, true, false, list)],
            user("{'allowedHttpHookUrls':7}"),
            vec![of(Layer::Policy, true, false, "{'httpHookAllowedEnvVars':7}")],
        ],
        &expect![[r#"
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
              project PreToolUse `` None None Some("/p") Command(CommandHook { command: "above", arguments: None, bash: false })
              project PreToolUse `` None None None Command(CommandHook { command: "project", arguments: None, bash: false })
              user PreToolUse `` None None None Command(CommandHook { command: "user", arguments: None, bash: false })
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /policy.json {"disableAllHooks":true}
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /user.json {"disableAllHooks":true}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /project.json {"disableAllHooks":true}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
              project PreToolUse `` None None Some("/p") Command(CommandHook { command: "above", arguments: None, bash: false })
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /project.json {"disableAllHooks":true}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
              project PreToolUse `` None None Some("/p") Command(CommandHook { command: "above", arguments: None, bash: false })
              project PreToolUse `` None None None Command(CommandHook { command: "project", arguments: None, bash: false })
              user PreToolUse `` None None None Command(CommandHook { command: "user", arguments: None, bash: false })
              warned 1:20/disableAllHooks `true`: ignored until the folder is trusted; run `stockade policy trust` after reading the file
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /local.json {"disableAllHooks":false}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
              project PreToolUse `` None None Some("/p") Command(CommandHook { command: "above", arguments: None, bash: false })
              project PreToolUse `` None None None Command(CommandHook { command: "project", arguments: None, bash: false })
              user PreToolUse `` None None None Command(CommandHook { command: "user", arguments: None, bash: false })
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /user.json {"disableAllHooks":7}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
              project PreToolUse `` None None Some("/p") Command(CommandHook { command: "above", arguments: None, bash: false })
              project PreToolUse `` None None None Command(CommandHook { command: "project", arguments: None, bash: false })
              user PreToolUse `` None None None Command(CommandHook { command: "user", arguments: None, bash: false })
              warned 1:20/disableAllHooks `7`: expected a Boolean; ignored; write true or false
            /policy.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"managed"}]}]}}
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"user"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"above"}]}]}}
            /project.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"project"}]}]}}
            /policy.json {"allowManagedHooksOnly":true}
              policy PreToolUse `` None None None Command(CommandHook { command: "managed", arguments: None, bash: false })
            /user.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"same"}]}]}}
            /local.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"same"}]}]}}
            /project-above.json {"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"same"}]}]}}
              local PreToolUse `` None None None Command(CommandHook { command: "same", arguments: None, bash: false })
            /user.json {"allowedHttpHookUrls":["https://a/*",7],"httpHookAllowedEnvVars":["T"]}
              urls ["https://a/*"]
              variables ["T"]
              warned 1:39/allowedHttpHookUrls/1 `7`: expected a string; put it in quotes
            /project.json {"allowedHttpHookUrls":["https://a/*",7],"httpHookAllowedEnvVars":["T"]}
              urls []
              variables []
              warned 1:39/allowedHttpHookUrls/1 `7`: expected a string; put it in quotes
              warned 1:24/allowedHttpHookUrls `["https://a/*",7]`: ignored until the folder is trusted; run `stockade policy trust` after reading the file
              warned 1:67/httpHookAllowedEnvVars `["T"]`: ignored until the folder is trusted; run `stockade policy trust` after reading the file
            /project.json {"allowedHttpHookUrls":[]}
              urls []
            /project-above.json {"allowedHttpHookUrls":["https://a/*",7],"httpHookAllowedEnvVars":["T"]}
              urls ["https://a/*"]
              variables ["T"]
            /project-above.json {"allowedHttpHookUrls":["https://a/*",7],"httpHookAllowedEnvVars":["T"]}
            /user.json {"allowedHttpHookUrls":["https://a/*",7],"httpHookAllowedEnvVars":["T"]}
              urls ["https://a/*"]
              variables ["T"]
              warned 1:39/allowedHttpHookUrls/1 `7`: expected a string; put it in quotes
            /user.json {"allowedHttpHookUrls":7}
              urls []
              warned 1:24/allowedHttpHookUrls `7`: expected a list of strings; until then it allows nothing
            /policy.json {"httpHookAllowedEnvVars":7}
              variables []
              refused 1:27/httpHookAllowedEnvVars `7`: expected a list of strings; until then it allows nothing
        "#]],
    );
}
