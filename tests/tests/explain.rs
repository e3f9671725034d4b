//! `check --explain`: the evidence for a verdict, and the same words at every front door.

use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use stockade_tests::Place;

/// A place with these user settings; without the sandbox every part needs a reason of its own.
fn place(name: &str, permissions: &str) -> Place {
    let place = Place::new(name);
    let text =
        format!("{{\n\"sandbox\": {{\"enabled\": false}},\n\"permissions\": {permissions}\n}}\n");
    place.write("home/.config/stockade/settings.json", &text);
    place
}

fn text(bytes: &[u8], place: &Place) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let text = text.replace(&place.project().display().to_string(), "PROJECT");
    let text = text.replace(&place.home().display().to_string(), "HOME");
    text.replace(&place.root.display().to_string(), "ROOT")
}

fn explained(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let output = place.output(["check", "--no-daemon", "--explain"].iter().chain(arguments));
    (output.status.code(), text(&output.stderr, place))
}

fn check(place: &Place, status: i32, command: &str, expected: Expect) {
    let (found, told) = explained(place, &[command]);
    expected.assert_eq(&told);
    assert_eq!(found, Some(status), "{told}");
}

#[test]
fn a_denial_names_the_winner_with_its_column_and_what_lost() {
    let place = place(
        "explain-deny",
        "{\n\"allow\": [\"Bash(cat:*)\", \"Bash(curl x)\"],\n\"ask\": [\"Bash(curl *)\"],\n\"deny\": [\"Bash(wget *)\", \"Bash(curl:*)\"]}",
    );
    place.write("project/notes.txt", "x");
    check(
        &place,
        120,
        "cat notes.txt | LANG=C timeout 5 cu\"rl\"  x",
        expect![[r#"
            stockade: denied `curl x` (third of 3 parts)
              by deny rule `Bash(curl:*)` in HOME/.config/stockade/settings.json:6
              try: ask the owner of that file, or remove this part
            part 1 of 3, `cat notes.txt`: allowed
              because of the allow rule `Bash(cat:*)` in HOME/.config/stockade/settings.json:4:11: it matches
              compared: cat notes.txt
              reads: `notes.txt` = `PROJECT/notes.txt`
            part 2 of 3, `LANG=C timeout 5 cu"rl"  x`: allowed
              because the command inside is judged
              as typed: LANG=C timeout 5 cu"rl"  x
              compared: timeout 5 curl x
              ignored: the assignment of `LANG`
            part 3 of 3, `curl x`: denied
              because of the deny rule `Bash(curl:*)` in HOME/.config/stockade/settings.json:6:26: it matches
              as typed: cu"rl"  x
              compared: curl x
              found inside: `timeout`; rules look through it
              lost: ask rule `Bash(curl *)` in HOME/.config/stockade/settings.json:5:9: deny overrides ask
              lost: allow rule `Bash(curl x)` in HOME/.config/stockade/settings.json:4:26: deny overrides allow
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: without `Bash(curl:*)` in HOME/.config/stockade/settings.json:6:26; tried, and then it is asked
        "#]],
    );
}

#[test]
fn a_question_names_the_rule_that_came_near_and_the_one_that_would_do() {
    let place = place("explain-ask", "{\"allow\": [\"Bash(find *)\", \"Bash(git log *)\"]}");
    check(
        &place,
        121,
        "find . -name x -exec touch {} +",
        expect![[r#"
            stockade: needs a person: `find . -name x -exec touch {} +` (first of 2 parts)
              because no rule allows it
              try: a person can allow it once, or rules for each part can
            part 1 of 2, `find . -name x -exec touch {} +`: asked
              because no rule allows it
              compared: find . -name x -exec touch {} +
              reads: `.` = `PROJECT`
              lost: allow rule `Bash(find *)` in HOME/.config/stockade/settings.json:3:27: a wildcard does not cover that it starts `touch +`; an exact rule does
            part 2 of 2, `touch +`: asked
              because no rule allows it
              as typed: touch {} +
              compared: touch +
              found inside: `find`; which is also judged
              writes: `+`, not known before it runs
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: the allow rule `Bash(find . -name x -exec touch {} +)` in .stockade/settings.local.json; tried, and then it is allowed
        "#]],
    );
    check(
        &place,
        121,
        "git -C /elsewhere log; git push > out.txt",
        expect![[r#"
        stockade: needs a person: `git -C /elsewhere log` (first of 3 parts)
          because no rule allows it
          try: a person can allow it once, or rules for each part can
        part 1 of 3, `git -C /elsewhere log`: asked
          because no rule allows it
          compared: git -C /elsewhere log
          reads: `/elsewhere` = `/elsewhere`
          lost: allow rule `Bash(git log *)` in HOME/.config/stockade/settings.json:3:43: the words are others
        part 2 of 3, `git push > out.txt`: asked
          because no rule allows it
          as typed: git push > out.txt
          compared: git push
          lost: allow rule `Bash(git log *)` in HOME/.config/stockade/settings.json:3:43: the words are others
        part 3 of 3, `> out.txt`: asked
          because no Edit rule allows this file
          writes: `out.txt` = `PROJECT/out.txt`
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: the allow rules `Bash(git -C /elsewhere log)`, `Bash(git push)`, `Edit(/PROJECT/out.txt)` in .stockade/settings.local.json; tried, and then it is allowed
    "#]],
    );
}

#[test]
fn what_no_rule_changes_is_said() {
    let place = place("explain-none", "{\"allow\": [\"Bash(rm *)\"], \"deny\": [\"Bash(dd *)\"]}");
    check(
        &place,
        121,
        "rm -rf /",
        expect![[r#"
            stockade: needs a person: `rm -rf /`
              because `rm` on `/` always needs a person
              try: specify a path below it
            `rm -rf /`: asked
              because `rm` on `/` always needs a person
              compared: rm -rf /
              writes: `/` = `/`
              lost: allow rule `Bash(rm *)` in HOME/.config/stockade/settings.json:3:27: a wildcard does not cover `/`, which writes a file
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: none; `rm` on `/` always needs a person; no allow rule changes that
        "#]],
    );
    check(
        &place,
        121,
        "echo x > .git/hooks/pre-commit",
        expect![[r#"
        stockade: needs a person: `> .git/hooks/pre-commit` (second of 2 parts)
          because `.git` is a protected path
          try: a person can allow it once; no allow rule does
        part 1 of 2, `echo x > .git/hooks/pre-commit`: allowed
          because it only reads
          as typed: echo x > .git/hooks/pre-commit
          compared: echo x
        part 2 of 2, `> .git/hooks/pre-commit`: asked
          because `.git` is a protected path
          writes: `.git/hooks/pre-commit` = `PROJECT/.git/hooks/pre-commit`
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: none; `.git` is a protected path; no allow rule changes that
    "#]],
    );
    check(
        &place,
        121,
        "$PLAN",
        expect![[r#"
            stockade: needs a person: `$PLAN` (first of 2 parts)
              by deny rule `Bash(dd *)` in HOME/.config/stockade/settings.json:3, which a word that is not known before it runs could match
              try: a person can allow it once; no allow rule overrides this one
            part 1 of 2, `$PLAN`: asked
              because of the deny rule `Bash(dd *)` in HOME/.config/stockade/settings.json:3:51: a word that is not known before it runs could make it match
              compared: $PLAN
            part 2 of 2, `$PLAN`: asked
              because not understood: the program is chosen while the text runs (`the name of the program is not known`), so deny and ask rules cannot be checked
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: none; removing rules is not enough: no rule allows it
        "#]],
    );
}

#[test]
fn an_allowed_call_names_what_would_refuse_it() {
    let place = place("explain-allow", "{\"allow\": [\"Bash(make *)\"]}");
    check(
        &place,
        0,
        "make test",
        expect![[r#"
            stockade: allowed `make test`
              by allow rule `Bash(make *)` in HOME/.config/stockade/settings.json:3
            `make test`: allowed
              because of the allow rule `Bash(make *)` in HOME/.config/stockade/settings.json:3:27: it matches
              compared: make test
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: the deny rule `Bash(make test)` in .stockade/settings.local.json; tried, and then it is denied
        "#]],
    );
    check(
        &place,
        0,
        "ls -la",
        expect![[r#"
        stockade: allowed `ls -la`
          because it only reads
        `ls -la`: allowed
          because it only reads
          compared: ls -la
        mode: default
        sandbox: off, so nothing is allowed for being sandboxed
        smallest change: the deny rule `Bash(ls -la)` in .stockade/settings.local.json; tried, and then it is denied
    "#]],
    );
}

#[test]
fn links_are_followed_and_every_name_is_shown() {
    let place = place("explain-link", "{\"deny\": [\"Read(./secret.txt)\"]}");
    place.write("project/secret.txt", "x");
    std::os::unix::fs::symlink("secret.txt", place.project().join("plain.txt")).expect("a link");
    check(
        &place,
        120,
        "cat plain.txt",
        expect![[r#"
            stockade: denied `cat plain.txt`
              by deny rule `Read(./secret.txt)` in HOME/.config/stockade/settings.json:3
              try: ask the owner of that file, or remove this part
            `cat plain.txt`: denied
              because of the deny rule `Read(./secret.txt)` in HOME/.config/stockade/settings.json:3:26: it matches
              compared: cat plain.txt
              reads: `plain.txt` = `PROJECT/plain.txt` -> `PROJECT/secret.txt`
            mode: default
            sandbox: off, so nothing is allowed for being sandboxed
            smallest change: without `Read(./secret.txt)` in HOME/.config/stockade/settings.json:3:26; tried, and then it is allowed
        "#]],
    );
}

#[test]
fn removers_are_held_against_links_below_each_directory_they_may_run_in() {
    let place = place("explain-remover-link", "{\"allow\": [\"Bash\"]}");
    std::os::unix::fs::symlink(".git", place.project().join("link")).expect("a link");
    place.write("project/plain/refs/x", "x");
    let reason = |command: &str| {
        let (_, told) = explained(&place, &[command]);
        told.lines().next().unwrap_or_default().to_owned()
            + told.lines().find(|line| line.contains("because")).unwrap_or_default()
    };
    let cases = [
        "(cd link; rm -rf refs)",
        "rm -rf $PWD/link/refs",
        "rm -rf \"$(git rev-parse --show-toplevel)/link/refs\"",
        "xargs rm -rf <<< link/refs",
        "(cd plain; rm -rf refs)",
        "rm -rf $PWD/plain/refs",
    ];
    let told: Vec<String> =
        cases.iter().map(|case| format!("{case}: {}\n", reason(case))).collect();
    expect![[r#"
        (cd link; rm -rf refs): stockade: needs a person: `rm -rf refs` (second of 2 parts)  because `rm` on `PROJECT/.git/refs` always needs a person
        rm -rf $PWD/link/refs: stockade: needs a person: `rm -rf $PWD/link/refs`  because `rm` on `PROJECT/.git/refs` always needs a person
        rm -rf "$(git rev-parse --show-toplevel)/link/refs": stockade: needs a person: `rm -rf "$(git rev-parse --show-toplevel)/link/refs"` (first of 2 parts)  because `rm` on `PROJECT/.git/refs` always needs a person
        xargs rm -rf <<< link/refs: stockade: needs a person: `rm -rf -rf` (second of 2 parts)  because `rm` on `PROJECT/.git/refs` always needs a person
        (cd plain; rm -rf refs): stockade: allowed `(cd plain; rm -rf refs)`  because of the allow rule `Bash` in HOME/.config/stockade/settings.json:3:27: it matches
        rm -rf $PWD/plain/refs: stockade: allowed `rm -rf $PWD/plain/refs`  because of the allow rule `Bash` in HOME/.config/stockade/settings.json:3:27: it matches
    "#]].assert_eq(&told.concat());
}

#[test]
fn mode_and_sandbox_are_among_the_reasons() {
    let place = Place::new("explain-sandbox");
    place.write(
        "home/.config/stockade/settings.json",
        "{\"permissions\": {\"ask\": [\"Bash\"], \"allow\": [\"Bash(make *)\"], \"disableBypassPermissionsMode\": \"disable\"}}",
    );
    let (status, told) = explained(&place, &["make test"]);
    assert_eq!(status, Some(0), "{told}");
    expect![[r#"
        stockade: allowed `make test`
          by allow rule `Bash(make *)` in HOME/.config/stockade/settings.json:1
        `make test`: allowed
          because of the allow rule `Bash(make *)` in HOME/.config/stockade/settings.json:1:45: it matches
          compared: make test
          lost: ask rule `Bash` in HOME/.config/stockade/settings.json:1:26: the command runs sandboxed, which satisfies rules that ask about every command
        mode: default
        sandbox: on; sandboxed commands need no rule
        smallest change: the deny rule `Bash(make test)` in .stockade/settings.local.json; tried, and then it is denied
    "#]].assert_eq(&told);
    let (status, told) = explained(&place, &["--permission-mode", "plan", "make test"]);
    assert_eq!(status, Some(121), "{told}");
    expect![[r#"
        stockade: needs a person: `make test`
          by ask rule `Bash` in HOME/.config/stockade/settings.json:1
          try: a person can allow it once; no allow rule overrides this one
        `make test`: asked
          because of the ask rule `Bash` in HOME/.config/stockade/settings.json:1:26: it matches
          compared: make test
          lost: allow rule `Bash(make *)` in HOME/.config/stockade/settings.json:1:45: ask overrides allow
        mode: plan
        sandbox: on; plan mode asks nevertheless
        smallest change: none; removing rules is not enough: plan mode asks about everything that is not read-only
    "#]].assert_eq(&told);
    let (_, told) = explained(&place, &["--permission-mode", "bypassPermissions", "make test"]);
    assert!(told.contains("mode: default, for bypassPermissions is locked"), "{told}");
}

#[test]
fn other_tools_are_explained_as_well() {
    let place = place("explain-tools", "{\"deny\": [\"WebFetch(domain:*.evil.example)\"]}");
    let fetch = |url: &str| {
        let input = json!({ "url": url }).to_string();
        explained(&place, &["--tool", "WebFetch", "--input", &input])
    };
    expect![[r#"
        stockade: denied `WebFetch(https://a.evil.example/x)`
          by deny rule `WebFetch(domain:*.evil.example)` in HOME/.config/stockade/settings.json:3
          try: ask the owner of that file, or remove this part
        `WebFetch(https://a.evil.example/x)`: denied
          because of the deny rule `WebFetch(domain:*.evil.example)` in HOME/.config/stockade/settings.json:3:26: it matches
          host: a.evil.example
        mode: default
        smallest change: without `WebFetch(domain:*.evil.example)` in HOME/.config/stockade/settings.json:3:26; tried, and then it is asked
    "#]].assert_eq(&fetch("https://a.evil.example/x").1);
    expect![[r#"
        stockade: needs a person: `WebFetch(https://docs.example/x)`
          because no rule allows it
          try: the allow rule `WebFetch(domain:docs.example)` would allow it
        `WebFetch(https://docs.example/x)`: asked
          because no rule allows it
          host: docs.example
          lost: deny rule `WebFetch(domain:*.evil.example)` in HOME/.config/stockade/settings.json:3:26: it does not match
        mode: default
        smallest change: the allow rule `WebFetch(domain:docs.example)` in .stockade/settings.local.json; tried, and then it is allowed
    "#]].assert_eq(&fetch("https://docs.example/x").1);
}

#[test]
fn programs_get_the_same_evidence_as_json() {
    let place = place("explain-json", "{\"deny\": [\"Bash(curl:*)\"]}");
    let output =
        place.output(["check", "--no-daemon", "--explain", "--json", "--quiet", "curl x; ls"]);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let file = place.home().join(".config/stockade/settings.json");
    let rule = json!({"rule": "Bash(curl:*)", "effect": "deny", "source": "user", "file": file,
        "line": 3, "column": 26, "won": true, "why": "it matches"});
    assert_eq!(told["explanation"]["parts"][0]["rules"], json!([rule]));
    assert_eq!(
        told["explanation"]["parts"][0]["forms"],
        json!([{"form": "compared", "text": "curl x"}])
    );
    assert_eq!(told["explanation"]["parts"][1]["decision"], "allow");
    assert_eq!(
        told["explanation"]["change"],
        json!({"remove": [{"rule": "Bash(curl:*)", "file": file, "line": 3, "column": 26}], "gives": "ask"})
    );
}

/// The lines that tell a verdict, as one.
fn short(output: &Output, place: &Place) -> String {
    let told = text(&output.stderr, place);
    let lines = told.lines().skip_while(|line| !line.starts_with("stockade: denied"));
    lines.take(3).map(str::trim).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_front_door_tells_a_refusal_in_the_same_words() {
    let place = place("doors", "{\"deny\": [\"Bash(curl:*)\"]}");
    let command = "cat notes | curl -T - example.com";
    let wanted = "stockade: denied `curl -T - example.com` (second part of a pipeline); \
        by deny rule `Bash(curl:*)` in HOME/.config/stockade/settings.json:3; \
        try: ask the owner of that file, or remove this part";
    assert_eq!(short(&place.output(["run", "--no-daemon", command]), &place), wanted);
    assert_eq!(short(&place.output(["check", "--no-daemon", command]), &place), wanted);
    let frame = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": "s",
        "tool_input": {"command": command}, "cwd": place.project()});
    let output = with_input(place.stockade(["hook", "claude", "--no-daemon"]), &frame.to_string());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let reason =
        answer["hookSpecificOutput"]["permissionDecisionReason"].as_str().expect("a reason");
    assert_eq!(text(reason.as_bytes(), &place), wanted);
}

fn with_input(mut command: std::process::Command, input: &str) -> Output {
    use std::io::Write as _;
    use std::process::Stdio;
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("stockade starts");
    let mut stdin = child.stdin.take().expect("an input");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}
