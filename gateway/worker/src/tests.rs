//! The driver against workers that behave, die, stall and lie.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use stockade_witness::{Grammar, frames};

use super::*;

fn honest(stream: UnixStream) {
    let input = stream.try_clone().unwrap();
    // The peer may close first; that ends the worker.
    let _ = crate::scan::serve(Grammar::load().unwrap(), input, stream);
}

/// Answers like an honest worker, but dies at a text with `die`, and never answers one with `stall`.
fn moody(mut stream: UnixStream) {
    let mut grammar = Grammar::load().unwrap();
    frames::write_frame(&mut stream, &frames::hello(&grammar.kinds()), usize::MAX).unwrap();
    while let Ok(Some(text)) = frames::read_frame(&mut stream, usize::MAX) {
        let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        if has(b"die") {
            return;
        }
        if has(b"stall") {
            // Holds the connection until the other side gives up.
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
        let answer = if has(b"lie") { vec![9] } else { frames::answer(&grammar.see(&text)) };
        frames::write_frame(&mut stream, &answer, usize::MAX).unwrap();
    }
}

fn silent(stream: UnixStream) {
    drop(stream);
}

fn babbling(mut stream: UnixStream) {
    // The peer may close first.
    let _ = stream.write_all(&[0xff; 64]);
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn answers(start: Start, texts: &[&str]) -> Vec<Option<Absence>> {
    run(async {
        let scanner = Scanner::with(start);
        scanner.warm();
        let texts = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let seen = scanner.read(texts).await;
        seen.iter()
            .map(|witness| match witness {
                Witness::Nodes(_) => None,
                Witness::Absent(why) => Some(*why),
            })
            .collect()
    })
}

#[test]
fn an_honest_worker_answers_every_text_in_order() {
    let many: Vec<String> = (0..500).map(|n| format!("echo {}", "x ".repeat(n))).collect();
    let texts = many.iter().map(|text| text.clone().into_bytes()).collect();
    let seen = run(async { Scanner::with(Start::Thread(honest)).read(texts).await });
    let arguments: Vec<usize> = seen
        .iter()
        .map(|witness| match witness {
            Witness::Nodes(nodes) => nodes.iter().filter(|node| node.depth == 2).count() - 1,
            Witness::Absent(why) => panic!("{why:?}"),
        })
        .collect();
    assert_eq!(arguments, (0..500).collect::<Vec<_>>());
}

#[test]
fn a_text_that_kills_the_worker_spoils_no_other_text() {
    let dead = Some(Absence::Dead);
    assert_eq!(
        answers(Start::Thread(moody), &["a", "die", "b", "die", "c"]),
        [None, dead, None, dead, None]
    );
}

#[test]
fn a_text_that_stalls_the_worker_is_slow() {
    assert_eq!(answers(Start::Thread(moody), &["stall", "b"]), [Some(Absence::Slow), None]);
}

#[test]
fn an_answer_that_is_none_is_nonsense() {
    assert_eq!(answers(Start::Thread(moody), &["lie", "b"]), [Some(Absence::Nonsense), None]);
}

#[test]
fn a_text_that_killed_a_worker_is_never_sent_again() {
    run(async {
        let mut desk = Desk::new(Start::Thread(moody));
        let read = desk.read(vec![b"die".to_vec()]).await;
        assert_eq!(read, [Witness::Absent(Absence::Dead)]);
        desk = desk.starting_with(Start::Thread(honest));
        let read = desk.read(vec![b"die".to_vec(), b"ls".to_vec()]).await;
        assert_eq!(read[0], Witness::Absent(Absence::Dead));
        assert!(matches!(read[1], Witness::Nodes(_)));
    });
}

#[test]
fn without_a_worker_every_text_is_unconfirmed() {
    let dead = Some(Absence::Dead);
    for start in [
        Start::Thread(silent),
        Start::Thread(babbling),
        Start::Executable(PathBuf::from("/nonexistent/stockade"), Prefork(Arc::new(|| None))),
        Start::Executable(PathBuf::from("/bin/true"), Prefork(Arc::new(|| None))),
    ] {
        assert_eq!(answers(start, &["ls", "pwd"]), [dead, dead]);
    }
}

#[test]
fn guarded_texts_never_reach_the_worker() {
    let guarded = Some(Absence::Guarded);
    assert_eq!(answers(Start::Thread(moody), &["die {\u{100}", "die\0"]), [guarded, guarded]);
}

#[test]
fn a_tree_without_witness_is_opaque() {
    let tree = run(async {
        let scanner =
            Scanner::new(PathBuf::from("/nonexistent/stockade"), Prefork(Arc::new(|| None)));
        scanner.parse(b"ls;", &StartState::default(), &Limits::default()).await
    });
    assert!(tree.is_dynamic(), "{tree:?}");
}
