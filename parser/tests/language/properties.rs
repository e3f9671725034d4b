//! Statements about every text.

use proptest::prelude::*;
use stockade_parser::{CommandTree, Limits, Programs, StartState, WordClass, parse};

fn read(text: &[u8]) -> CommandTree {
    parse(text, &StartState::default(), Programs::builtin(), &Limits::default()).confirm(&[])
}

/// Pieces of shell text, valid together or not.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a ",
        "b",
        "$(",
        ")",
        "`",
        "\\`",
        "{ ",
        "; }",
        "((",
        "))",
        "$((",
        "if a; then ",
        "; fi",
        "case x in ",
        "x) ",
        ";; ",
        "esac",
        "[[ ",
        " ]]",
        "f() ",
        "<<E\n",
        "\nE\n",
        "<<-'E'\n",
        "\"",
        "'",
        "\\",
        "\\\n",
        "#",
        "$x",
        "${x:-",
        "}",
        "$'",
        "<(",
        ">o ",
        "2>&1",
        "!",
        "x=1 ",
        "a[1]=",
        "a=(",
        "{a,b}",
        "&& ",
        "|",
        ";",
        "\n",
        "for i in a; do ",
        "; done",
        "\t",
        "\u{e9}",
        "~",
        "*",
        "eval ",
        "bash -c '",
        "$[",
        "=~ ",
        "coproc ",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn assert_tiles(text: &[u8]) {
    let mut at = 0;
    for token in read(text).tokens() {
        assert_eq!(token.span.start, at, "in {:?}", String::from_utf8_lossy(text));
        assert!(token.span.end > at);
        at = token.span.end;
    }
    assert_eq!(at as usize, text.len(), "in {:?}", String::from_utf8_lossy(text));
}

/// One word in a given quoting style.
fn quoted(bytes: &[u8], style: u8) -> Vec<u8> {
    let mut out = Vec::new();
    match style {
        0 => {
            out.push(b'\'');
            for byte in bytes {
                if *byte == b'\'' { out.extend_from_slice(b"'\\''") } else { out.push(*byte) }
            }
            out.push(b'\'');
        }
        1 => {
            out.push(b'"');
            for byte in bytes {
                if b"$`\"\\".contains(byte) {
                    out.push(b'\\');
                }
                out.push(*byte);
            }
            out.push(b'"');
        }
        _ => {
            out.extend_from_slice(b"$'");
            for byte in bytes {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            out.push(b'\'');
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tokens_tile_any_bytes(text in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assume!(!text.contains(&0) && !text.is_empty());
        assert_tiles(&text);
    }

    #[test]
    fn tokens_tile_shell_text(text in pieces()) {
        prop_assume!(!text.is_empty());
        assert_tiles(text.as_bytes());
    }

    #[test]
    fn quoting_and_reading_gives_the_bytes_back(
        bytes in prop::collection::vec(1_u8..=255, 0..24),
        style in 0_u8..3,
    ) {
        let text = [b"echo ".as_slice(), &quoted(&bytes, style)].concat();
        let tree = read(&text);
        let words = &tree.commands()[0].words;
        prop_assert_eq!(words.len(), 2);
        prop_assert_eq!(&words[1].class, &WordClass::Exact(bytes.into()));
    }

    #[test]
    fn a_continuation_changes_no_word(
        words in prop::collection::vec("[a-z0-9=/.-]{1,6}", 1..5),
        place in 0_usize..40,
    ) {
        let text = format!("run {}", words.join(" "));
        let at = place % (text.len() + 1);
        let broken = [&text.as_bytes()[..at], b"\\\n", &text.as_bytes()[at..]].concat();
        let classes = |tree: &CommandTree| -> Vec<Vec<WordClass>> {
            let commands = tree.commands().iter();
            commands.map(|it| it.words.iter().map(|word| word.class.clone()).collect()).collect()
        };
        prop_assert_eq!(classes(&read(text.as_bytes())), classes(&read(&broken)));
    }

    #[test]
    fn wrapping_in_eval_keeps_the_commands(words in prop::collection::vec("z[a-z]{0,5}", 1..4)) {
        let inner = words.join(" ");
        let tree = read(format!("eval '{inner}'").as_bytes());
        let expected: Vec<WordClass> =
            words.iter().map(|word| WordClass::Exact(word.as_bytes().into())).collect();
        let found = tree.commands().iter().any(|command| {
            command.words.iter().map(|word| word.class.clone()).collect::<Vec<_>>() == expected
        });
        prop_assert!(found);
    }
}
