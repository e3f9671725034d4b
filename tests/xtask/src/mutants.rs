//! Mutants of one file, by `cargo-mutants`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{cargo, root};

/// Changes `file` one line after another and runs the tests of its crate; with `in_diff` only lines that differ from
/// `origin/main`.
///
/// # Errors
///
/// Says what is missing, or that a mutant survived.
pub fn run(file: &str, in_diff: bool) -> Result<(), String> {
    let package = package(Path::new(file))?;
    if cargo(&["mutants", "--version"]).is_err() {
        return Err(
            "`cargo mutants` is not installed\nhelp: cargo install cargo-mutants --locked".into()
        );
    }
    let mut arguments = vec!["mutants", "--package", &package, "--file", file];
    let diff = root().join("target/xtask.diff");
    let named = diff.to_string_lossy().into_owned();
    if in_diff {
        let mut git = Command::new("git");
        git.args(["diff", "origin/main", "--", file]).current_dir(root());
        let output = git.output().map_err(|error| format!("`git diff` does not start: {error}"))?;
        let written = fs::write(&diff, output.stdout);
        written.map_err(|error| format!("`{named}` cannot be written: {error}"))?;
        arguments.extend(["--in-diff", &named]);
    }
    cargo(&arguments)
}

/// Returns the name of the crate in which `file` is.
fn package(file: &Path) -> Result<String, String> {
    let missing = || {
        format!(
            "no crate holds `{}`\nhelp: name a source file from the root of the repository",
            file.display()
        )
    };
    if !root().join(file).is_file() {
        return Err(missing());
    }
    let folders = file.ancestors().skip(1);
    let manifest = folders.map(|it| root().join(it).join("Cargo.toml")).find(|it| it.is_file());
    let text = fs::read_to_string(manifest.ok_or_else(missing)?).map_err(|_| missing())?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
    name.and_then(|name| name.strip_suffix('"')).map(str::to_owned).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_nearest_crate() {
        assert_eq!(
            package(Path::new("gateway/monitor/src/decide.rs")),
            Ok("stockade-monitor".into())
        );
        assert_eq!(package(Path::new("gateway/src/lib.rs")), Ok("stockade".into()));
        assert!(package(Path::new("gateway/monitor/src/none.rs")).is_err());
    }
}
