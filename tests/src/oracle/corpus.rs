//! The texts.

use std::path::PathBuf;

use crate::root;

/// The files of the corpus.
pub const FILES: [&str; 5] = ["nl2bash", "tldr", "oils", "constructs", "everyday"];

/// One text of the corpus.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its name in the corpus.
    pub id: String,
    /// The text.
    pub text: Vec<u8>,
}

/// Reads one file of the corpus, or any other file of that form, whose path then ends with `.jsonl`.
pub fn read(name: &str) -> Vec<Sample> {
    let path = if name.ends_with(".jsonl") {
        PathBuf::from(name)
    } else {
        root().join("tests/corpus").join(format!("{name}.jsonl"))
    };
    let content = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let sample = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let field = |name: &str| value[name].as_str().expect("a string").to_owned();
        Sample { id: field("id"), text: field("command").into_bytes() }
    };
    content.lines().map(sample).collect()
}
