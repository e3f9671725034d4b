//! I6: every program that bash starts is in the tree, or the tree has an opaque part.
//!
//! A fixed sample of the corpus and of mutants, with a fixed seed. The `oracle` program of this package runs all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stockade_tests::oracle::cage::Cage;
use stockade_tests::oracle::corpus::{self, Sample};
use stockade_tests::oracle::damage::Numbers;
use stockade_tests::oracle::{compose, examine, mutate, tree};

/// Texts of each kind in the gate.
const SAMPLE: usize = 150;

/// The seed of the gate.
const SEED: u64 = 20_251_121;

/// Runs `samples`; fails with every text from which something got past.
fn check(samples: &[Sample]) {
    let cage = match Cage::build(env!("CARGO_BIN_EXE_oracle").as_ref()) {
        Ok(cage) => cage,
        Err(reason) => {
            stockade_tests::skip("oracle", &reason);
            return;
        }
    };
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(sample) = samples.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match examine(&cage, &sample.text, 0) {
                        Ok(found) if found.missed.is_empty() => {}
                        Ok(found) => {
                            let text = String::from_utf8_lossy(&sample.text).into_owned();
                            let line = format!("{}: {text:?}: {:?}", sample.id, found.missed);
                            missed.lock().unwrap().push(line);
                        }
                        Err(reason) => panic!("{}: {reason}", sample.id),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{} texts got past:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn i6_every_program_that_bash_starts_is_in_the_tree() {
    let mut numbers = Numbers::new(SEED);
    let samples: Vec<Sample> = corpus::FILES
        .into_iter()
        .map(corpus::read)
        .flat_map(|file| (0..SAMPLE).map(|_| numbers.one_of(&file).clone()).collect::<Vec<_>>())
        .collect();
    check(&samples);
}

#[test]
fn every_planted_command_is_in_the_tree() {
    let corpus: Vec<Sample> = corpus::FILES.into_iter().flat_map(corpus::read).collect();
    let mut numbers = Numbers::new(SEED);
    let samples: Vec<Sample> = (0..SAMPLE)
        .map(|index| Sample {
            id: format!("mutant {index}"),
            text: mutate::mutant(&corpus, &mut numbers),
        })
        .collect();
    check(&samples);
}

#[test]
fn every_command_of_composed_texts_is_in_the_tree() {
    let corpus: Vec<Sample> = corpus::FILES.into_iter().flat_map(corpus::read).collect();
    let mut numbers = Numbers::new(SEED);
    let samples: Vec<Sample> = (0..SAMPLE)
        .map(|index| Sample {
            id: format!("composed {index}"),
            text: match index % 3 {
                0 => compose::framed(&corpus, &mut numbers),
                _ => compose::composed(&mut numbers),
            },
        })
        .collect();
    check(&samples);
}

#[test]
fn everyday_commands_are_flagged_only_where_their_program_is_elsewhere() {
    let (mut flagged, mut others) = (0, Vec::new());
    for sample in corpus::read("everyday") {
        let tree = tree::read(&sample.text);
        flagged += usize::from(tree.is_dynamic());
        if tree.is_dynamic() && !tree::is_elsewhere(&tree) {
            others.push(String::from_utf8_lossy(&sample.text).into_owned());
        }
    }
    assert_eq!(flagged, 5);
    // A file name with a blank would bring in `-e`, which runs what follows.
    assert_eq!(others, ["grep -rl \"oldName\" src | xargs sed -i 's/oldName/newName/g'"]);
}

#[test]
fn braces_expand_as_bash_expands_them() {
    let pieces = ["{", "}", ",", "..", "a", "b", "1", "3", "'", "x{", ",}", "{a", "\\,", "-"];
    let mut numbers = Numbers::new(SEED);
    let mut words: Vec<String> = Vec::new();
    while words.len() < 3_000 {
        let length = 2 + numbers.below(9);
        let word: String = (0..length).map(|_| *numbers.one_of(&pieces)).collect();
        // A quote needs its other half.
        if word.matches('\'').count().is_multiple_of(2) {
            words.push(word);
        }
    }
    let script: String =
        words.iter().map(|word| format!("printf '<%s>' x {word}; echo\n")).collect();
    let output = std::process::Command::new("bash").args(["--norc", "-c", &script]).output();
    let Ok(output) = output else {
        stockade_tests::skip("oracle::braces_expand_as_bash_expands_them", "there is no bash");
        return;
    };
    let output = String::from_utf8(output.stdout).unwrap();
    let mut wrong = Vec::new();
    for (word, line) in words.iter().zip(output.lines()) {
        let tree = tree::read(format!("p x {word}").as_bytes());
        let Some(command) = tree.commands().first() else { continue };
        let values: Option<Vec<String>> = command.words.iter().skip(1).map(exact).collect();
        if let Some(values) = values {
            let ours: String = values.iter().map(|value| format!("<{value}>")).collect();
            if ours != line {
                wrong.push(format!("{word}: bash {line}, tree {ours}"));
            }
        }
    }
    assert_eq!(output.lines().count(), words.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), words.len(), wrong.join("\n"));
}

fn exact(word: &stockade_parser::Word) -> Option<String> {
    word.exact().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}
