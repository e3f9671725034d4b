//! Every example in the table, and the places in which a secret may stand.

use stockade_text::json;
use stockade_text::json::{Dialect, Value};

use super::grammar::{Piece, Simple};
use super::*;

fn redactor() -> Redactor {
    static SHARED: std::sync::OnceLock<Redactor> = std::sync::OnceLock::new();
    SHARED.get_or_init(|| Redactor::new(RedactKey::new([3; 32])).unwrap()).clone()
}

#[test]
fn every_expression_of_the_table_compiles() {
    assert_eq!(redactor().rules().faults(), Vec::<&str>::new());
}

/// The value of a word, whether it is known, and where it stands.
type Split = (Vec<u8>, bool, std::ops::Range<usize>);

/// Splits a line of plain words, quotes and `|` as the parser would, for examples.
fn split(line: &str) -> Vec<Vec<Split>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<(Vec<u8>, bool, usize)> = None;
    let mut quote = None;
    let bytes = line.as_bytes();
    let close = |commands: &mut Vec<Vec<_>>, word: &mut Option<(Vec<u8>, bool, usize)>, end| {
        if let Some((value, known, start)) = word.take() {
            commands.last_mut().unwrap().push((value, known, start..end));
        }
    };
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (None, b' ') => close(&mut commands, &mut word, at),
            (None, b'|') => {
                close(&mut commands, &mut word, at);
                commands.push(Vec::new());
            }
            (None, b'\'' | b'"') => {
                quote = Some(*byte);
                word.get_or_insert((Vec::new(), true, at));
            }
            (Some(open), it) if open == *it => quote = None,
            (inside, it) => {
                let word = word.get_or_insert((Vec::new(), true, at));
                word.0.push(*it);
                word.1 &= !(*it == b'$' && inside != Some(b'\''));
            }
        }
    }
    close(&mut commands, &mut word, bytes.len());
    commands
}

fn is_assignment(value: &[u8]) -> Option<usize> {
    let at = value.iter().position(|byte| *byte == b'=')?;
    value[..at].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then_some(at)
}

/// Returns the command with masks, by grammar and by shape.
fn masked(line: &str) -> String {
    let redactor = redactor();
    let split = split(line);
    let commands: Vec<Simple<'_>> = split
        .iter()
        .enumerate()
        .map(|(number, words)| {
            let mut simple = Simple { pipeline: Some(number as u32), ..Simple::default() };
            let mut here = false;
            for (value, known, span) in words {
                let piece = Piece {
                    exact: known.then_some(value.as_slice()),
                    raw: &line.as_bytes()[span.clone()],
                    span: span.clone(),
                };
                let assigned = is_assignment(value).filter(|_| simple.words.is_empty());
                if here {
                    simple.texts.push((0, piece));
                } else if value == b"<<<" {
                    here = true;
                } else if let Some(at) = assigned {
                    let name = String::from_utf8_lossy(&value[..at]).into_owned();
                    let span = span.start + at + 1..span.end;
                    let exact = known.then_some(&value[at + 1..]);
                    simple
                        .assignments
                        .push((name, Piece { exact, raw: &line.as_bytes()[span.clone()], span }));
                } else {
                    simple.words.push(piece);
                }
            }
            simple
        })
        .collect();
    let found = grammar::find(redactor.rules(), &commands);
    let mut spots: Vec<Spot> =
        found.iter().map(|it| Spot { range: it.source.clone(), rule: it.rule }).collect();
    spots.extend(redactor.rules().shapes(line.as_bytes()));
    let masked = mask::apply(line.as_bytes(), spots, &redactor);
    masked.map_or(line.into(), |masked| String::from_utf8(masked.text).unwrap())
}

fn examples(rule: &Value, what: &str) -> Vec<String> {
    let list = rule.get("examples").and_then(|it| it.get(what)).and_then(Value::elements).unwrap();
    list.iter().map(|it| it.text().unwrap().to_owned()).collect()
}

