//! The fuzz targets, and the properties that must hold.

#[path = "network.rs"]
mod network;
#[path = "pattern.rs"]
mod pattern;

use std::cell::RefCell;

use stockade_text::json;
use stockade_text::json::{Dialect};
use stockade_parser::{Absence, CommandTree, Limits, Node, NodeKind, Programs, StartState, Witness, Zsh, parse};
use stockade_witness::{Grammar, Seen, SeenNode, frames};

/// One thing to fuzz.
pub struct Target {
    pub name: &'static str,
    /// Panics if what must hold does not.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "lex", run: lex_holds },
    Target { name: "parse", run: parse_holds },
    Target { name: "options", run: options_hold },
    Target { name: "explain", run: explain_holds },
    Target { name: "settings", run: settings_hold },
    Target { name: "rule", run: rule_holds },
    Target { name: "nested", run: nested_holds },
    Target { name: "witness", run: witness_holds },
    Target { name: "zsh", run: zsh_holds },
    Target { name: "grammar", run: grammar_holds },
    Target { name: "scan-frames", run: scan_frames_hold },
    Target { name: "json", run: json_holds },
    Target { name: "frames", run: frames_hold },
    Target { name: "host", run: network::host_holds },
    Target { name: "http-head", run: network::http_holds },
    Target { name: "socks", run: network::socks_hold },
    Target { name: "client-hello", run: network::hello_holds },
    Target { name: "pattern", run: pattern::pattern_holds },
    Target { name: "git-index", run: git_index_holds },
    Target { name: "git-configuration", run: git_configuration_holds },
];

/// Paths come from the index alone: there are no more of them than it has bytes.
fn git_index_holds(bytes: &[u8]) {
    for name_bytes in [20, 32] {
        let found = stockade::git_index::gitlinks(bytes, name_bytes, |_| Some(bytes.to_vec()));
        assert!(found.is_none_or(|found| found.len() <= 2 * bytes.len()));
    }
}

/// Every variable has a section and a name.
fn git_configuration_holds(bytes: &[u8]) {
    for variable in stockade_spec::git_variables(bytes).unwrap_or_default() {
        assert!(variable.key.contains('.'), "{variable:?}");
        assert!(!variable.full.is_empty(), "{variable:?}");
    }
}

fn read(text: &[u8], witness: &dyn Fn(&[u8]) -> Witness) -> CommandTree {
    let limits = Limits { depth: 100, ..Limits::default() };
    let draft = parse(text, &StartState::default(), Programs::builtin(), &limits);
    let answers: Vec<Witness> = draft.requests().map(witness).collect();
    draft.confirm(&answers)
}

/// A text that zsh runs is never clearer than the same text where bash runs it.
fn zsh_holds(text: &[u8]) {
    let zsh = Some(Zsh { version: (5, 9), clean_start: true });
    let start = StartState { zsh, ..StartState::default() };
    let limits = Limits { depth: 100, ..Limits::default() };
    let draft = parse(text, &start, Programs::builtin(), &limits);
    let answers: Vec<Witness> = draft.requests().map(seen).collect();
    let by_zsh = draft.confirm(&answers);
    let by_bash = read(text, &seen);
    assert!(by_zsh.opaque_spans().len() >= by_bash.opaque_spans().len());
}

/// The tokens are the text: every byte is in exactly one.
fn lex_holds(text: &[u8]) {
    let tree = read(text, &|_| Witness::Absent(Absence::Dead));
    let mut reached = 0;
    for token in tree.tokens() {
        assert_eq!(token.span.start, reached, "{token:?}");
        assert!(token.span.start <= token.span.end, "{token:?}");
        reached = token.span.end;
    }
    assert_eq!(reached as usize, text.len(), "the tokens end early");
}

