use super::*;

const ANCHORS: fn() -> Anchors =
    || Anchors { places: vec!["/p/sub".into()], homes: vec!["/h".into()] };

fn check(text: &str, effect: Decision, matched: &[&str], missed: &[&str]) {
    let pattern = PathPattern::new(text, Path::new("/p"), effect).unwrap();
    for path in matched {
        assert!(pattern.matches(Path::new(path), &ANCHORS()), "{text} matches {path}");
    }
    for path in missed {
        assert!(!pattern.matches(Path::new(path), &ANCHORS()), "{text} misses {path}");
    }
}

#[test]
fn anchors_are_root_home_source_and_working_directory() {
    check("//opt/data/**", Decision::Allow, &["/opt/data/a/b"], &["/opt/data", "/opt/datax"]);
    check("~/notes", Decision::Allow, &["/h/notes", "/h/notes/a"], &["/h/x/notes"]);
    check("/opt/data", Decision::Allow, &["/p/opt/data/a"], &["/opt/data/a", "/p/sub/opt/data"]);
    check("a/b", Decision::Allow, &["/p/sub/a/b"], &["/p/a/b", "/p/sub/x/a/b"]);
    check("./a/b", Decision::Allow, &["/p/sub/a/b"], &["/p/a/b"]);
}

#[test]
fn a_bare_name_is_meant_at_any_depth_under_its_anchor() {
    for effect in [Decision::Allow, Decision::Deny] {
        check(".env", effect, &["/p/sub/.env", "/p/sub/a/.env/x"], &["/p/.env", "/p/sub/.envx"]);
        check("*.ts", effect, &["/p/sub/a/b.ts"], &["/p/sub/a/b.tsx"]);
    }
}

#[test]
fn a_directory_of_one_segment_is_anchored_in_allow_only() {
    check("src/**", Decision::Allow, &["/p/sub/src/a"], &["/p/sub/x/src/a", "/p/sub/src"]);
    check(
        "src/**",
        Decision::Deny,
        &["/p/sub/src/a", "/p/sub/x/src/a", "/p/sub/src"],
        &["/p/src/a"],
    );
    check("a/src/**", Decision::Deny, &["/p/sub/a/src/x"], &["/p/sub/x/a/src/x"]);
}

#[test]
fn stars_stay_in_a_segment_and_double_stars_cross() {
    check("a/*/c", Decision::Allow, &["/p/sub/a/b/c"], &["/p/sub/a/b/b/c"]);
    check("a/**/c", Decision::Allow, &["/p/sub/a/c", "/p/sub/a/b/b/c"], &["/p/sub/a/b"]);
    check("//**/x[0-9]?", Decision::Deny, &["/q/x1a"], &["/q/xa1"]);
    check("**", Decision::Allow, &["/p/sub/a"], &["/p/a"]);
}

#[test]
fn negation_and_parents_are_refused() {
    for text in ["!a", "a/../b", ""] {
        assert!(PathPattern::new(text, Path::new("/p"), Decision::Deny).is_err(), "{text}");
    }
}

#[test]
fn a_shape_may_match_what_it_could_become() {
    let known = |text: &str| ShapeSegment::Known(text.as_bytes().to_vec());
    let glob = |text: &str| {
        ShapeSegment::Glob(text.bytes().map(|b| if b == b'*' { None } else { Some(b) }).collect())
    };
    let pattern = PathPattern::new(".env", Path::new("/p"), Decision::Deny).unwrap();
    for (last, open, expected) in [
        (glob(".en*"), false, true),
        (glob("*"), false, false),
        (glob("*.c"), false, false),
        (known("a"), true, true),
        (known("a"), false, false),
    ] {
        let shape = Shape { segments: vec![known("p"), known("sub"), last.clone()], open };
        assert_eq!(pattern.may_match(&shape, &ANCHORS()), expected, "{last:?} {open}");
    }
}

