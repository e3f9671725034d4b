//! Compares what happened with what the tree said (S1, S2, S4 of the parser's promises).

use stockade_parser::{
    CommandKind, CommandTree, Count, Position, Reason, SimpleCommand, Word, WordClass,
};

use super::Finding;
use super::trace::{Started, Trace, Written};

/// Something that happened and was not in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// A program (S1), or words of one (S4).
    Program(Started),
    /// A file opened for writing (S2).
    Write(Written),
}

/// Programs whose own starts and opens are promised: shells.
const SHELLS: &[&[u8]] = &[b"bash", b"sh", b"dash"];

/// Compares a tree with what its text did.
pub fn compare(tree: &CommandTree, trace: &Trace) -> Finding {
    let mut misses = Vec::new();
    let (mut exact, mut inexact) = (0, Vec::new());
    // The shell of `ed` starts programs of a text that is not read: they are not promised.
    let edits = tree
        .commands()
        .iter()
        .any(|command| command.words.first().and_then(Word::exact) == Some(b"ed"));
    let promised = |started: &&Started| {
        let by_editor = edits && started.by == b"sh";
        !(by_editor || is_helper(started))
    };
    for started in trace.started.iter().filter(promised) {
        let matching: Vec<&SimpleCommand> =
            tree.commands().iter().filter(|command| predicts(command, started)).collect();
        if matching.is_empty() {
            misses.push(Miss::Program(started.clone()));
        }
        let word_for_word =
            |command: &&SimpleCommand| command.words.iter().all(|word| word.exact().is_some());
        if matching.iter().any(word_for_word) {
            exact += 1;
        } else {
            inexact.push(started.argv.clone());
        }
    }
    for written in &trace.written {
        if SHELLS.contains(&written.by.as_slice()) && !is_own(&written.path) {
            let listed = tree.writes().iter().any(|target| may_be(&target.word, &written.path));
            if !listed {
                misses.push(Miss::Write(written.clone()));
            }
        }
    }
    // Commands behind a mistake are listed for rules that deny; the tree does not say that they run.
    let mistakes = tree.opaque_spans().iter().filter(|opaque| opaque.reason == Reason::Syntax);
    let end = mistakes.map(|opaque| opaque.span.start).min().unwrap_or(u32::MAX);
    let said = |command: &&SimpleCommand| is_static(command) && command.span.start < end;
    let predicted = tree.commands().iter().filter(said);
    let ran = |command: &SimpleCommand| {
        let ran = trace.started.iter().any(|started| predicts(command, started));
        (command.canonical().text, ran)
    };
    let predicted = predicted.map(ran).collect();
    Finding {
        flagged: false,
        ran: exact + inexact.len(),
        exact,
        inexact,
        predicted,
        missed: misses,
    }
}

/// Says whether the tree has a program here whose words are all exact, and which runs unless something before it ends
/// the text: not in a branch, a body, or for each file that a wrapper finds.
fn is_static(command: &SimpleCommand) -> bool {
    command.kind == CommandKind::External
        && command.via.is_empty()
        && command.position == Position::Top
        && command.words.iter().all(|word| word.exact().is_some())
        && !command.words.is_empty()
}

/// Tools that start what their options and programs say through `sh -c`.
const TOOLS: &[&[u8]] =
    &[b"tar", b"awk", b"mawk", b"gawk", b"sed", b"sort", b"split", b"ed", b"flock"];

/// The shell that a tool starts for one of its own options, and the compressor of `tar -z`: not what the text says,
/// but how the tool does it. What else that shell starts is judged.
fn is_helper(started: &Started) -> bool {
    let by_tool = TOOLS.contains(&started.by.as_slice()) && started.path == b"/bin/sh";
    let compressors: [&[u8]; 5] = [b"gzip", b"bzip2", b"xz", b"zstd", b"lzip"];
    let argv: Vec<&[u8]> = started.argv.iter().map(Vec::as_slice).collect();
    let compressor = matches!(argv[..], [name] | [name, b"-d"] if compressors.contains(&name));
    by_tool || (compressor && started.by == b"sh")
}

/// Files that bash opens for itself: the terminal at its start, and texts of here-documents.
fn is_own(path: &[u8]) -> bool {
    path == b"/dev/tty" || path.starts_with(b"/tmp/sh-thd") || path.starts_with(b"/desk/sh-thd")
}

fn predicts(command: &SimpleCommand, started: &Started) -> bool {
    // A command that is taken for a function or builtin is not judged as a program.
    if command.kind != CommandKind::External {
        return false;
    }
    let by_argv = words_match(&command.words, &started.argv);
    // `exec -a name program`: the program counts, not what it is told that it is called.
    let renamed = || {
        let base = started.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let rest = started.argv.get(1..).unwrap_or_default();
        [base, started.path.as_slice()].iter().any(|name| {
            let argv: Vec<Vec<u8>> = [vec![name.to_vec()], rest.to_vec()].concat();
            words_match(&command.words, &argv)
        })
    };
    by_argv || renamed()
}

/// Says whether `words` could become `argv`: an unknown word may stand for any number of arguments.
fn words_match(words: &[Word], argv: &[Vec<u8>]) -> bool {
    // For each prefix of `argv`, whether the words so far can make it.
    let mut reachable = vec![false; argv.len() + 1];
    reachable[0] = true;
    for word in words {
        let mut next = vec![false; argv.len() + 1];
        for at in 0..=argv.len() {
            if !reachable[at] {
                continue;
            }
            if is_many(word) {
                next[at..].fill(true);
                break;
            }
            if at < argv.len() && may_be(word, &argv[at]) {
                next[at + 1] = true;
            }
        }
        reachable = next;
    }
    reachable[argv.len()]
}

fn is_many(word: &Word) -> bool {
    match &word.class {
        WordClass::Exact(_) => false,
        WordClass::Pattern { .. } => true,
        WordClass::Unknown { count, .. } => *count == Count::Any,
    }
}

fn may_be(word: &Word, value: &[u8]) -> bool {
    word.may_equal(value)
}
