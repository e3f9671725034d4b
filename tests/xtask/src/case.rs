//! Adds a case to the manual of the rules, which is a test as well.

use std::fs;

use crate::{cargo, root};

/// Adds a case to `tests/cases/FILE.md` and decides all cases.
///
/// # Errors
///
/// Says what could not be read or written, or that a case is decided otherwise.
pub fn add(
    file: &str,
    heading: &str,
    (command, decision): (&str, &str),
    settings: Option<&str>,
) -> Result<(), String> {
    let path = root().join("tests/cases").join(format!("{}.md", file.trim_end_matches(".md")));
    let shown = path.display();
    let before = fs::read_to_string(&path).map_err(|error| {
        format!("`{shown}` cannot be read: {error}\nhelp: name a file of tests/cases, such as `7-executors`")
    })?;
    let case = text(heading, (command, decision), settings);
    let written = fs::write(&path, format!("{}\n\n{case}", before.trim_end()));
    written.map_err(|error| format!("`{shown}` cannot be written: {error}"))?;
    println!("{case}\nadded to {shown}");
    cargo(&["test", "--package", "stockade-tests", "--test", "cases"])
}

/// Returns a case as the files have it.
fn text(heading: &str, (command, decision): (&str, &str), settings: Option<&str>) -> String {
    let settings =
        settings.map(|text| format!("```json user\n{text}\n```\n\n")).unwrap_or_default();
    format!("## {heading}\n\n{settings}```cases\n{command} => {decision}\n```\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_section_of_the_manual() {
        assert_eq!(
            text("A bug", ("rm x", "ask"), Some("{}")),
            "## A bug\n\n```json user\n{}\n```\n\n```cases\nrm x => ask\n```\n"
        );
        assert_eq!(
            text("A bug", ("rm x", "ask"), None),
            "## A bug\n\n```cases\nrm x => ask\n```\n"
        );
    }
}
