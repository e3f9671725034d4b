//! Mutation tests in one build: each small change of a source is compiled in behind a number, and the tests run once for each
//! number. A change with which every test passes has survived: a test is missing, or the change means nothing.
//!
//! `cargo xtask mutants FILE...` starts it. The tree under `target/mutants/tree` is a copy: nothing here changes a source.

mod build;
mod rewrite;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use build::{Outcome, Tree};
use rewrite::{Mutant, rewrite};

/// Most builds: each one leaves out the mutants that the one before could not compile.
const MOST_BUILDS: usize = 12;

const USAGE: &str = "\
usage: stockade-mutants ROOT --tests ARGS [--tests ARGS]... [--filter TEXT]... [--list] [--from N] [--to N] [--seconds N] FILE...

  ROOT       the repository
  --tests    arguments of `cargo test` that name targets, such as `-p stockade-policy --lib`
  --filter   runs only tests with this text in their name
  --list     lists the mutants and runs nothing
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
            "--from" => options.from = number(&value()?)?,
            "--to" => options.to = number(&value()?)?,
            "--seconds" => options.seconds = number(&value()?)? as u64,
            other if other.starts_with('-') => return Err(format!("unknown option `{other}`\n{USAGE}")),
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
fn plant(tree: &Tree, options: &Options, left_out: &[usize]) -> Result<Vec<Mutant>, String> {
    let mut found = Vec::new();
    for file in &options.files {
        let source = std::fs::read_to_string(Path::new(&options.root).join(file));
        let source = source.map_err(|error| format!("{file}: {error}"))?;
        tree.write(file, &rewrite((file, &source), left_out, &mut found)?)?;
    }
    Ok(found)
}

fn shown(mutant: &Mutant) -> String {
    let Mutant { number, file, line, function, change } = mutant;
    format!("{number:5} {file}:{line} {function}: {change}")
}

fn run() -> Result<bool, String> {
    let options = options()?;
    let tree = Tree::copy(Path::new(&options.root))?;
    let mut left_out = Vec::new();
    let mut mutants = plant(&tree, &options, &left_out)?;
    if options.list {
        mutants.iter().for_each(|it| println!("{}", shown(it)));
        return Ok(true);
    }
    let mut tests = Err("nothing was built".to_owned());
    for _ in 0..MOST_BUILDS {
        match tree.build(&options.tests)? {
            Outcome::Built(executables) => {
                tests = Ok(executables);
                break;
            }
            Outcome::Broken(places) => {
                let bad: BTreeSet<usize> = places.iter().copied().collect();
                eprintln!("{} mutants do not compile and are left out", bad.len());
                left_out.extend(bad);
                mutants = plant(&tree, &options, &left_out)?;
            }
        }
    }
    let tests = tests?;
    let limit = Duration::from_secs(options.seconds);
    if let Some(failed) = tree.fails((&tests, &options.filters), 0, limit) {
        return Err(format!("`{failed}` fails without a mutant"));
    }
    let (mut tried, mut survivors) = (0, Vec::new());
    for mutant in mutants {
        let is_asked = (options.from..=options.to).contains(&mutant.number);
        if !is_asked || left_out.contains(&mutant.number) {
            continue;
        }
        tried += 1;
        match tree.fails((&tests, &options.filters), mutant.number, limit) {
            Some(_) => eprintln!("caught    {}", shown(&mutant)),
            None => {
                println!("SURVIVED  {}", shown(&mutant));
                survivors.push(mutant);
            }
        }
    }
    println!("{tried} mutants, {} survived, {} did not compile", survivors.len(), left_out.len());
    Ok(survivors.is_empty())
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
