//! The language, construct by construct: what the authority makes of small texts.

mod arithmetic;
mod assigned;
mod braces;
mod compound;
mod continuations;
mod doubts;
mod errors;
mod expansions;
mod heredocs;
mod inputs;
mod limits;
mod manual;
mod properties;
mod quotes;
mod reader;
mod redirections;
mod scripts;
mod state;
mod substitutions;
mod values;

use std::fmt::Write;

use expect_test::Expect;
use stockade_parser::{
    CommandTree, Count, Glob, Limits, Programs, RedirectTarget, StartState, Word, WordClass, parse,
};

/// Parses with the defaults; the missing witness is left out of what is shown.
fn tree(text: &str) -> CommandTree {
    let draft =
        parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &Limits::default());
    draft.confirm(&[])
}

/// One line for each command, target and doubt.
fn show(text: &str) -> String {
    let tree = tree(text);
    let mut out = String::new();
    for command in tree.commands() {
        let mut line = format!("{:?}:", command.position);
        for assignment in &command.assignments {
            let name = String::from_utf8_lossy(&assignment.name);
            let _ = write!(line, " {name}={}", word(&assignment.value));
        }
        for part in &command.words {
            let _ = write!(line, " {}", word(part));
        }
        for redirect in &command.redirects {
            let descriptor = redirect.descriptor.map(|it| it.to_string()).unwrap_or_default();
            let target = match &redirect.target {
                RedirectTarget::File(target) => format!("file {}", word(target)),
                RedirectTarget::Text(target) => format!("text {}", word(target)),
                RedirectTarget::Descriptor(target) => format!("descriptor {target:?}"),
            };
            let _ = write!(line, " [{descriptor}{:?} {target}]", redirect.operator);
        }
        out.push_str(&line);
        out.push('\n');
    }
    for opaque in tree.opaque_spans() {
        if !opaque.reason.code().starts_with("witness") {
            let at = String::from_utf8_lossy(opaque.span.of(text.as_bytes()));
            let _ = writeln!(out, "{} at {at:?}: {}", opaque.reason.code(), opaque.detail);
        }
    }
    for notice in tree.notices() {
        let _ = writeln!(out, "notice: {}", notice.text);
    }
    out
}

fn word(word: &Word) -> String {
    match &word.class {
        WordClass::Exact(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        WordClass::Pattern { glob, .. } => {
            let mut text = String::from("pattern");
            for piece in glob {
                let _ = match piece {
                    Glob::Literal(bytes) => write!(text, " {:?}", String::from_utf8_lossy(bytes)),
                    Glob::Other(bytes) => {
                        write!(text, " other {:?}", String::from_utf8_lossy(bytes))
                    }
                    Glob::Star => write!(text, " *"),
                    Glob::Question => write!(text, " ?"),
                };
            }
            format!("<{text}>")
        }
        WordClass::Unknown { reason, count, prefix, suffix, .. } => {
            let many = if *count == Count::Any { "any number of " } else { "" };
            let (prefix, suffix) =
                (String::from_utf8_lossy(prefix), String::from_utf8_lossy(suffix));
            format!("<{many}{} {prefix:?}..{suffix:?}>", reason.code())
        }
    }
}

/// Compares what `text` is shown as.
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&show(text));
}
