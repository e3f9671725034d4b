//! Times decisions against many rules, and loading them, and prints medians.
//!
//! `cargo run --release -p stockade-tests --bin bench_policy`
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use stockade_policy::{Call, Layer, Rules, evaluate, load};
use stockade_tests::cases::{plain_facts, texts};
use stockade_tests::oracle::tree;
use stockade_text::json::{Dialect, read};

const ROUNDS: usize = 2_001;
const COMMANDS: [&str; 3] = [
    "program77 run build",
    "cat notes.txt | grep -n x && program5 a b > out/a.txt",
    "unknown --all",
];

fn main() {
    for count in [10, 1_000, 10_000, 100_000] {
        let text = settings(count);
        let texts =
            texts(&[(Layer::User, true, text)], "/home/dev".as_ref(), "/home/dev/proj".as_ref());
        let start = Instant::now();
        let rules = load(&texts).rules;
        println!("{count:>7} rules: loaded in {:?}", start.elapsed());
        for command in COMMANDS {
            println!("         {:?}  `{command}`", median(&rules, command));
        }
    }
}

/// A third each of command rules that allow, command rules that refuse, and path rules that refuse.
fn settings(count: usize) -> String {
    let rule = |index: usize| match index % 3 {
        0 => format!("\"Bash(tool{index} run:*)\""),
        1 => format!("\"Read(secret{index}/**)\""),
        _ => format!("\"Edit(/locked/{index}/*.txt)\""),
    };
    let allow: Vec<String> =
        (0..count / 2).map(|index| format!("\"Bash(program{index} *)\"")).collect();
    let deny: Vec<String> = (0..count / 2).map(rule).collect();
    let (allow, deny) = (allow.join(",\n"), deny.join(",\n"));
    format!("{{\"permissions\":{{\"allow\":[{allow}],\"deny\":[{deny}]}}}}")
}

fn median(rules: &Rules, command: &str) -> Duration {
    let facts = plain_facts();
    let tree = tree::read(command.as_bytes());
    let json = format!("{{\"command\":\"{command}\"}}");
    let input = read(json.as_bytes(), Dialect::Strict).expect("JSON");
    let call = Call::Bash { tree: &tree, input: &input };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let _ = std::hint::black_box(evaluate(rules, &call, &facts));
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}
