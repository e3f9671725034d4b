//! Finds where the rows of the built-in program tables stand, so that no start of the program has to.
//!
//! Writes the places as constants; a table whose layout is wrong ends the build.

#![allow(
    clippy::disallowed_methods,
    reason = "it reads the tables and writes their places, for the parser to be a function"
)]

#[path = "src/program/index.rs"]
#[allow(dead_code, reason = "only the places are found here")]
mod index;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use index::{Place, Places};

/// The tables, in the order of `BUILTIN` in `src/program.rs`.
const TABLES: [&str; 4] = ["wrappers", "evaluators", "effects", "read_only"];

/// Why a table cannot be used.
struct TableError {
    line: u32,
    message: String,
}

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/program/index.rs");
    let mut out = format!("pub(super) static PLACES: [Places; {}] = [\n", TABLES.len());
    for table in TABLES {
        let path = format!("../policies/commands/{table}.jsonc");
        println!("cargo::rerun-if-changed={path}");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let places = Places::find(&text)
            .map_err(|TableError { line, message }| format!("{path}:{line}: {message}"))?;
        show(&mut out, &places).map_err(|error| error.to_string())?;
    }
    out.push_str("];\n");
    let directory = std::env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    let file = Path::new(&directory).join("places.rs");
    std::fs::write(&file, out).map_err(|error| format!("{}: {error}", file.display()))
}

fn show(out: &mut String, places: &Places) -> std::fmt::Result {
    let place = |Place { start, end }: &Place| format!("Place {{ start: {start}, end: {end} }}");
    writeln!(
        out,
        "Places {{ sets: {}, defaults: {},",
        place(&places.sets),
        place(&places.defaults)
    )?;
    let rows: Vec<String> = places.rows.iter().map(place).collect();
    writeln!(out, "rows: Borrowed(&[{}]),", rows.join(", "))?;
    let named = |(name, row): &(Place, u32)| format!("({}, {row})", place(name));
    let names: Vec<String> = places.names.iter().map(named).collect();
    writeln!(out, "names: Borrowed(&[{}]) }},", names.join(", "))
}
