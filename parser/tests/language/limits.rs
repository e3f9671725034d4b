//! A text beyond a limit is opaque, and nothing overflows.

use stockade_parser::{Limits, Programs, Reason, StartState, parse};

/// The reasons for which a text is opaque, without the missing witness.
fn reasons(text: &[u8], limits: &Limits) -> Vec<Reason> {
    let tree = parse(text, &StartState::default(), Programs::builtin(), limits).confirm(&[]);
    let mut reasons: Vec<Reason> = tree.opaque_spans().iter().map(|opaque| opaque.reason).collect();
    reasons.retain(|reason| !reason.code().starts_with("witness"));
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

#[test]
fn long_input_is_not_read() {
    let limits = Limits { input_bytes: 4, ..Limits::default() };
    assert_eq!(reasons(b"ls -l", &limits), [Reason::LimitInput]);
}

#[test]
fn a_nul_byte_makes_all_unknown() {
    assert_eq!(reasons(b"ls\0", &Limits::default()), [Reason::Nul]);
}

#[test]
fn deep_nesting_is_read_up_to_the_limit_on_a_small_stack() {
    let nest = |levels: usize| ["$(".repeat(levels), "a".to_owned(), ")".repeat(levels)].concat();
    let run = move || {
        let limits = Limits::default();
        assert_eq!(reasons(nest(900).as_bytes(), &limits), [Reason::DynamicName]);
        let deep = reasons(nest(5_000).as_bytes(), &limits);
        assert!(deep.contains(&Reason::LimitDepth), "{deep:?}");
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn openers_without_end_stay_in_the_work_limit() {
    for opener in ["$((", "((", "`", "$(", "${x:-", "\"$(", "'", "[[ a ", "a["] {
        let text = opener.repeat((20_000 / opener.len()) | 1);
        assert!(!reasons(text.as_bytes(), &Limits::default()).is_empty(), "{opener}");
    }
}

#[test]
fn evaluators_nest_up_to_their_limit() {
    let text = ["eval ".repeat(40), "ls".to_owned()].concat();
    let reasons = reasons(text.as_bytes(), &Limits::default());
    assert!(reasons.contains(&Reason::LimitDepth), "{reasons:?}");
}
