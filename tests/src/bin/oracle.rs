//! Runs texts in real bash and says what the parser missed.
//!
//! `cargo run -p stockade-tests --bin oracle -- --all` runs the whole corpus;
//! `… -- --mutants 1000 --seed 7` runs damaged texts with a planted command (`--authority`: also those that only
//! the witness doubts); `--composed 1000` the same with texts put together from pieces, and texts in others;
//! `… -- --flags [--show CODE]` only counts why texts are opaque;
//! `… -- --accept [--file NAME] [--scripts FOLDER]` compares with `bash -n`: what bash accepts must be no syntax error;
//! `--untold` tells the parser nothing about the environment, as `stockade parse` does;
//! `--why` prints what is lost of exact words;
//! `… -- --text 'ls | wc'` runs one text and prints what it did.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stockade_tests::oracle::cage::Cage;
use stockade_tests::oracle::corpus::{self, Sample};
use stockade_tests::oracle::damage::Numbers;
use stockade_tests::oracle::judge::Miss;
use stockade_tests::oracle::scenery::Scenery;
use stockade_tests::oracle::{
    Finding, accept, compose, examine, examine_authority, measure, minimise, mutate, room, tree,
};

/// How often a failing text is run again to make it small.
const MINIMISE_TRIES: usize = 150;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    if name.rsplit('/').next() == Some(room::NAME) {
        return ExitCode::from(room::main());
    }
    let arguments: Vec<String> = arguments.collect();
    let value = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option)?;
        arguments.get(at + 1).cloned()
    };
    if arguments.iter().any(|argument| argument == "--untold") {
        tree::tell_nothing();
    }
    if arguments.iter().any(|argument| argument == "--flags") {
        return flags(&arguments);
    }
    if arguments.iter().any(|argument| argument == "--accept") {
        return accept(&arguments, value("--scripts"));
    }
    let executable = std::env::current_exe().expect("the path of this program");
    let cage = match Cage::build(&executable) {
        Ok(cage) => cage,
        Err(reason) => {
            eprintln!("oracle: skipped: {reason}");
            return ExitCode::from(2);
        }
    };
    if let Some(text) = value("--text") {
        return one(&cage, text.as_bytes());
    }
    let seed = value("--seed").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let alone = arguments.iter().any(|argument| argument == "--authority");
    let chosen: Examination = if alone { examine_authority } else { examine };
    let threads = value("--threads").and_then(|count| count.parse().ok()).unwrap_or(2);
    let mut nothing_missed = true;
    let count = |option: &str| value(option).and_then(|count| count.parse().ok());
    let made = match count("--composed") {
        Some(count) => Some(composed(count, seed)),
        None => count("--mutants").map(|count| mutants(count, seed)),
    };
    match made {
        Some(samples) => {
            nothing_missed &= many(&cage, &samples, chosen, Statuses::OneOfBoth, threads);
        }
        None => {
            for name in files(&arguments) {
                print!("{name}: ");
                let samples = corpus::read(&name);
                let every: Examination = if alone { examine_authority } else { measure };
                nothing_missed &= many(&cage, &samples, every, Statuses::Both, threads);
            }
        }
    }
    if nothing_missed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Exit statuses of the stubs.
#[derive(Clone, Copy)]
enum Statuses {
    /// Once where programs succeed and once where they fail: both branches of `&&` are seen.
    Both,
    /// One of the two, in turn: twice as many texts in the same time.
    OneOfBoth,
}

impl Statuses {
    fn of(self, number: usize) -> &'static [u8] {
        match self {
            Statuses::Both => &[0, 1],
            Statuses::OneOfBoth if number.is_multiple_of(2) => &[0],
            Statuses::OneOfBoth => &[1],
        }
    }
}

/// The files that are asked for: the one behind `--file`, or the whole corpus.
fn files(arguments: &[String]) -> Vec<String> {
    let at = arguments.iter().position(|argument| argument == "--file");
    match at.and_then(|at| arguments.get(at + 1)) {
        Some(file) => vec![file.clone()],
        None => corpus::FILES.map(str::to_owned).to_vec(),
    }
}

