//! A command to which an agent's person said yes runs once, for the agent that asked, as long as nothing changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use serde_json::{Value, json};
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, stockade};

/// Acts of the agent: its hook gets a frame, and the answer holds a line to run.
const AGENT: &str = r#"
hook() { "$GATE" hook claude --rewrite < "../frame-$1" > ../answer; }
line() { python3 -c 'import json; print(json.load(open("../answer"))["hookSpecificOutput"]["updatedInput"]["command"])'; }
run() { "${AGENT_SHELL:-bash}" -c "$1" > ../told 2>&1; echo "$?"; }
"#;

fn place(name: &str) -> Place {
    let place = Place::new(name);
    let careful = json!({ "sandbox": { "autoAllowBashIfSandboxed": false } });
    place.write("home/.config/stockade/settings.json", &careful.to_string());
    symlink(stockade(), place.root.join("bash")).expect("a link");
    place
}

fn frame(place: &Place, name: &str, command: &str) {
    let frame = json!({ "session_id": "s", "cwd": place.project(), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": command }, "tool_use_id": "t" });
    place.write(&format!("frame-{name}"), &frame.to_string());
}

/// Has a process that is the agent do these steps; its shell is our own where `ours` says so.
fn agent(place: &Place, ours: bool, steps: &str) -> Vec<String> {
    place.write("agent.sh", &format!("{AGENT}\n{steps}\ntrue\n"));
    let plain = place.stockade([""; 0]);
    let mut command = Command::new("bash");
    command.arg(place.root.join("agent.sh")).current_dir(place.project()).env_clear();
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env("GATE", stockade());
    if ours {
        command.env("AGENT_SHELL", place.root.join("bash"));
    }
    let output = command.output().expect("bash");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(str::to_owned).collect()
}

fn told(place: &Place) -> String {
    fs::read_to_string(place.root.join("told")).unwrap_or_default()
}

#[test]
fn a_yes_runs_what_was_shown_once() {
    for (ours, stays) in [(false, false), (true, false), (false, true), (true, true)] {
        let place = place("shown");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "made", "touch made.txt");
        frame(&place, "other", "touch other.txt");
        let at = format!("shell of ours: {ours}, a gateway that stays: {stays}");
        let out =
            agent(&place, ours, "hook made; L=$(line); run \"$L\"; rm -f made.txt; run \"$L\"");
        assert_eq!(out, ["0", "121"], "{at}: {}", told(&place));
        let answer = fs::read(place.root.join("answer")).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "ask");
        // Another text, another number and no number are another question.
        let other = "hook made; L=$(line); run \"${L/made.txt/made2.txt}\"; run \"$L\"";
        assert_eq!(agent(&place, ours, other), ["121", "0"], "{at}: {}", told(&place));
        let number = "hook made; L=$(line); N=$(echo \"$L\" | sed \"s/--asked' '[0-9a-f]*'/--asked' '0'/\"); \
                      B=$(echo \"$L\" | sed \"s/'--asked' '[0-9a-f]*' //\"); run \"$N\"; run \"$B\"; run 'touch x && '\"$L\"";
        fs::remove_file(place.project().join("made.txt")).expect("it was made");
        let out = agent(&place, ours, number);
        assert_eq!(
            out.get(..2),
            Some(&["121".to_owned(), "121".to_owned()][..]),
            "{at}: {}",
            told(&place)
        );
        // The agent's next call means that the answer was no.
        let out = agent(&place, ours, "hook made; L=$(line); hook other; run \"$L\"");
        assert_eq!(out, ["121"], "{at}: {}", told(&place));
        let found = ["made2.txt", "other.txt"].iter().any(|it| place.project().join(it).exists());
        assert!(!found, "{at}");
    }
}

#[test]
fn only_the_agent_itself_spends_a_yes() {
    for stays in [false, true] {
        let place = place("spent");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "made", "touch made.txt");
        // A program that the agent started, and one that it left behind.
        let by_child = "hook made; line > ../line; bash ../child.sh";
        place.write("child.sh", "bash -c \"$(cat ../line)\" > ../told 2>&1; echo $?\n");
        assert_eq!(agent(&place, false, by_child), ["121"], "{stays}: {}", told(&place));
        assert!(!place.project().join("made.txt").exists());
        // The yes is nobody's then.
        let after = format!("{by_child}; run \"$(cat ../line)\"");
        assert_eq!(agent(&place, false, &after), ["121", "121"], "{stays}: {}", told(&place));
        // Through a shell that only carries out the line it is the agent's.
        let through =
            "hook made; line > ../line; sh -c 'bash -c \"$(cat ../line)\" > ../told 2>&1; echo $?'";
        assert_eq!(agent(&place, false, through), ["0"], "{stays}: {}", told(&place));
    }
}

