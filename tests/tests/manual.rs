//! The console blocks of the documents run as they are written.

use std::process::{Command, Stdio};

use stockade_tests::{Place, root, skip, stockade};

/// A command of a console block, and what it prints.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    expected: Vec<String>,
}

/// Reads the `console` blocks of a document: `$ ` begins a command, `> ` goes on with it.
fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (false, _) => {}
            (true, line) => {
                match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
                    (Some(command), _, _) => {
                        steps.push(Step { command: command.to_owned(), expected: Vec::new() });
                    }
                    (None, Some(more), Some(step)) if step.expected.is_empty() => {
                        step.command.push('\n');
                        step.command.push_str(more);
                    }
                    (None, _, Some(step)) => step.expected.push(line.to_owned()),
                    (None, _, None) => panic!("a console block begins with `$ `: {line}"),
                }
            }
        }
    }
    steps
}

/// Says whether `seen` is what a block shows: a line `...` stands for any lines, `…` in a line for any text.
fn matches(expected: &[String], seen: &[&str]) -> bool {
    match (expected.split_first(), seen.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "..." => {
            matches(rest, seen)
                || seen.split_first().is_some_and(|(_, seen)| matches(expected, seen))
        }
        (Some((line, rest)), Some((first, seen))) => {
            line_matches(line, first) && matches(rest, seen)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn line_matches(pattern: &str, line: &str) -> bool {
    match pattern.split_once('…') {
        None => pattern == line,
        Some((head, tail)) => line.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| line_matches(tail, &rest[at..]))
        }),
    }
}

#[test]
fn console_blocks_of_the_manual_run_as_written() {
    let mut documents = vec![root().join("README.md")];
    let mut waiting = vec![root().join("docs")];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of pages").flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    let beside = stockade().parent().expect("a folder").to_owned();
    let mut count = 0;
    for document in documents {
        let Ok(content) = std::fs::read_to_string(&document) else { continue };
        let place = Place::new("manual");
        for step in steps(&content) {
            count += 1;
            let output = Command::new("bash")
                .args(["-c", &format!("exec 2>&1\n{}", step.command)])
                .current_dir(place.project())
                .env_clear()
                .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", beside.display()))
                .env("HOME", place.home())
                .env("LANG", "C.UTF-8")
                .env("XDG_STATE_HOME", place.root.join("state"))
                .stdin(Stdio::null())
                .output()
                .expect("bash starts");
            let seen = String::from_utf8_lossy(&output.stdout);
            assert!(
                matches(&step.expected, &seen.lines().collect::<Vec<_>>()),
                "{}: `{}` printed\n{seen}\nand not\n{}",
                document.display(),
                step.command,
                step.expected.join("\n")
            );
        }
    }
    if count == 0 {
        skip("console_blocks_of_the_manual_run_as_written", "no document has a console block");
    }
}

#[test]
fn console_blocks_are_read_and_compared_as_the_manual_says() {
    let document = "text\n```console\n$ a \\\n> b\nout …\n...\n$ c\n```\n```sh\n$ d\n```\n";
    let step = |command: &str, expected: &[&str]| Step {
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(document), [step("a \\\nb", &["out …", "..."]), step("c", &[])]);
    let expected = ["out … end".to_owned(), "...".to_owned(), "last".to_owned()];
    assert!(matches(&expected, &["out of the end", "x", "y", "last"]));
    assert!(matches(&expected, &["out  end", "last"]));
    assert!(!matches(&expected, &["out  end", "x"]));
}
