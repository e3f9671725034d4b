//! `stockade settings`: the keys of settings files, as a JSON Schema and as a page, both from one table.

use crate::cli::exit::ExitCode;

use serde_json::{Map, Value, json};
use stockade_text::json::{self as table, Dialect};

use super::args::settings::SettingsCommand;
use super::failure;
use crate::protocol::errors::{Code, Failure};

const TABLE: &str = include_str!("../../../policies/settings.jsonc");

/// Dialect of JSON Schema (<https://json-schema.org/draft/2020-12>).
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const MODES: [&str; 7] =
    ["default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];

/// One key.
struct Key {
    path: String,
    kind: String,
    place: String,
    text: String,
}

/// Prints what is asked for.
pub(super) fn keys(command: SettingsCommand) -> Result<ExitCode, Failure> {
    let keys = read().ok_or_else(|| {
        Failure::new(
            Code::Internal,
            "the table of settings cannot be read",
            "install stockade again",
        )
    })?;
    let text = match command {
        SettingsCommand::Schema => format!("{:#}", schema(&keys)),
        SettingsCommand::Page => page(&keys),
    };
    failure::print(&text).map_err(failure::unwritable)?;
    Ok(ExitCode::SUCCESS)
}

fn read() -> Option<Vec<Key>> {
    let rows = table::read(TABLE.as_bytes(), Dialect::Commented).ok()?;
    let key = |row: &table::Value| {
        let text = |name: &str| row.get(name)?.text().map(str::to_owned);
        Some(Key {
            path: text("key")?,
            kind: text("type")?,
            place: text("where")?,
            text: text("text")?,
        })
    };
    rows.elements()?.iter().map(key).collect()
}

/// Returns what a value of this kind looks like.
fn shape(kind: &str) -> Value {
    let strings = json!({ "type": "array", "items": { "type": "string" } });
    match kind {
        "boolean" | "string" | "object" => json!({ "type": kind }),
        "strings" | "rules" => strings,
        "mode" => json!({ "enum": MODES }),
        "number" => json!({ "type": "integer", "minimum": 1 }),
        "size" => json!({ "type": ["integer", "string"] }),
        _ => json!({}),
    }
}

fn schema(keys: &[Key]) -> Value {
    let mut root = Map::new();
    root.insert("$schema".into(), json!(DIALECT));
    root.insert("title".into(), json!("Settings of stockade"));
    root.insert("type".into(), json!("object"));
    for key in keys {
        let mut value = shape(&key.kind);
        if let Some(members) = value.as_object_mut() {
            members.insert("description".into(), json!(key.text));
        }
        let parts: Vec<&str> = key.path.split('.').collect();
        put(&mut root, &parts, value);
    }
    Value::Object(root)
}

/// Puts the schema of the key `parts` into that of an object. The table is ours: keys have few parts.
fn put(place: &mut Map<String, Value>, parts: &[&str], value: Value) {
    let ["*"] = parts else {
        let properties = place.entry("properties").or_insert_with(|| json!({}));
        let Some(properties) = properties.as_object_mut() else { return };
        match parts {
            [] => {}
            [last] => drop(properties.insert((*last).to_owned(), value)),
            [first, rest @ ..] => {
                let inner = properties.entry(*first).or_insert_with(|| json!({ "type": "object" }));
                if let Some(inner) = inner.as_object_mut() {
                    put(inner, rest, value);
                }
            }
        }
        return;
    };
    place.insert("additionalProperties".into(), value);
}

/// Kinds as people read them.
fn kind(kind: &str) -> &str {
    match kind {
        "boolean" => "Boolean",
        "strings" => "list of strings",
        "rules" => "list of rules",
        "size" => "bytes, or text such as `8GiB`",
        "any" => "see the text",
        other => other,
    }
}

fn page(keys: &[Key]) -> String {
    let mut lines = vec![
        "# Settings".to_owned(),
        String::new(),
        "*For people who write settings files.*".to_owned(),
        String::new(),
        "This page lists all keys of settings files. `stockade settings page` prints it, and".to_owned(),
        "`stockade settings schema` prints the JSON Schema of the same table.".to_owned(),
        String::new(),
        "Files, the weakest first: `~/.config/stockade/settings.json` (user), `.stockade/settings.json` (project),".to_owned(),
        "`.stockade/settings.local.json` (local), `--settings`, `/etc/stockade/managed-settings.json` (managed). They are JSON with `//` comments,".to_owned(),
        "which every program of stockade keeps; trailing commas are errors.".to_owned(),
        String::new(),
        "\"own\" keys count in the user and managed files and in `--settings`; \"managed\" keys in the managed file alone. In the files of a project,"
            .to_owned(),
        "a value that widens what can run waits for `stockade policy trust`.".to_owned(),
        String::new(),
        "| key | type | valid in | meaning |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    lines.extend(keys.iter().map(|key| {
        format!("| `{}` | {} | {} | {} |", key.path, kind(&key.kind), key.place, key.text)
    }));
    lines.join("\n")
}
