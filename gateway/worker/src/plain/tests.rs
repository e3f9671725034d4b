//! The splitter beside the worker.

use stockade_parser::{CommandTree, Limits, Opaque, Programs, StartState};
use stockade_witness::{Grammar, Seen, SeenNode};

use super::*;

/// Reads a text with the worker's grammar as the witness of each of its texts, or with the splitter where that sees it.
fn read(grammar: &mut Grammar, text: &str, splits: bool) -> CommandTree {
    let start = StartState::default();
    let draft =
        stockade_parser::parse(text.as_bytes(), &start, Programs::builtin(), &Limits::default());
    let see = |text: &[u8]| match witness(text).filter(|_| splits) {
        Some(plain) => plain,
        None => seen(grammar, text),
    };
    let seen: Vec<Witness> = draft.requests().map(see).collect();
    draft.confirm(&seen)
}

fn seen(grammar: &mut Grammar, text: &[u8]) -> Witness {
    let kinds: Vec<NodeKind> =
        grammar.kinds().iter().map(|kind| NodeKind::of(kind.name, kind.named)).collect();
    let Seen::Nodes(nodes) = grammar.see(text) else {
        return Witness::Absent(stockade_parser::Absence::Guarded);
    };
    let node = |seen: &SeenNode| Node {
        kind: kinds.get(usize::from(seen.kind)).copied().unwrap_or(NodeKind::Other),
        start: seen.start,
        end: seen.end,
        depth: seen.depth,
        broken: seen.broken,
    };
    Witness::Nodes(nodes.iter().map(node).collect())
}

/// Texts that are plain, with all that plain words may hold.
const PLAIN: [&str; 12] = [
    "true",
    "git status --short",
    "  ls   -la src/  ",
    "sleep 5",
    "make -j4 CC",
    "grep --color=always -n x a.txt",
    "echo if then while do done",
    "rsync user@host:/srv/a,b ./_x",
    ": a",
    ". ./x.sh",
    "- -- --",
    "sudo env nice bash -c ls",
];

/// Texts that are not, each by one letter or word.
const OTHER: [&str; 30] = [
    "", "   ", "a\tb", "a\nb", "a;b", "a|b", "a&", "a>b", "a<b", "$a", "a=b", "a b=c", "'a'",
    "\"a\"", "a\\b", "`a`", "(a)", "{ a", "[ a ]", "!a", "a*", "a?", "~/a", "#a", "a%b", "a^b",
    "a+b", "time a", "é", "a\u{a0}b",
];

#[test]
fn a_plain_text_is_read_as_the_worker_reads_it() {
    let mut grammar = Grammar::load().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus");
    let mut texts: Vec<String> = PLAIN.map(str::to_owned).into();
    for file in ["constructs", "everyday", "nl2bash", "oils", "tldr"] {
        let lines = std::fs::read_to_string(format!("{folder}/{file}.jsonl")).unwrap();
        for line in lines.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            texts.push(value["command"].as_str().unwrap().to_owned());
        }
    }
    texts.retain(|text| is_plain(text.as_bytes()));
    let (mut same, mut unread) = (0, Vec::new());
    for text in &texts {
        let (split, worker) = (read(&mut grammar, text, true), read(&mut grammar, text, false));
        assert_eq!(split.commands(), worker.commands(), "{text}");
        let is_new = |it: &&Opaque| !worker.opaque_spans().contains(it);
        assert_eq!(split.opaque_spans().iter().find(is_new), None, "{text}");
        match split == worker {
            true => same += 1,
            // Its grammar has no words such as `user@host` in the place of a name.
            false => unread.push(text.as_str()),
        }
    }
    assert!(same > 500, "only {same} texts of the corpus are plain and read alike");
    assert!(unread.len() < 10, "{unread:?}");
}

#[test]
fn what_may_mean_more_than_itself_is_not_plain() {
    for text in PLAIN {
        assert!(is_plain(text.as_bytes()), "{text}");
    }
    for text in OTHER {
        assert!(witness(text.as_bytes()).is_none(), "{text}");
    }
    assert!(is_plain(&b"a ".repeat(LONGEST / 2)));
    assert!(!is_plain(&b"a ".repeat(LONGEST / 2 + 1)));
    for letter in 0..=u8::MAX {
        let is_known = letter.is_ascii_alphanumeric() || b" _./,:@-".contains(&letter);
        assert_eq!(is_plain(&[b'a', letter, b'b']), is_known, "{letter}");
    }
    for word in RESERVED {
        assert!(!is_plain(word.as_bytes()) && !is_plain(format!(" {word} a").as_bytes()), "{word}");
    }
}

#[test]
fn another_reading_than_that_of_the_splitter_is_in_doubt() {
    let draft = |text: &str| {
        let start = StartState::default();
        stockade_parser::parse(text.as_bytes(), &start, Programs::builtin(), &Limits::default())
    };
    let told = |text: &str, seen: &str| -> Vec<&'static str> {
        let tree = draft(text).confirm(&[witness(seen.as_bytes()).unwrap()]);
        let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
        codes.filter(|code| code.starts_with("witness-")).take(1).collect()
    };
    assert_eq!(told("ls -l ax", "ls -l ax"), [""; 0]);
    // A word that holds a blank, and letters that are in none, cannot be.
    assert_eq!(told("ls -l ax", "ls -la x"), ["witness-guard"]);
    assert_eq!(told("ls;rm x", "ls rm x"), ["witness-guard"]);
}