#[test]
fn what_is_no_wildcard_in_a_rule_is_none_in_its_text() {
    let anchors = Anchors { places: vec!["/p [1]".into()], homes: vec!["/h*".into()] };
    let text = |rule: &str| {
        let pattern = PathPattern::new(rule, Path::new("/s?"), Decision::Deny).unwrap();
        pattern.absolute(&anchors).concat()
    };
    assert_eq!(text("./a/\\[id\\]"), "/p [[]1]/a/[[]id]");
    assert_eq!(text("~/x"), "/h[*]/x");
    assert_eq!(text("/\\**"), "/s[?]/[*]*");
    assert_eq!(text("//\\*\\*/[^a]?"), "/[*][*]/[!a-a]?");
    assert_eq!(text("//[é-ü]x"), "/[é-ü]x");
    assert_eq!(text("//[]a-]x"), "/[]a-a-]x");
}

#[test]
fn a_text_for_each_place_and_none_for_what_lies_in_another_at_any_depth() {
    let places = ["/p/src", "/p/src", "/p", "/q"].map(PathBuf::from).to_vec();
    let anchors = Anchors { places, homes: Vec::new() };
    let texts = |rule: &str| {
        let pattern = PathPattern::new(rule, Path::new("/s"), Decision::Deny).unwrap();
        pattern.absolute(&anchors)
    };
    assert_eq!(texts("./a/b"), ["/p/src/a/b", "/p/a/b", "/q/a/b"]);
    assert_eq!(texts(".env"), ["/p/**/.env", "/q/**/.env"]);
    assert_eq!(texts("//a"), ["/a"]);
    assert_eq!(texts("~/a"), [] as [&str; 0]);
}

#[test]
fn a_question_mark_and_a_class_stand_for_a_character_however_many_bytes_it_has() {
    check("//a?", Decision::Deny, &["/aé", "/ab"], &["/aéé", "/a"]);
    check("//[à-ü]", Decision::Deny, &["/é"], &["/e", "/éé"]);
    check("//[!a]", Decision::Deny, &["/é"], &["/a"]);
}

mod against_globset {
    use globset::GlobBuilder;
    use proptest::prelude::*;

    use super::*;

    /// Returns the answer of `globset`: about the path, or about a directory that it lies in.
    fn other(pattern: &str, path: &str) -> Option<bool> {
        let mut builder = GlobBuilder::new(pattern);
        let glob = builder.literal_separator(true).backslash_escape(true).build().ok()?;
        let glob = glob.compile_matcher();
        Some(Path::new(path).ancestors().any(|part| glob.is_match(part)))
    }

    fn ours(pattern: &str, path: &str) -> bool {
        let pattern = PathPattern::new(&format!("/{pattern}"), Path::new("/"), Decision::Deny);
        pattern.unwrap().matches(Path::new(path), &ANCHORS())
    }

    /// Says whether both matchers promise the same for a pattern: ours covers the directory before a last `**` as well, knows
    /// no `.` and `..`, and takes two stars within a name for one.
    fn is_meant_alike(pattern: &str) -> bool {
        let is_name =
            |name: &str| name == "**" || !(name == "." || name == ".." || name.contains("**"));
        !pattern.ends_with("/**") && pattern.split('/').all(is_name)
    }

    const PATTERN: &str = r"(/(\*\*|([ab.*?]|\[[!^]?[ab]([a-b]-[b-c])?\]|\\[*?b]){1,4})){1,4}";

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

        #[test]
        fn patterns_match_as_those_of_another_matcher(
            pattern in PATTERN,
            path in "(/[ab.*?]{1,4}){1,5}",
        ) {
            let is_plain = !path.split('/').any(|name| name == "." || name == "..");
            if !is_meant_alike(&pattern) || !is_plain {
                return Ok(());
            }
            if let Some(expected) = other(&pattern, &path) {
                prop_assert_eq!(ours(&pattern, &path), expected, "{} {}", pattern, path);
            }
        }
    }

    /// Why rules are not matched by it.
    #[test]
    fn a_character_is_a_byte_for_the_other_matcher() {
        assert_eq!((other("/a?", "/aé"), ours("/a?", "/aé")), (Some(false), true));
    }
}
