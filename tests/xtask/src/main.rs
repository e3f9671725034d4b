//! The daily work of a developer, each task as one command: `cargo xtask` lists them.
#![forbid(unsafe_code)]

mod case;
mod mutants;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask check                 format, lints and structure, as CI wants them
cargo xtask test CRATE [FILTER]   tests of one crate, such as `monitor`, `policy` or `stockade`
cargo xtask test FILE [FILTER]    tests of one file of tests/tests, such as `answers`
cargo xtask bench [ARGUMENTS]     figures of a release build
cargo xtask fuzz [SECONDS]        each fuzz target for so many seconds (default 5)
cargo xtask case FILE HEADING COMMAND DECISION [SETTINGS]
                                  adds a case to tests/cases/FILE.md and decides it
cargo xtask mutants [--since REVISION] FILE...
                                  changes files of one crate bit by bit and looks whether a test fails
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check(),
        ["test", name, rest @ ..] => test(name, rest),
        ["bench", rest @ ..] => {
            let bench = ["run", "--release", "--package", "stockade-tests", "--bin", "bench", "--"];
            cargo(&[&bench, rest].concat())
        }
        ["fuzz"] => fuzz("5"),
        ["fuzz", seconds] => fuzz(seconds),
        ["case", file, heading, command, decision, settings @ ..] if settings.len() < 2 => {
            case::add(file, heading, (command, decision), settings.first().copied())
        }
        ["mutants", "--since", revision, files @ ..] => mutants::run(files, Some(revision)),
        ["mutants", files @ ..] => mutants::run(files, None),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Runs cargo in the root of the repository.
fn cargo(arguments: &[&str]) -> Result<(), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let line = format!("cargo {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).current_dir(root()).status();
    let status = status.map_err(|error| format!("`{line}` does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed")) }
}

fn check() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    cargo(&["test", "--package", "stockade-tests", "--test", "layering"])
}

fn test(name: &str, filter: &[&str]) -> Result<(), String> {
    if root().join(format!("tests/tests/{name}.rs")).is_file() {
        return cargo(
            &[&["test", "--package", "stockade-tests", "--test", name, "--"], filter].concat(),
        );
    }
    let package = match name.starts_with("stockade") {
        true => name.to_owned(),
        false => format!("stockade-{name}"),
    };
    cargo(&[&["test", "--package", &package, "--"], filter].concat())
}

fn fuzz(seconds: &str) -> Result<(), String> {
    let fuzz = ["run", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target", "--"];
    cargo(&[&fuzz[..], &["all", "--seconds", seconds]].concat())
}
