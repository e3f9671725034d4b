//! Every example in the table, and the places in which a secret may stand.

use stockade_parser::json::{self, Dialect, Value};

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
