//! Words as shell text.

/// Words that bash reads as syntax where a command begins, unless they are quoted (bash manual, 3.2.1).
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done",
    "case", "esac", "coproc", "select", "function",
];

/// Returns shell text that means exactly these words: each in single quotes unless it is plain.
pub fn quoted(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:,+@%".contains(&byte))
    };
    let quote = |(index, word): (usize, &String)| {
        let reserved = index == 0 && RESERVED.contains(&word.as_str());
        if plain(word) && !reserved {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    words.iter().enumerate().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_so_that_no_byte_means_something() {
        let words = ["a", "b c", "it's", "$(x)", "", "*", "~", "FOO=1", "-n"].map(String::from);
        assert_eq!(quoted(&words), r"a 'b c' 'it'\''s' '$(x)' '' '*' '~' 'FOO=1' -n");
        assert_eq!(quoted(&["time".into(), "time".into()]), "'time' time");
    }
}
