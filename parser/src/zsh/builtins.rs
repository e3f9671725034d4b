//! Commands that do the same in both shells.

use super::lines::{Command, Pipeline, Word};
use super::{Difference, Known};
use stockade_text::json::view::View;

/// Tests of files that both do with the same calls.
const TESTS: [&str; 5] = ["-e", "-f", "-d", "-s", "-L"];

/// Fails at the first command that is another one in zsh, or may be.
pub(super) fn check(pipelines: &[Pipeline], table: &Known) -> Result<(), Difference> {
    for pipeline in pipelines {
        for (at, command) in pipeline.iter().enumerate() {
            let place = WordEnds { is_first: at == 0, is_last: at + 1 == pipeline.len() };
            name(command, place, table)?;
            redirects(command, place)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct WordEnds {
    is_first: bool,
    is_last: bool,
}

fn differs(word: &Word, detail: String) -> Difference {
    Difference { span: word.span, detail }
}

fn name(command: &Command, place: WordEnds, table: &Known) -> Result<(), Difference> {
    let Some((name, operands)) = command.words.split_first() else { return Ok(()) };
    let is_begun =
        name.value.starts_with(|it: char| it.is_ascii_alphanumeric() || "_/:".contains(it));
    let is_path = ["./", "../"].iter().any(|start| name.value.starts_with(start));
    if name.is_operand || !(is_begun || is_path) {
        return Err(differs(name, "an assignment, or a name that is not plain".to_owned()));
    }
    if !table.names.contains(&name.value.as_str()) {
        return Ok(());
    }
    let Some(form) = table.same.get(&name.value).and_then(View::text) else {
        return Err(differs(
            name,
            format!("`{}` is not a program in zsh, or a different one", name.value),
        ));
    };
    // The last command of a pipeline is one of the shell itself in zsh.
    let is_alone = place.is_first && place.is_last;
    if !is_alone && matches!(form, "directory" | "status") {
        return Err(differs(name, format!("`{}` in a pipeline", name.value)));
    }
    match fits(form, operands) {
        true => Ok(()),
        false => Err(differs(name, format!("`{}` with these operands", name.value))),
    }
}

/// Says whether a builtin with such operands does the same in both.
fn fits(form: &str, operands: &[Word]) -> bool {
    let values: Vec<&str> = operands.iter().map(|word| word.value.as_str()).collect();
    match (form, values.as_slice()) {
        ("any", _) | ("none" | "status" | "directory", []) => true,
        ("directory", [directory]) => is_directory(directory),
        ("status", [status]) => {
            status.parse::<u8>().is_ok_and(|number| number.to_string() == *status)
        }
        ("text", values) => {
            let texts = values.strip_prefix(&["-n"]).unwrap_or(values);
            let is_option = texts.first().is_some_and(|text| text.starts_with('-'));
            !is_option && !texts.iter().any(|text| text.contains('\\'))
        }
        ("lines", ["%s" | r"%s\n", _, ..]) => true,
        ("file", [test, path]) => TESTS.contains(test) && !path.starts_with(['-', '(', '!']),
        _ => false,
    }
}

/// Says whether both shells go to the same directory: zsh takes `a/..` away without a look at `a`.
fn is_directory(path: &str) -> bool {
    let mut steps = path.split('/').skip_while(|step| *step == "..");
    !path.is_empty() && !path.starts_with(['-', '+']) && steps.all(|step| step != "..")
}

/// Refuses output to two places: zsh sends it to both, bash to the last one.
fn redirects(command: &Command, place: WordEnds) -> Result<(), Difference> {
    let is_piped = |descriptor: u8| match descriptor {
        0 => !place.is_first,
        1 => !place.is_last,
        _ => false,
    };
    match command.redirects.iter().find(|(descriptor, _)| is_piped(*descriptor)) {
        Some((_, span)) => {
            let detail = "a redirection besides a pipe, which goes to both".to_owned();
            Err(Difference { span: *span, detail })
        }
        None => Ok(()),
    }
}
