//! A refusal explains itself: what was tried, which rule refused it, and the settings line that would allow it.
//! And machines without namespaces, where a command runs with less only when the settings accept that.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::{Place, skip};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Runs `script` as a file, of which the text of the command says nothing.
fn run(place: &Place, script: &str) -> (Option<i32>, String) {
    place.write("project/act.sh", script);
    let output = place.output(["run", "--no-daemon", "--", "bash act.sh"]);
    (output.status.code(), text(&output.stderr))
}

fn violations(place: &Place, script: &str) -> Vec<Value> {
    place.write("project/act.sh", script);
    let output = place.output(["run", "--no-daemon", "--json", "--", "bash act.sh"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    object["violations"].as_array().expect("a list").clone()
}

/// Returns the first violation without its process number.
fn first(violations: &[Value]) -> Value {
    let mut first = violations.first().expect("a violation").clone();
    let object = first.as_object_mut().expect("an object");
    assert!(object.remove("pid").is_some_and(|pid| pid.as_u64().is_some()));
    first
}

#[test]
fn a_refused_write_names_the_line_that_would_allow_it_and_that_line_does() {
    let place = Place::new("told-write");
    let home = std::fs::canonicalize(place.home()).expect("a folder");
    let act = "echo x > ~/notes.txt";
    let (status, stderr) = run(&place, act);
    assert_eq!(status, Some(1), "{stderr}");
    let expected = format!(
        "stockade: refused open (write) {home}/notes.txt by builtin: outside of the writable directories; \
         to allow: make that file, then sandbox.filesystem.allowWrite: [\"{home}/notes.txt\"] (user settings)",
        home = home.display()
    );
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    let told = violations(&place, act);
    let expected = json!({
        "kind": "write", "syscall": "open", "path_or_host": home.join("notes.txt"), "errno": 30,
        "program": "bash", "rule": "builtin: outside of the writable directories", "file": null, "line": null,
        "remedy": {
            "change": "add", "setting": "sandbox.filesystem.allowWrite", "value": [home.join("notes.txt")],
            "layer": "user", "first": "make that file",
            "text": format!(
                "to allow: make that file, then sandbox.filesystem.allowWrite: [\"{}/notes.txt\"] (user settings)",
                home.display()
            ),
        },
        "why_not": null, "count": 1, "source": "supervisor",
    });
    assert_eq!(first(&told), expected);
    place.write("home/notes.txt", "");
    user(&place, &json!({"sandbox": {"filesystem": {"allowWrite": [home.join("notes.txt")]}}}));
    let (status, stderr) = run(&place, act);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(home.join("notes.txt")).expect("the file"), "x\n");
}

/// Returns the lines of stockade's own under the output of `text`.
fn lines(place: &Place, text: &str) -> Vec<String> {
    let output = place.output(["run", "--no-daemon", "--allowed-tools", "Bash", "--", text]);
    let stderr = self::text(&output.stderr);
    stderr.lines().filter(|line| line.starts_with("stockade: ")).map(str::to_owned).collect()
}

#[test]
fn a_refusal_is_told_whatever_the_status_is_but_not_what_programs_do_without() {
    let place = Place::new("told-always");
    let home = std::fs::canonicalize(place.home()).expect("a folder");
    place.write("home/.cache/tool", "");
    let refused = |call: &str, name: &str, rest: &str| {
        let home = home.display();
        let allow = format!("sandbox.filesystem.allowWrite: [\"{home}/{name}\"] (user settings)");
        vec![format!(
            "stockade: refused {call} (write) {home}/{name} by builtin: outside of the writable directories; \
             to allow: {rest}{allow}"
        )]
    };
    // The last command of a pipe has the status, and a shell goes on.
    let seen = refused("mkdir", "new", "make that directory, then ");
    assert_eq!(lines(&place, "mkdir ~/new | cat"), seen);
    let seen = refused("open", "new", "make that file, then ");
    assert_eq!(lines(&place, "true; echo x > ~/new; echo on"), seen);
    // A program does without a file that it keeps in the home directory; a file that the text names was wanted.
    place.write("project/tool.sh", "echo x >> ~/.cache/tool; exit $1");
    let none: Vec<String> = Vec::new();
    assert_eq!(lines(&place, "bash tool.sh 0"), none);
    assert_eq!(lines(&place, "bash tool.sh 0 | cat"), none);
    assert_eq!(lines(&place, "bash tool.sh 1"), refused("open", ".cache/tool", ""));
    assert_eq!(lines(&place, "echo x >> ~/.cache/tool; true"), refused("open", ".cache/tool", ""));
    // Nothing does without what starts by itself: that is told.
    place.write("project/evil.sh", "echo x >> ~/.profile; echo x >> ~/.ssh/rc");
    place.write("home/.profile", "");
    let seen = lines(&place, "bash evil.sh; true");
    assert!(seen.len() == 1 && seen[0].contains("/home/.profile by "), "{seen:?}");
    let told = violations(&place, "echo x >> ~/.cache/tool; true");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_failure_is_not_laid_on_the_sandbox_without_a_fact_that_speaks_for_it() {
    let place = Place::new("told-nothing");
    let home = std::fs::canonicalize(place.home()).expect("a folder");
    place.write("project/file", "text");
    place.write("project/aws", "#!/bin/sh\nexit 1\n");
    place.write("home/.aws/key", "key");
    let none: Vec<String> = Vec::new();
    for text in [
        "grep nothing file",
        "bash -c 'exit 3'",
        "perl -e 'exit 1'",
        "no-such-program",
        "cat ~/.netrc",
    ] {
        assert_eq!(lines(&place, text), none, "{text}");
    }
    let denied = |path: &str| {
        let home = home.display();
        vec![format!(
            "stockade: {home}/{path} cannot be read here, by sandbox.filesystem.denyRead {home}/.aws (<default>:13, builtin); \
             this may be why the command failed; to allow: sandbox.filesystem.allowRead: [\"{home}/.aws\"] (user settings)"
        )]
    };
    assert_eq!(lines(&place, "cat ~/.aws/key"), denied(".aws/key"));
    assert_eq!(lines(&place, "cat < ~/.aws/key || exit 3"), denied(".aws/key"));
    // A program whose own files these are need not name them.
    assert_eq!(lines(&place, "chmod 755 aws; ./aws list"), denied(".aws"));
    assert_eq!(lines(&place, "cat ~/.aws/key || true"), none);
}

#[test]
fn a_connection_past_the_proxy_is_told_once() {
    let place = Place::new("told-direct");
    let connect = |address: &str| {
        format!(
            "perl -MSocket -e 'socket S, PF_INET, SOCK_STREAM, 0; connect S, {address} or exit 1'"
        )
    };
    let text = connect("pack_sockaddr_in(22, inet_aton(\"192.0.2.1\"))");
    let rest = "the proxy in `HTTP_PROXY` is the only way out, to hosts in `sandbox.network.allowedDomains`; \
                a program without proxy support needs a helper (`ProxyCommand` of ssh)";
    let expected =
        format!("stockade: refused a connection of `perl` past the proxy, to 192.0.2.1:22; {rest}");
    for text in [text.clone(), format!("{text} | cat")] {
        assert_eq!(lines(&place, &text), [expected.as_str()], "{text}");
    }
    let text = connect("pack_sockaddr_in(53, inet_aton(\"192.0.2.1\"))");
    let expected = format!(
        "stockade: refused a connection of `perl` past the proxy, to 192.0.2.1:53, a look-up of a host's name; {rest}"
    );
    for text in [text.clone(), format!("{text} | cat")] {
        assert_eq!(lines(&place, &text), [expected.as_str()], "{text}");
    }
    let none: Vec<String> = Vec::new();
    assert_eq!(lines(&place, &text.replace("exit 1", "exit 0")), none);
}

#[test]
fn what_a_command_leaves_running_is_named_when_it_is_ended() {
    let place = Place::new("told-left");
    // Not before each is what it is called by.
    let named = |name: &str| format!("until grep -q {name} /proc/$!/comm; do :; done");
    let one = format!("sleep 60 & {}; echo on", named("sleep"));
    let two = format!("{one}; perl -e 'sleep 60' & {}; exit 3", named("perl"));
    // A process that has ended, and waits to be reaped, was not left running.
    let dead =
        "perl -e '$p = fork or exit; do { open F, \"/proc/$p/stat\"; $_ = <F> } until / Z /'";
    let told = |text: &str| {
        place.write("project/act.sh", text);
        let output = place.output(["run", "--no-daemon", "--json", "--", "bash act.sh"]);
        let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
        let stderr = self::text(&output.stderr);
        (object["left_running"].clone(), stderr.trim_end().to_owned())
    };
    let left = "in the background: `sleep`; background processes stop when the command returns; use `--background` to keep them";
    assert_eq!(
        told(&one),
        (json!(["sleep"]), format!("stockade: stopped 1 process that the command left {left}"))
    );
    let left = "in the background: `perl`, `sleep`; background processes stop when the command returns; use `--background` to keep them";
    let (names, footer) = told(&two);
    assert_eq!(names.as_array().map(Vec::len), Some(2), "{names}");
    assert_eq!(footer, format!("stockade: stopped 2 processes that the command left {left}"));
    for text in ["echo on", dead] {
        assert_eq!(told(text), (json!([]), String::new()), "{text}");
    }
}

#[test]
fn a_write_that_a_rule_refuses_names_the_rule_with_file_and_line() {
    let place = Place::new("told-rule");
    place.write("project/kept.txt", "kept");
    let kept = std::fs::canonicalize(place.project().join("kept.txt")).expect("the file");
    let settings = place.home().join(".config/stockade/settings.json");
    place.write(
        "home/.config/stockade/settings.json",
        &format!(
            "{{\n  \"sandbox\": {{ \"filesystem\": {{\n    \"denyWrite\": [\"{}\"]\n  }} }}\n}}",
            kept.display()
        ),
    );
    let told = first(&violations(&place, "echo x > kept.txt"));
    assert_eq!((&told["line"], &told["file"]), (&json!(3), &json!(settings)));
    assert_eq!(told["remedy"]["change"], "remove");
    assert_eq!(told["remedy"]["setting"], "sandbox.filesystem.denyWrite");
    assert_eq!(told["remedy"]["value"], json!([kept]));
    let (_, stderr) = run(&place, "echo x > kept.txt");
    assert!(stderr.contains("settings.json:3, user); to allow: remove "), "{stderr}");
    assert_eq!(std::fs::read_to_string(&kept).expect("the file"), "kept");
}

#[test]
fn a_pattern_refuses_what_comes_to_be_and_names_its_rule() {
    let place = Place::new("told-pattern");
    place.write("project/old.lock", "kept");
    // The settings name the project by a link.
    std::os::unix::fs::symlink(place.project(), place.root.join("link")).expect("a link");
    let pattern = format!("{}/*.lock", place.root.join("link").display());
    let filesystem = json!({"denyWrite": [pattern], "denyRead": [place.project().join("*.pem")]});
    let rules = json!({"permissions": {"deny": ["Edit(gen/**/*.c)"]}, "sandbox": {"filesystem": filesystem}});
    user(&place, &rules);
    let settings = place.home().join(".config/stockade/settings.json");
    place.write("project/gen/plain.h", "");
    // In a script: what a text would write is judged before.
    place.write(
        "project/try.sh",
        "mkdir -p gen/sub\nfor name in old.lock new.lock new.pem gen/sub/new.c; do echo x > $name; done\n\
         echo x > gen/sub/new.h\n",
    );
    let told = violations(&place, "bash try.sh");
    let seen: Vec<(&str, &str, u64)> = told
        .iter()
        .map(|it| {
            let path = it["path_or_host"].as_str().expect("a path");
            let name = path.rsplit('/').next().expect("a name");
            let rule = it["rule"].as_str().expect("a rule");
            assert_eq!(it["file"], json!(settings), "{it}");
            (name, rule.split(' ').next().expect("a word"), it["line"].as_u64().expect("a line"))
        })
        .collect();
    let (write, read) = ("sandbox.filesystem.denyWrite", "sandbox.filesystem.denyRead");
    let deny = "permissions.deny";
    let expected = [("old.lock", write), ("new.lock", write), ("new.pem", read), ("new.c", deny)];
    assert_eq!(seen, expected.map(|(name, rule)| (name, rule, 1)), "{told:?}");
    assert_eq!(told[1]["remedy"]["value"], json!([pattern]));
    let exists = |name: &str| place.project().join(name).exists();
    assert!(!exists("new.lock") && !exists("new.pem") && !exists("gen/sub/new.c"));
    assert!(exists("gen/sub/new.h"));
}

#[test]
fn a_protected_file_says_that_no_setting_allows_it() {
    let place = Place::new("told-protected");
    let (_, stderr) = run(&place, "mkdir -p sub && echo x > sub/.mcp.json");
    assert!(
        stderr.contains("by builtin: guarded name `.mcp.json`; no setting allows it"),
        "{stderr}"
    );
    let told = first(&violations(&place, "echo x > sub/.mcp.json"));
    assert!(told["remedy"].is_null() && told["why_not"].is_string(), "{told}");
}

#[test]
fn a_refused_call_is_named() {
    if !cfg!(target_arch = "x86_64") {
        return skip("a_refused_call_is_named", "the number of the call is that of x86-64");
    }
    let place = Place::new("told-call");
    let (_, stderr) = run(&place, "perl -e 'syscall(321, 0, 0, 0) == 0 or exit 1'");
    let expected = "stockade: refused bpf (syscall) by builtin: system calls; no setting allows this system call";
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
}

#[test]
fn a_limit_names_the_line_that_raises_it_and_that_line_does() {
    let place = Place::new("told-limit");
    let act = "head -c 3M /dev/zero > large; exit $?";
    let set = |value: &str| user(&place, &json!({"sandbox": {"limits": {"fileSize": value}}}));
    set("1MiB");
    let (_, stderr) = run(&place, act);
    let file = |name: &str| place.root.join(name).display().to_string();
    let told = |size: u64, file: &str, layer: &str, raised: &str| {
        format!(
            "stockade: reached the limit fileSize of {size} bytes by sandbox.limits.fileSize {size} ({file}:1, {layer}); \
             to allow: sandbox.limits.fileSize: \"{raised}\" ({layer} settings)"
        )
    };
    let user_file = file("home/.config/stockade/settings.json");
    let expected = told(1 << 20, &user_file, "user", "2MiB");
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    set("4MiB");
    assert_eq!(run(&place, act), (Some(0), String::new()));
    // A project lowers a limit and cannot raise one; the line is the one that counts.
    let project_file = file("project/.stockade/settings.json");
    place.write("project/.stockade/settings.json", r#"{"sandbox":{"limits":{"fileSize":"1MiB"}}}"#);
    let (_, stderr) = run(&place, act);
    let expected = told(1 << 20, &project_file, "project", "2MiB");
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    let violation = first(&violations(&place, act));
    assert_eq!((&violation["file"], &violation["line"]), (&json!(project_file), &json!(1)));
    place.write("project/.stockade/settings.json", r#"{"sandbox":{"limits":{"fileSize":"4MiB"}}}"#);
    assert_eq!(run(&place, act), (Some(0), String::new()));
    place.write("project/.stockade/settings.json", r#"{"sandbox":{"limits":{"fileSize":"1GiB"}}}"#);
    set("2MiB");
    let (_, stderr) = run(&place, act);
    let expected = told(2 << 20, &user_file, "user", "4MiB");
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    // An invalid limit is refused where it stands, and nothing runs.
    set("much");
    let (status, stderr) = run(&place, act);
    assert_eq!(status, Some(122), "{stderr}");
}

#[test]
fn memory_that_one_program_asks_for_is_told_and_the_line_raises_it() {
    let place = Place::new("told-memory");
    let set = |value: &str| user(&place, &json!({"sandbox": {"limits": {"memory": value}}}));
    // A program that has it waits to be ended.
    let act = "perl -e 'vec($x, 300 << 20, 8) = 1; sleep $ARGV[0]'";
    set("200MiB");
    let (status, stderr) = run(&place, &format!("{act} 60"));
    let file = place.home().join(".config/stockade/settings.json").display().to_string();
    let expected = format!(
        "stockade: reached the limit memory of 209715200 bytes by sandbox.limits.memory 209715200 ({file}:1, user); \
         to allow: sandbox.limits.memory: \"400MiB\" (user settings)"
    );
    assert_eq!(status, Some(137), "{stderr}");
    assert!(stderr.lines().any(|line| line == expected), "{stderr}");
    set("400MiB");
    assert_eq!(run(&place, &format!("{act} 0")), (Some(0), String::new()));
}

#[test]
fn a_configuration_that_was_planted_is_put_aside_told_and_recorded() {
    let place = Place::new("told-planted");
    if Command::new("git").arg("--version").output().is_err() {
        return skip("a_configuration_that_was_planted", "git is not installed");
    }
    let act = "git init -q new && echo '[core] fsmonitor = touch ran' >> new/.git/config";
    let (status, stderr) = run(&place, act);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.starts_with("stockade: found core.fsmonitor in "), "{stderr}");
    // The planted configuration is the one thing told, whatever else was refused.
    let other = "echo x > /etc/made-by-the-test; git init -q b && echo '[core] fsmonitor = x' >> b/.git/config; exit 3";
    let (status, stderr) = run(&place, other);
    let own = stderr.lines().find(|line| line.starts_with("stockade: ")).unwrap_or_default();
    assert!(status == Some(3) && own.starts_with("stockade: found core.fsmonitor in "), "{stderr}");
    let aside = place.project().join("new/.git/config.refused");
    assert!(aside.exists() && !place.project().join("new/.git/config").exists());
    let log = text(&place.output(["audit", "show", "--json"]).stdout)
        + &text(&place.output(["audit", "tail", "--json"]).stdout);
    if !log.contains("planted core.fsmonitor") {
        // The words of the log's own commands may change; the file itself holds the record.
        let mut found = false;
        let mut open = vec![place.state()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => open.push(entry.path()),
                    false => {
                        let bytes = std::fs::read(entry.path()).unwrap_or_default();
                        found |= text(&bytes).contains("planted core.fsmonitor");
                    }
                }
            }
        }
        assert!(found, "{log}");
    }
}

/// Runs stockade where no user namespace can be made.
fn without_namespaces(place: &Place, line: &str) -> Output {
    without_namespaces_do(place, &["run", "--no-daemon", "--", line])
}

fn without_namespaces_do(place: &Place, words: &[&str]) -> Output {
    let inner = place.stockade(words.iter().copied());
    let mut command = Command::new("unshare");
    command.args([
        "-Ur",
        "bash",
        "-c",
        "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"",
        "bash",
    ]);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(place.project())
        .env_clear();
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.output().expect("unshare")
}

#[test]
fn without_namespaces_nothing_runs_and_the_sysctl_is_named() {
    let place = Place::new("no-namespaces");
    let output = without_namespaces(&place, "touch ran.txt");
    let stderr = text(&output.stderr);
    if stderr.contains("unshare:") {
        return skip(
            "without_namespaces_nothing_runs",
            "no user namespace can be made to hide them in",
        );
    }
    assert_eq!(output.status.code(), Some(122), "{stderr}");
    assert!(stderr.contains("user.max_user_namespaces"), "{stderr}");
    assert!(!place.project().join("ran.txt").exists());
}

#[test]
fn without_namespaces_ordinary_work_goes_on_around_what_is_denied() {
    let name = "without_namespaces_ordinary_work_goes_on_around_what_is_denied";
    let place = Place::new("work-with-less");
    user(
        &place,
        &json!({
            "sandbox": {"failIfUnavailable": false, "filesystem": {"denyWrite": ["./config"]}},
            "permissions": {"allow": ["Bash", "Edit"]}
        }),
    );
    place.write("project/config", "kept");
    let script = "echo new > new; cat new; ls /etc/passwd; ls /etc > list && grep -x passwd list
        python3 -c 'import multiprocessing; multiprocessing.Lock(); print(1)'
        chmod 600 config || echo no; mv config gone || echo no; echo y > config || echo no";
    place.write("project/act.sh", script);
    let output = without_namespaces(&place, "bash act.sh");
    let stderr = text(&output.stderr);
    if stderr.contains("unshare:") {
        return skip(name, "no user namespace can be made to hide them in");
    }
    assert_eq!(text(&output.stdout), "new\n/etc/passwd\npasswd\n1\nno\nno\nno\n", "{stderr}");
    assert_eq!(std::fs::read_to_string(place.project().join("config")).expect("it"), "kept");
}

#[test]
fn doctor_says_what_is_enforced_without_namespaces() {
    let place = Place::new("doctor-without-namespaces");
    let output = without_namespaces_do(&place, &["doctor", "--json"]);
    if text(&output.stderr).contains("unshare:") {
        return skip(
            "doctor_says_what_is_enforced_without_namespaces",
            "no user namespace can be made to hide them in",
        );
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let states: Vec<(&str, &str)> = report["protections"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (it["name"].as_str().unwrap_or(""), it["state"].as_str().unwrap_or("")))
        .collect();
    let expected = [
        ("write-outside", "enforced"),
        ("metadata-outside", "partial"),
        ("protected", "partial"),
        ("no-read", "enforced"),
        ("hidden-names", "missing"),
        ("network", "enforced"),
        ("loopback", "missing"),
        ("unix-sockets", "enforced"),
        ("processes", "partial"),
        ("ipc", "enforced"),
        ("keyring", "enforced"),
        ("kernel-settings", "enforced"),
        ("privilege", "enforced"),
        ("syscalls", "enforced"),
        ("limits", "partial"),
        ("env", "enforced"),
        ("fds", "enforced"),
        ("tty", "enforced"),
        ("survivors", "partial"),
    ];
    assert_eq!(states, expected, "{report}");
    assert_eq!((&report["ok"], &report["lacks_namespaces"]), (&json!(false), &json!(true)));
    assert_eq!(report["lacking"], json!(["protected", "survivors"]), "{report}");
    let told = text(&without_namespaces_do(&place, &["doctor"]).stdout);
    assert!(told.contains("protections of a command without namespaces"), "{told}");
}

#[test]
fn without_namespaces_a_command_runs_with_less_only_when_the_settings_accept_it() {
    let place = Place::new("accepts-less");
    user(
        &place,
        &json!({"sandbox": {"failIfUnavailable": false}, "permissions": {"allow": ["Bash"]}}),
    );
    place.write(
        "project/act.sh",
        "echo in > in.txt; cat in.txt; echo out > ~/out.txt; exec 3<>/dev/tcp/127.0.0.1/1",
    );
    let output = without_namespaces(&place, "bash act.sh");
    let stderr = text(&output.stderr);
    if stderr.contains("unshare:") {
        return skip(
            "without_namespaces_a_command_runs_with_less",
            "no user namespace can be made to hide them in",
        );
    }
    assert_eq!(text(&output.stdout), "in\n", "{stderr}");
    assert!(!place.home().join("out.txt").exists());
    for part in ["not enforced here: ", "metadata-outside", "protected", "hidden-names", "loopback"]
    {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    // A command that the sandbox would have allowed by itself needs a person.
    user(&place, &json!({"sandbox": {"failIfUnavailable": false}}));
    let output = without_namespaces(&place, "touch asked.txt");
    assert_eq!(output.status.code(), Some(121), "{}", text(&output.stderr));
    assert!(!place.project().join("asked.txt").exists());
}

#[test]
fn stockade_runs_inside_itself_with_less_when_the_settings_accept_it() {
    let place = Place::new("nested");
    user(
        &place,
        &json!({"sandbox": {"failIfUnavailable": false}, "permissions": {"allow": ["Bash"]}}),
    );
    place.write("project/inner.sh", "echo inner > inner.txt; cat inner.txt; echo x > ~/out.txt");
    place.write(
        "project/outer.sh",
        &format!(
            "mkdir -p /tmp/run; export XDG_RUNTIME_DIR=/tmp/run; \
             {} run --no-daemon --state-dir /tmp/state -- 'bash inner.sh'",
            stockade_tests::stockade_word()
        ),
    );
    let output = place.output(["run", "--no-daemon", "--", "bash outer.sh"]);
    assert_eq!(text(&output.stdout), "inner\n", "{}", text(&output.stderr));
    assert!(!place.home().join("out.txt").exists());
    assert!(Path::new(&place.project().join("inner.txt")).exists());
}
