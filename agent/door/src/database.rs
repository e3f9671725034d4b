//! Statements of the `sql` tool. They are done by the keeper of the session: the agent has neither database.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

/// Longest answer, in bytes.
const LONGEST: u64 = 4 << 20;

/// Has a statement done. Returns the answer for the model and for programs.
pub(crate) async fn ask(socket: Option<&Path>, input: &Value) -> Result<(String, Value), String> {
    let socket = socket.ok_or("this session has no database")?;
    let field = |key: &str| input.get(key).cloned().unwrap_or_default();
    let asked = json!({ "database": field("database"), "query": field("query") });
    let table = exchange(socket, &asked)
        .await
        .map_err(|error| format!("the database cannot be reached: {error}"))?;
    match table.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => Ok((shown(&table), table)),
    }
}

async fn exchange(socket: &Path, asked: &Value) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(format!("{asked}\n").as_bytes()).await?;
    let mut line = Vec::new();
    BufReader::new(stream).take(LONGEST).read_until(b'\n', &mut line).await?;
    serde_json::from_slice(&line).map_err(std::io::Error::other)
}

/// Returns an answer as lines: the columns, then each row, and how many there are.
fn shown(table: &Value) -> String {
    let list = |key: &str| table.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (columns, rows) = (list("columns"), list("rows"));
    let changed = table.get("changed").and_then(Value::as_u64).unwrap_or_default();
    let mut lines = Vec::new();
    if !columns.is_empty() {
        lines.push(Value::Array(columns).to_string());
    }
    let count = rows.len();
    lines.extend(rows.iter().map(Value::to_string));
    let cut = match table.get("is_cut") == Some(&Value::Bool(true)) {
        true => "; more was left out, ask for less",
        false => "",
    };
    lines.push(format!("({count} rows, {changed} changed{cut})"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_columns_rows_and_counts() {
        let table =
            json!({ "columns": ["a"], "rows": [[1], ["x\n"]], "changed": 0, "is_cut": true });
        let lines =
            "[\"a\"]\n[1]\n[\"x\\n\"]\n(2 rows, 0 changed; more was left out, ask for less)";
        assert_eq!(shown(&table), lines);
        let table = json!({ "columns": [], "rows": [], "changed": 3, "is_cut": false });
        assert_eq!(shown(&table), "(0 rows, 3 changed)");
    }
}
