//! Contenders, their times, and how they are printed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A way to do one thing.
pub(crate) struct Contender {
    name: String,
    argv: Vec<String>,
    /// File that is its standard input; empty without one.
    pub(crate) input: Option<PathBuf>,
    times: Vec<Duration>,
}

impl Contender {
    /// A contender whose words are those of `line`, split at blanks, and then `last`.
    pub(crate) fn new(name: &str, line: &str, last: &[&str]) -> Contender {
        let argv = line.split(' ').chain(last.iter().copied()).map(str::to_owned).collect();
        Contender { name: name.to_owned(), argv, input: None, times: Vec::new() }
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs it once; none if it fails.
    pub(crate) fn time(&self, cwd: &Path) -> Option<Duration> {
        let (program, arguments) = self.argv.split_first()?;
        let input = match &self.input {
            Some(path) => Stdio::from(std::fs::File::open(path).ok()?),
            None => Stdio::null(),
        };
        // A hook whose answer nobody reads blocks; the empty device reads nothing.
        let output = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        let start = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(cwd)
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::null())
            .spawn();
        let ended = child.ok()?.wait_with_output().ok()?;
        let took = start.elapsed();
        ended.status.success().then_some(took)
    }

    /// Returns its median; none if it never ran.
    pub(crate) fn median(&self) -> Option<Duration> {
        self.at(50)
    }

    fn at(&self, share: usize) -> Option<Duration> {
        self.times.get(self.times.len() * share / 100).copied()
    }
}

/// How long the machine is left alone before each start. What the contender before left behind, namespaces that go and launchers
/// that come, is over then: it counts for `rate`, and not for whoever is next.
const PAUSE: Duration = Duration::from_millis(8);

/// Runs every contender once in each round, and once before that does not count; `before` is done before each.
pub(crate) fn in_turn(
    contenders: &mut Vec<Contender>,
    rounds: usize,
    cwd: &Path,
    before: impl Fn(),
) {
    contenders.retain(|contender| {
        before();
        let runs = contender.time(cwd).is_some();
        if !runs {
            println!("left out, does not run here: {}", contender.name);
        }
        runs
    });
    for _ in 0..rounds {
        for contender in contenders.iter_mut() {
            before();
            std::thread::sleep(PAUSE);
            contender.times.extend(contender.time(cwd));
        }
    }
    for contender in contenders {
        contender.times.sort();
    }
}

/// Prints times and ratios to the first contender.
pub(crate) fn print(title: &str, contenders: &[Contender]) {
    let base = contenders.first().and_then(|first| first.at(50)).unwrap_or_default();
    println!(
        "{title:<42} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "least", "median", "p95", "more", "ratio"
    );
    for contender in contenders {
        let [Some(least), Some(median), Some(high)] = [0, 50, 95].map(|share| contender.at(share))
        else {
            continue;
        };
        println!(
            "{:<42} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>8.2}x",
            contender.name,
            least.as_secs_f64() * 1e3,
            median.as_secs_f64() * 1e3,
            high.as_secs_f64() * 1e3,
            (median.as_secs_f64() - base.as_secs_f64()) * 1e3,
            median.as_secs_f64() / base.as_secs_f64().max(1e-9),
        );
    }
    println!();
}