#[test]
fn every_example_of_the_table_holds() {
    let table = json::read(rules::TABLE.as_bytes(), Dialect::Commented).unwrap();
    let mut wrong = Vec::new();
    for rule in table.get("rules").unwrap().elements().unwrap() {
        let id = rule.get("id").unwrap().text().unwrap();
        for example in examples(rule, "mask") {
            if !masked(&example).contains("[redacted:") {
                wrong.push(format!("{id} does not mask: {example}"));
            }
        }
        for example in examples(rule, "keep") {
            if masked(&example) != example {
                wrong.push(format!("{id} must keep: {example}: {}", masked(&example)));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn ordinary_commands_stay() {
    let lines = [
        "git log -p --since=2.weeks",
        "git show 0f5b1c7a2c7a4b1d9e0f6a7b8c9d0e1f2a3b4c5d",
        "docker pull nginx@sha256:b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184",
        "mkdir -p a/b",
        "cp -a src dst",
        "tar -p -xf a.tar",
        "ssh -p 2222 host",
        "rsync -a a b",
        "cat ~/.ssh/id_ed25519.pub",
        "npm install left-pad@1.3.0",
        "echo 123e4567-e89b-12d3-a456-426614174000",
        "grep -rn token src",
        "grep password: README.md",
        "cargo test --workspace -p stockade",
        "curl -sS https://example.com:8443/a?page=2",
        "python3 -c 'max_tokens = 4096'",
        "pytest -k token",
        "docker compose -p shop up",
    ];
    for line in lines {
        assert_eq!(masked(line), line);
    }
}

#[test]
fn a_value_inside_quotes_is_masked_alone() {
    let tag = redactor().tag(b"hunter2");
    assert_eq!(
        masked("curl -u 'bob:hunter2' x.org"),
        format!("curl -u 'bob:[redacted:flag-user:{tag}]' x.org")
    );
}

#[test]
fn short_streams_have_keyed_digests() {
    let redactor = redactor();
    assert!(redactor.stream_digest(b"1234").starts_with("hmac:k"));
    assert!(redactor.stream_digest(&[b'x'; 1024]).starts_with("sha256:"));
}

const GITHUB: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// Returns the members and the pointers of their masks.
fn record(mut members: serde_json::Value) -> (serde_json::Value, Vec<String>) {
    let redactor = redactor();
    let extras = redactor.spots(None, None);
    let masks = mask::mask(members.as_object_mut().unwrap(), &extras, &redactor);
    (members, masks.into_iter().map(|mask| mask.ptr).collect())
}

#[test]
fn a_key_is_masked_in_its_object_and_in_every_pointer() {
    let tag = redactor().tag(GITHUB.as_bytes());
    let mark = format!("[redacted:github:{tag}]");
    let (members, pointers) = record(serde_json::json!({
        "request": { "input": { GITHUB: { "deep": [format!("a {GITHUB}")] } } },
        "facts": { "paths": { format!("/p/{GITHUB}/a"): [format!("/p/{GITHUB}/b")] } },
    }));
    let expected = serde_json::json!({
        "request": { "input": { &mark: { "deep": [format!("a {mark}")] } } },
        "facts": { "paths": { format!("/p/{mark}/a"): [format!("/p/{mark}/b")] } },
    });
    assert_eq!(members, expected);
    let path = format!("/facts/paths/~1p~1{mark}~1a");
    let input = format!("/request/input/{mark}");
    assert_eq!(pointers, [path.clone(), path + "/0", input.clone(), input + "/deep/0"]);
}

#[test]
fn keys_that_become_equal_stay_two() {
    let tag = redactor().tag(GITHUB.as_bytes());
    let mark = format!("[redacted:github:{tag}]");
    let (members, pointers) = record(serde_json::json!({
        "request": { "input": { GITHUB: 1, &mark: GITHUB, format!("{mark} (2)"): 3 } },
    }));
    let expected = serde_json::json!({
        "request": { "input": { format!("{mark} (3)"): 1, &mark: &mark, format!("{mark} (2)"): 3 } },
    });
    assert_eq!(members, expected);
    let input = format!("/request/input/{mark}");
    assert_eq!(pointers, [input.clone(), input + " (3)"]);
}

#[test]
fn what_a_request_holds_is_not_taken_for_encoded_bytes() {
    for key in
        ["AKIAIOSFODNN7EXAMPLE", "ghp0123456789abcdefghijABCDEFGHIJ01234/AKIAIOSFODNN7EXAMPLE"]
    {
        let (members, pointers) =
            record(serde_json::json!({ "request": { "input": { "b64": key } } }));
        assert!(!members.to_string().contains("AKIA"), "{members}");
        assert_eq!(pointers, ["/request/input/b64"]);
    }
    use base64::Engine as _;
    let bytes = [b"\xff ", GITHUB.as_bytes()].concat();
    let ours = base64::engine::general_purpose::STANDARD.encode(bytes);
    for place in ["cwd", "input"] {
        let (members, _) = record(serde_json::json!({ "request": { place: { "b64": &ours } } }));
        assert_ne!(members["request"][place]["b64"], ours);
    }
}

#[test]
fn a_member_whose_name_tells_is_masked() {
    let (members, pointers) = record(serde_json::json!({
        "request": { "input": { "db_password": "hunter2", "page": "hunter", "why": "is hunter2 it" } },
    }));
    assert!(!members.to_string().contains("hunter2"), "{members}");
    assert_eq!(members["request"]["input"]["page"], "hunter");
    assert_eq!(pointers, ["/request/input/db_password", "/request/input/why"]);
}

/// Returns `text` with the values of `known` masked.
fn searched(text: &str, known: &[&str]) -> String {
    let mut all = known::Known::default();
    for value in known {
        all.add(value.as_bytes(), 0);
    }
    let mut spots = Vec::new();
    known::Search::new(&all).find(text.as_bytes(), &mut spots);
    let mut found = vec![b'-'; text.len()];
    spots.into_iter().for_each(|spot| found[spot.range].fill(b'#'));
    let shown = text.bytes().zip(found).map(|(byte, mark)| if mark == b'#' { mark } else { byte });
    String::from_utf8_lossy(&shown.collect::<Vec<u8>>()).into_owned()
}

#[test]
fn one_search_finds_every_known_value() {
    for (text, known, expected) in [
        ("a abc abcdefghi b", &["abc", "abcdefghi"][..], "a ### ######### b"),
        ("xabc abc.abcd abc", &["abc"], "xabc ###.abcd ###"),
        ("xabcdefghx", &["abcdefgh", "abcdefghij"], "x########x"),
        ("abcdefghijklmnop", &["abcdefghij", "ghijklmnop"], "################"),
        ("/p/a/b/c", &["a//b/./x/../c"], "/p/#####"),
        ("`curl hunter2… (90)`", &["hunter2zz"], "`curl #######… (90)`"),
        ("hun… hunter", &["hunter2zz"], "hun… hunter"),
    ] {
        assert_eq!(searched(text, known), expected);
    }
}

#[test]
fn a_value_with_a_secret_part_does_not_hide_a_shorter_secret() {
    let mut known = known::Known::default();
    known.add(b"abcdefgh", 0);
    known.add_part(b"abcdefgh-xyz", 9..12, 1);
    let mut spots = Vec::new();
    known::Search::new(&known).find(b"abcdefgh-xyz", &mut spots);
    assert_eq!(spots, [Spot { range: 9..12, rule: 1 }, Spot { range: 0..8, rule: 0 }]);
}

#[test]
fn a_search_that_takes_too_long_masks_all_of_the_text() {
    let values: Vec<String> = (1..3000).map(|length| "a".repeat(length)).collect();
    let mut known = known::Known::default();
    values.iter().for_each(|value| known.add(value.as_bytes(), 0));
    let text = format!("{}b-end", "a".repeat(1 << 20));
    let mut search = known::Search::new(&known);
    let mut spots = Vec::new();
    search.find(text.as_bytes(), &mut spots);
    assert_eq!(spots.last(), Some(&Spot { range: 0..text.len(), rule: 0 }));
    spots.clear();
    search.find(b"another a", &mut spots);
    assert_eq!(spots, [Spot { range: 0..9, rule: 0 }]);
}

#[test]
fn a_text_with_very_many_secrets_is_masked_as_a_whole() {
    let line = |count: usize| {
        let words = (0..count).map(|number| format!(" A_TOKEN=zq{number:07}"));
        format!("echo{}", words.collect::<String>())
    };
    let some = masked(&line(mask::MOST_MASKS));
    assert!(some.starts_with("echo A_TOKEN=[redacted:"), "{some}");
    let all = masked(&line(mask::MOST_MASKS + 1));
    assert!(all.starts_with("[redacted:") && all.len() < 60, "{all}");
}

#[test]
fn many_secrets_cost_about_as_much_as_their_bytes() {
    let line = |count: usize| {
        let words = (0..count).map(|number| format!(" A_TOKEN=zq{number:07}"));
        format!("echo{}", words.collect::<String>())
    };
    let steps = |count: usize| {
        let mut known = known::Known::default();
        (0..count).for_each(|number| known.add(format!("zq{number:07}").as_bytes(), 0));
        let mut search = known::Search::new(&known);
        let mut spots = Vec::new();
        search.find(line(count).as_bytes(), &mut spots);
        assert_eq!(spots.len(), count);
        search.spent()
    };
    let (few, many) = (steps(500), steps(5000));
    assert!(many < few * 15, "{few} steps for 500, {many} for 5000");
}