#[test]
fn what_changed_while_a_person_was_asked_is_asked_anew() {
    let place = place("changed");
    place.write("project/x.sh", "touch made.txt\n");
    place.write("project/sub/y.sh", "touch ../made.txt\n");
    place.write("project/same.sh", "true\n");
    for (text, change, expected) in [
        ("bash x.sh", "true", "0"),
        ("bash x.sh", "echo 'touch evil' > x.sh", "121"),
        ("bash x.sh", "echo 'touch evil' > new; mv new x.sh", "121"),
        ("bash x.sh", "mv x.sh real.sh; ln -s same.sh x.sh", "121"),
        ("bash x.sh", "rm x.sh", "121"),
        ("bash < x.sh", "echo 'touch evil' > x.sh", "121"),
        ("env A=b bash ./x.sh", "echo 'touch evil' > x.sh", "121"),
        ("cd sub && bash y.sh", "echo 'touch evil' > sub/y.sh", "121"),
        ("cd sub && bash y.sh", "echo 'touch evil' > x.sh", "0"),
        ("python3 later.py", "echo 'open(\"evil\", \"w\")' > later.py", "121"),
        (
            "touch made.txt",
            "echo '{\"sandbox\": {\"autoAllowBashIfSandboxed\": false, \"network\": {\"enabled\": false}}}' > \"$HOME/.config/stockade/settings.json\"",
            "121",
        ),
    ] {
        for (file, content) in [("x.sh", "touch made.txt\n"), ("sub/y.sh", "touch ../made.txt\n")] {
            let _ = fs::remove_file(place.project().join(file)); // it may be a link
            place.write(&format!("project/{file}"), content);
        }
        frame(&place, "made", text);
        let out = agent(&place, false, &format!("hook made; L=$(line); {change}; run \"$L\""));
        assert_eq!(out, [expected], "{text}: {change}: {}", told(&place));
        assert!(!place.project().join("evil").exists(), "{text}: {change}");
    }
}

#[test]
fn what_a_text_executes_without_naming_it_is_part_of_the_question() {
    let evil = |file: &str| format!("echo 'touch evil' > {file}");
    for (text, change, expected) in [
        ("bash *.sh", "true", "0"),
        ("bash *.sh", "echo note > notes.txt; rm notes.txt", "0"),
        ("bash *.sh", &evil("x.sh"), "121"),
        ("bash *.sh", &evil("a.sh"), "121"),
        ("bash < *.sh", &evil("x.sh"), "121"),
        ("./*.sh", &evil("x.sh"), "121"),
        (". ./*.sh", &evil("x.sh"), "121"),
        ("f=x.sh; bash $f", &evil("x.sh"), "121"),
        ("f=x; bash ./$f.sh", &evil("x.sh"), "121"),
        ("f=x; bash ./$f.sh", "echo note > notes.txt", "0"),
        ("for f in x.sh; do bash $f; done", &evil("x.sh"), "121"),
        ("bash $(cat name)", "true", "0"),
        ("bash $(cat name)", &evil("x.sh"), "121"),
        ("bash $(cat name)", &evil("sub/z.sh"), "121"),
        ("cat name | xargs bash", &evil("x.sh"), "121"),
        ("find . -name 'x*' -exec bash {} \\;", &evil("x.sh"), "121"),
        ("cp s*/y.sh copy", &evil("sub/y.sh"), "121"),
        ("cp *.sh copies", &evil("x.sh"), "121"),
        ("[ -f x.sh ] && touch made.txt", "echo note > notes.txt", "0"),
        ("make", "true", "0"),
        ("make", "echo note > notes.txt", "0"),
        ("make", "printf 'all:\\n\\ttouch evil\\n' > Makefile", "121"),
        ("make", "printf 'all:\\n\\ttouch evil\\n' > GNUmakefile", "121"),
        ("make -C sub", "printf 'all:\\n\\ttouch evil\\n' > sub/Makefile", "121"),
        ("python3 main.py", "true", "0"),
        ("python3 main.py", &evil("helper.py"), "121"),
        ("python3 -m sub", &evil("sub/__main__.py"), "121"),
        ("./main.py", &evil("helper.py"), "121"),
        ("perl -I. main.pl", &evil("Helper.pm"), "121"),
        ("python3 --version", "echo note > notes.txt", "0"),
        ("npm test", "echo '{\"scripts\":{\"test\":\"touch evil\"}}' > package.json", "121"),
    ] {
        let place = place("executed");
        let careful = json!({ "sandbox": { "autoAllowBashIfSandboxed": false },
            "permissions": { "ask": ["Bash"] } });
        place.write("home/.config/stockade/settings.json", &careful.to_string());
        place.write("project/x.sh", "touch made.txt\n");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.project().join("x.sh"), executable).expect("chmod");
        place.write("project/main.py", "#!/usr/bin/env python3\nimport helper\n");
        fs::set_permissions(place.project().join("main.py"), fs::Permissions::from_mode(0o755))
            .expect("chmod");
        place.write("project/helper.py", "");
        place.write("project/main.pl", "use Helper;\n");
        place.write("project/Helper.pm", "1;\n");
        place.write("project/sub/__main__.py", "");
        place.write("project/sub/y.sh", "true\n");
        place.write("project/name", "x.sh\n");
        place.write("project/copies/old", "");
        place.write("project/Makefile", "all:\n\ttrue\n");
        place.write("project/sub/Makefile", "all:\n\ttrue\n");
        place.write("project/package.json", "{\"scripts\":{\"test\":\"true\"}}");
        frame(&place, "made", text);
        let out = agent(&place, false, &format!("hook made; L=$(line); {change}; run \"$L\""));
        assert_eq!(out, [expected], "{text}: {change}: {}", told(&place));
        assert!(!place.project().join("evil").exists(), "{text}: {change}");
    }
}

