//! Mutation tests in one build: each small change of a source is compiled in behind a number, and the tests run once for each
//! number. A change with which every test passes has survived: a test is missing, or the change means nothing.
//!
//! `cargo xtask mutants FILE...` starts it. The tree under `target/mutants/tree` is a copy: nothing here changes a source.

mod build;
mod rewrite;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use build::{Outcome, Tests, Tree};
use rewrite::{Mutant, rewrite};

/// Most builds: each one leaves out the mutants that the one before could not compile.
const MOST_BUILDS: usize = 12;

const USAGE: &str = "\
usage: stockade-mutants ROOT --tests ARGS [--tests ARGS]... [--filter TEXT]... [--list] [--since REVISION] [--from N] [--to N] [--seconds N] FILE...

  ROOT       the repository
  --tests    arguments of `cargo test` that name targets, such as `-p stockade-policy --lib`
  --filter   runs only tests with this text in their name
  --list     lists the mutants and runs nothing
  --since REVISION
             runs only mutants of lines that differ from this revision
  --from N, --to N
             runs only these numbers
  --seconds  time limit of one test executable (default 60)";

#[derive(Debug, Default)]
struct Options {
    root: String,
    tests: Vec<Vec<String>>,
    filters: Vec<String>,
    files: Vec<String>,
    list: bool,
    since: Option<String>,
    from: usize,
    to: usize,
    seconds: u64,
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options { to: usize::MAX, seconds: 60, ..Options::default() };
    options.root = arguments.next().ok_or(USAGE)?;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--tests" => options.tests.push(value()?.split(' ').map(str::to_owned).collect()),
            "--filter" => options.filters.push(value()?),
            "--list" => options.list = true,
            "--since" => options.since = Some(value()?),
            "--from" => options.from = number(&value()?)?,
            "--to" => options.to = number(&value()?)?,
            "--seconds" => options.seconds = number(&value()?)? as u64,
            other if other.starts_with('-') => {
                return Err(format!("unknown option `{other}`\n{USAGE}"));
            }
            _ => options.files.push(argument),
        }
    }
    if options.files.is_empty() || (options.tests.is_empty() && !options.list) {
        return Err(USAGE.to_owned());
    }
    Ok(options)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("invalid number `{text}`"))
}

/// Writes the files with their mutants into the tree.
fn plant(
    tree: &Tree,
    options: &Options,
    left_out: &BTreeSet<usize>,
) -> Result<Vec<Mutant>, String> {
    let mut found = Vec::new();
    for file in &options.files {
        let source = std::fs::read_to_string(Path::new(&options.root).join(file));
        let source = source.map_err(|error| format!("{file}: {error}"))?;
        tree.write(file, &rewrite((file, &source), left_out, &mut found)?)?;
    }
    Ok(found)
}

/// Returns the lines of `file` that differ from `revision`; all of a file that was not there.
fn changed(options: &Options, revision: &str, file: &str) -> Result<BTreeSet<usize>, String> {
    let mut git = Command::new("git");
    git.args(["diff", "-U0", revision, "--", file]).current_dir(&options.root);
    let output = git.output().map_err(|error| format!("git diff: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hunks = text.lines().filter_map(|line| {
        let new = line.strip_prefix("@@ ")?.split(' ').find_map(|it| it.strip_prefix('+'))?;
        let (first, count) = new.split_once(',').unwrap_or((new, "1"));
        let first: usize = first.parse().ok()?;
        Some(first..first + count.parse::<usize>().ok()?)
    });
    Ok(hunks.flatten().collect())
}

fn shown(mutant: &Mutant) -> String {
    let Mutant { number, file, line, function, change } = mutant;
    format!("{number:5} {file}:{line} {function}: {change}")
}

/// Returns the numbers of the mutants that are to be tried.
fn asked(options: &Options, mutants: &[Mutant]) -> Result<BTreeSet<usize>, String> {
    let mut asked = BTreeSet::new();
    for file in &options.files {
        let lines = options.since.as_deref().map(|it| changed(options, it, file)).transpose()?;
        let of_file = mutants.iter().filter(|it| &it.file == file);
        let is_asked = |it: &&Mutant| lines.as_ref().is_none_or(|all| all.contains(&it.line));
        asked.extend(of_file.filter(is_asked).map(|it| it.number));
    }
    asked.retain(|it| (options.from..=options.to).contains(it));
    Ok(asked)
}

/// Builds the tests, and returns them with the numbers of the mutants that do not compile.
fn built(tree: &Tree, options: &Options) -> Result<(Tests, BTreeSet<usize>), String> {
    let mut left_out = BTreeSet::new();
    for _ in 0..MOST_BUILDS {
        plant(tree, options, &left_out)?;
        match tree.build(&options.tests)? {
            Outcome::Built(tests) => return Ok((tests, left_out)),
            Outcome::Broken(numbers) => left_out.extend(numbers),
        }
    }
    Err(format!("{} mutants do not compile, and there are more", left_out.len()))
}

fn run() -> Result<bool, String> {
    let options = options()?;
    let tree = Tree::copy(Path::new(&options.root))?;
    let mutants = plant(&tree, &options, &BTreeSet::new())?;
    if options.list {
        mutants.iter().for_each(|it| println!("{}", shown(it)));
        return Ok(true);
    }
    let asked = asked(&options, &mutants)?;
    if asked.is_empty() {
        println!("no mutants");
        return Ok(true);
    }
    let (tests, left_out) = built(&tree, &options)?;
    let limit = Duration::from_secs(options.seconds);
    let fails = |number| tree.fails((&tests, &options.filters), number, limit);
    if let Some(failed) = fails(0) {
        return Err(format!("`{failed}` fails without a mutant"));
    }
    let is_tried = |it: &&Mutant| asked.contains(&it.number) && !left_out.contains(&it.number);
    let (mut tried, mut survived) = (0, 0);
    for mutant in mutants.iter().filter(is_tried) {
        tried += 1;
        match fails(mutant.number) {
            Some(_) => eprintln!("caught    {}", shown(mutant)),
            None => {
                survived += 1;
                println!("SURVIVED  {}", shown(mutant));
            }
        }
    }
    let skipped = left_out.intersection(&asked).count();
    println!("{tried} mutants, {survived} survived, {skipped} did not compile");
    Ok(survived == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
