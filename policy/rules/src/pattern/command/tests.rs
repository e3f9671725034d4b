use stockade_parser::{Reason, Span, Thin};

use super::*;

fn word(text: &str) -> Word {
    let span = Span::default();
    let unknown = |count| WordClass::Unknown {
        reason: Reason::Parameter,
        count,
        prefix: Thin::EMPTY,
        suffix: Thin::EMPTY,
        joined: false,
    };
    let class = match text {
        "$ONE" => unknown(Count::One),
        "$ANY" => unknown(Count::Any),
        text if text.starts_with("src/$") => WordClass::Unknown {
            reason: Reason::Parameter,
            count: Count::One,
            prefix: b"src/".to_vec().into(),
            suffix: Thin::EMPTY,
            joined: false,
        },
        text => WordClass::Exact(text.replace('_', " ").into_bytes().into()),
    };
    Word { span, class }
}

/// Words are split at blanks; `_` is a blank inside a word, `$ONE` and `$ANY` are unknown words.
fn words(text: &str) -> Vec<Word> {
    text.split(' ').map(word).collect()
}

fn check(pattern: &str, covered: &[&str], missed: &[&str]) {
    let pattern = CommandPattern::new(pattern).unwrap();
    for text in covered {
        assert!(pattern.covers(&words(text)), "{pattern:?} covers {text}");
    }
    for text in missed {
        assert!(!pattern.covers(&words(text)), "{pattern:?} misses {text}");
    }
}

fn strike(pattern: &str, text: &str) -> Strike {
    let words = words(text);
    CommandPattern::new(pattern).unwrap().strikes(&CommandForms::new(&[], &words, b"?"))
}

#[test]
fn exact_covers_these_words_and_no_more() {
    check("npm run build", &["npm run build"], &["npm run", "npm run build x", "npm run_build"]);
    check("git commit -m 'a b'", &["git commit -m a_b"], &["git commit -m a b"]);
    check(r"find . -exec rm {} \;", &["find . -exec rm {} ;"], &[]);
}

#[test]
fn a_trailing_star_is_a_word_boundary() {
    for pattern in ["npm run *", "npm run:*"] {
        check(
            pattern,
            &["npm run", "npm run a b", "npm run $ONE $ANY"],
            &["npm runner", "npm", "npm run_x", "$ONE run x"],
        );
    }
    check("ls*", &["ls", "lsof", "ls -la"], &["als"]);
    check("git:* push", &[], &["git push", "git x push"]);
}

#[test]
fn a_star_spans_words_but_no_unknown_one() {
    check(
        "git * main",
        &["git push origin main", "git checkout main"],
        &["git main", "git $ONE main"],
    );
    check("* install", &["npm install", "a b install"], &["install", "$ONE install"]);
    check(
        "find . -name '*.o' -delete",
        &["find . -name a.o -delete"],
        &["find . -name a.c -delete"],
    );
}

#[test]
fn a_pattern_for_two_commands_covers_none() {
    check("a && b", &[], &["a && b"]);
    check("echo 'a && b'", &["echo a_&&_b"], &[]);
}

#[test]
fn deny_strikes_what_a_word_could_become() {
    assert_eq!(strike("git push *", "git push x"), Strike::Certain);
    assert_eq!(strike("git push *", "$ONE push"), Strike::Possible);
    assert_eq!(strike("git push *", "git $ANY push"), Strike::Possible);
    assert_eq!(strike("git push *", "git $ONE"), Strike::Possible);
    assert_eq!(strike("git push *", "git commit -m $ONE"), Strike::No);
    assert_eq!(strike("git push *", "git push $ONE"), Strike::Certain);
    assert_eq!(strike("rm:*", "src/$x push"), Strike::No);
    assert_eq!(strike("rm:*", "/bin/rm x"), Strike::Certain);
    assert_eq!(strike("rm:*", "rm $ANY"), Strike::Certain);
    assert_eq!(strike("rm:*", "rm $ONE"), Strike::Certain);
    assert_eq!(strike("rm:*", "$ANY rm x"), Strike::Possible);
    assert_eq!(strike("git * --force", "git push $ANY"), Strike::Possible);
}

#[test]
fn spelled_out_words_are_counted() {
    for (pattern, count) in
        [("cargo test:*", 2), ("cargo *", 1), ("ls*", 0), ("npm r* x", 1), ("a b", 2)]
    {
        assert_eq!(CommandPattern::new(pattern).unwrap().literal_words(), count, "{pattern}");
    }
}

#[test]
fn a_pattern_without_a_command_is_an_error() {
    assert!(CommandPattern::new(":*").is_err());
    assert!(CommandPattern::new("  ").is_err());
}

#[test]
fn options_in_front_do_not_step_over_a_rule_that_forbids() {
    for text in [
        "git --no-pager push",
        "git -P push origin",
        "git -C . push",
        "git -c user.name=x -C . push -f",
        "git --git-dir=.git --literal-pathspecs push",
        "/usr/bin/git -C . push",
        "git -C $ONE push",
        // The word `push` may be the value of an option, or not.
        "git -C push log",
    ] {
        let expected = if text.contains('$') { Strike::Possible } else { Strike::Certain };
        assert_eq!(strike("git push:*", text), expected, "{text}");
    }
    assert_eq!(strike("cargo publish:*", "cargo +stable -q publish"), Strike::Certain);
    assert_eq!(strike("rm -rf:*", "rm -v -rf x"), Strike::Certain);
    assert_eq!(strike("npm publish", "npm --silent publish"), Strike::Certain);
    for text in ["npm -- publish", "npm --silent -- publish"] {
        assert_eq!(strike("npm publish:*", text), Strike::Certain, "{text}");
    }
    for text in ["git --no-pager log -- push", "git -C . -- push"] {
        assert_eq!(strike("git push:*", text), Strike::Possible, "{text}");
    }
    for text in ["git log push", "git -C . log push", "git log -- push"] {
        assert_eq!(strike("git push:*", text), Strike::No, "{text}");
    }
    // A pattern without a wildcard matches the command without further words only.
    assert_eq!(strike("git", "git --version"), Strike::No);
}

#[test]
fn more_options_in_front_than_are_left_out_count_as_any() {
    let many = format!("git {}push", "-c a=b ".repeat(400));
    assert_eq!(strike("git push:*", &many), Strike::Possible);
    assert_eq!(strike("rm:*", &many), Strike::No);
}