#[test]
fn a_path_in_the_temporary_directory_is_that_of_the_session() {
    for stays in [false, true] {
        let place = place("private");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "begin", "echo 'touch made.txt' > /tmp/x.sh; ln -s /tmp/x.sh /tmp/y.sh");
        assert_eq!(agent(&place, false, "hook begin; run \"$(line)\""), ["0"], "{}", told(&place));
        let own = fs::read_dir(place.state().join("tmp")).expect("the directories");
        let own = own.map(|entry| entry.expect("an entry").path().join("x.sh"));
        let own = own.filter(|it| it.is_file()).collect::<Vec<_>>();
        let [own] = own.as_slice() else { panic!("one session: {own:?}") };
        // A command that the session left running may do this while the person thinks.
        let evil = format!("echo 'touch evil' > {}", own.display());
        for (text, change, expected) in [
            ("bash /tmp/x.sh", "true", "0"),
            ("bash /tmp/x.sh", evil.as_str(), "121"),
            ("bash /tmp/y.sh", &evil, "121"),
            ("bash /var/tmp/x.sh", &evil, "121"),
            ("bash $(echo /tmp/)x.sh", &evil, "121"),
            ("cd /tmp && bash x.sh", &evil, "121"),
            ("touch made.txt", &evil, "0"),
        ] {
            frame(&place, "made", text);
            fs::write(own, "touch made.txt\n").expect("it is there");
            let steps = format!("hook made; L=$(line); {change}; run \"$L\"");
            let out = agent(&place, false, &steps);
            assert_eq!(out, [expected], "{stays}: {text}: {change}: {}", told(&place));
            assert!(!place.project().join("evil").exists(), "{stays}: {text}: {change}");
        }
    }
}

/// A builder that the person lets out of the sandbox, and the mark that shows that it ran there.
fn builder(name: &str) -> Place {
    let place = place(name);
    let settings = json!({
        "sandbox": { "excludedCommands": ["make:*", "just:*"] },
        "permissions": { "allow": ["Bash(make:*)", "Bash(just:*)"] },
    });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let mark = place.home().join("mark");
    place.write("project/Makefile", &format!("all:\n\t@echo ran >> {}\n", mark.display()));
    place
}

/// How often the builder ran outside of the sandbox.
fn runs(place: &Place) -> usize {
    fs::read_to_string(place.home().join("mark")).unwrap_or_default().lines().count()
}

