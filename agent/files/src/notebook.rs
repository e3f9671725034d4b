//! Notebooks (nbformat 4): cells are shown, replaced, inserted and deleted.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Facts, Known};
use crate::change::{all_known, is_known, replace};
use crate::error::{Error, refuse};
use crate::found::{Found, absolute, load};
use crate::keep::Keep;
use crate::text::{digest, visible};

/// Most characters of one output that are shown.
const OUTPUT: usize = 10_000;
/// Most characters of a notebook that are shown.
const CHARACTERS: usize = 100_000;

#[derive(Debug, Deserialize)]
pub(crate) struct Input {
    notebook_path: String,
    #[serde(default)]
    cell_id: Option<String>,
    #[serde(default)]
    new_source: String,
    #[serde(default)]
    cell_type: Option<String>,
    #[serde(default)]
    edit_mode: Option<String>,
}

fn parsed(bytes: &[u8]) -> Option<Value> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    notebook.get("cells").is_some_and(Value::is_array).then_some(notebook)
}

/// Shows the cells of a notebook; none for a file that is not one.
pub(crate) fn shown(found: &Found) -> Option<Answer> {
    let notebook = parsed(&found.bytes)?;
    let cells = notebook.get("cells")?.as_array()?;
    let mut shown = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("raw");
        let mut text = format!(
            "<cell id=\"{}\" type=\"{kind}\">\n{}",
            visible(&name(cell, index)),
            visible(&joined(cell.get("source")))
        );
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            let whole = output_text(output);
            let part: String = whole.chars().take(OUTPUT).collect();
            let cut = if part.len() < whole.len() { "… (cut)" } else { "" };
            text.push_str(&format!("\n[output] {}{cut}", visible(&part)));
        }
        shown.push(format!("{text}\n</cell>"));
    }
    let mut text = shown.join("\n");
    if let Some((end, _)) = text.char_indices().nth(CHARACTERS) {
        text.truncate(end);
        text.push_str("\n(cut; read cells with Bash)");
    }
    let file = json!({ "filePath": found.path, "cells": cells });
    let mut answer = Answer::text(text, json!({ "type": "notebook", "file": file }));
    let ranges = vec![(1, u64::from(u32::MAX))];
    answer.facts = Some(Facts { path: found.path.clone(), digest: digest(&found.bytes), ranges });
    Some(answer)
}

/// Returns the name of a cell: its id, or its place where it has none.
fn name(cell: &Value, index: usize) -> String {
    let id = cell.get("id").and_then(Value::as_str);
    id.map_or_else(|| format!("cell-{index}"), str::to_owned)
}

/// Returns a text that may be stored as a list of lines.
fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => String::new(),
    }
}

