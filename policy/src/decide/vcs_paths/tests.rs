#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use super::*;

/// Returns a segment with nothing for each `*`.
fn segment(text: &str) -> Vec<Option<u8>> {
    text.bytes().map(|byte| (byte != b'*').then_some(byte)).collect()
}

fn shape(text: &str) -> Shape {
    let part = |part: &str| match part.contains('*') {
        true => ShapeSegment::Glob(segment(part)),
        false => ShapeSegment::Known(part.into()),
    };
    Shape { segments: text.split('/').skip(1).map(part).collect(), open: false }
}

#[test]
fn history_is_kept_in_these_places_at_any_depth() {
    for (path, kept, near) in [
        ("/p/.git", true, true),
        ("/.git", true, true),
        ("/p/a/b/.git", true, true),
        ("/p/.git/HEAD", true, true),
        ("/p/.git/packed-refs", true, true),
        ("/p/.git/objects", true, true),
        ("/p/.git/objects/aa/bb", true, true),
        ("/p/.git/logs/refs/heads/main", true, true),
        // No history, though beside it.
        ("/p/.git/config", false, true),
        ("/p/.git/HEAD/x", false, true),
        ("/p/.git/index.lock", false, true),
        ("/p/.git/refs/heads/main.lock", false, true),
        ("/p/objects/aa", false, false),
        ("/p/.github", false, false),
        ("/p/x.git", false, false),
        ("/p", false, false),
        ("/", false, false),
    ] {
        assert_eq!((is_kept(Path::new(path)), is_near(Path::new(path))), (kept, near), "{path}");
    }
}

#[test]
fn a_pattern_may_become_a_place_where_history_is_kept() {
    for (path, plain, dotted) in [
        ("/p/.git", true, true),
        ("/p/.g*", true, true),
        ("/p/*", false, true),
        ("/p/*it", false, true),
        ("/*/.git", true, true),
        ("/p/.git/*", true, true),
        ("/p/.git/obj*/aa/bb", true, true),
        ("/p/.git/refs/*/*", true, true),
        ("/p/*/HEAD", false, true),
        ("/p/.git/c*", false, false),
        ("/p/.git/HEAD/*", false, true),
        ("/p/.git/*.lock", false, false),
        ("/p/.git/*xlock", false, false),
        ("/p/.git/refs/*.lock", false, false),
        ("/p/.git/refs/*lock", true, true),
        ("/p/src/x*", false, false),
    ] {
        let shape = shape(path);
        let found = (may_be_kept(&shape, false), may_be_kept(&shape, true));
        assert_eq!(found, (plain, dotted), "{path}");
    }
    // Behind these beginnings anything may follow.
    for (path, expected) in
        [("/p/.git", true), ("/p/.git/refs", true), ("/p/.git/c*", false), ("/p/src", false)]
    {
        let shape = Shape { open: true, ..shape(path) };
        assert_eq!(may_be_kept(&shape, false), expected, "{path}");
    }
}

#[test]
fn a_segment_with_unknown_stretches_begins_and_ends_as_it_is_spelled() {
    for (symbols, name, expected) in [
        ("HEAD", "HEAD", true),
        ("H*", "HEAD", true),
        ("*D", "HEAD", true),
        ("H*D", "HEAD", true),
        ("*", "HEAD", true),
        ("HEADS", "HEAD", false),
        ("x*", "HEAD", false),
        ("*x", "HEAD", false),
        ("*xHEAD", "HEAD", false),
        (".*", ".git", true),
        ("*.git", ".git", false),
    ] {
        assert_eq!(may_be(&segment(symbols), name.as_bytes(), false), expected, "{symbols} {name}");
    }
}

#[test]
fn a_search_may_find_what_version_control_keeps() {
    for (pattern, expected) in [
        ("*", true),
        (".git", true),
        (".GIT", true),
        ("*.pack", true),
        ("pack-*", true),
        ("pack-1.idx", true),
        ("p?ck", true),
        ("*ain", true),
        ("ab", true),
        ("AB", true),
        ("a?", true),
        ("??", true),
        ("?*?", true),
        ("0123456789abcdef0123456789abcdef012345", true),
        ("[x]", true),
        ("\\x", true),
        ("0123456789abcdef0123456789abcdef01234", false),
        ("0123456789abcdef0123456789abcdef01234x", false),
        ("?", false),
        ("ag", false),
        ("mains", false),
        ("pack-1.idx.x", false),
        ("*.rs", false),
        ("README*", false),
        ("", false),
    ] {
        assert_eq!(may_find_kept(pattern), expected, "{pattern}");
    }
}

#[test]
fn version_control_gives_these_names() {
    for (name, expected) in [
        ("HEAD", true),
        ("head", true),
        ("Main", true),
        ("pack-1.idx", true),
        ("PACK-1.IDX", true),
        ("ab", true),
        ("AB", true),
        ("0123456789abcdef0123456789abcdef012345", true),
        ("0123456789abcdef0123456789abcdef01234", false),
        ("ag", false),
        ("pack-1.id", false),
        ("pack", true),
        ("src", false),
    ] {
        assert_eq!(is_name(name), expected, "{name}");
    }
    let plain: Vec<&str> = plain_names().collect();
    assert!(plain.contains(&"HEAD") && plain.contains(&".git"), "{plain:?}");
    assert!(plain.iter().all(|name| !name.contains('*') && !name.contains('#')), "{plain:?}");
}

#[test]
fn a_search_finds_a_name_in_any_case_of_letters() {
    for (pattern, name, expected) in [
        ("*.env", ".env", true),
        ("*.ENV", "x.env", true),
        ("a?c", "ABC", true),
        ("a?c", "ac", false),
        ("a*c", "ac", true),
        ("a*c", "abd", false),
        ("*a*", "xay", true),
        ("", "a", false),
    ] {
        assert_eq!(may_find(pattern, name), expected, "{pattern} {name}");
    }
    for (pattern, expected) in [("*.lock", true), ("x.lock", true), ("x.locks", false)] {
        assert_eq!(finds_ordinary(pattern), expected, "{pattern}");
    }
}