/// Runs a command where nobody can be asked.
fn unasked(place: &Place, line: &str) -> (Option<i32>, String) {
    let output = place.output(["run", line]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs a command whose question a person answers with yes; false where there is no terminal.
fn asked(test: &str, place: &Place, line: &str) -> bool {
    let Some(mut terminal) = Terminal::start(place, stockade(), &["run", line]) else {
        stockade_tests::skip(test, "no terminal");
        return false;
    };
    terminal.wait_for("deny: ");
    terminal.press("once\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("`Makefile` has changes that nobody has approved"), "{screen}");
    true
}

#[test]
fn a_builder_outside_asks_again_when_what_it_executes_changed() {
    let test = "a_builder_outside_asks_again_when_what_it_executes_changed";
    let place = builder("builder");
    // The rule lets it run, as often as it likes.
    for count in 1..=2 {
        assert_eq!(unasked(&place, "make").0, Some(0));
        assert_eq!(runs(&place), count);
    }
    let confined = |line: &str| {
        let (status, stderr) = unasked(&place, line);
        assert_eq!(status, Some(0), "{line}: {stderr}");
    };
    let refused = |line: &str, count: usize| {
        let (status, stderr) = unasked(&place, line);
        assert_eq!(status, Some(121), "{line} {count}: {stderr}");
        assert_eq!(runs(&place), count, "{line}");
        stderr
    };
    confined("echo \"$(sed s/ran/evil/ Makefile)\" > other; cat other >> notes");
    assert_eq!(unasked(&place, "make").0, Some(0));
    confined("sed -i 's/echo ran/echo evil/' Makefile");
    let told = refused("make", 3);
    let expected = "`make` runs code of the project outside of the sandbox, and `Makefile` has changes that nobody has \
                    approved (`sed -i 's/echo ran/echo evil/' Makefile` wrote it); `stockade review` shows the changes";
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("`stockade review --done` at a terminal"), "{told}");
    // By any name, beside other commands, and from elsewhere.
    for line in ["/usr/bin/make", "make all", "make clean; make", "make -f Makefile all"] {
        refused(line, 3);
    }
    let elsewhere = place.root.join("elsewhere");
    place.repository(&elsewhere);
    for line in ["make -C ../project", "make -C../project", "make --directory=../project"] {
        let mut command = place.stockade(["run", line]);
        let output = command.current_dir(&elsewhere).output().expect("it starts");
        assert_eq!(output.status.code(), Some(121), "{line}");
    }
    // A file that is as it was needs no yes.
    confined("sed -i 's/echo evil/echo ran/' Makefile");
    assert_eq!(unasked(&place, "make").0, Some(0));
    confined("sed -i 's/echo ran/echo new/' Makefile");
    refused("make", 4);
    if !asked(test, &place, "make") {
        return;
    }
    // One yes is enough, for this builder and for what was there.
    assert_eq!(unasked(&place, "make").0, Some(0));
    assert_eq!(runs(&place), 6);
    assert_eq!(unasked(&place, "just").0, Some(121));
    confined("echo '# one more' >> Makefile");
    refused("make", 6);
    // A look is one as well, and so is what the person wrote.
    let mut terminal =
        Terminal::start(&place, stockade(), &["review", "--done"]).expect("as before");
    terminal.wait_for("reviewed? yes, no:");
    terminal.press("yes\n");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(unasked(&place, "make").0, Some(0));
    place.write("project/package.json", "{}\n");
    assert_eq!(unasked(&place, "make").0, Some(0));
    // A journal that cannot be read is a change.
    fs::write(place.state().join("review/ledger.json"), "{").expect("it is written");
    assert!(refused("make", 8).contains("the changes to its files are not known"));
}

#[test]
fn the_yes_of_an_agents_person_is_one_for_a_builder_and_only_for_what_was_shown() {
    for stays in [false, true] {
        let place = builder("builder-agent");
        let _gateway = stays.then(|| Gateway::start(&place));
        frame(&place, "make", "make");
        frame(&place, "write", "echo '# x' >> Makefile");
        let write = "hook write; run \"$(line)\"";
        let out = agent(
            &place,
            false,
            &format!("{write}; hook make; run \"$(line)\"; run '\"$GATE\" run make'"),
        );
        assert_eq!(out, ["0", "0", "0"], "{stays}: {}", told(&place));
        assert_eq!(runs(&place), 2, "{stays}");
        // Changed between question and yes: neither runs nor counts as a yes.
        let meanwhile = format!(
            "{write}; hook make; L=$(line); {}; run \"$L\"",
            "\"$GATE\" run 'echo y >> build.rs'"
        );
        let out = agent(&place, false, &format!("{meanwhile}; run '\"$GATE\" run make'"));
        assert_eq!(out, ["0", "121", "121"], "{stays}: {}", told(&place));
        assert_eq!(runs(&place), 2, "{stays}");
    }
}
