//! Mutants of files of one crate, by the tool in `tests/mutants`.

use std::fs;
use std::path::Path;

use crate::{cargo, root};

/// Changes each line of `files` that can be changed and runs the tests of their crate; with `since` only lines that differ
/// from that revision.
///
/// # Errors
///
/// Says what is missing, or that a mutant survived.
pub fn run(files: &[&str], since: Option<&str>) -> Result<(), String> {
    let Some((first, rest)) = files.split_first() else { return Err(NO_FILE.to_owned()) };
    let package = self::package(Path::new(first))?;
    for file in rest {
        if self::package(Path::new(file))? != package {
            return Err(format!("`{file}` is not of `{package}`\nhelp: name files of one crate"));
        }
    }
    let root = root().to_string_lossy().into_owned();
    let mut arguments: Vec<String> =
        ["run", "--quiet", "--manifest-path", "tests/mutants/Cargo.toml"]
            .into_iter()
            .chain(["--target-dir", "target/mutants/tool", "--", &root])
            .map(str::to_owned)
            .collect();
    for tests in tests_of(&package) {
        arguments.extend(["--tests".to_owned(), tests]);
    }
    if let Some(revision) = since {
        arguments.extend(["--since".to_owned(), revision.to_owned()]);
    }
    arguments.extend(files.iter().map(ToString::to_string));
    cargo(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

const NO_FILE: &str =
    "no file is named\nhelp: cargo xtask mutants policy/src/decide/allow_cover.rs";

/// Returns the tests that guard a crate, the fastest first. Case files decide what rules mean.
fn tests_of(package: &str) -> Vec<String> {
    let cases = || "-p stockade-policy --test cases".to_owned();
    let own = format!("-p {package} --lib");
    match package {
        "stockade-policy" | "stockade-rules" => vec![cases(), own],
        "stockade-kernel" | "stockade-sandbox" => {
            vec![own, "-p stockade-tests --test sandbox".to_owned()]
        }
        _ => vec![own],
    }
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