/// Counts why texts are opaque, without running any; with `--show CODE` prints those with that reason.
fn flags(arguments: &[String]) -> ExitCode {
    let show = arguments
        .iter()
        .position(|argument| argument == "--show")
        .and_then(|at| arguments.get(at + 1));
    for name in files(arguments) {
        let samples = corpus::read(&name);
        let mut reasons = std::collections::BTreeMap::<&str, usize>::new();
        let (mut flagged, mut elsewhere) = (0, 0);
        for sample in &samples {
            let tree = tree::read(&sample.text);
            let codes: std::collections::BTreeSet<&str> =
                tree.opaque_spans().iter().map(|opaque| opaque.reason.code()).collect();
            flagged += usize::from(!codes.is_empty());
            elsewhere += usize::from(tree::is_elsewhere(&tree));
            for opaque in tree
                .opaque_spans()
                .iter()
                .filter(|it| show.is_some_and(|code| code == it.reason.code()))
            {
                let part = String::from_utf8_lossy(opaque.span.of(&sample.text)).into_owned();
                println!(
                    "{}: {} {part:?}\n    {:?}",
                    sample.id,
                    opaque.detail,
                    String::from_utf8_lossy(&sample.text)
                );
            }
            for code in codes {
                *reasons.entry(code).or_default() += 1;
            }
        }
        let share = 100.0 * flagged as f64 / samples.len().max(1) as f64;
        let (rest, others) = (flagged - elsewhere, samples.len() - elsewhere);
        println!(
            "{name}: {flagged} of {} flagged ({share:.1} %); without those that run a script file or start a shell {rest} of {others} ({:.1} %): {reasons:?}",
            samples.len(),
            100.0 * rest as f64 / others.max(1) as f64,
        );
    }
    ExitCode::SUCCESS
}

/// Prints what bash accepts and the parser does not; fails if there is such a text in the corpus.
fn accept(arguments: &[String], folder: Option<String>) -> ExitCode {
    let sources: Vec<(String, std::io::Result<Vec<Sample>>)> = match folder {
        Some(folder) => vec![(folder.clone(), accept::scripts(folder.as_ref()))],
        None => {
            files(arguments).into_iter().map(|it| (it.clone(), Ok(corpus::read(&it)))).collect()
        }
    };
    let mut refused = 0;
    for (name, samples) in sources {
        let found = match samples.and_then(|samples| accept::compare(&samples)) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("oracle: {name}: {error}");
                return ExitCode::from(2);
            }
        };
        for (id, why) in &found.refused {
            println!("REFUSED {id}: {why}");
        }
        refused += found.refused.len();
        println!(
            "{name}: bash accepts {} of {}, and {} of those are refused here ({:.1} %); {} more are accepted here",
            found.by_bash,
            found.texts,
            found.refused.len(),
            100.0 * found.refused.len() as f64 / found.by_bash.max(1) as f64,
            found.more,
        );
    }
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(cage: &Cage, text: &[u8]) -> ExitCode {
    let tree = tree::read(text);
    let quoted = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    let word = |word: &stockade_parser::Word| match word.exact() {
        Some(bytes) => quoted(bytes),
        None => format!("?{}", quoted(word.span.of(text))),
    };
    for command in tree.commands() {
        let words: Vec<String> = command.words.iter().map(word).collect();
        println!("command {}", words.join(" "));
    }
    for target in tree.writes() {
        println!("write   {}", word(&target.word));
    }
    for opaque in tree.opaque_spans() {
        let (code, span) = (opaque.reason.code(), quoted(opaque.span.of(text)));
        println!("opaque  {code} {} {span}", opaque.detail);
    }
    match cage.run(text, 0, &Scenery::of(&tree)) {
        Ok(trace) => {
            for started in trace.started {
                println!("started {}", show(&[Miss::Program(started)]));
            }
            for written in trace.written {
                println!("wrote   {}", show(&[Miss::Write(written)]));
            }
        }
        Err(reason) => println!("not run {reason}"),
    }
    match examine(cage, text, 0) {
        Ok(found) if found.missed.is_empty() => println!("nothing got past"),
        Ok(found) => println!("MISSED  {}", show(&found.missed)),
        Err(reason) => println!("not run {reason}"),
    }
    ExitCode::SUCCESS
}

fn mutants(count: usize, seed: u64) -> Vec<Sample> {
    let corpus: Vec<Sample> = corpus::FILES.into_iter().flat_map(corpus::read).collect();
    let mut numbers = Numbers::new(seed);
    (0..count)
        .map(|index| Sample {
            id: format!("mutant {index} of seed {seed}"),
            text: mutate::mutant(&corpus, &mut numbers),
        })
        .collect()
}

fn composed(count: usize, seed: u64) -> Vec<Sample> {
    let corpus: Vec<Sample> = corpus::FILES.into_iter().flat_map(corpus::read).collect();
    let mut numbers = Numbers::new(seed);
    let mut text = |index: usize| match index % 3 {
        0 => compose::framed(&corpus, &mut numbers),
        _ => compose::composed(&mut numbers),
    };
    let sample =
        |index| Sample { id: format!("composed {index} of seed {seed}"), text: text(index) };
    (0..count).map(sample).collect()
}