fn output_text(output: &Value) -> String {
    let data = |key: &str| output.get("data").and_then(|data| data.get(key));
    match output.get("output_type").and_then(Value::as_str) {
        Some("stream") => joined(output.get("text")),
        Some("error") => {
            let lines = output.get("traceback").and_then(Value::as_array).into_iter().flatten();
            lines.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        _ if data("text/plain").is_some() => joined(data("text/plain")),
        _ => "(not text)".into(),
    }
}

pub(crate) fn edit(
    input: &Input,
    cwd: &Path,
    (known, keep): (Option<&Known>, Option<&Keep>),
) -> Result<Answer, Error> {
    let path = absolute(cwd, &input.notebook_path)?;
    let found = load(&path)?;
    is_known(&found, known)?;
    let Some(mut notebook) = parsed(&found.bytes) else {
        return refuse(format!("{} is not a notebook of nbformat 4.", path.display()));
    };
    let minor = notebook.get("nbformat_minor").and_then(Value::as_u64).unwrap_or_default();
    let Some(cells) = notebook.get_mut("cells").and_then(Value::as_array_mut) else {
        return refuse(format!("{} has no cells.", path.display()));
    };
    let at = match &input.cell_id {
        Some(id) => Some(place(cells, id)?),
        None => None,
    };
    let mode = input.edit_mode.as_deref().unwrap_or("replace");
    let cell_id = match (mode, at) {
        ("replace", Some(at)) => replaced(cells, at, input)?,
        ("delete", Some(at)) => name(&cells.remove(at), at),
        ("insert", at) => inserted(cells, at.map_or(0, |at| at + 1), input, minor)?,
        ("replace" | "delete", None) => {
            return refuse("`cell_id` is missing; Read shows the id of each cell.");
        }
        (other, _) => {
            return refuse(format!(
                "`edit_mode` is `{}`; it is `replace`, `insert` or `delete`.",
                visible(other)
            ));
        }
    };
    let bytes = written(&notebook, &found.bytes)?;
    let real = replace(&path, (Some(&found.before()), &bytes), keep)?;
    let result = json!({
        "notebook_path": input.notebook_path, "cell_id": cell_id, "edit_mode": mode, "new_source": input.new_source,
        "cell_type": input.cell_type,
    });
    let mut answer =
        Answer::text(format!("Edited {} (cell {cell_id}, {mode}).", path.display()), result);
    answer.facts = Some(all_known(real, &bytes));
    Ok(answer)
}

fn place(cells: &[Value], id: &str) -> Result<usize, Error> {
    let found = cells.iter().enumerate().position(|(index, cell)| name(cell, index) == id);
    let number =
        || id.strip_prefix("cell-").and_then(|it| it.parse().ok()).filter(|it| *it < cells.len());
    match found.or_else(number) {
        Some(at) => Ok(at),
        None => refuse(format!(
            "the notebook has no cell `{}`; Read shows the id of each cell.",
            visible(id)
        )),
    }
}

fn kind(input: &Input) -> Result<Option<&str>, Error> {
    match input.cell_type.as_deref() {
        None => Ok(None),
        Some(kind @ ("code" | "markdown" | "raw")) => Ok(Some(kind)),
        Some(other) => {
            refuse(format!("`cell_type` is `{}`; it is `code` or `markdown`.", visible(other)))
        }
    }
}

/// Gives a cell a new source; what the old one printed goes.
fn replaced(cells: &mut [Value], at: usize, input: &Input) -> Result<String, Error> {
    let wanted = kind(input)?.map(str::to_owned);
    let Some(Value::Object(cell)) = cells.get_mut(at) else {
        return refuse("the cell is not an object");
    };
    let kind = wanted.or_else(|| cell.get("cell_type").and_then(Value::as_str).map(str::to_owned));
    let kind = kind.unwrap_or_else(|| "code".into());
    cell.insert("source".into(), lines(&input.new_source));
    cell.insert("cell_type".into(), json!(kind));
    if kind == "code" {
        cell.insert("outputs".into(), json!([]));
        cell.insert("execution_count".into(), Value::Null);
    } else {
        cell.shift_remove("outputs");
        cell.shift_remove("execution_count");
    }
    let cell = Value::Object(cell.clone());
    Ok(name(&cell, at))
}

fn inserted(cells: &mut Vec<Value>, at: usize, input: &Input, minor: u64) -> Result<String, Error> {
    let kind = kind(input)?.unwrap_or("code");
    let mut cell = Map::new();
    cell.insert("cell_type".into(), json!(kind));
    // Cells have ids from nbformat 4.5 on.
    if minor >= 5 {
        let taken =
            |id: &str| cells.iter().any(|cell| cell.get("id").and_then(Value::as_str) == Some(id));
        let id = (cells.len()..).map(|it| format!("new-{it}")).find(|id| !taken(id));
        cell.insert("id".into(), json!(id));
    }
    cell.insert("metadata".into(), json!({}));
    cell.insert("source".into(), lines(&input.new_source));
    if kind == "code" {
        cell.insert("outputs".into(), json!([]));
        cell.insert("execution_count".into(), Value::Null);
    }
    let at = at.min(cells.len());
    cells.insert(at, Value::Object(cell));
    Ok(cells.get(at).map(|cell| name(cell, at)).unwrap_or_default())
}

/// Returns a source as the list of lines that notebooks store.
fn lines(source: &str) -> Value {
    source.split_inclusive('\n').collect::<Vec<_>>().into()
}

/// Writes a notebook with the indentation and the end that it had.
fn written(notebook: &Value, before: &[u8]) -> Result<Vec<u8>, Error> {
    let second = before.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
    let indent: Vec<u8> =
        second.iter().copied().take_while(|byte| matches!(byte, b' ' | b'\t')).collect();
    let indent = if indent.is_empty() { b" ".to_vec() } else { indent };
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(&indent);
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(notebook, &mut writer)
        .map_err(|error| Error::Call(format!("the notebook cannot be written: {error}")))?;
    if before.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::{Folder, known, text};

    fn notebook() -> String {
        let code = json!({ "cell_type": "code", "id": "a", "metadata": {}, "source": ["x = 1\n", "print(x)"],
            "outputs": [{ "output_type": "stream", "name": "stdout", "text": "1\n" }], "execution_count": 1 });
        let words =
            json!({ "cell_type": "markdown", "id": "b", "metadata": {}, "source": "# Title" });
        let whole =
            json!({ "cells": [code, words], "metadata": {}, "nbformat": 4, "nbformat_minor": 5 });
        format!("{}\n", serde_json::to_string_pretty(&whole).unwrap())
    }

    #[test]
    fn cells_are_shown_and_edited() {
        let folder = Folder::new();
        let path = folder.write("n.ipynb", notebook());
        let read = folder.call("Read", json!({ "file_path": "n.ipynb" }));
        assert!(
            text(&read).starts_with(
                "<cell id=\"a\" type=\"code\">\nx = 1\nprint(x)\n[output] 1\n\n</cell>"
            ),
            "{}",
            text(&read)
        );
        let edit = |input: Value, seen| folder.call_knowing("NotebookEdit", input, seen);
        let replace =
            json!({ "notebook_path": "n.ipynb", "cell_id": "b", "new_source": "# New\ntext" });
        let done = edit(replace, known(&read));
        assert_eq!(done.error, None);
        let insert = json!({ "notebook_path": "n.ipynb", "cell_id": "b", "new_source": "y", "edit_mode": "insert" });
        let done = edit(insert, known(&done));
        assert_eq!(done.error, None);
        let after: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let before: Value = serde_json::from_str(&notebook()).unwrap();
        assert_eq!(after["cells"][0], before["cells"][0]);
        assert_eq!(after["cells"][1]["source"], json!(["# New\n", "text"]));
        assert_eq!(after["cells"][2]["cell_type"], "code");
        assert_eq!(after["cells"][2]["id"], "new-2");
        let delete = json!({ "notebook_path": "n.ipynb", "cell_id": "a", "edit_mode": "delete" });
        assert_eq!(edit(delete, known(&done)).error, None);
        let after: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(after["cells"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn mistakes_change_nothing() {
        let folder = Folder::new();
        let path = folder.write("n.ipynb", notebook());
        let seen = known(&folder.call("Read", json!({ "file_path": "n.ipynb" })));
        for (change, told) in [
            (json!({ "cell_id": "z" }), "no cell `z`"),
            (json!({}), "`cell_id` is missing"),
            (json!({ "cell_id": "a", "edit_mode": "x" }), "`edit_mode` is `x`"),
            (json!({ "cell_id": "a", "cell_type": "x" }), "`cell_type` is `x`"),
        ] {
            let mut input = change;
            input["notebook_path"] = json!("n.ipynb");
            let answer = folder.call_knowing("NotebookEdit", input, seen.clone());
            assert!(text(&answer).contains(told), "{}", text(&answer));
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), notebook());
    }
}
