//! Texts that are built to cost much stay within a few steps for each byte.

mod cases;

use stockade_parser::{Limits, Programs, StartState, parse};

/// Steps for each byte that no text may need, whatever the limit allows.
const STEPS: u64 = 24;

/// Texts for which the limit of work is the only bound: here-documents that each look for another end, to the end
/// of the text.
const LIMITED: &[&str] = &["here-documents of different ends in substitutions"];

fn stays_below(length: usize) {
    let mut above = Vec::new();
    for (name, text) in cases::all(length) {
        let draft = parse(&text, &StartState::default(), Programs::builtin(), &Limits::default());
        let bytes: usize = draft.requests().map(<[u8]>::len).sum();
        let bytes = bytes.max(text.len()) as u64;
        let most = if LIMITED.contains(&name.as_str()) { 65 } else { STEPS };
        // The walk may search small texts more often.
        if draft.steps() > most * bytes + 100_000 {
            above.push((name, draft.steps() / bytes));
        }
    }
    assert_eq!(above, [], "steps for each byte, of texts of {length} bytes");
}

#[test]
fn costly_texts_take_few_steps() {
    // Unoptimised code takes minutes for the longer ones: `cargo test --release` takes the longest that is read.
    stays_below(if cfg!(debug_assertions) { 16 << 10 } else { 1 << 20 });
}

#[test]
fn deep_nests_of_each_kind_fit_on_a_small_stack() {
    let run = || {
        // Two of the nests have two levels in each of theirs.
        for (name, text) in cases::nests(450) {
            let draft =
                parse(&text, &StartState::default(), Programs::builtin(), &Limits::default());
            let tree = draft.confirm(&[]);
            let deep =
                tree.opaque_spans().iter().any(|opaque| opaque.reason.code() == "limit-depth");
            assert!(!deep, "{name}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn too_much_work_makes_the_rest_opaque() {
    let limits = Limits { steps_per_byte: 0, ..Limits::default() };
    let text = "a;".repeat(50_000);
    let draft = parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &limits);
    let tree = draft.confirm(&[]);
    let work = tree.opaque_spans().iter().find(|opaque| opaque.reason.code() == "limit-work");
    assert_eq!(work.map(|work| work.span.end), Some(100_000));
}

#[test]
fn whatever_a_limit_cuts_short_is_flagged() {
    let read = |text: &[u8], limits: &Limits| {
        parse(text, &StartState::default(), Programs::builtin(), limits).confirm(&[])
    };
    let usual = Limits::default();
    let mut tight = Vec::new();
    for work in [0, 10, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000] {
        tight.push(Limits { work, ..usual.clone() });
    }
    for memory_bytes in [0, 1_000, 10_000, 30_000, 60_000, 100_000, 200_000] {
        tight.push(Limits { memory_bytes, ..usual.clone() });
    }
    tight.push(Limits { doubts: 0, ..usual.clone() });
    tight.push(Limits { doubts: 3, ..usual.clone() });
    tight.push(Limits { command_words: 3, ..usual.clone() });
    let mut cut = 0;
    for (name, text) in cases::all(1 << 10) {
        let whole = read(&text, &usual);
        for limits in &tight {
            let tree = read(&text, limits);
            let same = tree.commands() == whole.commands()
                && tree.writes() == whole.writes()
                && tree.opaque_spans() == whole.opaque_spans();
            let codes = || tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
            assert!(same || codes().any(|code| code == "limit-work"), "{name}: {limits:?}");
            cut += usize::from(!same);
            let ends = tree.tokens().map(|token| token.span.end).last();
            assert_eq!(ends, Some(text.len() as u32), "{name}: {limits:?}");
        }
    }
    assert!(cut > 1_000, "{cut}");
}

#[test]
fn long_texts_of_plain_commands_are_read_whole() {
    // Each is a little below the length at which it reaches the limit; the shorter its commands, the sooner.
    for (part, length, commands) in [
        ("a;", 5 << 16, 163_840),
        ("ls -l\n", 3 << 17, 65_536),
        ("cat <<end\nsome text\nend\n", 1 << 19, 21_845),
        (
            "if test -f \"$f\"; then\n  sort -u names.txt | head -n 3 > out.txt\nfi\n",
            5 << 17,
            27_600,
        ),
    ] {
        if cfg!(debug_assertions) && commands > 100_000 {
            // Unoptimised code takes long; the release build reads them all.
            continue;
        }
        let text = part.repeat(length / part.len());
        let limits = Limits::default();
        let draft = parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &limits);
        let tree = draft.confirm(&[]);
        let limited = |code: &str| code.starts_with("limit-");
        let codes = tree.opaque_spans().iter().map(|opaque| opaque.reason.code());
        assert_eq!(codes.filter(|code| limited(code)).count(), 0, "{part}");
        assert!(tree.commands().len() >= commands, "{part}: {}", tree.commands().len());
    }
}

#[test]
fn values_that_double_are_not_followed_for_ever() {
    let text = ["a=b;", &"a=$a$a;".repeat(100)].concat();
    let limits = Limits::default();
    let draft = parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &limits);
    assert_eq!(draft.confirm(&[]).commands().len(), 101);
}

#[test]
fn a_variable_set_twice_in_a_branch_may_still_be_unset() {
    let text = b"if a; then x=1; x=2; fi; echo $((x))";
    let start = StartState { closed_environment: false, ..StartState::default() };
    let tree = parse(text, &start, Programs::builtin(), &Limits::default()).confirm(&[]);
    assert!(tree.opaque_spans().iter().any(|opaque| opaque.reason.code() == "arith-name"));
}
