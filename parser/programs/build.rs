//! Finds where the rows of the built-in program tables stand, and reads the other tables, so that no start of the
//! program has to.
//!
//! Writes the places as constants and the tables in their stored form; a table that is wrong ends the build.

#![allow(
    clippy::disallowed_methods,
    reason = "it reads the tables and writes their places, for the tables to be read by a function"
)]

#[path = "src/index.rs"]
#[allow(dead_code, reason = "only the places are found here")]
mod index;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use index::{ByteRange, Places};
use stockade_text::json;

/// The tables, in the order of `BUILTIN` in `src/lib.rs`.
const TABLES: [&str; 4] = ["wrappers", "evaluators", "effects", "read_only"];

/// Tables that are stored whole: name and, where it differs, the folder.
const STORED: &[(&str, &str)] = &[
    ("agent", ""),
    ("agents", ""),
    ("caches", ""),
    ("credentials", ""),
    ("environment", ""),
    ("permissions", ""),
    ("review", ""),
    ("secrets", ""),
    ("critical", "paths/"),
    ("git", "paths/"),
    ("history", "paths/"),
    ("links", "paths/"),
    ("protected", "paths/"),
    ("regions", "paths/"),
    ("toolchains", "paths/"),
    ("trees", "paths/"),
    ("tried", "paths/"),
    ("zsh", "commands/"),
];

/// Why a table cannot be used.
struct TableError {
    line: u32,
    message: String,
}

fn main() -> ExitCode {
    match write().and_then(|()| store()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/index.rs");
    let mut out = format!("pub(super) static PLACES: [Places; {}] = [\n", TABLES.len());
    for table in TABLES {
        let path = format!("../../policies/commands/{table}.jsonc");
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

fn store() -> Result<(), String> {
    let directory = std::env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?;
    for (table, folder) in STORED {
        let path = format!("../../policies/{folder}{table}.jsonc");
        println!("cargo::rerun-if-changed={path}");
        let text = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        let value = json::read(&text, json::Dialect::Commented)
            .map_err(|error| format!("{path}: byte {}: {}", error.at, error.message))?;
        let stored = json::stored::store(&value).ok_or_else(|| format!("{path}: too large"))?;
        let file = Path::new(&directory).join(format!("{table}.stored"));
        std::fs::write(&file, stored).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn show(out: &mut String, places: &Places) -> std::fmt::Result {
    let place = |ByteRange { start, end }: &ByteRange| {
        format!("ByteRange {{ start: {start}, end: {end} }}")
    };
    writeln!(
        out,
        "Places {{ sets: {}, defaults: {},",
        place(&places.sets),
        place(&places.defaults)
    )?;
    let rows: Vec<String> = places.rows.iter().map(place).collect();
    writeln!(out, "rows: Borrowed(&[{}]),", rows.join(", "))?;
    let named = |(name, row): &(ByteRange, u32)| format!("({}, {row})", place(name));
    let names: Vec<String> = places.names.iter().map(named).collect();
    writeln!(out, "names: Borrowed(&[{}]) }},", names.join(", "))
}
