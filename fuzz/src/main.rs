//! Bounded fuzzing on stable Rust: damaged texts of the corpus against one target after the other.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --target-dir target -- all --seconds 60 --seed 1` gives each target
//! a minute. A failure prints the target, the seed and the input; `-- parse --input FILE` runs one again.
//! Inputs that once failed lie in `fuzz/corpus/TARGET/` and run first, always.
#![forbid(unsafe_code)]

#[path = "../../tests/src/oracle/damage.rs"]
mod damage;
mod input;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use input::Inputs;
use targets::{TARGETS, Target};

/// How long an input may take, at most, in this build without optimisation.
const SLOW: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option)?;
        arguments.get(at + 1)
    };
    let name = arguments.first().map_or("", String::as_str);
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| name == "all" || name == target.name).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: all|{} [--seconds N] [--seed N] [--input FILE]", names.join("|"));
        return ExitCode::from(2);
    }
    if let Some(file) = value("--input") {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        };
        let failed = chosen.iter().any(|target| !holds(target, &bytes));
        return ExitCode::from(u8::from(failed));
    }
    let number = |option| value(option).and_then(|value| value.parse().ok());
    let seconds = number("--seconds").unwrap_or(10);
    let seed = number("--seed").unwrap_or(1);
    // The report below says more than a backtrace for each input would.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let failed = chosen.iter().filter(|target| !fuzz(target, seconds, seed)).count();
    ExitCode::from(u8::from(failed > 0))
}

/// Runs one target for some seconds; says whether every input held.
fn fuzz(target: &Target, seconds: u64, seed: u64) -> bool {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut inputs = Inputs::new(seed, &kept);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0_u64;
    while Instant::now() < end {
        let bytes = inputs.next();
        if !holds(target, &bytes) {
            println!("{}: failed at input {count} of seed {seed}:", target.name);
            println!("{:?}", String::from_utf8_lossy(&bytes));
            println!("bytes: {bytes:?}");
            return false;
        }
        count += 1;
    }
    println!("{}: {count} inputs held, seed {seed}", target.name);
    true
}

fn holds(target: &Target, bytes: &[u8]) -> bool {
    let start = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_ok();
    let took = start.elapsed();
    if took > SLOW {
        println!("{}: {} bytes took {took:?}", target.name, bytes.len());
    }
    ended && took <= SLOW
}
