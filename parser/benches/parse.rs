//! How long reading takes, without the witness: `cargo bench -p stockade-parser`.
//!
//! First the median over all one-liners of the corpus is printed, each with the least time of several readings;
//! then criterion measures one line of each kind, nests, texts of 1 MiB, and texts that grow to 4 MiB.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    missing_docs,
    reason = "it measures the parser from outside"
)]

#[path = "../tests/worst/cases.rs"]
mod cases;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use stockade_parser::{Limits, Programs, StartState, parse};
use stockade_text::json;

/// Ordinary commands of one line; the second has 46 bytes.
const LINES: &[(&str, &str)] = &[
    ("plain", "git status --short"),
    ("pipeline", "ps aux | grep ssh | awk '{print $2}' | sort -u"),
    ("find", "find . -name '*.rs' -exec grep -l TODO {} \\;"),
    ("nested", "bash -c 'cd src && cargo test -- --nocapture 2>&1 | tail -20'"),
    ("values", "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done"),
];

/// Of the texts in `tests/worst/cases.rs`, those of 1 MiB that took the longest, and one of each construct.
const COSTLY: &[&str] = &[
    "commands",
    "commands in lines",
    "commands in one pipe",
    "evaluated commands",
    "assignment lines",
    "elements",
    "substitutions",
    "backquotes",
    "openers of backquotes",
    "openers of double subshells",
    "here-documents",
    "here-documents in substitutions",
    "braces",
    "one command with many words",
    "values in a nest of branches",
];

fn read_within(text: &[u8], limits: &Limits) -> usize {
    let draft = parse(black_box(text), &StartState::default(), Programs::builtin(), limits);
    draft.requests().count()
}

fn read(text: &[u8]) -> usize {
    read_within(text, &Limits::default())
}

/// The commands of the corpus that are one line.
fn corpus() -> Vec<String> {
    let mut lines = Vec::new();
    for name in ["nl2bash", "tldr"] {
        let path = format!("{}/../tests/corpus/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let value = json::read(line.as_bytes(), json::Dialect::Strict).unwrap();
            lines.push(value.get("command").and_then(json::Value::text).unwrap().to_owned());
        }
    }
    lines.retain(|line| !line.contains('\n'));
    lines
}

/// Prints the median over the corpus; criterion has no median over different inputs.
fn median(lines: &[String]) {
    let least = |line: &String| {
        let once = |_| {
            let started = Instant::now();
            black_box(read(line.as_bytes()));
            started.elapsed()
        };
        (0..15).map(once).min().unwrap_or_default()
    };
    let mut times: Vec<Duration> = lines.iter().map(least).collect();
    times.sort_unstable();
    let at = |hundredths: usize| times.get(times.len() * hundredths / 100).copied().unwrap();
    let bytes = lines.iter().map(String::len).sum::<usize>() / lines.len();
    println!(
        "corpus: {} lines of {bytes} bytes on average: median {:?}, 90 of 100 within {:?}, 99 within {:?}",
        lines.len(),
        at(50),
        at(90),
        at(99)
    );
}

fn lines(criterion: &mut Criterion) {
    let corpus = corpus();
    median(&corpus);
    let mut group = criterion.benchmark_group("line");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for (name, line) in LINES {
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| read(line.as_bytes())));
    }
    group.finish();
    let mut group = criterion.benchmark_group("corpus");
    group.sample_size(10).throughput(Throughput::Elements(corpus.len() as u64));
    group.bench_function("all lines", |bencher| {
        bencher.iter(|| corpus.iter().map(|line| read(line.as_bytes())).sum::<usize>());
    });
    group.finish();
}

fn nesting(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("450 levels");
    group.sample_size(10).warm_up_time(Duration::from_millis(100));
    group.measurement_time(Duration::from_millis(500));
    for (name, text) in cases::nests(450) {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| read(&text)));
    }
    group.finish();
}

fn costly(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1 MiB");
    group.sample_size(10).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_secs(1));
    for (name, text) in cases::all(1 << 20).filter(|(name, _)| COSTLY.contains(&name.as_str())) {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| read(&text)));
    }
    group.finish();
}

/// The limit of 1 MiB is raised here; time divided by length stays level.
fn curve(criterion: &mut Criterion) {
    let usual = Limits::default();
    let limits = Limits {
        input_bytes: 4 * usual.input_bytes,
        work: 4 * usual.work,
        memory_bytes: 4 * usual.memory_bytes,
        ..usual
    };
    let texts = [
        ("one-letter commands", "a;"),
        ("a script", "if test -f \"$f\"; then\n  sort -u \"$f\" | head -n 3 > out.txt\nfi\n"),
    ];
    for (name, part) in texts {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_secs(1));
        for kib in [1_usize, 4, 16, 64, 256, 1_024, 4_096] {
            let text = part.repeat((kib << 10) / part.len());
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_with_input(BenchmarkId::from_parameter(kib), &text, |bencher, text| {
                bencher.iter(|| read_within(text.as_bytes(), &limits));
            });
        }
        group.finish();
    }
}

/// Reports go to the target folder of the workspace, from wherever this is started.
fn reports() -> Criterion {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/criterion");
    Criterion::default().output_directory(folder.as_ref())
}

criterion_group! {
    name = benches;
    config = reports();
    targets = lines, nesting, costly, curve
}
criterion_main!(benches);