/// An option that no table has never makes a tree less opaque.
fn options_hold(text: &[u8]) {
    let Some(end) = text.iter().position(|byte| *byte == b' ') else { return };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" -_./=".contains(byte);
    if !text.iter().all(plain) {
        return;
    }
    let (name, rest) = text.split_at(end);
    // The first word of some programs holds options without a dash; behind an option it is a file like others.
    let bundles = [&b"tar"[..], b"gtar", b"bsdtar", b"ar", b"ps", b"busybox", b"toybox"];
    if bundles.iter().any(|bundle| name.ends_with(bundle)) && !rest.starts_with(b" -") {
        return;
    }
    let with = [name, b" --no-such-option-anywhere", rest].concat();
    if read(text, &seen).is_dynamic() {
        // Operands of a text are words like others; what they are taken for may only get less clear.
        assert!(read(&with, &seen).is_dynamic() || name.is_empty() || name.contains(&b'='));
    }
}

/// Every tree can be told, without a control character that the teller did not write.
fn explain_holds(text: &[u8]) {
    let told = stockade_explain::tree(&read(text, &seen));
    let hidden = |it: char| {
        (it.is_control() && !matches!(it, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&it)
    };
    assert!(!told.contains(hidden), "{told:?}");
}

/// Settings of any bytes give rules and problems; the rules can be linted.
fn settings_hold(bytes: &[u8]) {
    load(bytes.to_vec());
}

/// Any text as a rule, in each list.
fn rule_holds(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let rules = serde_json::json!([
        text,
        format!("Bash({text})"),
        format!("Read({text})"),
        format!("WebFetch({text})")
    ]);
    let settings =
        serde_json::json!({ "permissions": { "allow": rules, "ask": rules, "deny": rules } });
    load(settings.to_string().into_bytes());
}

fn load(text: Vec<u8>) {
    let text = stockade_policy::SettingsText {
        layer: stockade_policy::Layer::Project,
        file: "/p/.stockade/settings.json".into(),
        text,
        anchor: "/p".into(),
        trusted: true,
        above: false,
    };
    let loaded = stockade_policy::load(&[text]);
    let _ = stockade_policy::lint(&loaded.rules);
}

/// Every text gives a tree whose spans lie in the text; without a witness it is opaque.
fn parse_holds(text: &[u8]) {
    let tree = read(text, &|_| Witness::Absent(Absence::Dead));
    assert!(tree.is_dynamic(), "no witness, and yet not opaque");
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let inside = |start: u32, end: u32| start <= end && end <= length;
    for opaque in tree.opaque_spans() {
        assert!(inside(opaque.span.start, opaque.span.end), "{opaque:?}");
    }
    for command in tree.commands() {
        assert!(inside(command.span.start, command.span.end), "{command:?}");
    }
}

/// A text holds the same commands when it is the text of `bash -c` and `eval`.
fn nested_holds(text: &[u8]) {
    // Hidden characters weigh by place, and inside of quotes they weigh less.
    if !text.iter().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n')) {
        return;
    }
    let quoted: Vec<u8> = text
        .iter()
        .flat_map(|byte| if *byte == b'\'' { b"'\\''".to_vec() } else { vec![*byte] })
        .collect();
    let inner = read(text, &seen);
    for wrapper in ["bash -c '", "env nice bash -c '", "eval -- '"] {
        let outer = read(&[wrapper.as_bytes(), &quoted, b"'"].concat(), &seen);
        if outer.is_dynamic() {
            continue;
        }
        assert!(!inner.is_dynamic(), "opaque by itself, but not in {wrapper}");
        for command in inner.commands() {
            let words: Vec<_> = command.words.iter().map(|word| word.exact()).collect();
            // Values may be less known inside, where another shell has arguments of its own, and such a word may be
            // several words or none: up to the first of them the two must agree.
            let listed = outer.commands().iter().any(|other| {
                let there: Vec<_> = other.words.iter().map(|word| word.exact()).collect();
                let known = there.iter().take_while(|word| word.is_some()).count();
                there == words || (known < there.len() && words.starts_with(&there[..known]))
            });
            assert!(listed, "{words:?} is not in {wrapper}");
        }
    }
}