/// Whether texts with an opaque tree are run as well.
type Examination = fn(&Cage, &[u8], u8) -> Result<Finding, String>;

#[derive(Default)]
struct Sums {
    flagged: usize,
    ran: usize,
    exact: usize,
    predicted: usize,
    happened: usize,
    /// The same for texts whose tree is not opaque.
    predicted_clear: usize,
    happened_clear: usize,
    missed: usize,
    broken: usize,
}

fn many(
    cage: &Cage,
    samples: &[Sample],
    examination: Examination,
    statuses: Statuses,
    threads: usize,
) -> bool {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(sample) = samples.get(number) else { break };
                    judge(cage, sample, examination, statuses.of(number), &sums);
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap_or_default();
    let texts = samples.len().max(1);
    println!(
        "{} texts: {} flagged ({:.1} %), {} missed, {} not run; {} programs ran, {} of them as the tree has them word for word ({:.3}); {} programs with exact words only, {} of them ran ({:.3}); where nothing is opaque {} and {} ({:.3})",
        samples.len(),
        sums.flagged,
        100.0 * sums.flagged as f64 / texts as f64,
        sums.missed,
        sums.broken,
        sums.ran,
        sums.exact,
        sums.exact as f64 / sums.ran.max(1) as f64,
        sums.predicted,
        sums.happened,
        sums.happened as f64 / sums.predicted.max(1) as f64,
        sums.predicted_clear,
        sums.happened_clear,
        sums.happened_clear as f64 / sums.predicted_clear.max(1) as f64,
    );
    let seconds = began.elapsed().as_secs_f64();
    println!("{seconds:.0} s, {:.0} texts a second", texts as f64 / seconds);
    sums.missed == 0
}

fn judge(
    cage: &Cage,
    sample: &Sample,
    examination: Examination,
    statuses: &[u8],
    sums: &Mutex<Sums>,
) {
    let why = std::env::args().any(|argument| argument == "--why");
    let mut add = Sums::default();
    let mut happened: Vec<(Vec<u8>, bool)> = Vec::new();
    for &status in statuses {
        match examination(cage, &sample.text, status) {
            Ok(found) if found.missed.is_empty() => {
                add.flagged = usize::from(found.flagged);
                add.ran += found.ran;
                add.exact += found.exact;
                if why {
                    for argv in &found.inexact {
                        println!("NOT EXACT {}: {}", sample.id, shown(&argv.join(&b' ')));
                    }
                }
                match happened.is_empty() {
                    true => happened = found.predicted,
                    false => happened
                        .iter_mut()
                        .zip(found.predicted)
                        .for_each(|((_, any), (_, ran))| *any |= ran),
                }
            }
            Ok(found) => {
                add.missed = 1;
                report(cage, sample, status, &found.missed, examination);
                break;
            }
            Err(reason) => {
                add.broken = 1;
                println!("FAULT {}: {reason}", sample.id);
                break;
            }
        }
    }
    if why {
        for (words, _) in happened.iter().filter(|(_, ran)| !ran) {
            println!("NOT RUN {}: {}\n    {}", sample.id, shown(words), shown(&sample.text));
        }
    }
    let mut sums = sums.lock().expect("no thread panics");
    sums.flagged += add.flagged;
    sums.ran += add.ran;
    sums.exact += add.exact;
    sums.predicted += happened.len();
    let ran = happened.iter().filter(|(_, ran)| *ran).count();
    sums.happened += ran;
    if add.flagged == 0 {
        sums.predicted_clear += happened.len();
        sums.happened_clear += ran;
    }
    sums.missed += add.missed;
    sums.broken += add.broken;
}

/// Prints a text that something got past, made small.
fn report(cage: &Cage, sample: &Sample, status: u8, misses: &[Miss], examination: Examination) {
    let missed = |text: &[u8]| match examination(cage, text, status) {
        Ok(found) => found.missed,
        Err(_) => Vec::new(),
    };
    let small = minimise::minimise(&sample.text, MINIMISE_TRIES, |text| !missed(text).is_empty());
    println!("MISSED {}: {:?}", sample.id, String::from_utf8_lossy(&small));
    let misses_of_small = missed(&small);
    println!("  {}", show(if misses_of_small.is_empty() { misses } else { &misses_of_small }));
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

fn show(misses: &[Miss]) -> String {
    let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    let one = |miss: &Miss| match miss {
        Miss::Program(started) => {
            let words: Vec<String> = started.argv.iter().map(|word| text(word)).collect();
            format!("{} started {} {}", text(&started.by), text(&started.path), words.join(" "))
        }
        Miss::Write(written) => format!("{} wrote {}", text(&written.by), text(&written.path)),
    };
    misses.iter().map(one).collect::<Vec<_>>().join("; ")
}
