//! The sentences of each crate on one page, so that their wording is reviewed as one: a change of a message is a change of
//! `tests/messages/CRATE.txt`. `UPDATE_EXPECT=1` writes the pages anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use stockade_tests::root;

/// Folders with product code.
const FOLDERS: [&str; 5] = ["parser", "policy", "sandbox", "gateway", "agent"];

/// All Rust files of the product, by the folder of their crate, below the root.
fn sources() -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut waiting: Vec<PathBuf> = FOLDERS.iter().map(|it| root().join(it)).collect();
    let mut found: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["tests", "benches", "fuzz", "target", "testing"].contains(&name.as_str()) {
                    waiting.push(path);
                }
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
                let own = path.ancestors().find(|it| it.join("Cargo.toml").is_file());
                let own = own.and_then(|it| it.strip_prefix(root()).ok()).expect("a crate");
                found.entry(own.to_owned()).or_default().push(path);
            }
        }
    }
    found
}

/// Adds the sentences among the literals of `tokens` to `found`, without those of attributes and of unit tests.
fn collect(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let inner =
                    tokens.next_if(|it| matches!(it, TokenTree::Punct(it) if it.as_char() == '!'));
                match tokens.peek() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
                        let text = group.stream().to_string();
                        is_test |= inner.is_none() && text.replace(' ', "") == "cfg(test)";
                        tokens.next();
                    }
                    Some(_) | None => {}
                }
            }
            TokenTree::Group(group) => {
                let skipped = is_test && group.delimiter() == Delimiter::Brace;
                match skipped {
                    true => is_test = false,
                    false => collect(group.stream(), found),
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => is_test = false,
            TokenTree::Literal(literal) => {
                found.extend(text_of(&literal.to_string()).filter(|text| is_sentence(text)));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Returns what a string literal holds, as one line; none for another literal.
fn text_of(literal: &str) -> Option<String> {
    let inner = match literal.strip_prefix('r') {
        Some(raw) => raw.trim_matches('#').strip_prefix('"')?.strip_suffix('"')?,
        None => literal.strip_prefix('"')?.strip_suffix('"')?,
    };
    // A backslash at the end of a line joins the next one.
    let mut lines = inner.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        match text.strip_suffix('\\') {
            Some(before) => text = format!("{before}{}", line.trim_start()),
            None => text = format!("{text}\\n{line}"),
        }
    }
    Some(text)
}

/// Says whether a text is words for a person: three or more, mostly letters.
fn is_sentence(text: &str) -> bool {
    let words = text.split([' ', '\n']).filter(|word| {
        word.len() > 1 && word.chars().all(|c| c.is_alphabetic() || "`,.:;'(){}-".contains(c))
    });
    words.count() >= 3
}

#[test]
fn the_sentences_of_each_crate_are_those_of_its_page() {
    let pages = root().join("tests/messages");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let (mut wrong, mut names) = (Vec::new(), Vec::new());
    for (own, files) in sources() {
        let mut found = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).expect("a source");
            let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            collect(tokens, &mut found);
        }
        found.sort();
        found.dedup();
        let name = format!("{}.txt", own.display().to_string().replace('/', "-"));
        let page = found.iter().map(|line| format!("{line}\n")).collect::<String>();
        let path = pages.join(&name);
        names.push(name.clone());
        if update {
            fs::create_dir_all(&pages).expect("a folder");
            fs::write(&path, page).expect("written");
        } else {
            let held = fs::read_to_string(&path).unwrap_or_default();
            let held: Vec<&str> = held.lines().collect();
            let line = |sign: char, line: &str| format!("{name}: {sign}{line}");
            wrong.extend(
                found.iter().filter(|it| !held.contains(&it.as_str())).map(|it| line('+', it)),
            );
            let gone = held.iter().filter(|held| !found.iter().any(|it| it == *held));
            wrong.extend(gone.map(|it| line('-', it)));
        }
    }
    assert!(wrong.is_empty(), "review, then set UPDATE_EXPECT=1:\n{}", wrong.join("\n"));
    assert_eq!(files_of(&pages), names.into_iter().collect::<std::collections::BTreeSet<_>>());
}

fn files_of(folder: &Path) -> std::collections::BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the pages").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn literals_of_tests_and_attributes_are_no_messages() {
    let source = r##"
        #[doc = "This is a doc sentence."]
        fn told() { say("the file cannot \
            be read", r#"try another file, please"#, "x-1", 'c', 7, format!("no {} are left here", 1)); }
        #[cfg(test)]
        mod tests { fn f() { say("only tests say this sentence") } }
        #[cfg(test)]
        use x::y;
        const OTHER: &str = "words that come after tests";
    "##;
    let mut found = Vec::new();
    collect(source.parse().expect("Rust"), &mut found);
    let expected = [
        "the file cannot be read",
        "try another file, please",
        "no {} are left here",
        "words that come after tests",
    ];
    assert_eq!(found, expected);
}
