//! Patterns of paths, which rules bring, against paths, which commands make.

use std::path::Path;

use stockade_spec::{Match, Pattern};

/// A pattern that covers a path covers all beneath, and a name matches itself where its wildcards are escaped.
pub fn pattern_holds(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (wild, path) = text.split_once('\n').unwrap_or((&text, "/a/b.c"));
    let path = Path::new("/").join(path);
    if let Ok(pattern) = Pattern::parse(&Path::new("/").join(wild)) {
        let beneath = pattern.matches(&path.join("inner"));
        match pattern.matches(&path) {
            Match::Whole => assert_eq!(beneath, Match::Whole, "{wild:?} {path:?}"),
            Match::No => assert_eq!(beneath, Match::No, "{wild:?} {path:?}"),
            Match::Beneath => {}
        }
        assert!(!pattern.covers_more(&path, &path), "{wild:?} {path:?}");
    }
    let written_out: String = path.to_string_lossy().chars().map(written_out).collect();
    let own = Pattern::parse(Path::new(&written_out)).expect("a name is a pattern");
    assert_eq!(own.matches(&path), Match::Whole, "{written_out:?}");
}

fn written_out(character: char) -> String {
    match character {
        '*' | '?' | '[' => format!("[{character}]"),
        other => other.to_string(),
    }
}