/// Lists of nodes that no grammar gave: no panic, and never less opaque than without them.
fn witness_holds(bytes: &[u8]) {
    let (text, rest) = bytes.split_at(bytes.len() / 2);
    let nodes = |text: &[u8]| -> Witness {
        let Witness::Nodes(mut nodes) = seen(text) else { return Witness::Absent(Absence::Dead) };
        for change in rest.chunks_exact(3) {
            let length = nodes.len().max(1);
            let Some(node) = nodes.get_mut(usize::from(change[0]) % length) else { break };
            let by = u32::from(change[2]) % 5;
            match change[1] % 6 {
                0 => node.start = node.start.wrapping_sub(by),
                1 => node.end = node.end.wrapping_add(by),
                2 => node.depth = node.depth.wrapping_add(by).wrapping_sub(2),
                3 => node.broken = false,
                4 => node.kind = NodeKind::named(["word", "command", "string"][by as usize % 3]),
                _ => nodes.truncate(usize::from(change[0]) % length),
            }
        }
        Witness::Nodes(nodes)
    };
    let draft = parse(text, &StartState::default(), Programs::builtin(), &Limits::default());
    let before = read(text, &|_| Witness::Absent(Absence::Dead)).opaque_spans().len();
    let requests = draft.requests().count();
    let tree = read(text, &nodes);
    assert!(tree.opaque_spans().len() + requests.max(1) >= before, "a witness took doubt away");
    let _ = json_free(&tree);
}

/// Touches every command, so that a tree is used as policy uses it.
fn json_free(tree: &CommandTree) -> usize {
    tree.commands().iter().map(|command| command.words.len()).sum()
}

/// The C code itself, behind the guard: it must not crash this process.
fn grammar_holds(text: &[u8]) {
    let _ = seen(text);
}

fn seen(text: &[u8]) -> Witness {
    thread_local! {
        static GRAMMAR: RefCell<(Grammar, Vec<NodeKind>)> = RefCell::new({
            let grammar = Grammar::load().expect("the grammar fits tree-sitter");
            let kinds = grammar.kinds();
            (grammar, kinds.iter().map(|kind| NodeKind::of(kind.name, kind.named)).collect())
        });
    }
    GRAMMAR.with_borrow_mut(|(grammar, kinds)| match grammar.see(text) {
        Seen::Refused(_) => Witness::Absent(Absence::Guarded),
        Seen::Nodes(nodes) => Witness::Nodes(nodes.iter().map(|it| node(it, kinds)).collect()),
    })
}

fn node(seen: &SeenNode, kinds: &[NodeKind]) -> Node {
    Node {
        kind: kinds.get(usize::from(seen.kind)).copied().unwrap_or(NodeKind::Other),
        start: seen.start,
        end: seen.end,
        depth: seen.depth,
        broken: seen.broken,
    }
}

/// Bytes of a worker that has been taken over: an error or a value, never a panic or a huge allocation.
fn scan_frames_hold(bytes: &[u8]) {
    let _ = frames::read_hello(bytes);
    if let Ok(seen) = frames::read_answer(bytes) {
        assert_eq!(frames::read_answer(&frames::answer(&seen)), Ok(seen));
    }
    let mut input = bytes;
    while let Ok(Some(_)) = frames::read_frame(&mut input, 1 << 16) {}
}

/// The strict reader accepts nothing that serde_json refuses.
fn json_holds(bytes: &[u8]) {
    let strict = json::read(bytes, Dialect::Strict);
    let _ = json::read(bytes, Dialect::Commented);
    if strict.is_ok() {
        let other: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
        // serde_json refuses numbers beyond its range; those are read here as they are written.
        let out_of_range =
            other.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        assert!(other.is_ok() || out_of_range, "{other:?}");
    }
}

/// Every line is a frame or an error.
fn frames_hold(bytes: &[u8]) {
    let _ = stockade::protocol::frames::decode(bytes);
}
