//! Texts that no person writes: `parse` and `check` answer each, in time, with what, where and what to do.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use stockade_tests::Place;

/// An answer that takes longer than this is none, in a build without optimisation too.
const SOON: Duration = Duration::from_secs(60);

/// Each text is one that nothing may allow.
fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let mut texts: Vec<(&str, Vec<u8>)> = vec![
        ("NUL", b"ls\0 -l".to_vec()),
        ("CR", b"ls\r".to_vec()),
        ("CR LF", b"ls \\\r\nid".to_vec()),
        ("a lone control character", b"\x07".to_vec()),
        ("escape", b"ls \x1b[2J".to_vec()),
        ("DEL", b"l\x7fs".to_vec()),
        ("C1", "l\u{9b}s".as_bytes().to_vec()),
        ("invalid UTF-8", b"ls \xff\xfe".to_vec()),
        ("half a character", b"ls \xe2\x80".to_vec()),
        ("marks of direction", "l\u{202e}s".as_bytes().to_vec()),
        ("isolates", "\u{2066}ls\u{2069}".as_bytes().to_vec()),
        ("100,000 parentheses", b"(".repeat(100_000)),
        ("100,000 pairs of parentheses", [b"(".repeat(100_000), b")".repeat(100_000)].concat()),
        ("a line of 10 MiB", b"a".repeat(10 << 20)),
        ("10 MiB of commands", b"a;".repeat(5 << 20)),
    ];
    let unterminated = [
        "'a",
        "\"a",
        "`a",
        "$'a",
        "$\"a",
        "$(a",
        "${a",
        "${a:-",
        "$((1",
        "$[1",
        "((1",
        "(a",
        "{ a",
        "[[ a",
        "if a",
        "if a; then b",
        "while a; do b",
        "for a in",
        "case a in b) c",
        "a=(b",
        "a[1",
        "f() {",
        "<(a",
        "a <",
        "a &&",
        "a |",
        "a <<b\n$(c",
        "cat <<''\n`",
        "coproc {",
        "!(",
    ];
    texts.extend(unterminated.iter().map(|text| (*text, text.as_bytes().to_vec())));
    texts
}

/// Runs `stockade` with a text on standard input.
fn answer(place: &Place, arguments: &[&str], text: &[u8]) -> Output {
    let mut command = place.stockade(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let text = text.to_vec();
    // An early refusal closes the pipe before all of the text is written.
    let writer = std::thread::spawn(move || drop(input.write_all(&text)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    output
}

/// Asserts that there is an answer, and that it names a place or a reason and something to try.
fn assert_answered(name: &str, arguments: &[&str], output: &Output, took: Duration) -> String {
    let told = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    assert_eq!(output.status.signal(), None, "{arguments:?} {name}: {told}");
    assert!(took < SOON, "{arguments:?} {name} took {took:?}");
    assert!(!told.contains("panicked"), "{arguments:?} {name}: {told}");
    told
}

/// Asserts that nothing in the text acts on a terminal or hides there.
fn assert_visible(name: &str, told: &str) {
    let hidden = |it: char| {
        (it.is_control() && it != '\n')
            || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!told.contains(hidden), "{name}: {told:?}");
}

#[test]
fn parse_says_of_odd_texts_what_is_not_understood_and_what_to_write() {
    let place = Place::new("odd-parse");
    for (name, text) in texts() {
        let arguments = ["parse", "-"];
        let start = Instant::now();
        let output = answer(&place, &arguments, &text);
        let told = assert_answered(name, &arguments, &output, start.elapsed());
        assert_visible(name, &told);
        assert!(told.contains("  try: "), "{name}: {told}");
        let refused = output.status.code() == Some(122) && told.starts_with("stockade: ");
        let doubted = output.status.code() == Some(0) && told.contains("unknown: ");
        assert!(refused || doubted, "{name}: {:?} {told}", output.status);
    }
}

#[test]
fn check_allows_no_odd_text() {
    let place = Place::new("odd-check");
    for (name, text) in texts() {
        // A rule about commands asks for all that it cannot be held against.
        let settings = r#"{"permissions": {"deny": ["Bash(curl *)"]}}"#;
        let arguments = ["check", "--json", "--settings", settings, "-"];
        let start = Instant::now();
        let output = answer(&place, &arguments, &text);
        let told = assert_answered(name, &arguments, &output, start.elapsed());
        assert_visible(name, &String::from_utf8_lossy(&output.stderr));
        let first = told.lines().next().unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(first).unwrap_or_default();
        assert!(value["decision"].is_string(), "{name}: {told}");
        assert_ne!(value["decision"], "allow", "{name}: {told}");
        assert_ne!(output.status.code(), Some(0), "{name}: {told}");
    }
}

/// Returns a text of as many bytes as are read: `unit` again and again, then `tail`.
fn filled(unit: &str, tail: &str) -> Vec<u8> {
    let count = ((1 << 20) - tail.len()) / unit.len();
    [unit.repeat(count).as_bytes(), tail.as_bytes()].concat()
}

#[test]
fn check_denies_what_hides_behind_a_mebibyte_of_commands() {
    let place = Place::new("odd-hidden");
    let tail = "rm -rf /";
    let texts = [
        ("short commands", filled("echo a;", tail)),
        ("copies", filled("cp a b;", tail)),
        ("pipelines", filled("a|a;", tail)),
        ("evaluators", filled("bash -c 'a';", tail)),
        ("redirections", filled(">f ", &format!(";{tail}"))),
        // Few commands, and more steps than are taken to read them.
        ("substitutions", filled("$(a) ", &format!(";{tail}"))),
        (
            "half as many, longer",
            filled("echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;", tail),
        ),
    ];
    // Neither a broad allow rule nor the mode that asks nothing lets a text go that was not judged to its end.
    let manners =
        [("rm:*", "bypassPermissions"), ("rm:*", "default"), ("curl:*", "bypassPermissions")];
    for ((name, text), (denied, mode)) in texts.iter().zip(manners.iter().cycle()) {
        let settings = format!(
            r#"{{"permissions": {{"allow": ["Bash"], "deny": ["Bash({denied})"]}}, "sandbox": {{"enabled": false}}}}"#
        );
        let arguments =
            ["check", "--json", "--permission-mode", mode, "--settings", &settings, "-"];
        let start = Instant::now();
        let output = answer(&place, &arguments, text);
        let told = assert_answered(name, &arguments, &output, start.elapsed());
        let first = told.lines().next().unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(first).unwrap_or_default();
        assert_eq!(value["decision"], "deny", "{name} {mode}: {told:.800}");
        let listed = value["commands"].as_array().map_or(usize::MAX, Vec::len);
        assert!(listed <= 256, "{name} {mode}: {listed} parts are listed");
    }
}
